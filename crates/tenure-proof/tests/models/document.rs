//! Publishing a document by exchange, with a last good copy.
//!
//! Mirrors `document/publish.rs` (settle, temp, sync, what to keep, compare, exchange, look at what was displaced, keep,
//! record, remove), `clear_left_over`, `keep_as`, `document/restore.rs` and the view of a reader after a power
//! loss (`content::last_synced`, D6). A change adds one bit to what it read, so a lost update is a
//! missing bit. Names change in one order (all pass through one temporary name), and a power loss leaves
//! them as they were after one of the changes since the last sync of the directory (docs/FORMAT.md);
//! content that was not synced may be cut.

mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::steps::{At, State};
use crate::check;

/// What is wrong with a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The new version is not synced before it is published.
    ContentNotSynced,
    /// It is synced in order, but after it has its name.
    OrderedLate,
    /// Acknowledged before the directory is synced.
    AckBeforeNames,
    /// The old version is read before the lock is taken, and not compared any more.
    ReadOutsideLock,
    /// A rename over the document, without a look at what was there.
    PlainRename,
    /// What the exchange displaced is not looked at.
    DisplacedNotChecked,
    /// Whatever was displaced becomes the last good version.
    KeepsUnsynced,
    /// The same bytes in another file pass for the version that was synced.
    TagNotCompared,
    /// What lies under the temporary name after a power loss is removed, not rescued.
    LeftOverRemoved,
    /// A version that the record does not know is displaced without writing it down first.
    FoundNotSettled,
    /// Cut to nothing and written in place.
    InPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize),
    Step(usize),
    Kill(usize),
    /// Somebody who knows nothing of tenure replaces the file by an edited copy.
    Foreign,
    /// The same, and nothing was edited.
    Resave,
    /// After which change of names, whether unsynced content is cut, and whether the record survives.
    PowerLoss {
        names: usize,
        cut: bool,
        record: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Publishing {
    /// Which of the processes sync.
    durable: [bool; 2],
    changes: u8,
    kills: u8,
    foreign: u8,
    resaves: u8,
    power_losses: u8,
    /// A sync of content only makes it come before later changes of names.
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
                continue;
            }
            if state.can_step(index) {
                actions.push(Action::Step(index));
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
            for names in 0..state.history.len() {
                for (cut, record) in [(true, true), (true, false), (false, true), (false, false)] {
                    actions.push(Action::PowerLoss { names, cut, record });
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(index) => next.begin(index, self.fault),
            Action::Step(index) => next.step(index, *self),
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
            Property::always("what was acknowledged is there", |model: &Self, state: &State| {
                // Whoever puts a file that is not synced in its place answers for it.
                let replaced = state.resaves < model.resaves;
                replaced || state.view() & state.acked == state.acked
            }),
            Property::always("no update is lost", |model: &Self, state: &State| {
                let crashed = state.power_losses < model.power_losses;
                crashed || state.kept() & state.published == state.published
            }),
            Property::always("the good copy is whole", |_, state: &State| {
                State::is_whole(state.names.good)
            }),
            Property::always("nothing of ours is set aside", |model: &Self, state: &State| {
                // After these nobody can tell what an unpublished version is.
                let crashed = state.power_losses < model.power_losses;
                crashed || state.foreign < model.foreign || state.aside == 0
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
            Property::sometimes("all changes are there", |_, state: &State| {
                state.view() & 0b11 == 0b11
            }),
        ]
    }
}

const POWER: Publishing = Publishing {
    durable: [true, true],
    changes: 1,
    kills: 1,
    foreign: 0,
    resaves: 0,
    power_losses: 1,
    in_order: false,
    fault: Fault::None,
};
const FOREIGN_EDITS: Publishing = Publishing { foreign: 1, power_losses: 0, ..POWER };
const MIXED: Publishing = Publishing { durable: [true, false], ..POWER };

#[test]
fn documents_stay_whole_and_complete() {
    let mut tally = Tally::new("models", "documents_stay_whole_and_complete");
    let more = Form::asked().pick(2, 3);
    check::holds(&mut tally, "durable", Publishing { changes: more, kills: more, ..POWER });
    check::holds(&mut tally, "durable and not", Publishing { changes: more, ..MIXED });
    let in_order = Publishing { in_order: true, ..POWER };
    check::holds(&mut tally, "in order", Publishing { changes: more, kills: more, ..in_order });
    let mixed = Publishing { in_order: true, changes: more, ..MIXED };
    check::holds(&mut tally, "in order and not synced", mixed);
    let edits = Publishing { foreign: 2, changes: more, ..FOREIGN_EDITS };
    check::holds(&mut tally, "foreign edits", edits);
    let twice =
        Publishing { changes: 2, kills: 0, power_losses: Form::asked().pick(1, 2), ..MIXED };
    check::holds(&mut tally, "durable and not, twice", twice);
    let saved = Publishing { resaves: 1, ..MIXED };
    check::holds(&mut tally, "durable and not, saved again by others", saved);
}

#[test]
fn broken_publications_are_found_out() {
    let mut tally = Tally::new("models", "broken_publications_are_found_out");
    let (whole, there) = ("a durable document is always whole", "what was acknowledged is there");
    let lost = "no update is lost";
    let unsynced = Publishing { durable: [false, false], changes: 2, ..POWER };
    let twice = Publishing { changes: 2, power_losses: 2, kills: 0, ..MIXED };
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
        ("unsynced version kept as good", Fault::KeepsUnsynced, "the good copy is whole", unsynced),
        (
            "the same bytes of others kept as good",
            Fault::TagNotCompared,
            "the good copy is whole",
            Publishing { resaves: 1, ..MIXED },
        ),
        ("left-over removed after a power loss", Fault::LeftOverRemoved, there, twice),
        (
            "a version of the dead not written down",
            Fault::FoundNotSettled,
            "nothing of ours is set aside",
            Publishing { changes: 2, kills: 2, power_losses: 0, ..POWER },
        ),
        ("truncated and written in place", Fault::InPlace, whole, POWER),
    ] {
        check::is_refuted(&mut tally, name, rule, Publishing { fault, ..model });
    }
}
