//! Clean failure (G10): every operation of a change fails in turn, once and from there on.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use tenure::options::Durability;
use tenure::outcome::Written;
use tenure::{Document, ErrorKind, Result, WriteOptions, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::roles::{may_mount, play};

/// Which operations an error can come from.
#[derive(Debug, Clone, Copy)]
struct Fault {
    errno: Errno,
    hits: fn(Op) -> bool,
}

const FAULTS: [Fault; 5] = [
    Fault { errno: Errno::NOSPC, hits: |op| op.changes() && op != Op::Remove },
    Fault { errno: Errno::IO, hits: |_| true },
    Fault { errno: Errno::MFILE, hits: |op| matches!(op, Op::Open(_) | Op::List | Op::SyncDir) },
    Fault { errno: Errno::ACCESS, hits: |op| matches!(op, Op::Open(_)) || op.changes() },
    Fault { errno: Errno::ROFS, hits: Op::changes },
];

/// Lets the `nth` operation that the fault can hit fail, and all later ones if `forever`.
fn failing(fault: Fault, nth: u64, forever: bool) -> (FaultyFs, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let seen = count.clone();
    let fs = FaultyFs::new(move |op, _| {
        if !(fault.hits)(op) {
            return Verdict::Go;
        }
        let number = seen.fetch_add(1, Ordering::Relaxed) + 1;
        if number == nth || (forever && number > nth) {
            return Verdict::Fail(fault.errno.into());
        }
        Verdict::Go
    });
    (fs, count)
}

/// A change of a document, from the state that `prepare` makes.
struct Scenario {
    name: &'static str,
    prepare: fn(&Scratch),
    change: fn(&Document, &WriteOptions) -> Result<Written>,
    before: Option<&'static str>,
    after: &'static str,
}

fn two_versions(scratch: &Scratch) {
    let document = scratch.document("state.json");
    document.update(&durably(), increment).unwrap();
    document.update(&durably(), increment).unwrap();
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "create",
        prepare: |_| {},
        change: |document, options| document.update(options, increment),
        before: None,
        after: "{\n  \"n\": 1\n}\n",
    },
    Scenario {
        name: "update",
        prepare: two_versions,
        change: |document, options| document.update(options, increment),
        before: Some("{\n  \"n\": 2\n}\n"),
        after: "{\n  \"n\": 3\n}\n",
    },
    Scenario {
        name: "operation",
        prepare: two_versions,
        change: |document, options| {
            let options = WriteOptions { operation: Some("once".into()), ..options.clone() };
            document.update(&options, increment)
        },
        before: Some("{\n  \"n\": 2\n}\n"),
        after: "{\n  \"n\": 3\n}\n",
    },
    Scenario {
        name: "restore",
        prepare: |scratch| {
            two_versions(scratch);
            foreign_write(scratch.path("state.json"), "{\"n");
        },
        change: Document::restore,
        before: Some("{\"n"),
        after: "{\n  \"n\": 1\n}\n",
    },
    Scenario {
        name: "nothing to change",
        prepare: two_versions,
        change: |document, options| document.set(&json!({ "n": 2 }), options),
        before: Some("{\n  \"n\": 2\n}\n"),
        after: "{\n  \"n\": 2\n}\n",
    },
];

/// Runs a scenario with one fault. `false` if the fault was never reached.
fn run(scenario: &Scenario, durability: Durability, fault: Fault, nth: u64, forever: bool) -> bool {
    let case = format!(
        "{} ({durability:?}), {:?} at operation {nth}{}",
        scenario.name,
        fault.errno,
        if forever { " and after" } else { "" }
    );
    let scratch = Scratch::in_memory();
    (scenario.prepare)(&scratch);
    let path = scratch.path("state.json");
    let (fs, count) = failing(fault, nth, forever);
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let options = WriteOptions { durability, ..durably() };
    let outcome = (scenario.change)(&document, &options);
    if count.load(Ordering::Relaxed) < nth {
        outcome.unwrap_or_else(|error| panic!("{case}: no fault, but {error}"));
        return false;
    }
    let now = std::fs::read(&path).ok();
    let (before, after) = (scenario.before.map(str::as_bytes), scenario.after.as_bytes());
    let is_new = now.as_deref() == Some(after);
    assert!(is_new || now.as_deref() == before, "{case}: neither old nor new: {now:?}");
    let mut unmended = false;
    match outcome {
        Ok(_) => assert!(is_new, "{case}: reported as done"),
        Err(error) => {
            judge(&case, &error, scenario, durability, is_new);
            unmended = error.kind() == ErrorKind::NotDurable;
        }
    }

    let document = scratch.document("state.json");
    match (scenario.change)(&document, &durably()) {
        Ok(_) => {}
        // The same version again: repeating the call must not hide that its sync failed.
        Err(error) if unmended && error.kind() == ErrorKind::NotDurable => {}
        Err(error) => panic!("{case}: a lock leaked, or the next call fails otherwise: {error}"),
    }
    document.restore(&at_once()).unwrap();
    document.set(&json!({ "n": 1000 }), &durably()).unwrap();
    assert_eq!(count_in(&document), 1000, "{case}");
    assert!(scratch.temps().is_empty(), "{case}: left over: {:?}", scratch.temps());
    true
}

fn judge(
    case: &str,
    error: &tenure::Error,
    scenario: &Scenario,
    durability: Durability,
    is_new: bool,
) {
    assert!(error.path().is_some(), "{case}: names no path: {error}");
    assert!(!error.action().is_empty() && error.io_error().is_some(), "{case}: {error}");
    let expected: &[ErrorKind] = match error.is_committed() {
        Some(true) if durability == Durability::Durable => &[ErrorKind::NotDurable],
        Some(true) => &[ErrorKind::Io, ErrorKind::NotDurable],
        _ => &[ErrorKind::Io],
    };
    assert!(expected.contains(&error.kind()), "{case}: {:?}: {error}", error.kind());
    if scenario.before != Some(scenario.after) {
        let committed = error.is_committed().unwrap_or(false);
        assert_eq!(committed, is_new, "{case}: says committed {committed}: {error}");
    }
}

fn sweep(fault: Fault) {
    for scenario in &SCENARIOS {
        for durability in [Durability::Durable, Durability::NoSync] {
            for forever in [false, true] {
                let mut nth = 1;
                while run(scenario, durability, fault, nth, forever) {
                    nth += 1;
                    assert!(nth < 1000, "{}: it never completes", scenario.name);
                }
            }
        }
    }
}

#[test]
fn race_13_g10_a_full_disk_at_any_step_is_a_clean_failure() {
    sweep(FAULTS[0]);
}

#[test]
fn race_13_g10_an_io_error_at_any_step_is_a_clean_failure() {
    sweep(FAULTS[1]);
}

#[test]
fn race_13_g10_no_descriptor_left_at_any_step_is_a_clean_failure() {
    sweep(FAULTS[2]);
}

#[test]
fn race_13_g10_a_refused_permission_at_any_step_is_a_clean_failure() {
    sweep(FAULTS[3]);
}

#[test]
fn race_13_g10_a_file_system_that_turns_read_only_at_any_step_is_a_clean_failure() {
    sweep(FAULTS[4]);
}

#[test]
fn g10_short_writes_are_continued() {
    let scratch = Scratch::in_memory();
    let fs = FaultyFs::new(|op, _| if op == Op::Write { Verdict::Short } else { Verdict::Go });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    for expected in 1..=3 {
        document.update(&durably(), increment).unwrap();
        assert_eq!(count_in(&document), expected);
    }
    document.set(&json!({ "n": 9, "pad": "x".repeat(100_000) }), &durably()).unwrap();
    assert_eq!(count_in(&scratch.document("state.json")), 9);
}

#[test]
fn race_26_g8_a_sync_that_fails_before_publishing_leaves_the_old_version() {
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    document.update(&durably(), increment).unwrap();
    let fs = FaultyFs::new(|op, _| match op {
        Op::Sync => Verdict::Fail(Errno::IO.into()),
        _ => Verdict::Go,
    });
    let failing = Document::open_on(&fs.shared(), document.path()).unwrap();
    let error = failing.update(&durably(), increment).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    assert_eq!(count_in(&document), 1);
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_54_g8_a_version_whose_sync_fails_after_publishing_is_not_durable_until_published_anew() {
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    document.update(&durably(), increment).unwrap();
    let dir = scratch.dir().to_path_buf();
    let fs = FaultyFs::new(move |op, path: &Path| match op {
        Op::SyncDir if path == dir => Verdict::Fail(Errno::IO.into()),
        _ => Verdict::Go,
    });
    let failing = Document::open_on(&fs.shared(), document.path()).unwrap();
    let error = failing.update(&durably(), increment).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_committed()),
        (ErrorKind::NotDurable, Some(true)),
        "{error}"
    );
    assert_eq!(count_in(&document), 2, "the new content is visible");
    let inode = || std::fs::metadata(document.path()).unwrap().ino();
    let failed = inode();
    assert!(!document.set(&json!({ "n": 2 }), &durably()).unwrap().changed);
    assert_ne!(inode(), failed, "a second sync of the same file would prove nothing");
    let anew = inode();
    document.set(&json!({ "n": 2 }), &durably()).unwrap();
    assert_eq!(inode(), anew, "once is enough");
    document.update(&durably(), increment).unwrap();
    assert_eq!(count_in(&document), 3);
}

#[test]
fn g8_a_durable_call_that_changes_nothing_syncs_what_others_wrote() {
    // A foreign writer, or a write without a sync, stored the same content; our caller was promised
    // that it is durable.
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    let fs = FaultyFs::new(move |op, path: &Path| {
        if op == Op::Sync && path.to_string_lossy().contains(".tmp.") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.set(&json!({ "n": 2 }), &at_once()).unwrap();
    syncs.store(0, Ordering::Relaxed);
    document.set(&json!({ "n": 2 }), &durably()).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "after a write without a sync");
    document.set(&json!({ "n": 2 }), &durably()).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "and not again");
    crate::document_scratch::foreign_replace(&path, "{\n  \"n\": 3\n}\n");
    document.set(&json!({ "n": 3 }), &durably()).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 2, "after a foreign replacement");
}

/// A durable call that changes nothing still promises that the document is durable: if it cannot be
/// synced, the call must fail.
#[test]
fn g8_a_durable_call_that_changes_nothing_and_cannot_sync_says_so() {
    for broken in [Op::Sync, Op::SyncDir] {
        let scratch = Scratch::new();
        let armed = Arc::new(AtomicBool::new(false));
        let fails = armed.clone();
        let fs = FaultyFs::new(move |op, _| match op {
            _ if op == broken && fails.load(Ordering::Relaxed) => {
                Verdict::Fail(io::Error::from_raw_os_error(5))
            }
            _ => Verdict::Go,
        });
        let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        document.set(&json!({ "n": 1 }), &at_once()).unwrap();
        document.set(&json!({ "n": 2 }), &at_once()).unwrap();
        armed.store(true, Ordering::Relaxed);
        let error = document.update(&durably(), |_| Ok(None)).unwrap_err();
        let told = match broken {
            Op::Sync => (ErrorKind::Io, Some(false)),
            _ => (ErrorKind::NotDurable, Some(true)),
        };
        assert_eq!((error.kind(), error.is_committed()), told, "{broken:?}: {error}");
        armed.store(false, Ordering::Relaxed);
        document.update(&durably(), |_| Ok(None)).unwrap();
    }
}

/// The name of a document could not be synced, and then the document was removed: nothing is left
/// to be made durable.
#[test]
fn g8_a_durable_call_without_a_document_that_changes_nothing_syncs_nothing() {
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|op, _| match op {
        Op::SyncDir => Verdict::Fail(Errno::IO.into()),
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    scratch.document("state.json").update(&at_once(), increment).unwrap();
    document.update(&durably(), increment).unwrap_err();
    std::fs::remove_file(document.path()).unwrap();
    document.update(&durably(), |_| Ok(None)).unwrap();
}

#[test]
fn race_13_g10_a_really_full_disk_leaves_the_old_version_and_no_temporary_file() {
    let scratch = Scratch::new();
    let path = scratch.path("disk/state.json");
    std::fs::create_dir(scratch.path("disk")).unwrap();
    if may_mount() {
        let launcher = "exec unshare -m sh -c 'mount -t tmpfs -o size=128k none \
                        \"$(dirname \"$TENURE_TEST_PATH\")\" && exec \"$@\"' sh \"$@\"";
        play("fill the disk", &path, launcher);
    }
    play("grow beyond the limit", &path, "trap '' XFSZ; ulimit -f 64; exec \"$@\"");
}

#[test]
fn race_13_g10_a_process_short_of_descriptors_fails_cleanly_or_not_at_all() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 0}");
    for limit in 3..20 {
        // With too few, the test binary itself cannot start; that is not our case.
        let launcher = format!("ulimit -n {limit}; exec \"$@\"");
        let mut command = crate::roles::played("run out of descriptors", &path, &launcher);
        let child = crate::starting::output_of(&mut command);
        let said = child.map(|child| String::from_utf8_lossy(&child.stdout).into_owned());
        let said = said.unwrap_or_default();
        assert!(!said.contains("panicked") || said.contains("harness"), "limit {limit}: {said}");
        serde_json::from_slice::<tenure::Value>(&bytes_of(&path)).expect("a whole document");
    }
    let document = scratch.document("state.json");
    document.update(&at_once(), increment).unwrap();
    assert!(count_in(&document) > 2, "some of them could");
    assert!(scratch.temps().is_empty());
}

#[test]
fn g10_an_unsupported_lock_is_an_error_and_never_an_unlocked_write() {
    let scratch = Scratch::in_memory();
    let fs = FaultyFs::new(|op, _| match op {
        Op::Lock => Verdict::Fail(io::Error::from(Errno::NOLCK)),
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let error = document.set(&json!(1), &at_once()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(document.read().unwrap().is_none());
}

/// The instances of inotify are few, and all processes of a user share them.
#[test]
fn race_13_g10_who_gets_no_watch_polls() {
    if !rustix::process::geteuid().is_root() {
        return; // Root becomes a user whose instances no other test needs.
    }
    let scratch = Scratch::new();
    std::os::unix::fs::chown(scratch.dir(), Some(1117), Some(1117)).unwrap();
    let user = "exec setpriv --reuid=1117 --regid=1117 --clear-groups \"$@\"";
    crate::roles::play("watch without a watch", &scratch.path("state.json"), user);
}
