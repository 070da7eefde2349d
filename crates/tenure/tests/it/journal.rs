//! The journal on the real disk.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{AppendOptions, Durability, ErrorKind, Journal, Wait, WriteOptions};

/// A directory of its own, removed at the end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tenure-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log.jsonl")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn no_sync() -> AppendOptions {
    let write = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
    AppendOptions { write, ..AppendOptions::default() }
}

pub(crate) fn durable() -> AppendOptions {
    AppendOptions::default()
}

/// Overwrites the file in place, as an editor or a bad disk does.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

pub(crate) fn foreign(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

pub(crate) fn all(journal: &Journal) -> Vec<(u64, String)> {
    let entries = journal.read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

pub(crate) fn numbered(lines: &[&str]) -> Vec<(u64, String)> {
    lines.iter().zip(1..).map(|(line, seq)| (seq, (*line).to_owned())).collect()
}

/// What this process has ever had of memory, where the system tells.
pub(crate) fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_batch_is_plain_lines_and_numbered() {
    let dir = Dir::new("batch");
    let journal = Journal::open(dir.log()).unwrap();
    let done = journal.append(&["one", "two"], &durable()).unwrap();
    assert_eq!((done.first, done.last), (1, 2));
    let done = journal.append(&["three"], &no_sync()).unwrap();
    assert_eq!((done.first, done.last), (3, 3));
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(all(&journal), numbered(&["one", "two", "three"]));
    assert_eq!(all(&Journal::open(dir.log()).unwrap()).len(), 3);
}

#[test]
fn bad_lines_are_refused_and_nothing_is_written() {
    let dir = Dir::new("bad");
    let journal = Journal::open(dir.log()).unwrap();
    let json = AppendOptions { json: true, ..durable() };
    for (line, options) in [("", durable()), (" \t", durable()), ("a\nb", durable()), ("{", json)] {
        let error = journal.append(&["{}", line], &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{line:?}");
    }
    assert!(!dir.log().exists());
    fs::create_dir(dir.log()).unwrap();
    let error = journal.append(&["a"], &durable()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn lines_of_others_are_numbered_and_an_open_one_is_closed() {
    let dir = Dir::new("foreign");
    let journal = Journal::open(dir.log()).unwrap();
    foreign(&dir.log(), "a\n\nb\n");
    assert_eq!(all(&journal), numbered(&["a", "b"]), "without any sidecar");
    let done = journal.append(&["c"], &durable()).unwrap();
    assert_eq!((done.first, done.adopted, done.closed_tail), (3, 2, false));
    foreign(&dir.log(), "d\nopen");
    assert_eq!(all(&journal), numbered(&["a", "b", "c", "d"]), "an open line is not shown");
    assert!(journal.verify().unwrap().torn_tail);
    let done = journal.append(&["e"], &no_sync()).unwrap();
    assert_eq!((done.first, done.adopted, done.closed_tail), (6, 2, true));
    assert_eq!(all(&journal), numbered(&["a", "b", "c", "d", "open", "e"]));
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "a\n\nb\nc\nd\nopen\ne\n");
    let report = journal.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.entries, report.foreign_entries), (6, 4));
}

/// Whatever the lines are and wherever they come from: archive, index, log, or somebody else.
#[test]
fn lines_that_are_lent_are_the_entries() {
    let dir = Dir::new("lent");
    let journal = Journal::open(dir.log()).unwrap();
    let long = "y".repeat(300_000);
    for number in 0..12 {
        let lines = [format!("first of {number}"), long.clone(), format!("last of {number}")];
        journal.append(&lines, &no_sync()).unwrap();
        foreign(&dir.log(), "\n \t\ntheirs\n");
        if number == 6 {
            journal.rotate(&WriteOptions::default()).unwrap();
        }
    }
    for (from, limit) in [(0, None), (1, Some(30)), (9, None), (40, Some(3)), (0, Some(0))] {
        let owned: Vec<_> = journal.read(from, limit).unwrap().map(Result::unwrap).collect();
        let (mut lent, mut seen) = (journal.read(from, limit).unwrap(), 0);
        while let Some((seq, line)) = lent.next_line().unwrap() {
            assert!((seq, line) == (owned[seen].seq, owned[seen].line.as_slice()), "{seq}");
            seen += 1;
        }
        assert_eq!(seen, owned.len());
        assert!(lent.next_line().unwrap().is_none() && lent.next().is_none(), "the end stays");
    }
    assert_eq!(journal.read(0, None).unwrap().count(), 48);
}

#[test]
fn nothing_is_lent_behind_damage() {
    let dir = Dir::new("lent-damage");
    let journal = Journal::open(dir.log()).unwrap();
    for _ in 0..3 {
        journal.append(&vec!["x".repeat(999); 2000], &durable()).unwrap();
    }
    let mut bytes = fs::read(dir.log()).unwrap();
    bytes[999] = b' '; // A newline of the first segment.
    overwrite(&dir.log(), &bytes);
    let mut entries = journal.read(1, None).unwrap();
    let mut lines = 0;
    let error = loop {
        match entries.next_line() {
            Ok(line) => lines += u64::from(line.expect("not the end").0 > 0),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(lines < 6000, "{lines}");
    assert!(entries.next_line().unwrap().is_none() && entries.next().is_none());
}

#[test]
fn a_long_journal_is_checkpointed_and_read_from_any_number() {
    let dir = Dir::new("long");
    let journal = Journal::open(dir.log()).unwrap();
    let line = |seq: u64| format!("{seq} {}", "x".repeat(1000));
    for first in (1..6000).step_by(100) {
        let lines: Vec<String> = (first..first + 100).map(line).collect();
        assert_eq!(journal.append(&lines, &no_sync()).unwrap().first, first);
    }
    for from in [1, 2, 999, 1000, 1001, 3333, 5999, 6000] {
        let read: Vec<_> = journal.read(from, Some(3)).unwrap().map(Result::unwrap).collect();
        assert_eq!(read[0].seq, from);
        assert_eq!(String::from_utf8(read[0].line.clone()).unwrap(), line(from));
    }
    let report = journal.verify().unwrap();
    assert!(report.is_sound() && report.segments > 3, "{report:?}");
    assert_eq!(report.entries, 6000);
    assert_eq!(journal.read(0, None).unwrap().count(), 6000);
    assert_eq!(journal.read(6001, None).unwrap().count(), 0);
}

#[test]
fn j4_any_flipped_bit_is_found() {
    let dir = Dir::new("flip");
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&["one", "two"], &durable()).unwrap();
    foreign(&dir.log(), "three\n");
    journal.append(&["four"], &no_sync()).unwrap();
    for checkpointed in [false, true] {
        if checkpointed {
            journal.repair(&WriteOptions::default()).unwrap();
        }
        let good = fs::read(dir.log()).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            overwrite(&dir.log(), &bad);
            assert!(!journal.verify().unwrap().is_sound(), "bit {bit}");
        }
        overwrite(&dir.log(), &good);
        assert!(journal.verify().unwrap().is_sound());
    }
}

#[test]
fn race_51_a_restored_or_replaced_journal_wins_over_its_sidecars() {
    let dir = Dir::new("restored");
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&["one", "two", "three"], &durable()).unwrap();
    fs::remove_file(dir.log()).unwrap();
    foreign(&dir.log(), "older\n");
    let done = journal.append(&["new"], &durable()).unwrap();
    assert!(done.first > 4 && done.adopted == 1, "{done:?}");
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "older\nnew\n");
    overwrite(&dir.log(), b"");
    let later = journal.append(&["again"], &durable()).unwrap();
    assert!(later.first > done.last);
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "again\n");
    fs::remove_dir_all(dir.0.join(".tenure")).unwrap();
    journal.append(&["fresh"], &durable()).unwrap();
    assert_eq!(all(&journal), numbered(&["again", "fresh"]));
    assert!(journal.verify().unwrap().is_sound());
}

#[test]
fn an_operation_is_done_once() {
    let dir = Dir::new("operation");
    let journal = Journal::open(dir.log()).unwrap();
    let named = |name: &str| {
        let write = WriteOptions { operation: Some(name.to_owned()), ..WriteOptions::default() };
        AppendOptions { write, ..AppendOptions::default() }
    };
    let first = journal.append(&["one", "two"], &named("a")).unwrap();
    journal.append(&["three"], &named("b")).unwrap();
    let again = journal.append(&["one", "two"], &named("a")).unwrap();
    assert_eq!((again.first, again.last, again.replayed), (first.first, first.last, true));
    assert_eq!(all(&journal).len(), 3);
}

#[test]
fn race_40_rotation_keeps_numbers_late_lines_and_followers() {
    let dir = Dir::new("rotate");
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&["one", "two"], &durable()).unwrap();
    let mut follow = journal.follow(1).unwrap();
    let mut late = fs::OpenOptions::new().append(true).open(dir.log()).unwrap();
    let rotated = journal.rotate(&WriteOptions::default()).unwrap();
    let archive = dir.0.join("log.jsonl.1");
    assert_eq!(rotated.archive.as_deref(), Some(archive.as_path()));
    assert_eq!(fs::read_to_string(&archive).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "");
    late.write_all(b"late\n").unwrap();
    assert_eq!(journal.append(&["three"], &durable()).unwrap().first, 3);
    journal.repair(&WriteOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "three\nlate\n");
    assert_eq!(all(&journal), numbered(&["one", "two", "three", "late"]));
    let mut seen = Vec::new();
    while let Some(entry) = follow.next(Wait::No).unwrap() {
        seen.push((entry.seq, String::from_utf8(entry.line).unwrap()));
    }
    assert_eq!(seen, all(&journal));
    journal.rotate(&WriteOptions::default()).unwrap();
    journal.append(&["five"], &no_sync()).unwrap();
    assert_eq!(all(&journal).len(), 5);
    assert!(dir.0.join("log.jsonl.2").exists());
}

#[test]
fn race_40_compaction_keeps_the_wanted_entries_and_their_numbers() {
    let dir = Dir::new("compact");
    let journal = Journal::open(dir.log()).unwrap();
    for line in ["a", "b", "c", "d", "e"] {
        journal.append(&[line], &no_sync()).unwrap();
    }
    let done = journal
        .compact(&WriteOptions::default(), |entry| !matches!(entry.line.as_slice(), b"b" | b"d"))
        .unwrap();
    assert_eq!((done.kept, done.dropped), (3, 2));
    let kept = |seq, line: &str| (seq, line.to_owned());
    assert_eq!(all(&journal), [kept(1, "a"), kept(3, "c"), kept(5, "e")]);
    assert_eq!(journal.append(&["f"], &durable()).unwrap().first, 6);
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "a\nc\ne\nf\n");
    assert!(journal.verify().unwrap().is_sound());
}

#[test]
fn race_41_a_header_is_stamped_in_one_step_with_a_batch() {
    let dir = Dir::new("header");
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&["one"], &no_sync()).unwrap();
    let header = |text: &str| AppendOptions { header: Some(text.into()), ..durable() };
    assert_eq!(journal.append(&["two"], &header("#v1")).unwrap().first, 2);
    assert_eq!(journal.append(&["three"], &header("#v1")).unwrap().first, 3);
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "#v1\none\ntwo\nthree\n");
    assert_eq!(journal.append(&["four"], &header("#version 2")).unwrap().first, 4);
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "#version 2\none\ntwo\nthree\nfour\n");
    assert_eq!(all(&journal), numbered(&["one", "two", "three", "four"]));
    assert!(journal.verify().unwrap().is_sound());
    journal.rotate(&WriteOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(dir.log()).unwrap(), "#version 2\n");
}

#[test]
fn a_header_is_set_without_an_entry() {
    let dir = Dir::new("header-alone");
    let journal = Journal::open(dir.log()).unwrap();
    let set = |text: &str| {
        let options = AppendOptions { header: Some(text.into()), ..durable() };
        journal.append(&[] as &[&str], &options).unwrap()
    };
    let text = || std::fs::read_to_string(journal.path()).unwrap();
    for header in ["#v1", "#v1", "#version 2"] {
        assert_eq!((set(header).first, set(header).last), (1, 0));
        assert_eq!(text(), format!("{header}\n"));
    }
    assert_eq!(journal.append(&["one"], &durable()).unwrap().first, 1);
    assert_eq!((set("#v3").first, text()), (2, "#v3\none\n".to_owned()));
    assert!(journal.verify().unwrap().is_sound());
    let nothing = journal.append(&[] as &[&str], &durable()).unwrap_err();
    assert_eq!(nothing.kind(), tenure::ErrorKind::Invalid);
}

#[test]
fn race_38_42_many_threads_append_and_nothing_is_lost_or_mixed() {
    let dir = Dir::new("threads");
    let path = dir.log();
    let mut follow = Journal::open(&path).unwrap().follow(1).unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let path = path.clone();
            std::thread::spawn(move || {
                let journal = Journal::open(&path).unwrap();
                let mut last = 0;
                for round in 0..50 {
                    let options = if writer % 4 == 3 { no_sync() } else { durable() };
                    let lines: Vec<_> = (0..3).map(|at| format!("{writer} {round} {at}")).collect();
                    if writer == 7 {
                        foreign(&path, &format!("foreign {round}\n"));
                    }
                    let done = journal.append(&lines, &options).unwrap();
                    assert!(done.first > last);
                    last = done.last;
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    while seen.len() < 8 * 50 * 3 + 50 {
        let entry = follow.next(Wait::For(Duration::from_secs(20))).unwrap();
        seen.push(entry.expect("all entries appear"));
    }
    for writer in writers {
        writer.join().unwrap();
    }
    let lines: Vec<_> =
        seen.iter().map(|entry| String::from_utf8(entry.line.clone()).unwrap()).collect();
    for at in 0..lines.len() {
        if let Some(start) = lines[at].strip_suffix(" 0").filter(|line| !line.starts_with('f')) {
            assert_eq!(lines[at + 1], format!("{start} 1"));
            assert_eq!(lines[at + 2], format!("{start} 2"));
        }
    }
    let journal = Journal::open(&path).unwrap();
    let entries = all(&journal);
    assert_eq!(entries.len(), seen.len());
    let same = entries.iter().zip(&seen).all(|(one, other)| one.0 == other.seq);
    assert!(same, "a follower sees the numbers that readers see");
    assert!(journal.verify().unwrap().is_sound());
}
