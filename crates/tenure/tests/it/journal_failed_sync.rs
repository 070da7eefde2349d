//! A sync of the log that fails inside a critical section, beside batches that others wait for: whatever becomes of
//! whoever saw it, no later sync is believed for the pages that it may have lost (S3, G8, race 54).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tenure::{AppendOptions, Durability, Journal, Wait, WriteOptions};
use tenure_testkit::{CrashKind, Fault, SimFs, Times};

use crate::faulty_fs::{FaultyFs, Op, Verdict};

/// Everything that syncs the log inside a critical section.
const VERBS: [&str; 4] = ["append", "rotate", "compact", "repair"];
/// More than the operations of any of them.
const OPERATIONS: u64 = 200;
/// The steps of an append until it waits for its sync.
const LOGGING: std::ops::Range<u64> = 1..14;

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new("/d/log.jsonl")).unwrap()
}

fn with(durability: Durability) -> AppendOptions {
    let write = WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
    AppendOptions { write, ..AppendOptions::default() }
}

/// A line of more than a page, so that a part of it can be lost.
fn long() -> String {
    format!("{{\"x\":\"{}\"}}", "x".repeat(9000))
}

/// A journal, and a durable batch in its log whose writer died at operation `waiting`.
fn with_waiting(seed: u64, waiting: u64) -> SimFs {
    let fs = machine(seed);
    open(&fs).append(&["first"], &with(Durability::Durable)).unwrap();
    fs.fail_after(waiting, CrashKind::Process);
    let _ = open(&fs).append(&[&long()], &with(Durability::Durable));
    fs.process_crash();
    fs
}

/// Does it, and dies at operation `nth` of it. Whether it died.
fn die_in(fs: &SimFs, verb: &str, durability: Durability, nth: u64) -> bool {
    fs.fail_after(nth, CrashKind::Process);
    let journal = open(fs);
    let options = with(durability);
    let _ = match verb {
        "append" => journal.append(&["other"], &options).map(drop),
        "rotate" => journal.rotate(&options.write).map(drop),
        "compact" => journal.compact(&options.write, |_| true).map(drop),
        _ => journal.repair(&options.write).map(drop),
    };
    drop(journal);
    let died = fs.is_down();
    fs.process_crash();
    fs.clear_faults();
    died
}

/// Appends durably, loses power, and tells what was acknowledged and is not there.
fn missing_after_power_loss(fs: &SimFs) -> Option<&'static str> {
    let mut acknowledged = vec!["first"];
    for line in ["third", "fourth"] {
        if open(fs).append(&[line], &with(Durability::Durable)).is_ok() {
            acknowledged.push(line);
        }
    }
    fs.crash();
    let entries = open(fs).read(0, None).unwrap().map(Result::unwrap);
    let there: Vec<Vec<u8>> = entries.map(|entry| entry.line).collect();
    acknowledged.into_iter().find(|line| !there.iter().any(|found| found == line.as_bytes()))
}

/// A sync of the log that serves a dead writer's batch, too, fails; the process dies at any moment after that.
#[test]
fn race_54_a_failed_sync_in_a_section_outlives_its_process() {
    for (verb, seed, waiting) in VERBS.iter().flat_map(|verb| {
        (0..8).flat_map(move |seed| LOGGING.map(move |waiting| (verb, seed, waiting)))
    }) {
        for nth in 1..OPERATIONS {
            let fs = with_waiting(seed, waiting);
            let _tell = fs.tell_on_panic();
            fs.inject(1, Fault::SyncFailure, Times::Once);
            let died = die_in(&fs, verb, Durability::NoSync, nth);
            let missing = missing_after_power_loss(&fs);
            assert_eq!(missing, None, "{verb} at {waiting}, then {nth}, seed {seed}");
            if !died {
                break;
            }
        }
    }
}

/// The same of the anchor of a replacement: that it is marked as unsynced does not say that a sync will do.
#[test]
fn race_54_an_anchor_whose_sync_failed_is_written_again() {
    let is_log = |line: &str| line.contains("Sync /d/.tenure/log.jsonl.wal") && line.contains('!');
    let mut tried = 0;
    for (verb, seed, sync) in ["rotate", "compact"]
        .iter()
        .flat_map(|verb| (0..12).flat_map(move |seed| (1..12).map(move |sync| (verb, seed, sync))))
    {
        for nth in 1..OPERATIONS {
            let fs = machine(seed);
            let _tell = fs.tell_on_panic();
            open(&fs).append(&["first", &long()], &with(Durability::Durable)).unwrap();
            fs.inject(sync, Fault::SyncFailure, Times::Once);
            let died = die_in(&fs, verb, Durability::Durable, nth);
            // Of names that could not be synced nothing is known (docs/PLATFORM.md).
            if fs.history().lines().any(is_log) {
                let missing = missing_after_power_loss(&fs);
                assert_eq!(missing, None, "{verb}, sync {sync}, then {nth}, seed {seed}");
                tried += 1;
            }
            if !died {
                break;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Nobody dies after the failure, but the pages cannot be written again.
#[test]
fn race_54_pages_that_cannot_be_written_again_stay_in_doubt() {
    let mut tried = 0;
    for (seed, waiting) in (0..40).flat_map(|seed| LOGGING.map(move |waiting| (seed, waiting))) {
        let fs = with_waiting(seed, waiting);
        let _tell = fs.tell_on_panic();
        let (sim, step) = (fs.clone(), Arc::new(AtomicU8::new(0)));
        let now = step.clone();
        let faulty = FaultyFs::on(fs.shared(), move |op, path| {
            let of_log = path.extension().is_some_and(|suffix| suffix == "wal");
            match (op, now.load(Ordering::SeqCst)) {
                (Op::Sync, 0) if of_log => {
                    sim.inject(1, Fault::SyncFailure, Times::Once);
                    now.store(1, Ordering::SeqCst);
                    Verdict::Go
                }
                (Op::Write, 1) if of_log => {
                    now.store(2, Ordering::SeqCst);
                    Verdict::Fail(io::Error::from_raw_os_error(5))
                }
                _ => Verdict::Go,
            }
        });
        let other = Journal::open_on(&faulty.shared(), Path::new("/d/log.jsonl")).unwrap();
        let _ = other.append(&["other"], &with(Durability::NoSync));
        drop(other);
        fs.clear_faults();
        if step.load(Ordering::SeqCst) == 2 {
            assert_eq!(missing_after_power_loss(&fs), None, "at {waiting}, seed {seed}");
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

/// After a power loss the journal is mended from its log. A sync of the journal, of its index or of the log fails
/// meanwhile, and the process dies at any moment; then others go on, and the power goes again.
#[test]
fn race_54_a_failed_sync_of_a_recovery_outlives_its_process() {
    let is_content = |line: &str| line.contains(" Sync /d/") && line.contains('!');
    let mut tried = 0;
    for (seed, sync) in (0..24).flat_map(|seed| (1..7).map(move |sync| (seed, sync))) {
        for nth in 1..OPERATIONS {
            let fs = machine(seed);
            let _tell = fs.tell_on_panic();
            open(&fs).append(&["first"], &with(Durability::Durable)).unwrap();
            fs.crash();
            fs.inject(sync, Fault::SyncFailure, Times::Once);
            let died = die_in(&fs, "append", Durability::Durable, nth);
            if fs.history().lines().any(is_content) {
                let missing = missing_after_power_loss(&fs);
                assert_eq!(missing, None, "sync {sync}, then {nth}, seed {seed}");
                tried += 1;
            }
            if !died {
                break;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// One who died in such a sync leaves others in doubt, and the next sync that succeeds ends that: after it an append
/// writes no more than it did before.
#[test]
fn a_doubt_ends_with_the_next_sync_that_succeeds() {
    let writes = |fs: &SimFs| {
        let count = Arc::new(AtomicU8::new(0));
        let counting = count.clone();
        let seen = FaultyFs::on(fs.shared(), move |op, path| {
            let of_log = path.extension().is_some_and(|suffix| suffix == "wal");
            counting.fetch_add(u8::from(of_log && op == Op::Write), Ordering::SeqCst);
            Verdict::Go
        });
        let journal = Journal::open_on(&seen.shared(), Path::new("/d/log.jsonl")).unwrap();
        journal.append(&["next"], &with(Durability::Durable)).unwrap();
        count.load(Ordering::SeqCst)
    };
    let undisturbed = machine(0);
    let expected = [(); 3].map(|()| writes(&undisturbed))[2];
    let mut doubted = 0;
    for waiting in LOGGING {
        for nth in 1..OPERATIONS {
            let fs = with_waiting(0, waiting);
            let died = die_in(&fs, "append", Durability::NoSync, nth);
            doubted += u64::from(writes(&fs) > expected);
            assert_eq!(writes(&fs), expected, "one died at {waiting}, another at {nth}");
            if !died {
                break;
            }
        }
    }
    assert!(doubted > 0, "{expected} writes are usual");
}
