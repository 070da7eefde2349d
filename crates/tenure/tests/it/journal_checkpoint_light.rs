//! A checkpoint without a sync: when it is enough, what it writes, and what the next one with a sync makes
//! up for (J5, docs/FORMAT.md, Checkpoint).

use std::io::ErrorKind as Io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::{AppendOptions, Journal};

use crate::document_scratch::Scratch;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::watched_journal::{PATH, Range, Watched, unsynced, write};

/// One line that alone makes the log long enough to be emptied by the next append.
const LONG: usize = 1_100_000;
const LIGHT: u64 = 1 << 63;
const EPOCH: usize = 24;
const FLAGS: usize = 224;
const UNANCHORED: u64 = 128;

fn quickly(journal: &Journal, line: &str) {
    journal.append(&[line], &unsynced()).unwrap();
}

/// A journal with an index, and nothing in its log: 8 bytes, 2 lines.
fn indexed() -> (Watched, Journal) {
    let disk = Watched::new();
    disk.append(&["one", "two"]);
    disk.journal().repair(&write()).unwrap();
    let journal = disk.journal();
    (disk, journal)
}

/// Where the `count`th long line behind those two ends.
fn end(count: u64) -> u64 {
    8 + count * (LONG as u64 + 1)
}

#[test]
fn a_log_in_which_nothing_was_promised_is_emptied_without_a_sync() {
    let (disk, journal) = indexed();
    let long = "x".repeat(LONG);
    quickly(&journal, &long);
    for round in 1..=3 {
        let before = disk.head();
        disk.steps();
        quickly(&journal, &long);
        let told = "Write index, Write wal, Write wal, Write journal, Write wal";
        assert_eq!(disk.steps().join(", "), told, "round {round}");
        let (head, index) = (disk.head(), disk.index("index"));
        assert_eq!(head.at(EPOCH), before.at(EPOCH) + 1);
        assert_eq!((head.at(FLAGS), head.at(576), head.at(584)), (UNANCHORED | 2, 8, 1));
        assert_eq!(head.at(184), 1 + round);
        let last = index.records.last().unwrap();
        assert_eq!((last.epoch, last.reach), (before.at(EPOCH) | LIGHT, end(round)));
        assert_eq!((last.number, last.start), (head.at(112) - 1, end(round - 1)));
        assert_eq!((last.seq, last.lines), (2 + round, 1));
    }
    // A durable batch makes up for all of it before it is logged.
    disk.steps();
    disk.append(&["last"]);
    let steps = disk.steps().join(", ");
    let made_up =
        "Sync journal, Write index, Write index, Sync index, Write wal, Sync wal, Write wal";
    assert!(steps.starts_with(made_up), "{steps}");
    assert_eq!(disk.head().at(FLAGS) & UNANCHORED, 0);
    assert_eq!(disk.journal().read(0, None).unwrap().count(), 7);
    assert!(disk.journal().verify().unwrap().is_sound());
}

#[test]
fn a_short_log_is_made_up_for_by_an_anchor_alone() {
    let (disk, journal) = indexed();
    for line in ["x".repeat(LONG), "three".to_owned()] {
        quickly(&journal, &line);
    }
    disk.steps();
    disk.append(&["last"]);
    let steps = disk.steps().join(", ");
    let made_up = "Sync journal, Write index, Sync index, Write wal, Sync wal, Write wal";
    assert!(steps.starts_with(made_up), "{steps}");
}

#[test]
fn a_log_with_a_promise_in_it_is_synced_before_it_is_emptied() {
    // A durable batch, or late lines of a displaced file.
    for late in [false, true] {
        let (disk, journal) = indexed();
        if late {
            journal.rotate(&write()).unwrap();
            disk.outsider().append("/d/log.jsonl.1", "late\n");
        } else {
            disk.append(&["durable"]);
        }
        quickly(&journal, &"x".repeat(LONG));
        disk.steps();
        quickly(&journal, "last");
        let steps = disk.steps().join(", ");
        for synced in ["Sync journal, ", "Write index, Sync index, Write wal, Sync wal"] {
            assert!(steps.contains(synced), "late: {late}: {steps}");
        }
        assert_eq!(disk.head().at(FLAGS) & UNANCHORED, 0, "late: {late}");
        assert!(disk.journal().verify().unwrap().is_sound());
        // What follows in the new epoch was not promised.
        quickly(&journal, &"x".repeat(LONG));
        disk.steps();
        quickly(&journal, "last");
        let steps = disk.steps().join(", ");
        assert!(!steps.contains("Sync"), "late: {late}: {steps}");
    }
}

#[test]
fn race_54_records_whose_sync_failed_are_written_again_from_the_durable_ones_on() {
    for light in [false, true] {
        let (disk, journal) = indexed();
        if light {
            quickly(&journal, &"x".repeat(LONG));
        }
        quickly(&journal, "last");
        disk.refuse("Sync index", Io::Other);
        disk.journal().repair(&write()).unwrap_err();
        let before = disk.sim.history();
        disk.journal().repair(&write()).unwrap();
        let history = disk.sim.history();
        let (_, since) = history.split_once(before.lines().last().unwrap()).unwrap();
        let mut written = since.lines().filter_map(|line| line.split("log.jsonl.index ").nth(1));
        let again = if light { "[200..+144]" } else { "[200..+72]" };
        assert_eq!(written.find(|range| range.starts_with('[')), Some(again), "light: {light}");
        assert!(disk.journal().verify().unwrap().is_sound());
    }
}

#[test]
fn a_journal_that_was_emptied_gets_an_index_that_begins_with_the_next_number() {
    let disk = Watched::new();
    disk.append(&["one", "two"]);
    disk.journal().rotate(&write()).unwrap();
    disk.append(&["three"]);
    disk.outsider().truncate(PATH);
    assert_eq!(disk.append(&["four"]), 4);
    disk.journal().repair(&write()).unwrap();
    let index = disk.index("index");
    assert_eq!((index.first_seq, index.header_len, index.archive), (4, 0, 1));
    assert_eq!(index.ranges(), [Range::new(0, 5, 4, 1, 0)]);
    let lines = [(1, "one"), (2, "two"), (4, "four")].map(|(seq, line)| (seq, line.to_owned()));
    assert_eq!(disk.entries(), lines, "older ones are in the archive");
}

const MIB: u64 = 1024 * 1024;

#[test]
fn no_more_than_64_mib_are_left_to_be_made_up_for() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("log.jsonl");
    let (count, name) = (Arc::new(AtomicUsize::new(0)), path.clone());
    let counted = count.clone();
    let fs = FaultyFs::new(move |op, path| {
        let synced = usize::from(op == Op::Sync && path == name);
        counted.fetch_add(synced, Ordering::Relaxed);
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), &path).unwrap();
    journal.append(&["first"], &AppendOptions::default()).unwrap();
    journal.repair(&write()).unwrap();
    let before = count.load(Ordering::Relaxed);
    // Most of it are a sparse file's NULs, with a newline at the end.
    let theirs = std::fs::File::options().write(true).open(&path).unwrap();
    for _ in 0..64 {
        let end = theirs.metadata().unwrap().len() + MIB - 1;
        theirs.write_all_at(b"\n", end).unwrap();
        quickly(&journal, "x");
    }
    assert_eq!(count.load(Ordering::Relaxed), before);
    // Each of the last three empties the log of the one before.
    let long = "y".repeat(LONG);
    let syncs = [(); 4].map(|()| {
        quickly(&journal, &long);
        count.load(Ordering::Relaxed) - before
    });
    assert_eq!(syncs, [0, 1, 1, 1]);
}
