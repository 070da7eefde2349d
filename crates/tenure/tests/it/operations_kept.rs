//! Operation ids across power losses: an operation acknowledged as durable is not repeated, and one
//! that is reported as done has its effect (G8, race 51).

use std::path::Path;

use tenure::{Document, WriteOptions};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::document_scratch::{at_once, count_in, durably, increment};
use crate::document_unsynced::replace_by;

const PATH: &str = "/d/state.json";

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

/// First without a sync; then its repetition is durable, and that one counts.
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

/// An operation that changes nothing is done, too.
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

/// The power fails at every step of a later change, with or without an id of its own. What was
/// acknowledged is remembered. An operation in flight may be applied twice if it is repeated, but
/// it is never reported as done if its effect is missing.
#[test]
fn race_51_an_operation_outlives_a_power_loss_during_a_later_one() {
    for later in [None, Some("x")] {
        for (nth, seed) in (1..40).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
            let fs = machine(seed);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&named("w", durably()), increment).unwrap();
            fs.fail_after(nth, CrashKind::Power);
            let options = WriteOptions { operation: later.map(str::to_owned), ..durably() };
            let _tell = fs.tell_on_panic();
            let done = open(&fs).update(&options, increment).is_ok();
            fs.crash();
            let again = open(&fs).update(&named("w", durably()), increment).unwrap();
            assert!(again.replayed, "{later:?}, step {nth}, seed {seed}");
            if later.is_some() {
                let again = open(&fs).update(&options, increment).unwrap();
                let count = count_in(&open(&fs));
                assert!(again.replayed || !done, "step {nth}, seed {seed}");
                assert!(count == 3 || (count == 4 && !again.replayed), "step {nth}, seed {seed}");
            }
        }
    }
}

/// A change dies at each of its steps, and then the machine restarts without losing anything.
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

/// An operation dies at any step, and a restore could not sync what it left. Another operation
/// publishes that anew.
#[test]
fn race_51_a_restore_does_not_forget_who_published_what_it_found() {
    for nth in 1..60 {
        let fs = machine(nth);
        let _tell = fs.tell_on_panic();
        open(&fs).update(&durably(), increment).unwrap();
        fs.fail_after(nth, CrashKind::Process);
        let _ = open(&fs).update(&named("x", durably()), increment);
        let died = fs.is_down();
        fs.process_crash();
        fs.inject(1, Fault::FileSyncFailure, Times::Once);
        let _ = open(&fs).restore(&durably());
        fs.clear_faults();
        open(&fs).restore(&durably()).unwrap();
        open(&fs).update(&named("x", durably()), increment).unwrap();
        assert_eq!(count_in(&open(&fs)), 2, "step {nth}");
        if !died {
            return;
        }
    }
    panic!("the change never came to an end");
}

/// A foreign version was recorded by a change that died before it published anything.
#[test]
fn race_51_a_change_that_dies_over_a_foreign_version_forgets_no_operation() {
    for nth in 1..60 {
        let fs = machine(nth);
        let _tell = fs.tell_on_panic();
        open(&fs).update(&named("x", durably()), increment).unwrap();
        replace_by(&fs, b"{\"n\":5}", false);
        fs.fail_after(nth, CrashKind::Process);
        let _ = open(&fs).update(&durably(), increment);
        let died = fs.is_down();
        fs.process_crash();
        replace_by(&fs, b"{\"n\":7}", false);
        let again = open(&fs).update(&named("x", durably()), increment).unwrap();
        assert!(again.replayed && count_in(&open(&fs)) == 7, "step {nth}");
        if !died {
            return;
        }
    }
    panic!("the change never came to an end");
}

/// The first change of a boot dies when its version is visible. The next caller records the
/// operation.
#[test]
fn race_51_what_was_written_down_for_a_dead_operation_is_not_forgotten() {
    let mut visible = 0;
    for nth in 1..60 {
        let fs = machine(nth);
        let _tell = fs.tell_on_panic();
        open(&fs).update(&durably(), increment).unwrap();
        fs.crash();
        fs.fail_after(nth, CrashKind::Process);
        let _ = open(&fs).update(&named("x", durably()), increment);
        let died = fs.is_down();
        fs.process_crash();
        let is_visible = count_in(&open(&fs)) == 2;
        visible += u64::from(is_visible && died);
        open(&fs).update(&at_once(), |_| Ok(None)).unwrap();
        replace_by(&fs, b"{\"n\":7}", false);
        let again = open(&fs).update(&named("x", durably()), increment).unwrap();
        assert_eq!(again.replayed, is_visible, "step {nth}");
        if !died {
            assert!(visible > 0, "it dies after its version is visible, too");
            return;
        }
    }
    panic!("the change never came to an end");
}
