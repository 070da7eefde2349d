//! The document: one JSON file that many processes read and change without losing an update.
//!
//! Order of reading: `read` (what is there), `publish` (a new version takes its place), `change` (the calls
//! that people make), `restore` (what cannot be parsed). `history` has the versions before, `memory` saves parsing.
//!
//! Invariants
//! 1. The file is only ever replaced as a whole: a reader sees the old version or the new one (G5).
//! 2. A change is computed from what is on the disk, under the commit lock (G6).
//! 3. The content of a durable version reaches the disk before its name does, and its name before the
//!    call returns (G8). A version that was published without a sync leaves the last synced one as
//!    `.good`, the only copy to fall back to.
//! 4. No sync is repeated: a version whose sync failed, or is not known, is made durable by publishing its
//!    content as a new file.
//! 5. A document that cannot be parsed is replaced only by [`Document::restore`], or after a power
//!    loss, and its bytes are kept as `.damaged.N`.

mod change;
mod history;
mod memory;
mod publish;
mod read;
mod restore;
mod versions;

pub(crate) use self::change::{Attempt, Document};
