//! The lock, its fences, and writes that prove it.
//!
//! Mirrors, step for step: `gate::take` (open, wait in the kernel, compare the file with its name),
//! `lock::acquire` (commit lock only if the predecessor did not end), `Seen::draw` (reserve,
//! sync, confirm), `Commit::begin` (hold before commit lock, fence checked under it),
//! `Hold::publish_fence` and `Hold::release` (the mark first, under the commit lock if the fence
//! was published, or not at all if a write under it takes too long; the lock last), files that stay
//! open between turns (`target/kept.rs`) and the removal of a key in `collection/prune.rs` (C2).
//!
//! The wall clock stays at zero, the worst case of F2: only durable records make fences grow.
//! Children of a holder outlive it, with its fence. A killed process starts again. The two slots of
//! the record are the newest write and the one before it: a power loss leaves either, or what was
//! synced last. Shared holds, leases, and locks that a child inherits are not in this model.

mod process;
mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::process::{At, Process, Role};
use self::steps::State;
use crate::check;

/// The fault of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The file is not compared with its name after the grant.
    NoCheckOfName,
    /// A block of fences is used without a sync.
    FencesNotSynced,
    /// `confirmed` is written together with `ceiling`, before the sync.
    ConfirmedBeforeSync,
    /// A removed key leaves no floor.
    NoFloor,
    /// The fence is checked first and the commit lock taken after.
    CheckedBeforeCommitLock,
    /// The process that takes the lock after a dead holder does not wait for writes in flight.
    NoCommitLockAfterDeath,
    /// An unproven write takes the commit lock first and the hold after.
    CommitLockBeforeHold,
    /// A late second release releases whichever hold has the name now.
    ReleaseByName,
    /// A hold ends without the commit lock although its fence was published.
    ToldEndsWithoutCommitLock,
    /// A fence is given to a child, and accepted from it, without a mark.
    ToldWithoutMark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// An idle process wants the lock.
    Lock(usize),
    /// An idle process writes without proof.
    Write(usize),
    /// A holder starts a child that writes with its fence.
    Child(usize),
    /// A holder removes the key and its lock files.
    Prune(usize),
    /// A process does its next step.
    Step(usize),
    /// The wait of a release for a write in flight is over.
    GiveUp(usize),
    /// A process that has released releases once more.
    ReleaseAgain(usize),
    Kill(usize),
    /// Which write of the record survives: 0 what was synced, 1 the newest but one, 2 the newest.
    PowerLoss(usize),
}

#[derive(Clone, Copy, Debug)]
struct Locking {
    processes: usize,
    /// How often each process does something.
    rounds: u8,
    children: u8,
    kills: u8,
    power_losses: u8,
    prunes: u8,
    fault: Fault,
}

impl Model for Locking {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            match process.at {
                At::Idle if process.rounds > 0 => {
                    actions.extend([Action::Lock(index), Action::Write(index)]);
                }
                At::Holding => {
                    if state.children > 0 {
                        actions.push(Action::Child(index));
                    }
                    if state.prunes > 0 {
                        actions.push(Action::Prune(index));
                    }
                }
                _ => {}
            }
            if process.at == At::Idle && process.fence > 0 {
                actions.push(Action::ReleaseAgain(index));
            }
            if state.can_step(self, index) {
                actions.push(Action::Step(index));
            } else if process.at == At::WaitCommit && process.role == Role::Release {
                actions.push(Action::GiveUp(index));
            }
            if state.kills > 0 && process.at != At::Idle {
                actions.push(Action::Kill(index));
            }
        }
        if state.power_losses > 0 {
            actions.extend((0..3).map(Action::PowerLoss));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Lock(index) | Action::Write(index) => {
                let lock = action == Action::Lock(index);
                next.begin(self, index, lock);
            }
            Action::Child(index) => next.start_child(self, index),
            Action::Prune(index) => next.begin_prune(index),
            Action::Step(index) => next.step(self, index),
            // The record stays as it is: the next holder waits for that write instead.
            Action::GiveUp(index) => next.processes[index].at = At::Unlock,
            Action::ReleaseAgain(index) => next.release_again(self, index),
            Action::Kill(index) => next.kill(index),
            Action::PowerLoss(kept) => next.lose_power(kept),
        }
        // Processes differ only in their state: their order does not matter.
        next.processes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| state.count(Process::has_hold) <= 1),
            Property::always("one write at a time", |_, state: &State| {
                state.count(|process| process.at == At::Publish) <= 1
            }),
            Property::always("fences grow", |_, state: &State| !state.went_back),
            Property::always("no old fence writes", |_, state: &State| !state.stale_write),
            Property::always("a release touches only its own", |_, state: &State| {
                !state.touched_another
            }),
            Property::always("some process can go on", |model: &Self, state: &State| {
                let waits = state.count(|process| process.at != At::Idle) > 0;
                !waits || (0..state.processes.len()).any(|index| state.can_step(model, index))
            }),
            Property::sometimes("a dead holder's lock passes on", |_, state: &State| {
                state.count(|process| process.at == At::Grant && process.seen.held) > 0
            }),
            Property::sometimes("a waiter finds its lock file gone", |_, state: &State| {
                state.count(|process| {
                    process.at == At::CheckHold && process.hold != Some(state.hold_name)
                }) > 0
            }),
            Property::sometimes("an old fence is refused", |_, state: &State| state.refused),
            Property::sometimes("a fence after a power loss", |model: &Self, state: &State| {
                state.power_losses < model.power_losses
                    && state.count(|process| process.at == At::Holding) > 0
            }),
        ]
    }
}

const QUICK: Locking = Locking {
    processes: 2,
    rounds: 2,
    children: 1,
    kills: 1,
    power_losses: 1,
    prunes: 1,
    fault: Fault::None,
};

#[test]
fn one_holder_growing_fences_and_no_old_write() {
    let mut tally = Tally::new("models", "one_holder_growing_fences_and_no_old_write");
    check::holds(&mut tally, "two processes", QUICK);
    let crowd = Locking { processes: 3, rounds: 1, ..QUICK };
    check::holds(&mut tally, "three processes", crowd);
    if Form::asked() == Form::Long {
        let more = Locking { kills: 2, power_losses: 2, rounds: 3, ..QUICK };
        check::holds(&mut tally, "two processes, many deaths", more);
        let crowd = Locking { processes: 4, rounds: 1, children: 2, kills: 2, ..QUICK };
        check::holds(&mut tally, "four processes", crowd);
    }
}

#[test]
fn broken_locks_are_found_out() {
    let mut tally = Tally::new("models", "broken_locks_are_found_out");
    for (name, fault, rule) in [
        ("no check of the name after the grant", Fault::NoCheckOfName, "one holder"),
        ("fences reserved without a sync", Fault::FencesNotSynced, "fences grow"),
        ("fences confirmed before the sync", Fault::ConfirmedBeforeSync, "fences grow"),
        ("a removed key leaves no floor", Fault::NoFloor, "fences grow"),
        (
            "fence checked before the commit lock",
            Fault::CheckedBeforeCommitLock,
            "no old fence writes",
        ),
        ("no commit lock after a death", Fault::NoCommitLockAfterDeath, "no old fence writes"),
        ("commit lock before the hold", Fault::CommitLockBeforeHold, "some process can go on"),
        ("release by name", Fault::ReleaseByName, "one holder"),
        (
            "a told fence ends without the commit lock",
            Fault::ToldEndsWithoutCommitLock,
            "no old fence writes",
        ),
        ("a fence told without a mark", Fault::ToldWithoutMark, "no old fence writes"),
    ] {
        check::is_refuted(&mut tally, name, rule, Locking { fault, ..QUICK });
    }
    let record = Locking { fault: Fault::ReleaseByName, ..QUICK };
    check::is_refuted(&mut tally, "release by name", "a release touches only its own", record);
}
