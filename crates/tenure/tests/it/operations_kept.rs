//! Operation ids across power losses: what was acknowledged as durable is not done twice, and what is told
//! to be done is there (G8, race 51).

use std::path::Path;

use tenure::{Document, WriteOptions};
use tenure_testkit::{CrashKind, SimFs, Survival};

use crate::document_scratch::{Scratch, foreign_write};
use crate::document_scratch::{at_once, count_in, durably, foreign_replace, increment};
use crate::faulty_fs::{FaultyFs, Verdict};
use crate::forged::{SLOTS, forge, number_in};

const PATH: &str = "/d/state.json";
/// Where a record says when it was written.
const WRITTEN: usize = 256;

fn open(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn named(id: &str, options: WriteOptions) -> WriteOptions {
    WriteOptions { operation: Some(id.into()), ..options }
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
    const ATTACHED: &str = "user.tenure.attached";
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
    if rustix::fs::getxattr(document.path(), "user.tenure.attached", &mut [0; 256][..]).is_err() {
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
