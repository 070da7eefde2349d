//! Numbers that come a second time, and batches that are promised the second time only: what the notes of
//! the shared sync say of other writes is not believed (G8, race 51).

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use tenure::{AppendOptions, ErrorKind, Journal};
use tenure_testkit::SimFs;
use xxhash_rust::xxh3::xxh3_64;

use crate::faulty_fs::Verdict;
use crate::journal_stage::{Death, FIRST_NUMBER, LOG_SYNCED, Stage, durable, named, no_sync};
use crate::watched_log::SYNC_BEGINS;

/// Where the notes are in `sync0`, and `synced` in each of them.
const NOTES: [usize; 2] = [64, 192];
const SYNCED_AT: usize = 32;
const NOTE_BYTES: usize = 64;
const AN_HOUR_US: u64 = 3_600_000_000;

/// A log whose numbers go back: from a copy, with its journal or without.
#[test]
fn race_51_a_log_that_was_put_back_in_place_is_synced_for_every_batch() {
    for (between, with_journal) in [(0, false), (0, true), (4, false), (9, true)] {
        let stage = Stage::new();
        for number in 0..3 {
            stage.append(&format!("old {number}"), &durable());
        }
        let (log, journal) = (fs::read(stage.side("wal")).unwrap(), stage.text());
        for number in 0..10 {
            stage.append(&format!("gone {number}"), &durable());
        }
        fs::write(stage.side("wal"), &log).unwrap();
        if with_journal {
            fs::write(stage.path(), &journal).unwrap();
        }
        for number in 0..between {
            stage.append(&format!("loose {number}"), &no_sync());
        }
        for number in 0..5 {
            stage.live_on();
            let line = format!("new {number}");
            stage.append(&line, &durable());
            let synced = stage.times(LOG_SYNCED);
            assert!(synced > 0, "{line}, {between} between, with the journal: {with_journal}");
            let found = stage.entries().iter().filter(|(_, entry)| *entry == line).count();
            assert_eq!(found, 1, "{line}");
        }
        assert!(stage.journal().verify().unwrap().is_sound());
    }
}

/// The copy was made while a batch waited for its sync: it is logged, and so it is let in.
#[test]
fn j7_a_batch_that_waits_in_a_log_that_was_put_back_is_let_in() {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.at(SYNC_BEGINS, 1, || Verdict::Fail(Errno::IO.into()));
    assert!(stage.journal().append(&["two"], &named("two", &durable())).is_err());
    let (log, journal) = (fs::read(stage.side("wal")).unwrap(), stage.text());
    assert_eq!(journal, "one\n", "it waits");
    for line in ["gone", "gone as well"] {
        stage.append(line, &durable());
    }
    fs::write(stage.side("wal"), &log).unwrap();
    stage.overwrite(&journal);
    stage.append("three", &durable());
    assert_eq!(stage.text(), "one\ntwo\nthree\n");
    assert!(stage.events("batches_lost").is_empty());
    assert!(stage.append("two", &named("two", &durable())).replayed);
    assert!(stage.journal().verify().unwrap().is_sound());
}

/// The very first batch waits for its sync, so there are no notes yet that speak of it. Somebody removes journal
/// and log and begins anew: nothing tells which numbers the first log has given out.
#[test]
fn race_51_a_number_of_a_log_without_notes_that_is_gone_does_not_come_again() {
    let stage = Stage::new();
    let other = stage.beside();
    stage.at(SYNC_BEGINS, 1, move || {
        assert!(!other.side("sync0").exists(), "there are no notes");
        for path in [other.path(), other.side("wal")] {
            fs::remove_file(path).unwrap();
        }
        other.append("theirs", &durable());
        Verdict::Go
    });
    let told = stage.journal().append(&["gone"], &durable()).unwrap_err();
    assert_eq!((told.kind(), told.is_committed()), (ErrorKind::Damaged, None), "{told}");
    assert_eq!(stage.text(), "theirs\n");
}

/// The clock that numbers a new log may be behind the one that numbered the last.
#[test]
fn race_51_a_new_log_counts_on_above_the_notes_of_the_last() {
    for adopts in [true, false] {
        let stage = Stage::new();
        stage.append("one", &durable());
        let mut notes = fs::read(stage.side("sync0")).unwrap();
        let ahead = stage.in_head(FIRST_NUMBER) + AN_HOUR_US;
        for at in NOTES {
            notes[at + SYNCED_AT..at + SYNCED_AT + 8].copy_from_slice(&ahead.to_le_bytes());
            let sum = xxh3_64(&notes[at..at + NOTE_BYTES]);
            notes[at + NOTE_BYTES..at + NOTE_BYTES + 8].copy_from_slice(&sum.to_le_bytes());
        }
        fs::write(stage.side("sync0"), notes).unwrap();
        fs::remove_file(stage.side("wal")).unwrap();
        if !adopts {
            fs::remove_file(stage.path()).unwrap();
        }
        stage.live_on();
        stage.append("two", &durable());
        assert!(stage.in_head(FIRST_NUMBER) > ahead + 1, "adopts: {adopts}");
        let needed = if adopts { 2 } else { 1 }; // The head of an adoption, and the batch.
        assert!(stage.times(LOG_SYNCED) >= needed, "adopts: {adopts}");
    }
}

/// Somebody died before its empty file was the journal, and others have made one since.
#[test]
fn g10_the_file_of_a_maker_who_died_does_not_stay() {
    for text in ["", "theirs\n"] {
        let stage = Stage::new();
        stage.append("one", &durable());
        let left = stage.side("tmp.0000000000000004");
        fs::write(&left, "").unwrap();
        for path in [stage.path(), stage.side("wal")] {
            fs::remove_file(path).unwrap();
        }
        fs::write(stage.path(), text).unwrap();
        stage.append("two", &durable());
        assert!(!left.exists(), "{text:?}");
    }
}

/// Who asks without a sync for what somebody died over is told that it is there, so it is.
#[test]
fn a_repetition_without_a_sync_is_there_when_it_is_answered() {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.live_on();
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().append(&["two"], &named("x", &durable())).is_err());
    stage.live_on();
    let again = stage.append("two", &named("x", &no_sync()));
    assert!(again.replayed);
    assert_eq!(stage.text(), "one\ntwo\n");
}

const JOURNAL: &str = "/d/log.jsonl";

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(JOURNAL)).unwrap()
}

/// Done without a sync, then repeated with one, and acknowledged: whatever the log stood on, and however
/// often it is emptied without a sync after that.
#[test]
fn g8_a_durable_repetition_is_durable_though_the_first_time_was_not() {
    let long = "x".repeat(1_100_000);
    let cases: [(&[&str], &[&str], u64); 4] = [
        (&[], &[], 100),
        (&["short"], &[], 50),
        (&[&long, "short", &long], &[], 20), // An index, and a log that is emptied without a sync.
        (&[&long, "short"], &[&long, "short", &long, "short"], 20),
    ];
    for (before, behind, seeds) in cases {
        for seed in 0..seeds {
            let fs = SimFs::new(seed);
            fs.add_dir("/d");
            let append = |line: &str, options: &AppendOptions| {
                open(&fs).append(&[line], options).unwrap();
            };
            for line in before {
                append(line, &no_sync());
            }
            append("once", &named("x", &no_sync()));
            let again = open(&fs).append(&["once"], &named("x", &durable())).unwrap();
            assert!(again.replayed);
            for line in behind {
                append(line, &no_sync());
            }
            fs.crash();
            let entries = open(&fs).read(0, None).unwrap();
            let found = entries.filter(|entry| entry.as_ref().unwrap().line == b"once").count();
            let place = (before.len(), behind.len());
            assert_eq!(found, 1, "seed {seed}, lines before and behind: {place:?}");
        }
    }
}
