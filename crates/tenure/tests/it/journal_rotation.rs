//! Rotation and compaction: what is in which file afterwards, with which numbers, and that lines which
//! come late or meanwhile are not lost (J10, race 40).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::fs::Fs;
use tenure::{AppendOptions, Compacted, ErrorKind, Journal, Rotated};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::journal_read::{Log, alter, write};

#[test]
fn a_rotation_says_where_the_entries_are() {
    let log = Log::new();
    assert_eq!(log.rotate(), Rotated { archive: None, next: 1 }, "there is nothing");
    log.foreign("one\n");
    assert_eq!(log.rotate(), Rotated { archive: Some(log.archive(1)), next: 2 });
    assert_eq!(log.rotate(), Rotated { archive: None, next: 2 }, "nothing came since");
    assert!(!log.archive(2).exists());
    log.append(&["two", "three"]);
    fs::write(log.archive(2), "theirs").unwrap();
    fs::write(log.archive(3), "theirs").unwrap();
    assert_eq!(log.rotate(), Rotated { archive: Some(log.archive(4)), next: 4 });
    assert_eq!(fs::read_to_string(log.archive(2)).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(log.archive(4)).unwrap(), "two\nthree\n");
    log.append(&["four"]);
    assert_eq!(log.rotate(), Rotated { archive: Some(log.archive(5)), next: 5 });
    log.append(&["five"]);
    assert_eq!(log.text(), "five\n");
    assert_eq!(all(&log.journal), numbered(&["one", "two", "three", "four", "five"]));
}

#[test]
fn a_header_stays_with_every_file() {
    let log = Log::new();
    log.stamp("# header", &[]);
    assert_eq!(log.rotate(), Rotated { archive: None, next: 1 }, "a header is no entry");
    log.append(&["one", "two"]);
    log.rotate();
    assert_eq!(fs::read_to_string(log.archive(1)).unwrap(), "# header\none\ntwo\n");
    assert_eq!(log.text(), "# header\n");
    log.append(&["three", "four"]);
    log.journal.compact(&write(), |entry| entry.seq == 4).unwrap();
    assert_eq!(log.text(), "# header\nfour\n");
    log.stamp("# other", &["five"]);
    let line = |seq, text: &str| (seq, text.to_owned());
    let expected = [line(1, "one"), line(2, "two"), line(4, "four"), line(5, "five")];
    assert_eq!(all(&log.journal), expected);
    assert!(log.journal.verify().unwrap().is_sound());
}

#[test]
fn a_compaction_says_what_it_did() {
    let log = Log::new();
    let compact = |keep: fn(u64) -> bool| {
        let mut asked = Vec::new();
        let done = log.journal.compact(&write(), |entry| {
            asked.push(entry.seq);
            keep(entry.seq)
        });
        (done.unwrap(), asked)
    };
    assert_eq!(compact(|_| true), (Compacted::default(), vec![]), "there is nothing");
    log.append(&["one", "two"]);
    log.rotate();
    log.append(&["three"]);
    log.foreign("\nfour\n \n");
    log.append(&["five"]);
    // Only what is in the file itself, and blank lines go.
    let (done, asked) = compact(|_| true);
    assert_eq!(asked, [3, 4, 5]);
    assert_eq!(done, Compacted { kept: 3, dropped: 0, bytes_before: 19, bytes_after: 16 });
    let (done, _) = compact(|seq| seq != 4);
    assert_eq!(done, Compacted { kept: 2, dropped: 1, bytes_before: 16, bytes_after: 11 });
    let report = log.journal.verify().unwrap();
    assert_eq!((report.segments, report.entries, report.next), (2, 2, 6), "{report:?}");
    assert_eq!(report.foreign_entries, 0, "whose they were is not known any more");
    let line = |seq, text: &str| (seq, text.to_owned());
    let archived = [line(1, "one"), line(2, "two")];
    let left = [&archived[..], &[line(3, "three"), line(5, "five")]].concat();
    assert_eq!(all(&log.journal), left);
    let (done, _) = compact(|_| false);
    assert_eq!(done, Compacted { kept: 0, dropped: 2, bytes_before: 11, bytes_after: 0 });
    assert_eq!((all(&log.journal), log.append(&["six"])), (archived.to_vec(), 6));
}

/// A run of numbers that is long has several records, each found by its numbers.
#[test]
fn a_long_run_is_cut_into_segments() {
    let log = Log::new();
    let lines: Vec<String> = (1..=95).map(|seq| format!("{seq:04} {}", "x".repeat(4090))).collect();
    log.journal.append(&lines, &no_sync()).unwrap();
    log.journal.compact(&write(), |entry| entry.seq != 64).unwrap();
    let report = log.journal.verify().unwrap();
    // Lines of 4 KiB, of which 31 are 124 KiB: two runs of 63 and 31 lines are 31, 31, 1 and 31.
    assert_eq!((report.segments, report.entries, report.is_sound()), (4, 94, true), "{report:?}");
    for from in [1, 31, 32, 62, 63, 64, 65, 95] {
        let entry = log.journal.read(from, Some(1)).unwrap().next().unwrap().unwrap();
        let seq = if from == 64 { 65 } else { from };
        let line = &lines[usize::try_from(seq).unwrap() - 1];
        assert!(entry.seq == seq && entry.line == line.as_bytes(), "{from}");
    }
}

#[test]
fn g7_damage_is_neither_compacted_nor_changed() {
    let log = Log::with_gaps(6);
    alter(&log.path(), 1, b'#');
    alter(&log.path(), 21, b'#');
    let before = log.text();
    let refused = log.journal.compact(&write(), |_| panic!("nobody is asked")).unwrap_err();
    assert_eq!((refused.kind(), refused.is_committed()), (ErrorKind::Damaged, Some(false)));
    assert!(refused.to_string().contains("bytes 0 to 10"), "{refused}");
    assert_eq!(log.text(), before);
}

/// What is written to a file that was compacted when it was empty is not forgotten by the next.
#[test]
fn an_empty_file_is_compacted_and_goes_on() {
    let log = Log::new();
    log.journal.compact(&write(), |_| true).unwrap();
    log.append(&["one"]);
    assert_eq!(log.journal.compact(&write(), |_| true).unwrap().kept, 1);
    assert_eq!(all(&log.journal), numbered(&["one"]));
}

type Replacing = fn(&Journal);

/// All that write the file anew.
const WAYS: [(&str, Replacing); 3] = [
    ("rotate", |journal| _ = journal.rotate(&write()).unwrap()),
    ("compact", |journal| _ = journal.compact(&write(), |_| true).unwrap()),
    ("header", |journal| {
        let header = Some(format!("# {}", journal.read(0, None).unwrap().count()).into_bytes());
        let options = AppendOptions { header, ..durable() };
        journal.append(&["with a header"], &options).unwrap();
    }),
];

/// The data wins over an index that is gone: every line stays, under a new number.
#[test]
fn j8_nothing_is_lost_with_the_index() {
    for (way, replace) in WAYS {
        let log = Log::new();
        log.append(&["one", "two"]);
        log.repair();
        log.append(&["three"]);
        fs::remove_file(log.sidecar("index")).unwrap();
        replace(&log.journal);
        let found = all(&log.journal);
        let expected = [(4, "one"), (5, "two"), (6, "three"), (7, "with a header")];
        assert!(found.len() >= 3 && found.len() <= 4, "{way}: {found:?}");
        for (line, (seq, text)) in found.iter().zip(expected) {
            assert_eq!((line.0, line.1.as_str()), (seq, text), "{way}");
        }
        let report = log.journal.verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{way}: {report:?}");
    }
}

/// Somebody has the file open that was replaced, and appends to it later: nothing is lost, whatever
/// replaces the file next, and however often.
#[test]
fn race_40_late_lines_are_taken_along() {
    for (one, first) in WAYS {
        for (other, second) in WAYS {
            let log = Log::new();
            log.append(&["one"]);
            let open = || fs::OpenOptions::new().append(true).open(log.path()).unwrap();
            let mut late = open();
            first(&log.journal);
            late.write_all(b"late\n\nlater\nnot finished").unwrap();
            late = open();
            second(&log.journal);
            late.write_all(b"latest\n").unwrap();
            log.repair();
            let found = all(&log.journal);
            let seqs: Vec<u64> = found.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(seqs, (1..=found.len() as u64).collect::<Vec<_>>(), "{one}, {other}");
            for line in ["one", "late", "later", "latest"] {
                let times = found.iter().filter(|(_, text)| text == line).count();
                assert_eq!(times, 1, "{one}, {other}: {line} in {found:?}");
            }
            let count = |name: &str| u64::from(name == "header");
            assert_eq!(found.len() as u64, 4 + count(one) + count(other));
            assert!(log.journal.verify().unwrap().is_sound());
        }
    }
}

/// A line that comes while the entries are copied is a late line of the old file.
#[test]
fn race_40_a_line_that_comes_in_the_middle_is_kept_behind() {
    for look in 0..2 {
        let log = Log::new();
        log.append(&["one", "two"]);
        let (path, looks) = (log.path(), AtomicUsize::new(0));
        let fs = FaultyFs::new(move |op, file: &Path| {
            let reads = op == Op::Open(Change::Never) && file == path;
            if reads && looks.fetch_add(1, Ordering::SeqCst) == look {
                crate::journal::foreign(&path, "meanwhile\n");
            }
            Verdict::Go
        });
        let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
        let mut asked = Vec::new();
        let done = journal.compact(&write(), |entry| {
            asked.push(entry.seq);
            entry.seq == 2
        });
        let expected = Compacted { kept: 1, dropped: 1, bytes_before: 8, bytes_after: 4 };
        assert_eq!((done.unwrap(), asked), (expected, vec![1, 2]), "look {look}");
        assert_eq!(log.text(), "two\nmeanwhile\n");
        let line = |seq, text: &str| (seq, text.to_owned());
        assert_eq!(all(&log.journal), [line(2, "two"), line(3, "meanwhile")]);
    }
}

const PATH: &str = "/d/log.jsonl";

fn open(fs: &Arc<dyn Fs>) -> Journal {
    Journal::open_on(fs, Path::new(PATH)).unwrap()
}

/// Dies at `nth` while it replaces the file; then every reader and the next writer see the old state or
/// the new one. Returns whether it died.
fn replaced(whole: &SimFs, way: usize, nth: u64, crash: Option<Survival>) -> bool {
    let sim = whole.fork(nth);
    let _tell = sim.tell_on_panic();
    let fs = sim.shared();
    sim.fail_after(nth, if crash.is_some() { CrashKind::Power } else { CrashKind::Process });
    let died = match way {
        0 => open(&fs).rotate(&write()).is_err(),
        1 => open(&fs).compact(&write(), |entry| entry.seq != 3).is_err(),
        _ => {
            let options = AppendOptions { header: Some(b"# new".to_vec()), ..durable() };
            open(&fs).append(&["batch"], &options).is_err()
        }
    };
    match crash {
        Some(survival) => sim.crash_with(survival),
        None => sim.process_crash(),
    }
    let line = |seq, text: &str| (seq, text.to_owned());
    let old = vec![line(1, "one"), line(2, "two"), line(3, "three"), line(4, "four")];
    let new = match way {
        0 => old.clone(),
        1 => vec![line(1, "one"), line(2, "two"), line(4, "four")],
        _ => [old.clone(), vec![line(5, "batch")]].concat(),
    };
    let seen = all(&open(&fs));
    assert!(seen == new || (died && seen == old), "{seen:?}");
    let report = open(&fs).verify().unwrap();
    assert!(report.is_sound() && !report.unbound, "{report:?}");
    let next = open(&fs).append(&["next"], &durable()).unwrap();
    assert_eq!(next.adopted, 0);
    let [old, new] = [old, new].map(|mut lines| {
        lines.push(line(next.first, "next"));
        lines
    });
    let now = all(&open(&fs));
    assert!(now == new || (died && now == old), "{now:?}");
    assert!(seen == old[..4] || now == new, "what was new stays: {seen:?} {now:?}");
    assert!(next.first == 5 || (way == 2 && next.first == 6), "no number is left out");
    sim.crash_with(Survival::Nothing);
    assert_eq!(all(&open(&fs)), now, "it was durable");
    died
}

#[test]
fn j10_a_file_is_replaced_whole_or_not_at_all() {
    for exchange in [true, false] {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        if !exchange {
            sim.inject(1, Fault::NoExchange, Times::Forever);
        }
        let fs = sim.shared();
        open(&fs).append(&["one"], &durable()).unwrap();
        open(&fs).rotate(&write()).unwrap();
        open(&fs).append(&["two", "three"], &durable()).unwrap();
        open(&fs).append(&["four"], &durable()).unwrap();
        for way in 0..3 {
            for crash in
                [None, Some(Survival::Nothing), Some(Survival::Prefix), Some(Survival::Random)]
            {
                let whole = (1..1000).find(|nth| !replaced(&sim, way, *nth, crash));
                assert!(whole.is_some_and(|nth| nth > 20), "every step was its last: {whole:?}");
            }
        }
    }
}
