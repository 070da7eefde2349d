//! A journal that another tool has cut (`copytruncate`), and that is longer again when tenure looks: nothing of it is
//! what the sidecars describe (J8). And archives that are not the files that they were.

use tenure::{AppendOptions, ErrorKind};

use crate::journal_publish::{WAYS, Way, three_lines};
use crate::watched_journal::{PATH, Watched, unsynced, write};

const LONGER: &str = "aaaaaaaaaa\nbbbbbbbbbbbbbb\ncccccccccccccc\n";

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
