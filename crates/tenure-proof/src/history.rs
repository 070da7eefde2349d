//! Histories: which process made which call when, and what it returned when. Is there one order
//! that explains all of it?
//!
//! `tenure torture --history FILE` writes them. A round of one object is judged by itself: no
//! worker is alive between two rounds, and the state is known there.
//!
//! # Invariants
//!
//! 1. An operation without an answer may have happened at any time after its call, or never. It
//!    gets a return after everything else: at the very end it affects no other operation.
//! 2. An undecided history does not count as linearizable.

mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use porcupine_rs::{CheckResult, check_operations_timeout};
use serde_json::Value;

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
    /// Reads what `tenure torture --history` wrote.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a history");
        let mut history = Self::default();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let round = line["round"].as_u64().expect("a round");
            let operation = parse(&line).unwrap_or_else(|| panic!("not an operation: {line}"));
            history.add(round, operation);
        }
        history
    }

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

fn parse(line: &Value) -> Option<Operation> {
    let numbers = |value: &Value| -> Option<Vec<u64>> {
        value.as_array()?.iter().map(Value::as_u64).collect()
    };
    let object = match line["object"].as_str()? {
        "counter" => Object::Counter,
        "register" => Object::Register,
        "queue" => Object::Queue,
        _ => return None,
    };
    let returned = match &line["return"] {
        Value::Null => None,
        at => Some((numbers(&line["answer"])?, at.as_u64()?)),
    };
    let action = line["action"].as_str()?.to_owned();
    let (arguments, call) = (numbers(&line["arguments"])?, line["call"].as_u64()?);
    Action::parse(object, &action, &arguments)?;
    Some(Operation { object, action, arguments, call, returned })
}
