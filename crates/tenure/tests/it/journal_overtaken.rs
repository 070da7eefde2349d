//! Batches that lines of others have overtaken, and journals after a restart: at every step of the way
//! readers see the numbers that stay (J7, J8, J9).

use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Fs};
use tenure::{AppendOptions, Journal};
use tenure_testkit::{CrashKind, SimFs, Survival};

use crate::faulty_fs::Op;
use crate::journal::{all, durable, numbered};
use crate::journal_read::write;
use crate::journal_view::{JOURNAL, LOG, PATH, Reach, dies_at, foreign, open};

/// A journal with `one` and `two`, behind which `dead` batches are logged by writers that have died.
fn with_pending(dead: &[&str]) -> SimFs {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    open(&sim.shared()).append(&["one", "two"], &durable()).unwrap();
    for line in dead {
        dies_appending(&sim, line);
    }
    sim
}

/// Logs a line, and dies before it is synced.
fn dies_appending(sim: &SimFs, line: &str) {
    let dying = dies_at(sim, (Op::Sync, LOG), Reach::None);
    assert!(open(&dying).append(&[line], &durable()).is_err());
}

fn text(sim: &SimFs) -> String {
    String::from_utf8(sim.peek(PATH).unwrap()).unwrap()
}

#[test]
fn j7_j9_several_batches_that_were_overtaken_go_behind_in_their_order() {
    let sim = with_pending(&["first", "second"]);
    let fs = sim.shared();
    assert_eq!(all(&open(&fs)), numbered(&["one", "two"]));
    assert_eq!(open(&fs).verify().unwrap().pending, 2);
    foreign(&fs, "theirs\n\nmore of them\n");
    let expected = numbered(&["one", "two", "first", "second", "theirs", "more of them"]);
    assert_eq!(all(&open(&fs)), expected);
    let report = open(&fs).verify().unwrap();
    assert_eq!((report.pending, report.entries, report.foreign_entries), (2, 4, 2), "{report:?}");
    let done = open(&fs).append(&["next"], &durable()).unwrap();
    assert_eq!((done.first, done.adopted, done.rolled_forward), (7, 2, 2));
    assert_eq!(all(&open(&fs))[..6], expected);
    assert_eq!(text(&sim), "one\ntwo\ntheirs\n\nmore of them\nfirst\nsecond\nnext\n");
}

/// Somebody writes in front of a batch and behind it, little or more than is read at a time.
#[test]
fn j9_lines_of_others_on_both_sides_of_a_batch_are_numbered_in_their_order() {
    for count in [2, 3000] {
        let theirs: Vec<String> = (0..count).map(|at| format!("{at} {}", "x".repeat(99))).collect();
        let sim = with_pending(&["batch"]);
        let fs = sim.shared();
        foreign(&fs, &(theirs.join("\n") + "\n"));
        let dying = dies_at(&sim, (Op::Write, JOURNAL), Reach::All);
        assert!(open(&dying).repair(&write()).is_err(), "the batch is there, nobody knows");
        assert!(text(&sim).ends_with("\nbatch\n"));
        foreign(&fs, "\nlast\nopen");
        let mut lines = vec!["one", "two", "batch"];
        lines.extend(theirs.iter().map(String::as_str));
        lines.push("last");
        assert!(all(&open(&fs)) == numbered(&lines), "{count}");
        let report = open(&fs).verify().unwrap();
        assert!(report.is_sound() && report.torn_tail && report.pending == 0, "{report:?}");
        assert_eq!((report.entries, report.foreign_entries), (count + 4, count + 1));
        open(&fs).repair(&write()).unwrap();
        lines.push("open");
        assert!(all(&open(&fs)) == numbered(&lines), "{count}");
    }
}

/// One writer died when its batch counted, the next one before: only the first has a number.
#[test]
fn j9_a_batch_that_does_not_count_has_no_number_whatever_is_pending_before_it() {
    let sim = with_pending(&["first"]);
    let fs = sim.shared();
    let dying = dies_at(&sim, (Op::Write, LOG), Reach::All);
    assert!(open(&dying).append(&["second"], &durable()).is_err());
    foreign(&fs, "theirs\n");
    let expected = numbered(&["one", "two", "first", "theirs"]);
    assert_eq!(all(&open(&fs)), expected);
    assert_eq!(open(&fs).repair(&write()).unwrap().rolled_forward, 1);
    assert_eq!(all(&open(&fs)), expected);
}

/// Settles what was overtaken, dies at `nth`, and is settled by the next. Returns whether it died.
fn settled_twice(whole: &SimFs, nth: u64, crash: Option<Survival>) -> bool {
    let sim = whole.fork(nth);
    let _tell = sim.tell_on_panic();
    let fs = sim.shared();
    let expected = numbered(&["one", "two", "three", "four", "first", "second", "theirs"]);
    sim.fail_after(nth, if crash.is_some() { CrashKind::Power } else { CrashKind::Process });
    let died = open(&fs).repair(&write()).is_err();
    match crash {
        Some(survival) => sim.crash_with(survival),
        None => sim.process_crash(),
    }
    assert_eq!(all(&open(&fs)), expected, "before it is settled");
    let report = open(&fs).verify().unwrap();
    assert!(report.is_sound() && !report.unbound, "{report:?}");
    assert_eq!((report.entries + report.pending, report.foreign_entries), (7, 2), "{report:?}");
    assert!(open(&fs).repair(&write()).unwrap().is_sound());
    assert_eq!(all(&open(&fs)), expected, "when it is settled");
    let mut lines: Vec<String> = text(&sim).lines().map(str::to_owned).collect();
    lines.retain(|line| !line.trim_matches([' ', '\0']).is_empty());
    let expected = ["one", "two", "three", "four", "theirs", "first", "second"];
    assert_eq!(lines, expected, "once, whole");
    died
}

#[test]
fn j7_j9_settling_that_dies_at_any_step_changes_no_number() {
    let sim = with_pending(&[]);
    foreign(&sim.shared(), "three\n");
    open(&sim.shared()).append(&["four"], &durable()).unwrap();
    for line in ["first", "second"] {
        dies_appending(&sim, line);
    }
    foreign(&sim.shared(), "theirs\n");
    for crash in [None, Some(Survival::Everything)] {
        let whole = (1..1000).find(|nth| !settled_twice(&sim, *nth, crash));
        assert!(whole.is_some_and(|nth| nth > 15), "every step was its last: {whole:?}");
    }
}

/// The last line that a checkpoint covers is of others, and it dies at `nth`. Returns whether it did.
fn counted_once(whole: &SimFs, nth: u64) -> bool {
    let sim = whole.fork(nth);
    sim.fail_after(nth, CrashKind::Process);
    let died = open(&sim.shared()).repair(&write()).is_err();
    sim.process_crash();
    let report = open(&sim.shared()).verify().unwrap();
    assert_eq!((report.entries, report.foreign_entries), (3, 1), "{nth}: {report:?}");
    died
}

#[test]
fn j5_a_checkpoint_that_dies_counts_lines_of_others_once() {
    let sim = with_pending(&[]);
    foreign(&sim.shared(), "theirs\n");
    let whole = (1..1000).find(|nth| !counted_once(&sim, *nth));
    assert!(whole.is_some_and(|nth| nth > 10), "every step was its last: {whole:?}");
}

/// Who replaces the file dies when the new one has its name, and somebody else appends to that.
#[test]
fn j10_j9_lines_behind_a_replacement_that_is_not_finished_have_their_numbers() {
    type Way = (fn(&Journal) -> bool, &'static [(u64, &'static str)], u64);
    let ways: [Way; 3] = [
        (|journal| journal.rotate(&write()).is_err(), &[(1, "one"), (2, "two"), (3, "three")], 0),
        (
            |journal| journal.compact(&write(), |entry| entry.seq != 2).is_err(),
            &[(1, "one"), (3, "three")],
            2,
        ),
        (
            |journal| {
                let header = Some(b"# header".to_vec());
                let options = AppendOptions { header, ..durable() };
                journal.append(&["four"], &options).is_err()
            },
            &[(1, "one"), (2, "two"), (3, "three"), (4, "four")],
            2,
        ),
    ];
    for (dies, lines, segments) in ways {
        let sim = with_pending(&[]);
        let fs = sim.shared();
        open(&fs).append(&["three"], &durable()).unwrap();
        assert!(dies(&open(&dies_at(&sim, (Op::Exchange, JOURNAL), Reach::All))));
        let line = |(seq, text): (u64, &str)| (seq, text.to_owned());
        let mut expected: Vec<_> = lines.iter().copied().map(line).collect();
        let next = expected.last().unwrap().0 + 1;
        assert_eq!(all(&open(&fs)), expected);
        let report = open(&fs).verify().unwrap();
        assert_eq!((report.next, report.segments, report.unbound), (next, segments, false));
        assert_eq!((report.foreign_entries, report.torn_tail), (0, false));
        let other = sim.fork(1);
        other.crash_with(Survival::Everything);
        other.set_device(77);
        assert_eq!(all(&open(&other.shared())), expected, "after a restart");
        foreign(&fs, "theirs\n\nopen");
        expected.push(line((next, "theirs")));
        assert_eq!(all(&open(&fs)), expected);
        let report = open(&fs).verify().unwrap();
        assert!(report.is_sound() && !report.unbound && report.torn_tail, "{report:?}");
        assert_eq!((report.next, report.segments, report.foreign_entries), (next, segments, 1));
        let here = if segments == 0 { 1 } else { expected.len() as u64 };
        assert_eq!(report.entries, here, "of the new file alone");
        open(&fs).repair(&write()).unwrap();
        expected.push(line((next + 1, "open")));
        assert_eq!(all(&open(&fs)), expected);
    }
}

/// Six lines, in the log or in the index, as they are after a restart.
fn restarted(indexed: bool) -> (SimFs, Arc<dyn Fs>) {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let fs = sim.shared();
    open(&fs).append(&["n01", "n02"], &durable()).unwrap();
    foreign(&fs, "n03\n");
    open(&fs).append(&["n04", "n05", "n06"], &durable()).unwrap();
    if indexed {
        open(&fs).repair(&write()).unwrap();
    }
    sim.crash_with(Survival::Everything);
    (sim, fs)
}

/// What readers see, whether they call it another file, and what the next writer makes of it.
fn before_and_after(journal: &Journal) -> (Vec<u64>, bool, Vec<u64>) {
    let seqs = |journal: &Journal| all(journal).into_iter().map(|(seq, _)| seq).collect();
    let (before, unbound) = (seqs(journal), journal.verify().unwrap().unbound);
    journal.repair(&write()).unwrap();
    (before, unbound, seqs(journal))
}

/// A disk may have another number after a restart, and never in the middle.
#[test]
fn j8_a_journal_is_known_again_on_a_disk_with_another_number() {
    let six: Vec<u64> = (1..=6).collect();
    for indexed in [false, true] {
        let (sim, fs) = restarted(indexed);
        sim.set_device(77);
        let journal = open(&fs);
        assert_eq!(before_and_after(&journal), (six.clone(), false, six.clone()), "{indexed}");
        sim.set_device(78);
        let journal = open(&fs);
        let anew: Vec<u64> = (7..=12).collect();
        assert_eq!(before_and_after(&journal), (anew.clone(), true, anew), "{indexed}");
    }
}

/// What the log had is numbered before lines that came after the restart, wherever it is.
#[test]
fn j9_lines_that_come_after_a_restart_are_numbered_behind_the_log_s() {
    for survival in [Survival::Everything, Survival::Nothing] {
        let sim = with_pending(&[]);
        let fs = sim.shared();
        open(&fs).append(&["three"], &durable()).unwrap();
        open(&fs).append(&["four"], &durable()).unwrap();
        sim.crash_with(survival);
        let file = fs.open(Path::new(PATH), Access::Append).unwrap();
        assert_eq!(file.append(b"theirs\n").unwrap(), 7);
        let expected = numbered(&["one", "two", "three", "four", "theirs"]);
        assert_eq!(all(&open(&fs)), expected, "{survival:?}");
        open(&fs).repair(&write()).unwrap();
        assert_eq!(all(&open(&fs)), expected, "{survival:?}");
    }
}

/// The same file, and other bytes right before the end of what was made durable: it is another journal.
#[test]
fn j8_other_bytes_after_a_restart_are_another_journal() {
    let (_, fs) = restarted(true);
    let file = fs.open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.write_all_at(b"m", 20).unwrap();
    let anew: Vec<u64> = (7..=12).collect();
    assert_eq!(before_and_after(&open(&fs)), (anew.clone(), true, anew));
    // Without a restart it is damage.
    let (_, fs) = restarted(true);
    open(&fs).append(&["n07"], &durable()).unwrap();
    let file = fs.open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.write_all_at(b"m", 20).unwrap();
    let report = open(&fs).verify().unwrap();
    assert!(!report.is_sound() && !report.unbound, "{report:?}");
    // A shorter one is one that was cut.
    let (_, fs) = restarted(true);
    fs.open(Path::new(PATH), Access::ReadWrite).unwrap().set_len(20).unwrap();
    let anew: Vec<u64> = (7..=11).collect();
    assert_eq!(before_and_after(&open(&fs)), (anew.clone(), true, anew));
}
