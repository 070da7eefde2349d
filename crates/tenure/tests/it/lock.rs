//! One holder: among processes, threads and handles of one process, and never the same thread twice.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure::options::Mode;
use tenure::status::HoldKind;
use tenure::{Document, ErrorKind, Lock, LockOptions, Wait, WriteOptions, json};

use crate::puppet::Puppet;
use crate::scratch::{
    A_MOMENT, FAR_TOO_LONG, LONG, Scratch, add_one, at_once, count, is_soon, kind, lock_for,
    share_for, terms, write,
};

/// OpenClaw's lock stayed behind when its process was killed, and two contenders then both judged
/// it stale: two holders in 16 of 40 rounds. Here the kernel releases it and picks one.
#[test]
fn race_01_g2_a_killed_holder_frees_the_lock_at_once() {
    is_soon(Duration::from_millis(500), |_| {
        let scratch = Scratch::new();
        let order = format!("lock {} forever", scratch.target().display());
        let (mut alice, mut bob, mut carol) = (Puppet::spawn(), Puppet::spawn(), Puppet::spawn());
        assert!(alice.say(&order).starts_with("ok "));
        bob.tell(&order);
        carol.tell(&order);
        bob.is_silent();
        carol.is_silent();
        let killed = Instant::now();
        alice.shoot();
        let (first, second) = loop {
            if let Some(answer) = bob.hear_within(Duration::from_millis(5)) {
                break (answer, carol);
            }
            if let Some(answer) = carol.hear_within(Duration::from_millis(5)) {
                break (answer, bob);
            }
            assert!(killed.elapsed() < FAR_TOO_LONG, "the dead holder's lock was not granted");
        };
        let took = killed.elapsed();
        let recovered = format!(" {}", alice.pid());
        assert!(first.starts_with("ok ") && first.ends_with(&recovered), "{first}");
        second.is_silent();
        took
    });
}

/// codegraph stole locks after 30 seconds, pi-subagents after two, from holders that were alive and
/// slow. A stopped process is the slowest there is, and it keeps its lock.
#[test]
fn race_05_g1_a_stopped_holder_keeps_the_lock() {
    let scratch = Scratch::new();
    let path = scratch.target().display().to_string();
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    assert!(alice.say(&format!("lock {path} no")).starts_with("ok "));
    alice.stop();
    bob.tell(&format!("lock {path} forever"));
    bob.is_silent();
    let busy = lock_for(&scratch.target(), Wait::No).unwrap_err();
    assert_eq!(busy.holder().map(|holder| holder.pid), Some(alice.pid()));
    alice.resume();
    assert_eq!(alice.say(&format!("verify {path}")), "ok");
    bob.is_silent();
    assert_eq!(alice.say(&format!("release {path}")), "ok");
    let got = bob.hear();
    assert!(got.ends_with(" 0"), "a proper release leaves nothing to recover: {got}");
}

/// Errors named "another process" when it was the caller itself, or no process at all. Ours names
/// the holder, since when, and what for.
#[test]
fn race_49_g9_busy_names_the_holder_and_its_purpose() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let options = LockOptions { label: "nightly".into(), owner: "ops".into(), ..free_of_wait() };
    let guard = lock.acquire(&options).unwrap();
    let error = std::thread::spawn(move || lock_for(lock.path(), Wait::No).unwrap_err());
    let error = error.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let holder = error.holder().unwrap();
    assert_eq!((holder.pid, holder.fence), (std::process::id(), guard.publish_fence()));
    assert_eq!((holder.label.as_str(), holder.owner.as_str()), ("nightly", "ops"));
    assert_eq!(holder.hold, HoldKind::Lock);
    assert!(holder.since_us > 0);
}

fn free_of_wait() -> LockOptions {
    LockOptions { wait: Wait::No, ..LockOptions::default() }
}

/// In-process exclusion is another class of bugs: POSIX locks do not exclude threads of one
/// process. Two handles are two contenders, whatever thread they are used on.
#[test]
fn race_16_g1_two_handles_of_one_process_exclude_each_other() {
    let scratch = Scratch::new();
    let first = lock_for(&scratch.target(), Wait::No).unwrap();
    assert_eq!(kind(lock_for(&scratch.target(), Wait::No)), Some(ErrorKind::Busy));
    let path = scratch.target();
    let waiting =
        std::thread::spawn(move || lock_for(&path, Wait::Forever).unwrap().publish_fence());
    let fence = first.publish_fence();
    first.release().unwrap();
    assert!(waiting.join().unwrap() > fence);
}

/// Eight threads with their own handles, as bundled copies of one library have them.
#[test]
fn race_16_g1_threads_are_never_inside_together() {
    let scratch = Scratch::new();
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let guard = lock_for(&scratch.target(), Wait::Forever).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    guard.release().unwrap();
                }
            });
        }
    });
}

/// Two spellings of one file are one lock: relative, through a symlink, with `..` in between.
#[test]
fn g1_every_spelling_of_a_path_is_the_same_lock() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("sub")).unwrap();
    std::fs::write(scratch.target(), "{}").unwrap();
    std::os::unix::fs::symlink(scratch.target(), scratch.path("sub/link")).unwrap();
    let _guard = lock_for(&scratch.target(), Wait::No).unwrap();
    for spelling in ["sub/link", "sub/../state.json", "./state.json"] {
        assert_eq!(kind(lock_for(&scratch.path(spelling), Wait::No)), Some(ErrorKind::Busy));
    }
    assert_eq!(scratch.names("sub"), ["link"], "no second set of sidecars");
}

/// An event loop waits on other threads. What they acquire is the loop's, and while they wait it
/// can release.
#[test]
fn race_18_a_wait_for_another_thread_neither_blocks_it_nor_hides_whose_the_lock_is() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let options = LockOptions {
        wait: Wait::Forever,
        thread: Some(std::thread::current().id()),
        ..LockOptions::default()
    };
    let mine = lock_for(&path, Wait::No).unwrap();
    let waiter = {
        let (path, options) = (path.clone(), options.clone());
        std::thread::spawn(move || Lock::open(path)?.acquire(&options))
    };
    mine.release().unwrap();
    let theirs = waiter.join().unwrap().unwrap();
    assert_eq!(kind(lock_for(&path, Wait::Forever)), Some(ErrorKind::Deadlock));
    let once = LockOptions { wait: Wait::For(A_MOMENT), ..options };
    assert_eq!(kind(Lock::open(&path).unwrap().acquire(&once)), Some(ErrorKind::Busy));
    theirs.release().unwrap();
    drop(lock_for(&path, Wait::No).unwrap());
}

/// A sync caller waited for an async holder of its own process until the deadline. A thread cannot
/// wait for itself, so the call is refused at once, whatever its wait.
#[test]
fn race_18_a_thread_that_waits_for_itself_is_told_at_once() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let forever = WriteOptions { wait: Wait::Forever, ..WriteOptions::default() };
    is_soon(Duration::from_millis(500), |_| {
        let started = Instant::now();
        let leased = tenure::Lease::open(&path).unwrap().acquire(&terms("me", LONG, Wait::Forever));
        assert_eq!(kind(lock_for(&path, Wait::Forever)), Some(ErrorKind::Deadlock));
        assert_eq!(kind(share_for(&path, Wait::Forever)), Some(ErrorKind::Deadlock));
        assert_eq!(kind(leased), Some(ErrorKind::Deadlock));
        assert_eq!(kind(add_one(&path, &forever)), Some(ErrorKind::Deadlock));
        started.elapsed()
    });
    guard.verify().unwrap();
    write(&path, Some(guard.publish_fence())).unwrap();
    guard.release().unwrap();
    assert_eq!(count(&path), 1);
}

/// An update inside the function of an update of the same document waits for itself as well; the
/// outer one is not harmed by the refusal of the inner one.
#[test]
fn race_53_an_update_inside_an_update_is_told_at_once() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let document = Document::open(&path).unwrap();
    let forever = WriteOptions { wait: Wait::Forever, ..at_once(None) };
    let mut inner = None;
    document
        .update(&forever, |_| {
            inner = kind(add_one(&path, &forever));
            Ok(Some(json!({ "n": 7 })))
        })
        .unwrap();
    assert_eq!((inner, count(&path)), (Some(ErrorKind::Deadlock), 7));
}

/// A command below `run` updates the target of `run`. It proves the hold by its fence, and so it does
/// not wait for its own parent.
#[test]
fn race_53_a_proven_hold_is_not_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let mut child = Puppet::spawn();
    assert!(child.say(&format!("add {} no 0", path.display())).starts_with("err busy"));
    assert_eq!(child.say(&format!("add {} no {}", path.display(), guard.publish_fence())), "ok");
    let nested = LockOptions { fence: Some(guard.publish_fence()), ..free_of_wait() };
    let nested = Lock::open(&path).unwrap().acquire(&nested).unwrap();
    assert_eq!(nested.publish_fence(), guard.publish_fence());
    nested.verify().unwrap();
    nested.release().unwrap();
    guard.verify().unwrap();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "nested releases nothing");
    let fence = guard.publish_fence();
    let nested = LockOptions { fence: Some(fence), ..free_of_wait() };
    let nested = Lock::open(&path).unwrap().acquire(&nested).unwrap();
    guard.release().unwrap();
    assert_eq!(kind(nested.verify()), Some(ErrorKind::Fenced), "it ended with the outer one");
    let late = child.say(&format!("add {} no {fence}", path.display()));
    assert!(late.starts_with("err fenced"), "{late}");
    assert_eq!(count(&path), 1);
}

/// Re-entrancy by process admitted unrelated tasks. Here it is keyed by an owner that the caller
/// names, and off by default.
#[test]
fn race_17_only_the_named_owner_may_come_in_again() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let as_owner = |owner: &str, reentrant| {
        let owner = owner.to_owned();
        lock.acquire(&LockOptions { owner, reentrant, ..free_of_wait() })
    };
    let first = as_owner("task-1", true).unwrap();
    let second = as_owner("task-1", true).unwrap();
    assert_eq!(first.publish_fence(), second.publish_fence());
    assert_eq!(kind(as_owner("task-2", true)), Some(ErrorKind::Busy));
    assert_eq!(kind(as_owner("task-1", false)), Some(ErrorKind::Busy));
    assert_eq!(kind(as_owner("", true)), Some(ErrorKind::Invalid));
    first.release().unwrap();
    assert_eq!(kind(as_owner("task-2", true)), Some(ErrorKind::Busy), "the inner one is still in");
    second.release().unwrap();
    as_owner("task-2", true).unwrap().release().unwrap();
}

/// An owner that holds a shared lock with others asks for an exclusive one. Granting it would turn
/// two readers into two writers.
#[test]
fn race_17_g1_a_shared_hold_does_not_reenter_as_an_exclusive_one() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let options = |owner: &str, mode| LockOptions {
        owner: owner.into(),
        reentrant: true,
        mode,
        ..free_of_wait()
    };
    let one = lock.acquire(&options("one", Mode::Shared)).unwrap();
    let two = lock.acquire(&options("two", Mode::Shared)).unwrap();
    assert_eq!(kind(lock.acquire(&options("one", Mode::Exclusive))), Some(ErrorKind::Busy));
    assert_eq!(kind(lock.acquire(&options("two", Mode::Exclusive))), Some(ErrorKind::Busy));
    lock.acquire(&options("two", Mode::Shared)).unwrap().release().unwrap();
    drop((one, two));
    let writer = lock.acquire(&options("one", Mode::Exclusive)).unwrap();
    assert!(
        lock.acquire(&options("one", Mode::Shared)).unwrap().publish_fence()
            == writer.publish_fence()
    );
}

/// `try_` in a hook must be cheap: it answers at once, whichever process holds the lock and in
/// whatever way.
#[test]
fn g9_trying_never_waits() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    for verb in ["lock", "share"] {
        assert!(alice.say(&format!("{verb} {} no", path.display())).starts_with("ok "));
        is_soon(Duration::from_secs(2), |_| {
            let started = Instant::now();
            for _ in 0..100 {
                assert_eq!(kind(tenure::try_lock(&path)), Some(ErrorKind::Busy));
                assert_eq!(kind(write(&path, None)), Some(ErrorKind::Busy));
            }
            started.elapsed()
        });
        assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    }
    tenure::try_lock(&path).unwrap().release().unwrap();
}

/// OpenClaw's release deleted whatever lock file was there, even that of the next holder. Ours acts
/// on its own handle: late, twice or by `drop`, it affects no other holder.
#[test]
fn race_04_g11_a_late_release_does_not_touch_the_next_holder() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let order = path.display().to_string();
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {order} no")).starts_with("ok "));
    // An outsider cleans up, so that Bob gets in while Alice still holds her guard.
    std::fs::remove_file(scratch.sidecar("hold")).unwrap();
    let bob = lock_for(&path, Wait::For(Duration::from_secs(5))).unwrap();
    let late = alice.say(&format!("release {order}"));
    assert!(late.starts_with("err compromised"), "{late}");
    bob.verify().unwrap();
    write(&path, Some(bob.publish_fence())).unwrap();
    assert!(alice.say(&format!("lock {order} no")).starts_with("err busy"));
    let path: PathBuf = scratch.target();
    let waiter = std::thread::spawn(move || kind(lock_for(&path, Wait::For(A_MOMENT))));
    assert_eq!(waiter.join().unwrap(), Some(ErrorKind::Busy));
    bob.release().unwrap();
    assert!(alice.say(&format!("lock {order} no")).starts_with("ok "));
}

/// A write in progress leaves no record of its process. A refused caller gets the holder from the
/// kernel.
#[test]
fn race_49_g9_a_write_in_progress_is_named() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let document = Document::open(&path).unwrap();
    let mut refused = None;
    document
        .update(&at_once(None), |_| {
            refused = lock_for(&path, Wait::No).err();
            Ok(Some(json!({})))
        })
        .unwrap();
    let refused = refused.unwrap();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(refused.holder().unwrap().pid, std::process::id(), "{refused}");
}
