//! A process that is killed in any of its steps while it brings a journal in order, in many situations, with
//! or without a restart of the machine. Whoever comes next finds every batch whole, once and with its
//! number, and every line of others (J6, J7).

use std::fs;

use tenure::WriteOptions;

use crate::faulty_fs::Op;
use crate::journal_stage::{Death, LOG_SYNCED, Stage, WRITTEN, durable, no_sync};

/// Lines are told from each other by their beginnings.
const NAME_BYTES: usize = 20;

/// A journal to be brought in order: batches that were logged, with their numbers, and lines of others.
struct Situation {
    stage: Stage,
    logged: Vec<(u64, String)>,
    theirs: Vec<String>,
}

impl Situation {
    fn new() -> Self {
        let stage = Stage::new();
        stage.append("first", &durable());
        Self { stage, logged: vec![(1, "first".to_owned())], theirs: Vec::new() }
    }

    /// A batch is logged by a process that dies at `step`.
    fn log(&mut self, lines: &[String], step: (Op, &'static str), death: Death) {
        let options = if step == LOG_SYNCED { durable() } else { no_sync() };
        self.stage.die_at(step, 1, death);
        assert!(self.stage.journal().append(lines, &options).is_err());
        self.stage.live_on();
        let next = self.logged.last().map_or(1, |(seq, _)| seq + 1);
        self.logged.extend((next..).zip(lines.iter().cloned()));
    }

    fn foreign(&mut self, line: &str, end: &str) {
        self.stage.foreign(&format!("{line}{end}"));
        self.theirs.push(line.to_owned());
    }

    /// Every line is there, once; those of batches have their numbers.
    fn check(&self, when: &str) {
        let lines = self.stage.entries();
        let mut entries = lines.clone();
        for entry in &mut entries {
            entry.1.truncate(NAME_BYTES);
        }
        let seqs: Vec<u64> = entries.iter().map(|(seq, _)| *seq).collect();
        assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{when}: {seqs:?}");
        for (seq, line) in &self.logged {
            let line = &line[..line.len().min(NAME_BYTES)];
            let found: Vec<_> = entries.iter().filter(|entry| entry.1 == line).collect();
            assert_eq!(found, [&(*seq, line.to_owned())], "{when}: in {entries:?}");
        }
        for line in &self.theirs {
            let found = entries.iter().filter(|entry| entry.1 == *line).count();
            assert_eq!(found, 1, "{when}: {line} in {entries:?}");
        }
        let others =
            ["next", "last"].map(|line| entries.iter().filter(|found| found.1 == line).count());
        assert!(others[0] <= 1 && others[1] == 1, "{when}: {entries:?}");
        let all = self.logged.len() + self.theirs.len() + others[0] + others[1];
        assert_eq!(entries.len(), all, "{when}: {entries:?}");
        // For those who read it without tenure, too.
        let text = self.stage.text();
        let mut plain: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut told: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        plain.sort_unstable();
        told.sort_unstable();
        assert!(plain == told, "{when}: {entries:?}");
        let report = self.stage.journal().verify().unwrap();
        assert!(report.is_sound() && report.pending == 0, "{when}: {report:?}");
    }
}

/// How the first process ends that brings it in order, and whether the machine restarts after it.
#[derive(Debug, Clone, Copy)]
struct End {
    death: Death,
    reboots: bool,
}

const KILLS: [End; 2] =
    [End { death: Death::Within, reboots: false }, End { death: Death::After, reboots: false }];
const RESTARTS: [End; 2] =
    [End { death: Death::Within, reboots: true }, End { death: Death::After, reboots: true }];

/// Ends the first process at its `nth` step. Returns whether it had so many.
fn ended(make: fn() -> Situation, nth: usize, end: End) -> bool {
    let situation = make();
    let stage = &situation.stage;
    stage.die_at_step(nth, end.death);
    let _ = stage.journal().append(&["next"], &no_sync());
    let died = stage.is_dead();
    stage.live_on();
    if end.reboots {
        stage.fs.reboot();
    }
    stage.append("last", &no_sync());
    situation.check(&format!("{end:?} at step {nth}"));
    died
}

fn at_every_step(make: fn() -> Situation, ends: &[End]) {
    for end in ends {
        let needed = (1..1000).find(|nth| !ended(make, *nth, *end));
        assert!(needed.is_some_and(|nth| nth > 8), "{needed:?}");
    }
}

fn lines(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn j7_a_batch_that_a_line_of_others_overtook() {
    let make = || {
        let mut situation = Situation::new();
        situation.log(&lines(&["second", "third"]), LOG_SYNCED, Death::Before);
        situation.foreign("theirs", "\n");
        situation
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

#[test]
fn j7_two_batches_that_an_open_line_of_others_overtook() {
    let make = || {
        let mut situation = Situation::new();
        situation.log(&lines(&["second", "third"]), LOG_SYNCED, Death::Before);
        situation.log(&lines(&["fourth"]), LOG_SYNCED, Death::Before);
        situation.foreign("theirs", "");
        situation
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

#[test]
fn j7_a_batch_that_was_half_written() {
    let make = || {
        let mut situation = Situation::new();
        situation.log(&lines(&["second", "third"]), WRITTEN, Death::Within);
        situation
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

#[test]
fn j7_a_batch_that_was_written_and_not_counted_and_a_line_of_others() {
    let make = || {
        let mut situation = Situation::new();
        situation.log(&lines(&["second", "third"]), WRITTEN, Death::After);
        situation.foreign("theirs", "\n");
        situation
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

/// A kernel tears a write at a page, so none of the blanks.
#[test]
fn j6_a_batch_torn_at_a_page_with_a_line_of_others_behind_it() {
    let make = || {
        let mut situation = Situation::new();
        let batch: Vec<String> = (0..9).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
        situation.log(&batch, WRITTEN, Death::Before);
        let text = format!("first\n{}", batch.join("\n"));
        situation.stage.overwrite(&text[..8192]);
        situation.foreign("theirs", "\n");
        situation
    };
    at_every_step(make, &KILLS[1..]);
}

#[test]
fn j5_a_checkpoint_that_died_before_its_anchor_and_a_line_of_others() {
    let make = || {
        let mut situation = Situation::new();
        let stage = situation.stage.clone();
        stage.journal().repair(&WriteOptions::default()).unwrap();
        stage.append("second", &no_sync());
        situation.logged.push((2, "second".to_owned()));
        stage.die_at((Op::Sync, "index"), 1, Death::After);
        assert!(stage.journal().repair(&WriteOptions::default()).is_err());
        stage.live_on();
        situation.foreign("theirs", "\n");
        situation
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

#[test]
fn j8_a_batch_whose_journal_was_replaced() {
    let make = || {
        let mut situation = Situation::new();
        situation.log(&lines(&["second", "third"]), WRITTEN, Death::Within);
        situation.stage.replace("theirs");
        situation.logged.remove(0);
        situation.theirs.push("theirs".to_owned());
        situation
    };
    at_every_step(make, &KILLS);
}

/// Whoever numbers it dies before its own batch closes the line.
#[test]
fn j8_a_journal_of_others_whose_last_line_is_open() {
    let make = || {
        let stage = Stage::new();
        stage.foreign("theirs");
        Situation { stage, logged: Vec::new(), theirs: vec!["theirs".to_owned()] }
    };
    at_every_step(make, &KILLS);
    at_every_step(make, &RESTARTS);
}

/// The batch of [`torn`]: nine lines of a thousand bytes, of which `page` bytes of the file are there.
fn torn(page: usize) -> (Stage, String) {
    let stage = Stage::new();
    stage.append("first", &durable());
    let batch: Vec<String> = (0..9).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
    stage.die_at(WRITTEN, 1, Death::Before);
    assert!(stage.journal().append(&batch, &no_sync()).is_err());
    stage.live_on();
    let text = format!("first\n{}\n", batch.join("\n"));
    stage.overwrite(&text[..page]);
    (stage, text[6..].to_owned())
}

#[test]
fn j6_a_torn_beginning_is_copied_before_it_is_blanked_from_its_end() {
    for (page, writes) in [(4096, 1), (8192, 2)] {
        let (stage, batch) = torn(page);
        stage.foreign("theirs\n");
        let copied = (Op::Write, "torn");
        let done = stage.append("next", &no_sync());
        assert_eq!((done.first, done.adopted, done.rolled_forward), (12, 1, 1));
        let blank = " ".repeat(page - 7);
        assert_eq!(stage.text(), format!("first\n{blank}\ntheirs\n{batch}next\n"));
        assert_eq!(fs::read_to_string(stage.side("torn")).unwrap(), batch[..page - 6]);
        let steps = stage.done(&[copied, WRITTEN]);
        assert_eq!(steps.len(), 1 + writes + 2, "{steps:?}");
        assert_eq!(steps[0], copied, "{steps:?}");
        assert!(stage.journal().verify().unwrap().is_sound());
    }
    // The last page goes first: what is left before it is still the beginning of the batch.
    let (stage, batch) = torn(8192);
    stage.foreign("theirs\n");
    stage.die_at(WRITTEN, 1, Death::After);
    assert!(stage.journal().append(&["next"], &no_sync()).is_err());
    let text = stage.text();
    assert_eq!(text[6..4096], batch[..4090]);
    assert_eq!(text[4096..], format!("{}\ntheirs\n", " ".repeat(4095)));
}

#[test]
fn j6_what_was_set_aside_is_bounded() {
    const MAX: usize = 1 << 20;
    for (there, expected) in [(MAX - 4090, MAX), (MAX - 4089, 4090), (3, 4093)] {
        let (stage, batch) = torn(4096);
        stage.foreign("theirs\n");
        fs::write(stage.side("torn"), vec![b'-'; there]).unwrap();
        stage.append("next", &no_sync());
        let torn = fs::read(stage.side("torn")).unwrap();
        assert_eq!(torn.len(), expected, "{there}");
        assert!(torn.ends_with(&batch.as_bytes()[..4090]), "{there}");
    }
}
