//! JSON as values: strict reading, faithful writing, merging and patching. No file is touched here.
//!
//! # Invariants
//!
//! 1. Everything here is a pure function: on an error nothing has changed.
//! 2. What [`parse`] accepts and [`Style::render`] writes is the same set of documents, so a written
//!    document can always be read back.
//! 3. Key order and the text of every number survive a round trip.

mod by_value;
mod merge;
mod number;
mod patch;
mod quick;
mod render;
mod style;
mod text;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

pub use self::merge::Rules;
pub(crate) use self::merge::merge;
pub(crate) use self::patch::{PatchError, patch};
pub(crate) use self::style::{Style, is_same};
pub(crate) use self::text::parse;

/// Reads JSON as strictly as documents are read: no duplicate keys, no byte order mark, every number
/// digit for digit.
pub fn parse_json(text: &[u8]) -> Result<Value> {
    parse(text).map_err(|why| Error::new(ErrorKind::Invalid, "read JSON", format!("it {why}")))
}
