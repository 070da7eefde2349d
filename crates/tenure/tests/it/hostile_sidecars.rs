//! Hostile sidecars: planted numbers, torn reads, foreign owners, huge files.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::fs::Trust;
use tenure::options::{CollectionKind, MaxHold};
use tenure::{
    Collection, Document, ErrorKind, Guard, Journal, Lease, Lock, LockOptions, Wait, WriteOptions,
    json,
};

use crate::altered::Altered;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::forged::{SLOTS, forge};
use crate::roles::play;
use crate::scratch::{FAR_TOO_LONG, LONG, Scratch, at_once, kind, lease, lock_for, terms};

#[test]
fn g3_r1_a_record_that_was_read_while_it_was_written_does_not_look_like_none() {
    // Two writes during one read can tear both slots. The lease was then taken for absent.
    let scratch = Scratch::new();
    let held = lease(&scratch.target(), "holder");
    let record = scratch.sidecar("commit");
    let whole = std::fs::read(&record).unwrap();
    let reads = AtomicU32::new(0);
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Read && path.extension().is_some_and(|end| end == "commit") {
            let mut now = whole.clone();
            if reads.fetch_add(1, Ordering::SeqCst) == 0 {
                now[4096 + 300] ^= 1;
                now[8192 + 300] ^= 1;
            }
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&now[4096..], 4096).unwrap();
        }
        Verdict::Go
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Busy), "the lease runs");
    let lease = Lease::open(scratch.target()).unwrap();
    assert_eq!(lease.renew(&held.token, None).unwrap().fence, held.fence);
}

#[test]
fn g4_numbers_at_the_end_of_their_range_neither_panic_nor_start_again_at_zero() {
    // seq, fence, ceiling, confirmed, generation
    for field in [8, 16, 24, 32, 160] {
        let scratch = Scratch::new();
        let document = Document::open(scratch.target()).unwrap();
        document.set(&json!(1), &at_once(None)).unwrap();
        drop(lock_for(&scratch.target(), Wait::No).unwrap());
        forge(&scratch.sidecar("commit"), SLOTS, |slot| slot[field..field + 8].fill(0xFF));
        let first = lock_for(&scratch.target(), Wait::No).unwrap().publish_fence();
        let second = lock_for(&scratch.target(), Wait::No).unwrap().publish_fence();
        assert!(second > first && first > 0, "field {field}: {first}, {second}");
        document.set(&json!(2), &at_once(None)).unwrap();
        document.set(&json!(3), &WriteOptions::default()).unwrap();
    }
}

#[test]
fn r1_a_record_in_a_state_that_nobody_knows_is_none() {
    let scratch = Scratch::new();
    for state in [3, 0xFF] {
        let held = lease(&scratch.target(), "holder");
        forge(&scratch.sidecar("commit"), SLOTS, |slot| slot[40] = state);
        assert!(Lease::open(scratch.target()).unwrap().show().unwrap().is_none(), "{state}");
        assert!(
            lock_for(&scratch.target(), Wait::No).unwrap().publish_fence() > held.fence,
            "{state}"
        );
    }
}

#[test]
fn r3_a_fence_floor_of_a_newer_version_is_neither_ignored_nor_rewritten() {
    let scratch = Scratch::new();
    let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
    let add = |key: &str| keys.document(key).unwrap().set(&json!(1), &at_once(None)).map(drop);
    for key in ["a", "b"] {
        add(key).unwrap();
        drop(lock_for(&keys.path_of(key).unwrap(), Wait::No).unwrap());
    }
    keys.remove("a", &at_once(None)).unwrap();
    let floor = scratch.path("keys/.tenure/floor");
    forge(&floor, SLOTS, |slot| slot[6] = 3);
    let before = std::fs::read(&floor).unwrap();
    assert_eq!(kind(keys.remove("b", &at_once(None))), Some(ErrorKind::NewerFormat));
    assert!(keys.path_of("b").unwrap().exists());
    let fresh = lock_for(&scratch.path("keys/c.json"), Wait::No);
    assert_eq!(kind(fresh), Some(ErrorKind::NewerFormat));
    assert_eq!(std::fs::read(&floor).unwrap(), before);
}

#[test]
fn g11_a_release_does_not_wait_for_the_report_of_an_overlong_hold() {
    let scratch = Scratch::new();
    let ((reports, reported), (lets, let_go)) = (channel(), channel::<()>());
    let (reports, let_go) = (Mutex::new(reports), Mutex::new(let_go));
    let report = Arc::new(move |_: &Path| {
        reports.lock().unwrap().send(()).unwrap();
        let _ = let_go.lock().unwrap().recv_timeout(FAR_TOO_LONG);
    });
    let max_hold = Some(MaxHold { after: Duration::from_millis(1), end: false, report });
    let lock = Lock::open(scratch.target()).unwrap();
    let guard = lock.acquire(&LockOptions { max_hold, ..LockOptions::default() }).unwrap();
    reported.recv_timeout(FAR_TOO_LONG).unwrap();
    guard.release().unwrap();
    let next = lock_for(&scratch.target(), Wait::No);
    lets.send(()).unwrap();
    drop(next.unwrap());
}

#[test]
fn g10_a_document_larger_than_memory_is_an_error_and_not_the_end_of_the_process() {
    let overcommits = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    if overcommits.is_ok_and(|mode| mode.trim() == "1") {
        return; // The kernel overcommits memory.
    }
    let scratch = Scratch::new();
    let document = Document::open(scratch.target()).unwrap();
    if File::create(scratch.target()).unwrap().set_len(15 << 40).is_err() {
        return; // This file system has smaller files.
    }
    assert_eq!(kind(document.read()), Some(ErrorKind::Io));
    assert_eq!(kind(document.set(&json!(1), &at_once(None))), Some(ErrorKind::Io));
}

#[test]
fn g12_g13_the_self_test_of_an_unknown_file_system_is_open_to_the_next_user() {
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let (fs, _) = Altered { trust: Some(Trust::Probe), ..Altered::default() }.mounted();
    drop(Lock::open_on(&fs, &scratch.target()).unwrap().acquire(&LockOptions::default()).unwrap());
    let mode = std::fs::metadata(scratch.path(".tenure/probe")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn one_lock_file_serves_all_parts_of_one_call() {
    let scratch = Scratch::new();
    let lock_file = Some(scratch.path("all.lock"));
    let write = WriteOptions {
        file: tenure::file::FileOptions { lock_file, ..tenure::file::FileOptions::default() },
        ..at_once(None)
    };
    let document = Document::open(scratch.target()).unwrap();
    let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
    let options = tenure::AppendOptions { write: write.clone(), ..Default::default() };
    let value = json!({ "a": 1, "b": 2 });
    let compute = |_: Option<&tenure::Value>| Ok(Some(value.clone()));
    tenure::update_and_append(&document, &journal, &["{}"], &options, compute).unwrap();
    Collection::split(scratch.target(), scratch.path("keys"), &write).unwrap();
}

#[test]
fn g3_a_stale_guard_is_refused_even_beside_a_good_fence_of_the_same_target() {
    let scratch = Scratch::new();
    let old = lease(&scratch.target(), "old");
    let taken = terms("new", LONG, Wait::No);
    let new = Lease::open(scratch.target()).unwrap().take_over(&taken, "test").unwrap();
    for (fence, guard) in [(new.fence, old.fence), (new.fence, new.fence + 1)] {
        let guards = vec![Guard { target: scratch.target(), fence: guard }];
        let options = WriteOptions { guards, ..at_once(Some(fence)) };
        let document = Document::open(scratch.target()).unwrap();
        assert_eq!(kind(document.set(&json!(1), &options)), Some(ErrorKind::Fenced));
    }
}

#[test]
fn g13_the_sidecar_directory_belongs_to_whom_the_directory_belongs() {
    if !rustix::process::geteuid().is_root() {
        return; // Needs root to become another user.
    }
    let as_user = |user: u32, groups: &str| {
        format!("exec setpriv --reuid={user} --regid={user} --groups={groups} \"$@\"")
    };
    // A directory of a group, without the set-group bit.
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), PermissionsExt::from_mode(0o770)).unwrap();
    std::os::unix::fs::chown(scratch.path(""), Some(1111), Some(2345)).unwrap();
    play("lock once", &scratch.target(), &as_user(1111, "2345"));
    assert_eq!(std::fs::metadata(scratch.path(".tenure")).unwrap().gid(), 2345);
    play("lock once", &scratch.target(), &as_user(2222, "2345"));
    // Root came first.
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(scratch.path(""), Some(1111), Some(1111)).unwrap();
    play("lock once", &scratch.target(), "exec \"$@\"");
    play("lock once", &scratch.target(), &as_user(1111, "1111"));
    assert_eq!(std::fs::metadata(scratch.path(".tenure")).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn g13_a_sidecar_directory_planted_in_a_sticky_directory_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // Needs root to become another user.
    }
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), PermissionsExt::from_mode(0o1777)).unwrap();
    let side = scratch.path(".tenure-2222");
    std::fs::create_dir(&side).unwrap();
    let user = "exec setpriv --reuid=2222 --clear-groups \"$@\"";
    // Owned by another user; open to others; not readable by others.
    for (owner, mode, role) in [
        (1111, 0o755, "refused"),
        (2222, 0o775, "refused"),
        (2222, 0o700, "refused"),
        (2222, 0o755, "lock once"),
        (0, 0o755, "lock once"),
    ] {
        std::fs::set_permissions(&side, PermissionsExt::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&side, Some(owner), None).unwrap();
        play(role, &scratch.target(), user);
    }
    play("lock once", &scratch.path("other"), "exec setpriv --reuid=1111 --clear-groups \"$@\"");
}

#[test]
fn g13_a_link_planted_in_a_sticky_directory_is_refused() {
    // The kernel's own refusal does not reach those who resolve links on their own, as we do.
    if !rustix::process::geteuid().is_root() {
        return; // Needs root to become another user.
    }
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), PermissionsExt::from_mode(0o1777)).unwrap();
    let elsewhere = Scratch::new();
    std::fs::set_permissions(elsewhere.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(elsewhere.path("theirs"), "{}").unwrap();
    std::fs::set_permissions(elsewhere.path("theirs"), PermissionsExt::from_mode(0o666)).unwrap();
    let link = scratch.target();
    std::os::unix::fs::symlink(elsewhere.path("theirs"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(1111), None).unwrap();
    play("refused", &link, "exec setpriv --reuid=2222 --clear-groups \"$@\"");
    play("refused", &link, "exec \"$@\"");
    play("lock once", &link, "exec setpriv --reuid=1111 --clear-groups \"$@\"");
    std::os::unix::fs::lchown(&link, Some(0), None).unwrap();
    play("lock once", &link, "exec setpriv --reuid=1111 --clear-groups \"$@\"");
}

/// Another user plants a link to a file elsewhere as the log of a journal that does not exist yet.
/// The process that creates the journal gives its own log the journal's mode; the mode of a file
/// with another name stays unchanged.
#[test]
fn g13_the_mode_of_a_planted_log_is_left_alone() {
    let scratch = Scratch::new();
    let (path, other) = (scratch.path("log.jsonl"), scratch.path("other"));
    lock_for(&path, Wait::No).unwrap().release().unwrap(); // Makes the directory of the sidecars.
    File::create(&other).unwrap().set_permissions(PermissionsExt::from_mode(0o640)).unwrap();
    let log = scratch.path(".tenure/log.jsonl.log");
    std::fs::hard_link(&other, &log).unwrap();
    Journal::open(&path).unwrap().append(&["line"], &tenure::AppendOptions::default()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&other), 0o640, "changed by way of its second name");
    assert_eq!(mode(&path), 0o600);
}
