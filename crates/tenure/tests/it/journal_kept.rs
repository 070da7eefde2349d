//! A journal keeps its files open and its head in memory. Whatever others do to the files meanwhile,
//! the next append goes to the right place, with the right number (J8, J10; race 16 for forks).

use std::fs;
use std::path::{Path, PathBuf};

use tenure::{AppendOptions, Durability, Journal, WriteOptions};

use crate::puppet::Puppet;
use crate::scratch::Scratch;

fn append(journal: &Journal, line: &str, durability: Durability) -> u64 {
    let write = WriteOptions { durability, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    journal.append(&[line], &options).unwrap().first
}

fn lines(path: &Path) -> Vec<(u64, String)> {
    let entries = Journal::open(path).unwrap().read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

/// What somebody else does between two appends.
type Deed = fn(&Path, &Path);

/// Appends before and after the deed, with the same handle and with another one, and expects every
/// acknowledged line that is `kept` under its number, in the file and in the journal.
fn around(deed: Deed, kept: bool) {
    for durability in [Durability::NoSync, Durability::Durable] {
        let scratch = Scratch::new();
        let path = scratch.path("log.jsonl");
        let side = scratch.path(".tenure");
        let journal = Journal::open(&path).unwrap();
        let mut told = Vec::new();
        for number in 0..3 {
            let line = format!("before {number}");
            told.push((append(&journal, &line, durability), line));
        }
        deed(&path, &side);
        if !kept {
            told.clear();
        }
        for number in 0..3 {
            let line = format!("after {number}");
            told.push((append(&journal, &line, durability), line));
            let line = format!("other {number}");
            told.push((append(&Journal::open(&path).unwrap(), &line, durability), line));
        }
        let found = lines(&path);
        let there = |told: &(u64, String)| found.iter().filter(|line| *line == told).count() == 1;
        assert!(told.iter().all(there), "{durability:?}: {told:?} in {found:?}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("after 2"), "it is in the file that has the name: {text}");
        let report = Journal::open(&path).unwrap().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{durability:?}: {report:?}");
    }
}

fn other(path: &Path) -> Journal {
    Journal::open(path).unwrap()
}

#[test]
fn j10_a_kept_journal_follows_rotation_compaction_header_and_repair() {
    around(|path, _| drop(other(path).rotate(&WriteOptions::default()).unwrap()), true);
    around(|path, _| drop(other(path).compact(&WriteOptions::default(), |_| true).unwrap()), true);
    around(|path, _| drop(other(path).repair(&WriteOptions::default()).unwrap()), true);
    around(
        |path, _| {
            let header = Some(b"# header".to_vec());
            let options = AppendOptions { header, ..AppendOptions::default() };
            other(path).append(&["with a header"], &options).unwrap();
        },
        true,
    );
}

#[test]
fn j8_a_kept_journal_notices_that_its_files_were_removed_or_replaced() {
    fn wal(side: &Path) -> PathBuf {
        side.join("log.jsonl.wal")
    }
    // The journal alone, and together with everything of ours.
    around(|path, _| fs::remove_file(path).unwrap(), false);
    around(
        |path, side| {
            fs::remove_file(path).unwrap();
            fs::remove_dir_all(side).unwrap();
        },
        false,
    );
    // The sidecars, gone or moved away; the log alone, gone or another one with the same bytes.
    around(|_, side| fs::remove_dir_all(side).unwrap(), false);
    around(|_, side| fs::rename(side, side.with_extension("away")).unwrap(), false);
    around(|_, side| fs::remove_file(wal(side)).unwrap(), false);
    around(
        |_, side| {
            let copy = side.join("copy");
            fs::copy(wal(side), &copy).unwrap();
            fs::rename(copy, wal(side)).unwrap();
        },
        false,
    );
    // An editor that writes a new file; a tool that appends.
    around(
        |path, _| {
            let copy = path.with_extension("new");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        },
        false,
    );
    around(
        |path, _| {
            let mut text = fs::read_to_string(path).unwrap();
            text.push_str("foreign\n");
            fs::write(path, text).unwrap();
        },
        true,
    );
}

#[test]
fn j1_an_older_log_put_back_in_place_is_not_taken_for_the_kept_head() {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    let wal = scratch.path(".tenure").join("log.jsonl.wal");
    let journal = Journal::open(&path).unwrap();
    append(&journal, "one", Durability::Durable);
    let old = fs::read(&wal).unwrap();
    append(&journal, "two", Durability::Durable);
    fs::write(&wal, old).unwrap();
    append(&journal, "three", Durability::Durable);
    let found: Vec<String> = lines(&path).into_iter().map(|(_, line)| line).collect();
    assert_eq!(found, ["one", "two", "three"]);
}

/// A child that was forked from a process with a warm journal appends with what it inherited, and so
/// does its parent afterwards.
#[test]
fn race_16_a_forked_child_appends_beside_its_parent() {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    let told = Puppet::spawn().say(&format!("append-and-fork {}", path.display()));
    assert_eq!(told, "ok 1 2 3 4 5 6", "parent, child and parent again, in turns");
    let report = Journal::open(&path).unwrap().verify().unwrap();
    assert!(report.is_sound() && report.entries == 6 && report.foreign_entries == 0, "{report:?}");
}
