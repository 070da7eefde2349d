//! The sequential behaviour of the objects, which a history is compared with.

use porcupine_rs::Model;

use super::{Object, Operation};

/// What an object is, and what a call answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The counter's sum, the register's value, or the queue's last number and its value.
    pair: [u64; 2],
    /// The jobs in their order.
    jobs: Vec<u64>,
}

impl State {
    fn of(pair: [u64; 2]) -> Self {
        Self { pair, jobs: Vec::new() }
    }
}

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
    Put {
        job: u64,
    },
    Take,
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
            (Object::Jobs, "put", &[job]) => Self::Put { job },
            (Object::Jobs, "take", []) => Self::Take,
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
    fn take(&self, state: &State) -> Option<State> {
        let [first, _] = state.pair;
        let (after, answer) = match self.action {
            Action::Start => (self.answer.clone()?, self.answer.clone()?),
            Action::Look => (state.clone(), state.clone()),
            Action::Add => (State::of([first + 1, 0]), State::of([first + 1, 0])),
            Action::Set { old, new } if first == old => (State::of([new, 0]), State::of([1, 0])),
            Action::Set { .. } => (state.clone(), State::default()),
            Action::Append { value } => (State::of([first + 1, value]), State::of([first + 1, 0])),
            Action::Put { job } => {
                let jobs = [&state.jobs[..], &[job]].concat();
                (State { jobs, ..State::default() }, State::default())
            }
            Action::Take => match state.jobs.split_first() {
                None => (State::default(), State::default()),
                Some((job, left)) => {
                    (State { jobs: left.to_vec(), ..State::default() }, State::of([*job, 0]))
                }
            },
        };
        self.answer.as_ref().is_none_or(|told| *told == answer).then_some(after)
    }
}

impl Model for Step {
    type State = State;
    type Op = Step;
    type Metadata = ();

    fn init() -> State {
        State::default()
    }

    fn step(state: &State, step: &Step) -> (bool, State) {
        step.take(state).map_or_else(|| (false, state.clone()), |after| (true, after))
    }
}

/// An operation as the checker takes it; `None` for a read without an answer, or an unknown action.
pub(super) fn operation(operation: &Operation) -> Option<porcupine_rs::Operation<Step>> {
    let Operation { object, action, arguments, call, returned } = operation;
    let action = Action::parse(*object, action, arguments)?;
    let answer = returned.as_ref().map(|(answer, _)| match (object, action) {
        (Object::Jobs, Action::Start | Action::Look) => {
            State { jobs: answer.clone(), ..State::default() }
        }
        _ => State::of([0, 1].map(|at: usize| answer.get(at).copied().unwrap_or(0))),
    });
    if action == Action::Look && answer.is_none() {
        return None;
    }
    let time = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
    let (call_time, return_time) = match (action, returned) {
        // Before all other operations.
        (Action::Start, _) => (-2, -1),
        (_, Some((_, at))) => (time(*call), time(*at)),
        (_, None) => (time(*call), i64::MAX),
    };
    let op = Step { action, answer };
    Some(porcupine_rs::Operation { client_id: None, call_time, return_time, op, metadata: None })
}
