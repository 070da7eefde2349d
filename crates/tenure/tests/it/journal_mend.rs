//! What a repair does, exactly: which bytes are kept where, which lines stay and with which numbers,
//! and in which order it is done (J4, J6, G7).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tenure::fs::Access;
use tenure::{Damage, ErrorKind, Journal, Report};
use tenure_testkit::{CrashKind, SimFs, Survival};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::journal_read::{Log, alter, write};
use crate::journal_verify::six_lines;

const LOGGED: &str = "it differed from what was logged";
const INDEXED: &str = "the checksum differed";

fn ranges(found: &[(u64, u64, &str)]) -> Vec<Damage> {
    let damage = |&(start, end, why): &(u64, u64, &str)| Damage { start, end, why: why.to_owned() };
    found.iter().map(damage).collect()
}

/// Where the events say that damaged bytes are.
fn kept(log: &Log) -> Vec<(u64, u64, u64)> {
    let text = fs::read_to_string(log.sidecar("events")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let aside = events.filter(|event| event["event"] == "damage_set_aside");
    let number = |event: &Value, name: &str| event["detail"][name].as_u64().unwrap();
    aside.map(|e| (number(&e, "start"), number(&e, "end"), number(&e, "kept_at"))).collect()
}

#[test]
fn a_sound_journal_is_left_alone() {
    let log = six_lines();
    let first = log.repair();
    assert_eq!((first.set_aside.len(), first.quarantine, first.rolled_forward), (0, None, 0));
    let files = || {
        let read = |suffix| fs::read(log.sidecar(suffix)).unwrap();
        (log.text(), read("index"), read("wal"))
    };
    let before = files();
    let again = log.repair();
    assert_eq!((again.set_aside.len(), again.quarantine, again.segments), (0, None, 1));
    assert!(files() == before, "nothing is written anew");
    assert!(!log.sidecar("damaged").exists() && kept(&log).is_empty());
}

#[test]
fn g7_every_damaged_range_is_kept_behind_the_one_before() {
    let log = six_lines();
    let good = log.text();
    alter(&log.path(), 1, b'#');
    alter(&log.path(), 13, b'#');
    let report = log.repair();
    assert_eq!(report.set_aside, ranges(&[(0, 8, LOGGED), (12, 16, LOGGED)]));
    assert_eq!(report.quarantine, Some(log.sidecar("damaged")));
    let sound =
        Report { entries: 6, foreign_entries: 1, segments: 1, bytes: 24, next: 7, ..report };
    let plain = Report { set_aside: Vec::new(), quarantine: None, ..sound.clone() };
    assert_eq!(log.journal.verify().unwrap(), plain, "what it says of the journal is so");
    assert_eq!(fs::read_to_string(log.sidecar("damaged")).unwrap(), "n#1\nn02\nn#4\n");
    assert_eq!(log.text(), good, "the log had it all");
    assert_eq!(kept(&log), [(0, 8, 0), (12, 16, 8)]);
    // The log has nothing any more: a line that is text stays as it is.
    alter(&log.path(), 9, b'?');
    let report = log.repair();
    assert_eq!(report.set_aside, ranges(&[(0, 24, INDEXED)]));
    assert_eq!((report.entries, report.next, report.is_sound()), (6, 7, true));
    let damaged = good.replace("n03", "n?3");
    assert_eq!(log.text(), damaged);
    let kept_bytes = fs::read_to_string(log.sidecar("damaged")).unwrap();
    assert_eq!(kept_bytes, format!("n#1\nn02\nn#4\n{damaged}"));
    assert_eq!(kept(&log), [(0, 8, 0), (12, 16, 8), (0, 24, 12)]);
    let lines = ["n01", "n02", "n?3", "n04", "n05", "n06"];
    assert_eq!(all(&log.journal), numbered(&lines));
}

/// The log has only the checksum of lines of others.
#[test]
fn g7_an_altered_line_of_others_is_kept_as_it_is() {
    let log = six_lines();
    alter(&log.path(), 9, b'?');
    alter(&log.path(), 17, b'?');
    let report = log.repair();
    assert_eq!(report.set_aside, ranges(&[(16, 24, LOGGED), (8, 12, INDEXED)]));
    assert_eq!(log.text(), "n01\nn02\nn?3\nn04\nn05\nn06\n");
    assert_eq!((report.entries, report.foreign_entries, report.segments), (6, 1, 3));
    assert!(report.is_sound() && report.next == 7);
    assert_eq!(all(&log.journal), numbered(&["n01", "n02", "n?3", "n04", "n05", "n06"]));
}

#[test]
fn a_line_whose_number_cannot_be_told_gets_a_new_one() {
    let log = Log::new();
    log.append(&["one", "two", "three"]);
    log.repair();
    alter(&log.path(), 5, b'\n'); // two
    assert_eq!(log.repair().entries, 4);
    let line = |seq, text: &str| (seq, text.to_owned());
    assert_eq!(all(&log.journal), [line(1, "one"), line(2, "t"), line(3, "o"), line(4, "three")]);
    assert_eq!(log.append(&["next"]), 5);
    assert!(log.journal.verify().unwrap().is_sound());
}

/// Whether a line that is no JSON can be read depends on the others: those in its range, before it and
/// behind it.
#[test]
fn lines_that_are_no_json_are_blanked_where_the_others_are() {
    for json in [true, false] {
        for damaged in [0, 2, 4] {
            let log = Log::new();
            let text = |seq: u64| if json { format!("[{seq:3}]") } else { format!("<{seq:3}>") };
            let lines: Vec<String> = (1..=10).map(text).collect();
            log.journal.append(&lines, &no_sync()).unwrap();
            log.journal.compact(&write(), |entry| entry.seq % 2 == 1).unwrap();
            alter(&log.path(), 6 * damaged, b'!');
            let report = log.repair();
            assert_eq!(report.set_aside, ranges(&[(6 * damaged, 6 * damaged + 6, INDEXED)]));
            let text = log.text();
            let mended = if json { "     \n" } else { &format!("!{:3}>\n", 2 * damaged + 1) };
            let at = usize::try_from(6 * damaged).unwrap();
            assert_eq!(&text[at..at + 6], mended, "{json} {damaged}");
            assert_eq!(report.entries, if json { 4 } else { 5 });
            assert_eq!((report.segments, report.next, report.is_sound()), (5, 11, true));
            let seqs: Vec<u64> = all(&log.journal).into_iter().map(|(seq, _)| seq).collect();
            let left = [1, 3, 5, 7, 9].into_iter().filter(|seq| !json || *seq != 2 * damaged + 1);
            assert_eq!(seqs, left.collect::<Vec<_>>());
        }
    }
}

#[test]
fn j8_a_journal_without_its_index_is_numbered_anew() {
    let log = six_lines();
    log.repair();
    fs::remove_file(log.sidecar("index")).unwrap();
    let report = log.repair();
    let expected = Report {
        entries: 6,
        foreign_entries: 6,
        segments: 1,
        bytes: 24,
        next: 13,
        ..report.clone()
    };
    assert_eq!(report, expected);
    assert!(report.is_sound() && !report.unbound && report.set_aside.is_empty());
    assert_eq!(all(&log.journal)[0], (7, "n01".to_owned()));
}

/// More records than are read at a time, and the last of them damaged: the data wins.
#[test]
fn a_damaged_or_missing_record_costs_the_numbers_and_no_line() {
    let why = "a record of the index was damaged, so all lines have new numbers";
    for cut in [false, true] {
        let log = Log::with_gaps(150);
        let before = log.text();
        if cut {
            let index = fs::OpenOptions::new().write(true).open(log.sidecar("index")).unwrap();
            index.set_len(128 + 72 * 70).unwrap();
        } else {
            alter(&log.sidecar("index"), 128 + 72 * 74, 0xee);
        }
        let report = log.repair();
        assert_eq!(report.set_aside, ranges(&[(0, before.len() as u64, why)]));
        assert_eq!((report.quarantine, report.entries), (None, 75));
        assert_eq!(log.text(), before);
        let seqs: Vec<u64> = all(&log.journal).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(seqs, (151..226).collect::<Vec<_>>());
        assert!(log.journal.verify().unwrap().is_sound());
    }
}

#[test]
fn g7_more_records_than_are_read_at_a_time_are_mended() {
    let log = Log::with_gaps(150);
    alter(&log.path(), 10 * 70 + 2, 0x01);
    let report = log.repair();
    assert_eq!(report.set_aside, ranges(&[(700, 710, INDEXED)]));
    let expected: Vec<_> = Log::gapped(0, 150).into_iter().filter(|(seq, _)| *seq != 141).collect();
    assert_eq!(all(&log.journal), expected);
    assert_eq!((report.entries, report.segments), (74, 75));
}

/// Records behind those that count say nothing.
#[test]
fn what_does_not_count_is_no_damage() {
    let log = Log::with_gaps(150);
    let mut index = fs::OpenOptions::new().append(true).open(log.sidecar("index")).unwrap();
    index.write_all(&[7; 72 * 70]).unwrap();
    assert!(log.journal.verify().unwrap().is_sound());
    assert_eq!(log.repair().set_aside, []);
    assert_eq!(all(&log.journal), Log::gapped(0, 150));
}

/// Two lines, of which one is no JSON: the other one decides.
#[test]
fn a_sample_is_what_is_around_the_damage() {
    let log = Log::new();
    log.append(&["[1]", "[2]", "[3]"]);
    log.journal.compact(&write(), |entry| entry.seq != 2).unwrap();
    alter(&log.path(), 4, b'!');
    assert_eq!(log.repair().entries, 1);
    assert_eq!(log.text(), "[1]\n   \n");
}

/// With the numbers lost anyway, lines that cannot be read go as well.
#[test]
fn a_damaged_record_and_a_damaged_line_are_both_mended() {
    let log = Log::with_gaps(10);
    alter(&log.sidecar("index"), 128 + 72 * 3, 0xee);
    alter(&log.path(), 11, 0x01);
    let report = log.repair();
    let why = "a record of the index was damaged, so all lines have new numbers";
    assert_eq!(report.set_aside, ranges(&[(10, 20, INDEXED), (0, 50, why)]));
    let (text, lines) = (log.text(), ["line 0001", "line 0005", "line 0007", "line 0009"]);
    assert_eq!(&text[..30], "line 0001\n         \nline 0005\n");
    assert_eq!(
        all(&log.journal),
        lines
            .map(str::to_owned)
            .into_iter()
            .zip(11..)
            .map(|(line, seq)| (seq, line))
            .collect::<Vec<_>>()
    );
    assert!(report.is_sound() && report.entries == 4, "{report:?}");
}

/// Whoever has lost its lock meanwhile changes nothing.
#[test]
fn race_50_a_repair_without_its_lock_mends_nothing() {
    for indexed in [false, true] {
        let log = six_lines();
        if indexed {
            log.repair();
        }
        alter(&log.path(), 1, 0x01);
        let (before, lock, path) = (log.text(), log.sidecar("commit"), log.path());
        let fs = FaultyFs::new(move |op, file: &Path| {
            if op == Op::Read && file == path {
                let _ = fs::remove_file(&lock);
            }
            Verdict::Go
        });
        let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
        let error = journal.repair(&write()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compromised, "{error}");
        assert_eq!(log.text(), before);
        assert!(!log.sidecar("damaged").exists());
    }
}

/// The copy is durable before the journal is changed (invariant 1 of a repair).
#[test]
fn g7_j6_the_copy_comes_first() {
    for indexed in [false, true] {
        let log = six_lines();
        if indexed {
            log.repair();
        }
        alter(&log.path(), 1, 0x01);
        let steps: Arc<Mutex<Vec<(Op, String)>>> = Arc::default();
        let seen = steps.clone();
        let fs = FaultyFs::new(move |op, path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            seen.lock().unwrap().push((op, name));
            Verdict::Go
        });
        let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
        assert!(journal.repair(&write()).unwrap().is_sound());
        let steps = steps.lock().unwrap().clone();
        let find = |op: Op, name: &str, after: usize| {
            let found = steps[after..].iter().position(|step| *step == (op, name.to_owned()));
            after + found.unwrap_or_else(|| panic!("no {op:?} of {name} in {steps:?}"))
        };
        let copied = find(Op::Write, "log.jsonl.damaged", 0);
        let synced = find(Op::Sync, "log.jsonl.damaged", copied);
        let named = find(Op::SyncDir, ".tenure", synced);
        let changed = find(Op::Write, "log.jsonl", 0);
        assert!(named < changed, "{steps:?}");
        let durable = find(Op::Sync, "log.jsonl", changed);
        let index = find(Op::Rename, "log.jsonl.index", 0);
        // Which lines are left is known before one goes; what was written back is there before.
        assert!(if indexed { index < changed } else { durable < index }, "{steps:?}");
        find(Op::Sync, "log.jsonl.wal", durable);
    }
}

const PATH: &str = "/d/log.jsonl";

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

/// The last of five lines is long or not: a power loss looks at the bytes right before the end.
fn line(seq: u64, long: bool) -> String {
    let pad = if long && seq == 5 { " ".repeat(300) } else { String::new() };
    format!("{{\"n\":{seq}{pad}}}")
}

/// Repairs, dies at `nth`, repairs again. Returns whether it died.
fn mended_twice(whole: &SimFs, long: bool, nth: u64, crash: Option<Survival>) -> bool {
    let fs = whole.fork(nth);
    let _tell = fs.tell_on_panic();
    fs.fail_after(nth, if crash.is_some() { CrashKind::Power } else { CrashKind::Process });
    let died = open(&fs).repair(&write()).is_err();
    match crash {
        Some(survival) => fs.crash_with(survival),
        None => fs.process_crash(),
    }
    let report = open(&fs).repair(&write()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let whole = [1, 2, 3, 4, 5].map(|seq| (seq, line(seq, long)));
    let found = all(&open(&fs));
    let mended = found.iter().eq(whole.iter().filter(|(seq, _)| *seq != 2));
    // One that dies between the index and its head has the journal adopted (docs/FORMAT.md), and a
    // power loss may take back what was altered.
    let adopted = found.len() == 5 && found.iter().zip(6..).all(|((seq, _), next)| *seq == next);
    assert!(mended || (died && (adopted || found == whole)), "{found:?}");
    let kept = fs.peek("/d/.tenure/log.jsonl.damaged").unwrap_or_default();
    let copied = kept.windows(7).any(|bytes| bytes == b"{\"n\x01:2}");
    assert!(copied || found == whole, "{kept:?}");
    fs.crash_with(Survival::Nothing);
    assert_eq!(all(&open(&fs)), found, "it was durable");
    assert!(open(&fs).verify().unwrap().is_sound());
    died
}

#[test]
fn g7_a_repair_that_dies_at_any_step_is_done_again() {
    let power = [Survival::Nothing, Survival::Everything, Survival::Prefix, Survival::Random];
    let ways = power.map(|survival| (true, Some(survival)));
    for (long, crash) in [(false, None), (true, None)].into_iter().chain(ways) {
        for altered_for_good in [true, false] {
            let fs = SimFs::new(1);
            fs.add_dir("/d");
            for seq in 1..=5 {
                open(&fs).append(&[line(seq, long)], &durable()).unwrap();
            }
            open(&fs).repair(&write()).unwrap();
            let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
            file.write_all_at(b"{\"n\x01:2}", 8).unwrap();
            if altered_for_good {
                file.sync().unwrap();
            }
            let whole = (1..1000).find(|nth| !mended_twice(&fs, long, *nth, crash));
            assert!(whole.is_some_and(|nth| nth > 10), "every step was its last");
        }
    }
}
