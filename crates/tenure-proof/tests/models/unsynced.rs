//! An append without a sync: its numbers are reserved, it is logged, written to the journal and
//! counted.
//!
//! Mirrors, below `crates/tenure/src/file/journal/`: `append.rs` (`write_through`), `checkpoint.rs`
//! (`make_room`, the block of reserved numbers), `writer.rs` (`reserve`, `adopt_tail`,
//! `count_placed`), `recover.rs` (`recover_crash`, `recover_restart`, `find`) and the reader of
//! `view.rs`. All of it is under the commit lock, so there is one writer, which can die between any
//! two steps.
//!
//! A batch is one line in two pieces, so that it can be torn. Another tool appends whole lines. A
//! power loss leaves the log under one of the names since the last sync of the directory, its chain
//! up to any record that was not synced, and any of the pieces that were not synced, with NULs in
//! place of the others.
//!
//! Not in this model: syncs that fail and durable batches (`journal`), rotation, and damage.
//!
//! # Invariants
//!
//! 1. A number that a reader has seen is never given to another line (J2, J6).
//! 2. What a reader gets is whole, and a batch is in the journal once (J1).
//! 3. What was acknowledged stays, whichever processes die. A power loss removes only what no
//!    checkpoint has synced.
//! 4. A batch whose write failed does not reappear.

mod recovery;
mod state;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::state::{At, Entry, State};
use crate::check;

/// The fault of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Numbers are given out that no log reserves.
    NotReserved,
    /// Numbers are given out before the log that reserves them has a durable name.
    NameNotSynced,
    /// After a restart numbers continue directly after the chain.
    NotSkipped,
    /// Recovery appends a batch without checking whether it is there.
    AppendedAgain,
    /// The state counts a batch before it is in the journal.
    CountedEarly,
    /// Recovery ignores a batch that was logged and not counted.
    NotFinished,
    /// A batch whose write failed stays in the log.
    NotWithdrawn,
    /// The log does not record that a batch is elsewhere than expected.
    NotPlaced,
    /// The checkpoint does not sync the journal.
    JournalNotSynced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Step,
    /// The write to the journal fails, and has written nothing.
    WriteFails,
    /// Another tool appends a line.
    Foreign,
    Kill,
    /// Which log keeps the name, how many of its records, which pieces of the journal, and whether its length is cut.
    PowerLoss {
        name: usize,
        chain: usize,
        pieces: u32,
        cut: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Unsynced {
    batches: u8,
    foreign: u8,
    kills: u8,
    write_errors: u8,
    power_losses: u8,
    fault: Fault,
}

impl Model for Unsynced {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(*self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let idle = state.at == At::Idle;
        if !idle || state.batches > 0 {
            actions.push(Action::Step);
        }
        if state.at == At::Push && state.write_errors > 0 {
            actions.push(Action::WriteFails);
        }
        // One write of the writer is one append: the kernel inserts nothing between its pieces.
        if state.foreign > 0 && !state.is_inside_write() {
            actions.push(Action::Foreign);
        }
        if state.kills > 0 && !idle {
            actions.push(Action::Kill);
        }
        if state.power_losses > 0 {
            state.losses(|name, chain, pieces, cut| {
                actions.push(Action::PowerLoss { name, chain, pieces, cut });
            });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step => next.step(self.fault),
            Action::WriteFails => next.fail_write(self.fault),
            Action::Foreign => next.append_foreign(),
            Action::Kill => {
                next.kills -= 1;
                next.end();
            }
            Action::PowerLoss { name, chain, pieces, cut } => {
                next.lose_power(name, chain, pieces, cut);
            }
        }
        next.look();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_, state: &State| !state.given_twice),
            Property::always(WHOLE, |_, state: &State| !state.damaged),
            Property::always(TORN, |model: &Self, state: &State| {
                let view = state.view();
                state.power_losses < model.power_losses || !view.iter().any(Entry::is_garbage)
            }),
            Property::always(SINGLE, |_, state: &State| state.is_single()),
            Property::always(STAYS, |_, state: &State| state.shows_acked()),
            Property::always(GONE, |_, state: &State| !state.came_back),
            Property::sometimes("all batches are acknowledged", |model: &Self, state: &State| {
                state.acked.len() == usize::from(model.batches)
            }),
            Property::sometimes("a line of another tool has a number", |_, state: &State| {
                state.view().iter().any(Entry::is_foreign)
            }),
            Property::sometimes("numbers are skipped", |_, state: &State| state.skipped),
            Property::sometimes("recovery finishes a batch", |_, state: &State| state.finished),
        ]
    }
}

const ONCE: &str = "a number is given once";
const WHOLE: &str = "what a reader gets is whole";
const TORN: &str = "without a power loss no part of a batch is an entry";
const SINGLE: &str = "a batch is in the journal once";
const STAYS: &str = "what was acknowledged stays";
const GONE: &str = "a batch that failed does not come back";

const QUICK: Unsynced = Unsynced {
    batches: 3,
    foreign: 1,
    kills: 1,
    write_errors: 1,
    power_losses: 1,
    fault: Fault::None,
};

#[test]
fn numbers_without_a_sync_are_given_once() {
    let mut tally = Tally::new("models", "numbers_without_a_sync_are_given_once");
    check::holds(&mut tally, "batches without a sync", QUICK);
    if Form::asked() == Form::Long {
        let many = Unsynced { foreign: 2, kills: 2, power_losses: 2, ..QUICK };
        check::holds(&mut tally, "batches without a sync, many faults", many);
    }
}

#[test]
fn broken_appends_without_a_sync_are_found_out() {
    let mut tally = Tally::new("models", "broken_appends_without_a_sync_are_found_out");
    for (name, fault, rule) in [
        ("numbers without a reservation", Fault::NotReserved, ONCE),
        ("numbers before their reservation has a name", Fault::NameNotSynced, ONCE),
        ("reserved numbers not skipped after a restart", Fault::NotSkipped, ONCE),
        ("recovery appends a batch that is there", Fault::AppendedAgain, SINGLE),
        ("a batch counted before it is written", Fault::CountedEarly, WHOLE),
        ("a batch that was not counted is not finished", Fault::NotFinished, TORN),
        ("a failed batch left in the log", Fault::NotWithdrawn, GONE),
        ("a displaced batch not noted", Fault::NotPlaced, WHOLE),
        ("a checkpoint that does not sync the journal", Fault::JournalNotSynced, STAYS),
    ] {
        let write_errors = u8::from(fault == Fault::NotWithdrawn);
        check::is_refuted(&mut tally, name, rule, Unsynced { write_errors, fault, ..QUICK });
    }
}
