//! A journal is replaced by rotation, compaction or a header: every step in its place, cut at each of
//! them, and with others at work beside it (J10, G10, races 40 and 41).

use std::sync::{Arc, Mutex};

use tenure::{AppendOptions, Journal, Result, WriteOptions};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::watched_journal::{Outsider, PATH, Watched, numbered, with_header, write};

/// How a journal is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Rotate,
    Compact,
    Stamp,
}

pub(crate) const WAYS: [Way; 3] = [Way::Rotate, Way::Compact, Way::Stamp];

impl Way {
    /// Does it; done twice it is done once.
    pub(crate) fn go(self, journal: &Journal) -> Result<()> {
        match self {
            Self::Rotate => journal.rotate(&write()).map(drop),
            Self::Compact => journal.compact(&write(), |entry| entry.line != b"two").map(drop),
            Self::Stamp => {
                let operation = Some("stamp".to_owned());
                let write = WriteOptions { operation, ..WriteOptions::default() };
                let options = AppendOptions { write, ..with_header("# head") };
                journal.append(&["four"], &options).map(drop)
            }
        }
    }

    /// What the journal says afterwards.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Rotate => "",
            Self::Compact => "one\nthree\n",
            Self::Stamp => "# head\none\ntwo\nthree\nfour\n",
        }
    }

    pub(crate) fn entries(self) -> Vec<(u64, String)> {
        let mut entries = numbered(&["one", "two", "three", "four"]);
        entries.retain(|(seq, _)| match self {
            Self::Rotate => *seq < 4,
            Self::Compact => *seq == 1 || *seq == 3,
            Self::Stamp => true,
        });
        entries
    }

    /// The number that comes next.
    pub(crate) fn next(self) -> u64 {
        if self == Self::Stamp { 5 } else { 4 }
    }

    /// Where the old file is.
    pub(crate) fn old(self) -> &'static str {
        if self == Self::Rotate { "log.jsonl.1" } else { ".tenure/log.jsonl.displaced" }
    }
}

const OLD: &str = "one\ntwo\nthree\n";

/// Three lines, one of them of somebody else.
pub(crate) fn three_lines() -> Watched {
    let disk = Watched::new();
    assert_eq!(disk.append(&["one", "two"]), 1);
    disk.outsider().append_durably(PATH, "three\n");
    disk
}

fn steps_of(way: Way, exchange: bool) -> Vec<String> {
    let disk = three_lines();
    if !exchange {
        disk.sim.inject(1, Fault::NoExchange, Times::Forever);
    }
    let journal = disk.journal();
    disk.steps();
    way.go(&journal).unwrap();
    let steps = disk.steps();
    assert_eq!(disk.text("log.jsonl").as_deref(), Some(way.text()));
    assert_eq!(disk.text(way.old()).as_deref(), Some(OLD));
    assert_eq!(disk.entries(), way.entries());
    steps
}

#[test]
fn j10_every_step_of_a_replacement_is_in_its_place() {
    // Lines of others are numbered, and the log is emptied: journal, index, anchor, each synced.
    let settled = "Write wal, Write wal, Write wal, Sync journal, Remove tmp 1, SetMode tmp 1, \
        Write tmp 1, Sync tmp 1, Rename index, SyncDir .tenure, Write tmp 1, Sync tmp 1, \
        Write wal, Sync wal, Write wal";
    let index = "Remove tmp 3, SetMode tmp 3, Write tmp 3";
    let intended = "Sync tmp 3, SyncDir .tenure, Write wal, Sync wal, Write wal, Exchange journal";
    let stays = "SyncDir .tenure, SyncDir d";
    let ended = "Rename index, SyncDir .tenure, Write wal, Sync wal, Write wal";
    for exchange in [true, false] {
        let new = "Remove tmp 2, SetMode tmp 2, Sync tmp 2";
        let names = if exchange { "RenameNew 1" } else { "RenameNew 1, RenameNew journal" };
        let told = format!(
            "{settled}, {new}, {index}, {intended}, {names}, Rename displaced, {stays}, \
             Rename index.1, {ended}"
        );
        assert_eq!(steps_of(Way::Rotate, exchange).join(", "), told);
        let new = "Remove tmp 2, SetMode tmp 2, Write tmp 2, Sync tmp 2";
        let linked = "Remove displaced, Link displaced, Rename journal";
        let names = if exchange { "Rename displaced" } else { linked };
        let told = format!(
            "{settled}, {new}, {index}, Write tmp 3, {intended}, {names}, Rename displaced, \
             {stays}, {ended}"
        );
        assert_eq!(steps_of(Way::Compact, exchange).join(", "), told);
        assert_eq!(steps_of(Way::Stamp, exchange).join(", "), told);
    }
}

/// How a process or the machine ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Killed,
    Power(Survival),
}

/// Cuts a replacement at its `nth` operation. Returns whether it has so many.
fn cut(base: &SimFs, way: Way, exchange: bool, nth: u64, end: End) -> bool {
    let sim = base.fork(nth);
    let _tell = sim.tell_on_panic();
    if !exchange {
        sim.inject(1, Fault::NoExchange, Times::Forever);
    }
    let kind = if matches!(end, End::Killed) { CrashKind::Process } else { CrashKind::Power };
    sim.fail_after(nth, kind);
    let done = way.go(&Watched::on(sim.clone()).journal());
    if !sim.is_down() {
        done.unwrap();
        return false;
    }
    match end {
        End::Killed => sim.process_crash(),
        End::Power(survival) => sim.crash_with(survival),
    }
    let (disk, when) = (Watched::on(sim), format!("{way:?}, {exchange}, {nth}, {end:?}"));
    let before = disk.entries();
    let old = numbered(&["one", "two", "three"]);
    assert!(before == old || before == way.entries(), "{when}: {before:?}");
    // Whoever comes next finishes it, or finds nothing of it.
    disk.journal().repair(&write()).unwrap();
    let text = disk.text("log.jsonl").unwrap();
    assert!(text == way.text() || text == OLD, "{when}: {text}");
    if text == OLD {
        assert_eq!(disk.text(way.old()), None, "{when}");
        way.go(&disk.journal()).unwrap();
    }
    assert_eq!(disk.text("log.jsonl").as_deref(), Some(way.text()), "{when}");
    assert_eq!(disk.text(way.old()).as_deref(), Some(OLD), "{when}");
    assert_eq!(disk.entries(), way.entries(), "{when}");
    disk.outsider().append(&format!("/d/{}", way.old()), "late\nopen");
    let report = disk.journal().repair(&write()).unwrap();
    assert!(report.is_sound() && !report.unbound, "{when}: {report:?}");
    let next = way.next();
    assert_eq!(disk.append(&["next"]), next + 1, "{when}");
    let mut entries = way.entries();
    entries.extend([(next, "late".to_owned()), (next + 1, "next".to_owned())]);
    assert_eq!(disk.entries(), entries, "{when}");
    assert!(disk.journal().verify().unwrap().is_sound(), "{when}");
    let temps = disk.sidecars().iter().filter(|name| name.starts_with("tmp.")).count();
    assert_eq!(temps, 0, "{when}: {:?}", disk.sidecars());
    true
}

fn cut_everywhere(way: Way) {
    let base = three_lines().sim;
    let ends = [
        (true, End::Killed),
        (true, End::Power(Survival::Nothing)),
        (true, End::Power(Survival::Everything)),
        (true, End::Power(Survival::NamesOnly)),
        (false, End::Killed),
        (false, End::Power(Survival::Nothing)),
        (false, End::Power(Survival::Prefix)),
    ];
    for (exchange, end) in ends {
        let whole = (1..1000).find(|nth| !cut(&base, way, exchange, *nth, end));
        assert!(whole.is_some_and(|nth| nth > 25), "every step was its last once: {whole:?}");
    }
}

#[test]
fn j10_a_rotation_that_was_cut_is_whole_or_not_at_all() {
    cut_everywhere(Way::Rotate);
}

#[test]
fn j10_a_compaction_that_was_cut_is_whole_or_not_at_all() {
    cut_everywhere(Way::Compact);
}

#[test]
fn j10_a_header_with_its_batch_that_was_cut_is_whole_or_not_at_all() {
    cut_everywhere(Way::Stamp);
}

/// Somebody else does something before the `nth` step. Returns the disk afterwards.
fn beside(
    way: Way,
    exchange: bool,
    nth: usize,
    deed: impl FnOnce(&Outsider) + Send + 'static,
) -> Watched {
    let disk = three_lines();
    if !exchange {
        disk.sim.inject(1, Fault::NoExchange, Times::Forever);
    }
    let (journal, outsider) = (disk.journal(), disk.outsider());
    disk.before_nth(nth, move || deed(&outsider));
    way.go(&journal).unwrap();
    assert!(disk.is_through());
    disk
}

/// The same at every step.
fn beside_everywhere(
    deed: impl FnOnce(&Outsider) + Send + Copy + 'static,
    check: impl Fn(&Watched, Way, &str),
) {
    for way in WAYS {
        for exchange in [true, false] {
            let steps = steps_of(way, exchange);
            for (nth, step) in steps.iter().enumerate() {
                let disk = beside(way, exchange, nth, deed);
                let _tell = disk.sim.tell_on_panic();
                check(&disk, way, &format!("{way:?}, {exchange}, {nth}: {step}"));
            }
        }
    }
}

#[test]
fn j9_a_reader_sees_the_old_journal_or_the_new_one() {
    for way in WAYS {
        for exchange in [true, false] {
            let mut new_since = None;
            for (nth, step) in steps_of(way, exchange).iter().enumerate() {
                let seen = Arc::new(Mutex::new(Vec::new()));
                let shown = seen.clone();
                beside(way, exchange, nth, move |outsider| {
                    *shown.lock().unwrap() = outsider.entries();
                });
                let seen = seen.lock().unwrap().clone();
                let (old, new) = (numbered(&["one", "two", "three"]), way.entries());
                let when = format!("{way:?}, {exchange}, {nth}: {step}");
                assert!(seen == new || (seen == old && new_since.is_none()), "{when}: {seen:?}");
                if seen == new && new_since.is_none() {
                    new_since = Some(nth);
                }
            }
            assert!(new_since.is_some());
        }
    }
}

#[test]
fn race_40_a_line_that_somebody_appends_meanwhile_is_there_once() {
    beside_everywhere(
        |outsider| outsider.append_or_create(PATH, "theirs\n"),
        |disk, way, when| {
            disk.journal().repair(&write()).unwrap();
            let mut lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
            let theirs = lines.iter().position(|line| line == "theirs").expect(when);
            assert_eq!(lines.remove(theirs), "theirs");
            let expected: Vec<String> = way.entries().into_iter().map(|entry| entry.1).collect();
            assert_eq!(lines, expected, "{when}");
            let report = disk.journal().verify().unwrap();
            assert!(report.is_sound() && !report.unbound, "{when}: {report:?}");
        },
    );
}

#[test]
fn j10_a_file_that_somebody_puts_in_the_journal_s_place_is_adopted() {
    beside_everywhere(
        |outsider| outsider.replace(PATH, "theirs 1\ntheirs 2\n"),
        |disk, _, when| {
            if when.ends_with("Rename journal") {
                return; // Where names cannot be exchanged, a file that comes right here is replaced.
            }
            let first = disk.append(&["next"]);
            let text = disk.text("log.jsonl");
            assert_eq!(text.as_deref(), Some("theirs 1\ntheirs 2\nnext\n"), "{when}");
            let mut lines = disk.entries();
            lines.retain(|(_, line)| line.starts_with("theirs") || line == "next");
            let told = ["theirs 1", "theirs 2", "next"].map(str::to_owned);
            let expected: Vec<_> = (first - 2..).zip(told).collect();
            assert_eq!(lines, expected, "{when}");
            let report = disk.journal().verify().unwrap();
            assert!(report.is_sound() && !report.unbound, "{when}: {report:?}");
        },
    );
}

#[test]
fn g10_a_refused_step_of_a_replacement_says_truly_whether_it_is_done() {
    for way in WAYS {
        for exchange in [true, false] {
            let steps = steps_of(way, exchange);
            for nth in 0..steps.len() {
                let disk = three_lines();
                let _tell = disk.sim.tell_on_panic();
                if !exchange {
                    disk.sim.inject(1, Fault::NoExchange, Times::Forever);
                }
                let journal = disk.journal();
                disk.refuse_nth(nth);
                let when = format!("{way:?}, {exchange}, {nth}: {}", steps[nth]);
                let refused = way.go(&journal);
                assert!(disk.is_through(), "{when}");
                // The hint behind an anchor only saves the next one a sync.
                let hint = nth > 0 && steps[nth - 1] == "Sync wal";
                assert_eq!(refused.is_ok(), hint, "{when}");
                let done = refused.map_or_else(|error| error.is_committed(), |()| Some(true));
                let next = disk.append(&["next"]);
                let mut entries = match done {
                    Some(true) => way.entries(),
                    _ => numbered(&["one", "two", "three"]),
                };
                assert_eq!(next, if done == Some(true) { way.next() } else { 4 }, "{when}");
                entries.push((next, "next".to_owned()));
                assert_eq!(disk.entries(), entries, "{when}: {done:?}");
                let report = disk.journal().verify().unwrap();
                assert!(report.is_sound() && !report.unbound, "{when}: {report:?}");
            }
        }
    }
}
