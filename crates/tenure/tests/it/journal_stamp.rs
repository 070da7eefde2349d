//! The header line: set in one step with a batch, kept out of the numbers, and the file written anew
//! only where it differs (race 41).

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tenure::{AppendOptions, Appended, ErrorKind, Journal, Result, WriteOptions};
use tenure_testkit::SimFs;

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::journal_read::{Log, write};
use crate::journal_view::{LOG, PATH, Reach, dies_at, open};
use crate::watched_journal::Watched;

fn header(text: &str, options: AppendOptions) -> AppendOptions {
    AppendOptions { header: Some(text.into()), ..options }
}

#[test]
fn a_header_that_is_no_line_is_refused_and_nothing_happens() {
    let log = Log::new();
    log.append(&["one"]);
    for bad in ["", " ", "\t\r", "a\nb", "a\n"] {
        let refused = log.journal.append(&["two"], &header(bad, durable())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad:?}");
        assert_eq!((log.text(), all(&log.journal).len()), ("one\n".to_owned(), 1), "{bad:?}");
    }
}

/// Nothing was ever logged: the head remembers the operation alone.
#[test]
fn an_operation_that_made_the_journal_with_its_header_can_be_repeated() {
    for options in [durable(), no_sync()] {
        let log = Log::new();
        let operation = crate::journal_stage::named("x", &options);
        let first = log.journal.append(&["one"], &header("# v1", operation.clone())).unwrap();
        let again = log.journal.append(&["one"], &operation).unwrap();
        assert_eq!((first.replayed, again.replayed, again.first), (false, true, first.first));
        assert_eq!(log.text(), "# v1\none\n");
    }
}

#[test]
fn only_another_header_writes_the_file_anew() {
    use std::os::unix::fs::MetadataExt;
    let log = Log::new();
    let inode = || fs::metadata(log.path()).unwrap().ino();
    log.append(&["one"]);
    let mut before = inode();
    for (text, anew) in [("# a", true), ("# a", false), ("# ab", true), ("# b", true), ("#", true)]
    {
        log.stamp(text, &[]);
        assert_eq!(inode() != before, anew, "{text}");
        assert_eq!(log.text(), format!("{text}\none\n"));
        before = inode();
    }
    // The same line where it is no header is an entry.
    let plain = Log::new();
    plain.append(&["# a"]);
    assert_eq!(plain.stamp("# a", &["two"]).first, 2);
    assert_eq!(plain.text(), "# a\n# a\ntwo\n");
    assert_eq!(all(&plain.journal), numbered(&["# a", "two"]));
}

/// What is found on the way is told as it is by any other append.
#[test]
fn an_append_with_a_header_tells_what_it_found() {
    for same in [false, true] {
        let log = Log::new();
        log.stamp("# a", &["one"]);
        log.foreign("two\n\nopen");
        let done = log.stamp(if same { "# a" } else { "# b" }, &["four", "five"]);
        let told = Appended { first: 4, last: 5, adopted: 2, closed_tail: true, ..done };
        assert_eq!(done, told, "{same}");
        assert!(!done.replayed && done.rolled_forward == 0);
        let text = format!("# {}\none\ntwo\n\nopen\nfour\nfive\n", if same { "a" } else { "b" });
        assert_eq!(log.text(), text);
        assert_eq!(all(&log.journal), numbered(&["one", "two", "open", "four", "five"]));
        let report = log.journal.verify().unwrap();
        assert!(report.is_sound() && report.next == 6, "{report:?}");
        assert_eq!((report.entries, report.foreign_entries), (5, 2));
        assert_eq!(log.append(&["six"]), 6);
    }
}

/// A body of any length, with any number of records, in front of which another header comes.
#[test]
fn everything_moves_with_the_header() {
    let log = Log::with_gaps(150);
    let body = log.text();
    for text in ["# long header", "#", "# another header"] {
        log.stamp(text, &[]);
        assert_eq!(log.text(), format!("{text}\n{body}"));
        assert_eq!(all(&log.journal), Log::gapped(0, 150));
        assert_eq!(log.journal.read(77, None).unwrap().count(), 37);
        let report = log.journal.verify().unwrap();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.entries, report.segments, report.next), (75, 75, 151));
    }
    let long = Log::new();
    let lines: Vec<String> = (0..400).map(|at| format!("{at} {}", "x".repeat(999))).collect();
    long.journal.append(&lines, &no_sync()).unwrap();
    let body = long.text();
    let done = long.stamp("# header", &["last"]);
    assert_eq!((done.first, done.last), (401, 401));
    assert!(long.text() == format!("# header\n{body}last\n"));
    let report = long.journal.verify().unwrap();
    assert!(report.is_sound() && report.entries == 401, "{report:?}");
    long.foreign("theirs\n");
    assert_eq!(long.append(&["own"]), 403);
}

/// Archives are still found behind a file that was written anew, and a number is not given twice.
#[test]
fn a_header_keeps_what_came_before_the_file() {
    let log = Log::new();
    log.append(&["one", "two"]);
    log.rotate();
    log.stamp("# a", &[]);
    log.stamp("# b", &["three"]);
    assert_eq!(all(&log.journal), numbered(&["one", "two", "three"]));
    let fresh = Log::new();
    assert_eq!((fresh.stamp("# a", &["one"]).first, fresh.append(&["two"])), (1, 2));
    assert_eq!(all(&fresh.journal), numbered(&["one", "two"]));
    assert_eq!(fresh.journal.verify().unwrap().segments, 1);
    assert_eq!(fresh.journal.compact(&write(), |_| true).unwrap().kept, 2);
}

/// Records behind those that count, of a checkpoint that nobody finished, do not move along.
#[test]
fn what_does_not_count_stays_behind() {
    let log = Log::with_gaps(150);
    let mut index = fs::OpenOptions::new().append(true).open(log.sidecar("index")).unwrap();
    index.write_all(&[7; 72 * 70]).unwrap();
    log.stamp("# header", &["more"]);
    let report = log.journal.verify().unwrap();
    assert!(report.is_sound() && report.segments == 76, "{report:?}");
    assert_eq!(log.journal.read(0, None).unwrap().count(), 76);
}

/// A batch of a writer that died is in the file before the header, and before the batch behind it.
#[test]
fn j7_a_batch_on_its_way_comes_before_the_header_s() {
    for old in ["# old", "# new"] {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        let fs = sim.shared();
        open(&fs).append(&["one"], &header(old, durable())).unwrap();
        let dying = dies_at(&sim, (Op::Sync, LOG), Reach::None);
        assert!(open(&dying).append(&["dead"], &durable()).is_err());
        let done = open(&fs).append(&["three"], &header("# new", durable())).unwrap();
        assert_eq!(done.first, 3);
        assert_eq!(sim.peek(PATH).unwrap(), b"# new\none\ndead\nthree\n", "{old}");
        assert_eq!(all(&open(&fs)), numbered(&["one", "dead", "three"]), "{old}");
    }
}

/// Tries to set a header while somebody does this to the journal, or to the file that is to replace it.
fn meanwhile(
    log: &Log,
    lines: &[&str],
    deed: impl Fn(Op, &Path) -> Verdict + Send + Sync + 'static,
) -> Result<Appended> {
    let fs = FaultyFs::new(move |op, path: &Path| {
        let temp = path.to_string_lossy().ends_with("log.jsonl.tmp.0000000000000002");
        if temp { deed(op, path) } else { Verdict::Go }
    });
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    journal.append(lines, &header("# header", no_sync()))
}

#[test]
fn g10_a_header_that_cannot_be_written_changes_nothing() {
    let long = "x".repeat(300_000);
    for (body, batch) in [("short", long.as_str()), (long.as_str(), "short")] {
        let log = Log::new();
        log.append(&[body]);
        let full = |op, _: &Path| match op {
            Op::Write => Verdict::Fail(io::ErrorKind::StorageFull.into()),
            _ => Verdict::Go,
        };
        let error = meanwhile(&log, &[batch], full).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{error}");
        assert!(log.text() == format!("{body}\n"));
        assert_eq!(log.append(&["next"]), 2);
    }
}

#[test]
fn race_40_a_line_that_comes_while_a_header_is_set_is_there_once() {
    let log = Log::new();
    log.append(&["one"]);
    let path = log.path();
    let appends = move |op, _: &Path| {
        if op == Op::Open(Change::Create) {
            crate::journal::foreign(&path, "meanwhile\n");
        }
        Verdict::Go
    };
    assert_eq!(meanwhile(&log, &["two"], appends).unwrap().first, 2);
    assert_eq!(log.text(), "# header\none\ntwo\nmeanwhile\n");
    assert_eq!(all(&log.journal), numbered(&["one", "two", "meanwhile"]));
}

#[test]
fn a_file_that_is_cut_while_a_header_is_set_is_not_replaced() {
    let log = Log::new();
    log.append(&["one", "two"]);
    let path = log.path();
    let cuts = move |op, _: &Path| {
        if op == Op::Open(Change::Create) {
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
        }
        Verdict::Go
    };
    let error = meanwhile(&log, &["three"], cuts).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(log.text(), "one\n");
}

#[test]
fn a_header_that_is_damaged_is_not_taken_for_an_entry() {
    let log = Log::with_gaps(10);
    log.stamp("# a", &[]);
    crate::journal_read::alter(&log.sidecar("index"), 128 + 72 * 2, 0xee);
    let refused = log.journal.append(&["more"], &header("# b", durable())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
    assert!(log.text().starts_with("# a\nline 0001\n"));
    let index = fs::OpenOptions::new().write(true).open(log.sidecar("index")).unwrap();
    index.set_len(128 + 72 * 2).unwrap();
    let refused = log.journal.append(&["more"], &header("# b", durable())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
    assert!(log.text().starts_with("# a\nline 0001\n"));
}

/// An operation is done once, with a header, without lines, or both.
#[test]
fn a_repeated_header_says_what_the_first_said() {
    let named = |name: &str, text: &str| {
        let write = WriteOptions { operation: Some(name.to_owned()), ..no_sync().write };
        header(text, AppendOptions { write, ..no_sync() })
    };
    let log = Log::new();
    log.append(&["one"]);
    let empty: &[&str] = &[];
    let mut told = Vec::new();
    for (name, text, lines) in [("a", "# a", empty), ("b", "# b", &["two", "three"])] {
        let done = log.journal.append(lines, &named(name, text)).unwrap();
        assert!(!done.replayed);
        told.push(done);
    }
    assert_eq!((told[0].first, told[0].last), (2, 1));
    assert_eq!((told[1].first, told[1].last), (2, 3));
    for (name, text, done) in [("a", "# c", told[0]), ("b", "# c", told[1])] {
        let again = log.journal.append(&["other"], &named(name, text)).unwrap();
        assert_eq!(again, Appended { replayed: true, ..done }, "{name}");
    }
    assert_eq!(log.text(), "# b\none\ntwo\nthree\n");
}

/// Somebody has cut the journal, or put another one in its place. Its first line is the header if it is that very line, and
/// not because it is as long.
#[test]
fn j8_a_line_as_long_as_the_header_is_an_entry() {
    type Deed = fn(&Watched);
    let ways: [(&str, Deed); 3] = [
        ("stamped", |_| {}),
        ("rotated", |disk| drop(disk.journal().rotate(&write()).unwrap())),
        ("compacted", |disk| assert!(disk.journal().compact(&write(), |_| true).is_ok())),
    ];
    for (story, made) in ways {
        for (first, is_header) in [("# v1", true), ("line", false)] {
            let disk = Watched::new();
            disk.journal().append(&["old"], &header("# v1", durable())).unwrap();
            made(&disk);
            disk.append(&["older"]);
            disk.outsider().truncate(PATH);
            disk.outsider().append(PATH, &format!("{first}\nnext\n"));
            let expected: &[&str] = if is_header { &["next"] } else { &[first, "next"] };
            for look in ["a reader", "a writer"] {
                let mut lines: Vec<String> = disk.entries().into_iter().map(|it| it.1).collect();
                lines.retain(|line| line != "old"); // In the archive.
                assert_eq!(lines, expected, "{story}, {look}");
                disk.journal().repair(&write()).unwrap();
            }
            let options = header("# v2", durable());
            disk.journal().append(&["last"], &options).unwrap();
            let text = expected.join("\n");
            assert_eq!(disk.text("log.jsonl").unwrap(), format!("# v2\n{text}\nlast\n"), "{story}");
        }
    }
}
