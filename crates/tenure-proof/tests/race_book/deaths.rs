//! A command that dies at one of its system calls, by strace.

use std::path::Path;

use tenure_proof::strace::{Case, Does, Fault, Kind, Traced};

/// Every death of a command at a call of these kinds; the calls come from a run without a fault.
pub(crate) fn deaths(command: &Traced<'_>, kinds: &[Does]) -> Vec<Case> {
    let attacked = command.calls().attacked().into_iter();
    let of_kind = |name: &str| Kind::named(name).is_some_and(|kind| kinds.contains(&kind.does));
    let calls = attacked.filter(|(call, _)| of_kind(call));
    calls.flat_map(|(call, numbers)| numbers.map(move |number| death(&call, number))).collect()
}

fn death(call: &str, number: usize) -> Case {
    Case { call: call.to_owned(), number, fault: Fault::Kill, with: Vec::new() }
}

/// A command in `dir`, whose calls strace writes to `log`.
pub(crate) fn traced<'a>(
    program: &'a Path,
    args: &'a [&'a str],
    dir: &'a Path,
    log: &'a Path,
) -> Traced<'a> {
    Traced { program, args, dir, lacks: None, log }
}
