//! Tests of the JSON part: by example from the RFCs, by seeded random documents, and by texts that
//! must be refused.

mod merging;
mod patching;
mod random;
mod reading;
mod rules;
mod writing;

use super::{Value, read};

/// A value from its text.
fn value(text: &str) -> Value {
    read(text.as_bytes()).unwrap_or_else(|reason| panic!("{text} {reason}"))
}

/// Compact text: the strictest comparison, it shows key order and the notation of numbers.
fn text(value: &Value) -> String {
    value.to_string()
}
