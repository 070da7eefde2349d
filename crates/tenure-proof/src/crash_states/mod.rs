//! Every directory that a power loss could leave, made from a recorded run.
//!
//! A run is recorded at the seam ([`Recorder`]): each write, sync and change of a name, in one
//! order, with the acknowledgements in between. [`crash_states`] then stops the run after each
//! operation and keeps any part of what was not synced. [`Rebuilt`] makes such a state a real
//! directory again, whose files have their recorded identities, on a machine that has rebooted.
//!
//! # What a power loss may do
//!
//! 1. Synced data stays. Of the writes to a file since its last sync any may be missing, torn, or
//!    zeros; a later one may be there without an earlier one.
//! 2. A change of a name is durable after a sync of a directory it touches. Until then it may be
//!    missing, but then later changes of the same names are missing too. A rename or an exchange
//!    happens as a whole or not at all, and moves the file.
//! 3. Syncing a file does not make its name durable.

mod enumerate;
mod rebuild;
mod record;
mod state;

pub use self::enumerate::{Effort, crash_states};
pub use self::rebuild::Rebuilt;
pub use self::record::{Recorder, Recording};
pub use self::state::{Change, Fate, Node, Op, State};
