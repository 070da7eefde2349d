//! Crashing the journal after every operation of a mixed load, by power loss and by killing the
//! process, and again while it recovers. Cites J1-J10 of docs/FORMAT.md and races 38-43, 51, 54.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Fs};
use tenure::options::Durability;
use tenure::{AppendOptions, Journal, WriteOptions};
use tenure_testkit::{Broken, CrashKind, Fault, Random, SimFs, Times};

use crate::scratch;

const PATH: &str = "/d/log.jsonl";

/// A batch that a call tried to append.
#[derive(Debug, Clone)]
struct Tried {
    lines: Vec<String>,
    durable: bool,
    /// The first number, once acknowledged.
    acked: Option<u64>,
}

#[derive(Debug, Default)]
struct Model {
    tried: Vec<Tried>,
    /// Complete lines whose write has returned.
    foreign: Vec<String>,
    foreign_tries: u64,
    power_lost: bool,
    /// The journal's length after the last call that returned.
    settled_len: usize,
}

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn options(durable: bool) -> AppendOptions {
    let durability = if durable { Durability::Durable } else { Durability::NoSync };
    AppendOptions {
        write: WriteOptions { durability, ..WriteOptions::default() },
        ..AppendOptions::default()
    }
}

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

impl Model {
    fn append(&mut self, journal: &Journal, random: &mut Random, durable: bool) -> bool {
        let (id, count) = (self.tried.len(), 1 + random.below(4));
        let pad_max = if random.chance(5) { 6000 } else { 40 };
        let pad = "x".repeat(random.index(pad_max));
        let line = |at| format!("B {id} {at} {count} {pad}");
        let lines: Vec<String> = (0..count).map(line).collect();
        let done = journal.append(&lines, &options(durable));
        let acked = done.as_ref().ok().map(|appended| appended.first);
        if let Ok(appended) = &done {
            assert_eq!(appended.last - appended.first + 1, count);
        }
        self.tried.push(Tried { lines, durable, acked });
        done.is_ok()
    }

    fn append_foreign(&mut self, fs: &Arc<dyn Fs>, random: &mut Random, durable: bool) {
        let Ok(file) = fs.open(Path::new(PATH), Access::Append) else { return };
        self.foreign_tries += 1;
        let line = format!("F {} {}", self.foreign_tries, "y".repeat(random.index(30)));
        let whole = format!("{line}\n");
        if file.append(whole.as_bytes()).is_ok_and(|(written, _)| written == whole.len()) {
            let kept = !durable || file.sync().is_ok();
            if kept {
                self.foreign.push(line);
            }
        }
    }

    /// A mixed load; stops at the first error, as a killed process does.
    fn work(&mut self, fs: &SimFs, random: &mut Random, steps: u64) {
        let journal = open(fs);
        for step in 0..steps {
            // Recovery comes first where there is something to recover.
            let choices = if step == 0 { 7 } else { 10 };
            let fine = match random.below(choices) {
                0..4 => self.append(&journal, random, true),
                4..7 => self.append(&journal, random, false),
                7..9 => {
                    self.append_foreign(&fs.shared(), random, false);
                    !fs.is_down()
                }
                _ => journal.repair(&WriteOptions::default()).is_ok(),
            };
            if !fine {
                return;
            }
            self.settled_len = fs.peek(PATH).map_or(0, |bytes| bytes.len());
        }
    }

    /// Checks what a reader sees now.
    fn check(&self, journal: &Journal, when: &str) {
        let mut entries = Vec::new();
        for entry in journal.read(0, None).unwrap() {
            match entry {
                // Lines without a sync may be gone with the power, and are reported.
                Err(error) if error.gap().is_some() && self.power_lost => {}
                entry => entries.push(entry.unwrap()),
            }
        }
        for pair in entries.windows(2) {
            assert!(pair[0].seq < pair[1].seq, "{when}: numbers grow");
        }
        let lines: Vec<String> =
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect();
        for tried in &self.tried {
            let found: Vec<usize> =
                (0..lines.len()).filter(|at| tried.lines.contains(&lines[*at])).collect();
            let kept = tried.durable || !self.power_lost;
            if tried.acked.is_some() && kept {
                assert!(!found.is_empty(), "{when}: an acknowledged batch is gone: {tried:?}");
            }
            if found.is_empty() || !kept {
                continue;
            }
            let start = found[0];
            let there: Vec<&String> = lines.iter().skip(start).take(tried.lines.len()).collect();
            assert_eq!(there, tried.lines.iter().collect::<Vec<_>>(), "{when}: whole, in order");
            // A known limit: lines of a batch that other lines had displaced may appear twice after
            // a power loss.
            if !self.power_lost || self.foreign_tries == 0 {
                assert_eq!(found.len(), tried.lines.len(), "{when}: once: {lines:#?}");
            }
            if let Some(first) = tried.acked {
                assert_eq!(entries[start].seq, first, "{when}: with its number");
            }
        }
        if !self.power_lost {
            let pending =
                journal.read(u64::MAX, None).and_then(|entries| entries.pending()).unwrap();
            let pending = pending.iter().map(|line| String::from_utf8_lossy(line).into_owned());
            let visible: Vec<String> = lines.iter().cloned().chain(pending).collect();
            for line in &self.foreign {
                // A process that dies inside a write may leave a partial line, and the next line is
                // joined to it.
                let found = visible.iter().filter(|found| found.ends_with(line.as_str())).count();
                assert_eq!(found, 1, "{when}: a foreign line survives once: {line}");
            }
        }
        let report = journal.verify().unwrap();
        assert!(report.is_sound(), "{when}: {report:?}");
    }
}

fn crash(fs: &SimFs, kind: CrashKind, model: &mut Model) {
    match kind {
        CrashKind::Power => {
            fs.crash();
            model.power_lost = true;
            model.foreign.clear();
        }
        CrashKind::Process => fs.process_crash(),
    }
}

/// One story: work, crash at `nth`, crash again at `again` of the recovery, recover, check.
fn story(seed: u64, nth: u64, again: u64, kinds: [CrashKind; 2], broken: Broken) -> u64 {
    let fs = machine(seed);
    let _tell = fs.tell_on_panic();
    fs.break_promises(broken);
    let mut random = Random::new(seed);
    let mut model = Model::default();
    fs.fail_after(nth, kinds[0]);
    model.work(&fs, &mut random, 9);
    let operations = fs.operations();
    crash(&fs, kinds[0], &mut model);
    // The simulated disk tears the write of a killed process at any byte, a kernel only at a page.
    // What other tools append to such a tear has its own test.
    let untorn = fs.peek(PATH).map_or(0, |bytes| bytes.len()) == model.settled_len;
    if random.coin() && (untorn || kinds[0] == CrashKind::Power) {
        model.append_foreign(&fs.shared(), &mut random, false);
    }
    fs.fail_after(again, kinds[1]);
    model.work(&fs, &mut random, 2);
    crash(&fs, kinds[1], &mut model);
    model.check(&open(&fs), "before recovery");
    assert!(model.append(&open(&fs), &mut random, true), "it can be written again");
    model.check(&open(&fs), "after recovery");
    operations
}

fn sweep(seeds: std::ops::Range<u64>, kinds: [CrashKind; 2], broken: Broken) {
    for seed in scratch::seeds(seeds) {
        let total = story(seed, u64::MAX / 2, u64::MAX / 2, kinds, broken);
        for nth in 1..=total {
            story(seed, nth, 1 + (nth * 7 + seed) % 40, kinds, broken);
        }
    }
}

#[test]
fn j7_an_acknowledged_batch_survives_power_loss_whole_and_with_its_number() {
    sweep(0..24, [CrashKind::Power, CrashKind::Power], Broken::default());
}

#[test]
fn j7_a_killed_process_leaves_nothing_half_done() {
    sweep(100..124, [CrashKind::Process, CrashKind::Process], Broken::default());
}

#[test]
fn j7_power_loss_and_killed_processes_mix() {
    sweep(200..212, [CrashKind::Process, CrashKind::Power], Broken::default());
    sweep(300..312, [CrashKind::Power, CrashKind::Process], Broken::default());
}

/// What long runs once found: log entries that outlived the one before them joined the chain of the
/// next boot; an anchor counted although its writer had died before it was synced.
#[test]
fn j3_j1_seeds_that_found_something_once() {
    for seed in [138, 2775, 2868, 2944, 3312] {
        sweep(seed..seed + 1, [CrashKind::Power, CrashKind::Power], Broken::default());
    }
    sweep(299..300, [CrashKind::Process, CrashKind::Power], Broken::default());
}

/// One fault at `nth`, after which the load continues; then the power fails. Returns whether the
/// fault was reached.
fn faulty(seed: u64, nth: u64, fault: Fault) -> bool {
    let fs = machine(seed);
    let _tell = fs.tell_on_panic();
    let mut random = Random::new(seed);
    let mut model = Model::default();
    let journal = open(&fs);
    // Only new names fix a failed sync of a directory: those are made here.
    assert!(model.append(&journal, &mut random, true));
    fs.inject(nth, fault, Times::Once);
    for step in 0..8 {
        // An error is a valid answer; the next call must still work.
        model.append(&journal, &mut random, step % 3 != 2);
        if step == 4 {
            let _ = journal.repair(&WriteOptions::default());
        }
    }
    let struck = fs.faults_fired() > 0;
    fs.clear_faults();
    assert!(model.append(&journal, &mut random, true), "no lock is leaked, nothing is stuck");
    model.check(&open(&fs), "after the fault");
    fs.crash();
    model.power_lost = true;
    model.check(&open(&fs), "after a power loss");
    struck
}

#[test]
fn race_43_54_one_fault_at_any_step_loses_nothing_that_was_acknowledged() {
    let faults = [Fault::NoSpace, Fault::SyncFailure, Fault::Io, Fault::ShortWrite];
    for fault in faults.into_iter().chain([Fault::TooManyFiles]) {
        for seed in scratch::seeds(0..8) {
            let mut nth = 1;
            while faulty(seed, nth, fault) {
                nth += 1;
            }
        }
    }
}

/// Replaces the file in one of three ways, crashing at `nth`; then every entry is still there.
fn replacement(seed: u64, nth: u64, kind: CrashKind, way: u64) -> u64 {
    let fs = machine(seed);
    let _tell = fs.tell_on_panic();
    let mut random = Random::new(seed);
    let mut model = Model::default();
    if random.coin() {
        fs.inject(1, Fault::NoExchange, Times::Forever);
    }
    let journal = open(&fs);
    for _ in 0..3 {
        assert!(model.append(&journal, &mut random, true));
    }
    model.append_foreign(&fs.shared(), &mut random, true);
    let before = fs.operations();
    fs.fail_after(nth, kind);
    let write = WriteOptions::default();
    match way {
        0 => drop(journal.rotate(&write)),
        1 => drop(journal.compact(&write, |_| true)),
        _ => {
            let header = Some(b"# header".to_vec());
            let lines = vec![format!("B {} 0 1 ", model.tried.len())];
            let done = journal.append(&lines, &AppendOptions { header, ..options(true) });
            let acked = done.ok().map(|done| done.first);
            model.tried.push(Tried { lines, durable: true, acked });
        }
    }
    let operations = fs.operations() - before;
    match kind {
        CrashKind::Power => fs.crash(),
        CrashKind::Process => fs.process_crash(),
    }
    model.check(&open(&fs), "before recovery");
    assert!(model.append(&open(&fs), &mut random, true), "it can be written again");
    model.check(&open(&fs), "after recovery");
    operations
}

#[test]
fn j10_rotation_compaction_and_header_survive_a_crash_at_every_step() {
    for kind in [CrashKind::Power, CrashKind::Process] {
        for way in 0..3 {
            for seed in scratch::seeds(0..12) {
                let total = replacement(seed, u64::MAX / 2, kind, way);
                for nth in 1..=total {
                    replacement(seed, nth, kind, way);
                }
            }
        }
    }
}

/// Interrupts a rotation at `nth`, takes the archive's name, and continues. Returns whether it was
/// interrupted.
fn rotation_without_its_name(nth: u64, kind: CrashKind, exchange: bool) -> bool {
    let (fs, theirs) = (machine(nth), "/d/log.jsonl.1");
    let _tell = fs.tell_on_panic();
    if !exchange {
        fs.inject(1, Fault::NoExchange, Times::Forever);
    }
    let (mut random, mut model) = (Random::new(nth), Model::default());
    assert!(model.append(&open(&fs), &mut random, true));
    assert!(model.append(&open(&fs), &mut random, true));
    fs.fail_after(nth, kind);
    let cut = open(&fs).rotate(&WriteOptions::default()).is_err();
    match kind {
        CrashKind::Power => fs.crash(),
        CrashKind::Process => fs.process_crash(),
    }
    let free = fs.peek(theirs).is_none();
    if free {
        fs.add_file(theirs, "theirs");
    }
    model.check(&open(&fs), "before recovery");
    assert!(model.append(&open(&fs), &mut random, true), "it can be written again");
    model.check(&open(&fs), "after recovery");
    assert!(open(&fs).rotate(&WriteOptions::default()).is_ok());
    model.check(&open(&fs), "after the next rotation");
    assert!(!free || fs.peek(theirs).is_some_and(|bytes| bytes == b"theirs"));
    cut
}

#[test]
fn race_40_j10_an_archive_whose_name_was_taken_stays_beside_the_sidecars() {
    for kind in [CrashKind::Power, CrashKind::Process] {
        for exchange in [true, false] {
            let whole = (1..1000).find(|nth| !rotation_without_its_name(*nth, kind, exchange));
            assert!(whole.is_some_and(|nth| nth > 20), "every step was cut");
        }
    }
}

#[test]
fn j6_a_batch_torn_at_a_page_is_set_aside_when_a_foreign_line_follows_it() {
    for page in [4096, 8192] {
        let lines: Vec<String> = (0..12).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
        let stopped_at_the_write = |nth| {
            let fs = machine(1);
            open(&fs).append(&["first"], &options(true)).unwrap();
            fs.fail_after(nth, CrashKind::Process);
            assert!(open(&fs).append(&lines, &options(true)).is_err(), "it comes to the write");
            let torn = |line: &str| line.contains("Append /d/log.jsonl") && line.contains("down");
            let found = fs.history().lines().any(torn);
            fs.process_crash();
            found.then_some(fs)
        };
        let fs = (1..).find_map(stopped_at_the_write).unwrap();
        let settled = "first\n".len();
        let file = fs.shared().open(Path::new(PATH), Access::Append).unwrap();
        let whole = lines.join("\n");
        file.set_len(settled as u64).unwrap();
        file.append(&whole.as_bytes()[..page - settled]).unwrap();
        file.append(b"{\"foreign\":1}\n").unwrap();
        let journal = open(&fs);
        let done = journal.append(&["last"], &options(true)).unwrap();
        assert_eq!(done.adopted, 1);
        let entries: Vec<_> = journal.read(2, None).unwrap().map(Result::unwrap).collect();
        let copies = entries.iter().filter(|entry| entry.line.ends_with(b"xxxx")).count();
        assert_eq!(copies, 12, "the batch is there once, whole");
        assert!(entries.iter().any(|entry| entry.line == b"{\"foreign\":1}"), "it stands alone");
        assert!(journal.verify().unwrap().is_sound());
    }
}

#[test]
fn the_crash_test_notices_a_disk_that_does_not_sync() {
    let broken = Broken { ignore_sync: true, ..Broken::default() };
    let kinds = [CrashKind::Power, CrashKind::Power];
    let found = std::panic::catch_unwind(|| sweep(0..24, kinds, broken));
    assert!(found.is_err(), "a lost sync must be noticed");
}
