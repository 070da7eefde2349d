//! Puppets: processes in any language that execute orders, and answer. `PUPPETS.md` has the
//! protocol.
//!
//! # Invariants
//!
//! 1. The answer is the synchronisation. Silence is asserted for a moment only; an answer that must
//!    come is awaited with a very long limit.
//! 2. Dropping a puppet ends every process that it started.

mod child;
mod command_line;
mod language;

use std::time::Duration;

use serde_json::{Value, json};

pub use self::child::{Child, Troupe};
pub use self::command_line::CommandLine;
pub use self::language::{Language, languages};

/// Long enough to be sure that a process waits, short enough to be used often.
pub const A_MOMENT: Duration = Duration::from_millis(80);
/// Nothing that works takes this long, even on a busy machine.
pub const FAR_TOO_LONG: Duration = Duration::from_secs(120);

/// What came from a puppet.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// It answered.
    Answer(Value),
    /// Nothing, so far.
    Silence,
    /// It has ended.
    End,
}

/// An actor that takes orders.
pub trait Puppet {
    /// Gives an order without waiting for the answer.
    fn tell(&mut self, order: &Value);
    /// The next answer, if it comes in that time.
    fn hear_within(&mut self, time: Duration) -> Heard;
    /// The process that holds what the puppet holds.
    fn pid(&self) -> u32;
    /// Whether it knows this order.
    fn knows(&self, op: &str) -> bool;
    /// Sends SIGKILL and waits for the end.
    fn kill(&mut self);
    /// Sends SIGSTOP.
    fn stop(&self);
    /// Sends SIGCONT.
    fn resume(&self);

    /// The next answer, which must come.
    fn hear(&mut self) -> Value {
        match self.hear_within(FAR_TOO_LONG) {
            Heard::Answer(answer) => answer,
            other => panic!("instead of an answer: {other:?}"),
        }
    }

    /// Gives an order and waits for the answer.
    fn say(&mut self, order: &Value) -> Value {
        self.tell(order);
        self.hear()
    }

    /// Gives an order that must succeed.
    fn does(&mut self, order: &Value) -> Value {
        let mut answer = self.say(order);
        assert!(answer.get("ok").is_some(), "{order} was answered with {answer}");
        answer["ok"].take()
    }

    /// Gives an order that must be refused; returns the code.
    fn is_refused(&mut self, order: &Value) -> String {
        let answer = self.say(order);
        let code = answer["error"]["code"].as_str();
        code.unwrap_or_else(|| panic!("{order} was answered with {answer}")).to_owned()
    }

    /// Asserts that it waits: no answer for a moment.
    fn is_silent(&mut self) {
        assert_eq!(self.hear_within(A_MOMENT), Heard::Silence, "it had to wait");
    }
}

/// The answer to an order that cannot be understood.
pub fn misunderstood(why: &str) -> Value {
    json!({ "error": { "code": "misunderstood", "message": why, "holder": null } })
}
