//! Which faults are tried at which call, and how the quick form samples them.

use std::collections::BTreeMap;

use tenure_proof::Form;
use tenure_proof::strace::{Case, Fault};
use tenure_testkit::Random;

/// Calls that change nothing: a death before one of them is a death before the next that does.
const LOOKS: [&str; 8] =
    ["fstat", "statx", "statfs", "readlink", "pread64", "read", "getdents64", "flistxattr"];
/// Calls that wait, or move data: one that was interrupted is repeated, not reported.
const REPEATED: [&str; 7] = ["flock", "fsync", "fdatasync", "read", "pread64", "write", "pwrite64"];
/// Faults of the system as a whole. The long form tries them at every call.
const ANYWHERE: [&str; 6] = ["ENOSPC", "EIO", "EMFILE", "EACCES", "EROFS", "EDQUOT"];

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Calls of one kind that the quick form kills at.
    pub(crate) kills: usize,
    /// Calls of one kind for any other fault in the quick form.
    pub(crate) others: usize,
    /// Whether the long form tries, at every call, what only other calls fail with.
    pub(crate) anything: bool,
}

/// Everything, or a sample, of the faults that make sense at these calls.
pub(crate) fn cases(
    counts: &BTreeMap<String, usize>,
    sample: Sample,
    random: &mut Random,
) -> Vec<Case> {
    let form = Form::asked();
    let mut cases = Vec::new();
    for (call, count) in counts {
        for fault in faults(call, form, sample.anything) {
            let mut numbers: Vec<_> = (1..=*count).collect();
            let most = if fault == Fault::Kill { sample.kills } else { sample.others };
            while form == Form::Quick && numbers.len() > most {
                numbers.swap_remove(random.index(numbers.len()));
            }
            let case = |number| Case { call: call.clone(), number, fault };
            cases.extend(numbers.into_iter().map(case));
        }
    }
    cases
}

/// Whether the command must get over this fault without an error.
pub(crate) fn must_be_survived(case: &Case) -> bool {
    case.fault == Fault::Interrupted && REPEATED.contains(&case.call.as_str())
}

/// The faults that make sense at a call.
fn faults(call: &str, form: Form, anything: bool) -> Vec<Fault> {
    let long = form == Form::Long;
    let mut faults = Vec::new();
    if long || !LOOKS.contains(&call) {
        faults.push(Fault::Kill);
    }
    // A failed close would keep the file open here, which Linux never does.
    if ["close", "exit_group"].contains(&call) {
        return faults;
    }
    let mut errors = likely(call).to_vec();
    if long && anything && call != "clone3" {
        errors.extend(ANYWHERE.iter().filter(|error| !likely(call).contains(error)));
    }
    faults.extend(errors.iter().copied().map(Fault::Once));
    if long && anything {
        faults.extend(errors.into_iter().map(Fault::Always));
    } else {
        faults.extend(lasting(call).map(Fault::Always));
    }
    if REPEATED.contains(&call) {
        faults.push(Fault::Interrupted);
    }
    faults
}

/// What this call fails with in practice.
fn likely(call: &str) -> &'static [&'static str] {
    match call {
        "open" | "openat" | "openat2" => &["EMFILE", "EACCES", "EROFS", "EIO", "ENOSPC"],
        "write" | "pwrite64" | "copy_file_range" | "fallocate" | "ftruncate" => {
            &["ENOSPC", "EIO", "EDQUOT"]
        }
        "fsync" | "fdatasync" => &["EIO", "ENOSPC", "EDQUOT"],
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            &["ENOSPC", "EIO", "EACCES", "EROFS"]
        }
        "mkdir" | "mkdirat" => &["ENOSPC", "EACCES", "EROFS", "EDQUOT"],
        "unlink" | "unlinkat" => &["EIO", "EACCES", "EROFS"],
        "fchmod" | "fchown" => &["EIO", "EPERM", "EROFS"],
        "flock" => &["ENOLCK", "EIO"],
        "statx" | "readlink" => &["EIO", "EACCES"],
        "fstat" | "statfs" | "read" | "pread64" | "getdents64" | "flistxattr" => &["EIO"],
        "clone3" => &["EAGAIN"],
        _ => &[],
    }
}

/// What stays: a full disk stays full, a broken one broken, and a table of open files full.
fn lasting(call: &str) -> Option<&'static str> {
    match call {
        "pwrite64" | "mkdir" => Some("ENOSPC"),
        "fsync" | "fdatasync" => Some("EIO"),
        "openat2" => Some("EMFILE"),
        "renameat" | "renameat2" | "linkat" | "unlink" => Some("EROFS"),
        _ => None,
    }
}
