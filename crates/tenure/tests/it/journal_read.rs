//! Reading by number: from any number on, as many as are wanted, out of archives, the index, the log
//! and lines of others. Readers take no lock and change nothing (J9).

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tenure::{AppendOptions, ErrorKind, Journal, Wait, WriteOptions};

use crate::document_scratch::Scratch;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::journal::{all, foreign, no_sync, numbered};

/// A journal in a directory of its own.
pub(crate) struct Log {
    pub(crate) scratch: Scratch,
    pub(crate) journal: Journal,
}

impl Log {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::in_memory();
        let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
        Self { scratch, journal }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path("log.jsonl")
    }

    pub(crate) fn archive(&self, number: u64) -> PathBuf {
        self.scratch.path(&format!("log.jsonl.{number}"))
    }

    pub(crate) fn sidecar(&self, suffix: &str) -> PathBuf {
        self.scratch.path(".tenure").join(format!("log.jsonl.{suffix}"))
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    pub(crate) fn append(&self, lines: &[&str]) -> u64 {
        self.journal.append(lines, &no_sync()).unwrap().first
    }

    pub(crate) fn stamp(&self, header: &str, lines: &[&str]) -> tenure::Appended {
        let options = AppendOptions { header: Some(header.into()), ..no_sync() };
        self.journal.append(lines, &options).unwrap()
    }

    pub(crate) fn foreign(&self, text: &str) {
        foreign(&self.path(), text);
    }

    pub(crate) fn repair(&self) -> tenure::Report {
        self.journal.repair(&write()).unwrap()
    }

    pub(crate) fn rotate(&self) -> tenure::Rotated {
        self.journal.rotate(&write()).unwrap()
    }

    /// As many lines, of which only those with odd numbers are left: each has a record of its own.
    pub(crate) fn with_gaps(lines: u64) -> Self {
        let log = Self::new();
        let texts: Vec<String> = (1..=lines).map(|seq| format!("line {seq:04}")).collect();
        log.journal.append(&texts, &no_sync()).unwrap();
        let done = log.journal.compact(&write(), |entry| entry.seq % 2 == 1).unwrap();
        assert_eq!((done.kept, done.dropped), (lines.div_ceil(2), lines / 2));
        log
    }

    /// What a journal [with gaps](Self::with_gaps) holds from a number on.
    pub(crate) fn gapped(from: u64, lines: u64) -> Vec<(u64, String)> {
        let odd = (from..=lines).filter(|seq| seq % 2 == 1);
        odd.map(|seq| (seq, format!("line {seq:04}"))).collect()
    }
}

pub(crate) fn write() -> WriteOptions {
    WriteOptions::default()
}

/// Some entries of a journal.
fn some(journal: &Journal, from: u64, limit: Option<u64>) -> Vec<(u64, String)> {
    let entries = journal.read(from, limit).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

/// Changes one byte of a file in place.
pub(crate) fn alter(path: &std::path::Path, at: u64, to: u8) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    assert_ne!(byte, [to], "byte {at} is something else");
    file.write_all_at(&[to], at).unwrap();
}

/// Thirteen entries, each its own number: in two archives, in the index, in the log and behind it.
fn everywhere() -> Log {
    let log = Log::new();
    log.append(&["1", "2"]);
    log.foreign("\n3\n");
    log.rotate();
    log.append(&["4"]);
    log.append(&["5"]);
    log.rotate();
    log.append(&["6"]);
    log.foreign(" \t\n7\n");
    log.repair();
    log.append(&["8", "9"]);
    log.foreign("10\n\n11\n");
    log.append(&["12"]);
    log.foreign("\n13\n14 is not finished");
    log
}

#[test]
fn any_stretch_of_the_entries_is_read() {
    let log = everywhere();
    let texts: Vec<String> = (1..=13).map(|seq: u64| seq.to_string()).collect();
    let whole = numbered(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    for from in 0..=15 {
        for limit in [None, Some(0), Some(1), Some(2), Some(5), Some(13), Some(100)] {
            let wanted = whole.iter().filter(|(seq, _)| *seq >= from);
            let count = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
            let wanted: Vec<_> = wanted.take(count).cloned().collect();
            assert_eq!(some(&log.journal, from, limit), wanted, "{from} {limit:?}");
            let mut entries = log.journal.read(from, limit).unwrap();
            for (seq, line) in &wanted {
                let lent = entries.next_line().unwrap();
                assert_eq!(lent, Some((*seq, line.as_bytes())), "{from} {limit:?}");
            }
            assert_eq!(entries.next_line().unwrap(), None);
        }
    }
}

#[test]
fn an_index_with_many_records_is_read_from_any_number() {
    let log = Log::with_gaps(300);
    for from in 0..=302 {
        let whole = Log::gapped(from, 300);
        assert_eq!(some(&log.journal, from, Some(2)), whole[..whole.len().min(2)], "{from}");
    }
    assert_eq!(all(&log.journal), Log::gapped(0, 300));
    assert_eq!(log.append(&["more"]), 301);
    assert_eq!(log.journal.read(299, None).unwrap().count(), 2);
}

/// Whichever read of the index fails, the error says where.
#[test]
fn g10_an_index_that_cannot_be_read_is_named() {
    let log = Log::with_gaps(120);
    let mut failed = 0;
    for nth in 0..8 {
        let reads = AtomicU64::new(0);
        let fs = FaultyFs::new(move |op, path| {
            let is_it = op == Op::Read && path.extension().is_some_and(|name| name == "index");
            if is_it && reads.fetch_add(1, Ordering::Relaxed) == nth {
                return Verdict::Fail(std::io::ErrorKind::TimedOut.into());
            }
            Verdict::Go
        });
        let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
        if let Err(error) = journal.read(77, None).and_then(|mut entries| entries.next().unwrap()) {
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.path().is_some(), "read {nth}: {error}");
            failed += 1;
        }
    }
    assert!(failed >= 3, "its head, its records by halves, and those that are read");
}

#[test]
fn a_damaged_record_ends_reading_there_and_nowhere_else() {
    let log = Log::with_gaps(120);
    let good = fs::read(log.sidecar("index")).unwrap();
    for damaged in [0, 5, 15, 16, 17, 33, 59_u64] {
        alter(&log.sidecar("index"), 128 + 72 * damaged + 16, 0xee);
        let mut read = log.journal.read(2 * damaged + 1, None);
        if damaged > 0 {
            let mut entries = log.journal.read(1, None).unwrap();
            for record in 0..damaged {
                assert_eq!(entries.next().unwrap().unwrap().seq, 2 * record + 1);
            }
            read = Err(entries.next().unwrap().unwrap_err());
            assert!(entries.next().is_none(), "nothing comes after damage");
        }
        let error = read.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains(&format!("record {damaged} ")), "{error}");
        let behind = 2 * damaged + 3;
        if behind < 120 {
            assert_eq!(some(&log.journal, behind, None), Log::gapped(behind, 120));
        }
        fs::write(log.sidecar("index"), &good).unwrap();
    }
    fs::write(log.sidecar("index"), &good[..128 + 72 * 20]).unwrap();
    let mut entries = log.journal.read(1, None).unwrap();
    assert_eq!(entries.by_ref().take(20).flatten().count(), 20);
    assert_eq!(entries.next().unwrap().unwrap_err().kind(), ErrorKind::Damaged, "it is cut");
}

/// Lines that end before, at and behind the end of what is read at a time, or are longer.
#[test]
fn lines_of_any_length_are_whole() {
    const CHUNK: usize = 128 * 1024;
    let lens = [CHUNK - 1, 1, CHUNK, 0, 7, CHUNK + 1, 2 * CHUNK, 5, 3 * CHUNK - 20, 300_000, 2];
    let line = |(at, len): (usize, usize)| {
        let letter = |place: usize| char::from(b'a' + u8::try_from((place * 7 + at) % 26).unwrap());
        (0..len).map(letter).collect()
    };
    let lines: Vec<String> = lens.into_iter().enumerate().map(line).collect();
    let inked: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    let same = |log: &Log, when: &str| {
        let found = all(&log.journal);
        let fits = |(at, line): (usize, &&str)| found[at] == (at as u64 + 1, (*line).to_owned());
        assert_eq!(found.len(), inked.len(), "{when}");
        assert!(inked.iter().enumerate().all(fits), "{when}");
        let report = log.journal.verify().unwrap();
        assert!(report.is_sound() && report.entries == inked.len() as u64, "{when}: {report:?}");
    };
    let log = Log::new();
    log.foreign(&(lines.join("\n") + "\n"));
    same(&log, "of others");
    log.repair();
    same(&log, "in the index");
    log.stamp("# header", &[]);
    assert!(log.text().starts_with("# header\naho"));
    same(&log, "behind a header");
    let own = Log::new();
    own.append(&inked);
    same(&own, "in the log");
    own.stamp("# header", &[]);
    same(&own, "behind a header");
}

/// What must be there is missed; what nobody has numbered yet is not.
#[test]
fn a_file_that_is_cut_under_a_reader_ends_there() {
    let line = "x".repeat(99_999);
    for indexed in [false, true] {
        let log = Log::new();
        log.append(&[line.as_str(); 5]);
        if indexed {
            log.repair();
        }
        let mut entries = log.journal.read(1, None).unwrap();
        assert_eq!(entries.next().unwrap().unwrap().seq, 1);
        let file = fs::OpenOptions::new().write(true).open(log.path()).unwrap();
        file.set_len(200_000).unwrap();
        assert_eq!(entries.next().unwrap().unwrap().seq, 2);
        match entries.next() {
            Some(Err(error)) => assert!(indexed && error.kind() == ErrorKind::Damaged, "{error}"),
            Some(Ok(entry)) => panic!("{} was cut off", entry.seq),
            None => assert!(!indexed),
        }
        assert!(entries.next().is_none());
    }
}

#[test]
fn lines_that_became_more_or_fewer_are_no_entries_of_the_index() {
    for (at, to) in [(2, b'\n'), (4, b'x')] {
        let log = Log::new();
        log.append(&["1234", "5678"]);
        log.repair();
        alter(&log.path(), at, to);
        let mut entries = log.journal.read(1, None).unwrap();
        let error = entries.find_map(Result::err).expect("it is noticed");
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("bytes 0 to 10 "), "{error}");
        assert!(entries.next().is_none());
    }
}

/// An archive or its index that somebody removed hides what is before it, too: no gap goes unnoticed.
#[test]
fn reading_begins_behind_an_archive_that_is_gone() {
    let (log, first) = (everywhere(), [(1, 4), (2, 6)]);
    for (archive, next) in first {
        for path in [log.archive(archive), log.sidecar(&format!("index.{archive}"))] {
            let away = path.with_extension("away");
            fs::rename(&path, &away).unwrap();
            let found = all(&log.journal);
            assert_eq!((found[0].0, found.len() as u64), (next, 14 - next), "{}", path.display());
            fs::rename(&away, &path).unwrap();
        }
    }
    assert_eq!(all(&log.journal).len(), 13);
    // Whoever does not need it does not look.
    fs::remove_file(log.sidecar("index.1")).unwrap();
    fs::create_dir(log.sidecar("index.1")).unwrap();
    assert!(log.journal.read(3, None).is_err());
    assert_eq!(some(&log.journal, 4, None).len(), 10);
    fs::remove_file(log.sidecar("index.2")).unwrap();
    fs::create_dir(log.sidecar("index.2")).unwrap();
    assert!(log.journal.read(5, None).is_err());
    assert_eq!(some(&log.journal, 6, None).len(), 8);
}

#[test]
fn j9_readers_change_nothing_and_lock_nothing() {
    let log = everywhere();
    let done: Arc<Mutex<Vec<(Op, PathBuf)>>> = Arc::default();
    let seen = done.clone();
    let fs = FaultyFs::new(move |op, path| {
        if op.changes() || matches!(op, Op::Lock | Op::Sync | Op::SyncDir) {
            seen.lock().unwrap().push((op, path.to_path_buf()));
        }
        Verdict::Go
    });
    let before = log.scratch.listing();
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    assert_eq!(all(&journal).len(), 13);
    assert!(journal.verify().unwrap().torn_tail);
    assert_eq!(journal.follow(13).unwrap().next(Wait::No).unwrap().unwrap().seq, 13);
    let nowhere = Journal::open_on(&fs.shared(), &log.scratch.path("nothing")).unwrap();
    assert_eq!(all(&nowhere), []);
    assert_eq!(nowhere.verify().unwrap(), tenure::Report::default());
    assert_eq!(nowhere.follow(0).unwrap().next(Wait::No).unwrap(), None);
    assert_eq!(log.scratch.listing(), before);
    assert_eq!(*done.lock().unwrap(), []);
}

/// A directory or a device has no lines, and no error tells of a damaged journal.
#[test]
fn what_is_no_file_is_no_journal() {
    let log = Log::new();
    fs::create_dir(log.path()).unwrap();
    for refused in [log.journal.read(0, None).map(drop), log.journal.verify().map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
