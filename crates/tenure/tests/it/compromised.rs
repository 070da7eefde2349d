//! An outsider removes or replaces lock files during a hold. That cannot be prevented. The holder
//! gets an error, and later holders exclude each other again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::{Document, ErrorKind, Guard, Lock, LockOptions, Wait, WriteOptions, json};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::puppet::Puppet;
use crate::scratch::{FAR_TOO_LONG, Scratch, at_once, count, kind, lease, lock_for, write};

/// What the outsider does: a description and the action.
type Outsider = (&'static str, fn(&Scratch));

/// What clean-up scripts do.
const OUTSIDERS: [Outsider; 4] = [
    ("removes the lock file", |scratch| {
        std::fs::remove_file(scratch.sidecar("hold")).unwrap();
    }),
    ("replaces the lock file", |scratch| {
        std::fs::write(scratch.path("other"), "").unwrap();
        std::fs::rename(scratch.path("other"), scratch.sidecar("hold")).unwrap();
    }),
    ("moves .tenure away", |scratch| {
        std::fs::rename(scratch.path(".tenure"), scratch.path("moved")).unwrap();
    }),
    ("replaces .tenure by a copy", |scratch| {
        std::fs::rename(scratch.path(".tenure"), scratch.path("moved")).unwrap();
        copy_dir(&scratch.path("moved"), &scratch.path(".tenure"));
    }),
];

/// As `cp -r` does it: the same names and bytes in other files.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Clean-up tools delete live locks (`doctor --fix`, `git clean -fdx`). The holder's next check and
/// its release report it, and the release touches no other holder's files.
#[test]
fn race_50_g1_a_holder_is_told_that_its_lock_file_is_gone() {
    for (what, outsider) in OUTSIDERS {
        let scratch = Scratch::new();
        let guard = lock_for(&scratch.target(), Wait::No).unwrap();
        guard.verify().unwrap();
        outsider(&scratch);
        assert_eq!(kind(guard.verify()), Some(ErrorKind::Compromised), "{what}");
        assert_eq!(kind(guard.release()), Some(ErrorKind::Compromised), "{what}");
        let next = lock_for(&scratch.target(), Wait::No).unwrap();
        next.verify().unwrap();
        assert_eq!(kind(lock_for(&scratch.target(), Wait::No)), Some(ErrorKind::Busy), "{what}");
        next.release().unwrap();
    }
}

/// The same in the middle of an update: it must not publish, since others may be publishing too.
#[test]
fn race_50_g1_an_update_whose_lock_file_is_gone_does_not_publish() {
    let commit_file: Outsider = ("removes the commit file", |scratch| {
        std::fs::remove_file(scratch.sidecar("commit")).unwrap();
    });
    for (what, outsider) in OUTSIDERS.into_iter().chain([commit_file]) {
        let scratch = Scratch::new();
        let document = Document::open(scratch.target()).unwrap();
        document.set(&json!({ "n": 1 }), &WriteOptions::default()).unwrap();
        let done = document.update(&at_once(None), |_| {
            outsider(&scratch);
            Ok(Some(json!({ "n": 100 })))
        });
        assert_eq!(kind(done), Some(ErrorKind::Compromised), "{what}");
        assert_eq!(count(&scratch.target()), 1, "{what}");
        write(&scratch.target(), None).unwrap();
        assert_eq!(count(&scratch.target()), 2, "{what}");
        let left = scratch.names(".tenure");
        assert!(!left.iter().any(|name| name.contains(".tmp.")), "{what}: {left:?}");
    }
}

/// A write that proves its hold by the fence is refused as well, once the record that knows the
/// fence was replaced.
#[test]
fn race_51_g1_a_proven_write_is_refused_when_its_record_is_gone() {
    for (what, outsider) in &OUTSIDERS[2..] {
        let scratch = Scratch::new();
        let guard = lock_for(&scratch.target(), Wait::No).unwrap();
        outsider(&scratch);
        let refused = kind(write(&scratch.target(), Some(guard.publish_fence())));
        assert_eq!(refused, Some(ErrorKind::Fenced), "{what}");
        assert!(!scratch.target().exists(), "{what}");
    }
}

/// Alice holds a lock whose file was unlinked; Bob waits on the same inode. When Alice releases,
/// Bob is granted a lock on an unlinked file. He must start over on the current file, which Carol
/// holds.
#[test]
fn race_13_g1_a_waiter_on_an_unlinked_file_starts_over() {
    let scratch = Scratch::new();
    let path = scratch.target().display().to_string();
    let (mut alice, mut bob, mut carol) = (Puppet::spawn(), Puppet::spawn(), Puppet::spawn());
    assert!(alice.say(&format!("lock {path} no")).starts_with("ok "));
    bob.tell(&format!("lock {path} forever"));
    bob.waits_in_the_kernel();
    std::fs::remove_file(scratch.sidecar("hold")).unwrap();
    assert!(carol.say(&format!("lock {path} no")).starts_with("ok "), "a new file, a new lock");
    assert!(alice.say(&format!("release {path}")).starts_with("err compromised"));
    bob.is_silent();
    assert_eq!(carol.say(&format!("verify {path}")), "ok");
    assert_eq!(carol.say(&format!("release {path}")), "ok");
    assert!(bob.hear().starts_with("ok "));
    assert_eq!(bob.say(&format!("verify {path}")), "ok");
}

/// A script that keeps removing the lock file breaks only the hold of that moment. Later holders
/// are never two at once: the independent lock in `hammer` checks it.
#[test]
fn race_13_g1_acquirers_after_an_unlink_never_overlap() {
    let scratch = Scratch::new();
    let (path, fences) = (scratch.target(), scratch.path("fences"));
    let order = format!(
        "hammer {} {} {}",
        path.display(),
        scratch.path("oracle").display(),
        fences.display()
    );
    let mut unlinked = 0;
    for _ in 0..5 {
        // Each waiter has opened the old file or the new one, and may be at any point of its wait.
        let guard = lock_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
        let mut puppets: Vec<_> = (0..3).map(|_| Puppet::spawn()).collect();
        for puppet in &mut puppets {
            puppet.tell(&order);
        }
        puppets[0].is_silent();
        std::fs::remove_file(scratch.sidecar("hold")).unwrap();
        unlinked += 1;
        assert_eq!(kind(guard.release()), Some(ErrorKind::Compromised));
        for puppet in &puppets {
            assert_eq!(puppet.hear_within(Duration::from_millis(60)), None);
        }
        for mut puppet in puppets {
            assert_eq!(puppet.kill(), [""; 0], "a puppet ended on its own");
        }
    }
    let entered = std::fs::read_to_string(&fences).unwrap().lines().count();
    assert!(entered > unlinked, "{entered} holds after {unlinked} unlinks");
}

/// A commit lock is valid only while its name refers to the locked file. A guarded write must not
/// publish after its guard's lock file was removed.
#[test]
fn race_50_g1_an_update_whose_guard_lost_its_lock_file_does_not_publish() {
    let scratch = Scratch::new();
    let (session, document) = (scratch.target(), scratch.path("document"));
    let held = lease(&session, "me");
    let guards = vec![Guard { target: session.clone(), fence: held.fence }];
    let options = WriteOptions { guards, ..at_once(None) };
    let done = Document::open(&document).unwrap().update(&options, |_| {
        std::fs::remove_file(scratch.sidecar("commit")).unwrap();
        Ok(Some(json!({ "n": 100 })))
    });
    assert_eq!(kind(done), Some(ErrorKind::Compromised));
    assert!(!document.exists());
}

/// A `--lock-file` is as much a part of the hold as our own lock file.
#[test]
fn race_50_g1_a_holder_is_told_that_a_given_lock_file_is_gone() {
    let scratch = Scratch::new();
    let lock_file = scratch.path("their.lock");
    let options = LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(lock_file.clone()),
            ..tenure::file::FileOptions::default()
        },
        ..LockOptions::default()
    };
    let guard = Lock::open(scratch.target()).unwrap().acquire(&options).unwrap();
    guard.verify().unwrap();
    std::fs::remove_file(&lock_file).unwrap();
    assert_eq!(kind(guard.verify()), Some(ErrorKind::Compromised));
    assert_eq!(kind(guard.release()), Some(ErrorKind::Compromised));
}

/// A disk on which the record file is replaced by a copy of itself, once, just before a given
/// operation on it.
fn replacing_the_record(scratch: &Scratch, moment: Op) -> Lock {
    let record = scratch.sidecar("commit");
    let pending = AtomicBool::new(true);
    let fs = FaultyFs::new(move |op, path| {
        if op == moment && path == record && pending.swap(false, Ordering::Relaxed) {
            let copy = record.with_extension("copy");
            std::fs::copy(&record, &copy).unwrap();
            std::fs::rename(&copy, &record).unwrap();
        }
        Verdict::Go
    });
    Lock::open_on(&fs.shared(), &scratch.target()).unwrap()
}

/// The record file is replaced while a holder takes the lock. The holder writes its fence to the
/// new file; the old one is never read again.
#[test]
fn race_50_g4_a_record_that_is_replaced_during_the_acquisition_is_not_the_one_that_is_written() {
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    for (died, moment) in [(false, Op::Stat), (true, Op::Stat), (true, Op::Lock)] {
        let scratch = Scratch::new();
        let path = scratch.target();
        let guard = lock_for(&path, Wait::No).unwrap();
        let held = std::fs::read(scratch.sidecar("commit")).unwrap();
        guard.release().unwrap();
        if died {
            std::fs::write(scratch.sidecar("commit"), held).unwrap();
        }
        let guard = replacing_the_record(&scratch, moment).acquire(&options).unwrap();
        write(&path, Some(guard.publish_fence())).unwrap();
        guard.release().unwrap();
    }
}

/// A record file whose metadata cannot be read is not one that keeps being replaced.
#[test]
fn g10_a_record_that_cannot_be_looked_at_is_an_io_error() {
    let scratch = Scratch::new();
    lock_for(&scratch.target(), Wait::No).unwrap().release().unwrap();
    let fs = FaultyFs::new(|op, path| match op {
        Op::Stat if path.extension().is_some_and(|end| end == "commit") => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    assert_eq!(kind(lock.acquire(&LockOptions::default())), Some(ErrorKind::Io));
}

/// A durable change syncs its content; the locks are compared with their names after that.
#[test]
fn race_25_a_lock_file_that_is_removed_during_a_sync_is_noticed() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let (lock, armed) = (scratch.sidecar("commit"), AtomicBool::new(false));
    let armed = Arc::new(armed);
    let arm = armed.clone();
    let fs = FaultyFs::new(move |op, path| {
        let is_temp = path.to_string_lossy().contains(".tmp.");
        if op == Op::Sync && is_temp && armed.swap(false, Ordering::Relaxed) {
            std::fs::remove_file(&lock).unwrap();
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    document.set(&json!({ "n": 1 }), &WriteOptions::default()).unwrap();
    arm.store(true, Ordering::Relaxed);
    let done = document.set(&json!({ "n": 2 }), &WriteOptions::default());
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Compromised);
}

/// A `--lock-file` in a directory that does not exist: an error, not an endless wait.
#[test]
fn g10_a_given_lock_file_without_a_directory_is_an_error() {
    let scratch = Scratch::new();
    let options = LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(scratch.path("missing/x")),
            ..tenure::file::FileOptions::default()
        },
        ..LockOptions::default()
    };
    let error = Lock::open(scratch.target()).unwrap().acquire(&options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("missing/x"), "{error}");
}
