//! Interleavings, faults and inputs of hostile reviews that once broke a guarantee.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tenure::embed;
use tenure::options::{CollectionKind, MaxHold};
use tenure::{Collection, Document, ErrorKind, Lock, LockOptions, Wait, WriteOptions};

use crate::document_scratch::increment;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::holding::copies_of;
use crate::scratch::{A_MOMENT, FAR_TOO_LONG, Scratch, at_once, count, kind, lock_for};
use crate::starting::{nobody_starts, start};

/// A tool that does not use tenure tries to lock a file.
fn outsider_gets(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn g1_a_caller_never_takes_the_lock_by_the_handle_that_its_waiter_is_parked_on() {
    // The head of the queue was woken by another caller's departure, found the lock free and took it
    // by the very handle on which its parked thread waited. That thread was granted it again, saw an
    // empty queue, and unlocked.
    let scratch = Scratch::new();
    drop(lock_for(&scratch.target(), Wait::No).unwrap());
    let outsider = open(&scratch.sidecar("hold"));
    assert!(outsider_gets(&outsider));
    let ((parks, parked), (wakes, woken)) = (channel(), channel::<()>());
    let (parks, woken) = (Mutex::new(parks), Mutex::new(woken));
    let fs = FaultyFs::new(move |op, path| {
        let waiter = std::thread::current().name() == Some("tenure-wait");
        if op == Op::Lock && waiter && path.extension().is_some_and(|end| end == "hold") {
            parks.lock().unwrap().send(()).unwrap();
            let _ = woken.lock().unwrap().recv_timeout(FAR_TOO_LONG);
        }
        Verdict::Go
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let waits = |wait| LockOptions { wait, ..LockOptions::default() };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| lock.acquire(&waits(Wait::For(FAR_TOO_LONG))).unwrap());
        parked.recv_timeout(FAR_TOO_LONG).unwrap();
        flock(&outsider, FlockOperation::Unlock).unwrap();
        let second = scope.spawn(|| lock.acquire(&waits(Wait::For(Duration::from_millis(20)))));
        assert_eq!(kind(second.join().unwrap()), Some(ErrorKind::Busy));
        let moment = Instant::now();
        while !first.is_finished() && moment.elapsed() < A_MOMENT {
            std::thread::yield_now();
        }
        wakes.send(()).unwrap();
        let guard = first.join().unwrap();
        let moment = Instant::now();
        while moment.elapsed() < A_MOMENT {
            assert!(!outsider_gets(&outsider), "two holders");
        }
        guard.release().unwrap();
        assert!(outsider_gets(&outsider));
    });
}

#[test]
fn g1_children_keep_the_lock_even_if_the_record_cannot_be_written() {
    let scratch = Scratch::new();
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let fs = FaultyFs::new(move |op, path| {
        let record = path.extension().is_some_and(|end| end == "commit");
        if op == Op::Write && record && failing.load(Ordering::SeqCst) {
            return Verdict::Fail(io::Error::from_raw_os_error(libc::EIO));
        }
        Verdict::Go
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let guard = lock.acquire(&LockOptions::default()).unwrap();
    let child = copies_of(&guard);
    let _alone = nobody_starts();
    fails.store(true, Ordering::SeqCst);
    assert_eq!(kind(embed::leave_to_children(guard)), Some(ErrorKind::Io));
    let outsider = open(&scratch.sidecar("hold"));
    assert!(!outsider_gets(&outsider), "the child still has it");
    drop(child);
    assert!(outsider_gets(&outsider));
}

#[test]
fn g1_race_17_an_owner_whose_hold_was_ended_locks_anew() {
    let scratch = Scratch::new();
    let (ends, ended) = channel();
    let ends = Mutex::new(ends);
    let report = Arc::new(move |_: &Path| ends.lock().unwrap().send(()).unwrap());
    let max_hold = MaxHold { after: Duration::from_millis(1), end: true, report };
    let again = LockOptions {
        owner: "me".into(),
        reentrant: true,
        wait: Wait::No,
        ..LockOptions::default()
    };
    let lock = Lock::open(scratch.target()).unwrap();
    let first = lock.acquire(&LockOptions { max_hold: Some(max_hold), ..again.clone() }).unwrap();
    ended.recv_timeout(FAR_TOO_LONG).unwrap();
    let second = lock.acquire(&again).unwrap();
    assert!(!outsider_gets(&open(&scratch.sidecar("hold"))), "a guard without a lock");
    assert!(second.publish_fence() > first.publish_fence());
    drop(first);
    second.release().unwrap();
}

#[test]
fn g1_race_17_another_lock_file_is_another_lock_for_the_same_owner() {
    let scratch = Scratch::new();
    let of = |name: &str| LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(scratch.path(name)),
            ..tenure::file::FileOptions::default()
        },
        owner: "me".into(),
        reentrant: true,
        ..LockOptions::default()
    };
    let lock = Lock::open(scratch.target()).unwrap();
    let _first = lock.acquire(&of("one.lock")).unwrap();
    // Re-entering by the first hold is refused: it does not hold the second file.
    assert_eq!(kind(lock.acquire(&of("two.lock"))), Some(ErrorKind::Deadlock));
    assert!(!outsider_gets(&open(&scratch.path("one.lock"))));
}

#[test]
fn g1_c2_removing_a_key_under_a_proven_hold_leaves_that_hold_alone() {
    let scratch = Scratch::new();
    let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
    keys.document("k").unwrap().set(&serde_json::json!(1), &at_once(None)).unwrap();
    let path = keys.path_of("k").unwrap();
    let guard = lock_for(&path, Wait::No).unwrap();
    assert!(keys.remove("k", &at_once(Some(guard.publish_fence()))).unwrap());
    assert!(!path.exists());
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "two holders");
    guard.verify().unwrap();
    guard.release().unwrap();
    keys.prune(&tenure::options::Prune::default(), &at_once(None)).unwrap();
    assert_eq!(scratch.names("keys/.tenure"), [".gitignore", "floor"]);
}

#[test]
fn g13_removing_a_key_never_follows_a_link_out_of_the_collection() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("precious.json"), "{}").unwrap();
    std::fs::create_dir(scratch.path("keys")).unwrap();
    std::os::unix::fs::symlink("../precious.json", scratch.path("keys/k.json")).unwrap();
    let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
    assert_eq!(kind(keys.remove("k", &at_once(None))), Some(ErrorKind::Invalid));
    assert!(scratch.path("precious.json").exists());
}

#[test]
fn g6_an_operation_that_died_after_publishing_is_done_once_even_if_others_came_between() {
    let scratch = Scratch::new();
    let armed = Arc::new(AtomicBool::new(false));
    let dies = armed.clone();
    let fs = FaultyFs::new(move |op, path| {
        let record = path.extension().is_some_and(|end| end == "commit");
        match op {
            Op::Exchange => dies.store(true, Ordering::SeqCst),
            Op::Write if record && dies.load(Ordering::SeqCst) => {
                return Verdict::Fail(io::Error::from_raw_os_error(libc::EIO));
            }
            _ => {}
        }
        Verdict::Go
    });
    let named = |id: &str| WriteOptions { operation: Some(id.into()), ..at_once(None) };
    let target = scratch.target();
    Document::open(&target).unwrap().update(&at_once(None), increment).unwrap();
    let dying = Document::open_on(&fs.shared(), &target).unwrap();
    let error = dying.update(&named("first"), increment).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    assert_eq!(count(&target), 2);
    let document = Document::open(&target).unwrap();
    document.update(&named("second"), increment).unwrap();
    let again = document.update(&named("first"), increment).unwrap();
    assert!(again.replayed);
    assert_eq!(count(&target), 3, "the first operation counts once");
}

#[test]
fn race_27_a_typo_after_a_reboot_is_damage_and_never_reset() {
    // It was once taken for a file that the power loss had cut, and an older version replaced it.
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|_, _| Verdict::Go);
    let document = Document::open_on(&fs.shared(), &scratch.target()).unwrap();
    for _ in 0..3 {
        document.update(&WriteOptions::default(), increment).unwrap();
    }
    fs.reboot();
    std::fs::write(scratch.target(), "{ \"n\": 3, \"mine\": tru }").unwrap();
    assert_eq!(kind(document.read()), Some(ErrorKind::Damaged));
    assert_eq!(kind(document.update(&at_once(None), increment)), Some(ErrorKind::Damaged));
    let bytes = std::fs::read_to_string(scratch.target()).unwrap();
    assert_eq!(bytes, "{ \"n\": 3, \"mine\": tru }");
}

#[test]
fn race_33_a_prune_lists_the_sidecars_once_and_not_once_per_key() {
    let scratch = Scratch::new();
    let lists = Arc::new(AtomicU32::new(0));
    let counted = lists.clone();
    let fs = FaultyFs::new(move |op, _| {
        counted.fetch_add(u32::from(op == Op::List), Ordering::SeqCst);
        Verdict::Go
    });
    let dir = scratch.path("keys");
    let keys = Collection::open_on(&fs.shared(), &dir, CollectionKind::Documents).unwrap();
    for key in 0..40 {
        let document = keys.document(&format!("k{key}")).unwrap();
        document.update(&at_once(None), increment).unwrap();
    }
    std::fs::write(dir.join(".tenure/k1.json.tmp.0123456789abcdef"), "left over").unwrap();
    lists.store(0, Ordering::SeqCst);
    let all = tenure::options::Prune { max_count: Some(0), ..tenure::options::Prune::default() };
    assert_eq!(keys.prune(&all, &at_once(None)).unwrap().removed.len(), 40);
    assert!(lists.load(Ordering::SeqCst) <= 6, "{lists:?} listings");
    assert_eq!(scratch.names("keys/.tenure"), [".gitignore", "floor"]);
}

#[test]
fn race_51_g4_a_restored_record_in_a_recycled_inode_does_not_repeat_fences() {
    let scratch = Scratch::new();
    drop(lock_for(&scratch.target(), Wait::No).unwrap());
    let shell = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(scratch.path(""));
        assert!(start(&mut command).unwrap().wait().unwrap().success());
    };
    for round in 0..8 {
        shell("cp -a $1/.tenure $1/backup");
        let newest = (0..5).map(|_| lock_for(&scratch.target(), Wait::No).unwrap().publish_fence());
        let newest = newest.max().unwrap();
        scratch.let_the_record_age();
        shell("rm -rf $1/.tenure && cp -a $1/backup $1/.tenure && rm -rf $1/backup");
        let next = lock_for(&scratch.target(), Wait::No).unwrap().publish_fence();
        assert!(next > newest, "round {round}: {next} after {newest}");
    }
}

#[test]
fn race_31_g6_a_foreign_version_that_a_dying_change_displaced_is_kept() {
    // Replaced at the last moment, exchanged unread, and the change died before it restored it.
    let scratch = Scratch::new();
    let target = scratch.target();
    let document = Document::open(&target).unwrap();
    document.update(&WriteOptions::default(), increment).unwrap();
    let (exchanged, theirs) = (AtomicBool::new(false), target.clone());
    let fs = FaultyFs::new(move |op, _| {
        if exchanged.load(Ordering::SeqCst) {
            return Verdict::Fail(io::Error::from_raw_os_error(libc::EIO));
        }
        if op == Op::Exchange {
            crate::document_scratch::foreign_replace(&theirs, "{\"theirs\": true}");
            exchanged.store(true, Ordering::SeqCst);
        }
        Verdict::Go
    });
    let dying = Document::open_on(&fs.shared(), &target).unwrap();
    dying.update(&at_once(None), increment).unwrap_err();
    document.update(&at_once(None), increment).unwrap();
    let kept = std::fs::read_to_string(scratch.sidecar("damaged.1")).unwrap();
    assert_eq!(kept, "{\"theirs\": true}");
}
