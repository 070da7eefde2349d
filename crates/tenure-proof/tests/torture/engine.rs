//! The lock, the lease, a document, a journal and a collection under the storm.

use std::path::PathBuf;

use tenure_proof::{Form, Tally, seed};

use crate::run::torture_in;

/// How many workers at a time, in run after run: the fewest and the most already in the quick form.
const PROCESSES: [u64; 3] = [8, 32, 16];

/// At least this many operations in all.
const QUICK: u64 = 100_000;
const LONG: u64 = 10_000_000;

/// What is tortured.
pub(crate) const THINGS: [&str; 5] = ["lock", "lease", "doc", "journal", "collection"];

/// A normal disk, and memory: syncs cost nothing there, so that the moments between them come more
/// often.
fn places() -> Vec<(PathBuf, &'static str)> {
    let mut places = vec![(std::env::temp_dir(), "storms on the disk")];
    places.extend(memory().map(|memory| (memory, "storms in memory")));
    places
}

/// A directory in memory; `None` only where it was declared missing.
#[cfg(target_os = "linux")]
pub(crate) fn memory() -> Option<PathBuf> {
    const TMPFS: u64 = 0x0102_1994;
    let memory = PathBuf::from("/dev/shm");
    let kind = rustix::fs::statfs(&memory).map(|found| u64::try_from(found.f_type));
    let works = kind == Ok(Ok(TMPFS)) && tempfile::tempdir_in(&memory).is_ok();
    let what = "/dev/shm, in memory and for all users";
    tenure_proof::machine::allows(works, what, "TENURE_WITHOUT_MEMORY").then_some(memory)
}

/// Other systems have no such place that is always there.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "a test that did not run must be seen")]
pub(crate) fn memory() -> Option<PathBuf> {
    eprintln!("NOT RUN: storms in memory: it takes Linux");
    None
}

/// The sum over all quick (10^5) or long (10^7) runs.
#[test]
fn nothing_is_found_while_everybody_is_killed() {
    let mut tally = Tally::new("torture", "nothing_is_found_while_everybody_is_killed");
    let seed = seed("torture", "nothing_is_found_while_everybody_is_killed");
    // Several shorter runs: a different plan each, and more final checks.
    let (runs, total) = Form::asked().pick((2, QUICK), (30, LONG));
    let operations = total.div_ceil(runs);
    let (mut done, mut most) = (0, 0);
    let places = places();
    for (run, processes) in (0..runs).zip(PROCESSES.iter().cycle()) {
        let (place, name) = places.iter().cycle().nth(usize::from(run % 2 == 1)).expect("a place");
        let words = format!(
            "--minutes 60 --processes {processes} --seed {} --operations {operations}",
            seed + run
        );
        let words: Vec<_> = words.split(' ').collect();
        let ran = torture_in(place, &words).clean();
        let worked: u64 = THINGS.iter().map(|thing| ran.operations(thing)).sum();
        assert!(worked >= operations, "{worked} of {operations}: {:#}", ran.verdict);
        assert_eq!(ran.number("operations"), worked, "{:#}", ran.verdict);
        assert_eq!(ran.number("processes"), *processes, "{:#}", ran.verdict);
        (done, most) = (done + worked, most.max(*processes));
        tally.tried(1, name);
        for thing in THINGS {
            // Every worker really works.
            assert!(ran.operations(thing) > operations / 20, "{thing}: {:#}", ran.verdict);
            tally.tried(ran.operations(thing), &format!("{thing} operations under kills"));
        }
        // Of ten blows one is a restart.
        let blows =
            [("kills", 10), ("pauses", 10), ("restarts", 3), ("children", 10), ("forks", 10)];
        for (blow, few) in blows {
            assert!(ran.number(blow) > few, "{blow}: {:#}", ran.verdict);
            tally.tried(ran.number(blow), blow);
        }
    }
    assert!(done >= total && most == 32, "{done} of {total} operations, {most} processes");
}
