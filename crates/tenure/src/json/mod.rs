//! JSON: values, the strict parser, printing, merging and patching. No file is touched here.
//!
//! For programs that look into documents: [`Value`] and [`json!`](crate::json!) are enough for most of them. [`Number`]
//! and [`Object`] are its parts, [`parse`] reads text, [`Rules`] say how a merge treats single fields.
//!
//! Reading order: `value` (with `object`, `number`, `text`), `parse`, `print`, then `merge`, `patch` and `difference`.
//!
//! # Invariants
//!
//! 1. Every function is pure: after an error nothing has changed.
//! 2. The parser accepts exactly what the printer writes, so a written document can be read back.
//! 3. A value keeps key order and the text of every number.
//! 4. A change prints only what differs; the rest of the old text is copied byte for byte.

mod convert;
mod difference;
mod merge;
mod number;
mod object;
mod parse;
mod patch;
mod pointer;
mod print;
mod style;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use self::difference::apply_difference;
pub use self::merge::Rules;
pub(crate) use self::merge::{merge, replaced_kind};
pub use self::number::Number;
pub use self::parse::parse;
pub(crate) use self::parse::read;
pub(crate) use self::patch::{PatchError, patch};
pub(crate) use self::print::{print, rewrite};
pub use self::value::{Object, Value};

/// How deep arrays and objects may nest: the limit of serde_json, so that its users can read our files.
const MAX_DEPTH: usize = 127;
