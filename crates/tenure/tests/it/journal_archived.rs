//! Lines in an archive keep their numbers and can be read by them, whatever becomes of the journal or its log
//! after the rotation (J8).

use crate::journal_publish::{Way, three_lines};
use crate::watched_journal::{PATH, Watched, numbered, write};

/// Three lines in an archive, and one in the journal.
fn rotated() -> Watched {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    assert_eq!(disk.append(&["four"]), 4);
    disk
}

/// The archived lines, and behind them these.
#[track_caller]
fn expect(disk: &Watched, behind: &[(u64, &str)]) {
    let mut expected = numbered(&["one", "two", "three"]);
    expected.extend(behind.iter().map(|(seq, line)| (*seq, (*line).to_owned())));
    assert_eq!(disk.entries(), expected);
    let report = disk.journal().verify().unwrap();
    assert!(report.is_sound() && !report.unbound, "{report:?}");
}

/// Somebody removes or empties the journal, or puts another one there.
#[test]
fn j8_archived_lines_are_read_though_the_journal_begins_anew() {
    for (text, behind) in [
        (None, &[(5, "next")][..]),
        (Some(""), &[(5, "next")]),
        (Some("theirs\n"), &[(5, "theirs"), (6, "next")]),
    ] {
        let disk = rotated();
        match text {
            None => disk.outsider().remove(PATH),
            Some(text) => disk.outsider().replace(PATH, text),
        }
        disk.append(&["next"]);
        expect(&disk, behind);
        disk.journal().repair(&write()).unwrap();
        expect(&disk, behind);
    }
}

/// The index has no records right after a rotation. It still says from which number on, and where the others are.
#[test]
fn j8_no_archived_number_comes_again_if_the_log_is_gone() {
    let disk = rotated();
    disk.outsider().remove("/d/.tenure/log.jsonl.wal");
    assert_eq!(disk.entries(), [(4, "four".to_owned())], "a reader numbers as the next writer");
    assert_eq!(disk.append(&["five"]), 5);
    expect(&disk, &[(4, "four"), (5, "five")]);
    disk.journal().rotate(&write()).unwrap();
    assert_eq!(disk.text("log.jsonl.2").as_deref(), Some("four\nfive\n"));
    expect(&disk, &[(4, "four"), (5, "five")]);
}
