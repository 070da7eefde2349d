//! The sequential behaviour of the objects, which a history is compared with.

use porcupine_rs::Model;

use super::{Object, Operation};

/// The counter's sum, the register's value, or the queue's last number and its value.
pub(super) type State = [u64; 2];

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// This is the state from now on, whatever it was before.
    Start,
    /// The state is read.
    Look,
    Add,
    Set {
        old: u64,
        new: u64,
    },
    Append {
        value: u64,
    },
}

impl Action {
    pub(super) fn parse(object: Object, action: &str, arguments: &[u64]) -> Option<Self> {
        Some(match (object, action, arguments) {
            (_, "start", []) => Self::Start,
            (_, "end", [])
            | (Object::Counter | Object::Register, "read", [])
            | (Object::Queue, "tail", []) => Self::Look,
            (Object::Counter, "add", [1]) => Self::Add,
            (Object::Register, "cas", &[old, new]) => Self::Set { old, new },
            (Object::Queue, "append", &[value]) => Self::Append { value },
            _ => return None,
        })
    }
}

/// An action and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    action: Action,
    answer: Option<State>,
}

impl Step {
    /// The state afterwards, if the answer is correct. A missing answer is always correct.
    fn take(&self, state: State) -> Option<State> {
        let (after, answer) = match self.action {
            Action::Start => (self.answer?, self.answer?),
            Action::Look => (state, state),
            Action::Add => ([state[0] + 1, 0], [state[0] + 1, 0]),
            Action::Set { old, new } if state[0] == old => ([new, 0], [1, 0]),
            Action::Set { .. } => (state, [0, 0]),
            Action::Append { value } => ([state[0] + 1, value], [state[0] + 1, 0]),
        };
        self.answer.is_none_or(|told| told == answer).then_some(after)
    }
}

impl Model for Step {
    type State = State;
    type Op = Step;
    type Metadata = ();

    fn init() -> State {
        [0, 0]
    }

    fn step(state: &State, step: &Step) -> (bool, State) {
        step.take(*state).map_or((false, *state), |after| (true, after))
    }
}

/// An operation as the checker takes it; `None` for a read without an answer.
pub(super) fn operation(operation: &Operation) -> Option<porcupine_rs::Operation<Step>> {
    let Operation { object, action, arguments, call, returned } = operation;
    let action = Action::parse(*object, action, arguments).expect("a known action");
    let answer = returned.as_ref().map(|(answer, _)| {
        [answer.first().copied().unwrap_or(0), answer.get(1).copied().unwrap_or(0)]
    });
    if action == Action::Look && answer.is_none() {
        return None;
    }
    let time = |at: u64| i64::try_from(at).expect("a time");
    let (call_time, return_time) = match (action, returned) {
        // Before all other operations.
        (Action::Start, _) => (-2, -1),
        (_, Some((_, at))) => (time(*call), time(*at)),
        (_, None) => (time(*call), i64::MAX),
    };
    let op = Step { action, answer };
    Some(porcupine_rs::Operation { client_id: None, call_time, return_time, op, metadata: None })
}
