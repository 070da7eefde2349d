//! Shared holds: among processes, among threads, and after any writers.

use std::sync::mpsc::channel;
use std::time::Duration;

use tenure::options::Mode;
use tenure::{Cancel, ErrorKind, Lock, LockOptions, Wait};

use crate::puppet::Puppet;
use crate::scratch::{
    A_MOMENT, FAR_TOO_LONG, LONG, Scratch, kind, lease, lock_for, share_for, terms, write,
};

/// Readers exclude only writers, in one process and in several. They draw no fence.
#[test]
fn g1_readers_are_together_and_exclude_writers() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    assert_eq!(alice.say(&format!("share {} no", path.display())), "ok 0 0");
    assert_eq!(bob.say(&format!("share {} no", path.display())), "ok 0 0");
    let (one, two) = (share_for(&path, Wait::No).unwrap(), share_for(&path, Wait::No).unwrap());
    assert_eq!((one.publish_fence(), two.publish_fence()), (0, 0));
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(kind(write(&path, None)), Some(ErrorKind::Busy));
    drop((one, two));
    alice.kill();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "one reader is left");
    assert_eq!(bob.say(&format!("release {}", path.display())), "ok");
    let writer = lock_for(&path, Wait::No).unwrap();
    assert_eq!(writer.recovered_from(), None, "a dead reader leaves nothing half done");
    let refused = bob.say(&format!("share {} no", path.display()));
    assert_eq!(refused, format!("err busy {}", std::process::id()));
}

/// A lease is an exclusive hold: it waits for readers, and readers wait for it.
#[test]
fn g1_readers_and_leases_exclude_each_other() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = tenure::Lease::open(&path).unwrap();
    let reader = share_for(&path, Wait::No).unwrap();
    assert_eq!(kind(leases.acquire(&terms("me", LONG, Wait::No))), Some(ErrorKind::Busy));
    assert_eq!(kind(leases.take_over(&terms("me", LONG, Wait::No), "x")), Some(ErrorKind::Busy));
    reader.release().unwrap();
    let held = lease(&path, "me");
    let refused = share_for(&path, Wait::No).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(refused.holder().map(|holder| holder.owner.as_str()), Some("me"));
    leases.release(&held.token).unwrap();
    share_for(&path, Wait::No).unwrap().release().unwrap();
}

/// A reader of this process once took over the exclusive grant of a writer that had given up, and
/// kept the other readers out for as long as it read.
#[test]
fn g9_a_writer_that_gave_up_does_not_make_its_successor_exclusive() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    let cancel = Cancel::new();
    let wait = Wait::Forever;
    std::thread::scope(|scope| {
        let options = LockOptions { wait, cancel: Some(cancel.clone()), ..LockOptions::default() };
        let (path, lock) = (&path, Lock::open(&path).unwrap());
        let (gave_up, writer) = channel();
        scope.spawn(move || gave_up.send(kind(lock.acquire(&options))).unwrap());
        assert!(writer.recv_timeout(A_MOMENT).is_err(), "two holders");
        let (send, read) = channel();
        scope.spawn(move || send.send(share_for(path, wait).unwrap()).unwrap());
        assert!(read.recv_timeout(A_MOMENT).is_err());
        cancel.cancel();
        assert_eq!(writer.recv().unwrap(), Some(ErrorKind::Cancelled));
        assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
        let reader = read.recv_timeout(FAR_TOO_LONG).unwrap();
        let second = share_for(path, Wait::No);
        assert_eq!(kind(second), None, "a second reader of this process");
        assert!(bob.say(&format!("share {} no", path.display())).starts_with("ok "));
        reader.release().unwrap();
    });
}

/// A writer gave up waiting for readers of another process. Its thread stays in the kernel, and from
/// then on the readers of its own process were refused although only readers held the lock.
#[test]
fn g9_a_writer_that_gave_up_does_not_keep_readers_out() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("share {} no", path.display())).starts_with("ok "));
    assert_eq!(kind(lock_for(&path, Wait::For(Duration::from_millis(20)))), Some(ErrorKind::Busy));
    let reader = share_for(&path, Wait::No).unwrap();
    reader.release().unwrap();
    assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    let writer = lock_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
    assert_eq!(kind(share_for(&path, Wait::No)), Some(ErrorKind::Busy));
    writer.release().unwrap();
}

/// A thread reads, a writer queues behind it, and the thread starts a second read. Queued behind
/// the writer it would wait for itself until the deadline.
#[test]
fn race_18_a_second_read_of_a_reader_does_not_queue_behind_a_writer() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let first = share_for(&path, Wait::No).unwrap();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let options = LockOptions {
            wait: Wait::Forever,
            cancel: Some(cancel.clone()),
            mode: Mode::Exclusive,
            ..LockOptions::default()
        };
        let (send, got) = channel();
        let lock = Lock::open(&path).unwrap();
        scope.spawn(move || send.send(lock.acquire(&options).map(drop)).unwrap());
        assert!(got.recv_timeout(A_MOMENT).is_err(), "the writer got in beside a reader");
        let second = share_for(&path, Wait::For(Duration::from_secs(5)));
        assert_eq!(kind(second), None);
        first.release().unwrap();
        got.recv_timeout(FAR_TOO_LONG).unwrap().unwrap();
    });
}

/// A writer waits for a reader. A reader of another thread that comes later waits behind the
/// writer. Otherwise readers that take turns would keep the writer out for ever.
#[test]
fn g9_a_new_reader_does_not_pass_a_waiting_writer() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let reader = share_for(&path, Wait::No).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| lock_for(&path, Wait::Forever));
        let other = scope.spawn(|| {
            let started = std::time::Instant::now();
            while kind(share_for(&path, Wait::No)) != Some(ErrorKind::Busy) {
                assert!(started.elapsed() < FAR_TOO_LONG, "readers pass the writer all the time");
                std::thread::yield_now();
            }
        });
        other.join().unwrap();
        drop(reader);
        writer.join().unwrap().unwrap().release().unwrap();
    });
}
