//! Problems that a new user of tenure met on the first day.

use std::os::unix::fs::PermissionsExt;

use tenure::{AppendOptions, Document, ErrorKind, Journal, Lock, LockOptions, Wait, WriteOptions};

use crate::scratch::{Scratch, kind, lock_for};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// One user forgot `--lock-file`, and there were two holders. The hold is always taken; the lock
/// file is taken in addition.
#[test]
fn race_15_g1_a_holder_with_a_lock_file_excludes_one_without() {
    let scratch = Scratch::new();
    let lock = Lock::open(scratch.target()).unwrap();
    let with = |name: &str| LockOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(scratch.path(name)),
            ..tenure::file::FileOptions::default()
        },
        wait: Wait::No,
        ..LockOptions::default()
    };
    let guard = lock.acquire(&with("theirs.lock")).unwrap();
    assert_eq!(kind(lock_for(&scratch.target(), Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(kind(lock.acquire(&with("others.lock"))), Some(ErrorKind::Busy));
    let write = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
    let document = Document::open(scratch.target()).unwrap();
    assert_eq!(kind(document.set(&tenure::json!(1), &write)), Some(ErrorKind::Busy));
    guard.release().unwrap();
    let next = lock_for(&scratch.target(), Wait::No).unwrap();
    assert!(next.recovered_from().is_none(), "no holder died");
}

/// A journal of mode 0600 had a log that every user could read.
#[test]
fn g13_nothing_of_a_new_file_can_be_read_or_locked_by_others() {
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path("."), std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = AppendOptions::default();
    Journal::open(scratch.path("secret.jsonl")).unwrap().append(&["hunter2"], &options).unwrap();
    let document = Document::open(scratch.target()).unwrap();
    for n in 0..3 {
        document.set(&tenure::json!({ "secret": n }), &WriteOptions::default()).unwrap();
    }
    assert_eq!(mode(&scratch.path("secret.jsonl")), 0o600);
    for name in scratch.names(".tenure") {
        if name != ".gitignore" {
            assert_eq!(mode(&scratch.path(".tenure").join(&name)), 0o600, "{name}");
        }
    }
}

/// A user who may write a directory may replace what is in it, and so may lock it, before and after
/// there is a target. Sidecars with content are only for those who may read the target.
#[test]
fn g13_who_may_write_beside_the_target_may_lock_it() {
    for new_mode in [0o600, 0o660] {
        let scratch = Scratch::new();
        std::fs::set_permissions(scratch.path("."), std::fs::Permissions::from_mode(0o770))
            .unwrap();
        let write = WriteOptions {
            file: tenure::file::FileOptions { new_mode, ..tenure::file::FileOptions::default() },
            ..WriteOptions::default()
        };
        let options = AppendOptions { write: write.clone(), ..AppendOptions::default() };
        for _ in 0..2 {
            Journal::open(scratch.path("log.jsonl")).unwrap().append(&["x"], &options).unwrap();
        }
        let document = Document::open(scratch.target()).unwrap();
        for n in 0..2 {
            document.set(&tenure::json!(n), &write).unwrap();
        }
        for name in scratch.names(".tenure").iter().filter(|name| name.contains(".json")) {
            let locks = ["hold", "commit", "sync0", "sync1"];
            let is_lock = locks.iter().any(|suffix| name.rsplit('.').next() == Some(suffix));
            let wanted = if is_lock { 0o660 } else { new_mode };
            assert_eq!(mode(&scratch.path(".tenure").join(name)), wanted, "{name}, {new_mode:o}");
        }
    }
}

/// Acknowledged lines were cut off by another tool, and `verify` reported the journal as sound.
#[test]
fn race_39_g7_a_journal_that_was_cut_does_not_verify() {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    let journal = Journal::open(&path).unwrap();
    for line in ["one", "two", "three"] {
        journal.append(&[line], &AppendOptions::default()).unwrap();
    }
    assert!(journal.verify().unwrap().is_sound());
    for len in [8, 2, 0] {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        let report = journal.verify().unwrap();
        assert!(!report.is_sound(), "{len} bytes are left: {report:?}");
    }
}
