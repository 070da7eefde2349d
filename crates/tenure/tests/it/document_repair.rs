//! Restoring a document, on request or after a power loss, when a step fails.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::{ErrorKind, Value, WriteOptions, json};
use tenure_testkit::{CrashKind, SimFs};

use crate::document_scratch::{at_once, durably, foreign_replace, foreign_write, increment};
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::watched_disk::{EXCHANGED, KEPT_AS_GOOD, TEMP_SYNCED, two_versions, version};

/// Bytes that cannot be parsed.
const DAMAGED: &str = "{\"n\":";

#[test]
fn g8_a_restored_version_is_synced() {
    for options in [at_once(), durably()] {
        let disk = two_versions(&durably());
        foreign_write(disk.document.path(), DAMAGED);
        disk.document.restore(&options).unwrap();
        assert_eq!(disk.file("document"), version(1));
        disk.live_on();
        disk.document.update(&durably(), |_: Option<&Value>| Ok(None)).unwrap();
        assert_eq!(disk.times(TEMP_SYNCED), 0, "it was synced when it was restored");
    }
}

#[test]
fn g6_a_document_that_was_fixed_during_a_restore_stays() {
    let disk = two_versions(&durably());
    let path = disk.document.path().to_path_buf();
    foreign_write(&path, DAMAGED);
    let (fixed, once) = (path.clone(), AtomicBool::new(true));
    let fs = FaultyFs::on(disk.fs.shared(), move |op, touched| {
        let is_temp = touched.to_string_lossy().contains(".tmp.");
        let is_made = op == Op::Open(Change::Create) && is_temp;
        if is_made && once.swap(false, Ordering::Relaxed) {
            foreign_replace(&fixed, "{\"n\":7}");
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
    // A change died after its exchange, and what it published is damaged. The good version is under
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
        // Without a record its origin is unknown: it is set aside.
        let kept = (Op::RenameNew, "damaged");
        disk.refuse(&[if has_record { KEPT_AS_GOOD } else { kept }]);
        let error = disk.document.restore(&durably()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(disk.file("document"), Some(DAMAGED.into()));
        disk.live_on();
        disk.document.restore(&durably()).unwrap();
        let restored = version(if has_record { 2 } else { 1 });
        assert_eq!((disk.file("document"), disk.file("good")), (restored.clone(), restored));
        let damaged: Vec<_> = [1, 2].map(|n| disk.file(&format!("damaged.{n}"))).into();
        let unknown = version(2).filter(|_| !has_record);
        let aside: Vec<_> = unknown.into_iter().chain([DAMAGED.into()]).collect();
        assert_eq!(damaged.into_iter().flatten().collect::<Vec<_>>(), aside);
    }
}

#[test]
fn g10_a_change_whose_repair_fails_has_not_begun() {
    let disk = two_versions(&at_once());
    foreign_write(disk.document.path(), "");
    let file = std::fs::File::options().write(true).open(disk.document.path()).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap(); // Cut by the power loss, not later.
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
    for taken in [1, 8] {
        let disk = two_versions(&durably());
        let number = |number: u32| format!("damaged.{number}");
        for taken in 1..=taken {
            let path = disk.scratch.path(&format!(".tenure/state.json.{}", number(taken)));
            foreign_write(path, "earlier");
        }
        foreign_write(disk.document.path(), DAMAGED);
        let error = disk.document.update(&durably(), increment).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        let copied = disk.file(&number(taken + 1));
        assert_eq!(copied, (taken < 8).then(|| DAMAGED.into()), "eight at most, unasked");
        disk.document.restore(&durably()).unwrap();
        assert_eq!(disk.file(&number(taken + 1)), Some(DAMAGED.into()), "a restore finds a name");
        assert_eq!(disk.file(&number(taken + 2)), None, "once");
        assert_eq!(disk.file(&number(taken)), Some(b"earlier".to_vec()));
    }
}

/// No unread version was displaced, so the left-over of the dead process is removed.
#[test]
fn g10_of_changes_that_die_one_after_another_nothing_is_kept_as_damaged() {
    const PATH: &str = "/d/state.json";
    let change = |fs: &SimFs, options: &WriteOptions| {
        let document = tenure::Document::open_on(&fs.shared(), Path::new(PATH));
        document.and_then(|document| document.update(options, increment))
    };
    // Whether there is an operation with this number to die at.
    let dies_at = |fs: &SimFs, nth: u64, options: &WriteOptions| {
        fs.fail_after(nth, CrashKind::Process);
        let _ = change(fs, options);
        let died = fs.is_down();
        fs.process_crash();
        died
    };
    let kept = |fs: &SimFs| {
        let names = fs.shared().list(Path::new("/d/.tenure")).unwrap();
        let mut names = names.into_iter().map(|name| name.to_string_lossy().into_owned());
        names.find(|name| name.contains("damaged") || name.contains(".tmp."))
    };
    let mut deaths = 0;
    for (options, foreign) in
        [(durably(), false), (at_once(), false), (durably(), true), (at_once(), true)]
    {
        let start = SimFs::new(1);
        start.add_dir("/d");
        change(&start, &durably()).unwrap();
        if foreign {
            start.add_file(PATH, "{\"n\":7}");
        }
        for first in 1.. {
            let once = start.fork(1);
            if !dies_at(&once, first, &options) {
                break;
            }
            for second in 1.. {
                let twice = once.fork(1);
                if !dies_at(&twice, second, &options) {
                    break;
                }
                change(&twice, &options).unwrap();
                assert_eq!(kept(&twice), None, "{first}, {second}: {}", twice.history());
                deaths += 1;
            }
        }
    }
    assert!(deaths > 200, "{deaths} times two deaths");
}
