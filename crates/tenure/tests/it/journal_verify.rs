//! What `verify` says, field by field: of every state a journal can be in, and of every kind of damage
//! (J4, G7).

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::fs::Access;
use tenure::{Damage, Journal, Report};
use tenure_testkit::SimFs;

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::journal::durable;
use crate::journal_read::{Log, alter};

/// Lines of four bytes: two of ours, one of others, one of ours, two of ours.
pub(crate) fn six_lines() -> Log {
    let log = Log::new();
    log.journal.append(&["n01", "n02"], &durable()).unwrap();
    log.foreign("n03\n");
    log.append(&["n04"]);
    log.journal.append(&["n05", "n06"], &durable()).unwrap();
    log
}

/// As they are in the log.
fn of_six() -> Report {
    Report { entries: 6, foreign_entries: 1, bytes: 24, next: 7, ..Report::default() }
}

fn damage(start: u64, end: u64, why: &str) -> Vec<Damage> {
    vec![Damage { start, end, why: why.to_owned() }]
}

fn verify(log: &Log) -> Report {
    log.journal.verify().unwrap()
}

#[test]
fn a_sound_journal_is_counted_wherever_its_lines_are() {
    let log = Log::new();
    assert_eq!(verify(&log), Report::default());
    log.foreign("");
    assert_eq!(verify(&log), Report::default(), "an empty file of others");
    let log = six_lines();
    assert_eq!(verify(&log), of_six(), "in the log");
    log.repair();
    assert_eq!(verify(&log), Report { segments: 1, ..of_six() }, "in the index");
    log.append(&["n07"]);
    log.foreign("n08\n\n");
    let both = Report {
        entries: 8,
        foreign_entries: 2,
        segments: 1,
        bytes: 33,
        next: 8,
        ..Report::default()
    };
    assert_eq!(verify(&log), both, "in the index, in the log, and of others");
    log.foreign("open");
    assert_eq!(verify(&log), Report { bytes: 37, torn_tail: true, ..both.clone() });
    log.foreign("\n\0\0\n");
    let lost = Report { entries: 9, foreign_entries: 3, bytes: 41, nul_bytes: 2, ..both.clone() };
    assert_eq!(verify(&log), lost, "NULs are no line, and are told");
    log.append(&["n10"]);
    let logged = Report { entries: 10, bytes: 45, next: 11, ..lost };
    assert_eq!(verify(&log), logged, "the same where they are numbered");
    log.rotate();
    assert_eq!(verify(&log), Report { next: 11, ..Report::default() }, "the new file is empty");
}

#[test]
fn a_file_of_others_is_counted_too() {
    let log = Log::new();
    for (text, entries, nul_bytes, torn_tail) in [
        ("a\n\nb\n", 2, 0, false),
        ("a\n\nb", 1, 0, true),
        ("\0\0", 0, 0, true),
        ("\0a\n\0\0\nb\nc", 2, 3, true),
    ] {
        fs::write(log.path(), text).unwrap();
        let bytes = text.len() as u64;
        let foreign_entries = entries;
        let expected =
            Report { entries, foreign_entries, bytes, nul_bytes, torn_tail, ..Report::default() };
        assert_eq!(verify(&log), expected, "{text:?}");
    }
}

/// A line that somebody has not finished is numbered when a header is found in its place, and it is
/// still not finished.
#[test]
fn an_open_line_that_was_numbered_is_still_told() {
    let log = Log::new();
    log.stamp("# header", &["one"]);
    log.foreign("open");
    let done = log.stamp("# header", &[]);
    assert_eq!((done.first, done.last), (3, 2));
    let report = verify(&log);
    assert!(report.torn_tail, "{report:?}");
    assert_eq!((report.entries, report.foreign_entries, report.next), (2, 1, 3));
    let done = log.journal.append(&["three"], &durable()).unwrap();
    assert_eq!((done.first, done.closed_tail, done.adopted), (3, true, 0));
    assert_eq!(log.text(), "# header\none\nopen\nthree\n");
    assert!(!verify(&log).torn_tail);
}

#[test]
fn g7_an_altered_byte_is_told_with_its_range() {
    let log = six_lines();
    let logged = [(0, 8), (8, 12), (12, 16), (16, 24)];
    for indexed in [false, true] {
        let sound = verify(&log);
        for at in 0..24 {
            let good = fs::read(log.path()).unwrap();
            alter(&log.path(), at, if at % 4 == 3 { b'x' } else { b'#' });
            let found = verify(&log);
            let range = logged.into_iter().find(|(_, end)| at < *end).unwrap();
            let damaged = if indexed {
                damage(0, 24, "the checksum differs")
            } else {
                damage(range.0, range.1, "it differs from what was logged")
            };
            assert_eq!(found.damaged, damaged, "byte {at}");
            assert!(!found.is_sound());
            if at % 4 != 3 {
                assert_eq!(Report { damaged: Vec::new(), ..found }, sound, "the rest is as it was");
            }
            fs::write(log.path(), good).unwrap();
        }
        log.repair();
    }
}

#[test]
fn g7_every_altered_batch_is_told() {
    let log = six_lines();
    for at in [1, 9, 17] {
        alter(&log.path(), at, b'#');
    }
    let why = "it differs from what was logged";
    let all = [damage(0, 8, why), damage(8, 12, why), damage(16, 24, why)].concat();
    assert_eq!(verify(&log), Report { damaged: all, ..of_six() });
}

#[test]
fn g7_a_damaged_log_is_told_with_the_part_it_was_of() {
    for entry in 0..3 {
        let log = six_lines();
        log.repair();
        log.append(&["n07"]);
        log.append(&["n08"]);
        log.append(&["n09"]);
        alter(&log.sidecar("wal"), 12288 + 68 * entry + 65, b'#');
        let expected = Report {
            entries: 9,
            segments: 1,
            bytes: 36,
            next: 10,
            damaged: damage(24, 36, "the log of this part is damaged"),
            ..of_six()
        };
        assert_eq!(verify(&log), expected, "entry {entry}");
    }
}

#[test]
fn g7_damaged_and_missing_records_are_told_by_their_numbers() {
    let log = Log::with_gaps(140);
    let sound = verify(&log);
    assert_eq!((sound.entries, sound.segments, sound.next), (70, 70, 141));
    alter(&log.sidecar("index"), 128 + 72 * 3 + 1, b'#');
    alter(&log.sidecar("index"), 128 + 72 * 65 + 1, b'#');
    let mut damaged = damage(0, 0, "index record 3 is damaged");
    damaged.extend(damage(0, 0, "index record 65 is damaged"));
    let expected = Report { entries: 68, segments: 68, damaged: damaged.clone(), ..sound.clone() };
    assert_eq!(verify(&log), expected);
    let index = fs::OpenOptions::new().write(true).open(log.sidecar("index")).unwrap();
    index.set_len(128 + 72 * 68 + 71).unwrap();
    damaged.extend(damage(0, 0, "index records 68 to 70 are missing"));
    assert_eq!(verify(&log), Report { entries: 66, segments: 66, damaged, ..sound });
}

/// A range of the index that the file does not reach any more.
#[test]
fn g7_a_segment_that_is_cut_off_is_damaged() {
    let log = Log::with_gaps(6);
    log.append(&["more"]);
    let sound = verify(&log);
    // Nothing is shorter than it was, but the last range of the index is said to end behind it.
    assert_eq!((sound.segments, sound.bytes), (3, 35));
    let file = fs::OpenOptions::new().write(true).open(log.path()).unwrap();
    file.set_len(25).unwrap();
    let cut = verify(&log);
    assert!(cut.unbound);
    assert_eq!(cut.damaged, damage(25, 35, "lines that were written here are missing"));
    assert_eq!((cut.entries, cut.foreign_entries, cut.segments, cut.next), (2, 2, 0, 0));
    assert!(cut.torn_tail);
}

/// Somebody cuts the file while it is read.
#[test]
fn g7_a_segment_that_is_cut_off_meanwhile_is_damaged() {
    let log = six_lines();
    log.repair();
    let (path, reads) = (log.path(), AtomicUsize::new(0));
    let fs = FaultyFs::new(move |op, file| {
        let index = file.extension().is_some_and(|suffix| suffix == "index");
        // The title, what is behind the records that count, and then the records.
        if op == Op::Read && index && reads.fetch_add(1, Ordering::SeqCst) == 2 {
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    let found = journal.verify().unwrap();
    assert_eq!(found.damaged, damage(0, 24, "the checksum differs"));
    assert_eq!((found.bytes, found.entries), (24, 6), "as it was when it began");
}

#[test]
fn sidecars_of_another_file_are_told_and_nothing_is_called_damaged() {
    type Deed = (&'static str, fn(&Log));
    let expected =
        Report { entries: 6, foreign_entries: 6, bytes: 24, unbound: true, ..Report::default() };
    let deeds: [Deed; 4] = [
        ("the index is gone", |log| fs::remove_file(log.sidecar("index")).unwrap()),
        ("another file", |log| {
            fs::copy(log.path(), log.scratch.path("copy")).unwrap();
            fs::rename(log.scratch.path("copy"), log.path()).unwrap();
        }),
        ("another log", |log| {
            fs::copy(log.sidecar("wal"), log.scratch.path("copy")).unwrap();
            fs::rename(log.scratch.path("copy"), log.sidecar("wal")).unwrap();
        }),
        ("no log", |log| fs::write(log.sidecar("wal"), "no log").unwrap()),
    ];
    for (what, deed) in deeds {
        let log = six_lines();
        log.repair();
        deed(&log);
        assert_eq!(verify(&log), expected, "{what}");
        let shorter = fs::OpenOptions::new().write(true).open(log.path()).unwrap();
        let why = "lines that were written here are missing";
        let gone = ["the index is gone", "another log"].contains(&what);
        let damaged = if gone { damage(22, 24, why) } else { Vec::new() };
        shorter.set_len(22).unwrap();
        let cut = Report {
            entries: 5,
            foreign_entries: 5,
            bytes: 22,
            torn_tail: true,
            damaged,
            ..expected.clone()
        };
        assert_eq!(verify(&log), cut, "{what}, and it is cut");
        log.repair();
        assert!(!verify(&log).unbound, "{what}");
    }
    let log = six_lines();
    log.repair();
    fs::remove_file(log.sidecar("wal")).unwrap();
    assert_eq!(verify(&log), Report { unbound: false, ..expected }, "no sidecar, no claim");
}

/// After a restart lines that nobody has synced may be missing rightly.
#[test]
fn lines_that_a_restart_took_are_not_damage() {
    let log = six_lines();
    let fs = FaultyFs::new(|_, _| Verdict::Go);
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    fs.reboot();
    assert_eq!(journal.verify().unwrap(), of_six(), "nothing was lost");
    let file = fs::OpenOptions::new().write(true).open(log.path()).unwrap();
    file.set_len(16).unwrap();
    let found = journal.verify().unwrap();
    assert_eq!((found.entries, found.pending), (4, 1), "{found:?}");
    assert!(found.is_sound() && !found.unbound, "the log has them: {found:?}");
    let log = six_lines();
    log.repair();
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(log.path()).unwrap();
    file.set_len(16).unwrap();
    let found = journal.verify().unwrap();
    assert!(found.is_sound() && found.unbound, "{found:?}");
    assert_eq!((found.entries, found.pending), (4, 0));
}

/// What a power loss made of a logged batch is written again by the next write: it is pending.
#[test]
fn a_batch_that_a_power_loss_tore_is_pending() {
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    let path = std::path::Path::new("/d/log.jsonl");
    let open = || Journal::open_on(&fs.shared(), path).unwrap();
    open().append(&["n01"], &durable()).unwrap();
    open().append(&["n02", "n03"], &durable()).unwrap();
    fs.crash_with(tenure_testkit::Survival::Nothing);
    assert_eq!(fs.peek(path).unwrap_or_default(), b"", "nothing of it was synced");
    let report = open().verify().unwrap();
    assert_eq!((report.pending, report.entries, report.is_sound()), (2, 0, true), "{report:?}");
    let file = fs.shared().open(path, Access::Append).unwrap();
    file.append(b"n01\nn0\0\0\0\0").unwrap();
    let report = open().verify().unwrap();
    assert_eq!((report.pending, report.entries, report.is_sound()), (1, 1, true), "{report:?}");
    let mended = open().repair(&tenure::WriteOptions::default()).unwrap();
    assert_eq!((mended.pending, mended.entries, mended.rolled_forward), (0, 3, 1), "{mended:?}");
    assert_eq!(fs.peek(path).unwrap(), b"n01\nn02\nn03\n");
}
