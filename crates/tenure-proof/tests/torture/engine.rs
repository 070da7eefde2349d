//! The lock, the lease, a document, a journal and a collection under the storm.

use std::path::PathBuf;

use tenure_proof::{Form, Tally, seed};

use crate::run::torture_in;

/// How many work at a time, in run after run.
const PROCESSES: [&str; 3] = ["8", "16", "32"];

const THINGS: [&str; 5] = ["lock", "lease", "doc", "journal", "collection"];

/// A disk as people have it, and memory: syncs cost nothing there, so that the moments between them
/// come more often.
fn places() -> Vec<(PathBuf, &'static str)> {
    let mut places = vec![(std::env::temp_dir(), "storms on the disk")];
    places.extend(memory().map(|memory| (memory, "storms in memory")));
    places
}

/// A directory in memory; `None` only where it was said that there is none.
#[cfg(target_os = "linux")]
fn memory() -> Option<PathBuf> {
    const TMPFS: u64 = 0x0102_1994;
    let memory = PathBuf::from("/dev/shm");
    let kind = rustix::fs::statfs(&memory).map(|found| u64::try_from(found.f_type));
    let works = kind == Ok(Ok(TMPFS)) && tempfile::tempdir_in(&memory).is_ok();
    let what = "/dev/shm, in memory and for everybody";
    tenure_proof::machine::allows(works, what, "TENURE_WITHOUT_MEMORY").then_some(memory)
}

/// Other systems have no such place that is always there.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "a test that did not run must be seen")]
fn memory() -> Option<PathBuf> {
    eprintln!("NOT RUN: storms in memory: it takes Linux");
    None
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
