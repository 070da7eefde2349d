//! A version that was left unsynced, or could not be synced, is never reported as durable (G8).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::embed;
use tenure::fs::{Access, Trust};
use tenure::{Document, ErrorKind, Lock, LockOptions, WriteOptions, json};
use tenure_testkit::{CrashKind, SimFs};

use crate::altered::Altered;
use crate::document_scratch::{Scratch, at_once, durably, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

pub(crate) const PATH: &str = "/d/state.json";

pub(crate) fn open(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

pub(crate) fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

/// What another tool does: a new file, renamed over the document.
pub(crate) fn replace_by(fs: &SimFs, bytes: &[u8], synced: bool) {
    let theirs = Path::new("/d/theirs");
    let file = fs.shared().open(theirs, Access::CreateNew(0o600)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    if synced {
        file.sync().unwrap();
    }
    fs.shared().rename(theirs, Path::new(PATH)).unwrap();
    if synced {
        fs.shared().sync_dir(Path::new("/d")).unwrap();
    }
}

/// Another program replaced the document by the same bytes and did not sync them. A durable call
/// that changes nothing makes them durable; a call without a sync keeps no copy of them that could
/// be empty.
#[test]
fn the_same_bytes_of_somebody_else_are_not_taken_for_synced() {
    for seed in 0..300 {
        for durable in [true, false] {
            let fs = machine(seed);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&durably(), increment).unwrap();
            let bytes = fs.peek(Path::new(PATH)).unwrap();
            replace_by(&fs, &bytes, false);
            if durable {
                assert!(!open(&fs).set(&json!({ "n": 2 }), &durably()).unwrap().changed);
            } else {
                open(&fs).update(&at_once(), increment).unwrap();
            }
            fs.crash();
            let found = open(&fs).read().unwrap().map(|found| found.value["n"].as_u64());
            // Without a sync theirs may be lost, as it may have been before; then `.good` is there.
            let least = if durable { 2 } else { 1 };
            assert!(found.flatten() >= Some(least), "seed {seed}, durable: {durable}: {found:?}");
        }
    }
}

/// Where a power loss may keep only half of an exchange with an unsynced file, or that is unknown,
/// the new version is synced first.
#[test]
fn g5_a_change_without_a_sync_syncs_where_names_lose_their_order() {
    let cases = [
        (Some(Trust::Yes), false, 0),
        (Some(Trust::Unordered), false, 1),
        (Some(Trust::Probe), false, 1),
        (Some(Trust::Yes), true, 1), // Not checked.
    ];
    for (trust, allow_network, syncs) in cases {
        let scratch = Scratch::new();
        let (fs, altered) = Altered { trust: trust.clone(), ..Altered::default() }.mounted();
        let document = Document::open_on(&fs, &scratch.path("state.json")).unwrap();
        let options = |write: WriteOptions| WriteOptions {
            file: tenure::file::FileOptions {
                allow_network,
                ..tenure::file::FileOptions::default()
            },
            ..write
        };
        document.update(&options(durably()), increment).unwrap();
        let before = altered.syncs.load(Ordering::SeqCst);
        document.update(&options(at_once()), increment).unwrap();
        let made = altered.syncs.load(Ordering::SeqCst) - before;
        assert_eq!(made, syncs, "{trust:?}, allow_network: {allow_network}");
    }
}

/// A directory copied while a writer was busy: the record first, the notes of the shared sync some
/// changes later. The notes hold numbers that the copied record has not reached, even if a lock has
/// bound the record to this file before the first change.
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
        guard.publish_fence();
        guard.release().unwrap();
    }
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    for nth in 1..=4 {
        document.update(&durably(), increment).unwrap();
        let synced = syncs.load(Ordering::Relaxed);
        assert_eq!(synced, nth, "each was acknowledged as durable, locked before: {locked}");
    }
}

/// The last change is undone from outside: the version before it, which still exists, and a copy of
/// its record are restored. The notes of the shared sync know the number that comes next.
#[test]
fn g8_a_change_after_one_that_was_taken_back_is_synced() {
    let scratch = Scratch::new();
    let (dir, syncs) = (scratch.dir().to_path_buf(), Arc::new(AtomicU64::new(0)));
    let counted = syncs.clone();
    let fs = FaultyFs::new(move |op, path| {
        counted.fetch_add(u64::from(op == Op::SyncDir && path == dir), Ordering::Relaxed);
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let (record, copy) = (scratch.path(".tenure/state.json.commit"), scratch.path("copy"));
    document.update(&durably(), increment).unwrap();
    std::fs::copy(&record, &copy).unwrap();
    document.update(&durably(), increment).unwrap();
    std::fs::rename(scratch.path(".tenure/state.json.good"), document.path()).unwrap();
    std::fs::rename(&copy, &record).unwrap();
    let before = syncs.load(Ordering::Relaxed);
    document.update(&durably(), increment).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), before + 1);
}

/// A bare number that was cut is still a number, also with a blank before it.
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
    embed::update_text(&document, &at_once(), |_| Ok(Some(" 123456".into()))).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), before + 1);
}

/// A change without a sync synced its fallback version and then failed. That the version was synced
/// covers its name as well.
#[test]
fn g8_the_name_of_a_foreign_version_is_synced_with_it() {
    for seed in 0..100 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        replace_by(&fs, b"{\n  \"n\": 7\n}\n", false);
        let refusing = FaultyFs::on(fs.shared(), |op, _| match op {
            Op::Exchange => Verdict::Fail(std::io::ErrorKind::PermissionDenied.into()),
            _ => Verdict::Go,
        });
        let document = Document::open_on(&refusing.shared(), Path::new(PATH)).unwrap();
        document.update(&at_once(), increment).unwrap_err();
        assert!(!open(&fs).set(&json!({ "n": 7 }), &durably()).unwrap().changed);
        fs.crash();
        let found = open(&fs).read().unwrap().map(|found| found.value);
        assert_eq!(found, Some(json!({ "n": 7 })), "seed {seed}");
    }
}

/// Another program touched the file, or replaced it by a copy with the same time (`cp -p`): it is
/// published anew once, not each time.
#[test]
fn a_file_that_was_touched_is_published_anew_once() {
    let scratch = Scratch::new();
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let fs = FaultyFs::new(move |op, _| {
        counted.fetch_add(u64::from(matches!(op, Op::Sync | Op::SyncDir)), Ordering::Relaxed);
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    document.update(&durably(), increment).unwrap();
    let file = std::fs::File::open(document.path()).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let synced = |()| {
        let before = syncs.load(Ordering::Relaxed);
        document.set(&json!({ "n": 1 }), &durably()).unwrap();
        syncs.load(Ordering::Relaxed) - before
    };
    assert_eq!([(); 3].map(synced), [2, 0, 0], "content, names");
    let file = std::fs::File::open(document.path()).unwrap();
    let (copy, time) = (scratch.path("copy"), file.metadata().unwrap().modified().unwrap());
    std::fs::copy(document.path(), &copy).unwrap();
    std::fs::File::open(&copy).unwrap().set_modified(time).unwrap();
    std::fs::rename(&copy, document.path()).unwrap();
    assert_eq!([(); 2].map(synced), [2, 0], "a copy");
}

/// A version that was not synced is published anew. If its sync fails, nothing was changed. If its
/// record cannot be written, the version is visible, and it is unknown whether it is durable.
#[test]
fn g8_a_version_that_was_published_anew_without_its_record_is_not_durable() {
    let scratch = Scratch::new();
    let (armed, anew) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let now = armed.clone();
    let fs = FaultyFs::new(move |op, path| {
        let now = now.load(Ordering::Relaxed);
        let syncs = now == 1 && op == Op::Sync && path.to_string_lossy().contains(".tmp.");
        anew.fetch_add(u64::from(now == 2 && op == Op::Exchange), Ordering::Relaxed);
        let records = op == Op::Write && path.ends_with("state.json.commit");
        if syncs || (records && anew.load(Ordering::Relaxed) > 0) {
            return Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    document.update(&durably(), increment).unwrap();
    document.update(&at_once(), increment).unwrap();
    for (step, told) in
        [(1, (ErrorKind::Io, Some(false))), (2, (ErrorKind::NotDurable, Some(true)))]
    {
        armed.store(step, Ordering::Relaxed);
        let error = document.set(&json!({ "n": 2 }), &durably()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), told, "step {step}: {error}");
    }
}

/// The synced version cannot be kept as `.good`, and the version that displaced it was not synced.
#[test]
fn g5_a_synced_version_that_cannot_be_kept_is_not_removed() {
    for seed in 0..200 {
        let sim = machine(seed);
        open(&sim).update(&durably(), increment).unwrap();
        let fs = FaultyFs::on(sim.shared(), move |op, path| match op {
            Op::Rename if path.to_string_lossy().ends_with(".good") => {
                Verdict::Fail(io::ErrorKind::StorageFull.into())
            }
            _ => Verdict::Go,
        });
        let document = Document::open_on(&fs.shared(), Path::new(PATH)).unwrap();
        let done = document.update(&at_once(), increment);
        assert_eq!(done.as_ref().map_err(tenure::Error::is_committed).err(), Some(Some(true)));
        if seed % 4 > 1 {
            open(&sim).update(&at_once(), increment).unwrap();
        }
        sim.crash();
        let found = open(&sim).read().map(|found| found.map(|found| found.value));
        let number = found.as_ref().ok().and_then(|found| found.as_ref()?["n"].as_u64());
        assert!(number >= Some(1), "seed {seed}: {done:?}: {found:?}");
    }
}

/// A number that was cut is a number.
#[test]
fn g5_a_number_that_a_power_loss_cut_is_not_taken_for_a_version() {
    for seed in 0..300 {
        let start = machine(seed);
        open(&start).update(&durably(), increment).unwrap();
        open(&start).update(&at_once(), increment).unwrap();
        for nth in 1.. {
            let fs = start.fork(seed + nth);
            fs.fail_after(nth, CrashKind::Power);
            let done = open(&fs).set(&json!(1_234_567_890_123_u64), &durably());
            if !fs.is_down() {
                done.unwrap();
                break;
            }
            fs.crash();
            let found = open(&fs).read().map(|found| found.map(|found| found.value));
            let value = found.as_ref().ok().and_then(Option::as_ref);
            let known = [json!({ "n": 1 }), json!({ "n": 2 }), json!(1_234_567_890_123_u64)];
            let fits = value.is_some_and(|value| known.contains(value));
            assert!(fits, "seed {seed}, operation {nth}: {found:?}\n{}", fs.history());
        }
    }
}

/// A restore that has nothing to restore is still a durable call.
#[test]
fn g8_a_restore_that_changes_nothing_syncs_what_it_found() {
    for seed in 0..100 {
        let sim = machine(seed);
        open(&sim).update(&durably(), increment).unwrap();
        let theirs = Path::new("/d/theirs");
        let file = sim.shared().open(theirs, Access::CreateNew(0o600)).unwrap();
        file.write_all_at(b"{\"n\":7}\n", 0).unwrap();
        sim.shared().rename(theirs, Path::new(PATH)).unwrap();
        assert!(!open(&sim).restore(&durably()).unwrap().changed);
        sim.crash();
        let found = open(&sim).read().map(|found| found.map(|found| found.value));
        let number = found.as_ref().ok().and_then(|found| found.as_ref()?["n"].as_u64());
        assert_eq!(number, Some(7), "seed {seed}: {found:?}\n{}", sim.history());
    }
}
