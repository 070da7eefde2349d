//! The document: one JSON file that many processes read and change without losing an update.
//!
//! # Invariants
//!
//! 1. The file is replaced as a whole: a reader sees the old document or the new one (G5).
//! 2. A change is computed from what is on the disk, under the commit lock (G6).
//! 3. The content of a durable change reaches the disk before its name does, and its name before the
//!    call returns. A change that is not durable leaves the last synced version under `.good`.
//! 4. What cannot be parsed is never replaced by a change, only by an explicit restore, and its bytes
//!    are kept aside.

mod attempt;
mod change;
mod compute;
mod content;
mod durable;
mod keep;
mod left_over;
mod memory;
mod operations;
mod publish;
mod restore;
mod watch;

pub(crate) use self::attempt::Attempt;
pub use self::change::{Document, Written};
pub(crate) use self::compute::by_value;
pub use self::content::Snapshot;
pub use self::watch::Watch;
