//! Locks of names that have no file: removed when they are provably unused, and fences keep
//! growing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::file::{sweep, sweep_on};
use tenure::{Document, ErrorKind, Fence, Lease, Lock, LockOptions, Wait};
use tenure_testkit::{CrashKind, SimFs};

use crate::roles::played;
use crate::scratch::{Scratch, at_once, kind, lease, lock_for, seeds, share_for, terms, write};
use crate::starting::start;

/// How many targets have a hold.
fn holds(scratch: &Scratch) -> usize {
    let names = scratch.names(".tenure");
    names.iter().filter(|name| name.rsplit('.').next() == Some("hold")).count()
}

fn swept(scratch: &Scratch) -> Vec<String> {
    let removed = sweep(scratch.path(""), true).unwrap();
    removed.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn g4_thousands_of_locks_of_files_that_are_gone_leave_little_and_their_fences_grow() {
    const LOCKS: usize = 2000;
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    let lock_all = || -> Vec<Fence> {
        (0..LOCKS).map(|number| fence_on(&fs, &format!("/d/task-{number}")).unwrap()).collect()
    };
    let before = lock_all();
    let left = fs.shared().list(Path::new("/d/.tenure")).unwrap().len() / 2;
    // One new lock in 32 triggers a sweep. That none of 600 does happens once in a hundred million
    // runs.
    assert!(left < 700, "{left} of {LOCKS} are left");
    let after = lock_all();
    assert!(before.iter().zip(&after).all(|(before, after)| after > before));
    sweep_on(&fs.shared(), Path::new("/d"), true).unwrap();
    assert_eq!(fs.shared().list(Path::new("/d/.tenure")).unwrap().len(), 2, "the floor alone");
}

#[test]
fn race_50_only_what_is_provably_unused_is_swept() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name);
    drop(lock_for(&path("unused"), Wait::No).unwrap());
    let odd = "o".repeat(200);
    drop(lock_for(&path(&odd), Wait::No).unwrap());
    // Each of these is kept, for a reason of its own.
    drop(lock_for(&path("there"), Wait::No).unwrap());
    std::fs::write(path("there"), "data").unwrap();
    let there = "t".repeat(200);
    drop(lock_for(&path(&there), Wait::No).unwrap());
    std::fs::write(path(&there), "data").unwrap();
    let held = lock_for(&path("held"), Wait::No).unwrap();
    let shared = share_for(&path("shared"), Wait::No).unwrap();
    let leased = lease(&path("leased"), "me");
    let over = Lease::open(path("over")).unwrap();
    let over_token = over.acquire(&terms("me", Duration::from_micros(1), Wait::No)).unwrap().token;
    write(&path("removed.json"), None).unwrap();
    std::fs::remove_file(path("removed.json")).unwrap();
    let taken_over = Lease::open(path("taken")).unwrap();
    let token =
        taken_over.take_over(&terms("me", Duration::from_secs(9), Wait::No), "why").unwrap();
    taken_over.release(&token.token).unwrap();

    let mut found = sweep(scratch.path(""), false).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(holds(&scratch), 10, "a look removes nothing");
    found.sort();
    assert_eq!(sweep(scratch.path(""), true).unwrap(), found);
    assert_eq!(holds(&scratch), 8);
    assert!(!path(".tenure/unused.hold").exists() && !path(".tenure/unused.commit").exists());

    held.verify().unwrap();
    held.release().unwrap();
    shared.release().unwrap();
    let renewed = Lease::open(path("leased")).unwrap().renew(&leased.token, None).unwrap();
    assert_eq!(renewed.fence, leased.fence);
    over.renew(&over_token, Some(Duration::from_secs(9))).unwrap();
    assert_eq!(taken_over.events().unwrap().len(), 1);
    assert_eq!(swept(&scratch), ["held", "shared"], "they are unused now");
}

/// The next holder learns that the previous one died: such a record must not be swept.
#[test]
fn race_50_the_lock_of_a_holder_that_died_is_kept() {
    let scratch = Scratch::new();
    let mut child =
        start(&mut played("die with a lock", &scratch.target(), "exec \"$@\"")).unwrap();
    child.wait().unwrap();
    assert_eq!(swept(&scratch), [""; 0]);
    let guard = lock_for(&scratch.target(), Wait::No).unwrap();
    assert!(guard.recovered_from().is_some());
}

/// A writer that proves its fence takes the commit lock alone; a waiter has the file open already.
#[test]
fn g1_who_uses_a_lock_while_it_is_swept_gets_a_new_one() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let first = lock.acquire(&options).unwrap();
    let before = first.publish_fence();
    first.release().unwrap();
    // The handle keeps its files open between two calls.
    assert_eq!(swept(&scratch), ["state.json"]);
    assert_eq!(kind(write(&scratch.target(), Some(before))), Some(ErrorKind::Fenced));
    let second = lock.acquire(&options).unwrap();
    second.verify().unwrap();
    assert!(second.publish_fence() > before);
    assert_eq!(kind(lock_for(&scratch.target(), Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(swept(&scratch), [""; 0]);
}

/// Locks `path` and gives it back; its fence.
fn fence_on(fs: &SimFs, path: &str) -> tenure::Result<Fence> {
    let guard = Lock::open_on(&fs.shared(), Path::new(path))?.acquire(&LockOptions::default())?;
    let fence = guard.publish_fence();
    guard.release()?;
    Ok(fence)
}

/// A directory whose floor is an hour ahead of the clock, so that the clock hides no defect; the
/// newest fence of each name.
fn stage(seed: u64) -> (SimFs, HashMap<String, Fence>) {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fence_on(&fs, "/d/first").unwrap();
    assert_eq!(sweep_on(&fs.shared(), Path::new("/d"), true).unwrap().len(), 1);
    let mut newest = HashMap::new();
    for name in ["/d/a", "/d/b", "/d/c"] {
        for _ in 0..3 {
            newest.insert(name.to_owned(), fence_on(&fs, name).unwrap());
        }
    }
    (fs, newest)
}

/// Interrupted after any operation by a crash of the process or a power loss, twice in a row.
#[test]
fn g4_a_sweep_that_was_cut_off_anywhere_takes_no_fence_back() {
    let sweep_all = |fs: &SimFs| sweep_on(&fs.shared(), Path::new("/d"), true);
    let (dry, _) = stage(0);
    let before = dry.operations();
    assert_eq!(sweep_all(&dry).unwrap().len(), 3);
    let steps = dry.operations() - before;
    assert!(steps > 9, "{steps}");
    for kind in [CrashKind::Process, CrashKind::Power] {
        for nth in 1..=steps + 1 {
            for seed in seeds(0..8) {
                let (fs, mut newest) = stage(seed);
                let _tell = fs.tell_on_panic();
                for round in 0..2 {
                    fs.fail_after(nth, kind);
                    let _ = sweep_all(&fs);
                    match kind {
                        CrashKind::Process => fs.process_crash(),
                        CrashKind::Power => fs.crash(),
                    }
                    for (name, newest) in &mut newest {
                        let fence = fence_on(&fs, name).unwrap();
                        assert!(fence > *newest, "{name}, step {nth}, round {round}: {fence}");
                        *newest = fence;
                    }
                }
            }
        }
    }
}

/// Holders of a few names, beside a process that sweeps them and is killed again and again.
#[test]
fn g1_g4_holders_beside_sweepers_that_are_killed() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let scratch = Scratch::new();
    drop(lock_for(&scratch.path("first"), Wait::No).unwrap());
    assert_eq!(swept(&scratch), ["first"], "from now on fences are ahead of the clock");
    let newest: Vec<Mutex<Fence>> = NAMES.iter().map(|_| Mutex::new(0)).collect();
    let until = Instant::now() + Duration::from_secs(3);
    let (mut kills, turns) = (0, AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (scratch, newest, turns) = (&scratch, &newest, &turns);
            scope.spawn(move || {
                for turn in thread.. {
                    if Instant::now() > until {
                        return;
                    }
                    let index = turn % NAMES.len();
                    let guard = lock_for(&scratch.path(NAMES[index]), Wait::Forever).unwrap();
                    // Two holders would both have this lock.
                    let mut newest = newest[index].try_lock().expect("two holders");
                    let fence = guard.publish_fence();
                    assert!(fence > *newest, "{}: {fence} after {newest}", NAMES[index]);
                    *newest = fence;
                    drop(newest);
                    guard.release().unwrap();
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while Instant::now() < until {
            let mut role = played("sweep again and again", &scratch.path(""), "exec \"$@\"");
            let mut sweeper = start(&mut role).unwrap();
            // At a varying time after it has begun.
            let enough = turns.load(Ordering::Relaxed) + 30 + kills % 90;
            while turns.load(Ordering::Relaxed) < enough && Instant::now() < until {
                std::thread::yield_now();
            }
            sweeper.kill().unwrap();
            sweeper.wait().unwrap();
            kills += 1;
        }
    });
    assert!(kills > 10, "{kills}");
    for (index, name) in NAMES.iter().enumerate() {
        let fence = lock_for(&scratch.path(name), Wait::No).unwrap().publish_fence();
        assert!(fence > *newest[index].lock().unwrap(), "{name}");
    }
    assert!(Document::open(scratch.path("a")).unwrap().set(&1, &at_once(None)).is_ok());
}
