//! A journal that another tool has cut (`copytruncate`), and that is longer again when tenure looks: nothing of it is
//! what the sidecars describe (J8). And archives that are not the files that they were.

use std::path::Path;

use tenure::fs::Access;
use tenure::{AppendOptions, ErrorKind};
use tenure_testkit::{CrashKind, Survival};

use crate::journal_publish::{WAYS, Way, three_lines};
use crate::watched_journal::{PATH, Watched, unsynced, with_header, write};

pub(crate) const LONGER: &str = "aaaaaaaaaa\nbbbbbbbbbbbbbb\ncccccccccccccc\n";

fn lines(disk: &Watched) -> Vec<String> {
    disk.entries().into_iter().map(|entry| entry.1).collect()
}

#[test]
fn j8_a_journal_that_was_cut_and_is_longer_again_is_another_one() {
    for indexed in [false, true] {
        for options in [AppendOptions::default(), unsynced()] {
            let disk = three_lines();
            disk.append(&["four"]);
            if indexed {
                disk.journal().repair(&write()).unwrap();
            }
            disk.outsider().truncate(PATH);
            disk.outsider().append(PATH, LONGER);
            let story = format!("{indexed} {options:?}");
            let seen = disk.entries();
            let theirs: Vec<String> = LONGER.lines().map(str::to_owned).collect();
            assert_eq!(lines(&disk), theirs, "a reader, {story}");
            let first = disk.journal().append(&["next"], &options).unwrap().first;
            let all: Vec<String> = theirs.into_iter().chain(["next".to_owned()]).collect();
            assert_eq!(lines(&disk), all, "{story}");
            assert_eq!(disk.entries()[..3], seen[..], "{story}");
            assert_eq!((first, seen[0].0), (8, 5), "{story}");
            let report = disk.journal().verify().unwrap();
            assert!(report.is_sound() && !report.unbound, "{story}: {report:?}");
        }
    }
}

#[test]
fn j8_a_replacement_beside_a_cut_keeps_the_lines_that_came_after_it() {
    let mut moments = 0;
    for way in WAYS {
        for nth in 0..200 {
            let disk = three_lines();
            let outsider = disk.outsider();
            disk.before_nth(nth, move || {
                outsider.truncate(PATH);
                outsider.append(PATH, "theirs\n");
            });
            let done = way.go(&disk.journal());
            if !disk.is_through() {
                break;
            }
            let story = format!("{way:?} before step {nth}: {done:?}");
            disk.append(&["last"]);
            let text = disk.text("log.jsonl").unwrap();
            assert_eq!(text.matches("theirs\n").count(), 1, "{story}: {text}");
            assert!(text.ends_with("last\n"), "{story}: {text}");
            let told: Vec<_> = disk.journal().read(4, None).unwrap().map(Result::unwrap).collect();
            let last = told.last().map(|entry| entry.line.clone());
            assert_eq!(last.as_deref(), Some(&b"last"[..]), "{story}: {text} {told:?}");
            moments += 1;
        }
    }
    assert!(moments > 100, "{moments}");
}

/// Somebody dies at step `nth` of a replacement, and somebody else cuts the journal before the next one finishes it.
/// Whether there was such a step.
fn dies_and_is_cut(way: Way, headed: bool, theirs: &str, nth: u64) -> bool {
    let disk = three_lines();
    if headed {
        disk.journal().append(&[] as &[&str], &with_header("# top")).unwrap();
    }
    disk.sim.fail_after(nth, CrashKind::Process);
    way.go(&disk.journal()).ok();
    let died = disk.sim.is_down();
    disk.sim.process_crash();
    disk.outsider().truncate(PATH);
    disk.outsider().append(PATH, theirs);
    let story = format!("{way:?} {headed} {theirs:?} {nth}");
    let read = || -> Vec<_> {
        let entries: tenure::Result<Vec<_>> =
            disk.journal().read(0, None).and_then(Iterator::collect);
        entries.unwrap_or_else(|error| panic!("{story}: {error}"))
    };
    let is_theirs = |line: &[u8]| theirs.lines().any(|it| it.as_bytes() == line);
    let count = theirs.lines().count();
    let seen = read();
    let found = seen.iter().filter(|entry| is_theirs(&entry.line)).count();
    assert_eq!(found, count, "{story}: {seen:?}");
    let last = disk.append(&["last"]);
    let all = read();
    let found: Vec<_> = all.iter().filter(|entry| is_theirs(&entry.line)).collect();
    assert_eq!(found.len(), count, "{story}: {all:?}");
    assert!(found.iter().all(|entry| entry.seq > 2 && entry.seq < last), "{story}: {all:?}");
    assert!(all.windows(2).all(|pair| pair[0].seq < pair[1].seq), "{story}: {all:?}");
    assert_eq!(disk.text("log.jsonl").unwrap().matches(theirs).count(), 1, "{story}");
    died
}

#[test]
fn j8_j10_a_cut_after_a_replacement_died_at_any_step_hides_nothing() {
    for way in WAYS {
        for headed in [false, true] {
            for theirs in ["theirs\n", LONGER] {
                let steps = (1..1000).find(|nth| !dies_and_is_cut(way, headed, theirs, *nth));
                assert!(steps > Some(20), "{way:?} {headed}: {steps:?}");
            }
        }
    }
}

/// The log has numbers that no anchor knows, and the lines that have them are gone with a cut.
#[test]
fn j8_numbers_do_not_come_again_after_a_power_loss_and_a_cut() {
    let disk = three_lines();
    disk.journal().repair(&write()).unwrap();
    assert_eq!(disk.append(&["four", "five"]), 4);
    disk.sim.crash_with(Survival::Nothing);
    // It has torn the hints, which are written without a sync.
    let wal = Path::new("/d/.tenure/log.jsonl.wal");
    let wal = disk.sim.shared().open(wal, Access::ReadWrite).unwrap();
    wal.write_all_at(&[0xff; 2048], 8192).unwrap();
    disk.outsider().truncate(PATH);
    disk.outsider().append(PATH, "theirs\n");
    assert_eq!(disk.entries(), [(6, "theirs".to_owned())]);
    assert_eq!(disk.append(&["last"]), 7);
    assert_eq!(disk.entries(), [(6, "theirs".to_owned()), (7, "last".to_owned())]);
}

#[test]
fn j8_a_foreign_file_in_an_archive_s_place_is_not_read_as_the_archive() {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    disk.append(&["four"]);
    disk.outsider().replace("/d/log.jsonl.1", "uno\ndos\nthree\n");
    let read: tenure::Result<Vec<_>> = disk.journal().read(0, None).and_then(Iterator::collect);
    let error = read.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn j8_an_archive_that_was_restored_from_a_copy_is_read() {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    disk.append(&["four"]);
    disk.copy_anew("/d/log.jsonl.1");
    disk.expect(&["one", "two", "three", "four"]);
}
