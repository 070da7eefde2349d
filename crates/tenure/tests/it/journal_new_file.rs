//! The file that is going to be the journal: its temporary name, its index and its head, and what becomes
//! of it if others get at it before it has its name (J8, J10).

use std::io::ErrorKind as Io;
use std::path::Path;

use tenure::{AppendOptions, Rotated};
use tenure_testkit::{CrashKind, Fault, Survival, Times};

use crate::journal_publish::{WAYS, Way, three_lines};
use crate::watched_journal::{Index, PATH, Range, Watched, with_header, write};

#[test]
fn leftovers_under_the_temporary_names_are_not_in_the_way() {
    for way in WAYS {
        let disk = three_lines();
        for number in 1..=3 {
            let name = format!("/d/.tenure/log.jsonl.tmp.{number:016x}");
            disk.sim.add_file(name, "left".repeat(500));
        }
        way.go(&disk.journal()).unwrap();
        assert_eq!(disk.text("log.jsonl").as_deref(), Some(way.text()));
        assert_eq!(disk.entries(), way.entries());
        let Index { records, .. } = disk.index("index");
        assert_eq!(records.len(), [0, 2, 2][way as usize], "{way:?}");
        assert!(!disk.sidecars().iter().any(|name| name.starts_with("tmp")));
    }
}

#[test]
fn a_temporary_name_that_cannot_be_used_is_an_error_and_nothing_is_changed() {
    for (way, number) in [(Way::Rotate, 2), (Way::Compact, 3), (Way::Stamp, 1), (Way::Stamp, 2)] {
        let disk = three_lines();
        disk.sim.add_dir(format!("/d/.tenure/log.jsonl.tmp.{number:016x}"));
        let error = way.go(&disk.journal()).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{way:?} {number}: {error}");
        disk.expect(&["one", "two", "three"]);
        assert_eq!(disk.text(way.old()), None);
    }
}

/// A replacement that died when everything was ready.
fn intended(way: Way) -> Watched {
    let disk = three_lines();
    disk.refuse("Exchange journal", Io::Other);
    let error = way.go(&disk.journal()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    assert_eq!(disk.head().at(224) & 8, 8, "there is an intent");
    disk
}

#[test]
fn j10_a_replacement_whose_new_file_is_gone_did_not_happen() {
    for way in WAYS {
        let disk = intended(way);
        disk.outsider().remove("/d/.tenure/log.jsonl.tmp.0000000000000002");
        assert_eq!(disk.append(&["next"]), 4, "{way:?}");
        disk.expect(&["one", "two", "three", "next"]);
        assert_eq!((disk.head().at(224) & 8, disk.text(way.old())), (0, None), "no intent is left");
        disk.journal().rotate(&write()).unwrap();
        disk.expect(&["one", "two", "three", "next"]);
    }
}

#[test]
fn j10_a_file_that_cannot_be_looked_at_is_not_one_that_is_gone() {
    for way in WAYS {
        for file in ["tmp 2", "journal"] {
            let (disk, step) = (intended(way), format!("Stat {file}"));
            let (journal, hand) = (disk.journal(), disk.clone());
            // The first look at anything after the log was read.
            disk.before("Read wal", move || hand.refuse(&step, Io::PermissionDenied));
            let error = journal.append(&["next"], &AppendOptions::default()).unwrap_err();
            assert!(disk.is_through(), "{way:?} {file}: {error}");
            assert_eq!(disk.append(&["next"]), way.next(), "{way:?} {file}");
            let text = format!("{}next\n", way.text());
            assert_eq!(disk.text("log.jsonl").unwrap(), text, "{way:?} {file}");
            assert_eq!(disk.text(way.old()).as_deref(), Some("one\ntwo\nthree\n"));
        }
    }
}

#[test]
fn j8_j10_a_directory_that_was_copied_in_the_middle_of_a_replacement_keeps_both_files() {
    for way in WAYS {
        let disk = intended(way);
        for name in ["log.jsonl.wal", "log.jsonl.index", "log.jsonl.tmp.0000000000000002"] {
            disk.copy_anew(&format!("/d/.tenure/{name}"));
        }
        disk.copy_anew(PATH);
        let first = disk.append(&["next"]);
        assert!(first > 6, "{way:?}: numbered above what is known: {first}");
        let lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
        assert_eq!(lines, ["one", "two", "three", "next"], "{way:?}");
        let kept = disk.text(".tenure/log.jsonl.displaced");
        assert_eq!(kept.as_deref(), Some(way.text()), "{way:?}");
        assert!(disk.journal().verify().unwrap().is_sound());
    }
}

/// Somebody cleans up in `.tenure/` at that very moment: nothing was replaced, and that is what the caller is told.
#[test]
fn g10_a_new_file_that_is_removed_on_its_way_is_an_error() {
    for way in WAYS {
        let (disk, new) = (three_lines(), "/d/.tenure/log.jsonl.tmp.0000000000000002");
        let outsider = disk.outsider();
        disk.before("Stat tmp 2", move || outsider.remove(new));
        let error = way.go(&disk.journal()).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{way:?}: {error}");
        assert!(disk.is_through(), "{way:?}");
        disk.expect_entries(&["one", "two", "three"]);
        assert_eq!(disk.append(&["next"]), 4, "{way:?}");
        disk.expect_entries(&["one", "two", "three", "next"]);
    }
}

#[test]
fn race_01_nothing_is_published_by_whom_the_lock_was_taken_from() {
    for way in WAYS {
        let disk = three_lines();
        let outsider = disk.outsider();
        disk.before("Sync tmp 3", move || outsider.remove("/d/.tenure/log.jsonl.commit"));
        let error = way.go(&disk.journal()).unwrap_err();
        assert_ne!(error.is_committed(), Some(true), "{error}");
        assert_eq!((disk.head().at(224) & 8, disk.text(way.old())), (0, None), "{way:?}");
        disk.expect_entries(&["one", "two", "three"]);
    }
}

#[test]
fn a_new_file_has_an_index_and_a_head_of_its_own() {
    for way in WAYS {
        let disk = three_lines();
        disk.journal().repair(&write()).unwrap();
        let (old, before) = (disk.index("index"), disk.head());
        assert_eq!(old.ranges(), [Range::new(0, 14, 1, 3, 1)]);
        way.go(&disk.journal()).unwrap();
        let (new, head) = (disk.index("index"), disk.head());
        let (first, header, archive) = match way {
            Way::Rotate => (4, 0, 1),
            Way::Compact => (1, 0, 0),
            Way::Stamp => (1, 7, 0),
        };
        assert_eq!((new.first_seq, new.header_len, new.archive), (first, header, archive));
        let told = match way {
            Way::Rotate => vec![],
            Way::Compact => vec![Range::new(0, 4, 1, 1, 0), Range::new(4, 10, 3, 1, 0)],
            Way::Stamp => vec![Range::new(7, 21, 1, 3, 1), Range::new(21, 26, 4, 1, 0)],
        };
        assert_eq!(new.ranges(), told, "{way:?}");
        let size = way.text().len() as u64;
        assert_eq!(head.at(24), before.at(24) + 1, "{way:?}: a new epoch");
        assert_ne!(head.at(32), before.at(32), "and salt");
        assert_eq!((head.at(40), head.at(184)), (new.generation, new.records.len() as u64));
        assert_ne!(new.generation, old.generation);
        assert_eq!((head.at(96), head.at(104), head.at(152)), (size, way.next(), size), "base");
        assert_eq!((head.at(160), head.at(200)), (way.next(), archive), "next, archive");
        assert_eq!(head.at(224), 2 + 4, "names_synced, displaced");
        assert_eq!((head.at(240), head.at(248), head.at(256)), (before.at(72), 14, archive));
        if way == Way::Rotate {
            assert_eq!(disk.index("index.1").ranges(), old.ranges());
        }
        if way == Way::Stamp {
            way.go(&disk.journal()).unwrap(); // The operation is done, and remembered.
        }
        // The journal is recognised by the end of the new file after a power loss, too.
        disk.sim.crash_with(Survival::Everything);
        assert_eq!(disk.append(&["next"]), way.next(), "{way:?}");
        let mut entries = way.entries();
        entries.push((way.next(), "next".to_owned()));
        assert_eq!(disk.entries(), entries);
    }
}

#[test]
fn a_new_file_has_the_mode_of_the_old_one() {
    for way in WAYS {
        let disk = three_lines();
        disk.outsider().set_mode(PATH, 0o640);
        way.go(&disk.journal()).unwrap();
        assert_eq!(disk.outsider().mode(PATH), 0o640, "{way:?}");
    }
}

#[test]
fn a_replacement_that_a_power_loss_cut_belongs_to_the_boot_that_finished_it() {
    for way in WAYS {
        let disk = intended(way);
        disk.sim.crash_with(Survival::Nothing);
        assert_eq!(disk.append(&["next"]), way.next(), "{way:?}");
        assert_eq!(disk.text("log.jsonl").unwrap(), format!("{}next\n", way.text()));
        assert_eq!(disk.head().boot(), disk.sim.shared().boot_id());
        assert_eq!(disk.text(way.old()).as_deref(), Some("one\ntwo\nthree\n"));
    }
}

#[test]
fn a_long_journal_is_copied_in_pieces_and_an_empty_one_stays_empty() {
    let disk = Watched::new();
    let lines: Vec<String> =
        (0..700).map(|number| format!("{number} {}", "x".repeat(997))).collect();
    let text = lines.join("\n") + "\n";
    disk.append(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for way in [Way::Compact, Way::Stamp] {
        way.go(&disk.journal()).unwrap();
        let found = disk.text("log.jsonl").unwrap();
        assert!(found.contains(&text) && found.len() <= text.len() + 12, "{way:?}");
        assert!(disk.journal().verify().unwrap().is_sound());
    }
    let disk = Watched::new();
    let done = disk.journal().compact(&write(), |_| true).unwrap();
    assert_eq!((done.kept, done.bytes_after, disk.text("log.jsonl").as_deref()), (0, 0, Some("")));
    assert_eq!(disk.journal().rotate(&write()).unwrap(), Rotated { archive: None, next: 1 });
    assert_eq!(disk.append(&["one"]), 1);
    disk.expect(&["one"]);
}

#[test]
fn j7_what_is_on_its_way_and_what_others_left_open_is_in_the_old_file_first() {
    for way in WAYS {
        let disk = three_lines();
        disk.outsider().append(PATH, "open");
        way.go(&disk.journal()).unwrap();
        let old = disk.text(way.old());
        assert_eq!(old.as_deref(), Some("one\ntwo\nthree\nopen\n"), "{way:?}");
        let lines = disk.entries();
        assert!(lines.contains(&(4, "open".to_owned())), "{way:?}: {lines:?}");
        // A batch that is logged, by a process that died before its sync.
        let disk = three_lines();
        let sim = disk.sim.clone();
        disk.before("Sync wal", move || sim.fail_after(1, CrashKind::Process));
        disk.journal().append(&["logged"], &AppendOptions::default()).unwrap_err();
        disk.sim.process_crash();
        way.go(&disk.journal()).unwrap();
        let old = disk.text(way.old());
        assert_eq!(old.as_deref(), Some("one\ntwo\nthree\nlogged\n"), "{way:?}");
        let lines = disk.entries();
        assert!(lines.contains(&(4, "logged".to_owned())), "{way:?}: {lines:?}");
        assert!(disk.journal().verify().unwrap().is_sound());
    }
}

#[test]
fn g10_a_log_that_cannot_be_read_does_not_say_that_nothing_was_intended() {
    for unreadable in [false, true] {
        let disk = three_lines();
        let hand = disk.clone();
        disk.before("Sync tmp 3", move || {
            hand.refuse("Sync wal", Io::Other);
            if unreadable {
                let later = hand.clone();
                hand.before("Sync wal", move || later.refuse("Read wal", Io::Other));
            }
        });
        let error = Way::Stamp.go(&disk.journal()).unwrap_err();
        assert_eq!(error.is_committed(), Some(true), "{unreadable}: {error}");
        assert!(disk.is_through(), "{unreadable}");
        assert_eq!(disk.append(&["next"]), 5);
        disk.expect(&["one", "two", "three", "four", "next"]);
    }
    // There is no log any more.
    let disk = three_lines();
    let (outsider, hand) = (disk.outsider(), disk.clone());
    disk.before("Sync tmp 3", move || {
        hand.refuse("Sync wal", Io::Other);
        hand.before("Sync wal", move || outsider.truncate("/d/.tenure/log.jsonl.wal"));
    });
    let error = Way::Stamp.go(&disk.journal()).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("one\ntwo\nthree\n"));
    // The anchor was not even written.
    let disk = three_lines();
    let hand = disk.clone();
    disk.before("Sync tmp 3", move || hand.refuse("Write wal", Io::Other));
    let error = Way::Stamp.go(&disk.journal()).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(disk.append(&["next"]), 4);
}

/// A replacement whose last steps are to be done again, and somebody has removed the new file.
fn removed(way: Way) -> Watched {
    let disk = three_lines();
    disk.refuse("SyncDir d", Io::Other);
    let error = way.go(&disk.journal()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{way:?}: {error}");
    assert_eq!(disk.text("log.jsonl").as_deref(), Some(way.text()));
    disk.outsider().remove(PATH);
    disk
}

/// What the new file said goes with it, and nothing else. Another file takes its place as it would at any other
/// time.
#[test]
fn j8_j10_a_journal_that_is_removed_before_its_replacement_is_finished_begins_anew() {
    for way in WAYS {
        let disk = removed(way);
        let next = way.next();
        assert_eq!((disk.append(&["next"]), disk.append(&["last"])), (next, next + 1), "{way:?}");
        assert_eq!(disk.text("log.jsonl").as_deref(), Some("next\nlast\n"), "{way:?}");
        assert_eq!(disk.text(way.old()).as_deref(), Some("one\ntwo\nthree\n"), "{way:?}");
        assert_eq!(disk.head().at(224) & 8, 0, "{way:?}: no intent is left");
        let mut lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
        if way == Way::Rotate {
            assert_eq!(lines.drain(..3).collect::<Vec<_>>(), ["one", "two", "three"]);
        }
        assert_eq!(lines, ["next", "last"], "{way:?}");
        let report = disk.journal().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{way:?}: {report:?}");
    }
}

/// The replacement is finished, but no new journal can be made yet. It is the next one whatever file comes then.
#[test]
fn j8_j10_the_old_file_is_adopted_if_it_comes_back_when_the_new_one_is_gone() {
    for way in WAYS {
        let disk = removed(way);
        disk.refuse("RenameNew journal", Io::PermissionDenied);
        disk.journal().append(&["no"], &AppendOptions::default()).unwrap_err();
        assert!(disk.is_through(), "{way:?}");
        let old = format!("/d/{}", way.old());
        disk.sim.shared().rename(Path::new(&old), Path::new(PATH)).unwrap();
        assert_eq!(disk.append(&["next"]), way.next() + 3, "{way:?}");
        assert_eq!(disk.text("log.jsonl").as_deref(), Some("one\ntwo\nthree\nnext\n"), "{way:?}");
        let report = disk.journal().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{way:?}: {report:?}");
    }
}

/// Where names cannot be exchanged, there is a moment without a journal. If the new file does not get the name
/// then, it is kept until it does.
#[test]
fn j10_a_new_file_that_does_not_get_the_name_at_once_is_kept() {
    let disk = Watched::new();
    disk.sim.inject(1, Fault::NoExchange, Times::Forever);
    disk.journal().append(&["one"], &with_header("# head")).unwrap();
    disk.refuse("RenameNew journal", Io::PermissionDenied);
    let error = disk.journal().rotate(&write()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    assert_eq!((disk.text("log.jsonl"), disk.is_through()), (None, true));
    assert_eq!(disk.append(&["two"]), 2);
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("# head\ntwo\n"));
    disk.expect(&["one", "two"]);
}
