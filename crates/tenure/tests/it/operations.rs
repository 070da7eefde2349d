//! Operation ids: what is remembered, for how long, and what a repeated call returns.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure::json;
use tenure::options::Durability;
use tenure::{AppendOptions, Document, Journal, Wait, WriteOptions, update_and_append};
use tenure_testkit::{CrashKind, Random, SimFs};

use crate::document_scratch::{
    Scratch, at_once, count_in, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::roles::played;
use crate::starting::start;

/// Threads of each process, and how many operations each of them applies.
const THREADS: usize = 4;
const OPERATIONS: usize = 40;

/// One process of [`g6_every_operation_of_8_processes_that_are_killed_is_applied_once`]. A thread
/// notes its progress; after a kill it repeats the operation whose answer it does not know.
pub(crate) fn apply_all(mine: &Path) {
    let path = mine.with_file_name("state.json");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (path, noted) = (&path, mine.join(thread.to_string()));
            scope.spawn(move || {
                let document = Document::open(path).unwrap();
                let done = std::fs::metadata(&noted).map_or(0, |found| found.len());
                for number in usize::try_from(done).unwrap()..OPERATIONS {
                    let id = format!("{}-{number}", noted.display());
                    let durability = Durability::NoSync;
                    let options = WriteOptions {
                        wait: Wait::Forever,
                        operation: Some(id.clone()),
                        durability,
                        ..WriteOptions::default()
                    };
                    let apply = |current: Option<&tenure::Value>| {
                        let mut all = current.cloned().unwrap_or_else(|| json!({}));
                        all[&id] = json!(all[&id].as_u64().unwrap_or(0) + 1);
                        Ok(Some(all))
                    };
                    document.update(&options, apply).unwrap();
                    // One byte each: a kill cannot tear it.
                    let file = OpenOptions::new().append(true).create(true).open(&noted);
                    file.unwrap().write_all(b".").unwrap();
                }
            });
        }
    });
}

/// Finding 8: with eight ids, what 32 threads do meanwhile pushed out the id of an operation whose caller
/// was killed before it got the answer, and the repetition was applied a second time.
#[test]
fn g6_every_operation_of_8_processes_that_are_killed_is_applied_once() {
    let scratch = Scratch::in_memory();
    std::thread::scope(|scope| {
        for process in 0..8 {
            let mine = scratch.path(&process.to_string());
            std::fs::create_dir(&mine).unwrap();
            scope.spawn(move || {
                let mut random = Random::new(process);
                loop {
                    let mut command = played("apply operations", &mine, "exec \"$@\"");
                    let child = start(command.stdout(Stdio::null()).stderr(Stdio::null()));
                    let mut child = child.unwrap();
                    let until = Instant::now() + Duration::from_millis(5 + random.below(60));
                    while Instant::now() < until && child.try_wait().unwrap().is_none() {
                        std::thread::yield_now();
                    }
                    if let Some(ended) = child.try_wait().unwrap() {
                        assert!(ended.success(), "a worker failed");
                        return;
                    }
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
            });
        }
    });
    let found = scratch.document("state.json").read().unwrap().unwrap().value;
    let all = found.as_object().unwrap();
    let twice: Vec<_> = all.iter().filter(|(_, times)| **times != json!(1)).collect();
    assert_eq!((twice, all.len()), (vec![], 8 * THREADS * OPERATIONS));
}

fn with_operation(id: &str) -> WriteOptions {
    WriteOptions { operation: Some(id.to_owned()), ..at_once() }
}

/// The newest operations are remembered, and only operations count: other changes push no id out.
/// Deleting the sidecars forgets the ids.
#[test]
fn changes_without_an_operation_do_not_push_out_a_remembered_one() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for id in 1..=8 {
        document.update(&with_operation(&id.to_string()), increment).unwrap();
    }
    for _ in 0..10 {
        document.update(&at_once(), increment).unwrap();
        document.update(&at_once(), |_| Ok(None)).unwrap();
    }
    for id in 1..=8 {
        let again = document.update(&with_operation(&id.to_string()), increment).unwrap();
        assert!(again.replayed, "{id}");
    }
    std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    let document = scratch.document("state.json");
    assert!(!document.update(&with_operation("1"), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 19);
}

/// The first call returns that it was the first, even if it changed nothing.
#[test]
fn only_a_repeated_operation_is_a_replay() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for (id, changes) in [("change", true), ("look", false)] {
        for replayed in [false, true, true] {
            let next = changes.then(|| json!({ "n": 1 }));
            let done = document.update(&with_operation(id), |_| Ok(next.clone())).unwrap();
            assert_eq!((done.changed, done.replayed), (changes && !replayed, replayed), "{id}");
        }
    }
    assert!(!document.update(&at_once(), |_| Ok(None)).unwrap().replayed);
}

/// A power loss may take back what was not synced. So a restart forgets an operation without a
/// sync, and keeps a durable one. A foreign edit makes nothing forgotten.
#[test]
fn race_51_an_operation_is_forgotten_only_if_a_power_loss_may_have_taken_it_back() {
    for case in 0..8 {
        let [reboots, replaced, durable] = [1, 2, 4].map(|bit| case & bit != 0);
        let scratch = Scratch::new();
        let fs = FaultyFs::new(|_, _| Verdict::Go);
        let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        document.set(&json!({ "n": 0 }), &at_once()).unwrap();
        let durability = if durable { Durability::Durable } else { Durability::NoSync };
        let options = WriteOptions { durability, ..with_operation("one") };
        document.update(&options, increment).unwrap();
        if replaced {
            foreign_replace(document.path(), "{\"n\":0}");
        }
        if reboots {
            fs.reboot();
        }
        let again = document.update(&with_operation("one"), increment).unwrap();
        assert_eq!(again.replayed, durable || !reboots, "{reboots} {replaced} {durable}");
    }
}

/// Once an operation is done and recorded, the next caller has nothing of it left to finish: the
/// version does not change.
#[test]
fn a_finished_operation_leaves_nothing_to_finish() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for id in ["one", "two"] {
        let version = document.update(&with_operation(id), increment).unwrap().version;
        for _ in 0..2 {
            assert_eq!(document.update(&at_once(), |_| Ok(None)).unwrap().version, version);
            assert_eq!(document.read().unwrap().map(|found| found.version), Some(version.clone()));
        }
    }
}

/// A caller whose machine keeps crashing repeats its append. If the answer says that it is done,
/// the line is there.
#[test]
fn race_51_a_repeated_append_that_is_answered_is_there_whatever_went_down_before() {
    const PATH: &str = "/d/log.jsonl";
    const STEPS: u64 = 30;
    let write = WriteOptions { operation: Some("turn-7".into()), ..durably() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let append = |fs: &SimFs| {
        Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap().append(&["line"], &options)
    };
    for story in 0..6 * STEPS * STEPS {
        let fs = SimFs::new(story);
        fs.add_dir("/d");
        let there = || assert_eq!(lines(&fs, PATH), ["line"], "{}", fs.history());
        for nth in [story / STEPS % STEPS, story % STEPS] {
            fs.fail_after(1 + nth, CrashKind::Power);
            let done = append(&fs).is_ok();
            fs.crash();
            if done {
                there();
            }
        }
        append(&fs).unwrap();
        there();
        fs.crash();
        there();
    }
}

fn lines(fs: &SimFs, path: &str) -> Vec<String> {
    let entries = Journal::open_on(&fs.shared(), Path::new(path)).unwrap().read(0, None).unwrap();
    entries.map(|entry| String::from_utf8(entry.unwrap().line).unwrap()).collect()
}

/// A foreign program makes the very same change between an operation's read and its exchange, or
/// after the operation failed. Its bytes are not mistaken for the operation's: both changes count.
#[test]
fn g6_an_operation_that_was_withdrawn_is_not_taken_for_done() {
    for fails in [false, true] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        let (there, armed) = (path.clone(), Arc::new(AtomicBool::new(false)));
        let once = armed.clone();
        let fs = FaultyFs::new(move |op, _| {
            if op == Op::Exchange && once.swap(false, Ordering::Relaxed) {
                foreign_replace(&there, "{\n  \"n\": 2\n}\n");
            }
            Verdict::Go
        });
        let full = FaultyFs::new(|op, path| {
            let is_new = op == Op::Write && path.to_string_lossy().contains(".tmp.");
            if is_new { Verdict::Fail(std::io::ErrorKind::StorageFull.into()) } else { Verdict::Go }
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        document.update(&at_once(), increment).unwrap();
        if fails {
            let document = Document::open_on(&full.shared(), &path).unwrap();
            document.update(&with_operation("x"), increment).unwrap_err();
            foreign_replace(&path, "{\n  \"n\": 2\n}\n");
        } else {
            armed.store(true, Ordering::Relaxed);
        }
        document.update(&with_operation("x"), increment).unwrap();
        assert_eq!(count_in(&document), 3, "1, theirs 2, ours 3; failed before: {fails}");
    }
}

/// The same for an operation that was to create the document.
#[test]
fn g6_a_creation_that_was_withdrawn_is_not_taken_for_done() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let full = FaultyFs::new(|op, path| match op {
        Op::Write if path.to_string_lossy().contains(".tmp.") => {
            Verdict::Fail(io::ErrorKind::StorageFull.into())
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&full.shared(), &path).unwrap();
    document.update(&with_operation("x"), increment).unwrap_err();
    foreign_write(&path, "{\n  \"n\": 1\n}\n");
    let document = scratch.document("state.json");
    assert!(!document.update(&with_operation("x"), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 2, "theirs 1, ours 2");
}

/// A change that failed may still be visible: the displaced version cannot be restored, or the
/// exchange was made and the reply lost (and then the file cannot even be read). The operation is
/// done, and is not repeated.
#[test]
fn g6_an_operation_that_failed_and_is_visible_is_not_done_twice() {
    for (exchanges, looks) in [(false, true), (true, true), (true, false)] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        scratch.document("state.json").update(&at_once(), increment).unwrap();
        let (there, tried) = (path.clone(), AtomicBool::new(false));
        let fs = FaultyFs::new(move |op, at| {
            let failed = Verdict::Fail(io::Error::from_raw_os_error(5));
            match op {
                Op::Exchange if tried.swap(true, Ordering::Relaxed) => failed,
                Op::Exchange if exchanges => {
                    let temp = there.with_file_name(".tenure/state.json.tmp.0000000000000000");
                    tenure::disk().exchange(&temp, at).unwrap();
                    failed
                }
                Op::Exchange => {
                    foreign_replace(&there, "{\"theirs\": 1}");
                    Verdict::Go
                }
                Op::Stat if !looks && at == there && tried.load(Ordering::Relaxed) => failed,
                _ => Verdict::Go,
            }
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        let told = document.update(&with_operation("x"), increment);
        // A lost reply is no failure if the exchange can be seen.
        assert_eq!(told.is_ok(), exchanges && looks);
        let document = scratch.document("state.json");
        let again = document.update(&with_operation("x"), increment).unwrap();
        assert!(again.replayed, "exchanged: {exchanges}, looks: {looks}");
        assert_eq!(count_in(&document), 2);
    }
}

/// An operation is abandoned, and that cannot be recorded. If another program has written the very
/// bytes that it was about to write, they would be mistaken for it, so the call fails. If it has
/// failed already, that error is returned.
#[test]
fn g10_an_operation_that_cannot_be_withdrawn_fails_as_it_failed() {
    for replaced in [true, false] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        scratch.document("state.json").update(&at_once(), increment).unwrap();
        let (there, first, armed) = (path.clone(), AtomicBool::new(true), AtomicBool::new(false));
        let fs = FaultyFs::new(move |op, at| {
            let failed = Verdict::Fail(io::Error::from_raw_os_error(5));
            let is_new = at.to_string_lossy().contains(".tmp.");
            match op {
                Op::Exchange if replaced && first.swap(false, Ordering::Relaxed) => {
                    foreign_replace(&there, "{\n  \"n\": 2\n}\n");
                    armed.store(true, Ordering::Relaxed);
                }
                Op::Write if is_new && !replaced => {
                    armed.store(true, Ordering::Relaxed);
                    return failed;
                }
                Op::Write if !is_new && armed.swap(false, Ordering::Relaxed) => return failed,
                _ => {}
            }
            Verdict::Go
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        let error = document.update(&with_operation("x"), increment).unwrap_err();
        let told = if replaced { ".commit" } else { ".tmp." };
        assert!(error.to_string().contains(told), "replaced: {replaced}: {error}");
        assert_ne!(error.is_committed(), Some(true));
    }
}

/// A durable operation is acknowledged, the power fails, and its caller repeats it.
#[test]
fn g8_race_51_a_durable_operation_is_not_done_twice_after_a_power_loss() {
    for seed in 0..200 {
        let fs = SimFs::new(seed);
        fs.add_dir("/d");
        let open = || Document::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
        let options = WriteOptions { operation: Some("x".into()), ..durably() };
        open().update(&durably(), increment).unwrap();
        open().update(&options, increment).unwrap();
        if seed % 2 == 1 {
            open().update(&durably(), increment).unwrap();
        }
        fs.crash();
        assert!(open().update(&options, increment).unwrap().replayed, "seed {seed}");
        assert_eq!(count_in(&open()), 2 + seed % 2, "seed {seed}");
    }
}

/// The same for a document and a journal in one call.
#[test]
fn g8_a_repeated_call_does_neither_part_twice_after_a_power_loss() {
    for seed in 0..100 {
        let fs = SimFs::new(seed);
        fs.add_dir("/d");
        let write = WriteOptions { operation: Some("x".into()), ..durably() };
        let options = AppendOptions { write, ..AppendOptions::default() };
        let call = || {
            let document = Document::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
            let journal = Journal::open_on(&fs.shared(), Path::new("/d/log.jsonl")).unwrap();
            update_and_append(&document, &journal, &["{}"], &options, increment).unwrap();
            (count_in(&document), lines(&fs, "/d/log.jsonl").len())
        };
        assert_eq!(call(), (1, 1));
        fs.crash();
        assert_eq!(call(), (1, 1), "seed {seed}");
    }
}

/// A writer died before it recorded its operation, and the next writer is a user who may not open
/// the ids: that user's call succeeds, and an event reports that the id is lost.
#[test]
fn g6_ids_that_are_closed_to_a_later_writer_do_not_fail_its_call() {
    let of_ids = |path: &Path| path.extension().is_some_and(|end| end == "ops");
    for durability in [Durability::Durable, Durability::NoSync] {
        let scratch = Scratch::new();
        let [state, log] = ["state.json", "log.jsonl"].map(|name| scratch.path(name));
        let write = WriteOptions { durability, ..at_once() };
        let options = AppendOptions { write: write.clone(), ..AppendOptions::default() };
        let known = WriteOptions { operation: Some("first".into()), ..write.clone() };
        let appended = AppendOptions { write: known.clone(), ..AppendOptions::default() };
        scratch.document("state.json").update(&known, increment).unwrap();
        Journal::open(&log).unwrap().append(&["0"], &appended).unwrap();
        let dies = FaultyFs::new(move |op, path| match op {
            Op::Write if of_ids(path) => Verdict::Fail(io::Error::from_raw_os_error(5)),
            _ => Verdict::Go,
        });
        let lost = WriteOptions { operation: Some("lost".into()), ..write.clone() };
        let document = Document::open_on(&dies.shared(), &state).unwrap();
        let error = document.update(&lost, increment).unwrap_err();
        assert_eq!(error.is_committed(), Some(true), "{error}");
        let lost = AppendOptions { write: lost, ..AppendOptions::default() };
        let journal = Journal::open_on(&dies.shared(), &log).unwrap();
        let error = journal.append(&["1"], &lost).unwrap_err();
        assert_eq!(error.is_committed(), Some(true), "{error}");

        let closed = FaultyFs::new(move |op, path| match op {
            Op::Open(_) if of_ids(path) => Verdict::Fail(io::ErrorKind::PermissionDenied.into()),
            _ => Verdict::Go,
        });
        let document = Document::open_on(&closed.shared(), &state).unwrap();
        let journal = Journal::open_on(&closed.shared(), &log).unwrap();
        let refused = document.update(&known, increment).unwrap_err();
        assert_eq!(refused.is_committed(), Some(false), "{refused}");
        let refused = journal.append(&["2"], &appended).unwrap_err();
        assert_eq!(refused.is_committed(), Some(false), "{refused}");
        for number in 2..4 {
            document.update(&write, increment).unwrap();
            journal.append(&[number.to_string()], &options).unwrap();
        }
        journal.rotate(&options.write).unwrap();
        assert_eq!(count_in(&document), 4, "the first, the lost one and two more");
        let lines = Journal::open(&log).unwrap().read(0, None).unwrap();
        let lines: Vec<_> = lines.map(|entry| entry.unwrap().line).collect();
        assert_eq!(lines, [b"0", b"1", b"2", b"3"]);
        for path in [&state, &log] {
            let events = tenure::status::events(path).unwrap();
            let is_it = |event: &tenure::Value| event["event"] == json!("operation_forgotten");
            assert!(events.iter().any(is_it), "{events:?}");
        }
    }
}

/// The journal's part is checked before the document is changed.
#[test]
fn g6_ids_that_the_journal_cannot_keep_leave_the_document_as_it_is() {
    let scratch = Scratch::new();
    let [state, log] = ["state.json", "log.jsonl"].map(|name| scratch.path(name));
    scratch.document("state.json").update(&at_once(), increment).unwrap();
    let plain = AppendOptions { write: at_once(), ..AppendOptions::default() };
    Journal::open(&log).unwrap().append(&["0"], &plain).unwrap();
    let closed = FaultyFs::new(|op, path| match op {
        Op::Open(_) if path.ends_with("log.jsonl.ops") => {
            Verdict::Fail(io::ErrorKind::PermissionDenied.into())
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&closed.shared(), &state).unwrap();
    let journal = Journal::open_on(&closed.shared(), &log).unwrap();
    let options = AppendOptions { write: with_operation("x"), ..AppendOptions::default() };
    let error = update_and_append(&document, &journal, &["1"], &options, increment).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
    assert_eq!(count_in(&document), 1);
}
