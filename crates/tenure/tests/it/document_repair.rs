//! Restoring a document, on request or after a power loss, where that fails half-way.

use serde_json::{Value, json};
use tenure::ErrorKind;

use crate::document_scratch::{at_once, durably, foreign_replace, foreign_write, increment};
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::watched_disk::{EXCHANGED, KEPT_AS_GOOD, SYNCED, two_versions, version};

/// What nobody can parse.
const DAMAGED: &str = "{\"n\":";

#[test]
fn g8_a_restored_version_counts_as_synced_only_if_the_restore_was_durable() {
    for (options, syncs) in [(at_once(), 1), (durably(), 0)] {
        let disk = two_versions(&durably());
        foreign_write(disk.document.path(), DAMAGED);
        disk.document.restore(&options).unwrap();
        assert_eq!(disk.file("document"), version(1));
        disk.live_on();
        disk.document.update(&durably(), |_: Option<&Value>| Ok(None)).unwrap();
        assert_eq!(disk.times(SYNCED), syncs);
    }
}

#[test]
fn g6_a_document_that_was_mended_during_a_restore_stays() {
    let disk = two_versions(&durably());
    let path = disk.document.path().to_path_buf();
    foreign_write(&path, DAMAGED);
    let mended = path.clone();
    let fs = FaultyFs::on(disk.fs.shared(), move |op, touched| {
        if op == Op::Open(Change::Create) && touched.to_string_lossy().contains(".tmp.") {
            foreign_replace(&mended, "{\"n\":7}");
        }
        Verdict::Go
    });
    let document = tenure::Document::open_on(&fs.shared(), &path).unwrap();
    let error = document.restore(&durably()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(disk.file("document"), Some(b"{\"n\":7}".to_vec()));
    assert!(!document.restore(&durably()).unwrap().changed, "it is fine");
}

#[test]
fn g10_a_restore_that_cannot_keep_its_source_does_not_begin() {
    // A change died behind its exchange, and what it published is damaged: the good version is under
    // the temporary name, which the restore needs itself.
    for has_record in [true, false] {
        let disk = two_versions(&durably());
        disk.die_after(EXCHANGED);
        disk.document.update(&at_once(), increment).unwrap_err();
        disk.live_on();
        foreign_write(disk.document.path(), DAMAGED);
        if !has_record {
            foreign_write(disk.scratch.path(".tenure/state.json.commit"), "");
        }
        for refused in [(Op::Sync, "temp"), KEPT_AS_GOOD] {
            disk.refuse(&[refused]);
            let error = disk.document.restore(&durably()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{refused:?}: {error}");
            assert_eq!(disk.file("document"), Some(DAMAGED.into()), "{refused:?}");
        }
        disk.live_on();
        disk.document.restore(&durably()).unwrap();
        assert_eq!(disk.file("document"), version(2));
        assert_eq!((disk.file("damaged"), disk.file("good")), (Some(DAMAGED.into()), version(2)));
    }
}

#[test]
fn g10_a_change_whose_repair_fails_has_not_begun() {
    let disk = two_versions(&at_once());
    foreign_write(disk.document.path(), "");
    let file = std::fs::File::options().write(true).open(disk.document.path()).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap(); // Cut by the power loss, not by somebody since.
    disk.fs.reboot();
    disk.die_after(EXCHANGED);
    let error = disk.document.set(&json!({ "n": 9 }), &durably()).unwrap_err();
    assert_eq!(disk.file("document"), version(1), "the repair itself is visible");
    assert_eq!(error.is_committed(), Some(false), "the change is not: {error}");
    disk.live_on();
    disk.document.update(&durably(), increment).unwrap();
    assert_eq!(disk.file("document"), version(2));
}

#[test]
fn race_27_what_was_set_aside_before_is_never_overwritten() {
    // It cannot be moved, or all names for it are taken.
    for taken in [0, 8] {
        let disk = two_versions(&durably());
        let side = |suffix: &str| disk.scratch.path(&format!(".tenure/state.json.{suffix}"));
        foreign_write(side("damaged"), "of before");
        for number in 1..=taken {
            foreign_write(side(&format!("damaged.{number}")), "earlier");
        }
        if taken == 0 {
            disk.refuse(&[(Op::RenameNew, "other")]);
        }
        foreign_write(disk.document.path(), DAMAGED);
        let error = disk.document.update(&durably(), increment).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert_eq!(disk.file("damaged"), Some(b"of before".to_vec()), "{taken} names are taken");
        disk.live_on();
        disk.document.restore(&durably()).unwrap();
        assert_eq!(disk.file("damaged"), Some(DAMAGED.into()));
        let number = format!("damaged.{}", taken + 1);
        assert_eq!(disk.file(&number), Some(b"of before".to_vec()), "a restore finds a name");
    }
}
