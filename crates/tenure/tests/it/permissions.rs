//! Permissions (G13): modes, owners, attributes, and planted symlinks.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::XattrFlags;
use tenure::{WriteOptions, json};

use crate::document_scratch::{Scratch, at_once, bytes_of, durably, foreign_write, increment};
use crate::roles::play;

fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn g13_a_new_document_is_closed_to_others_whatever_the_umask() {
    for umask in ["000", "077", "027"] {
        let scratch = Scratch::new();
        set_mode(scratch.dir(), 0o755);
        let path = scratch.path("state.json");
        play("set once", &path, &format!("umask {umask}; exec \"$@\""));
        assert_eq!(mode(&path), 0o600, "umask {umask}");
        for name in ["hold", "commit", "sync0"] {
            let sidecar = scratch.path(&format!(".tenure/state.json.{name}"));
            assert_eq!(mode(&sidecar) & 0o022, 0, "{name}, umask {umask}");
        }
        assert_eq!(mode(scratch.path(".tenure")) & 0o777, 0o755, "as the directory, umask {umask}");
    }
}

#[test]
fn g13_a_umask_that_takes_everything_locks_nobody_out() {
    // The sidecar directory was once made without any rights, and stayed so.
    if !rustix::process::geteuid().is_root() {
        return; // Root may open everything and must become another user.
    }
    let scratch = Scratch::new();
    std::os::unix::fs::chown(scratch.dir(), Some(1111), Some(1111)).unwrap();
    let path = scratch.path("state.json");
    let user = "exec setpriv --reuid=1111 --regid=1111 --clear-groups \"$@\"";
    for umask in ["777", "022"] {
        play("set once", &path, &format!("umask {umask}; {user}"));
        assert_eq!(mode(&path), 0o600, "umask {umask}");
    }
}

#[test]
fn g13_a_new_document_can_be_opened_to_others_on_request() {
    for umask in ["000", "077"] {
        let scratch = Scratch::new();
        let options = WriteOptions {
            file: tenure::file::FileOptions {
                new_mode: 0o664,
                ..tenure::file::FileOptions::default()
            },
            ..at_once()
        };
        let document = scratch.document("state.json");
        document.set(&json!(1), &options).unwrap();
        assert_eq!(mode(document.path()), 0o664, "umask {umask}");
        document.set(&json!(2), &at_once()).unwrap();
        assert_eq!(mode(document.path()), 0o664, "new_mode is for new files only");
    }
}

#[test]
fn g13_a_replaced_document_keeps_mode_owner_and_attributes() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 1}");
    set_mode(&path, 0o640);
    let owned = std::os::unix::fs::chown(&path, Some(1234), Some(2345)).is_ok();
    let value = b"kept";
    let marked = rustix::fs::setxattr(&path, "user.tenure", value, XattrFlags::empty()).is_ok();
    let before = std::fs::metadata(&path).unwrap();
    let _open = std::fs::File::open(&path).unwrap(); // Its inode number is not given out again.
    let document = scratch.document("state.json");
    for options in [at_once(), durably()] {
        document.update(&options, increment).unwrap();
        let after = std::fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino(), "it was replaced");
        assert_eq!(after.mode(), before.mode());
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        if owned {
            assert_eq!((after.uid(), after.gid()), (1234, 2345));
        }
        if marked {
            let mut found = [0; 16];
            let len = rustix::fs::getxattr(&path, "user.tenure", &mut found[..]).unwrap();
            assert_eq!(&found[..len], value);
        }
    }
    document.restore(&durably()).unwrap();
    foreign_write(&path, "{");
    document.restore(&durably()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode(), before.mode(), "a restored one as well");
}

#[test]
fn g13_sidecars_follow_the_target_so_that_its_writers_can_lock_it() {
    for (target, umask) in [(0o600, "000"), (0o660, "077"), (0o666, "077"), (0o640, "000")] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        foreign_write(&path, "{\"n\": 1}");
        set_mode(&path, target);
        let owned = std::os::unix::fs::chown(&path, None, Some(2345)).is_ok();
        play("set once", &path, &format!("umask {umask}; exec \"$@\""));
        assert_eq!(mode(&path), target);
        for name in ["hold", "commit", "sync0"] {
            let sidecar = scratch.path(&format!(".tenure/state.json.{name}"));
            assert_eq!(mode(&sidecar), target, "{name} of a {target:o} target");
            if owned {
                assert_eq!(std::fs::metadata(&sidecar).unwrap().gid(), 2345, "{name}");
            }
        }
        let good = scratch.path(".tenure/state.json.good");
        assert!(!good.exists() || mode(&good) == target, "the last good copy is as closed");
    }
}

#[test]
fn g13_a_symlink_planted_at_a_temporary_or_sidecar_name_is_not_followed() {
    // In a shared directory another user could choose where our bytes go.
    let scratch = Scratch::new();
    let elsewhere = Scratch::new();
    let secret = elsewhere.path("secret");
    foreign_write(&secret, "untouched");
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    let caught = std::cell::Cell::new(None);
    let fs = {
        // Learn the temporary name of the next change from the change itself.
        let (sender, receiver) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let fs = crate::faulty_fs::FaultyFs::new(move |op, path| {
            let temp = path.to_string_lossy().contains(".tmp.");
            if temp && matches!(op, crate::faulty_fs::Op::Open(_)) {
                sender.lock().unwrap().send(path.to_path_buf()).unwrap();
                return crate::faulty_fs::Verdict::Fail(std::io::Error::from_raw_os_error(5));
            }
            crate::faulty_fs::Verdict::Go
        });
        let blocked = tenure::Document::open_on(&fs.shared(), document.path()).unwrap();
        blocked.update(&at_once(), increment).unwrap_err();
        caught.set(receiver.try_recv().ok());
        fs
    };
    drop(fs);
    let temp = caught.take().expect("the temporary name");
    for name in [temp, scratch.path(".tenure/state.json.good")] {
        let _ = std::fs::remove_file(&name);
        symlink(&secret, &name).unwrap();
        document.update(&durably(), increment).unwrap();
        assert_eq!(bytes_of(&secret), b"untouched", "{}", name.display());
        assert!(!document.path().is_symlink());
    }
    symlink(&secret, scratch.path(".tenure/state.json.damaged")).unwrap();
    foreign_write(document.path(), "{");
    document.update(&at_once(), increment).unwrap_err();
    assert_eq!(bytes_of(&secret), b"untouched", "a damaged document is not copied through a link");
}

#[test]
fn g13_a_second_user_with_the_same_group_can_change_a_shared_document() {
    // Needs root to become another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(scratch.dir(), 0o2770);
    std::os::unix::fs::chown(scratch.dir(), Some(1111), Some(2345)).unwrap();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 0}");
    set_mode(&path, 0o660);
    std::os::unix::fs::chown(&path, Some(1111), Some(2345)).unwrap();
    let as_user =
        |user: u32| format!("exec setpriv --reuid={user} --regid=2345 --clear-groups \"$@\"");
    for user in [1111, 2222, 1111, 3333] {
        play("increment 50 times", &path, &as_user(user));
    }
    assert_eq!(crate::document_scratch::count_in(&scratch.document("state.json")), 200);
}

#[test]
fn g13_the_owner_of_a_read_only_document_can_change_it_again_and_again() {
    // Its sidecars were once as read-only as it is: the first change worked, the second did not.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    std::os::unix::fs::chown(scratch.dir(), Some(1111), Some(2345)).unwrap();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 0}");
    set_mode(&path, 0o444);
    std::os::unix::fs::chown(&path, Some(1111), Some(2345)).unwrap();
    let owner = "exec setpriv --reuid=1111 --regid=2345 --clear-groups \"$@\"";
    play("increment 50 times", &path, owner);
    assert_eq!(mode(&path), 0o444);
    assert_eq!(mode(scratch.path(".tenure/state.json.hold")), 0o644);
}

/// The document has a group that its owner is not in, so its sidecars get another group, which may
/// not even read it.
#[test]
fn g13_a_sidecar_lets_no_other_group_in() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for closed in [0o440, 0o640] {
        let scratch = Scratch::new();
        std::os::unix::fs::chown(scratch.dir(), Some(1111), Some(2345)).unwrap();
        let path = scratch.path("state.json");
        foreign_write(&path, "{\"n\": 0}");
        set_mode(&path, closed);
        std::os::unix::fs::chown(&path, Some(1111), Some(0)).unwrap();
        play("lock once", &path, "exec setpriv --reuid=1111 --regid=2345 --clear-groups \"$@\"");
        for name in ["hold", "commit"] {
            let sidecar = scratch.path(&format!(".tenure/state.json.{name}"));
            assert_eq!(mode(&sidecar), 0o600, "{name} of a {closed:o} target");
        }
    }
}

/// An access list, as the kernel stores it: the rights of the owner, of user 1111, of the group,
/// the mask of these, and the rights of others.
fn access_list([owner, user, group, mask, others]: [u16; 5]) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        (1_u16, owner, NOBODY),
        (2, user, 1111),
        (4, group, NOBODY),
        (16, mask, NOBODY),
        (32, others, NOBODY),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set_list(path: &Path, name: &str, list: &[u8]) {
    rustix::fs::setxattr(path, name, list, XattrFlags::empty()).unwrap();
}

fn has_list(path: &Path) -> bool {
    rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0; 256][..]).is_ok()
}

/// The directory's default list gives another user access to new files. A document that was moved
/// there has no list, and its next version gets none.
#[test]
fn g13_a_change_lets_nobody_in_by_the_list_of_its_directory() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 1}");
    set_mode(&path, 0o640);
    set_list(scratch.dir(), "system.posix_acl_default", &access_list([7, 6, 5, 7, 0]));
    scratch.document("state.json").update(&at_once(), increment).unwrap();
    assert_eq!((mode(&path), has_list(&path)), (0o640, false));
}

/// The bits of the group are the mask of a list. Where the list cannot be kept (in a container that
/// does not know user 1111), they would give the group access.
#[test]
fn g13_a_change_lets_no_group_in_where_the_list_cannot_be_kept() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 1}");
    set_list(&path, "system.posix_acl_access", &access_list([6, 6, 0, 6, 0]));
    assert_eq!(mode(&path), 0o660, "the mask");
    play("set once", &path, "exec unshare -U -r \"$@\"");
    assert_eq!((mode(&path), has_list(&path)), (0o600, false));
}

/// A list that excludes user 1111, while others may read: without it, the bits of others would give
/// that user access.
#[test]
fn g13_a_change_lets_nobody_in_whom_a_lost_list_kept_out() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 1}");
    set_list(&path, "system.posix_acl_access", &access_list([6, 0, 4, 4, 4]));
    play("set once", &path, "exec unshare -U -r \"$@\"");
    assert_eq!((mode(&path), has_list(&path)), (0o600, false));
}

/// A long-running process of the owner notices a change of the mode when it writes.
#[test]
fn g13_the_owners_next_change_brings_its_sidecars_in_line() {
    let scratch = Scratch::new();
    set_mode(scratch.dir(), 0o755);
    let document = scratch.document("state.json");
    for wanted in [0o600, 0o660, 0o640, 0o600] {
        if document.path().exists() {
            set_mode(document.path(), wanted);
        }
        document.update(&durably(), increment).unwrap();
        for name in ["hold", "commit", "sync0", "good"] {
            let sidecar = scratch.path(&format!(".tenure/state.json.{name}"));
            // The first version displaces none.
            if sidecar.exists() || name != "good" {
                assert_eq!(mode(&sidecar), wanted, "{name} of a {wanted:o} document");
            }
        }
    }
}

/// Earlier versions say what the document said: a `chmod` that closes the document closes them, too.
#[test]
fn g13_earlier_versions_follow_a_chmod_of_the_document() {
    let scratch = Scratch::new();
    set_mode(scratch.dir(), 0o755);
    let document = scratch.document("state.json");
    document.set(&json!(0), &durably()).unwrap();
    set_mode(document.path(), 0o644);
    document.keep_versions(4, &durably()).unwrap();
    for n in 1..5 {
        document.set(&json!(n), &durably()).unwrap();
    }
    let kept = || {
        let names = std::fs::read_dir(scratch.path(".tenure")).unwrap();
        let paths = names.map(|name| name.unwrap().path());
        paths.filter(|path| path.to_string_lossy().contains(".history.")).collect::<Vec<_>>()
    };
    assert!(kept().iter().any(|path| mode(path) & 0o044 != 0), "they were as open as it was");
    set_mode(document.path(), 0o600);
    document.set(&json!(5), &durably()).unwrap();
    assert!(kept().len() >= 2, "{:?}", kept());
    for path in kept() {
        assert_eq!(mode(&path) & 0o077, 0, "{path:?}");
    }
}
