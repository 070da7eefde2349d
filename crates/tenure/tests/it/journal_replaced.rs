//! Replacements of journals that are damaged in place, and beside lines of others: damage is no cut, so nothing is renumbered,
//! doubled or hidden by it (G7, J8), and readers number as the next writer will.

use tenure::ErrorKind;
use tenure_testkit::CrashKind;

use crate::journal_publish::{WAYS, Way, three_lines};
use crate::journal_regrown::LONGER;
use crate::watched_journal::{PATH, Watched, with_header, write};

/// Longer than what is compared of its end.
fn long() -> Watched {
    let disk = three_lines();
    disk.append(&["x".repeat(300).as_str(), "five"]);
    disk.journal().repair(&write()).unwrap();
    disk
}

fn headed() -> Watched {
    let disk = three_lines();
    disk.journal().append(&[] as &[&str], &with_header("# top")).unwrap();
    disk
}

#[test]
fn g7_a_bad_byte_at_the_end_does_not_stop_a_rotation() {
    let disk = long();
    let end = disk.text("log.jsonl").unwrap().len() as u64;
    disk.alter(PATH, end - 3, b'X');
    let before = disk.entries();
    disk.journal().rotate(&write()).unwrap();
    assert_eq!(disk.append(&["six"]), 6);
    assert_eq!(disk.entries()[..5], before[..]);
}

#[test]
fn g7_a_header_over_damage_doubles_hides_and_renumbers_nothing() {
    for at in [1, 12, 312, 317] {
        let disk = long();
        disk.alter(PATH, at, b'X');
        let before = disk.entries();
        let done = disk.journal().append(&["six"], &with_header("# top")).unwrap();
        let after = disk.entries();
        assert_eq!(after[..before.len()], before[..], "{at}");
        assert_eq!(after[before.len()..], [(done.first, "six".to_owned())], "{at}");
        assert!(!disk.journal().verify().unwrap().is_sound(), "{at}");
    }
}

/// Of two ranges one is damaged, and a line of others comes at any step.
#[test]
fn g7_a_line_of_others_beside_damage_renumbers_nothing() {
    for nth in 0..200 {
        let disk = long();
        disk.append(&["six"]);
        disk.journal().repair(&write()).unwrap();
        disk.alter(PATH, 1, b'X');
        let (before, outsider) = (disk.entries(), disk.outsider());
        disk.before_nth(nth, move || outsider.append(PATH, "theirs\n"));
        disk.journal().append(&["seven"], &with_header("# top")).unwrap();
        if !disk.is_through() {
            assert!(nth > 20, "{nth}");
            break;
        }
        disk.journal().repair(&write()).unwrap();
        let after = disk.entries();
        assert_eq!(after[..before.len()], before[..], "{nth}");
        assert_eq!(after.len(), before.len() + 2, "{nth}: {after:?}");
    }
}

#[test]
fn g7_a_damaged_header_renumbers_nothing() {
    for (at, byte) in [(2, b'X'), (2, b'\n'), (5, b'X')] {
        for way in [Way::Rotate, Way::Compact] {
            let disk = headed();
            disk.append(&["x".repeat(300).as_str()]);
            disk.journal().repair(&write()).unwrap();
            disk.alter(PATH, at, byte);
            way.go(&disk.journal()).unwrap();
            assert_eq!(disk.append(&["last"]), 5, "{way:?} {at}");
            let numbers: Vec<u64> = disk.entries().into_iter().map(|entry| entry.0).collect();
            let expected: &[u64] =
                if way == Way::Rotate { &[1, 2, 3, 4, 5] } else { &[1, 3, 4, 5] };
            assert_eq!(numbers, expected, "{way:?} {at}");
        }
    }
}

#[test]
fn j8_a_rotation_beside_a_cut_that_is_longer_again_is_busy() {
    let disk = three_lines();
    disk.journal().repair(&write()).unwrap();
    let outsider = disk.outsider();
    disk.before("Sync wal", move || {
        outsider.truncate(PATH);
        outsider.append(PATH, LONGER);
    });
    let error = disk.journal().rotate(&write()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Busy, Some(false)), "{error}");
}

/// The new file is cut and longer again at any step, also when its head is written.
#[test]
fn j8_a_replacement_beside_a_cut_that_is_longer_again_can_be_read() {
    for way in [Way::Compact, Way::Stamp] {
        for nth in 0..200 {
            let disk = headed();
            let outsider = disk.outsider();
            disk.before_nth(nth, move || {
                outsider.truncate(PATH);
                outsider.append(PATH, LONGER);
            });
            let done = way.go(&disk.journal());
            if !disk.is_through() {
                break;
            }
            disk.append(&["last"]);
            let read: tenure::Result<Vec<_>> =
                disk.journal().read(0, None).and_then(Iterator::collect);
            let all = read.unwrap_or_else(|error| panic!("{way:?} {nth} {done:?}: {error}"));
            assert_eq!(all.last().unwrap().line, b"last", "{way:?} {nth}");
        }
    }
}

#[test]
fn j9_a_reader_beside_a_header_that_died_numbers_as_the_next_writer() {
    for cut in [false, true] {
        for nth in 1..200 {
            let disk = three_lines();
            disk.sim.fail_after(nth, CrashKind::Process);
            Way::Stamp.go(&disk.journal()).ok();
            let died = disk.sim.is_down();
            disk.sim.process_crash();
            if !died {
                break;
            }
            if cut {
                disk.outsider().truncate(PATH);
            }
            disk.outsider().append(PATH, "theirs\n");
            let seen = disk.entries();
            disk.append(&["last"]);
            let all = disk.entries();
            let agrees =
                |(seq, line): &(u64, String)| all.iter().all(|it| it.0 != *seq || it.1 == *line);
            assert!(seen.iter().all(agrees), "{cut} {nth}: {seen:?} {all:?}");
        }
    }
}

/// Somebody has the old file open, appends to it when it is replaced, and the new one is cut before the next writer comes.
#[test]
fn race_40_late_lines_are_not_lost_with_a_cut_of_the_new_file() {
    for way in WAYS {
        let mut moments = 0;
        for nth in 1..200 {
            let disk = headed();
            let inode = |path: &str| disk.sim.shared().stat(path.as_ref()).ok().map(|it| it.id);
            let old = inode(PATH);
            disk.sim.fail_after(nth, CrashKind::Process);
            way.go(&disk.journal()).ok();
            let died = disk.sim.is_down();
            disk.sim.process_crash();
            if !died {
                break;
            }
            let displaced = format!("/d/{}", way.old());
            if inode(&displaced) != old {
                continue;
            }
            moments += 1;
            disk.outsider().append(&displaced, "late\n");
            disk.outsider().truncate(PATH);
            disk.outsider().append(PATH, "theirs\n");
            disk.append(&["last"]);
            disk.journal().repair(&write()).unwrap();
            let lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
            let count = |wanted: &str| lines.iter().filter(|line| *line == wanted).count();
            assert_eq!((count("late"), count("theirs")), (1, 1), "{way:?} {nth}: {lines:?}");
        }
        assert!(moments > 0, "{way:?}");
    }
}
