//! A document and a journal in one call: checked together, and a half-done call is reported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::{
    AppendOptions, Document, ErrorKind, Guard, Journal, Value, Version, Wait, WriteOptions, json,
    update_and_append,
};

use crate::document_scratch::foreign_replace;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::scratch::{LONG, Scratch, at_once, kind, lease};

fn entries(journal: &Journal) -> usize {
    journal.read(1, None).unwrap().count()
}

/// Both parts appear; a version that differs, or a stale guard, prevents both.
#[test]
fn g6_g7_a_failed_check_keeps_both_parts_out() {
    let scratch = Scratch::new();
    let document = Document::open(scratch.target()).unwrap();
    let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
    let append = |options: &AppendOptions| {
        update_and_append(&document, &journal, &[r#"{"n":1}"#], options, |current| {
            let n = current.and_then(|value| value["n"].as_u64()).unwrap_or(0);
            Ok(Some(json!({ "n": n + 1 })))
        })
    };
    append(&AppendOptions::default()).unwrap();
    let n = || document.read().unwrap().unwrap().value["n"].clone();
    assert_eq!((n(), entries(&journal)), (json!(1), 1));

    let stale: Version = "1-0".parse().unwrap();
    let write = WriteOptions { if_version: Some(stale), ..WriteOptions::default() };
    let error = append(&AppendOptions { write, ..AppendOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);

    let session = lease(&scratch.path("session"), "me");
    let guard = Guard { target: scratch.path("session"), fence: session.fence - 1 };
    let write = WriteOptions { guards: vec![guard], ..WriteOptions::default() };
    let error = append(&AppendOptions { write, ..AppendOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert_eq!((n(), entries(&journal)), (json!(1), 1), "nothing was written by a refused call");
}

/// A repeated call with the same operation id does neither part twice.
#[test]
fn a_repeated_operation_does_neither_part_twice() {
    let scratch = Scratch::new();
    let document = Document::open(scratch.target()).unwrap();
    let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
    let write = WriteOptions { operation: Some("turn-7".into()), ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    for round in 0..3 {
        let (written, appended) =
            update_and_append(&document, &journal, &["line"], &options, |current| {
                let n = current.and_then(|value| value["n"].as_u64()).unwrap_or(0);
                Ok(Some(json!({ "n": n + 1 })))
            })
            .unwrap();
        assert_eq!((written.replayed, appended.replayed), (round > 0, round > 0));
    }
    assert_eq!(document.read().unwrap().unwrap().value, json!({ "n": 1 }));
    assert_eq!(entries(&journal), 1);
}

/// Whether the document or the journal comes first by name, callers take the locks in one order.
#[test]
fn race_53_many_callers_in_any_order_do_not_deadlock() {
    let scratch = Scratch::new();
    let paths = [scratch.path("a"), scratch.path("c"), scratch.path("b")];
    std::thread::scope(|scope| {
        for turn in 0..6 {
            let (document, journal) = (&paths[turn % 2], &paths[2]);
            let (document, journal) = (document.clone(), journal.clone());
            scope.spawn(move || {
                let document = Document::open(document).unwrap();
                let journal = Journal::open(journal).unwrap();
                let write = WriteOptions { wait: Wait::Forever, ..WriteOptions::default() };
                let options = AppendOptions { write, ..AppendOptions::default() };
                for _ in 0..5 {
                    update_and_append(&document, &journal, &["x"], &options, |current| {
                        Ok(Some(json!(current.and_then(Value::as_u64).unwrap_or(0) + 1)))
                    })
                    .unwrap();
                }
            });
        }
    });
    let n = |path| Document::open(path).unwrap().read().unwrap().unwrap().value;
    assert_eq!((n(&paths[0]), n(&paths[1])), (json!(15), json!(15)));
    assert_eq!(entries(&Journal::open(&paths[2]).unwrap()), 30);
}

/// A `--lock-file` is taken once for both parts.
#[test]
fn race_15_g1_a_given_lock_file_is_waited_for_by_both_parts() {
    let scratch = Scratch::new();
    let document = Document::open(scratch.target()).unwrap();
    let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
    let lock_file = scratch.path("their.lock");
    let write = WriteOptions {
        file: tenure::file::FileOptions {
            lock_file: Some(lock_file.clone()),
            ..tenure::file::FileOptions::default()
        },
        wait: Wait::No,
        ..WriteOptions::default()
    };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let both = || {
        update_and_append(&document, &journal, &["x"], &options, |_| Ok(Some(json!({ "n": 1 }))))
    };
    both().unwrap();
    let theirs = std::fs::File::open(&lock_file).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(kind(both()), Some(ErrorKind::Busy));
    flock(&theirs, FlockOperation::Unlock).unwrap();
    both().unwrap();
    assert_eq!(entries(&journal), 2);
}

/// One file cannot be both.
#[test]
fn a_document_and_a_journal_are_two_files() {
    let scratch = Scratch::new();
    let document = Document::open(scratch.target()).unwrap();
    let journal = Journal::open(scratch.target()).unwrap();
    let options = AppendOptions::default();
    let done = update_and_append(&document, &journal, &["x"], &options, |_| Ok(Some(json!(1))));
    assert_eq!(kind(done), Some(ErrorKind::Invalid));
    assert!(!scratch.target().exists());
}

/// A tool that does not use tenure replaces the document during the call. Once: the change is
/// computed again. Without end: busy at the deadline.
#[test]
fn g6_g9_a_document_that_is_replaced_is_computed_anew_until_the_deadline() {
    for (replacements, wait) in [(1, LONG), (u64::MAX, Duration::from_millis(20))] {
        let scratch = Scratch::new();
        let document = Document::open(scratch.target()).unwrap();
        let journal = Journal::open(scratch.path("log.jsonl")).unwrap();
        let write = WriteOptions { wait: Wait::For(wait), ..at_once(None) };
        let options = AppendOptions { write, ..AppendOptions::default() };
        document.set(&json!({ "n": 0 }), &at_once(None)).unwrap();
        let mut calls = 0;
        let done = update_and_append(&document, &journal, &["x"], &options, |current| {
            calls += 1;
            if calls <= replacements {
                foreign_replace(document.path(), format!("{{\"n\":{calls}}}"));
            }
            Ok(current.map(|current| json!({ "seen": current["n"] })))
        });
        if replacements == 1 {
            done.unwrap();
            assert_eq!(document.read().unwrap().unwrap().value, json!({ "seen": 1 }));
            assert_eq!((calls, entries(&journal)), (2, 1));
        } else {
            assert_eq!(kind(done), Some(ErrorKind::Busy));
            assert_eq!(entries(&journal), 0);
        }
    }
}

/// If the journal cannot be written, the document may stay changed, and the error says so.
#[test]
fn g10_half_of_a_call_is_told_as_what_it_is() {
    for changes in [true, false] {
        let scratch = Scratch::new();
        Document::open(scratch.target()).unwrap().set(&json!({ "n": 0 }), &at_once(None)).unwrap();
        Journal::open(scratch.path("log.jsonl")).unwrap().append(&["x"], &quick()).unwrap();
        let fs = FaultyFs::new(|op, path| match op {
            Op::Write if path.extension().is_some_and(|end| end == "log") => {
                Verdict::Fail(std::io::Error::from_raw_os_error(5))
            }
            _ => Verdict::Go,
        });
        let document = Document::open_on(&fs.shared(), &scratch.target()).unwrap();
        let journal = Journal::open_on(&fs.shared(), &scratch.path("log.jsonl")).unwrap();
        let done = update_and_append(&document, &journal, &["y"], &quick(), |_| {
            Ok(changes.then(|| json!({ "n": 1 })))
        });
        let error = done.unwrap_err();
        assert_eq!(error.is_committed() == Some(true), changes, "{error}");
        assert_eq!(error.to_string().contains("the same operation id"), changes, "{error}");
        assert_eq!(document.read().unwrap().unwrap().value, json!({ "n": u8::from(changes) }));
    }
}

/// A batch whose sync failed is still in the journal, and so is the document.
#[test]
fn race_54_g8_a_failed_sync_of_the_log_leaves_both_parts_in_their_places() {
    let scratch = Scratch::new();
    let failing = Arc::new(Mutex::new(false));
    let fails = failing.clone();
    let fs = FaultyFs::new(move |op, path| {
        let is_log = path.to_string_lossy().contains("log.jsonl.");
        if op == Op::Sync && is_log && *fails.lock().unwrap() {
            return Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.target()).unwrap();
    let journal = Journal::open_on(&fs.shared(), &scratch.path("log.jsonl")).unwrap();
    journal.append(&["{}"], &AppendOptions::default()).unwrap();
    *failing.lock().unwrap() = true;
    let options = AppendOptions::default();
    let changed = |_: Option<&tenure::Value>| Ok(Some(json!({ "n": 1 })));
    let error = update_and_append(&document, &journal, &["{}"], &options, changed).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_committed()),
        (ErrorKind::NotDurable, Some(true)),
        "{error}"
    );
    assert_eq!(document.read().unwrap().unwrap().value, json!({ "n": 1 }));
    assert_eq!(entries(&journal), 2);
}

/// Commit locks are taken in path order (L4), for written and for guarding targets alike: two
/// callers that guard each other's writes never wait for one another.
#[test]
fn race_53_commit_locks_are_taken_in_one_order() {
    for (written, guards) in [("a", "b"), ("b", "a")] {
        let scratch = Scratch::new();
        let held = lease(&scratch.path(guards), "me");
        let order = Arc::new(Mutex::new(Vec::new()));
        let noted = order.clone();
        let fs = FaultyFs::new(move |op, path| {
            if op == Op::Lock && path.extension().is_some_and(|end| end == "commit") {
                noted.lock().unwrap().push(path.file_stem().unwrap().to_owned());
            }
            Verdict::Go
        });
        let guard = Guard { target: scratch.path(guards), fence: held.fence };
        let options = WriteOptions { guards: vec![guard], ..at_once(None) };
        let document = Document::open_on(&fs.shared(), &scratch.path(written)).unwrap();
        document.set(&json!(1), &options).unwrap();
        let order = order.lock().unwrap();
        assert_eq!(order[order.len() - 2..], ["a", "b"], "{written} is written");
    }
}

fn quick() -> AppendOptions {
    AppendOptions { write: at_once(None), ..AppendOptions::default() }
}

/// The document stays as it is, and cannot be made durable. The batch is in the log by then, and
/// will be in the journal: a caller that repeats the call would append it twice.
#[test]
fn g10_an_error_of_the_document_does_not_hide_that_the_batch_is_logged() {
    let scratch = Scratch::new();
    let failing = Arc::new(Mutex::new(false));
    let fails = failing.clone();
    let name = scratch.target().file_name().unwrap().to_str().unwrap().to_owned() + ".sync0";
    let fs = FaultyFs::new(move |op, path| {
        if op == Op::Write && path.ends_with(&name) && *fails.lock().unwrap() {
            return Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.target()).unwrap();
    let journal = Journal::open_on(&fs.shared(), &scratch.path("log.jsonl")).unwrap();
    document.set(&json!({ "n": 1 }), &WriteOptions::default()).unwrap();
    document.set(&json!({ "n": 2 }), &at_once(None)).unwrap();
    *failing.lock().unwrap() = true;
    let options = AppendOptions::default();
    let done = update_and_append(&document, &journal, &["{}"], &options, |_| Ok(None));
    let error = done.unwrap_err();
    journal.append(&["{}"], &AppendOptions::default()).unwrap();
    assert_eq!(entries(&journal), 2, "it comes with the next one at the latest");
    assert_eq!(error.is_committed(), Some(true), "{error}");
}
