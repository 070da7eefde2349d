//! The life of a guard: dropped instead of released, proven by its fence, ended by its own limit, left
//! to children.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::embed;
use tenure::options::{MaxHold, Mode};
use tenure::{ErrorKind, Lock, LockGuard, LockOptions, Result, Wait};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::puppet::Puppet;
use crate::scratch::{
    A_MOMENT, FAR_TOO_LONG, LONG, Scratch, kind, lock_for, share_for, terms, write,
};
use crate::starting::{nobody_starts, start};

fn nested(path: &Path, fence: u64) -> Result<LockGuard> {
    let options = LockOptions { fence: Some(fence), wait: Wait::No, ..LockOptions::default() };
    Lock::open(path)?.acquire(&options)
}

/// Dropping a guard ends its hold properly: the next holder gets no report of a death.
#[test]
fn g2_a_dropped_guard_is_a_release() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let fence = guard.publish_fence();
    drop(guard);
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced), "it has ended");
    assert_eq!(lock_for(&path, Wait::No).unwrap().recovered_from(), None);
}

/// A nested hold is only as good as the fence that proves it. A fence that is over, or was never
/// given out, proves nothing, also on an unused target.
#[test]
fn race_53_g3_a_nested_hold_needs_the_current_fence() {
    let (scratch, unused) = (Scratch::new(), Scratch::new());
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    for wrong in [1, guard.publish_fence() - 1, guard.publish_fence() + 1] {
        assert_eq!(kind(nested(&path, wrong)), Some(ErrorKind::Fenced), "{wrong}");
    }
    let inner = nested(&path, guard.publish_fence()).unwrap();
    inner.verify().unwrap();
    assert_eq!(
        (inner.publish_fence(), embed::descriptors(&inner).len()),
        (guard.publish_fence(), 0)
    );
    assert!(embed::is_nested(&inner) && !embed::is_nested(&guard));
    guard.release().unwrap();
    assert_eq!(kind(inner.verify()), Some(ErrorKind::Fenced), "the hold it is part of has ended");
    assert_eq!(kind(nested(&path, inner.publish_fence())), Some(ErrorKind::Fenced));
    inner.release().unwrap();
    assert_eq!(kind(nested(&unused.target(), 1)), Some(ErrorKind::Fenced));
}

/// A hold that exceeds its own limit is ended: the guard reports it, its fence is refused, and the
/// next holder gets the lock while the guard still exists.
#[test]
fn race_18_g3_a_hold_that_outlasts_its_limit_is_over() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (report, reported) = channel();
    let report = Arc::new(move |target: &Path| report.send(target.to_path_buf()).unwrap());
    let max_hold = MaxHold { after: Duration::from_millis(1), end: true, report };
    let options = LockOptions { max_hold: Some(max_hold), ..LockOptions::default() };
    let late = || {
        let guard = Lock::open(&path).unwrap().acquire(&options).unwrap();
        assert_eq!(reported.recv_timeout(FAR_TOO_LONG).unwrap(), path);
        guard
    };
    let guard = late();
    assert_eq!(kind(guard.verify()), Some(ErrorKind::Fenced));
    assert_eq!(kind(write(&path, Some(guard.publish_fence()))), Some(ErrorKind::Fenced));
    let next = lock_for(&path, Wait::No).unwrap();
    assert_eq!(next.recovered_from(), None, "no holder died");
    assert_eq!(kind(guard.release()), Some(ErrorKind::Fenced));
    next.verify().unwrap();
    next.release().unwrap();
    drop(late());
}

/// An owner can re-enter each of its holds, also after it has taken others.
#[test]
fn race_17_an_owner_of_several_targets_comes_in_again_by_each() {
    let scratch = Scratch::new();
    let again = |name: &str| {
        let options = LockOptions {
            owner: "me".into(),
            reentrant: true,
            wait: Wait::No,
            ..LockOptions::default()
        };
        Lock::open(scratch.path(name)).unwrap().acquire(&options)
    };
    let (a, b) = (again("a").unwrap(), again("b").unwrap());
    let inner = [again("a").unwrap(), again("b").unwrap()];
    assert_eq!(
        inner.each_ref().map(LockGuard::publish_fence),
        [a.publish_fence(), b.publish_fence()]
    );
}

/// A hold left to children that have already exited has ended, exclusive or shared. It does not
/// hide a later death.
#[test]
fn g2_a_hold_that_is_left_to_nobody_has_ended() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let alone = nobody_starts();
    embed::leave_to_children(share_for(&path, Wait::No).unwrap()).unwrap();
    let guard = lock_for(&path, Wait::No).unwrap();
    let fence = guard.publish_fence();
    embed::leave_to_children(guard).unwrap();
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced), "it has ended");
    embed::leave_to_children(share_for(&path, Wait::No).unwrap()).unwrap();
    drop(alone);
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", path.display())).ends_with(" 0"), "no holder died");
    alice.kill();
    let next = lock_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
    assert_eq!(next.recovered_from().map(|holder| holder.pid), Some(alice.pid()));
}

/// A process that leaves a lock to its children closes the record after they exit, unless another
/// holder has it by then. A holder that came in between and ended properly did not die.
#[test]
fn g2_a_hold_that_was_left_says_nothing_about_the_next_one() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let next = Arc::new(Mutex::new(None::<Puppet>));
    let (quick, order) = (next.clone(), path.clone());
    let fs = FaultyFs::new(move |op, touched| {
        if op == Op::Lock && touched.extension().is_some_and(|end| end == "hold") {
            if let Some(mut quick) = quick.lock().unwrap().take() {
                assert!(quick.say(&format!("lock {} no", order.display())).starts_with("ok "));
                assert_eq!(quick.say(&format!("release {}", order.display())), "ok");
            }
        }
        Verdict::Go
    });
    let guard = Lock::open_on(&fs.shared(), &path).unwrap().acquire(&LockOptions::default());
    let guard = guard.unwrap();
    let _told = guard.publish_fence();
    *next.lock().unwrap() = Some(Puppet::spawn());
    let _alone = nobody_starts();
    embed::leave_to_children(guard).unwrap();
    assert!(next.lock().unwrap().is_none(), "another holder was faster");
    assert_eq!(lock_for(&path, Wait::No).unwrap().recovered_from(), None);
}

/// The same if it cannot be recorded: no process has a copy of the lock, so the lock is free.
#[test]
fn g2_a_hold_that_is_left_to_nobody_has_ended_even_if_that_cannot_be_noted() {
    let scratch = Scratch::new();
    let armed = Arc::new(AtomicBool::new(false));
    let fails = armed.clone();
    let fs = FaultyFs::new(move |op, _| match op {
        Op::Write if fails.load(Ordering::Relaxed) => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let guard = lock.acquire(&LockOptions::default()).unwrap();
    armed.store(true, Ordering::Relaxed);
    let _alone = nobody_starts();
    assert_eq!(kind(embed::leave_to_children(guard)), Some(ErrorKind::Io));
    lock_for(&scratch.target(), Wait::No).unwrap().release().unwrap();
    drop(lock);
}

/// A lock left to a living child stays with it, and so does the fence. The next holder gets no
/// report of a death.
#[test]
fn race_16_g1_a_hold_that_is_left_to_a_child_lives_with_it() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let scratch = Scratch::new();
        let path = scratch.target();
        let lock_file = scratch.path("their.lock");
        let options = LockOptions {
            file: tenure::file::FileOptions {
                lock_file: Some(lock_file.clone()),
                ..tenure::file::FileOptions::default()
            },
            mode,
            wait: Wait::No,
            ..LockOptions::default()
        };
        let guard = Lock::open(&path).unwrap().acquire(&options).unwrap();
        let (fence, copies) = (guard.publish_fence(), copies_of(&guard));
        embed::leave_to_children(guard).unwrap();
        let theirs = std::fs::File::open(&lock_file).unwrap();
        assert!(flock(&theirs, FlockOperation::NonBlockingLockExclusive).is_err(), "{mode:?}");
        assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "{mode:?}");
        if mode == Mode::Exclusive {
            write(&path, Some(fence)).unwrap();
        }
        let _alone = nobody_starts();
        drop(copies);
        let next = lock_for(&path, Wait::No).unwrap();
        assert_eq!(next.recovered_from(), None, "{mode:?}: it ended well");
    }
}

/// A file that a child inherited is not locked again by its parent: the child shares the open file,
/// could unlock it, and would keep it locked after the parent's death.
#[test]
fn race_16_g1_what_a_child_inherited_is_not_locked_again() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let guard = lock.acquire(&LockOptions::default()).unwrap();
    let copies = copies_of(&guard);
    guard.release().unwrap();
    let guard = lock.acquire(&LockOptions::default()).unwrap();
    for copy in &copies {
        flock(copy, FlockOperation::Unlock).unwrap();
    }
    let outsider = std::fs::File::open(scratch.sidecar("hold")).unwrap();
    assert!(flock(&outsider, FlockOperation::NonBlockingLockExclusive).is_err());
    guard.release().unwrap();
}

/// A lock file whose metadata cannot be read says nothing about the hold.
#[test]
fn g10_a_lock_file_that_cannot_be_looked_at_is_an_io_error() {
    let scratch = Scratch::new();
    let armed = Arc::new(AtomicBool::new(false));
    let fails = armed.clone();
    let fs = FaultyFs::new(move |op, _| match op {
        Op::Stat if fails.load(Ordering::Relaxed) => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let guard = lock.acquire(&LockOptions::default()).unwrap();
    armed.store(true, Ordering::Relaxed);
    assert_eq!(kind(guard.verify()), Some(ErrorKind::Io));
    armed.store(false, Ordering::Relaxed);
    guard.release().unwrap();
    let options = LockOptions { wait: Wait::For(A_MOMENT), ..LockOptions::default() };
    armed.store(true, Ordering::Relaxed);
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Io), "and neither is it busy");
    armed.store(false, Ordering::Relaxed);
    lock.acquire(&options).unwrap().release().unwrap();
}

/// A script that removes the lock file as fast as it is locked keeps a caller busy until the
/// caller's deadline, and no longer.
#[test]
fn race_13_g9_a_lock_file_that_is_replaced_all_the_time_is_busy_in_the_end() {
    let scratch = Scratch::new();
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Lock && path.extension().is_some_and(|name| name == "hold") {
            std::fs::remove_file(path).unwrap();
        }
        Verdict::Go
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let options = LockOptions { wait: Wait::For(A_MOMENT), ..LockOptions::default() };
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Busy));
    lock_for(&scratch.target(), Wait::No).unwrap().release().unwrap();
}

/// The previous holder is not the current one: a foreign lock leaves no record.
#[test]
fn race_49_g9_busy_does_not_name_a_holder_that_is_gone() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let options = LockOptions { owner: "before".into(), wait: Wait::No, ..LockOptions::default() };
    Lock::open(&path).unwrap().acquire(&options).unwrap().release().unwrap();
    let foreign = std::fs::File::open(scratch.sidecar("hold")).unwrap();
    flock(&foreign, FlockOperation::NonBlockingLockExclusive).unwrap();
    let error = lock_for(&path, Wait::No).unwrap_err();
    let holder = error.holder().expect("busy names a holder");
    assert_eq!((error.kind(), holder.owner.as_str()), (ErrorKind::Busy, ""));
    assert_eq!(holder.pid, std::process::id(), "the kernel knows who it is");
}

/// A process that holds a kernel lock on this file until its input ends.
fn foreign_holder(path: &Path) -> Child {
    let mut command = Command::new("flock");
    command.arg(path).args(["sh", "-c", "echo ready; read -r end"]);
    let mut holder = start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let mut ready = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    holder
}

/// A foreign tool holds one of the other locks. The caller has the hold by then, and must not be
/// named as the holder it waits for.
#[test]
fn race_49_g9_busy_names_the_process_that_has_the_other_lock() {
    type Call<'a> = &'a dyn Fn() -> Option<tenure::Error>;
    let scratch = Scratch::new();
    let (path, theirs) = (scratch.target(), scratch.path("theirs.lock"));
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    let also = LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(theirs.clone()),
            ..tenure::file::FileOptions::default()
        },
        wait: Wait::No,
        ..LockOptions::default()
    };
    let set: Call<'_> = &|| write(&path, None).err();
    let lease: Call<'_> = &|| {
        let lease = tenure::Lease::open(&path).unwrap();
        lease.acquire(&terms("us", LONG, Wait::No)).err()
    };
    let lock: Call<'_> = &|| Lock::open(&path).unwrap().acquire(&also).err();
    for (file, call) in [
        (scratch.sidecar("commit"), set),
        (scratch.sidecar("commit"), lease),
        (theirs.clone(), lock),
    ] {
        let mut foreign = foreign_holder(&file);
        let error = call().expect("a refusal");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(error.holder().map(|holder| holder.pid), Some(foreign.id()), "{error}");
        drop(foreign.stdin.take());
        foreign.wait().unwrap();
        assert!(call().is_none(), "free again");
        // A lease that was granted is over for the next call.
        std::fs::remove_file(scratch.sidecar("commit")).unwrap();
        lock_for(&path, Wait::No).unwrap().release().unwrap();
    }
}

/// What a child process inherits: the same open files under other numbers.
pub(crate) fn copies_of(guard: &LockGuard) -> Vec<std::os::fd::OwnedFd> {
    let copy = |raw: i32| {
        #[expect(unsafe_code, reason = "a raw descriptor is what a child inherits")]
        // SAFETY: the guard that it belongs to is alive.
        let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(raw) };
        borrowed.try_clone_to_owned().unwrap()
    };
    embed::descriptors(guard).into_iter().map(copy).collect()
}
