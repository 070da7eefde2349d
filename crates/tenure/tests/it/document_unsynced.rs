//! What somebody left unsynced, or could not sync, is never told to be durable (G8).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tenure::fs::Access;
use tenure::{Document, ErrorKind, Lock, LockOptions};
use tenure_testkit::{Fault, SimFs, Times};

use crate::document_scratch::{Scratch, at_once, durably, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

const PATH: &str = "/d/state.json";

fn open(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

/// What the kernel could not write counts as written since then: only what is written anew is believed.
#[test]
fn race_54_a_failed_sync_is_not_mended_by_asking_again() {
    for seed in 0..200 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&at_once(), increment).unwrap();
        fs.inject(1, Fault::SyncFailure, Times::Once);
        let first = open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap_err();
        assert_eq!(first.kind(), ErrorKind::NotDurable);
        let again = open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap();
        assert!(!again.changed);
        fs.crash();
        let found = open(&fs).read().unwrap().map(|found| found.value);
        assert_eq!(found, Some(json!({ "n": 2 })), "seed {seed}");
    }
}

/// Somebody else replaced the document by the same bytes and did not sync them. A durable call that
/// changes nothing syncs that file; and one without a sync keeps no copy of it that could be empty.
#[test]
fn the_same_bytes_of_somebody_else_are_not_taken_for_synced() {
    for seed in 0..300 {
        for durable in [true, false] {
            let fs = machine(seed);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&durably(), increment).unwrap();
            let bytes = fs.peek(Path::new(PATH)).unwrap();
            let theirs = Path::new("/d/theirs");
            let file = fs.shared().open(theirs, Access::CreateNew(0o600)).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            fs.shared().rename(theirs, Path::new(PATH)).unwrap();
            if durable {
                assert!(!open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap().changed);
            } else {
                open(&fs).update(&at_once(), increment).unwrap();
            }
            fs.crash();
            let found = open(&fs).read().unwrap().map(|found| found.value["n"].as_u64());
            assert!(found.flatten() >= Some(2), "seed {seed}, durable: {durable}: {found:?}");
        }
    }
}

/// A directory that was copied while a writer was busy: the record first, the notes of the shared sync
/// some changes later. They tell of numbers that the copy has not reached, also if a lock has made the record
/// its own before the first change.
#[test]
fn every_durable_change_of_a_copy_is_synced() {
    for locked in [false, true] {
        every_change_of_a_copy_is_synced(locked);
    }
}

fn every_change_of_a_copy_is_synced(locked: bool) {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("one")).unwrap();
    std::fs::create_dir_all(scratch.path("two/.tenure")).unwrap();
    let source = scratch.document("one/state.json");
    source.update(&durably(), increment).unwrap();
    let copy = |name: &str| {
        let (from, to) = (scratch.path("one").join(name), scratch.path("two").join(name));
        std::fs::copy(from, to).unwrap();
    };
    copy(".tenure/state.json.commit");
    for _ in 0..3 {
        source.update(&durably(), increment).unwrap();
    }
    for name in [".tenure/state.json.sync0", ".tenure/state.json.hold", "state.json"] {
        copy(name);
    }
    let (dir, syncs) = (scratch.path("two"), Arc::new(AtomicU64::new(0)));
    let counted = syncs.clone();
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::SyncDir && path == dir {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Go
    });
    let path = scratch.path("two/state.json");
    if locked {
        let guard = Lock::open(&path).unwrap().acquire(&LockOptions::default()).unwrap();
        guard.fence();
        guard.release().unwrap();
    }
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    for nth in 1..=4 {
        document.update(&durably(), increment).unwrap();
        let synced = syncs.load(Ordering::Relaxed);
        assert_eq!(synced, nth, "each was acknowledged as durable, locked before: {locked}");
    }
}

/// A bare number that was cut is still one; a blank before it changes nothing of that.
#[test]
fn g5_a_bare_number_is_synced_also_behind_a_blank() {
    let scratch = Scratch::new();
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Sync && path.to_string_lossy().contains(".tmp.") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    document.set(&json!({}), &at_once()).unwrap();
    let before = syncs.load(Ordering::Relaxed);
    document.update_text(&at_once(), |_| Ok(Some(" 123456".into()))).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), before + 1);
}
