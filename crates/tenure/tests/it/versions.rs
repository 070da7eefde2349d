//! Versions: what `if_version` relies on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use tenure::fs::Access;
use tenure::{Document, ErrorKind, Version, WriteOptions, json};
use tenure_testkit::{Fault, SimFs, Survival, Times};

use crate::document_scratch::{
    Scratch, at_once, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

#[test]
fn compare_and_set_replaces_only_the_version_that_was_read() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let first = document.set(&json!({ "n": 1 }), &at_once()).unwrap().version;
    let second = document
        .set(&json!({ "n": 2 }), &WriteOptions { if_version: Some(first.clone()), ..at_once() })
        .unwrap()
        .version;
    let error = document
        .set(&json!({ "n": 3 }), &WriteOptions { if_version: Some(first.clone()), ..at_once() })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.path(), Some(document.path()));
    let snapshot = document.read().unwrap().unwrap();
    assert_eq!((snapshot.value, snapshot.version), (json!({ "n": 2 }), second));
}

#[test]
fn a_conflict_keeps_the_closure_from_running() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let version = document.set(&json!({ "n": 1 }), &at_once()).unwrap().version;
    document.update(&at_once(), increment).unwrap();
    let options = WriteOptions { if_version: Some(version), ..at_once() };
    let error = document.update(&options, |_| panic!("it must not run")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[test]
fn a_version_of_a_document_that_is_gone_is_a_conflict() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let version = document.set(&json!(1), &at_once()).unwrap().version;
    std::fs::remove_file(document.path()).unwrap();
    let error = document
        .set(&json!(2), &WriteOptions { if_version: Some(version.clone()), ..at_once() })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(document.read().unwrap().is_none());
}

#[test]
fn race_35_g6_a_version_changes_with_every_foreign_edit_and_with_nothing_else() {
    // mtime, size and inode can all mislead: the content decides.
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    let mut versions = vec![document.set(&json!({ "n": 1 }), &at_once()).unwrap().version];
    foreign_write(&path, "{\n  \"n\": 7\n}\n");
    versions.push(document.read().unwrap().map(|found| found.version).unwrap());
    foreign_replace(&path, "{\n  \"n\": 8\n}\n");
    versions.push(document.read().unwrap().map(|found| found.version).unwrap());
    versions.push(document.update(&at_once(), increment).unwrap().version);
    for (index, version) in versions.iter().enumerate() {
        assert!(!versions[..index].contains(version), "{versions:?}");
    }

    let settled = document.read().unwrap().map(|found| found.version);
    let bytes = std::fs::read(&path).unwrap();
    foreign_replace(&path, &bytes);
    assert_eq!(
        document.read().unwrap().map(|found| found.version),
        settled,
        "the same content in another inode"
    );
    document.set(&json!({ "n": 9 }), &at_once()).unwrap();
    assert_eq!(
        document.read().unwrap().map(|found| found.version),
        settled,
        "and after a write that changed nothing"
    );
    drop(tenure::lock(&path).unwrap());
    assert_eq!(document.read().unwrap().map(|found| found.version), settled, "and after a lock");
}

#[test]
fn the_same_content_again_is_another_version() {
    // A, B, A: a caller that decided on the first A has not seen B.
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let first = document.set(&json!("A"), &at_once()).unwrap().version;
    document.set(&json!("B"), &at_once()).unwrap();
    let again = document.set(&json!("A"), &at_once()).unwrap().version;
    assert_ne!(first, again);
    let error = document
        .set(&json!("C"), &WriteOptions { if_version: Some(first.clone()), ..at_once() })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn race_51_versions_do_not_come_again_after_the_bookkeeping_was_deleted() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let mut versions = Vec::new();
    for round in 0..20 {
        let value = if round % 2 == 0 { json!("A") } else { json!("B") };
        let version = document.set(&value, &at_once()).unwrap().version;
        assert!(!versions.contains(&version), "round {round}: {version} in {versions:?}");
        versions.push(version);
        std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    }
}

#[test]
fn race_51_versions_do_not_come_again_after_a_power_loss_took_the_record_back() {
    // The documents are durable, the numbers beside them are not: A, B, power loss, A again.
    for seed in 0..200 {
        let fs = SimFs::new(seed);
        let _told = fs.tell_on_panic();
        fs.set_device(91_000);
        fs.add_dir("/d");
        let open = || Document::open_on(&fs.shared(), Path::new("/d/s.json")).unwrap();
        let durable = WriteOptions::default();
        let mut versions = Vec::new();
        for text in ["A", "B", "A", "B"] {
            versions.push(open().set(&json!(text), &durable).unwrap().version);
        }
        fs.crash_with(if seed % 2 == 0 { Survival::Random } else { Survival::Nothing });
        for text in ["A", "B"] {
            let version = open().set(&json!(text), &durable).unwrap();
            let known = versions.contains(&version.version);
            assert!(!known || !version.changed, "{} in {versions:?}", version.version);
        }
    }
}

#[test]
fn a_version_survives_being_written_down() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let version = document.set(&json!(1), &at_once()).unwrap().version;
    let text = version.to_string();
    assert_eq!(text.parse::<Version>().unwrap(), version);
    for wrong in ["", " ", "1 2", "a/b", "caf\u{e9}", &"x".repeat(129)] {
        let error = wrong.parse::<Version>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong:?}");
    }
}

/// A change is visible a moment before its number is recorded. A reader in that moment gets the new
/// content under the old number, and may still rely on it.
#[test]
fn race_35_g6_a_version_read_between_a_publication_and_its_record_is_accepted() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &at_once()).unwrap();
    let (read, early) = channel();
    let (exchanged, reader) = (AtomicBool::new(false), scratch.document("state.json"));
    let fs = FaultyFs::new(move |op, path| {
        let record = path.extension().is_some_and(|name| name == "commit");
        match op {
            Op::Exchange => exchanged.store(true, Ordering::Relaxed),
            Op::Write if record && exchanged.swap(false, Ordering::Relaxed) => {
                read.send(reader.read().unwrap().unwrap()).unwrap();
            }
            _ => {}
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let written = document.set(&json!({ "n": 2 }), &at_once()).unwrap().version;
    let early = early.try_recv().expect("a read between the two");
    assert_eq!(early.value, json!({ "n": 2 }));
    assert_ne!(early.version, written, "its number was not written down yet");
    let document = scratch.document("state.json");
    let next = document
        .set(
            &json!({ "n": 3 }),
            &WriteOptions { if_version: Some(early.version.clone()), ..at_once() },
        )
        .unwrap();
    // No longer the old number: other content came since.
    let late = document.set(
        &json!({ "n": 4 }),
        &WriteOptions { if_version: Some(early.version.clone()), ..at_once() },
    );
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
    let late = document
        .set(&json!({ "n": 4 }), &WriteOptions { if_version: Some(written.clone()), ..at_once() });
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
    document
        .set(
            &json!({ "n": 4 }),
            &WriteOptions { if_version: Some(next.version.clone()), ..at_once() },
        )
        .unwrap();
}

/// Two objects with their keys in different order are equal as values, but the files differ.
#[test]
fn race_37_another_order_of_the_keys_is_a_change() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "a": 1, "b": 2 }), &at_once()).unwrap();
    assert!(!document.set(&json!({ "a": 1, "b": 2 }), &at_once()).unwrap().changed);
    assert!(document.set(&json!({ "b": 2, "a": 1 }), &at_once()).unwrap().changed);
    let text = document.read().unwrap().unwrap().bytes;
    assert!(text.starts_with(b"{\"b\":2") || text.starts_with(b"{\n  \"b\""), "{text:?}");
}

/// A foreign version, before the first change after a restart. A change that fails keeps it, and
/// its number.
#[test]
fn race_35_a_version_outlives_a_change_that_fails() {
    let mut tried = 0;
    for nth in 1..10 {
        let fs = SimFs::new(1);
        fs.add_dir("/d");
        let path = Path::new("/d/state.json");
        let open = || Document::open_on(&fs.shared(), path).unwrap();
        open().update(&durably(), increment).unwrap();
        fs.crash();
        let theirs = Path::new("/d/theirs");
        let file = fs.shared().open(theirs, Access::CreateNew(0o600)).unwrap();
        file.write_all_at(b"{\"n\":17}", 0).unwrap();
        fs.shared().rename(theirs, path).unwrap();
        let version = open().read().unwrap().map(|found| found.version).unwrap();
        fs.inject(nth, Fault::NoSpace, Times::Once);
        let failed = open().update(&durably(), increment);
        fs.clear_faults();
        if failed.as_ref().err().is_some_and(|error| error.is_committed() != Some(true)) {
            let set = open().set(
                &json!({ "n": 8 }),
                &WriteOptions { if_version: Some(version.clone()), ..at_once() },
            );
            assert!(set.is_ok(), "nth {nth}: {failed:?}: it was not changed: {set:?}");
            tried += 1;
        }
    }
    assert!(tried > 2, "{tried}");
}
