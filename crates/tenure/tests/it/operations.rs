//! Operation ids: what is remembered, for how long, and what a repeated one is told.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tenure::{AppendOptions, Document, Journal, WriteOptions, update_and_append};
use tenure_testkit::{CrashKind, SimFs};

use crate::document_scratch::{Scratch, at_once, count_in, durably, foreign_replace, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

fn with_operation(id: &str) -> WriteOptions {
    WriteOptions { operation: Some(id.to_owned()), ..at_once() }
}

/// The newest operations are remembered, and only operations count: a busy document without any does
/// not make an id forgotten.
#[test]
fn changes_without_an_operation_do_not_push_out_a_remembered_one() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.update(&with_operation("one"), increment).unwrap();
    for _ in 0..10 {
        document.update(&at_once(), increment).unwrap();
        document.update(&at_once(), |_| Ok(None)).unwrap();
    }
    assert!(document.update(&with_operation("one"), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 11);
}

/// Eight are remembered: the oldest goes when a ninth comes.
#[test]
fn the_oldest_operation_is_forgotten_first() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for nth in 1..=9 {
        document.update(&with_operation(&format!("operation {nth}")), increment).unwrap();
    }
    for nth in 2..=9 {
        let again = document.update(&with_operation(&format!("operation {nth}")), increment);
        assert!(again.unwrap().replayed, "operation {nth}");
    }
    assert!(!document.update(&with_operation("operation 1"), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 10);
}

/// The first call is told that it was the first, also if it left everything as it was.
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

/// A power loss may take a document back, and with it what its record remembers as done. A foreign edit
/// does not, and neither does a restart that lost nothing.
#[test]
fn race_51_an_operation_is_forgotten_only_if_a_power_loss_may_have_taken_it_back() {
    for (reboots, replaced) in [(false, false), (false, true), (true, false), (true, true)] {
        let scratch = Scratch::new();
        let fs = FaultyFs::new(|_, _| Verdict::Go);
        let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        document.set(&json!({ "n": 0 }), &at_once()).unwrap();
        document.update(&with_operation("one"), increment).unwrap();
        if replaced {
            foreign_replace(document.path(), "{\"n\":0}");
        }
        if reboots {
            fs.reboot();
        }
        let again = document.update(&with_operation("one"), increment).unwrap();
        assert_eq!(again.replayed, !(reboots && replaced), "{reboots} {replaced}");
    }
}

/// Once an operation is done and written down, nothing of it is left to be finished by whoever comes
/// next: the version stays what it was.
#[test]
fn a_finished_operation_leaves_nothing_to_finish() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for id in ["one", "two"] {
        let version = document.update(&with_operation(id), increment).unwrap().version;
        for _ in 0..2 {
            assert_eq!(document.update(&at_once(), |_| Ok(None)).unwrap().version, version);
            assert_eq!(document.version().unwrap(), Some(version.clone()));
        }
    }
}

/// A caller whose machine goes down again and again repeats its append. However it went before, the
/// answer that it is done means that the line is there.
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

/// A foreign counter makes the very same step between the look of an operation and its exchange, or after
/// the operation failed. Bytes like its own do not pass for it: both count.
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

/// A durable operation is acknowledged, the power goes, and its caller repeats it.
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

/// The same of a document and a journal in one call.
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
