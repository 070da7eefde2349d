//! File systems that cannot be written: everything can be read, every write is refused.

use std::path::Path;

use serde_json::json;
use tenure::{AppendOptions, Document, ErrorKind, Journal, Lock, LockOptions, WriteOptions};
use tenure_proof::Tally;
use tenure_proof::mount::{Mounted, Turn, may_mount, memory, tool};

use crate::RING;

/// The column of the table.
const COLUMN: &str = "read-only";

/// A document and a journal with one entry.
fn furnish(dir: &Path) {
    let write = WriteOptions::default();
    Document::open(dir.join("state.json")).unwrap().set(&json!({ "a": 1 }), &write).unwrap();
    let journal = Journal::open(dir.join("log.jsonl")).unwrap();
    journal.append(&["entry"], &AppendOptions::default()).unwrap();
}

/// Reads what [`furnish`] wrote, and tries to change it.
fn is_readable_only(dir: &Path) {
    let document = Document::open(dir.join("state.json")).unwrap();
    assert_eq!(document.read().unwrap().unwrap().value, json!({ "a": 1 }));
    let journal = Journal::open(dir.join("log.jsonl")).unwrap();
    let lines: Vec<_> = journal.read(1, None).unwrap().map(|entry| entry.unwrap().line).collect();
    assert_eq!(lines, [b"entry"]);
    assert!(journal.verify().unwrap().is_sound());
    let refused = [
        document.set(&json!({ "a": 2 }), &WriteOptions::default()).map(drop),
        journal.append(&["more"], &AppendOptions::default()).map(drop),
        Lock::open(dir.join("turn"))
            .and_then(|lock| lock.acquire(&LockOptions::default()))
            .map(drop),
    ];
    for outcome in refused {
        let error = outcome.expect_err("a read-only file system takes no write");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}

/// Mounts it read-only and back again; between the two nothing can be written.
pub(crate) fn after_remount(mounted: &Mounted, tally: &mut Tally) {
    let dir = mounted.path().join("read-only");
    std::fs::create_dir(&dir).unwrap();
    furnish(&dir);
    mounted.remount("ro");
    is_readable_only(&dir);
    mounted.remount("rw");
    let written = WriteOptions::default();
    Document::open(dir.join("state.json")).unwrap().set(&json!({ "a": 2 }), &written).unwrap();
    tally.tried(1, COLUMN);
}

/// A file system that is built from a directory and never written.
fn made_from_a_directory(kind: &str, make: impl Fn(&Path, &Path)) {
    if !may_mount(kind) {
        return;
    }
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, kind);
    let scratch = memory();
    let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
    std::fs::create_dir(&source).unwrap();
    furnish(&source);
    make(&source, &image);
    let mounted = Mounted::new(&image, kind, "loop,ro");
    is_readable_only(mounted.path());
    mounted.unmount();
    tally.tried(1, COLUMN);
}

#[test]
fn squashfs() {
    made_from_a_directory("squashfs", |source, image| {
        let [source, image] = [source, image].map(|path| path.to_str().unwrap());
        tool(&["mksquashfs", source, image, "-quiet", "-no-progress"], None);
    });
}

#[test]
fn erofs() {
    made_from_a_directory("erofs", |source, image| {
        let [source, image] = [source, image].map(|path| path.to_str().unwrap());
        tool(&["mkfs.erofs", image, source], None);
    });
}
