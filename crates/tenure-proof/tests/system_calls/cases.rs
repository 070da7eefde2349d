//! Which faults are tried at which call, and how the quick form samples them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tenure_proof::Form;
use tenure_proof::strace::{Calls, Case, Does, Fault, Kind};
use tenure_testkit::Random;

use super::together::together;

/// Calls that wait, or move data: after an interruption they are repeated, not reported.
const REPEATED: [&str; 8] =
    ["flock", "fsync", "fdatasync", "sync_file_range", "read", "pread64", "write", "pwrite64"];
/// Calls that a signal may interrupt on slow file systems; whether they are repeated is not promised.
const INTERRUPTED: [&str; 6] =
    ["open", "openat", "openat2", "fallocate", "ftruncate", "copy_file_range"];
/// Faults of the system as a whole. The long form tries them at every call.
const ANYWHERE: [&str; 6] = ["ENOSPC", "EIO", "EMFILE", "EACCES", "EROFS", "EDQUOT"];
/// The error of a system call filter for a call that it does not know; another one is made instead.
const UNKNOWN: [&str; 2] = ["ENOSYS", "EPERM"];
/// The long form samples too, where a command reads every process of the machine.
const LONG_MOST: usize = 40;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Calls of one kind at which the quick form kills.
    pub(crate) kills: usize,
    /// Calls of one kind for any other fault in the quick form.
    pub(crate) others: usize,
    /// Whether the long form tries errors at every call that only other calls have.
    pub(crate) anything: bool,
    /// Moments from which the quick form makes many kinds of calls fail.
    pub(crate) moments: usize,
    /// The only kinds of calls in the quick form; all if there are none.
    pub(crate) only: &'static [&'static str],
}

/// Everything, or a sample, of the faults that make sense at these calls.
pub(crate) fn cases(calls: &Calls, sample: Sample, random: &mut Random) -> Vec<Case> {
    let form = Form::asked();
    let mut attacked: BTreeMap<String, RangeInclusive<usize>> = calls.attacked();
    if form == Form::Quick && !sample.only.is_empty() {
        attacked.retain(|call, _| sample.only.contains(&call.as_str()));
    }
    let mut cases = Vec::new();
    for (call, numbers) in attacked {
        let kind = Kind::named(&call).expect("only those are attacked");
        for fault in faults(kind, form, sample.anything) {
            let quick = if fault == Fault::Kill { sample.kills } else { sample.others };
            let picked = pick(numbers.clone(), form.pick(quick, LONG_MOST), random);
            let case = |number| Case { call: call.clone(), number, fault, with: Vec::new() };
            cases.extend(picked.into_iter().map(case));
        }
    }
    let moments = form.pick(sample.moments, usize::MAX);
    cases.extend(together(calls, moments, random));
    cases
}

/// At most this many of these numbers. A command with so few reads other processes, which come and
/// go: the last calls may be missing the next time.
fn pick(numbers: RangeInclusive<usize>, most: usize, random: &mut Random) -> Vec<usize> {
    let (start, count) = (*numbers.start(), numbers.count());
    let safe = if count > LONG_MOST { count / 2 } else { count };
    let mut numbers: Vec<_> = (start..start + safe).collect();
    while numbers.len() > most {
        numbers.swap_remove(random.index(numbers.len()));
    }
    numbers
}

/// Whether the command must survive this fault without an error.
pub(crate) fn must_be_survived(case: &Case) -> bool {
    let unknown = case.call == "sync_file_range"
        && matches!(case.fault, Fault::Once(error) | Fault::Always(error) if UNKNOWN.contains(&error));
    unknown || (case.fault == Fault::Interrupted && REPEATED.contains(&case.call.as_str()))
}

/// The faults that make sense at a call.
fn faults(kind: &Kind, form: Form, anything: bool) -> Vec<Fault> {
    let long = form == Form::Long;
    let mut faults = Vec::new();
    // A death before a call that changes nothing equals a death before the next one that does.
    if long || kind.does != Does::Looks {
        faults.push(Fault::Kill);
    }
    if kind.does == Does::Ends {
        return faults;
    }
    let mut errors = kind.errors.to_vec();
    if long && anything && kind.does != Does::Begins {
        errors.extend(ANYWHERE.iter().filter(|error| !kind.errors.contains(error)));
    }
    faults.extend(errors.iter().copied().map(Fault::Once));
    if long && anything {
        faults.extend(errors.into_iter().map(Fault::Always));
    } else {
        faults.extend(kind.lasting.map(Fault::Always));
    }
    if REPEATED.contains(&kind.name) || INTERRUPTED.contains(&kind.name) {
        faults.push(Fault::Interrupted);
    }
    faults
}
