//! What the document of a task says, and where the task is.

use std::time::Duration;

use crate::json::{Object, Value};
use crate::sys;

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It can be claimed.
    Open,
    /// It failed, and can be claimed after its delay.
    Delayed,
    /// A worker has it.
    Claimed,
    /// It was completed.
    Done,
    /// It failed too often.
    SetAside,
    /// The document is no task.
    Damaged,
}

impl TaskState {
    /// The name in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Delayed => "delayed",
            Self::Claimed => "claimed",
            Self::Done => "done",
            Self::SetAside => "set_aside",
            Self::Damaged => "damaged",
        }
    }

    /// Whether it will never be given out again.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::SetAside)
    }
}

/// The fields of a task, and those that other programs added.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) task: Value,
    pub(super) state: TaskState,
    pub(super) attempts: u64,
    pub(super) added_us: u64,
    pub(super) not_before_us: u64,
    pub(super) delay_us: u64,
    pub(super) max_attempts: Option<u64>,
    pub(super) owner: Option<String>,
    pub(super) claim: Option<String>,
    pub(super) reason: Option<String>,
    /// The document as it was read: what other programs added to it stays.
    rest: Object,
}

impl Record {
    pub(super) fn new(task: Value, max_attempts: Option<u64>) -> Self {
        Self {
            task,
            state: TaskState::Open,
            attempts: 0,
            added_us: sys::wall_time_us(),
            not_before_us: 0,
            delay_us: 0,
            max_attempts,
            owner: None,
            claim: None,
            reason: None,
            rest: Object::new(),
        }
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        let Value::Object(rest) = value else { return None };
        let states = [TaskState::Open, TaskState::Done, TaskState::SetAside];
        let state = value["state"].as_str()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            task: rest.get("task")?.clone(),
            state: states.into_iter().find(|known| known.name() == state)?,
            attempts: value["attempts"].as_u64()?,
            added_us: value["added_us"].as_u64()?,
            not_before_us: value["not_before_us"].as_u64().unwrap_or(0),
            delay_us: value["delay_us"].as_u64().unwrap_or(0),
            max_attempts: value["max_attempts"].as_u64(),
            owner: text("owner"),
            claim: text("claim"),
            reason: text("reason"),
            rest: rest.clone(),
        })
    }

    pub(super) fn into_value(self) -> Value {
        let mut value = Value::Object(self.rest);
        value["task"] = self.task;
        value["state"] = self.state.name().into();
        value["attempts"] = self.attempts.into();
        value["added_us"] = self.added_us.into();
        value["not_before_us"] = self.not_before_us.into();
        value["delay_us"] = self.delay_us.into();
        value["max_attempts"] = self.max_attempts.into();
        value["owner"] = self.owner.into();
        value["claim"] = self.claim.into();
        value["reason"] = self.reason.into();
        value
    }

    /// What is left of its delay. More than all of it is left only if the clock was set back: then it is over, so that
    /// a clock that was wrong by years does not keep the task for years.
    pub(super) fn delay_left(&self) -> Option<Duration> {
        let left = self.not_before_us.saturating_sub(sys::wall_time_us());
        (1..=self.delay_us).contains(&left).then(|| Duration::from_micros(left))
    }
}
