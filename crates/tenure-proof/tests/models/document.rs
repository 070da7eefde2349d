//! Publishing a document by exchange, with a last good copy.
//!
//! Mirrors `document/publish.rs` (settle, temp, sync, compare, exchange, check what was displaced,
//! keep, record, remove; `clear` of leftovers), `document/restore.rs`, the view of a reader after a
//! power loss (`read::last_synced`), and `document/change.rs`: a durable call that changes nothing,
//! and a version whose name could not be synced. A change adds one bit to what it read, so a lost
//! update is a missing bit.
//!
//! Names change in one order (all pass through one temporary name), and a power loss leaves them as
//! they were after one of the changes since the last sync of the directory (docs/FORMAT.md). Any
//! content that was not synced may be cut. The record is any that was written in this boot, or
//! none. A file whose sync failed is not on the disk, and every later sync of it succeeds.

mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::steps::{At, State};
use crate::check;

/// The fault of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The new version is not synced before it is published.
    ContentNotSynced,
    /// It is synced in order, but after it got its name.
    OrderedLate,
    /// Acknowledged before the directory is synced.
    AckBeforeNames,
    /// The old version is read before the lock is taken, and not compared any more.
    ReadOutsideLock,
    /// A rename over the document, without a check of what was there.
    PlainRename,
    /// What the exchange displaced is not checked.
    DisplacedNotChecked,
    /// Any displaced version becomes the last good version.
    KeepsUnsynced,
    /// The same bytes in another file are taken for the synced version.
    TagNotCompared,
    /// A file under the temporary name after a power loss is removed, not rescued.
    LeftOverRemoved,
    /// A version that is missing from the record is displaced without recording it first.
    FoundNotSettled,
    /// Truncated and written in place.
    InPlace,
    /// A version that displaces one not known to be synced is not synced.
    UnknownNotSynced,
    /// A version that is not known to be synced becomes the last good one.
    KeepsUnknown,
    /// A call that changes nothing syncs the file that it found, again if that has failed.
    SyncedInPlace,
    /// A call that changes nothing assumes that the version it found is synced.
    RepeatNotSynced,
    /// A version whose name could not be synced stays in doubt even if it was displaced meanwhile.
    DoubtsDisplaced,
    /// The record is written before the leftovers are checked, and those are then ignored.
    RecordChanged,
    /// A leftover with the bytes of the synced version is taken for it.
    LeftOverByBytes,
    /// A leftover of a restore is taken for newer than the good copy that it was made from.
    CopyBelieved,
}

impl Fault {
    /// A change that does not compare what it displaces.
    fn is_unchecked(self) -> bool {
        matches!(self, Self::PlainRename | Self::ReadOutsideLock)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize),
    /// Begins a durable call that changes nothing.
    Repeat(usize),
    Step(usize),
    /// The same, with a sync that fails.
    Fail(usize),
    Kill(usize),
    /// Another tool replaces the file by an edited copy.
    Foreign,
    /// The same without an edit.
    Resave,
    /// After which change of names, which of the unsynced files are cut, and which record is left.
    PowerLoss {
        names: usize,
        cut: u8,
        record: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Publishing {
    /// Which of the processes sync.
    durable: [bool; 2],
    /// How many changes each makes.
    changes: [u8; 2],
    /// How many calls that change nothing each makes that syncs.
    repeats: u8,
    kills: u8,
    foreign: u8,
    resaves: u8,
    power_losses: u8,
    /// How many syncs fail.
    failures: u8,
    /// A sync of content only orders it before later changes of names.
    in_order: bool,
    fault: Fault,
}

impl Model for Publishing {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(*self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            if process.at == At::Idle {
                if process.changes > 0 {
                    actions.push(Action::Begin(index));
                }
                if process.repeats > 0 {
                    actions.push(Action::Repeat(index));
                }
                continue;
            }
            if state.can_step(index) {
                actions.push(Action::Step(index));
            }
            if state.failures > 0 && state.can_fail(index, self.fault) {
                actions.push(Action::Fail(index));
            }
            if state.kills > 0 {
                actions.push(Action::Kill(index));
            }
        }
        if state.foreign > 0 && state.names.document.is_some() {
            actions.push(Action::Foreign);
        }
        if state.resaves > 0 && State::is_whole(state.names.document) {
            actions.push(Action::Resave);
        }
        if state.power_losses > 0 {
            state.losses(|names, cut, record| {
                actions.push(Action::PowerLoss { names, cut, record });
            });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(index) => next.begin(index, self.fault),
            Action::Repeat(index) => next.repeat(index),
            Action::Step(index) => next.step(index, *self),
            Action::Fail(index) => next.fail(index),
            Action::Kill(index) => {
                next.kills -= 1;
                next.end(index);
            }
            Action::Foreign => next.edit(),
            Action::Resave => next.save_again(),
            Action::PowerLoss { names, cut, record } => next.lose_power(names, cut, record),
        }
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "a durable document is always whole",
                |model: &Self, state: &State| {
                    model.durable.contains(&false) || State::is_whole(state.names.document)
                },
            ),
            Property::always("what was acknowledged is there", |_, state: &State| {
                state.view() & state.acked == state.acked
            }),
            Property::always("no reader goes back behind the disk", |_, state: &State| {
                state.view() & state.on_disk == state.on_disk
            }),
            Property::always("no update is lost", |model: &Self, state: &State| {
                let crashed = state.power_losses < model.power_losses;
                crashed || state.kept() & state.published == state.published
            }),
            Property::always("the good copy is whole", |_, state: &State| {
                State::is_whole(state.names.good)
            }),
            Property::always("nothing of ours is set aside", |model: &Self, state: &State| {
                // After these it is unknown what an unpublished version is.
                let crashed = state.power_losses < model.power_losses;
                let edited = state.foreign < model.foreign || state.resaves < model.resaves;
                crashed || edited || state.aside == 0
            }),
            Property::sometimes(
                "a foreign version is given back",
                |model: &Self, state: &State| {
                    model.foreign == 0
                        || state.processes.iter().any(|process| process.at == At::GiveBack)
                },
            ),
            Property::sometimes("a reader falls back", |model: &Self, state: &State| {
                model.power_losses == 0
                    || !model.durable.contains(&false)
                    || !State::is_whole(state.names.document)
            }),
            Property::sometimes("all changes are there", |model: &Self, state: &State| {
                let last = |index: usize| u8::from(model.changes[index] > 0) << index;
                let last = last(0) | last(1);
                state.view() & last == last
            }),
        ]
    }
}

const POWER: Publishing = Publishing {
    durable: [true, true],
    changes: [1, 1],
    repeats: 0,
    kills: 1,
    foreign: 0,
    resaves: 0,
    power_losses: 1,
    failures: 0,
    in_order: false,
    fault: Fault::None,
};
const FOREIGN_EDITS: Publishing = Publishing { foreign: 1, power_losses: 0, ..POWER };
const MIXED: Publishing = Publishing { durable: [true, false], ..POWER };
/// One changes without a sync, the other makes durable what it finds.
const REPEATS: Publishing = Publishing { changes: [0, 2], repeats: 1, ..MIXED };

#[test]
fn documents_stay_whole_and_complete() {
    let mut tally = Tally::new("models", "documents_stay_whole_and_complete");
    let changes = [Form::asked().pick(2, 3); 2];
    check::holds(&mut tally, "durable", Publishing { changes, kills: 2, ..POWER });
    check::holds(&mut tally, "durable and not", Publishing { changes, ..MIXED });
    let in_order = Publishing { in_order: true, ..POWER };
    check::holds(&mut tally, "in order", Publishing { changes, kills: 2, ..in_order });
    let mixed = Publishing { in_order: true, changes, ..MIXED };
    check::holds(&mut tally, "in order and not synced", mixed);
    let edits = Publishing { foreign: 2, changes, ..FOREIGN_EDITS };
    check::holds(&mut tally, "foreign edits", edits);
    let power_losses = Form::asked().pick(1, 2);
    let twice = Publishing { changes: [2, 2], kills: 0, power_losses, ..MIXED };
    check::holds(&mut tally, "durable and not, twice", twice);
    let saved = Publishing { resaves: 1, ..MIXED };
    check::holds(&mut tally, "durable and not, saved again by others", saved);
}

#[test]
fn what_changes_nothing_makes_durable_what_it_found() {
    let mut tally = Tally::new("models", "what_changes_nothing_makes_durable_what_it_found");
    let more = Form::asked().pick(1, 2);
    // Deaths anywhere in the publication of the version that was found, beside a durable change.
    let repeats = Publishing { changes: [1, 2], repeats: more, ..REPEATS };
    check::holds(&mut tally, "what changes nothing", repeats);
    let in_order = Publishing { repeats: 2, kills: 2, in_order: true, ..REPEATS };
    check::holds(&mut tally, "what changes nothing, in order", in_order);
    // The first call fails, the second publishes it again.
    let failing = Publishing { repeats: 2, failures: more, kills: more, ..REPEATS };
    check::holds(&mut tally, "syncs that fail", failing);
    // Restores that fail and die, and what the next power loss leaves of them.
    let twice = Publishing { failures: more, power_losses: 2, ..REPEATS };
    check::holds(&mut tally, "syncs that fail, twice", twice);
    // A foreign version is acknowledged once it was found.
    let others = Publishing { changes: [1, 1], failures: 1, ..REPEATS };
    check::holds(&mut tally, "edits that cannot be synced", Publishing { foreign: 1, ..others });
    check::holds(&mut tally, "saved again, not synced", Publishing { resaves: 1, ..others });
}

#[test]
fn broken_publications_are_found_out() {
    let mut tally = Tally::new("models", "broken_publications_are_found_out");
    let (whole, there) = ("a durable document is always whole", "what was acknowledged is there");
    let (lost, good) = ("no update is lost", "the good copy is whole");
    let unsynced = Publishing { durable: [false, false], changes: [2, 2], ..POWER };
    let twice = Publishing { changes: [2, 2], power_losses: 2, kills: 0, ..MIXED };
    for (name, fault, rule, model) in [
        ("content not synced", Fault::ContentNotSynced, whole, POWER),
        (
            "content in order, but after its name",
            Fault::OrderedLate,
            whole,
            Publishing { in_order: true, ..POWER },
        ),
        ("acknowledged before the names", Fault::AckBeforeNames, there, POWER),
        ("read outside the lock", Fault::ReadOutsideLock, lost, POWER),
        ("a plain rename over a foreign edit", Fault::PlainRename, lost, FOREIGN_EDITS),
        ("displaced version not checked", Fault::DisplacedNotChecked, lost, FOREIGN_EDITS),
        ("unsynced version kept as good", Fault::KeepsUnsynced, good, unsynced),
        (
            "the same bytes of others kept as good",
            Fault::TagNotCompared,
            good,
            Publishing { resaves: 1, ..MIXED },
        ),
        ("left-over removed after a power loss", Fault::LeftOverRemoved, there, twice),
        (
            "a version of the dead not written down",
            Fault::FoundNotSettled,
            "nothing of ours is set aside",
            Publishing { changes: [2, 2], kills: 2, power_losses: 0, ..POWER },
        ),
        ("truncated and written in place", Fault::InPlace, whole, POWER),
    ] {
        check::is_refuted(&mut tally, name, rule, Publishing { fault, ..model });
    }
}

#[test]
fn broken_ways_to_make_durable_what_was_found_are_found_out() {
    let name = "broken_ways_to_make_durable_what_was_found_are_found_out";
    let mut tally = Tally::new("models", name);
    let (there, good) = ("what was acknowledged is there", "the good copy is whole");
    let behind = "no reader goes back behind the disk";
    let failing = Publishing { repeats: 2, failures: 1, ..REPEATS };
    let twice = Publishing { power_losses: 2, repeats: 1, ..failing };
    let saved = Publishing { resaves: 1, ..REPEATS };
    for (name, fault, rule, model) in [
        ("not synced over an unknown version", Fault::UnknownNotSynced, behind, twice),
        ("an unknown version kept as good", Fault::KeepsUnknown, good, saved),
        ("a failed sync believed later", Fault::SyncedInPlace, there, failing),
        ("what was found not made durable", Fault::RepeatNotSynced, there, REPEATS),
        ("the last synced version taken for nothing", Fault::RecordChanged, there, REPEATS),
        ("the last synced version doubted", Fault::DoubtsDisplaced, there, failing),
        ("the same bytes of before kept as good", Fault::LeftOverByBytes, good, saved),
        ("a copy kept in place of the good one", Fault::CopyBelieved, there, twice),
    ] {
        check::is_refuted(&mut tally, name, rule, Publishing { fault, ..model });
    }
}
