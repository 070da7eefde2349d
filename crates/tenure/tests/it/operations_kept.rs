//! Operation ids across power losses: what was acknowledged as durable is not done twice, and what is told
//! to be done is there (G8, race 51).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tenure::{Document, WriteOptions};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::document_scratch::{Scratch, foreign_write};
use crate::document_scratch::{at_once, count_in, durably, foreign_replace, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::forged::{SLOTS, forge, number_in};

const PATH: &str = "/d/state.json";
/// Where a record says when it was written.
const WRITTEN: usize = 256;
/// The name of what is attached to a file, and where in it the file's number and its birth are.
const ATTACHED: &str = "user.tenure.attached";
const INODE: usize = 20;
const BIRTH: std::ops::Range<usize> = 28..36;

fn open(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

pub(crate) fn named(id: &str, options: WriteOptions) -> WriteOptions {
    WriteOptions { operation: Some(id.into()), ..options }
}

/// What is attached to a file, where that can be.
fn attached_to(path: &Path) -> Option<Vec<u8>> {
    let mut room = [0; 256];
    let length = rustix::fs::getxattr(path, ATTACHED, &mut room[..]).ok()?;
    Some(room[..length].to_vec())
}

/// Without a sync first; then its repetition is durable, and it is the one that counts.
#[test]
fn a_durable_repetition_makes_its_operation_durable() {
    for seed in 0..100 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&named("x", at_once()), increment).unwrap();
        assert!(open(&fs).update(&named("x", durably()), increment).unwrap().replayed);
        fs.crash();
        assert!(open(&fs).update(&named("x", durably()), increment).unwrap().replayed, "{seed}");
        assert_eq!(count_in(&open(&fs)), 2, "seed {seed}");
    }
}

/// One that leaves everything as it was is done, too.
#[test]
fn a_durable_operation_that_changes_nothing_is_remembered() {
    for seed in 0..100 {
        let fs = machine(seed);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&named("y", durably()), |_| Ok(None)).unwrap();
        fs.crash();
        assert!(open(&fs).update(&named("y", durably()), increment).unwrap().replayed, "{seed}");
    }
}

/// The power goes at every step of a later change, with or without an id of its own. What was acknowledged
/// before is remembered; what was on its way is done once when it is repeated.
#[test]
fn race_51_an_operation_outlives_a_power_loss_during_a_later_one() {
    for later in [None, Some("x")] {
        for (nth, seed) in (1..40).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
            let fs = machine(seed);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&named("w", durably()), increment).unwrap();
            fs.fail_after(nth, CrashKind::Power);
            let options = WriteOptions { operation: later.map(str::to_owned), ..durably() };
            let _ = open(&fs).update(&options, increment);
            fs.crash();
            let again = open(&fs).update(&named("w", durably()), increment).unwrap();
            assert!(again.replayed, "{later:?}, step {nth}, seed {seed}: {}", fs.history());
            if later.is_some() {
                open(&fs).update(&options, increment).unwrap();
                assert_eq!(count_in(&open(&fs)), 3, "step {nth}, seed {seed}: {}", fs.history());
            }
        }
    }
}

/// A change dies at each of its steps, and the machine is started again, in order.
#[test]
fn an_operation_outlives_a_death_and_a_restart() {
    for nth in 1..40 {
        let fs = machine(nth);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&named("w", durably()), increment).unwrap();
        fs.fail_after(nth, CrashKind::Process);
        let _ = open(&fs).update(&named("x", durably()), increment);
        fs.process_crash();
        fs.crash_with(Survival::Everything);
        assert!(open(&fs).update(&named("w", durably()), increment).unwrap().replayed, "{nth}");
    }
}

/// What is attached to a file counts for the content that it was made for, and for no other.
#[test]
fn an_operation_is_not_taken_from_a_file_that_was_written_to() {
    for replaces in [false, true] {
        let scratch = Scratch::new();
        let fs = FaultyFs::new(|_, _| Verdict::Go);
        let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        document.update(&named("x", durably()), increment).unwrap();
        let restored = "{\"n\": 0}";
        let edit = if replaces { foreign_replace } else { foreign_write };
        edit(document.path(), restored);
        fs.reboot();
        assert!(!document.update(&named("x", durably()), increment).unwrap().replayed);
        assert_eq!(count_in(&document), 1);
    }
}

/// The sidecars may be lost: what the file itself says is enough.
#[test]
fn an_operation_outlives_its_record() {
    let scratch = Scratch::new();
    scratch.document("state.json").update(&named("x", durably()), increment).unwrap();
    std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    let document = scratch.document("state.json");
    assert!(document.update(&named("x", durably()), increment).unwrap().replayed);
    document.update(&durably(), increment).unwrap();
    std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    let document = scratch.document("state.json");
    assert!(document.update(&named("x", durably()), increment).unwrap().replayed, "handed on");
    assert_eq!(count_in(&document), 2);
}

/// Copied with everything that is attached to it (`cp -a`, `rsync -X`): the copy is another document, which
/// never saw the operation.
#[test]
fn an_operation_is_not_taken_from_a_copy() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.document("one.json"), scratch.document("two.json"));
    one.update(&named("x", durably()), increment).unwrap();
    let mut attached = [0; 256];
    let Ok(len) = rustix::fs::getxattr(one.path(), ATTACHED, &mut attached[..]) else {
        return; // Nothing can be attached here.
    };
    std::fs::copy(one.path(), two.path()).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(two.path(), ATTACHED, &attached[..len], flags).unwrap();
    assert!(!two.update(&named("x", durably()), increment).unwrap().replayed);
    assert_eq!(count_in(&two), 2);
    // Moved, it is the same file.
    std::fs::rename(one.path(), scratch.path("three.json")).unwrap();
    let moved = scratch.document("three.json");
    assert!(moved.update(&named("x", durably()), increment).unwrap().replayed);
}

/// Somebody put the record back as it was before an operation, and the next change is not asked about any.
#[test]
fn race_51_an_operation_outlives_a_record_that_was_put_back() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.update(&durably(), increment).unwrap();
    let record = scratch.path(".tenure/state.json.commit");
    let before = std::fs::read(&record).unwrap();
    document.update(&named("x", durably()), increment).unwrap();
    if attached_to(document.path()).is_none() {
        return; // Nothing can be attached here.
    }
    std::fs::write(&record, before).unwrap();
    // It was written long before it was put back.
    forge(&record, SLOTS, |slot| {
        let written = number_in(slot, WRITTEN) - 10_000_000;
        slot[WRITTEN..WRITTEN + 8].copy_from_slice(&written.to_le_bytes());
    });
    document.update(&durably(), increment).unwrap();
    assert!(document.update(&named("x", durably()), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 3);
}

/// An operation that changes nothing, on a full disk: it cannot be attached to the file, and is acknowledged. What
/// is attached to the file is older then than what the record remembers, and takes no place of it.
#[test]
fn ids_of_the_file_do_not_displace_newer_ones_of_the_record() {
    let mut tried = 0;
    for nth in 1..20 {
        for last in [9, 16] {
            let fs = machine(1);
            for id in 1..=8 {
                open(&fs).update(&named(&id.to_string(), durably()), increment).unwrap();
            }
            let nothing =
                |id: u32| open(&fs).update(&named(&id.to_string(), durably()), |_| Ok(None));
            let told: Vec<bool> = (9..=last)
                .map(|id| {
                    fs.inject(nth, Fault::NoSpace, Times::Once);
                    let done = nothing(id);
                    let full = fs.faults_fired() > 0;
                    fs.clear_faults();
                    full && done.is_ok()
                })
                .collect();
            if !told.iter().all(|told| *told) {
                continue;
            }
            tried += 1;
            let again = open(&fs).update(&named(&last.to_string(), durably()), increment).unwrap();
            assert!(again.replayed, "{last} at {nth}: it was done, and is done again");
        }
    }
    assert!(tried > 0);
}

/// The same at once, so that nobody can notice it: who asks for an operation asks the file as well, and its newest one
/// tells whether it knows more.
#[test]
fn race_51_an_operation_outlives_a_record_that_was_put_back_unnoticed() {
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|_, _| Verdict::Go); // It does not tell when a file was changed.
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let record = scratch.path(".tenure/state.json.commit");
    let mut before = Vec::new();
    for id in 1..=8 {
        before = std::fs::read(&record).unwrap_or_default();
        document.update(&named(&id.to_string(), at_once()), increment).unwrap();
    }
    if attached_to(document.path()).is_none() {
        return; // Nothing can be attached here.
    }
    std::fs::write(&record, before).unwrap();
    for id in ["8", "1"] {
        assert!(document.update(&named(id, at_once()), increment).unwrap().replayed, "{id}");
    }
}

/// What is attached counts in its own form, and for the very file: by its number, and by its birth where both know it.
#[test]
fn what_is_attached_counts_for_the_very_file_and_in_its_own_form_only() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change, bool); 6] = [
        ("as it was", |_| {}, true),
        ("cut", |bytes| bytes.truncate(4), false),
        ("another form", |bytes| bytes[3] = b'9', false),
        ("another birth", |bytes| bytes[BIRTH.start] ^= 1, false),
        ("a birth that is not known", |bytes| bytes[BIRTH].fill(0), true),
        (
            "another file, its birth not known",
            |bytes| {
                bytes[INODE] ^= 1;
                bytes[BIRTH].fill(0);
            },
            false,
        ),
    ];
    for (name, change, counts) in cases {
        for blind in [false, true] {
            let scratch = Scratch::new();
            let document = scratch.document("state.json");
            document.update(&named("x", at_once()), increment).unwrap();
            let Some(mut bytes) = attached_to(document.path()) else {
                return; // Nothing can be attached here.
            };
            // Whoever does not know when the file was born now believes any birth.
            let counts = counts || (name == "another birth" && (blind || bytes[BIRTH] == [0; 8]));
            change(&mut bytes);
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(document.path(), ATTACHED, &bytes, flags).unwrap();
            std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
            let fs = FaultyFs::new(|_, _| Verdict::Go); // It knows of no births.
            let fs = if blind { fs.shared() } else { tenure::fs::disk() };
            let document = Document::open_on(&fs, document.path()).unwrap();
            let again = document.update(&named("x", at_once()), increment).unwrap();
            assert_eq!(again.replayed, counts, "{name}, without births: {blind}");
        }
    }
}

/// A file that has seen other operations is moved here. Each that is new takes the place of the oldest; one that is
/// known takes none, and neither does an empty place.
#[test]
fn ids_of_a_file_that_was_moved_here_take_no_more_places_than_they_need() {
    let scratch = Scratch::new();
    let (here, there) = (scratch.document("state.json"), scratch.document("other.json"));
    for id in 1..=8 {
        here.update(&named(&id.to_string(), at_once()), increment).unwrap();
    }
    for id in ["8", "m"] {
        there.update(&named(id, at_once()), increment).unwrap();
    }
    if attached_to(there.path()).is_none() {
        return; // Nothing can be attached here.
    }
    std::fs::rename(there.path(), here.path()).unwrap();
    for id in ["m", "2"] {
        assert!(here.update(&named(id, at_once()), increment).unwrap().replayed, "{id}");
    }
}

/// What happens between an operation and its repetition in another boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// A second operation dies after its version got its name, and before that is written down.
    DiesPublished,
    /// It dies before, and a power loss has taken the first one back.
    DiesAndIsTakenBack,
    /// The document is gone.
    IsGone,
}

/// Nothing is attached to the files. After a restart the record is believed if it describes the document, or the
/// version that was about to be published.
#[test]
fn race_51_after_a_restart_a_record_counts_if_it_describes_the_document() {
    use Meanwhile::{DiesAndIsTakenBack, DiesPublished, IsGone, Nothing};
    let cases =
        [(Nothing, true), (DiesPublished, true), (DiesAndIsTakenBack, false), (IsGone, false)];
    for (meanwhile, replayed) in cases {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        let [armed, dead] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (is_armed, is_dead) = (armed.clone(), dead.clone());
        let fs = FaultyFs::new(move |op, _| {
            let died = is_dead.load(Ordering::SeqCst);
            let dies = op == Op::Exchange && is_armed.load(Ordering::SeqCst);
            is_dead.fetch_or(dies, Ordering::SeqCst);
            if died || (dies && meanwhile == DiesAndIsTakenBack) {
                return Verdict::Fail(io::Error::other("dead"));
            }
            Verdict::Go
        });
        let open = || Document::open_on(&fs.shared(), &path).unwrap();
        open().set(&json!({ "n": 0 }), &at_once()).unwrap();
        open().update(&named("one", at_once()), increment).unwrap();
        if matches!(meanwhile, DiesPublished | DiesAndIsTakenBack) {
            armed.store(true, Ordering::SeqCst);
            let _ = open().update(&named("two", at_once()), increment);
            assert!(dead.swap(false, Ordering::SeqCst), "{meanwhile:?}");
            armed.store(false, Ordering::SeqCst);
        }
        match meanwhile {
            DiesAndIsTakenBack => foreign_replace(&path, "{\"n\": 0}"),
            IsGone => std::fs::remove_file(&path).unwrap(),
            Nothing | DiesPublished => {
                let _ = rustix::fs::removexattr(&path, ATTACHED);
            }
        }
        fs.reboot();
        let again = open().update(&named("one", at_once()), increment).unwrap();
        assert_eq!(again.replayed, replayed, "{meanwhile:?}");
        if meanwhile == DiesPublished {
            assert!(open().update(&named("two", at_once()), increment).unwrap().replayed);
        }
    }
}

/// The ninth operation could not be attached to the file, and the machine is started again. The record knows the newest
/// one of the file, so it knows more: the first one, which it has forgotten, takes no place of another.
#[test]
fn ids_that_a_record_has_forgotten_do_not_come_back_after_a_restart() {
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|_, _| Verdict::Go);
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    for id in 1..=8 {
        document.update(&named(&id.to_string(), at_once()), increment).unwrap();
    }
    let Some(attached) = attached_to(document.path()) else {
        return; // Nothing can be attached here.
    };
    document.update(&named("9", at_once()), |_| Ok(None)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(document.path(), ATTACHED, &attached, flags).unwrap();
    fs.reboot();
    for id in ["2", "9"] {
        assert!(document.update(&named(id, at_once()), increment).unwrap().replayed, "{id}");
    }
}
