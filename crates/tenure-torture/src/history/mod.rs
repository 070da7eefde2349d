//! Histories: which process made which call when, and what it returned when. Is there one order
//! that explains all of it?
//!
//! `tenure torture --history FILE` writes them, `tenure torture --store URL` judges its own. A round of one object is
//! judged by itself: the state at its start is known. [`objects`] is how clients of a store make a history, [`holds`]
//! judges their fences.
//!
//! # Invariants
//!
//! 1. An operation without an answer may have happened at any time after its call, or never. It
//!    gets a return after everything else: at the very end it affects no other operation.
//! 2. An undecided history does not count as linearizable.

pub mod holds;
mod model;
pub mod objects;

use std::collections::BTreeMap;
use std::time::Duration;

use porcupine_rs::{CheckResult, check_operations_timeout};
use serde_json::{Value, json};

use self::model::{Action, Step, operation};

/// The time limit; no round takes nearly as long to judge.
const PATIENCE: Duration = Duration::from_secs(60);

/// What operations work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// `add` returns the new sum; `read` returns the sum.
    Counter,
    /// `read` returns the value; `cas` sets a new one if the old one is there, and returns whether
    /// it did.
    Register,
    /// `append` returns the number of the entry; `tail` returns the last number and its value.
    Queue,
    /// `put` adds a job behind all others; `take` removes the first and returns it, 0 if there is none.
    Jobs,
}

impl Object {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Counter, Self::Register, Self::Queue, Self::Jobs];

    /// Its name in a history.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Register => "register",
            Self::Queue => "queue",
            Self::Jobs => "jobs",
        }
    }

    /// The object of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|object| object.name() == name)
    }
}

/// One call and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What it is done to.
    pub object: Object,
    /// `start` and `end` give the state between rounds.
    pub action: String,
    /// What it was called with.
    pub arguments: Vec<u64>,
    /// When it was called.
    pub call: u64,
    /// What it returned, and when; `None` if its process died before.
    pub returned: Option<(Vec<u64>, u64)>,
}

impl Operation {
    /// Whether the object has such an action with such arguments.
    pub fn is_known(&self) -> bool {
        Action::parse(self.object, &self.action, &self.arguments).is_some()
    }

    /// A line of a history.
    pub fn line(&self, round: u64, worker: Option<usize>) -> Value {
        json!({
            "round": round,
            "object": self.object.name(),
            "worker": worker,
            "action": self.action,
            "arguments": self.arguments,
            "call": self.call,
            "answer": self.returned.as_ref().map(|(answer, _)| answer),
            "return": self.returned.as_ref().map(|(_, at)| at),
        })
    }
}

/// Whether an order of all operations explains all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// There is one.
    Linearizable,
    /// There is none.
    NotLinearizable,
    /// Not decided in time.
    Undecided,
}

/// All rounds of a run.
#[derive(Debug, Default)]
pub struct History {
    rounds: BTreeMap<(u64, Object), Vec<Operation>>,
}

impl History {
    /// Adds an operation to a round.
    pub fn add(&mut self, round: u64, operation: Operation) {
        self.rounds.entry((round, operation.object)).or_default().push(operation);
    }

    /// How many operations there are, those without an answer included.
    pub fn len(&self) -> u64 {
        self.rounds.values().map(|operations| operations.len() as u64).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// How many have no answer.
    pub fn unanswered(&self) -> u64 {
        let all = self.rounds.values().flatten();
        all.filter(|operation| operation.returned.is_none()).count() as u64
    }

    /// How many operations were under way while another one of the same object was.
    pub fn concurrent(&self) -> u64 {
        self.rounds.values().map(|operations| concurrent(operations)).sum()
    }

    /// The rounds that no order explains, and the undecided ones.
    pub fn violations(&self) -> Vec<(u64, Object, Judgement)> {
        let judged = self
            .rounds
            .iter()
            .map(|((round, object), operations)| (*round, *object, judge(operations)));
        judged.filter(|(_, _, judgement)| *judgement != Judgement::Linearizable).collect()
    }
}

/// Judges the operations of one object in one round.
fn judge(operations: &[Operation]) -> Judgement {
    if !operations.iter().all(Operation::is_known) {
        return Judgement::Undecided;
    }
    let history: Vec<_> = operations.iter().filter_map(operation).collect();
    match check_operations_timeout::<Step>(&history, PATIENCE) {
        CheckResult::Ok => Judgement::Linearizable,
        CheckResult::Illegal => Judgement::NotLinearizable,
        CheckResult::Unknown => Judgement::Undecided,
    }
}

fn concurrent(operations: &[Operation]) -> u64 {
    let mut spans: Vec<_> = operations
        .iter()
        .map(|operation| (operation.call, operation.returned.as_ref().map_or(u64::MAX, |r| r.1)))
        .collect();
    spans.sort_unstable();
    spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count() as u64
}
