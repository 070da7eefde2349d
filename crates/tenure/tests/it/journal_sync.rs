//! The shared sync when things go wrong: a leader that dies, a note that is torn, a follower that
//! syncs alone, no descriptor to sync with. Cites S1-S6, G8 and race 54.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use tenure::fs::{Access, Mode, disk};
use tenure::{AppendOptions, Document, ErrorKind, Journal};
use tenure_testkit::{CrashKind, Fault, SimFs, Times};

use crate::document_scratch::{Scratch, durably};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::journal::{Dir, durable};

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new("/d/log.jsonl")).unwrap()
}

/// The log's sync fails in a process that dies `nth` operations after it began to append. Returns
/// whether it died.
fn leader_dies(nth: u64, seed: u64) -> bool {
    let fs = SimFs::new(seed);
    let _tell = fs.tell_on_panic();
    fs.add_dir("/d");
    open(&fs).append(&["first"], &AppendOptions::default()).unwrap();
    fs.inject(1, Fault::SyncFailure, Times::Once);
    fs.fail_after(nth, CrashKind::Process);
    let told = open(&fs).append(&["second"], &AppendOptions::default());
    assert!(told.is_err(), "a failed sync is an error");
    let died = fs.is_down();
    fs.process_crash();
    fs.clear_faults();
    let acknowledged = ["third", "fourth"].map(|line| {
        let done = open(&fs).append(&[line], &AppendOptions::default());
        done.is_ok().then_some(line)
    });
    assert!(acknowledged[1].is_some(), "it works again");
    fs.crash();
    let entries = open(&fs).read(0, None).unwrap().map(Result::unwrap);
    let lines: Vec<String> =
        entries.map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect();
    for line in acknowledged.into_iter().flatten().chain(["first"]) {
        assert!(lines.iter().any(|found| found == line), "{line} was durable, {lines:?} is there");
    }
    died
}

#[test]
fn race_54_s3_nobody_relies_on_pages_of_a_leader_that_died_with_a_failed_sync() {
    for seed in 0..40 {
        let survived = (1..1000).find(|nth| !leader_dies(*nth, seed));
        assert!(survived.is_some_and(|nth| nth > 5), "every step was its last once");
    }
}

#[test]
fn race_54_s5_a_torn_note_is_no_success_and_elects_nobody() {
    let dir = Dir::new("torn-note");
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&["one"], &durable()).unwrap();
    let note = dir.log().with_file_name(".tenure").join("log.jsonl.sync0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(note).unwrap();
    let tear = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };
    for at in [16, 24, 32, 63] {
        tear(64 + at);
        tear(192 + at);
        let doubtful = journal.append(&["two"], &durable()).unwrap_err();
        assert_eq!(doubtful.kind(), ErrorKind::NotDurable, "a failure may have stood there");
        assert_eq!(doubtful.is_committed(), Some(true));
        journal.append(&["three"], &durable()).unwrap();
    }
}

/// A note is read while it is written, and looks torn; read again, it is whole.
#[test]
fn s5_a_note_that_was_read_while_it_was_written_is_read_again() {
    let scratch = Scratch::in_memory();
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    let whole = std::fs::read(scratch.path(".tenure/state.json.sync0")).unwrap();
    let reads = AtomicU64::new(0);
    let fs = FaultyFs::new(move |op, path: &Path| {
        if op == Op::Read && path.extension().is_some_and(|end| end == "sync0") {
            let mut now = whole.clone();
            let nth = reads.fetch_add(1, Ordering::Relaxed);
            if nth < 2 {
                // In another way each time.
                now[64 + 40..][..4].fill(1 + u8::from(nth > 0));
                now[192 + 40..][..4].fill(1 + u8::from(nth > 0));
            }
            if nth < 3 {
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&now, 0).unwrap();
            }
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    document.set(&json!({ "n": 2 }), &durably()).unwrap();
}

#[test]
fn g8_s6_a_sync_that_cannot_begin_poisons_nobody() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    for refusal in [24, 13] {
        let (dir, refuse) = (scratch.dir().to_path_buf(), Arc::new(AtomicBool::new(true)));
        let once = refuse.clone();
        let fs = FaultyFs::new(move |op, path: &Path| match op {
            Op::SyncDir if path == dir && once.swap(false, Ordering::Relaxed) => {
                Verdict::Fail(io::Error::from_raw_os_error(refusal))
            }
            _ => Verdict::Go,
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        let own = document.set(&json!({ "n": refusal }), &durably()).unwrap_err();
        assert_eq!(own.is_committed(), Some(true), "{own}");
        document.set(&json!({ "n": refusal }), &durably()).unwrap();
    }
}

#[test]
fn race_54_s4_a_follower_whose_own_sync_fails_tells_the_others() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    let leader: Vec<_> = ["sync0", "sync1"]
        .map(|suffix| scratch.dir().join(".tenure").join(format!("state.json.{suffix}")))
        .iter()
        .map(|file| disk().open(file, Access::Create(0o600)).unwrap())
        .collect();
    for lock in &leader {
        lock.lock(Mode::Exclusive).unwrap();
    }
    let dir = scratch.dir().to_path_buf();
    let fs = FaultyFs::new(move |op, path: &Path| match op {
        Op::SyncDir if path == dir => Verdict::Fail(io::Error::from_raw_os_error(5)),
        _ => Verdict::Go,
    });
    let follower = Document::open_on(&fs.shared(), &path).unwrap();
    let alone = follower.set(&json!({ "n": 2 }), &durably()).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::NotDurable, "{alone}");
    drop(leader);
    let other = document.set(&json!({ "n": 2 }), &durably()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::NotDurable, "the same change, seen by somebody else");
    document.set(&json!({ "n": 3 }), &durably()).unwrap();
}
