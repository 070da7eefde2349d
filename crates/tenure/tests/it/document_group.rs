//! One sync for many changes of a document: which writers the leader lets go first, and which it
//! never waits for (G8, G9, S1).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::fs::Fs;
use tenure::{Document, ErrorKind, Fence, WriteOptions, json};

use crate::document_scratch::{Scratch, count_in, durably, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::forged::number_in;
use crate::puppet::Puppet;
use crate::scratch::FAR_TOO_LONG;

/// The machine may be busy, and the leader's patience is short.
const TRIES: usize = 500;
/// A single success could be chance.
const ENOUGH: usize = 6;
/// The leader waits 20 ms.
const PART_OF_THE_PATIENCE: Duration = Duration::from_millis(5);

fn is(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|name| name == suffix)
}

/// The file system of a leader; `leads` runs before the leader writes its note.
fn leader(leads: impl FnOnce() + Send + 'static) -> Arc<dyn Fs> {
    let leads = Mutex::new(Some(leads));
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Write && is(path, "sync0") {
            let leads = leads.lock().unwrap().take();
            if let Some(leads) = leads {
                leads();
            }
        }
        Verdict::Go
    });
    fs.shared()
}

/// Another process takes the lock. Returns it, and the fence of its hold.
fn holder(path: &Path) -> (Puppet, Fence) {
    let mut holder = Puppet::spawn();
    let said = holder.say(&format!("lock {} no", path.display()));
    let fence = said.strip_prefix("ok ").and_then(|said| said.split(' ').next());
    (holder, fence.and_then(|fence| fence.parse().ok()).expect(&said))
}

/// Two changes: the second is in the critical section when the first begins to lead, and stays
/// there for a moment. Returns how many syncs of its own the second one needed.
fn syncs_of_the_second() -> usize {
    let scratch = Scratch::in_memory();
    let (dir, path) = (scratch.dir().to_path_buf(), scratch.path("state.json"));
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let count = syncs.clone();
    let second = FaultyFs::new(move |op, path| {
        count.fetch_add(usize::from(op == Op::SyncDir && path == dir), Ordering::SeqCst);
        Verdict::Go
    });
    let second = Document::open_on(&second.shared(), &path).unwrap();
    let (ends, ended) = channel();
    let (started, starts) = channel();
    let leads = move || {
        let (enters, entered) = channel();
        let change = std::thread::spawn(move || {
            second.update(&durably(), |old| {
                enters.send(()).unwrap();
                // A leader that takes no turn finishes meanwhile, and that ends the wait.
                let _ = ended.recv_timeout(PART_OF_THE_PATIENCE);
                increment(old)
            })
        });
        entered.recv_timeout(FAR_TOO_LONG).unwrap();
        started.send(change).unwrap();
    };
    let first = Document::open_on(&leader(leads), &path).unwrap();
    first.update(&durably(), increment).unwrap();
    let _ = ends.send(());
    starts.try_recv().expect("the first one leads").join().unwrap().unwrap();
    assert_eq!(count_in(&first), 3);
    syncs.load(Ordering::SeqCst)
}

/// A writer waits for the hold while the leader is about to sync. If the leader took no turn, each
/// of them would sync for itself.
#[test]
fn s1_the_leader_lets_those_write_first_who_wait_and_syncs_for_them() {
    let shared = (0..TRIES).filter(|_| syncs_of_the_second() == 0).take(ENOUGH).count();
    assert_eq!(shared, ENOUGH, "so often one sync was for both in {TRIES} tries");
}

/// Another process gets the lock before the leader's turn and keeps it for an hour.
#[test]
fn g9_a_long_hold_does_not_keep_a_durable_change_from_its_end() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    let (keeps, kept) = channel();
    let locked = path.clone();
    let lock = move || keeps.send(holder(&locked)).unwrap();
    let document = Document::open_on(&leader(lock), &path).unwrap();
    let (done, hears) = channel();
    std::thread::spawn(move || done.send(document.update(&durably(), increment)).unwrap());
    hears.recv_timeout(FAR_TOO_LONG).expect("it ends while the lock is held").unwrap();
    drop(kept.try_recv().expect("the lock was taken first"));
    assert_eq!(count_in(&scratch.document("state.json")), 2);
}

/// A child of a hold would wait for its own parent.
#[test]
fn race_53_g9_a_change_that_proves_a_hold_takes_no_turn_for_it() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    let (_holder, fence) = holder(&path);
    let fs = FaultyFs::new(|op, path| {
        assert!(op != Op::Lock || !is(path, "hold"), "the hold is proven");
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let options = WriteOptions { fence: Some(fence), ..durably() };
    document.set(&json!({ "n": 1 }), &options).unwrap();
    document.update(&options, increment).unwrap();
    assert_eq!(count_in(&document), 2);
}

/// How far the note in a file says that a sync `began`.
fn began(notes: &Path) -> u64 {
    let mut bytes = std::fs::read(notes).unwrap();
    bytes.resize(1024, 0);
    let newest = [64, 192].into_iter().max_by_key(|at| number_in(&bytes, *at)).unwrap();
    number_in(&bytes, newest + 48)
}

/// The start of a sync is noted before the sync: if the leader dies in it, the next leader has to
/// know.
#[test]
fn s3_a_sync_is_noted_before_it_begins_and_no_longer_than_it_takes() {
    let scratch = Scratch::in_memory();
    let (dir, notes) = (scratch.dir().to_path_buf(), scratch.path(".tenure/state.json.sync0"));
    let (tells, told) = channel();
    let inside = notes.clone();
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::SyncDir && path == dir && inside.exists() {
            tells.send(began(&inside)).unwrap();
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    for _ in 0..2 {
        document.update(&durably(), increment).unwrap();
        assert!(told.try_recv().unwrap() > 0, "during the sync");
        assert_eq!(began(&notes), 0, "after it");
    }
}

/// A busy lock is waited for; a lock that fails is reported at once.
#[test]
fn s6_a_lock_of_the_shared_sync_that_fails_is_not_asked_for_again() {
    let scratch = Scratch::in_memory();
    let tried = Arc::new(AtomicUsize::new(0));
    let count = tried.clone();
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Lock && is(path, "sync0") {
            count.fetch_add(1, Ordering::SeqCst);
            return Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let error = document.update(&durably(), increment).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::NotDurable, Some(true)));
    assert_eq!(tried.load(Ordering::SeqCst), 1);
}
