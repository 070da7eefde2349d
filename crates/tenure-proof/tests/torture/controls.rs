//! Code that is known to be wrong under the same storm: a judge that does not detect it is useless.

use tenure_proof::{Tally, seed};

use crate::engine::{THINGS, memory};
use crate::run::{torture, torture_in};

/// How often a control is run until all its faults were found.
pub(crate) const RUNS: u64 = 20;

/// What has to be found in a thing: the fault, and its label in the table.
type Expected = (&'static str, &'static [(&'static str, &'static str)]);

/// Runs each thing alone, under the control that breaks it, until every fault was found in it, or
/// for far too long.
fn find_out(test: &str, controls: &[(&str, &[Expected])]) {
    let mut tally = Tally::new("torture", test);
    let seed = seed("torture", test);
    let cases =
        controls.iter().flat_map(|(control, cases)| cases.iter().map(move |case| (control, case)));
    for (control, (thing, faults)) in cases {
        // What one run shows is a matter of luck on a busy machine; never to see it is not.
        let mut left = faults.to_vec();
        for run in 0..RUNS {
            let seed = (seed + run).to_string();
            let words = [*control, "--ops", thing, "--minutes", "0.1", "--seed", &seed];
            let ran = torture(&[&words[..], &["--processes", "6"]].concat());
            left.retain(|(fault, _)| !ran.has(thing, fault));
            if left.is_empty() {
                break;
            }
        }
        assert_eq!(left, [], "{thing}: not found in {RUNS} runs");
        for (_, what) in *faults {
            tally.caught(what);
        }
    }
}

/// Without tenure and without anything else: every judge has something to find.
#[test]
fn code_that_protects_nothing_is_found_out() {
    let cases: [Expected; 5] = [
        (
            "lock",
            &[
                ("two_holders", "a lock file that is overrun: two holders"),
                ("fence", "a lock file that is overrun: a fence that does not grow"),
            ],
        ),
        (
            "lease",
            &[
                ("two_holders", "a lease without a lock: two holders"),
                ("fence", "a lease without fences: a late write of a former holder"),
            ],
        ),
        (
            "doc",
            &[
                ("lost_update", "a document rewritten in place: a lost update"),
                ("torn_read", "a document rewritten in place: a torn read"),
            ],
        ),
        ("collection", &[("lost_update", "a collection rewritten in place: a lost update")]),
        (
            "journal",
            &[
                ("torn_read", "batches appended line by line: half a batch"),
                ("corrupt_file", "batches appended line by line: mixed batches"),
            ],
        ),
    ];
    find_out("code_that_protects_nothing_is_found_out", &[("--control=naive", &cases)]);
}

/// What real tools shipped, one for each kind.
#[test]
fn protocols_that_shipped_are_found_out() {
    let cases: [Expected; 4] = [
        (
            "lock",
            &[("two_holders", "OpenClaw's lock, taken over from a dead process: two holders")],
        ),
        (
            "lease",
            &[
                ("two_holders", "proper-lockfile, stale by its modification time: two holders"),
                ("fence", "proper-lockfile, stale by its modification time: a late write"),
            ],
        ),
        ("doc", &[("lost_update", "load, change, rename without a lock: a lost update")]),
        ("journal", &[("torn_read", "carl's log, two writes a record: a torn line")]),
    ];
    // Its lines are whole: a missing line was lost by the rotation.
    let rotated: [Expected; 1] =
        [("journal", &[("lost_update", "codegraph's rotation beside appends: a lost line")])];
    let controls: [(&str, &[Expected]); 2] =
        [("--control=shipped", &cases), ("--control=rotated", &rotated)];
    find_out("protocols_that_shipped_are_found_out", &controls);
}

/// A lock with one mistake that only the check of parents and children can see.
#[test]
fn a_parent_beside_its_own_child_is_found_out() {
    let cases: [Expected; 1] = [(
        "lock",
        &[("two_holders", "a lock asked for again beside the child it was left to: two holders")],
    )];
    find_out("a_parent_beside_its_own_child_is_found_out", &[("--control=reused", &cases)]);
}

/// A lock with one mistake that only a fork without exec can show.
#[test]
fn a_forked_child_that_lets_go_for_its_parent_is_found_out() {
    let cases: [Expected; 1] = [(
        "lock",
        &[("two_holders", "a lock that a forked child lets go of for its parent: two holders")],
    )];
    find_out(
        "a_forked_child_that_lets_go_for_its_parent_is_found_out",
        &[("--control=unlocked", &cases)],
    );
}

/// One thing hangs for ever, in turn, while the others continue: that one is found, and no other.
#[test]
fn a_thing_that_hangs_is_found_out_beside_others_that_go_on() {
    let test = "a_thing_that_hangs_is_found_out_beside_others_that_go_on";
    let mut tally = Tally::new("torture", test);
    let seed = seed("torture", test);
    // Patience is short here: a disk that is busy for as long would be a standstill of another thing.
    let place = memory().unwrap_or_else(std::env::temp_dir);
    let run = |thing: &str, run: u64| {
        let seed = (seed + run).to_string();
        let words = ["--leaky", thing, "--minutes", "2", "--processes", "6", "--seed", &seed];
        let ran = torture_in(&place, &words);
        ran.found(thing, "stuck");
        // By the waiting workers, and by the final check, which hangs as well.
        assert!(ran.findings_are(thing, "stuck"), "{:#}", ran.verdict);
        ran
    };
    // They wait most of the time, so two runs at once; more would slow each other down.
    let hang = |thing: &'static str| {
        // A worker that is killed inside the gate at the very first operation leaves it closed
        // before anything was done.
        let mut runs = (0..RUNS).map(|number| run(thing, number));
        let begun = runs.find(|ran| ran.operations(thing) > 0);
        (thing, begun.unwrap_or_else(|| panic!("{thing}: nothing was done in {RUNS} runs")))
    };
    let side_by_side = |things: &[&'static str]| -> Vec<_> {
        std::thread::scope(|scope| {
            let runs: Vec<_> = things.iter().map(|thing| scope.spawn(|| hang(thing))).collect();
            runs.into_iter().map(|run| run.join().expect("a run")).collect()
        })
    };
    for (thing, ran) in THINGS.chunks(2).flat_map(side_by_side) {
        // Changes were made before, and the standstill was distinguished from a slow machine.
        for one in THINGS {
            assert!(ran.operations(one) > 0, "{one}: {:#}", ran.verdict);
            assert!(one == thing || ran.is_judged(one), "{one}: {:#}", ran.verdict);
        }
        assert!(ran.number("took_ms") < 120_000, "{:#}", ran.verdict);
        tally.caught(&format!("a gate that is left shut before the {thing}: a standstill of it"));
    }
}
