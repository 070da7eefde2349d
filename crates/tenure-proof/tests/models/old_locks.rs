//! Known-bad locks: files whose existence is the lock, with a stale one taken over.
//!
//! Mirrors `crates/tenure-shipped/src/locks/`: `stale_takeover.rs` (unlink, then create) and
//! `rename_nonce.rs` (rename over, then read the nonce). The checker must find two holders in both,
//! and none in a steal that compares and replaces in one step, which no file system offers.

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use crate::check;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steal {
    UnlinkThenCreate,
    RenameThenReadNonce,
    /// Replaces the file only if it is still the one that was judged.
    CompareAndSwap,
}

/// What a process does next. The number is the owner that it read and found dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Create,
    Judge,
    Steal(usize),
    ReadNonce,
    Inside,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The owner that the lock file names, if there is one.
    file: Option<usize>,
    processes: Vec<At>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Step(usize),
    Kill(usize),
}

struct FileLock {
    processes: usize,
    steal: Steal,
}

impl Model for FileLock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { file: None, processes: vec![At::Create; self.processes] }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (process, at) in state.processes.iter().enumerate() {
            if *at != At::Dead {
                actions.extend([Action::Step(process), Action::Kill(process)]);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let process = match action {
            Action::Kill(process) => {
                next.processes[process] = At::Dead;
                return Some(next);
            }
            Action::Step(process) => process,
        };
        next.processes[process] = match state.processes[process] {
            At::Create if state.file.is_none() => {
                next.file = Some(process);
                At::Inside
            }
            At::Create => At::Judge,
            At::Judge => match state.file {
                Some(owner) if state.processes[owner] == At::Dead => At::Steal(owner),
                _ => At::Create,
            },
            At::Steal(judged) => match self.steal {
                Steal::UnlinkThenCreate => {
                    next.file = None;
                    At::Create
                }
                Steal::RenameThenReadNonce => {
                    next.file = Some(process);
                    At::ReadNonce
                }
                Steal::CompareAndSwap if state.file == Some(judged) => {
                    next.file = Some(process);
                    At::Inside
                }
                Steal::CompareAndSwap => At::Create,
            },
            At::ReadNonce if state.file == Some(process) => At::Inside,
            At::ReadNonce => At::Create,
            At::Inside => {
                // The first of them removed by name; this is the kinder variant, which checks
                // first.
                if state.file == Some(process) {
                    next.file = None;
                }
                At::Create
            }
            At::Dead => return None,
        };
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| {
                state.processes.iter().filter(|at| **at == At::Inside).count() <= 1
            }),
            Property::sometimes("the lock of a dead holder passes on", |_, state: &State| {
                state.processes.contains(&At::Inside) && state.processes.contains(&At::Dead)
            }),
        ]
    }
}

#[test]
fn old_protocols_have_two_holders() {
    let mut tally = Tally::new("models", "old_protocols_have_two_holders");
    let processes = Form::asked().pick(3, 5);
    for (fault, steal) in [
        ("unlink, then create", Steal::UnlinkThenCreate),
        ("rename over, then read the nonce", Steal::RenameThenReadNonce),
    ] {
        check::is_refuted(&mut tally, fault, "one holder", FileLock { processes, steal });
    }
    let sound = FileLock { processes, steal: Steal::CompareAndSwap };
    check::holds(&mut tally, "a steal in one step", sound);
}
