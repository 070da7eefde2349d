//! Waiting: in order, to the millisecond, and without leaving anything behind.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tenure::{Cancel, ErrorKind, Lock, LockOptions, Wait};

use crate::puppet::Puppet;
use crate::scratch::{
    A_MOMENT, FAR_TOO_LONG, LONG, Scratch, is_soon, kind, lease, lock_for, terms,
};

/// How late an answer may be on a busy machine; on a quiet one it is below a millisecond.
const LATE: Duration = Duration::from_millis(50);

fn assert_on_time(asked: Duration, took: Duration) {
    assert!(took >= asked, "{took:?} is before the deadline of {asked:?}");
    assert!(took < asked + LATE, "{took:?} is long after the deadline of {asked:?}");
}

/// Polling loops are late by up to their interval, and wrong if the clock is set. The best of
/// twenty tries counts, since the machine may be busy.
#[test]
fn race_19_g9_a_deadline_is_kept_to_a_few_milliseconds() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    let _lease = lease(&scratch.path("leased"), "other");
    for (path, millis) in [(&path, 5), (&path, 60), (&path, 250), (&scratch.path("leased"), 60)] {
        let asked = Duration::from_millis(millis);
        let mut best = FAR_TOO_LONG;
        for _ in 0..20 {
            let started = Instant::now();
            assert_eq!(kind(lock_for(path, Wait::For(asked))), Some(ErrorKind::Busy));
            best = best.min(started.elapsed());
            if best < asked + LATE {
                break;
            }
        }
        assert_on_time(asked, best);
    }
}

/// A waiting hook is cancelled. It returns at once, and its wait leaves no lock behind.
#[test]
fn race_44_g9_a_cancelled_wait_ends_at_once() {
    let scratch = Scratch::new();
    let leased = scratch.path("leased");
    let _lease = lease(&leased, "other");
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", scratch.target().display())).starts_with("ok "));
    for path in [scratch.target(), leased] {
        is_soon(Duration::from_secs(1), |_| {
            let cancel = Cancel::new();
            let options = LockOptions {
                wait: Wait::Forever,
                cancel: Some(cancel.clone()),
                ..LockOptions::default()
            };
            let ((send, answers), path) = (channel(), path.clone());
            std::thread::spawn(move || {
                let done = kind(Lock::open(path).unwrap().acquire(&options));
                send.send((done, Instant::now())).unwrap();
            });
            assert!(answers.recv_timeout(A_MOMENT).is_err(), "an answer although it had to wait");
            let cancelled = Instant::now();
            cancel.cancel();
            let (done, at) = answers.recv_timeout(FAR_TOO_LONG).unwrap();
            assert_eq!(done, Some(ErrorKind::Cancelled));
            at - cancelled
        });
    }
    assert_eq!(alice.say(&format!("release {}", scratch.target().display())), "ok");
    lock_for(&scratch.target(), Wait::For(FAR_TOO_LONG)).unwrap().release().unwrap();
}

/// A token that was cancelled before the wait ends it too; and a free lock is not waited for.
#[test]
fn g9_a_token_that_is_cancelled_already_ends_the_wait_before_it_starts() {
    let scratch = Scratch::new();
    let cancel = Cancel::new();
    cancel.cancel();
    let options =
        LockOptions { wait: Wait::Forever, cancel: Some(cancel), ..LockOptions::default() };
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", scratch.target().display())).starts_with("ok "));
    let lock = Lock::open(scratch.target()).unwrap();
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Cancelled));
}

/// Every waiter that gave up used to leave a thread in the kernel, or worse: a lock granted to no
/// caller. Runs in its own process, since threads and descriptors of other tests would count.
#[test]
fn race_45_g9_two_hundred_waiters_that_gave_up_leave_at_most_one_thread() {
    let scratch = Scratch::new();
    let path = scratch.target().display().to_string();
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    assert!(alice.say(&format!("lock {path} no")).starts_with("ok "));
    let said = bob.say(&format!("give-up {path} 200"));
    let counts: Vec<usize> = said.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let [threads_before, threads, files_before, files] = counts[..] else { panic!("{said}") };
    assert!(threads <= threads_before + 1, "{said}");
    assert!(files <= files_before + 1, "{said}");
    assert_eq!(alice.say(&format!("release {path}")), "ok");
    // Bob's parked thread is granted the lock after its caller left, releases it and ends.
    let started = Instant::now();
    while has_thread(bob.pid(), "tenure-wait") {
        assert!(started.elapsed() < FAR_TOO_LONG, "it waits for ever");
        std::thread::yield_now();
    }
    let got = alice.say(&format!("lock {path} no"));
    assert!(got.starts_with("ok "), "{got}");
    assert_eq!(alice.say(&format!("release {path}")), "ok");
    assert!(bob.say(&format!("lock {path} 5000")).starts_with("ok "));
}

fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.any(|found| found.is_ok_and(|found| found.trim() == name))
}

/// A server that locks a thousand sessions one after the other ends with the threads and
/// descriptors it started with.
#[test]
fn g9_unused_locks_are_forgotten() {
    let scratch = Scratch::new();
    let mut alice = Puppet::spawn();
    let said = alice.say(&format!("many {} 300", scratch.path("session").display()));
    let counts: Vec<usize> = said.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let [threads_before, threads, files_before, files] = counts[..] else { panic!("{said}") };
    assert_eq!((threads, files), (threads_before, files_before), "{said}");
}

/// Fixed polling favours the luckiest: one of codegraph's eight writers waited 1.66 s for an append
/// of a millisecond. Waiters of one process are served in the order they came.
#[test]
fn race_19_g9_waiters_of_one_process_are_served_in_order() {
    let scratch = Scratch::new();
    let served = Mutex::new(Vec::new());
    let mut alice = Puppet::spawn();
    let path = scratch.target();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (path, served) = (&path, &served);
            let thread = std::thread::Builder::new().name(format!("in-order-{number}"));
            let wait_in_line = move || {
                let guard = lock_for(path, Wait::Forever).unwrap();
                served.lock().unwrap().push(number);
                guard.release().unwrap();
            };
            thread.spawn_scoped(scope, wait_in_line).unwrap();
            until_asleep(&format!("in-order-{number}"));
        }
        assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    });
    assert_eq!(*served.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

/// A waiter is in the queue once its thread sleeps, behind others (`FUTEX_WAIT`) or as the first of
/// them in the kernel's lock. There is no other sign of it from outside.
fn until_asleep(name: &str) {
    let (started, mut since, mut looks) = (Instant::now(), Instant::now(), 0);
    while since.elapsed() < Duration::from_millis(10) || looks < 50 {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let sleeps = tasks.map(|task| task.path()).any(|task| {
            // Where the kernel does not say what it sleeps in, the state "asleep" must do.
            let why = read(task.join("wchan"));
            read(task.join("comm")).trim() == name
                && (why.contains("futex") || why.contains("lock_inode") || why == "0")
                && read(task.join("stat")).contains(") S ")
        });
        looks += 1;
        if !sleeps {
            (since, looks) = (Instant::now(), 0);
        }
        assert!(started.elapsed() < FAR_TOO_LONG, "no thread sleeps");
        std::thread::yield_now();
    }
}

/// A lock waits for a lease until it ends, and is woken by its release, not by a timer.
#[test]
fn race_44_g9_a_waiter_is_woken_by_the_release_of_a_lease() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let lease = tenure::Lease::open(&path).unwrap();
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    is_soon(Duration::from_secs(1), |_| {
        let held = lease.acquire(&terms("turn-1", LONG, Wait::No)).unwrap();
        alice.tell(&format!("lock {} forever", path.display()));
        alice.is_silent();
        let released = Instant::now();
        lease.release(&held.token).unwrap();
        assert!(alice.hear().starts_with("ok "));
        let took = released.elapsed();
        assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
        took
    });
    let held = lease.acquire(&terms("turn-2", LONG, Wait::No)).unwrap();
    bob.tell(&format!("lease {} bob 60000 forever", path.display()));
    bob.is_silent();
    lease.release(&held.token).unwrap();
    assert!(bob.hear().starts_with("ok "));
}
