//! A failed sync of a document is never trusted later, and loses nothing that was on the disk (G8).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::fs::{Access, Stat};
use tenure::{Document, ErrorKind, WriteOptions, json};
use tenure_testkit::{CrashKind, Fault, SimFs, Times};

use crate::document_scratch::{Scratch, at_once, durably, increment};
use crate::document_unsynced::{PATH, machine, open, replace_by};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

/// After a failed sync the kernel reports the lost pages as written. Only newly written content is
/// trusted.
#[test]
fn race_54_a_failed_sync_is_not_mended_by_asking_again() {
    for seed in 0..200 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&at_once(), increment).unwrap();
        fs.inject(1, Fault::FileSyncFailure, Times::Once);
        let first = open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap_err();
        assert_eq!((first.kind(), first.is_committed()), (ErrorKind::Io, Some(false)));
        let again = open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap();
        assert!(!again.changed);
        fs.crash();
        let found = open(&fs).read().unwrap().map(|found| found.value);
        assert_eq!(found, Some(json!({ "n": 2 })), "seed {seed}");
    }
}

/// The same for an operation that changed nothing. Once acknowledged, it is remembered.
#[test]
fn race_54_a_failed_sync_of_an_operation_is_not_mended_by_asking_again() {
    for seed in 0..130 {
        for repeated in [None, Some("x".to_owned()), Some("y".to_owned())] {
            let fs = machine(seed);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&at_once(), increment).unwrap();
            fs.inject(1, Fault::FileSyncFailure, Times::Once);
            let named = WriteOptions { operation: Some("x".into()), ..durably() };
            let first = open(&fs).set(&json!({ "n": 2 }), &named).unwrap_err();
            assert_eq!((first.kind(), first.is_committed()), (ErrorKind::Io, Some(false)));
            let again = WriteOptions { operation: repeated.clone(), ..durably() };
            assert!(!open(&fs).set(&json!({ "n": 2 }), &again).unwrap().changed);
            fs.crash();
            let found = open(&fs).read().unwrap().map(|found| found.value);
            assert_eq!(found, Some(json!({ "n": 2 })), "seed {seed}, {repeated:?}");
            if repeated.is_some() {
                let again = open(&fs).update(&again, increment).unwrap();
                assert!(again.replayed, "seed {seed}, {repeated:?}");
            }
        }
    }
}

/// A foreign version whose sync fails, or whose syncing process dies, before a change that is never
/// made; then a durable call that changes nothing.
#[test]
fn race_54_a_version_that_could_not_be_synced_is_not_believed_later() {
    for (seed, dies) in (0..100).flat_map(|seed| [(seed, false), (seed, true)]) {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
        file.write_all_at(b"{\n  \"n\": 7\n}\n", 0).unwrap();
        drop(file);
        let first = fs.another_process();
        let (sim, dead) = (fs.clone(), AtomicU64::new(0));
        let broken = FaultyFs::on(first.shared(), move |op, path| {
            let refused = op == Op::Exchange || dead.load(Ordering::Relaxed) > 0;
            if op == Op::Sync && path.to_string_lossy().contains(".tmp.") {
                sim.inject(1, Fault::SyncFailure, Times::Once);
                dead.store(u64::from(dies), Ordering::Relaxed);
            }
            if refused {
                return Verdict::Fail(std::io::ErrorKind::PermissionDenied.into());
            }
            Verdict::Go
        });
        let document = Document::open_on(&broken.shared(), Path::new(PATH)).unwrap();
        let options = if dies { durably() } else { at_once() };
        let change = |_: Option<&tenure::Value>| Ok((!dies).then(|| json!(8)));
        document.update(&options, change).unwrap_err();
        drop(document);
        first.process_crash();
        assert!(!open(&fs).set(&json!({ "n": 7 }), &durably()).unwrap().changed);
        fs.crash();
        let found = open(&fs).read().unwrap().map(|found| found.value);
        assert_eq!(found, Some(json!({ "n": 7 })), "seed {seed}, dies: {dies}");
    }
}

/// Another tool wrote a version and synced it. Tenure cannot know that, so it keeps no copy of it.
/// The version that displaces it must then survive a power loss itself.
#[test]
fn g5_what_displaces_a_foreign_version_is_synced() {
    for seed in 0..100 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        replace_by(&fs, b"{\n  \"n\": 7\n}\n", true);
        open(&fs).update(&at_once(), increment).unwrap();
        if seed % 2 == 0 {
            open(&fs).update(&at_once(), increment).unwrap();
        }
        fs.crash();
        let found = open(&fs).read().unwrap().map(|found| found.value["n"].as_u64());
        assert!(found.flatten() >= Some(7), "seed {seed}: {found:?}");
    }
}

/// A version is on the disk: ours, or a foreign one that is not known to be synced. A durable
/// change dies at any step, the sync of its left-over fails and loses it, and then the power fails.
#[test]
fn g5_what_the_dead_have_displaced_is_there_if_their_own_version_cannot_be_synced() {
    for (seed, ours, exchanges) in (0..256).map(|seed| (seed, seed & 1 == 0, seed & 2 == 0)) {
        let start = machine(seed);
        open(&start).update(&durably(), increment).unwrap();
        if !ours {
            replace_by(&start, b"{\n  \"n\": 7\n}\n", true);
        }
        if !exchanges {
            start.inject(1, Fault::NoExchange, Times::Forever);
        }
        for nth in 1.. {
            let fs = start.fork(seed + nth);
            fs.fail_after(nth, CrashKind::Process);
            let done = open(&fs).update(&durably(), increment);
            if !fs.is_down() {
                done.unwrap();
                break;
            }
            fs.process_crash();
            fs.inject(1, Fault::FileSyncFailure, Times::Once);
            let _ = open(&fs).update(&durably(), |_: Option<&tenure::Value>| Ok(None));
            fs.crash();
            let found = open(&fs).read().map(|found| found.map(|found| found.value));
            let number = found.as_ref().ok().and_then(|found| found.as_ref()?["n"].as_u64());
            let story = format!("seed {seed}, operation {nth}, {ours} {exchanges}: {found:?}");
            assert!(number >= Some(if ours { 1 } else { 7 }), "{story}\n{}", fs.history());
        }
    }
}

/// After a restart the numbers of versions start at the clock, also if a sync failed first.
#[test]
fn a_failed_sync_does_not_take_part_in_the_numbers() {
    let scratch = Scratch::new();
    let armed = Arc::new(AtomicU64::new(0));
    let once = armed.clone();
    let fs = FaultyFs::new(move |op, path| {
        let fails = op == Op::Sync && path.to_string_lossy().contains(".tmp.");
        if fails && once.swap(0, Ordering::Relaxed) > 0 {
            return Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let number = |version: tenure::Version| {
        u64::from_str_radix(version.to_string().split('-').next().unwrap(), 16).unwrap()
    };
    document.update(&at_once(), increment).unwrap();
    let before = number(document.update(&at_once(), increment).unwrap().version);
    fs.reboot();
    armed.store(1, Ordering::Relaxed);
    document.set(&json!({ "n": 2 }), &durably()).unwrap_err();
    let after = number(document.update(&at_once(), increment).unwrap().version);
    assert!(after > before + 1, "{before} and {after}");
}

/// After a failed sync: a durable call that finds this number, or a change without a sync. Then the
/// power fails, and what was acknowledged survives.
#[track_caller]
fn outlives_a_power_loss(seed: u64, sim: &SimFs, document: &Document, durable: Option<u64>) {
    match durable {
        Some(n) => assert!(!document.set(&json!({ "n": n }), &durably()).unwrap().changed),
        None => drop(document.update(&at_once(), increment).unwrap()),
    }
    sim.crash();
    let found = open(sim).read().map(|found| found.map(|found| found.value));
    let number = found.as_ref().ok().and_then(|found| found.as_ref()?["n"].as_u64());
    assert!(number >= durable.or(Some(1)), "seed {seed}: {found:?}\n{}", sim.history());
}

/// Touching a file writes none of its pages, so it does not fix a failed sync.
#[test]
fn race_54_a_failed_sync_is_not_mended_by_a_touch() {
    for (seed, durable) in (0..200).map(|seed| (seed, seed % 2 == 0)) {
        let sim = machine(seed);
        open(&sim).update(&durably(), increment).unwrap();
        open(&sim).update(&at_once(), increment).unwrap();
        sim.inject(1, Fault::FileSyncFailure, Times::Once);
        open(&sim).set(&json!({ "n": 2 }), &durably()).unwrap_err();
        let file = sim.shared().stat(Path::new(PATH)).unwrap().id;
        let touched = move |_: &Path, stat: Stat| {
            let later = if stat.id == file { 1_000_000_000 } else { 0 };
            Stat { modified_ns: stat.modified_ns + later, ..stat }
        };
        let fs = FaultyFs::on(sim.shared(), |_, _| Verdict::Go);
        let fs = fs.showing(touched).showing_open(touched);
        let document = Document::open_on(&fs.shared(), Path::new(PATH)).unwrap();
        outlives_a_power_loss(seed, &sim, &document, durable.then_some(2));
    }
}

/// Writing a part of the file does not either: the other pages still count as written.
#[test]
fn race_54_a_failed_sync_is_not_mended_by_an_edit_in_place() {
    for (seed, durable) in (0..200).map(|seed| (seed, seed % 2 == 0)) {
        let sim = machine(seed);
        open(&sim).update(&durably(), increment).unwrap();
        open(&sim).update(&at_once(), increment).unwrap();
        sim.inject(1, Fault::FileSyncFailure, Times::Once);
        open(&sim).set(&json!({ "n": 2 }), &durably()).unwrap_err();
        let file = sim.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
        file.write_all_at(b"7", 9).unwrap();
        drop(file);
        outlives_a_power_loss(seed, &sim, &open(&sim), durable.then_some(7));
    }
}

/// The version before cannot be kept as `.good`, and every later step fails.
#[test]
fn g5_a_version_that_cannot_be_kept_as_good_is_there_all_the_same() {
    for (seed, dies, durable) in (0..400).map(|seed| (seed, seed & 1 == 0, seed & 2 == 0)) {
        let sim = machine(seed);
        open(&sim).update(&durably(), increment).unwrap();
        let first = sim.another_process();
        let dead = AtomicU64::new(0);
        let fs = FaultyFs::on(first.shared(), move |op, path| {
            let is_kept = op == Op::Rename && path.to_string_lossy().ends_with(".good");
            if is_kept || dead.load(Ordering::Relaxed) > 0 {
                dead.store(u64::from(dies), Ordering::Relaxed);
                return Verdict::Fail(std::io::ErrorKind::StorageFull.into());
            }
            Verdict::Go
        });
        let document = Document::open_on(&fs.shared(), Path::new(PATH)).unwrap();
        let error = document.update(&at_once(), increment).unwrap_err();
        assert_eq!(error.is_committed(), Some(true));
        drop(document);
        first.process_crash();
        outlives_a_power_loss(seed, &sim, &open(&sim), durable.then_some(2));
    }
}
