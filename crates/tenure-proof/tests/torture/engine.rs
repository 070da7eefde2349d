//! The lock, the lease, a document, a journal and a collection under the storm.

use std::path::PathBuf;

use tenure_proof::{Form, Tally, seed};

use crate::run::{torture, torture_in};

/// So often a control is run until all that it does wrong was found.
const RUNS: u64 = 10;

/// How many work at a time, in run after run.
const PROCESSES: [&str; 3] = ["8", "16", "32"];

const THINGS: [&str; 5] = ["lock", "lease", "doc", "journal", "collection"];

/// A disk as people have it, and memory where it can be had: syncs cost nothing there, so that the
/// moments between them come more often.
fn places() -> Vec<(PathBuf, &'static str)> {
    let memory = PathBuf::from("/dev/shm");
    let mut places = vec![(std::env::temp_dir(), "storms on the disk")];
    if memory.is_dir() {
        places.push((memory, "storms in memory"));
    }
    places
}

/// The sum over all quick (10^5) or long (10^7) runs.
#[test]
fn nothing_is_found_while_everybody_is_killed() {
    let mut tally = Tally::new("torture", "nothing_is_found_while_everybody_is_killed");
    let seed = seed("torture", "nothing_is_found_while_everybody_is_killed");
    // Several shorter runs: another plan each, and the last look at the files comes more often.
    let (runs, operations) = Form::asked().pick((2, 50_000), (30, 333_334));
    let places = places();
    for (run, processes) in (0..runs).zip(PROCESSES.iter().cycle()) {
        let (place, name) = &places[run % places.len()];
        let (seed, operations) = ((seed + run as u64).to_string(), operations.to_string());
        let words = ["--minutes", "60", "--processes", processes, "--seed", &seed];
        let words = [&words[..], &["--operations", &operations]].concat();
        let ran = torture_in(place, &words).clean();
        tally.tried(1, name);
        for thing in THINGS {
            assert!(ran.operations(thing) > 100, "{thing}: {:#}", ran.verdict);
            tally.tried(ran.operations(thing), &format!("{thing} operations under kills"));
        }
        for blow in ["kills", "pauses", "restarts", "children"] {
            assert!(ran.number(blow) > 10, "{blow}: {:#}", ran.verdict);
            tally.tried(ran.number(blow), blow);
        }
    }
}

/// Each thing alone, done without tenure: every judge has something to find, and does.
#[test]
fn code_that_protects_nothing_is_found_out() {
    let mut tally = Tally::new("torture", "code_that_protects_nothing_is_found_out");
    let seed = seed("torture", "code_that_protects_nothing_is_found_out");
    let cases: [(&str, &[(&str, &str)]); 5] = [
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
    for (thing, faults) in cases {
        // What is seen in one run is a matter of luck on a busy machine; never to see it is not.
        let mut left = faults.to_vec();
        for run in 0..RUNS {
            let seed = (seed + run).to_string();
            let ran = torture(&["--naive", "--ops", thing, "--minutes", "0.2", "--seed", &seed]);
            left.retain(|(fault, _)| !ran.has(thing, fault));
            if left.is_empty() {
                break;
            }
        }
        assert_eq!(left, [], "{thing}: not found in {RUNS} runs");
        for (_, what) in faults {
            tally.caught(what);
        }
    }
}
