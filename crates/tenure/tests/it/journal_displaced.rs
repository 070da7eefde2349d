//! The file that a replacement displaced: lines that still go to it, and the name that it gets (J10,
//! race 40).

use std::path::PathBuf;

use tenure::{ErrorKind, Rotated};
use tenure_testkit::{CrashKind, Fault, Survival, Times};

use crate::journal_publish::{WAYS, Way, three_lines};
use crate::watched_journal::{PATH, Watched, unsynced, with_header, write};

/// A journal that was replaced, and where its old file is now.
fn replaced(way: Way) -> (Watched, String) {
    let disk = three_lines();
    way.go(&disk.journal()).unwrap();
    (disk, format!("/d/{}", way.old()))
}

/// The lines behind the replacement, whatever their numbers; they have to follow each other.
fn lines_behind(disk: &Watched, way: Way) -> Vec<String> {
    let next = way.next();
    let behind = disk.journal().read(next, None).unwrap().map(Result::unwrap);
    let told = behind.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap()));
    let (numbers, lines): (Vec<u64>, Vec<String>) = told.unzip();
    assert_eq!(numbers, (next..next + lines.len() as u64).collect::<Vec<_>>());
    lines
}

#[test]
fn race_40_complete_late_lines_are_taken_over_once() {
    for way in WAYS {
        let (disk, old) = replaced(way);
        let outsider = disk.outsider();
        let mut expected: Vec<&str> = Vec::new();
        for (text, taken) in [
            ("late 1\n\nlate 2\n", &["late 1", "late 2"][..]),
            ("", &[]),
            ("la", &[]),
            ("te 3\nla", &["late 3"]),
            ("te 4\n", &["late 4"]),
        ] {
            outsider.append(&old, text);
            expected.extend(taken);
            for _ in 0..2 {
                disk.journal().repair(&write()).unwrap();
                assert_eq!(lines_behind(&disk, way), expected, "{way:?} {text:?}");
            }
        }
        let done = disk.journal().append(&["last"], &with_header("# another")).unwrap();
        assert_eq!((done.first, done.adopted), (way.next() + 4, 0), "{way:?}");
        let report = disk.journal().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{report:?}");
    }
}

#[test]
fn race_40_late_lines_go_behind_what_others_have_appended_to_the_new_file() {
    for way in WAYS {
        let (disk, old) = replaced(way);
        disk.outsider().append(PATH, "own\nopen");
        disk.outsider().append(&old, "late 1\nlate 2\nla");
        let done = disk.journal().append(&["last"], &with_header("# another")).unwrap();
        assert_eq!(lines_behind(&disk, way), ["own", "open", "late 1", "late 2", "last"]);
        assert_eq!((done.adopted, done.closed_tail), (4, true), "{way:?}");
        let text = disk.text("log.jsonl").unwrap();
        assert!(text.ends_with("own\nopen\nlate 1\nlate 2\nlast\n"), "{text}");
    }
}

#[test]
fn race_40_late_lines_are_taken_over_before_the_log_is_emptied() {
    let (disk, old) = replaced(Way::Rotate);
    let journal = disk.journal();
    let long = "x".repeat(1_100_000);
    journal.append(&[&long], &unsynced()).unwrap();
    disk.outsider().append(PATH, "own\nopen");
    disk.outsider().append(&old, "late 1\nlate 2\n");
    let done = journal.append(&["last"], &unsynced()).unwrap();
    assert_eq!((done.first, done.adopted, done.closed_tail), (9, 4, true));
    let lines = lines_behind(&disk, Way::Rotate);
    assert_eq!(lines[1..], ["own", "open", "late 1", "late 2", "last"]);
    let report = disk.journal().verify().unwrap();
    assert!(report.is_sound() && report.entries == 6 && report.foreign_entries == 2, "{report:?}");
}

#[test]
fn race_40_what_others_append_meanwhile_is_in_the_new_file_at_once() {
    // The old file still has the name, or the new one has it already.
    for (step, line) in [("Exchange journal", "late"), ("SyncDir d", "own")] {
        let (disk, text) = (three_lines(), format!("{line}\n"));
        let outsider = disk.outsider();
        disk.before(step, move || outsider.append(PATH, &text));
        let rotated = disk.journal().rotate(&write()).unwrap();
        assert_eq!((rotated.archive, rotated.next), (Some(archive(1)), 5), "{line}");
        assert_eq!(disk.text("log.jsonl").unwrap(), format!("{line}\n"));
        disk.expect(&["one", "two", "three", line]);
        let report = disk.journal().verify().unwrap();
        assert_eq!(report.next, 5);
    }
}

#[test]
fn j10_a_file_that_somebody_puts_there_in_the_last_moment_goes_back() {
    for way in WAYS {
        for exchange in [true, false] {
            let disk = three_lines();
            if !exchange {
                disk.sim.inject(1, Fault::NoExchange, Times::Forever);
            }
            let outsider = disk.outsider();
            disk.before("Exchange journal", move || outsider.replace(PATH, "their line\n"));
            way.go(&disk.journal()).unwrap();
            let when = format!("{way:?}, {exchange}");
            assert_eq!(disk.text("log.jsonl").as_deref(), Some("their line\n"), "{when}");
            assert_eq!(disk.text(way.old()), None, "{when}: it has no other name");
            let first = disk.append(&["next"]);
            assert_eq!(disk.text("log.jsonl").as_deref(), Some("their line\nnext\n"), "{when}");
            let read = disk.journal().read(first - 1, None).unwrap().map(Result::unwrap);
            let lines: Vec<_> = read.map(|entry| (entry.seq, entry.line)).collect();
            let expected = [(first - 1, b"their line".to_vec()), (first, b"next".to_vec())];
            assert_eq!(lines, expected, "{when}");
            assert!(!disk.sidecars().iter().any(|name| name.starts_with("tmp")), "{when}");
        }
    }
}

#[test]
fn j10_nor_is_it_lost_if_the_process_dies_before_it_is_back() {
    for way in WAYS {
        let disk = three_lines();
        let (outsider, sim) = (disk.outsider(), disk.sim.clone());
        disk.before("Exchange journal", move || {
            outsider.replace(PATH, "their line\n");
            sim.fail_after(2, CrashKind::Process);
        });
        way.go(&disk.journal()).unwrap_err();
        disk.sim.process_crash();
        assert_eq!(disk.text("log.jsonl").as_deref(), Some(way.text()), "it was swapped away");
        disk.append(&["next"]);
        assert_eq!(disk.text("log.jsonl").as_deref(), Some("their line\nnext\n"), "{way:?}");
        assert!(disk.journal().verify().unwrap().is_sound());
    }
}

#[test]
fn race_40_only_the_very_file_that_was_displaced_has_late_lines() {
    for way in WAYS {
        let (disk, old) = replaced(way);
        disk.outsider().replace(&old, "another file\nwhich is longer\nthan the old one was\n");
        disk.journal().repair(&write()).unwrap();
        assert!(lines_behind(&disk, way).is_empty(), "{way:?}");
        disk.outsider().remove(&old);
        disk.journal().repair(&write()).unwrap();
        assert!(lines_behind(&disk, way).is_empty(), "{way:?}");
        assert_eq!(disk.append(&["next"]), way.next());
    }
}

/// Late lines are taken over by a process or a machine that ends at `nth`. Whether it has so many steps.
fn taken_over_until(way: Way, nth: u64, survival: Option<Survival>) -> bool {
    let (disk, old) = replaced(way);
    let _tell = disk.sim.tell_on_panic();
    disk.outsider().append_durably(&old, "late 1\nlate 2\n");
    let kind = if survival.is_some() { CrashKind::Power } else { CrashKind::Process };
    disk.sim.fail_after(nth, kind);
    let done = disk.journal().repair(&write());
    if done.is_ok() {
        return false;
    }
    match survival {
        None => disk.sim.process_crash(),
        Some(survival) => disk.sim.crash_with(survival),
    }
    let behind = lines_behind(&disk, way);
    assert!(behind.is_empty() || behind == ["late 1", "late 2"], "{way:?}, {nth}: {behind:?}");
    for _ in 0..2 {
        disk.journal().repair(&write()).unwrap();
        assert_eq!(lines_behind(&disk, way), ["late 1", "late 2"], "{way:?}, {nth}");
    }
    true
}

#[test]
fn race_40_late_lines_are_taken_over_once_whatever_ends_in_between() {
    for way in WAYS {
        for survival in [None, Some(Survival::Everything), Some(Survival::Nothing)] {
            let steps = (1..100).find(|nth| !taken_over_until(way, *nth, survival));
            assert!(steps > Some(8), "{steps:?}");
        }
    }
}

/// The name of an archive is taken by somebody right before the rotation uses it.
fn take_name(disk: &Watched, number: u64) {
    let sim = disk.sim.clone();
    disk.before(&format!("RenameNew {number}"), move || {
        sim.add_file(format!("{PATH}.{number}"), "theirs");
    });
}

fn archive(number: u64) -> PathBuf {
    PathBuf::from(format!("{PATH}.{number}"))
}

#[test]
fn race_40_a_rotation_takes_the_first_number_that_is_free() {
    let disk = three_lines();
    for name in ["log.jsonl.1", "log.jsonl.2", "log.jsonl.4"] {
        disk.sim.add_file(format!("/d/{name}"), "theirs");
    }
    let rotated = disk.journal().rotate(&write()).unwrap();
    assert_eq!(rotated, Rotated { archive: Some(archive(3)), next: 4 });
    assert_eq!(disk.append(&["four"]), 4);
    assert_eq!(disk.journal().rotate(&write()).unwrap().archive, Some(archive(5)));
    assert_eq!(disk.append(&["five"]), 5);
    disk.expect(&["one", "two", "three", "four", "five"]);
    for name in ["log.jsonl.1", "log.jsonl.2", "log.jsonl.4"] {
        assert_eq!(disk.text(name).as_deref(), Some("theirs"));
    }
    // A compaction keeps the way to the archives.
    for _ in 0..2 {
        disk.journal().compact(&write(), |_| true).unwrap();
        disk.expect(&["one", "two", "three", "four", "five"]);
        assert_eq!((disk.index("index").archive, disk.head().at(200)), (5, 5));
    }
    // However many are taken.
    for number in 6..80 {
        disk.sim.add_file(format!("{PATH}.{number}"), "theirs");
    }
    assert_eq!(disk.journal().rotate(&write()).unwrap().archive, Some(archive(80)));
}

#[test]
fn race_40_j10_a_number_that_was_taken_in_the_last_moment_is_given_up_for_the_next() {
    for exchange in [true, false] {
        let disk = three_lines();
        if !exchange {
            disk.sim.inject(1, Fault::NoExchange, Times::Forever);
        }
        disk.sim.add_file("/d/log.jsonl.3", "theirs");
        take_name(&disk, 1);
        take_name(&disk, 2);
        let hand = disk.clone();
        let intended = |hand: &Watched| (hand.head().at(224) & 8, hand.head().at(312));
        disk.before("RenameNew 4", move || assert_eq!(intended(&hand), (8, 4), "in the log"));
        let journal = disk.journal();
        let rotated = journal.rotate(&write()).unwrap();
        assert_eq!(rotated.archive, Some(archive(4)));
        let steps = disk.steps().join(", ");
        let renumbered = "RenameNew 1, Write wal, Sync wal, Write wal, ";
        assert!(steps.contains(renumbered), "the number is safe before the name: {steps}");
        let retitled = "Remove tmp 1, SetMode tmp 1, Write tmp 1, Sync tmp 1, Rename tmp 3, \
            SyncDir .tenure, SyncDir d, Rename index.4, Rename index, SyncDir .tenure";
        assert!(steps.contains(retitled), "{steps}");
        assert_eq!(disk.append(&["four"]), 4);
        disk.expect(&["one", "two", "three", "four"]);
        assert_eq!((disk.index("index").archive, disk.index("index").first_seq), (4, 4));
        assert_eq!(disk.head().at(200), 4, "the newest archive");
        assert_eq!(disk.text("log.jsonl.1").as_deref(), Some("theirs"));
    }
}

#[test]
fn race_40_a_rotation_gives_up_if_every_number_is_taken_and_the_next_call_finishes_it() {
    let disk = three_lines();
    for number in 1..=65 {
        take_name(&disk, number);
    }
    let error = disk.journal().rotate(&write()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    assert!(disk.is_through(), "it tried 64 numbers more");
    disk.expect_entries(&["one", "two", "three"]);
    assert_eq!(disk.append(&["four"]), 4);
    disk.expect(&["one", "two", "three", "four"]);
    assert_eq!(disk.text("log.jsonl.66").as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("four\n"));
}

#[test]
fn j10_a_compaction_never_becomes_an_archive() {
    // Where names cannot be exchanged, somebody may take even the name of the displaced file.
    let disk = three_lines();
    disk.sim.inject(1, Fault::NoExchange, Times::Forever);
    let sim = disk.sim.clone();
    disk.before("Link displaced", move || {
        sim.add_file("/d/.tenure/log.jsonl.displaced", "theirs");
    });
    let error = Way::Compact.go(&disk.journal()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(disk.append(&["four"]), 4);
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("one\nthree\nfour\n"));
    assert_eq!(disk.text("log.jsonl.1"), None);
    assert_eq!(disk.text(Way::Compact.old()).as_deref(), Some("one\ntwo\nthree\n"));
}
