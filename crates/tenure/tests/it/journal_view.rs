//! What a reader sees beside writers that are at work, have died, or never knew of this file: what was
//! before or what is after, with the numbers that the next writer gives (J9).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use tenure::fs::{Access, Fs};
use tenure::{AppendOptions, ErrorKind, Journal, Wait};
use tenure_testkit::SimFs;

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::journal_read::{Log, write};
use crate::scratch::lock_for;

pub(crate) const PATH: &str = "/d/log.jsonl";

pub(crate) fn open(fs: &Arc<dyn Fs>) -> Journal {
    Journal::open_on(fs, Path::new(PATH)).unwrap()
}

fn header(text: &str) -> AppendOptions {
    AppendOptions { header: Some(text.into()), ..no_sync() }
}

/// Somebody who does not use tenure appends.
pub(crate) fn foreign(fs: &Arc<dyn Fs>, text: &str) {
    let file = fs.open(Path::new(PATH), Access::Append).unwrap();
    assert_eq!(file.append(text.as_bytes()).unwrap(), text.len());
}

/// An archive with `one`, then `two` and `three` in the index, `four` in the log, `five` behind it.
fn five_lines() -> SimFs {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let (fs, journal) = (sim.shared(), open(&sim.shared()));
    journal.append(&["one"], &durable()).unwrap();
    journal.rotate(&write()).unwrap();
    journal.append(&["two"], &durable()).unwrap();
    foreign(&fs, "three\n");
    journal.repair(&write()).unwrap();
    journal.append(&["four"], &durable()).unwrap();
    foreign(&fs, "five\n");
    sim
}

const FIVE: [&str; 5] = ["one", "two", "three", "four", "five"];

type Deed = fn(&Arc<dyn Fs>);

/// What others do while somebody reads.
const DEEDS: [(&str, Deed); 9] = [
    ("foreign line", |fs| foreign(fs, "six\n")),
    ("append", |fs| _ = open(fs).append(&["six"], &no_sync()).unwrap()),
    ("durable append", |fs| _ = open(fs).append(&["six", "seven"], &durable()).unwrap()),
    ("rotation", |fs| _ = open(fs).rotate(&write()).unwrap()),
    ("compaction", |fs| {
        _ = open(fs).compact(&write(), |entry| entry.seq != 3).unwrap();
    }),
    ("header", |fs| _ = open(fs).append(&["six"], &header("# header")).unwrap()),
    ("repair", |fs| _ = open(fs).repair(&write()).unwrap()),
    ("two rotations", |fs| {
        open(fs).rotate(&write()).unwrap();
        open(fs).append(&["six"], &no_sync()).unwrap();
        open(fs).rotate(&write()).unwrap();
    }),
    ("everything", |fs| {
        open(fs).append(&["six"], &durable()).unwrap();
        open(fs).rotate(&write()).unwrap();
        foreign(fs, "seven\n");
        open(fs).compact(&write(), |_| false).unwrap();
        foreign(fs, "eight\n");
    }),
];

/// Reads, with the deed done before the reader's operation `nth`. `None` if it has fewer.
fn read_beside(whole: &SimFs, deed: Deed, nth: usize) -> Option<(Vec<(u64, String)>, SimFs)> {
    let (sim, count) = (whole.fork(1), Arc::new(AtomicUsize::new(0)));
    let (writer, counted) = (sim.another_process(), count.clone());
    let fs = FaultyFs::on(sim.shared(), move |_, _| {
        if counted.fetch_add(1, Ordering::SeqCst) == nth {
            deed(&writer.shared());
        }
        Verdict::Go
    });
    let found = all(&open(&fs.shared()));
    let report = open(&fs.shared()).verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    (count.load(Ordering::SeqCst) > nth).then_some((found, sim))
}

#[test]
fn j9_a_reader_sees_what_was_before_or_what_is_after() {
    let whole = five_lines();
    let before = all(&open(&whole.shared()));
    assert_eq!(before, numbered(&FIVE));
    for (name, deed) in DEEDS {
        let mut steps = 0;
        while let Some((found, sim)) = read_beside(&whole, deed, steps) {
            let after = all(&open(&sim.shared()));
            assert!(found == before || found == after, "{name} at {steps}: {found:?}");
            steps += 1;
        }
        assert!(steps > 20, "{name}: the reader has {steps} steps");
    }
}

/// How far the operation comes at which a writer dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    None,
    Half,
    All,
}

/// A disk for a writer that dies at its first such operation: nothing changes any more from then on.
pub(crate) fn dies_at(sim: &SimFs, last: (Op, &'static str), reach: Reach) -> Arc<dyn Fs> {
    let dead = Mutex::new(false);
    FaultyFs::on(sim.shared(), move |op, path| {
        let mut dead = dead.lock().unwrap();
        let first = !*dead && op == last.0 && path.ends_with(last.1);
        *dead |= first;
        match reach {
            Reach::Half if first => Verdict::Short,
            Reach::All if first => Verdict::Go,
            _ if *dead && (op.changes() || matches!(op, Op::Sync | Op::SyncDir)) => {
                Verdict::Fail(io::ErrorKind::Other.into())
            }
            _ => Verdict::Go,
        }
    })
    .shared()
}

pub(crate) const LOG: &str = ".tenure/log.jsonl.wal";
pub(crate) const JOURNAL: &str = "log.jsonl";

/// Where a writer died, with what.
type Death = ((Op, &'static str), Reach, fn() -> AppendOptions);
/// Whether its batch is seen at once; how many lines come behind the first two when somebody else has
/// appended `theirs`; how many batches are pending then; the rest of the file in the end.
type Left = (bool, &'static [&'static str], u64, &'static str);

const DEATHS: [(Death, Left); 8] = [
    // Not logged; logged and not counted.
    (((Op::Write, LOG), Reach::None, durable), (false, &["theirs"], 0, "theirs\n")),
    (((Op::Write, LOG), Reach::None, no_sync), (false, &["theirs"], 0, "theirs\n")),
    (((Op::Write, LOG), Reach::All, durable), (false, &["theirs"], 0, "theirs\n")),
    // Counted, not synced; synced and begun.
    (((Op::Sync, LOG), Reach::None, durable), (false, &["batch", "theirs"], 1, "theirs\nbatch\n")),
    (
        ((Op::Write, JOURNAL), Reach::None, durable),
        (false, &["batch", "theirs"], 1, "theirs\nbatch\n"),
    ),
    // Direct: it counts once the journal has grown.
    (
        ((Op::Write, JOURNAL), Reach::None, no_sync),
        (false, &["batch", "theirs"], 1, "theirs\nbatch\n"),
    ),
    // In the journal, and the head does not know it.
    (
        ((Op::Write, JOURNAL), Reach::All, durable),
        (true, &["batch", "theirs"], 0, "batch\ntheirs\n"),
    ),
    (
        ((Op::Write, JOURNAL), Reach::All, no_sync),
        (true, &["batch", "theirs"], 0, "batch\ntheirs\n"),
    ),
];

#[test]
fn j9_what_a_dead_writer_left_is_seen_as_the_next_one_makes_it() {
    for ((at, reach, options), (seen, lines, pending, text)) in DEATHS {
        let when = format!("{at:?}, {reach:?}, {:?}", options().write.durability);
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        let fs = sim.shared();
        open(&fs).append(&["one", "two"], &durable()).unwrap();
        let dying = dies_at(&sim, at, reach);
        assert!(open(&dying).append(&["batch"], &options()).is_err(), "{when}");
        let first: &[&str] = if seen { &["one", "two", "batch"] } else { &["one", "two"] };
        assert_eq!(all(&open(&fs)), numbered(first), "{when}");
        foreign(&fs, "theirs\n");
        let expected = numbered(&[&["one", "two"], lines].concat());
        assert_eq!(all(&open(&fs)), expected, "{when}");
        let report = open(&fs).verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{when}: {report:?}");
        assert_eq!(report.entries, expected.len() as u64 - pending, "{when}: {report:?}");
        assert_eq!((report.pending, report.foreign_entries), (pending, 1), "{when}: {report:?}");
        let done = open(&fs).repair(&write()).unwrap();
        assert_eq!(done.rolled_forward, pending, "{when}: {done:?}");
        assert_eq!(all(&open(&fs)), expected, "{when}: the same numbers");
        assert_eq!(sim.peek(PATH).unwrap(), format!("one\ntwo\n{text}").into_bytes(), "{when}");
    }
}

/// A batch whose beginning is in the file is not shown, and what is behind it is not taken for it.
#[test]
fn j9_a_torn_batch_is_not_shown() {
    for options in [durable, no_sync] {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        let fs = sim.shared();
        open(&fs).append(&["one"], &durable()).unwrap();
        let dying = dies_at(&sim, (Op::Write, JOURNAL), Reach::Half);
        assert!(open(&dying).append(&["second", "third"], &options()).is_err());
        assert!(sim.peek(PATH).unwrap().len() > 4, "a part of it is there");
        assert_eq!(all(&open(&fs)), numbered(&["one"]));
        let report = open(&fs).verify().unwrap();
        assert_eq!((report.pending, report.entries, report.torn_tail), (1, 1, false), "{report:?}");
        assert!(report.is_sound());
        assert_eq!(open(&fs).repair(&write()).unwrap().rolled_forward, 1);
        assert_eq!(all(&open(&fs)), numbered(&["one", "second", "third"]));
    }
}

/// After a restart what the log holds is shown from there: the file may have lost it.
#[test]
fn j9_after_a_restart_a_logged_batch_is_shown_wherever_it_is() {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let fs = sim.shared();
    open(&fs).append(&["one", "two"], &durable()).unwrap();
    open(&fs).append(&["three"], &durable()).unwrap();
    let expected = numbered(&["one", "two", "three"]);
    for text in ["", "one\n", "one\ntw\0\0", "\0\0\0\0two\nth", "one\ntwo\nthree\n"] {
        let sim = sim.fork(1);
        let fs = sim.shared();
        let file = fs.open(Path::new(PATH), Access::ReadWrite).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        sim.crash_with(tenure_testkit::Survival::Everything);
        assert_eq!(all(&open(&fs)), expected, "{text:?}");
        let report = open(&fs).repair(&write()).unwrap();
        assert!(report.is_sound() && report.bytes == 14, "{text:?}: {report:?}");
        assert_eq!(all(&open(&fs)), expected, "{text:?}");
    }
}

/// A file that cannot be opened is not taken for one that is not there.
#[test]
fn a_reader_that_may_not_look_says_so() {
    let log = Log::new();
    log.append(&["one"]);
    log.repair();
    for file in [log.path(), log.sidecar("wal"), log.sidecar("index")] {
        let fs = FaultyFs::new(move |op, path| match op {
            Op::Open(_) if path == file => Verdict::Fail(io::ErrorKind::PermissionDenied.into()),
            _ => Verdict::Go,
        });
        let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
        assert!(journal.read(0, None).is_err() && journal.verify().is_err());
    }
}

/// A writer has logged its batch, and not yet said so, when somebody else appends and a reader comes:
/// the reader looks again, and the batch comes first.
#[test]
fn j9_a_reader_waits_for_a_writer_that_is_at_work() {
    for dead in [false, true] {
        let log = Log::new();
        log.journal.append(&["one"], &durable()).unwrap();
        let mut expected = vec!["one"];
        if dead {
            // A batch that waits in the log already.
            let dying = FaultyFs::new(|op, path| match op {
                Op::Sync if path.ends_with(LOG) => Verdict::Fail(io::ErrorKind::Other.into()),
                Op::Write if path.ends_with(JOURNAL) => Verdict::Fail(io::ErrorKind::Other.into()),
                _ => Verdict::Go,
            });
            let journal = Journal::open_on(&dying.shared(), &log.path()).unwrap();
            assert!(journal.append(&["dead"], &durable()).is_err());
            expected.push("dead");
        }
        expected.extend(["batch", "theirs"]);
        let ((logged, is_logged), (go, may_go)) = (channel(), channel::<()>());
        let (may_go, writes) = (Mutex::new(may_go), AtomicUsize::new(0));
        let paused = FaultyFs::new(move |op, path| {
            let log = op == Op::Write && path.ends_with(LOG);
            if log && writes.fetch_add(1, Ordering::SeqCst) == 1 {
                logged.send(()).unwrap();
                may_go.lock().unwrap().recv().unwrap();
            }
            Verdict::Go
        });
        let (writer, path) = (paused.shared(), log.path());
        let writer = thread::spawn(move || {
            Journal::open_on(&writer, &path).unwrap().append(&["batch"], &durable()).unwrap()
        });
        is_logged.recv().unwrap();
        log.foreign("theirs\n");
        let (writer, looks) = (Mutex::new(Some(writer)), AtomicUsize::new(0));
        let reader = FaultyFs::new(move |op, path| {
            let look = op == Op::Open(Change::Never) && path.ends_with(JOURNAL);
            if look && looks.fetch_add(1, Ordering::SeqCst) == 1 {
                go.send(()).unwrap();
                writer.lock().unwrap().take().unwrap().join().unwrap();
            }
            Verdict::Go
        });
        let reader = Journal::open_on(&reader.shared(), &log.path()).unwrap();
        assert_eq!(all(&reader), numbered(&expected), "{dead}");
        assert_eq!(all(&log.journal), numbered(&expected), "{dead}");
    }
}

/// A reader that finds another log each time it looks gives up in the end.
#[test]
fn a_journal_that_is_rewritten_all_the_time_is_busy() {
    let log = Log::new();
    log.append(&["one"]);
    let mut logs = vec![fs::read(log.sidecar("wal")).unwrap()];
    for _ in 0..6 {
        log.append(&["more"]);
        log.repair();
        logs.push(fs::read(log.sidecar("wal")).unwrap());
    }
    let (count, wal) = (AtomicUsize::new(0), log.sidecar("wal"));
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Read && path == wal {
            let next = count.fetch_add(1, Ordering::SeqCst) % logs.len();
            let file = fs::OpenOptions::new().write(true).open(&wal).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &logs[next], 0).unwrap();
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    let busy = journal.read(0, None).map(drop).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
}

#[test]
fn a_hold_makes_no_journal() {
    for suffix in ["log.jsonl", ".tenure/log.jsonl.wal"] {
        let log = Log::new();
        log.append(&["one"]);
        fs::remove_file(log.scratch.path(suffix)).unwrap();
        let before = log.scratch.listing();
        drop(lock_for(&log.path(), Wait::No).unwrap());
        assert_eq!(log.scratch.listing(), before, "{suffix}");
    }
}
