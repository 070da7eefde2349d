//! Faults of the whole machine: from one moment on, every call fails that can fail that way.
//!
//! If one kind of call fails alone, the command still has all others to clean up with, and to hide
//! the fault.

use tenure_proof::strace::{Calls, Case, Does, Fault, KINDS, Kind};
use tenure_testkit::Random;

/// A full disk, a broken one, one that has become read-only, and a full table of open files.
const TOGETHER: [&str; 4] = ["ENOSPC", "EIO", "EROFS", "EMFILE"];

/// Whether a call fails with this error of the whole machine. Output goes elsewhere, and an open
/// need not create a file: neither fails on a full disk.
fn fails(kind: &Kind, error: &str) -> bool {
    match (error, kind.does) {
        ("ENOSPC" | "EROFS" | "EIO", Does::Changes) | ("EIO" | "EMFILE", Does::Opens) => true,
        ("EIO", Does::Looks | Does::Locks) => kind.errors.contains(&error),
        _ => false,
    }
}

/// At most this many moments, with everything that fails from then on.
pub(crate) fn together(calls: &Calls, most: usize, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for error in TOGETHER {
        let kinds: Vec<_> =
            KINDS.iter().filter(|kind| fails(kind, error)).map(|kind| kind.name).collect();
        for mut failing in calls.from_there_on(&kinds) {
            let (call, number) = failing.remove(0);
            cases.push(Case { call, number, fault: Fault::Always(error), with: failing });
        }
    }
    while cases.len() > most {
        cases.swap_remove(random.index(cases.len()));
    }
    cases
}
