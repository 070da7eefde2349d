//! Syncs inside critical sections that fail, are killed or go on beside a leader: when the doubt about them begins and
//! ends, and what is written again for it (S4, G8, race 54).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tenure::fs::Access;
use tenure::{AppendOptions, Durability, Journal, Wait, WriteOptions};
use tenure_testkit::{Fault, SimFs, Times};

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};

const PATH: &str = "/d/log.jsonl";

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn write(durability: Durability) -> WriteOptions {
    WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() }
}

fn with(durability: Durability) -> AppendOptions {
    AppendOptions { write: write(durability), ..AppendOptions::default() }
}

fn is(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|found| found == suffix)
}

/// The same, for somebody who has no descriptor left for the notes.
fn without_notes(fs: &SimFs) -> Journal {
    let faulty = FaultyFs::on(fs.shared(), |op, path| match op {
        Op::Open(Change::Write | Change::Create) if is(path, "sync0") => {
            Verdict::Fail(io::Error::from_raw_os_error(24))
        }
        _ => Verdict::Go,
    });
    Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap()
}

/// Logs a durable batch of more than a page; its writer cannot sync it, and leaves that to others.
fn log_only(fs: &SimFs) {
    let journal = without_notes(fs);
    let line = format!("{{\"x\":\"{}\"}}", "x".repeat(9000));
    let error = journal.append(&[line], &with(Durability::Durable)).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
}

/// A sync of the log inside a section fails, and its pages can not be written again.
fn sync_in_section_fails(fs: &SimFs) {
    let (sim, step) = (fs.clone(), Arc::new(AtomicU8::new(0)));
    let now = step.clone();
    let faulty =
        FaultyFs::on(fs.shared(), move |op, path| match (op, now.load(Ordering::SeqCst)) {
            (Op::Sync, 0) if is(path, "wal") => {
                sim.inject(1, Fault::FileSyncFailure, Times::Once);
                now.store(1, Ordering::SeqCst);
                Verdict::Go
            }
            (Op::Write, 1) if is(path, "wal") => Verdict::Fail(io::Error::from_raw_os_error(5)),
            _ => Verdict::Go,
        });
    let other = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    other.append(&["other"], &with(Durability::NoSync)).unwrap_err();
    assert_eq!(step.load(Ordering::SeqCst), 1);
}

/// A leader in doubt has written everything again and synced it, and is about to say so. Meanwhile another sync inside a
/// section fails: the doubt is a new one, though the note says the same.
#[test]
fn race_54_s4_a_leader_does_not_end_a_doubt_that_began_again() {
    for seed in 0..100 {
        let fs = machine(seed);
        open(&fs).append(&["first"], &with(Durability::Durable)).unwrap();
        log_only(&fs);
        sync_in_section_fails(&fs);
        let (leader, sim) = (fs.another_process(), fs.clone());
        let step = Arc::new(AtomicU8::new(0));
        let now = step.clone();
        let faulty = FaultyFs::on(leader.shared(), move |op, path| {
            match (op, now.load(Ordering::SeqCst)) {
                (Op::Sync, 0) if is(path, "wal") => now.store(1, Ordering::SeqCst),
                (Op::Write, 1) if is(path, "sync0") => {
                    now.store(2, Ordering::SeqCst);
                    let sim = sim.clone();
                    let others = std::thread::spawn(move || {
                        log_only(&sim);
                        sync_in_section_fails(&sim);
                    });
                    others.join().unwrap();
                }
                _ => {}
            }
            Verdict::Go
        });
        let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
        journal.append(&["second"], &with(Durability::Durable)).unwrap();
        assert_eq!(step.load(Ordering::SeqCst), 2);
        drop(journal);
        open(&fs).append(&["third"], &with(Durability::Durable)).unwrap();
        fs.crash();
        let entries = open(&fs).read(0, None).unwrap().map(Result::unwrap);
        let there: Vec<Vec<u8>> = entries.map(|entry| entry.line).collect();
        for line in ["first", "second", "third"] {
            assert!(there.iter().any(|found| found == line.as_bytes()), "seed {seed}: {line}");
        }
    }
}

/// A repair writes over lines in the middle, before everything that counts as not yet durable.
#[test]
fn race_54_a_repair_whose_sync_failed_is_not_believed() {
    let mut failures = 0;
    for (nth, seed) in (1..20).flat_map(|nth| (0..10).map(move |seed| (nth, seed))) {
        for appends in [false, true] {
            let fs = machine(seed);
            let _tell = fs.tell_on_panic();
            let lines = [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#];
            open(&fs).append(&lines, &with(Durability::Durable)).unwrap();
            open(&fs).repair(&write(Durability::Durable)).unwrap(); // All of it is in the index then.
            let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
            file.write_all_at(b"\x01\x02\x03", 9).unwrap();
            file.sync().unwrap();
            drop(file);
            fs.inject(nth, Fault::FileSyncFailure, Times::Once);
            let failed = open(&fs).repair(&write(Durability::Durable)).is_err();
            fs.clear_faults();
            if !failed {
                continue;
            }
            failures += 1;
            if appends {
                open(&fs).append(&[r#"{"d":4}"#], &with(Durability::Durable)).unwrap();
            }
            open(&fs).repair(&write(Durability::Durable)).unwrap();
            let read = || -> Vec<_> {
                let entries = open(&fs).read(0, None).unwrap().map(Result::unwrap);
                entries.map(|entry| (entry.seq, entry.line)).collect()
            };
            let before = (read(), fs.peek(PATH));
            fs.crash();
            assert_eq!((read(), fs.peek(PATH)), before, "sync {nth}, seed {seed}, {appends}");
        }
    }
    assert!(failures > 20, "{failures}");
}

/// A sync of the journal fails, and there is no descriptor left to write it again: that nobody may is another matter. It
/// is written again by whoever comes next.
#[test]
fn race_54_a_journal_that_cannot_be_opened_to_write_it_again_stays_in_doubt() {
    let lines = [(); 3].map(|()| format!("{{\"x\":\"{}\"}}", "x".repeat(9000)));
    for seed in 0..20 {
        let fs = machine(seed);
        let _tell = fs.tell_on_panic();
        open(&fs).append(&lines, &with(Durability::Durable)).unwrap();
        let (sim, failed) = (fs.clone(), Arc::new(AtomicBool::new(false)));
        let now = failed.clone();
        let poor = FaultyFs::on(fs.shared(), move |op, path| {
            let is_journal = path == Path::new(PATH);
            if op == Op::Sync && is_journal && !now.swap(true, Ordering::SeqCst) {
                sim.inject(1, Fault::FileSyncFailure, Times::Once);
            }
            let refused = now.load(Ordering::SeqCst) && op == Op::Open(Change::Write);
            let refused = refused && is_journal;
            if refused { Verdict::Fail(io::Error::from_raw_os_error(24)) } else { Verdict::Go }
        });
        let journal = Journal::open_on(&poor.shared(), Path::new(PATH)).unwrap();
        journal.repair(&write(Durability::Durable)).unwrap_err();
        assert!(failed.load(Ordering::SeqCst));
        drop(journal);
        open(&fs).repair(&write(Durability::Durable)).unwrap();
        fs.crash();
        let entries = open(&fs).read(0, None).unwrap().map(Result::unwrap);
        let there: Vec<_> = entries.map(|entry| String::from_utf8(entry.line).unwrap()).collect();
        assert_eq!(there, lines, "seed {seed}");
    }
}

/// The journal is replaced by somebody else while it is synced, and that fails.
#[test]
fn j8_a_journal_of_others_is_not_written_over_after_a_failed_sync() {
    let (fs, path) = (machine(1), Path::new(PATH));
    let theirs: Vec<u8> = b"{\"theirs\":true}\n".repeat(8);
    open(&fs).append(&[r#"{"ours":1}"#], &with(Durability::Durable)).unwrap();
    let (sim, bytes, done) = (fs.clone(), theirs.clone(), Arc::new(AtomicBool::new(false)));
    let now = done.clone();
    let faulty = FaultyFs::on(fs.shared(), move |op, at| {
        if op == Op::Sync && at == Path::new(PATH) && !now.swap(true, Ordering::SeqCst) {
            let new = Path::new("/d/new");
            let file = sim.shared().open(new, Access::CreateNew(0o600)).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            sim.shared().rename(new, at).unwrap();
            sim.inject(1, Fault::FileSyncFailure, Times::Once);
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&faulty.shared(), path).unwrap();
    assert!(journal.repair(&write(Durability::Durable)).is_err());
    assert!(done.load(Ordering::SeqCst));
    assert_eq!(fs.peek(path).unwrap(), theirs);
}

/// A journal that may only be appended to (`chattr +a`): whoever is killed in a sync of it does not stop it for good.
#[test]
fn g10_a_kill_in_a_sync_does_not_end_a_journal_that_can_only_be_appended_to() {
    let fs = machine(1);
    let append_only = |op, path: &Path| match op {
        Op::Open(Change::Write) if path == Path::new(PATH) => {
            Verdict::Fail(io::Error::from_raw_os_error(1))
        }
        _ => Verdict::Go,
    };
    // Some batches fill the log, and it is emptied.
    let line = format!("{{\"x\":\"{}\"}}", "x".repeat(500_000));
    let fill = |journal: &Journal| {
        (0..5).try_for_each(|_| journal.append(&[&line], &with(Durability::Durable)).map(drop))
    };
    open(&fs).append(&["{}"], &with(Durability::Durable)).unwrap();
    let died = Arc::new(AtomicBool::new(false));
    let dies = died.clone();
    let faulty = FaultyFs::on(fs.shared(), move |op, path| {
        if op == Op::Sync && path == Path::new(PATH) {
            dies.store(true, Ordering::SeqCst);
        }
        let gone = || Verdict::Fail(io::Error::other("killed"));
        if dies.load(Ordering::SeqCst) { gone() } else { append_only(op, path) }
    });
    let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    let _ = fill(&journal);
    assert!(died.load(Ordering::SeqCst));
    fs.process_crash();
    let faulty = FaultyFs::on(fs.shared(), append_only);
    let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    fill(&journal).unwrap();
}

/// That a sync begins cannot be noted: it does not begin, and what it was for has not happened.
#[test]
fn g10_a_section_that_cannot_note_its_sync_has_changed_nothing() {
    let fs = machine(1);
    open(&fs).append(&["first"], &with(Durability::Durable)).unwrap();
    log_only(&fs);
    let before = fs.peek(PATH);
    let error = without_notes(&fs).append(&["second"], &with(Durability::NoSync)).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(fs.peek(PATH), before);
    open(&fs).append(&["third"], &with(Durability::Durable)).unwrap();
    let before = fs.peek(PATH);
    let error = without_notes(&fs).repair(&write(Durability::Durable)).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(fs.peek(PATH), before);
}

/// A batch without a sync is asked for again with one, and the names that it stands on cannot be synced.
#[test]
fn g8_a_durable_repetition_whose_names_cannot_be_synced_is_no_success() {
    let fs = machine(1);
    let once = |durability| {
        let write = WriteOptions { operation: Some("x".to_owned()), ..write(durability) };
        AppendOptions { write, ..AppendOptions::default() }
    };
    open(&fs).append(&["{}"], &once(Durability::NoSync)).unwrap();
    let faulty = FaultyFs::on(fs.shared(), |op, path| match op {
        Op::SyncDir if path == Path::new("/d") => Verdict::Fail(io::Error::from_raw_os_error(5)),
        _ => Verdict::Go,
    });
    let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    let error = journal.append(&["{}"], &once(Durability::Durable)).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    assert!(open(&fs).append(&["{}"], &once(Durability::Durable)).unwrap().replayed);
}

/// A batch is synced, and that cannot be noted any more: it is durable all the same. The next one is in doubt for nothing.
#[test]
fn g8_a_sync_that_cannot_be_noted_is_a_sync() {
    let fs = machine(1);
    open(&fs).append(&["first"], &with(Durability::Durable)).unwrap();
    let noted = AtomicU8::new(0);
    let faulty = FaultyFs::on(fs.shared(), move |op, path| {
        if op == Op::Write && is(path, "sync0") && noted.fetch_add(1, Ordering::SeqCst) > 0 {
            return Verdict::Fail(io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    journal.append(&["second"], &with(Durability::Durable)).unwrap();
    drop(journal);
    open(&fs).append(&["third"], &with(Durability::Durable)).unwrap();
}

/// What is durable stays so if a later batch is not, whether it is in the log yet or not any more.
#[test]
fn g8_a_durable_repetition_is_not_in_doubt_by_a_later_batch() {
    for indexed in [false, true] {
        let fs = machine(1);
        let once = |durability| {
            let write = WriteOptions { operation: Some("x".to_owned()), ..write(durability) };
            AppendOptions { write, ..AppendOptions::default() }
        };
        open(&fs).append(&["once"], &once(Durability::Durable)).unwrap();
        if indexed {
            open(&fs).repair(&write(Durability::Durable)).unwrap();
        }
        let (sim, failed) = (fs.clone(), AtomicBool::new(false));
        let faulty = FaultyFs::on(fs.shared(), move |op, path| {
            if op == Op::Sync && is(path, "wal") && !failed.swap(true, Ordering::SeqCst) {
                sim.inject(1, Fault::FileSyncFailure, Times::Once);
            }
            Verdict::Go
        });
        let journal = Journal::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
        let later = |id: &str| {
            let write =
                WriteOptions { operation: Some(id.to_owned()), ..write(Durability::Durable) };
            AppendOptions { write, ..AppendOptions::default() }
        };
        for _ in 0..2 {
            let error = journal.append(&["later"], &later("later")).unwrap_err();
            assert_eq!(error.kind(), tenure::ErrorKind::NotDurable, "{error}");
        }
        assert!(open(&fs).append(&["once"], &once(Durability::Durable)).unwrap().replayed);
        // Everything is written again for the next one, and so the one that failed is durable at last.
        open(&fs).append(&["last"], &with(Durability::Durable)).unwrap();
        assert!(open(&fs).append(&["later"], &later("later")).unwrap().replayed);
    }
}
