//! File systems on top of others: overlayfs, and FUSE.

use std::path::Path;
use std::process::Command;

use tenure::{AppendOptions, Document, Journal, WriteOptions, json};
use tenure_proof::mount::{EXT4, Mounted, Turn, may_mount, memory};
use tenure_proof::{Tally, not_run};

use crate::processes::{BUSY, Holder, tenure};
use crate::{RING, read_only, suite};

/// An overlay of `lower` and a fresh upper layer below `upper`.
fn overlay(lower: &Path, upper: &Path) -> Mounted {
    let [over, work] = ["over", "work"].map(|name| {
        let dir = upper.join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    });
    let layers = [lower, &over, &work].map(|path| path.display().to_string());
    let [lower, over, work] = layers;
    let options = format!("lowerdir={lower},upperdir={over},workdir={work}");
    Mounted::new("none".as_ref(), "overlay", &options)
}

#[test]
fn overlayfs() {
    if !may_mount("overlayfs") {
        return;
    }
    let _turn = Turn::take();
    let scratch = memory();
    let below = EXT4.mount(&EXT4.image(scratch.path()));
    let lower = below.path().join("lower");
    std::fs::create_dir(&lower).unwrap();
    let mounted = overlay(&lower, below.path());
    let mut tally = suite::run("overlayfs", mounted.path());
    read_only::after_remount(&mounted, &mut tally);
    mounted.unmount();
    below.unmount();
}

/// A file of the lower layer becomes another file when it is first written: another inode, another
/// device. A process that had it open before must not keep using the old one.
#[test]
fn overlayfs_over_used_files() {
    let name = "overlayfs, files of the lower layer";
    if !may_mount(name) {
        return;
    }
    let _turn = Turn::take();
    // The layers are on two file systems, as the image and the writable layer of a container are.
    let (one, other) = (memory(), memory());
    let (image, upper) =
        (EXT4.mount(&EXT4.image(one.path())), EXT4.mount(&EXT4.image(other.path())));
    let lower = image.path().join("lower");
    std::fs::create_dir(&lower).unwrap();
    let write = WriteOptions::default();
    let append = AppendOptions::default();
    Document::open(lower.join("state.json")).unwrap().set(&json!({ "n": 1 }), &write).unwrap();
    Journal::open(lower.join("log.jsonl")).unwrap().append(&["below"], &append).unwrap();
    let mounted = overlay(&lower, upper.path());
    let mut tally = suite::run(name, mounted.path());
    {
        let journal = Journal::open(mounted.path().join("log.jsonl")).unwrap();
        let mut follow = journal.follow(1).unwrap();
        let mut next = || follow.next(tenure::Wait::For(std::time::Duration::from_secs(60)));
        assert_eq!(next().unwrap().unwrap().line, b"below");
        // The lock files come from the lower layer, too: the second holder must conflict with the
        // first one.
        let state = mounted.path().join("state.json");
        let holder = Holder::start(&state).unwrap();
        assert_eq!(tenure(&["run", "--wait", "0"], &state, &["--", "true"]).0, BUSY);
        drop(holder);
        let appended =
            tenure(&["journal", "append"], &mounted.path().join("log.jsonl"), &["above"]);
        assert_eq!(appended.0, 0, "{}", appended.1);
        assert_eq!(next().unwrap().unwrap().line, b"above", "the follower sees the new file");
        let lines = journal.read(1, None).unwrap().map(|entry| entry.unwrap().line);
        assert_eq!(lines.collect::<Vec<_>>(), [b"below", b"above"]);
        assert!(journal.verify().unwrap().is_sound());
        let document = Document::open(&state).unwrap();
        document
            .update(&write, |old| Ok(Some(json!({ "n": old.unwrap()["n"] , "more": 1 }))))
            .unwrap();
        assert_eq!(document.read().unwrap().unwrap().value, json!({ "n": 1, "more": 1 }));
    }
    assert_eq!(
        std::fs::read(lower.join("log.jsonl")).unwrap(),
        b"below\n",
        "the lower layer is as it was"
    );
    read_only::after_remount(&mounted, &mut tally);
    mounted.unmount();
    upper.unmount();
    image.unmount();
}

/// `bindfs` shows a directory again through FUSE.
fn through_bindfs(name: &str, options: &[&str]) {
    if !may_mount(name) {
        return;
    }
    let _turn = Turn::take();
    let scratch = memory();
    let below = EXT4.mount(&EXT4.image(scratch.path()));
    let at = tempfile::tempdir().unwrap();
    let status = Command::new("bindfs").args(options).arg(below.path()).arg(at.path()).status();
    assert!(status.expect("bindfs is installed").success());
    let mounted = Mounted::adopt(at);
    drop(suite::run(name, mounted.path()));
    mounted.unmount();
    below.unmount();
}

/// By default the kernel keeps the locks itself.
#[test]
fn fuse_with_locks_of_the_kernel() {
    through_bindfs("FUSE (bindfs), locks of the kernel", &[]);
}

/// The server passes every lock on to the file system below.
#[test]
fn fuse_with_locks_of_the_server() {
    through_bindfs(
        "FUSE (bindfs), locks of the server",
        &["--enable-lock-forwarding", "--multithreaded"],
    );
}

/// Reports what is not tried here, and why. A test of the core with a simulated network file system
/// shows that those are refused.
#[test]
fn what_is_not_mounted_is_said() {
    let mut tally = Tally::new(RING, "not mounted");
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    for kind in ["nfs", "nfs4", "cifs", "9p", "vfat", "exfat", "f2fs"] {
        let is_known = known.lines().any(|line| line.split_whitespace().next_back() == Some(kind));
        let why = if is_known {
            "the kernel knows them, but no test mounts them"
        } else {
            "the kernel does not know them"
        };
        not_run(&format!("file systems of the kind {kind}: {why}"));
        tally.tried(1, &format!("kinds of file systems that are not tried: {why}"));
    }
}
