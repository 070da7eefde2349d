//! A durable append: logged, synced together with others, written to the journal, acknowledged.
//!
//! Mirrors `journal/append.rs` (log and count under the commit lock, `make_durable`, `apply`,
//! `write_again`), `group.rs` (leader, followers, both notes, doubt, patience) and the recovery in
//! `journal/session.rs`. A batch has two lines, so that it can be torn. A failed sync leaves pages that
//! the kernel believes to be clean, and is reported once per open file, as Linux does.
//!
//! One variant is no invention but a limit of the code: a batch whose sync failed is written to the
//! journal all the same ([`Fault::AppliedUnsynced`]), so a power loss soon after can leave a part of it,
//! which nobody was promised. The model without it shows that this is the whole price; the same is
//! excused in a recovery that finds such a batch.

mod state;
mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::state::{At, State};
use crate::check;

/// What is wrong with a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Who syncs for itself does not say so before.
    Unmarked,
    /// The batch is acknowledged when it is logged.
    AckBeforeSync,
    /// A follower takes the end of the leader for its success.
    BelievesLeader,
    /// How far the sync reached is read after it.
    ReachReadAfterSync,
    /// A failed sync is neither noted nor mended by writing the pages again.
    FailureForgotten,
    /// A batch goes to the journal before its log entry is synced.
    JournalFirst,
    /// Who finds an unfinished sync, or syncs for itself, does not write the pages again first.
    NoDoubt,
    /// A batch whose sync failed goes to the journal.
    AppliedUnsynced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Append(usize),
    Step(usize),
    /// The sync that the process waits for fails.
    SyncFails(usize),
    /// A follower has waited long enough, or a leader that would let others in.
    Patience(usize),
    Kill(usize),
    /// How many log entries and how many lines of the journal survive.
    PowerLoss(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Appending {
    processes: usize,
    batches: u8,
    kills: u8,
    sync_errors: u8,
    power_losses: u8,
    fault: Fault,
}

impl Model for Appending {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            if process.at == At::Idle {
                if process.batches > 0 {
                    actions.push(Action::Append(index));
                }
                continue;
            }
            if state.can_step(index) {
                actions.push(Action::Step(index));
            }
            if process.at == At::SyncEnd && state.sync_errors > 0 {
                actions.push(Action::SyncFails(index));
            }
            if state.may_lose_patience(index) {
                actions.push(Action::Patience(index));
            }
            if state.kills > 0 {
                actions.push(Action::Kill(index));
            }
        }
        if state.power_losses > 0 {
            let lines = state.lines;
            let kept = state.log_can_keep();
            actions.extend(
                kept.flat_map(|log| (0..=lines).map(move |lines| Action::PowerLoss(log, lines))),
            );
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Append(index) => {
                next.processes[index].batches -= 1;
                next.processes[index].at = At::WaitLog;
            }
            Action::Step(index) => next.step(index, self.fault),
            Action::SyncFails(index) => next.fail_sync(index, self.fault),
            Action::Patience(index) => next.lose_patience(index),
            Action::Kill(index) => {
                next.kills -= 1;
                next.end(index);
            }
            Action::PowerLoss(log, lines) => next.lose_power(log, lines),
        }
        next.processes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what was acknowledged survives", |_, state: &State| !state.lost),
            Property::always("batches are whole", |_, state: &State| !state.torn),
            Property::always("somebody can go on", |_, state: &State| {
                let busy = state.processes.iter().any(|process| process.at != At::Idle);
                !busy || (0..state.processes.len()).any(|index| state.can_step(index))
            }),
            Property::sometimes("one sync serves two", |_, state: &State| state.served),
            Property::sometimes(
                "a batch of a dead writer is in the journal",
                |_, state: &State| {
                    state.lines == 2 * state.counted()
                        && state.acked.count_ones() < 2
                        && state.lines == 4
                },
            ),
            Property::sometimes("a log survives that nobody acknowledged", |_, state: &State| {
                state.rolled_forward
            }),
        ]
    }
}

const QUICK: Appending = Appending {
    processes: 2,
    batches: 1,
    kills: 1,
    sync_errors: 1,
    power_losses: 1,
    fault: Fault::None,
};

#[test]
fn acknowledged_batches_survive_whole() {
    let mut tally = Tally::new("models", "acknowledged_batches_survive_whole");
    check::holds(&mut tally, "two writers", QUICK);
    let crowd = Appending { processes: 3, kills: 1, sync_errors: 0, ..QUICK };
    check::holds(&mut tally, "three writers", crowd);
    let again = Appending { batches: 2, kills: 1, sync_errors: 1, ..QUICK };
    check::holds(&mut tally, "two writers, twice", again);
    if Form::asked() == Form::Long {
        check::holds(
            &mut tally,
            "three writers, a failed sync",
            Appending { processes: 3, ..QUICK },
        );
        let more = Appending { kills: 2, sync_errors: 2, power_losses: 2, ..again };
        check::holds(&mut tally, "two writers, many faults", more);
    }
}

#[test]
fn broken_appends_are_found_out() {
    let mut tally = Tally::new("models", "broken_appends_are_found_out");
    let (lost, torn) = ("what was acknowledged survives", "batches are whole");
    for (name, fault, rule, model) in [
        ("acknowledged before the sync", Fault::AckBeforeSync, lost, QUICK),
        ("a follower believes a dead leader", Fault::BelievesLeader, lost, QUICK),
        ("the reach read after the sync", Fault::ReachReadAfterSync, lost, QUICK),
        ("a failed sync forgotten", Fault::FailureForgotten, lost, QUICK),
        ("the journal before the log", Fault::JournalFirst, torn, QUICK),
        ("no doubt about an unfinished sync", Fault::NoDoubt, lost, QUICK),
        ("a lone sync without a mark", Fault::Unmarked, lost, Appending { batches: 2, ..QUICK }),
        ("a batch applied after a failed sync", Fault::AppliedUnsynced, torn, QUICK),
    ] {
        check::is_refuted(&mut tally, name, rule, Appending { fault, ..model });
    }
}
