//! The last operations, for the message of a failed assertion.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use crate::crash::Plan;
use crate::machine::CrashKind;
use crate::step::Step;

/// How many operations are remembered.
const LENGTH: usize = 40;

/// A ring of what happened last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail {
    events: VecDeque<Event>,
}

#[derive(Debug, Clone)]
enum Event {
    Step { number: u64, process: usize, step: Step, outcome: Outcome },
    PowerLoss(Plan),
    ProcessCrash(usize),
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Done,
    Crashed(CrashKind),
    Failed(io::ErrorKind),
}

impl Trail {
    pub(crate) fn step<T>(
        &mut self,
        number: u64,
        process: usize,
        step: Step,
        outcome: &io::Result<T>,
        down: Option<CrashKind>,
    ) {
        let outcome = match (outcome, down) {
            (Ok(_), _) => Outcome::Done,
            (Err(_), Some(kind)) => Outcome::Crashed(kind),
            (Err(error), None) => Outcome::Failed(error.kind()),
        };
        self.push(Event::Step { number, process, step, outcome });
    }

    pub(crate) fn power_loss(&mut self, plan: Plan) {
        self.push(Event::PowerLoss(plan));
    }

    pub(crate) fn process_crash(&mut self, process: usize) {
        self.push(Event::ProcessCrash(process));
    }

    fn push(&mut self, event: Event) {
        if self.events.len() == LENGTH {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, process, step, outcome) = match self {
            Self::PowerLoss(plan) => return write!(f, "POWER LOSS, survivors: {plan:?}"),
            Self::ProcessCrash(process) => return write!(f, "PROCESS {process} DIES"),
            Self::Step { number, process, step, outcome } => (number, process, step, outcome),
        };
        // Only what changes the disk has a number: it is the one that `fail_after` counts.
        if step.verb.changes() {
            write!(f, "#{number:<4} ")?;
        } else {
            write!(f, "      ")?;
        }
        write!(f, "p{process} {:?}", step.verb)?;
        if let Some(path) = &step.path {
            write!(f, " {}", path.display())?;
        }
        if let Some(other) = &step.other {
            write!(f, " -> {}", other.display())?;
        }
        if let Some((offset, len)) = step.range {
            write!(f, " [{offset}..+{len}]")?;
        }
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Crashed(kind) => write!(f, "  ! down ({kind:?})"),
            Outcome::Failed(kind) => write!(f, "  ! {kind:?}"),
        }
    }
}
