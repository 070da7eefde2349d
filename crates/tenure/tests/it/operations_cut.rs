//! Operation ids of versions that a power loss has cut, that a restore found, or that somebody else has replaced (race 51).

use serde_json::json;
use tenure_testkit::{CrashKind, Fault, Times};

use crate::document_scratch::{at_once, count_in, durably, increment};
use crate::document_unsynced::{PATH, machine, open, replace_by};
use crate::operations_kept::named;

/// A power loss takes nothing but the last newline of a version that was not synced: it is that version all the same,
/// and what it contains is done.
#[test]
fn race_51_an_operation_outlives_the_loss_of_the_last_newline() {
    let mut cut = 0;
    for seed in 0..1500 {
        let fs = machine(seed);
        let pad = "x".repeat(512 - "{\n  \"n\": 1,\n  \"pad\": \"\"\n}".len());
        let once_more = |current: Option<&serde_json::Value>| {
            let n = current.map_or(0, |value| value["n"].as_u64().unwrap());
            Ok(Some(json!({ "n": n + 1, "pad": pad })))
        };
        open(&fs).update(&durably(), once_more).unwrap();
        open(&fs).update(&named("x", at_once()), once_more).unwrap();
        fs.crash();
        cut += u64::from(fs.peek(PATH).is_some_and(|bytes| bytes.len() == 512));
        open(&fs).update(&named("x", durably()), once_more).unwrap();
        assert_eq!(count_in(&open(&fs)), 2, "seed {seed}: {}", fs.history());
    }
    assert!(cut > 0, "a newline is lost now and then");
}

/// An operation dies at any step, and what it left could not be synced by a restore. Another one publishes that anew.
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

/// What another tool wrote was written down by a change that died before it published anything.
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

/// The first change of a boot dies when its version is visible. Whoever comes next writes down what it did.
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
