//! An expired lease is renewed by its holder just before another process, which has seen it
//! expired, can end it.
//!
//! A process that wants the target takes the hold, sees that the lease has expired, and takes the
//! commit lock. The holder renews just before that commit lock is requested.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::fs::Fs;
use tenure::options::Mode;
use tenure::outcome::Leased;
use tenure::{Document, Lease, Lock, LockOptions, Result, Wait, WriteOptions, json};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::puppet::Puppet;
use crate::scratch::{FAR_TOO_LONG, LONG, Scratch, add_one, at_once, count, terms};

/// A lease that was not renewed in time.
fn expired(path: &Path) -> Leased {
    let lease = Lease::open(path).unwrap();
    let held = lease.acquire(&terms("slow", Duration::from_millis(1), Wait::No)).unwrap();
    while lease.show().unwrap().is_some_and(|info| info.expires_in.is_some()) {
        std::thread::yield_now();
    }
    held
}

/// Runs `attempt` while the holder renews: it has to wait until the lease is released, and must not
/// keep the holder from writing meanwhile.
fn waits(attempt: impl FnOnce(&Arc<dyn Fs>, &Path) -> Result<()> + Send) {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = expired(&path);
    let renew = format!("renew {} {} {}", path.display(), held.token, LONG.as_millis());
    let (puppet, once) = (Mutex::new(Puppet::spawn()), AtomicBool::new(false));
    let (renewed, hears) = channel();
    let fs = FaultyFs::new(move |op, path| {
        let commit = path.extension().is_some_and(|name| name == "commit");
        if op == Op::Lock && commit && !once.swap(true, Ordering::Relaxed) {
            let answer = puppet.lock().unwrap().say(&renew);
            renewed.send(answer).unwrap();
        }
        Verdict::Go
    });
    let fs = fs.shared();
    std::thread::scope(|scope| {
        let attempt = scope.spawn(|| attempt(&fs, &path));
        let answer = hears.recv_timeout(FAR_TOO_LONG).expect("the moment before the commit lock");
        assert!(answer.starts_with("ok "), "{answer}");
        // It may hold the commit lock for a moment, until it has seen the renewal.
        let proven = WriteOptions { wait: Wait::For(FAR_TOO_LONG), ..at_once(Some(held.fence)) };
        for written in 1..=3 {
            add_one(&path, &proven).unwrap();
            assert_eq!(count(&path), written);
        }
        assert!(!attempt.is_finished(), "the lease runs");
        Lease::open(&path).unwrap().release(&held.token).unwrap();
        attempt.join().unwrap().unwrap();
    });
}

fn lock(fs: &Arc<dyn Fs>, path: &Path, mode: Mode) -> Result<()> {
    let options = LockOptions { mode, wait: Wait::Forever, ..LockOptions::default() };
    Lock::open_on(fs, path)?.acquire(&options)?.release()
}

#[test]
fn race_06_g3_a_write_waits_for_a_lease_that_was_renewed_just_before() {
    waits(|fs, path| {
        let options = WriteOptions { wait: Wait::Forever, ..at_once(None) };
        Document::open_on(fs, path)?.set(&json!({ "n": 100 }), &options).map(drop)
    });
}

#[test]
fn race_06_g3_a_lock_waits_for_a_lease_that_was_renewed_just_before() {
    waits(|fs, path| lock(fs, path, Mode::Exclusive));
}

#[test]
fn race_06_g3_a_shared_lock_waits_for_a_lease_that_was_renewed_just_before() {
    waits(|fs, path| lock(fs, path, Mode::Shared));
}

#[test]
fn race_06_g3_a_lease_waits_for_a_lease_that_was_renewed_just_before() {
    waits(|fs, path| {
        let lease = Lease::open_on(fs, path)?;
        let next = lease.acquire(&terms("next", LONG, Wait::Forever))?;
        lease.release(&next.token)
    });
}
