//! A durable append: logged, synced together with others, written to the journal, acknowledged.
//!
//! Mirrors, below `crates/tenure/src/file/`: `journal/append.rs` (log and count under the commit
//! lock, `finish`, `LogSync`), `sync.rs` (leader, followers, the note, patience),
//! `journal/checkpoint.rs` (a new log: written, synced, renamed, directory synced),
//! `journal/writer.rs` (`apply`, `sync_names`) and `journal/recover.rs` (after a death and after a
//! restart). The reader is that of `journal/view.rs`.
//!
//! A batch is two lines of the journal, so that it can be torn, and one record of the log. A failed
//! sync leaves pages that the kernel considers clean: no later sync of that file writes them, or
//! reports that. A power loss leaves the log under one of the names since the last sync of the
//! directory, its chain up to any record that was not synced, and any of the lines that were not
//! synced.
//!
//! Not in this model: lines of other tools and batches without a sync (`unsynced`), rotation, and
//! damage.
//!
//! One limit of the code is excluded: if the sync of a batch fails, and the new log fails as well,
//! the batch is still visible. A power loss can remove it, or leave a part, until a later
//! checkpoint succeeds. Its caller got an error.
//!
//! # Invariants
//!
//! 1. Success means durable: whatever a power loss leaves, the batch is there with its number.
//! 2. What a reader saw stays, and its number is given to no other batch.
//! 3. A batch is whole or absent, and the journal has the order of the numbers.
//! 4. Some process can always continue.

mod section;
mod state;
mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::state::{At, State};
use crate::check;

/// The fault of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The batch is acknowledged when it is logged.
    AckBeforeSync,
    /// A follower takes the end of the leader for success.
    LeaderBelieved,
    /// The reach of the sync is read after it.
    ReachReadLate,
    /// After a failed sync, or one whose leader died, the same file is synced again.
    SyncedAgain,
    /// The leader writes to the journal before it syncs the log.
    JournalFirst,
    /// The leader does not note that its sync failed.
    DoubtForgotten,
    /// The state does not say that a new log failed.
    LogDoubtForgotten,
    /// The state does not say that a sync of the journal failed.
    JournalDoubtForgotten,
    /// After a failed sync the batches are written to the journal without a new log.
    NoNewLog,
    /// The new log gets its name before it is synced.
    RenamedBeforeSynced,
    /// The directory is not synced.
    NameNotSynced,
    /// After a failed sync of the directory it is synced again.
    NameSyncedAgain,
    /// A caller writes only its own batch to the journal.
    OwnBatchOnly,
    /// Recovery writes pending batches to the journal without a new log.
    PlacedWithoutLog,
    /// Recovery appends a batch without checking whether it is there.
    PlacedAgain,
    /// Recovery shows pending batches before the new log has a durable name.
    VisibleBeforeNamed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Append(usize),
    Step(usize),
    /// The sync that the process is in fails.
    SyncFails(usize),
    /// The log is long: a checkpoint comes first.
    MakeRoom(usize),
    /// The wait of a caller, or of a leader that writes batches to the journal, is over.
    Patience(usize),
    Kill(usize),
    /// Which of the logs keeps the name, how much of its chain, and which lines of the journal are left.
    PowerLoss {
        name: usize,
        chain: usize,
        lines: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Appending {
    processes: usize,
    /// How many batches each appends.
    batches: u8,
    kills: u8,
    sync_errors: u8,
    power_losses: u8,
    checkpoints: u8,
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
            if state.sync_errors > 0 && state.can_fail(index) {
                actions.push(Action::SyncFails(index));
            }
            if state.checkpoints > 0 && process.at == At::Log {
                actions.push(Action::MakeRoom(index));
            }
            if state.can_lose_patience(index) {
                actions.push(Action::Patience(index));
            }
            if state.kills > 0 {
                actions.push(Action::Kill(index));
            }
        }
        if state.power_losses > 0 {
            state.losses(|name, chain, lines| {
                actions.push(Action::PowerLoss { name, chain, lines });
            });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Append(index) => {
                next.processes[index].batches -= 1;
                next.processes[index].at = At::WaitCommit;
            }
            Action::Step(index) => next.step(index, self.fault),
            Action::SyncFails(index) => next.fail_sync(index, self.fault),
            Action::MakeRoom(index) => next.make_room(index),
            Action::Patience(index) => next.lose_patience(index),
            Action::Kill(index) => {
                next.kills -= 1;
                next.end(index);
            }
            Action::PowerLoss { name, chain, lines } => next.lose_power(name, chain, lines),
        }
        next.look();
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SURVIVES, |_, state: &State| state.shows(&state.acked)),
            Property::always(DURABLE, |_, state: &State| !state.false_success),
            Property::always(STAYS, |_, state: &State| state.shows(&state.seen)),
            Property::always(ONCE, |_, state: &State| !state.given_twice),
            Property::always(WHOLE, |_, state: &State| state.is_whole()),
            Property::always(ORDER, |_, state: &State| {
                let numbers = state.journal.iter().map(|line| usize::from(line.number));
                numbers.enumerate().all(|(at, number)| number == at / 2 + 1)
            }),
            Property::always("some process can go on", |_, state: &State| {
                let busy = state.processes.iter().any(|process| process.at != At::Idle);
                !busy || (0..state.processes.len()).any(|index| state.can_step(index))
            }),
            Property::sometimes("all batches are acknowledged", |_, state: &State| {
                state.acked[1..].iter().all(|batch| *batch != 0)
            }),
            Property::sometimes("one sync serves two", |_, state: &State| state.served),
            Property::sometimes("a batch stays that no caller waits for", |_, state: &State| {
                let idle = state.processes.iter().all(|process| process.at == At::Idle);
                idle && state.seen != state.acked
            }),
        ]
    }
}

const SURVIVES: &str = "what was acknowledged survives";
const DURABLE: &str = "success means durable";
const STAYS: &str = "what a reader saw stays";
const ONCE: &str = "a number is given once";
const WHOLE: &str = "a batch is whole or absent";
const ORDER: &str = "the journal has the order of the numbers";

const QUICK: Appending = Appending {
    processes: 2,
    batches: 1,
    kills: 1,
    sync_errors: 1,
    power_losses: 1,
    checkpoints: 0,
    fault: Fault::None,
};

#[test]
fn acknowledged_batches_survive_whole() {
    let mut tally = Tally::new("models", "acknowledged_batches_survive_whole");
    check::holds(&mut tally, "two writers", QUICK);
    let long = Appending { checkpoints: 1, ..QUICK };
    check::holds(&mut tally, "two writers, a long log", long);
    let again = Appending { batches: 2, kills: 0, sync_errors: 0, ..QUICK };
    check::holds(&mut tally, "two writers, twice", again);
    if Form::asked() == Form::Long {
        check::holds(&mut tally, "three writers", Appending { processes: 3, ..QUICK });
        check::holds(
            &mut tally,
            "two writers, twice, a failed sync",
            Appending { batches: 2, ..QUICK },
        );
        let many = Appending { kills: 2, sync_errors: 2, power_losses: 2, ..long };
        check::holds(&mut tally, "two writers, many faults", many);
    }
}

#[test]
fn broken_appends_are_found_out() {
    let mut tally = Tally::new("models", "broken_appends_are_found_out");
    let twice = Appending { batches: 2, ..QUICK };
    let failing = Appending { sync_errors: 2, ..twice };
    for (name, fault, rule, model) in [
        ("acknowledged before the sync", Fault::AckBeforeSync, SURVIVES, QUICK),
        ("a follower believes the leader's end", Fault::LeaderBelieved, SURVIVES, QUICK),
        ("the reach read after the sync", Fault::ReachReadLate, SURVIVES, QUICK),
        ("a failed sync repeated", Fault::SyncedAgain, SURVIVES, QUICK),
        ("the journal before the log", Fault::JournalFirst, WHOLE, QUICK),
        ("the doubt forgotten", Fault::DoubtForgotten, DURABLE, QUICK),
        ("the doubt about a log forgotten", Fault::LogDoubtForgotten, SURVIVES, failing),
        ("the doubt about the journal forgotten", Fault::JournalDoubtForgotten, SURVIVES, failing),
        ("no new log after a failed sync", Fault::NoNewLog, STAYS, QUICK),
        ("renamed before synced", Fault::RenamedBeforeSynced, SURVIVES, QUICK),
        ("the name not synced", Fault::NameNotSynced, SURVIVES, QUICK),
        ("a failed sync of the name repeated", Fault::NameSyncedAgain, SURVIVES, QUICK),
        ("a caller brings in its own batch only", Fault::OwnBatchOnly, ORDER, QUICK),
        ("placed without a new log", Fault::PlacedWithoutLog, STAYS, QUICK),
        ("a batch that is there appended again", Fault::PlacedAgain, ORDER, QUICK),
        ("visible before the log has its name", Fault::VisibleBeforeNamed, ONCE, twice),
    ] {
        check::is_refuted(&mut tally, name, rule, Appending { fault, ..model });
    }
}
