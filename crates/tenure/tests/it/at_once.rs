//! Locks that an event loop takes on its own thread: they wait for no holder and no disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tenure::embed;
use tenure::options::{MaxHold, Mode};
use tenure::{ErrorKind, Journal, Lock, LockOptions, Wait};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::puppet::Puppet;
use crate::scratch::{FAR_TOO_LONG, Scratch, kind, lease, lock_for, share_for, write};

/// More holds than one sync reserves fences for.
const HOLDS: usize = 3000;

/// A new target and a reservation of fences need the disk. Both are left to callers that can wait.
#[test]
fn g9_a_lock_taken_at_once_never_syncs() {
    let (scratch, syncs) = (Scratch::new(), Arc::new(AtomicUsize::new(0)));
    let counted = syncs.clone();
    let fs = FaultyFs::new(move |op, _| {
        counted.fetch_add(usize::from(matches!(op, Op::Sync | Op::SyncDir)), Ordering::Relaxed);
        Verdict::Go
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let options = LockOptions::default();
    let (mut left, mut last) = (0, 0);
    for _ in 0..HOLDS {
        let before = syncs.load(Ordering::Relaxed);
        let taken = embed::try_lock_fast(&lock, &options).unwrap();
        assert_eq!(syncs.load(Ordering::Relaxed), before, "it waited for the disk");
        let guard = taken.unwrap_or_else(|| {
            left += 1;
            lock.acquire(&options).unwrap()
        });
        assert!(embed::unpublished_fence(&guard) > last, "fences grow");
        last = embed::unpublished_fence(&guard);
        guard.release().unwrap();
    }
    assert!((2..=4).contains(&left), "{left} of {HOLDS} were left to others");
}

/// A lock taken with `try_lock_fast` is as good as any other.
#[test]
fn g1_a_lock_taken_at_once_excludes_everybody() {
    let scratch = Scratch::new();
    let (path, options) = (scratch.target(), LockOptions::default());
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    let lock = Lock::open(&path).unwrap();
    let guard = embed::try_lock_fast(&lock, &options).unwrap().unwrap();
    assert!(embed::try_lock_fast(&lock, &options).unwrap().is_none());
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(kind(share_for(&path, Wait::No)), Some(ErrorKind::Busy));
    let number = embed::unpublished_fence(&guard);
    assert_eq!(kind(write(&path, Some(number))), Some(ErrorKind::Fenced), "not published");
    assert_eq!(guard.publish_fence(), number);
    write(&path, Some(number)).unwrap();
    guard.verify().unwrap();
    guard.release().unwrap();
    assert_eq!(kind(write(&path, Some(number))), Some(ErrorKind::Fenced));
    let _reader = share_for(&path, Wait::No).unwrap();
    assert!(embed::try_lock_fast(&lock, &options).unwrap().is_none(), "a reader holds it");
}

/// Only work that another thread can do is left to it. An error is returned as an error.
#[test]
fn g10_a_lock_file_that_cannot_be_looked_at_is_not_left_to_others() {
    let scratch = Scratch::new();
    let (path, options) = (scratch.target(), LockOptions::default());
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    let fs = FaultyFs::new(|op, path| match op {
        Op::Stat if path.extension().is_some_and(|end| end == "hold") => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let lock = Lock::open_on(&fs.shared(), &path).unwrap();
    assert_eq!(kind(embed::try_lock_fast(&lock, &options)), Some(ErrorKind::Io));
}

/// Releasing a guard through a reference frees the lock, unless another guard of the same owner
/// keeps it.
#[test]
fn g2_a_guard_can_be_ended_while_others_refer_to_it() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    embed::end(&guard).unwrap();
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    embed::end(&guard).unwrap();

    let again = LockOptions { owner: "me".into(), reentrant: true, ..LockOptions::default() };
    let lock = Lock::open(&path).unwrap();
    let guards = [lock.acquire(&again).unwrap(), lock.acquire(&again).unwrap()];
    embed::end(&guards[0]).unwrap();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "the other one keeps it");
    let [first, second] = guards;
    drop(first);
    embed::end(&second).unwrap();
    lock_for(&path, Wait::No).unwrap().release().unwrap();

    let (report, reported) = channel();
    let report = Arc::new(move |_: &Path| report.send(()).unwrap());
    let max_hold = Some(MaxHold { after: Duration::from_millis(1), end: true, report });
    let late = lock.acquire(&LockOptions { max_hold, ..LockOptions::default() }).unwrap();
    reported.recv_timeout(FAR_TOO_LONG).unwrap();
    assert_eq!(kind(embed::end(&late)), Some(ErrorKind::Fenced), "it was ended before");
}

/// Reporting a dead holder, honouring a lease and recovering a journal are left to callers that can
/// wait.
#[test]
fn g9_what_may_take_its_time_is_left_to_others() {
    let scratch = Scratch::new();
    let (path, options) = (scratch.target(), LockOptions::default());
    let at_once =
        |options: &LockOptions| embed::try_lock_fast(&Lock::open(&path).unwrap(), options);
    assert!(at_once(&options).unwrap().is_none(), "a new directory");
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    for other in [
        LockOptions { mode: Mode::Shared, ..LockOptions::default() },
        LockOptions { fence: Some(1), ..LockOptions::default() },
        LockOptions { owner: "me".into(), reentrant: true, ..LockOptions::default() },
    ] {
        assert!(at_once(&other).unwrap().is_none(), "{other:?}");
    }
    let mut dies = Puppet::spawn();
    dies.say(&format!("lock {} no", path.display()));
    assert!(at_once(&options).unwrap().is_none(), "held by another process");
    dies.kill();
    assert!(at_once(&options).unwrap().is_none(), "its holder died");
    let guard = lock_for(&path, Wait::No).unwrap();
    assert!(guard.recovered_from().is_some(), "the dead holder is still reported");
    guard.release().unwrap();
    assert!(at_once(&options).unwrap().is_some());

    let leased = scratch.path("leased");
    let _lease = lease(&leased, "me");
    assert!(embed::try_lock_fast(&Lock::open(&leased).unwrap(), &options).unwrap().is_none());
    let journal = scratch.path("journal");
    Journal::open(&journal).unwrap().append(&["x"], &tenure::AppendOptions::default()).unwrap();
    assert!(embed::try_lock_fast(&Lock::open(&journal).unwrap(), &options).unwrap().is_none());
}
