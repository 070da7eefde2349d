//! Faults of the whole machine: from one moment on, every call fails that can fail that way.
//!
//! One kind of call that fails alone leaves a command all others to clean up with, and to lie with.

use tenure_proof::strace::{Calls, Case, Fault};
use tenure_testkit::Random;

/// A full disk, a broken one, one that has become read-only, and a full table of open files. `write` is
/// not among it: what is said goes to standard error, which is elsewhere.
const TOGETHER: [(&str, &[&[&str]]); 4] = [
    ("ENOSPC", &[&CHANGES]),
    ("EIO", &[&CHANGES, &OPENS, &LOOKS]),
    ("EROFS", &[&CHANGES]),
    ("EMFILE", &[&OPENS]),
];

/// What changes something on a disk, or promises that it was changed.
const CHANGES: [&str; 21] = [
    "pwrite64",
    "copy_file_range",
    "fallocate",
    "ftruncate",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "fchmod",
    "fchown",
    "fsetxattr",
    "fremovexattr",
];
/// What needs a free descriptor. strace cannot tell who makes a file from who opens one, so that these
/// do not belong to a full disk.
const OPENS: [&str; 4] = ["open", "openat", "openat2", "dup"];
/// What needs the disk to answer.
const LOOKS: [&str; 6] = ["read", "pread64", "statx", "statfs", "getdents64", "readlink"];

/// At most so many moments, with everything that fails from then on.
pub(crate) fn together(calls: &Calls, most: usize, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for (error, sets) in TOGETHER {
        for mut failing in calls.from_there_on(&sets.concat()) {
            let (call, number) = failing.remove(0);
            cases.push(Case { call, number, fault: Fault::Always(error), with: failing });
        }
    }
    while cases.len() > most {
        cases.swap_remove(random.index(cases.len()));
    }
    cases
}
