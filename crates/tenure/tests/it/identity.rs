//! Where locks cannot be trusted, nothing is locked by accident. A lock belongs to a kernel object,
//! never to a name or a number in a file.

use std::path::Path;

use tenure::fs::Trust;
use tenure::{Document, ErrorKind, Lease, Lock, LockOptions, Wait, WriteOptions, json};

use crate::altered::Altered;
use crate::forged::{newest_slot, number_in};
use crate::puppet::Puppet;
use crate::scratch::{LONG, Scratch, at_once, kind, lease, lock_for, terms, write};

/// A network file system whose locks exclude no other process: CLI-Anything continued without a
/// lock. We refuse every request, and name the file system.
#[test]
fn race_14_g12_a_file_system_that_cannot_be_trusted_is_refused() {
    let liars = [
        Altered { trust: Some(Trust::No("nfs".into())), ..Altered::default() },
        Altered { trust: Some(Trust::Probe), locks_for_everybody: true, ..Altered::default() },
    ];
    // The second is detected with a file of our own.
    let made: [&[&str]; 2] = [&[], &[".tenure"]];
    for (liar, made) in liars.into_iter().zip(made) {
        let scratch = Scratch::new();
        let path = scratch.target();
        let (fs, _) = liar.mounted();
        let lock = Lock::open_on(&fs, &path).unwrap();
        let document = Document::open_on(&fs, &path).unwrap();
        let leases = Lease::open_on(&fs, &path).unwrap();
        let refused = [
            kind(lock.acquire(&LockOptions::default())),
            kind(document.set(&json!(1), &WriteOptions::default())),
            kind(document.set(&json!(1), &at_once(Some(1)))),
            kind(leases.acquire(&terms("me", LONG, Wait::No))),
            kind(leases.take_over(&terms("me", LONG, Wait::No), "x")),
        ];
        assert_eq!(refused, [Some(ErrorKind::Unsupported); 5]);
        assert_eq!(scratch.names("."), made, "nothing was created beside our directory");
        let inside = made.iter().flat_map(|side| scratch.names(side)).collect::<Vec<_>>();
        assert!(!inside.iter().any(|name| name.contains("state.json")), "{inside:?}");
    }
}

/// On explicit request it works without the promise; an unknown file system that does lock is fine.
#[test]
fn race_14_g12_degraded_operation_is_explicit() {
    let scratch = Scratch::new();
    let (network, _) =
        Altered { trust: Some(Trust::No("nfs".into())), ..Altered::default() }.mounted();
    let options = LockOptions {
        file: tenure::file::FileOptions {
            allow_network: true,
            ..tenure::file::FileOptions::default()
        },
        ..LockOptions::default()
    };
    let lock = Lock::open_on(&network, &scratch.target()).unwrap();
    lock.acquire(&options).unwrap().release().unwrap();
    let (unknown, _) = Altered { trust: Some(Trust::Probe), ..Altered::default() }.mounted();
    let lock = Lock::open_on(&unknown, &scratch.target()).unwrap();
    lock.acquire(&LockOptions::default()).unwrap().release().unwrap();
}

/// Container processes are all pid 1, 2 or 7, and a restart has the pid of its predecessor. A
/// record that names a living process blocks no caller: here it names the very process that asks.
#[test]
fn race_07_g1_a_living_pid_in_the_record_of_a_dead_holder_stops_nobody() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let held = std::fs::read(scratch.sidecar("commit")).unwrap();
    guard.release().unwrap();
    std::fs::write(scratch.sidecar("commit"), held).unwrap(); // "Held by us", but no process holds it.
    let next = lock_for(&path, Wait::No).unwrap();
    assert_eq!(next.recovered_from().map(|holder| holder.pid), Some(std::process::id()));
}

/// The reverse: the record of a living holder says that the lock is free. The kernel knows better.
#[test]
fn race_11_g1_a_record_that_says_free_does_not_free_a_lock() {
    let scratch = Scratch::new();
    let path = scratch.target();
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    let free = std::fs::read(scratch.sidecar("commit")).unwrap();
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    std::fs::write(scratch.sidecar("commit"), free).unwrap();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
}

/// `--lock-file` excludes those who lock that very file with `flock(1)`, in both directions. They
/// left no record; the kernel still knows who they are.
#[test]
fn race_15_g1_a_given_lock_file_excludes_a_foreign_flock() {
    let scratch = Scratch::new();
    let file = std::fs::File::create(scratch.path("their.lock")).unwrap();
    let options = LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(scratch.path("their.lock")),
            ..tenure::file::FileOptions::default()
        },
        wait: Wait::No,
        ..LockOptions::default()
    };
    let lock = Lock::open(scratch.target()).unwrap();
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, exclusive).unwrap();
    let busy = lock.acquire(&options).unwrap_err();
    assert_eq!((busy.kind(), busy.holder().unwrap().pid), (ErrorKind::Busy, std::process::id()));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    let guard = lock.acquire(&options).unwrap();
    assert!(rustix::fs::flock(&file, exclusive).is_err());
    guard.release().unwrap();
    rustix::fs::flock(&file, exclusive).unwrap();
}

/// Two names in one directory never share a lock, however alike they are.
#[test]
fn g1_two_names_are_two_locks() {
    let scratch = Scratch::new();
    let long = "n".repeat(240);
    let names = ["a", "a.hold", "a.commit", "~a", ".a", "A", "a b", "a\nb", &long, &long[1..]];
    let guards: Vec<_> =
        names.iter().map(|name| lock_for(&scratch.path(name), Wait::No).unwrap()).collect();
    for (guard, name) in guards.iter().zip(names) {
        assert_eq!(guard.path(), scratch.path(name));
        assert_eq!(kind(lock_for(&scratch.path(name), Wait::No)), Some(ErrorKind::Busy));
    }
    assert_eq!(kind(Lock::open(scratch.path(".tenure/a.hold"))), Some(ErrorKind::Invalid));
    assert_eq!(kind(Lock::open(Path::new("/"))), Some(ErrorKind::Invalid));
}

/// Every record says which file it was written into, by inode number and birth time: a copy that
/// got the same number was born later.
#[test]
fn race_51_r4_every_record_tells_the_birth_of_its_file() {
    let writers: [fn(&Path); 4] = [
        |path| drop(lock_for(path, Wait::No).unwrap()),
        |path| drop(write(path, None).unwrap()),
        |path| drop(lease(path, "me")),
        |path| {
            let guard = lock_for(path, Wait::No).unwrap();
            write(path, Some(guard.publish_fence())).unwrap();
        },
    ];
    for writer in writers {
        let scratch = Scratch::new();
        writer(&scratch.target());
        let born = std::fs::metadata(scratch.sidecar("commit")).unwrap().created().unwrap();
        let born = born.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
        let newest = newest_slot(&scratch.sidecar("commit"));
        assert_eq!(u128::from(number_in(&newest, 112)), born);
    }
}
