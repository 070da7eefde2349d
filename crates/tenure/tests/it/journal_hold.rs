//! Journals under a hold: what was logged before it does not appear during it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::{AppendOptions, Durability, ErrorKind, Journal, Wait, WriteOptions};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::scratch::{Scratch, lease, lock_for, share_for};

/// A batch waits for its sync without any lock. Somebody who takes the hold meanwhile, in this way,
/// finds it in the file already, and sees no change while the hold lasts.
fn a_batch_on_its_way_is_there<T: Send + 'static>(
    take: impl Fn(&Path) -> T + Send + Sync + 'static,
) {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    let plain = path.clone();
    Journal::open(&path).unwrap().append(&["first"], &AppendOptions::default()).unwrap();
    let found: Arc<Mutex<Option<(T, String)>>> = Arc::default();
    let seen = found.clone();
    let fs = FaultyFs::new(move |op, file| {
        let mut seen = seen.lock().unwrap();
        let log = file.extension().is_some_and(|suffix| suffix == "wal");
        if op == Op::Sync && log && seen.is_none() {
            let hold = take(&plain);
            *seen = Some((hold, std::fs::read_to_string(&plain).unwrap()));
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), &path).unwrap();
    journal.append(&["second"], &AppendOptions::default()).unwrap();
    let (_hold, during) = found.lock().unwrap().take().expect("the log was synced");
    assert_eq!(during, "first\nsecond\n", "when the hold was granted");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), during, "while the hold lasts");
}

#[test]
fn g1_a_batch_on_its_way_is_there_before_a_lock_is_granted() {
    a_batch_on_its_way_is_there(|path| lock_for(path, Wait::No).unwrap());
}

#[test]
fn g1_a_batch_on_its_way_is_there_before_a_shared_lock_is_granted() {
    a_batch_on_its_way_is_there(|path| share_for(path, Wait::No).unwrap());
}

#[test]
fn g1_a_batch_on_its_way_is_there_before_a_lease_is_granted() {
    a_batch_on_its_way_is_there(|path| lease(path, "me"));
}

/// A process that was paused between the grant of its locks and its write looks at their names again:
/// if one is gone, others may be appending too.
#[test]
fn race_50_g1_an_append_that_was_paused_while_its_lock_file_went_appends_nothing() {
    for suffix in ["commit", "hold"] {
        for durability in [Durability::NoSync, Durability::Durable] {
            let scratch = Scratch::new();
            let path = scratch.path("log.jsonl");
            let write = WriteOptions { durability, ..WriteOptions::default() };
            let options = AppendOptions { write, ..AppendOptions::default() };
            Journal::open(&path).unwrap().append(&["first"], &options).unwrap();
            let (lock, paused) =
                (scratch.path(&format!(".tenure/log.jsonl.{suffix}")), AtomicBool::new(false));
            let fs = FaultyFs::new(move |op, file| {
                let log = file.extension().is_some_and(|suffix| suffix == "wal");
                if op == Op::Write && log && !paused.swap(true, Ordering::Relaxed) {
                    std::fs::remove_file(&lock).unwrap();
                    let since = Instant::now();
                    while since.elapsed() < Duration::from_millis(2) {
                        std::thread::yield_now();
                    }
                }
                Verdict::Go
            });
            let journal = Journal::open_on(&fs.shared(), &path).unwrap();
            let error = journal.append(&["second"], &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Compromised, "{suffix}: {error}");
            journal.append(&["third"], &options).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nthird\n", "{suffix}");
        }
    }
}
