//! One sync for many changes of a document: whom the leader lets write first, and whom it never waits
//! for (G8, G9, S1).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tenure::fs::Fs;
use tenure::{Document, Lock, LockOptions, Wait, WriteOptions};

use crate::document_scratch::{Scratch, count_in, durably, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::puppet::Puppet;
use crate::scratch::{FAR_TOO_LONG, lock_for};

/// The machine may be busy, and the leader's patience is short.
const TRIES: usize = 20;

fn is(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|name| name == suffix)
}

/// A file system on which `act` is done before an operation on a sidecar, the first time only.
fn once(on: Op, suffix: &'static str, act: impl FnOnce() + Send + 'static) -> Arc<dyn Fs> {
    let act = Mutex::new(Some(act));
    let fs = FaultyFs::new(move |op, path| {
        let act = (op == on && is(path, suffix)).then(|| act.lock().unwrap().take()).flatten();
        act.into_iter().for_each(|act| act());
        Verdict::Go
    });
    fs.shared()
}

/// Two changes, of which the second waits for the hold when the first one begins to lead. Returns how
/// many syncs of its own the second one needed.
fn syncs_of_the_second() -> usize {
    let scratch = Scratch::in_memory();
    let (dir, path) = (scratch.dir().to_path_buf(), scratch.path("state.json"));
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    let (asks, asked) = channel();
    let syncs = Arc::new(AtomicUsize::new(0));
    let count = syncs.clone();
    let second = FaultyFs::new(move |op, path| {
        count.fetch_add(usize::from(op == Op::SyncDir && path == dir), Ordering::SeqCst);
        if op == Op::Lock && is(path, "hold") {
            let _ = asks.send(());
        }
        Verdict::Go
    });
    let second = Document::open_on(&second.shared(), &path).unwrap();
    let (leads, leading) = channel();
    let held = path.clone();
    // The leader's note says that it leads.
    let first = once(Op::Write, "sync0", move || {
        let mut holder = Puppet::spawn();
        assert!(holder.say(&format!("lock {} no", held.display())).starts_with("ok "));
        let change = std::thread::spawn(move || second.update(&patiently(), increment));
        asked.recv_timeout(FAR_TOO_LONG).unwrap();
        assert_eq!(holder.say(&format!("release {}", held.display())), "ok");
        leads.send(change).unwrap();
    });
    let first = Document::open_on(&first, &path).unwrap();
    first.update(&patiently(), increment).unwrap();
    leading.try_recv().expect("the first one leads").join().unwrap().unwrap();
    assert_eq!(count_in(&first), 3);
    syncs.load(Ordering::SeqCst)
}

fn patiently() -> WriteOptions {
    WriteOptions { wait: Wait::For(FAR_TOO_LONG), ..durably() }
}

/// Somebody waits for the hold while the leader is about to sync. If it took no turn, each of them would
/// sync for itself.
#[test]
fn s1_the_leader_lets_those_write_first_who_wait_and_syncs_for_them() {
    let shared = (0..TRIES).filter(|_| syncs_of_the_second() == 0).count();
    assert!(shared > TRIES / 2, "one sync was for both in {shared} of {TRIES} tries");
}

/// Somebody gets the lock before the leader's turn and keeps it for an hour.
#[test]
fn g9_a_long_hold_does_not_keep_a_durable_change_from_its_end() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    let (keeps, kept) = channel();
    let locked = path.clone();
    let lock = move || keeps.send(lock_for(&locked, Wait::No).unwrap()).unwrap();
    let document = Document::open_on(&once(Op::Write, "sync0", lock), &path).unwrap();
    let (done, hears) = channel();
    std::thread::spawn(move || done.send(document.update(&durably(), increment)).unwrap());
    hears.recv_timeout(FAR_TOO_LONG).expect("it ends while the lock is held").unwrap();
    kept.try_recv().expect("the lock was taken first").release().unwrap();
    assert_eq!(count_in(&scratch.document("state.json")), 2);
}

/// A child of a hold would wait for its own parent.
#[test]
fn race_53_g9_a_change_that_proves_a_hold_takes_no_turn_for_it() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    let guard = Lock::open(&path).unwrap().acquire(&LockOptions::default()).unwrap();
    let fs = FaultyFs::new(|op, path| {
        assert!(op != Op::Lock || !is(path, "hold"), "the hold is proven");
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let options = WriteOptions { fence: Some(guard.fence()), ..durably() };
    document.set(&json!({ "n": 1 }), &options).unwrap();
    document.update(&options, increment).unwrap();
    assert_eq!(count_in(&document), 2);
    guard.release().unwrap();
}
