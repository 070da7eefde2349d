//! Damage: readers report it, in the journal and in its archives, and `repair --accept` accepts it
//! as it is (G7, race 60). The damaged bytes are kept aside first.

use std::fs;
use std::path::Path;

use tenure::{ErrorKind, Journal};

use crate::journal_stage::{
    Dir, all, durable, numbered, numbered_from, overwrite, sound, with_header, write,
};
use crate::scratch::kind;

/// Replaces the first `from` in a file, in place.
fn edit(path: &Path, from: &str, to: &str) {
    overwrite(path, fs::read_to_string(path).unwrap().replacen(from, to, 1).as_bytes());
}

/// The kind of the first error when reading from the beginning.
fn reads(journal: &Journal) -> Option<ErrorKind> {
    let entries = journal.read(1, None);
    kind(entries.and_then(Iterator::collect::<tenure::Result<Vec<_>>>))
}

/// Two archives and a journal, two entries each.
fn rotated(dir: &Dir) -> Journal {
    let journal = dir.journal();
    for batch in [["one", "two"], ["three", "four"]] {
        journal.append(&batch, &durable()).unwrap();
        journal.rotate(&write()).unwrap();
    }
    journal.append(&["five", "six"], &durable()).unwrap();
    journal
}

#[test]
fn race_60_an_edited_line_of_an_archive_is_reported_and_can_be_accepted() {
    for (archive, from, to) in [(1, "two", "TWO"), (2, "three", "THREE")] {
        let dir = Dir::new();
        let journal = rotated(&dir);
        edit(&dir.archive(archive), from, to);
        assert_eq!(reads(&journal), Some(ErrorKind::Damaged), "{from}");
        let report = journal.verify().unwrap();
        assert_eq!(report.damaged.len(), 1, "{report:?}");
        assert_eq!(report.damaged[0].file, dir.archive(archive), "it names the archive");
        assert!(!journal.repair(&write()).unwrap().is_sound(), "a repair accepts nothing");

        let report = journal.accept(&write()).unwrap();
        assert!(report.is_sound() && report.quarantine.is_some(), "{report:?}");
        let lines = ["one", "two", "three", "four", "five", "six"];
        let lines = lines.map(|line| if line == from { to } else { line });
        assert_eq!(all(&journal), numbered(&lines), "the entries keep their numbers");
        let kept = fs::read_to_string(dir.side("damaged")).unwrap();
        assert!(kept.contains(to), "the damaged bytes are kept: {kept}");
        sound(&journal);
    }
}

#[test]
fn race_60_lines_that_are_gone_from_an_archive_are_reported_as_lost_once_accepted() {
    let dir = Dir::new();
    let journal = rotated(&dir);
    edit(&dir.archive(1), "one\ntwo\n", "one two\n");
    assert_eq!(reads(&journal), Some(ErrorKind::Damaged));
    let report = journal.accept(&write()).unwrap();
    assert_eq!((report.damaged.len(), report.lost.as_slice()), (0, [(1, 2)].as_slice()));
    let entries = journal.read(1, None).unwrap();
    let gap = entries.map(|entry| entry.map_err(|error| error.gap())).find_map(Result::err);
    assert_eq!(gap, Some(Some((1, 2))), "a reader gets the gap");
    assert_eq!(all(&journal), numbered_from(3, &["three", "four", "five", "six"]));
    assert_eq!(fs::read_to_string(dir.archive(1)).unwrap(), "one two\n", "nothing is removed");
}

#[test]
fn race_60_a_damaged_index_record_of_an_archive_is_accepted_as_a_gap() {
    let dir = Dir::new();
    let journal = rotated(&dir);
    let mut index = fs::read(dir.side("index.2")).unwrap();
    let last = index.len() - 1;
    index[last] ^= 1;
    overwrite(&dir.side("index.2"), &index);
    assert_eq!(reads(&journal), Some(ErrorKind::Damaged));
    assert!(!journal.verify().unwrap().is_sound());
    let report = journal.accept(&write()).unwrap();
    assert_eq!((report.damaged.len(), report.lost.as_slice()), (0, [(3, 4)].as_slice()));
    let entries = journal.read(5, None).unwrap().map(|entry| entry.unwrap().line);
    assert_eq!(entries.collect::<Vec<_>>(), [b"five".to_vec(), b"six".to_vec()]);
}

/// The title of an archive's index names the archives before it: a damaged index hides none of them
/// silently.
#[test]
fn race_60_a_damaged_title_of_an_archives_index_is_damage_for_readers_too() {
    let dir = Dir::new();
    let journal = rotated(&dir);
    let mut index = fs::read(dir.side("index.2")).unwrap();
    index[20] ^= 1;
    overwrite(&dir.side("index.2"), &index);
    assert_eq!(kind(journal.read(0, None)), Some(ErrorKind::Damaged), "from the oldest entry");
    assert_eq!(kind(journal.read(1, None)), Some(ErrorKind::Damaged));
    assert_eq!(journal.read(5, None).unwrap().count(), 2, "newer entries are not concerned");
    let report = journal.verify().unwrap();
    assert_eq!(report.damaged[0].file, dir.archive(2), "{report:?}");
    let report = journal.accept(&write()).unwrap();
    assert_eq!((report.damaged.len(), report.lost.as_slice()), (0, [(3, 4)].as_slice()));
    let oldest = journal.read(1, Some(2)).unwrap().map(|entry| entry.unwrap().line);
    assert_eq!(oldest.collect::<Vec<_>>(), [b"one", b"two"], "older archives are read again");
    assert_eq!(fs::read_to_string(dir.archive(2)).unwrap(), "three\nfour\n");
}

/// An archive that was moved away: its entries are reported, and the older ones are still read.
#[test]
fn race_60_an_archive_that_was_moved_away_is_a_gap_and_hides_no_older_one() {
    let dir = Dir::new();
    let journal = rotated(&dir);
    fs::remove_file(dir.archive(2)).unwrap();
    let report = journal.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.lost, [(3, 4)], "verify names it");
    let mut gaps = Vec::new();
    let entries = journal.read(1, None).unwrap();
    let lines: Vec<u64> = entries
        .filter_map(|entry| entry.map_err(|error| gaps.push(error.gap().unwrap())).ok())
        .map(|entry| entry.seq)
        .collect();
    assert_eq!((lines, gaps), (vec![1, 2, 5, 6], vec![(3, 4)]));
}

#[test]
fn race_60_a_damaged_header_is_not_carried_into_a_new_file() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &with_header("{\"version\":1}")).unwrap();
    edit(&dir.log(), "version", "vErsion");
    assert!(!journal.verify().unwrap().is_sound());
    assert_eq!(kind(journal.rotate(&write())), Some(ErrorKind::Damaged));
    assert_eq!(kind(journal.compact(&write(), |_| true)), Some(ErrorKind::Damaged));
    assert_eq!(all(&journal), numbered(&["one"]), "the entries are not concerned");
    journal.append(&["two"], &durable()).unwrap();

    assert!(journal.accept(&write()).unwrap().is_sound());
    journal.rotate(&write()).unwrap();
    journal.append(&["three"], &durable()).unwrap();
    assert_eq!(dir.text(), "{\"vErsion\":1}\nthree\n");
    assert_eq!(all(&journal), numbered(&["one", "two", "three"]));
    sound(&journal);
}

/// A record of the log that was written earlier. Appends do not read it, readers do.
#[test]
fn race_60_a_damaged_log_is_repaired_by_numbering_the_file_anew() {
    let dir = Dir::new();
    let journal = dir.journal();
    for line in ["one", "two", "three"] {
        journal.append(&[line], &durable()).unwrap();
    }
    let mut log = fs::read(dir.side("log")).unwrap();
    log[4096 + 80] ^= 1;
    overwrite(&dir.side("log"), &log);
    assert_eq!(kind(journal.read(1, None)), Some(ErrorKind::Damaged));
    let error = journal.read(1, None).err().unwrap();
    assert!(error.next_step().unwrap().contains("tenure journal repair"), "{error}");
    let report = journal.repair(&write()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(all_from_oldest(&journal), ["one", "two", "three"]);
    assert_eq!(dir.text(), "one\ntwo\nthree\n");
}

fn all_from_oldest(journal: &Journal) -> Vec<String> {
    let lines = journal.read(0, None).unwrap().map(|entry| entry.unwrap().line);
    lines.map(|line| String::from_utf8(line).unwrap()).collect()
}

/// The title of the journal's own index. Nothing says any more where the entries were: an acceptance numbers them anew.
#[test]
fn race_60_a_damaged_title_of_the_index_can_be_accepted() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one", "two"], &durable()).unwrap();
    journal.compact(&write(), |_| true).unwrap();
    journal.append(&["three"], &durable()).unwrap();
    let mut index = fs::read(dir.side("index")).unwrap();
    index[20] ^= 1;
    overwrite(&dir.side("index"), &index);
    assert_eq!(kind(journal.read(0, None)), Some(ErrorKind::Damaged));
    let report = journal.accept(&write()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(all_from_oldest(&journal), ["one", "two", "three"]);
    journal.append(&["four"], &durable()).unwrap();
    journal.rotate(&write()).unwrap();
    assert_eq!(all_from_oldest(&journal), ["one", "two", "three", "four"]);
}
