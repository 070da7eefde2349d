//! Locks, documents, journals and leases on plain files that many processes can share.

mod checksum;
mod collection;
mod commit;
mod document;
mod error;
mod events;
pub mod fs;
mod gate;
mod group;
mod hold;
mod holder;
mod journal;
mod json;
mod lease;
mod lock;
mod max_hold;
mod options;
mod process_local;
mod random;
mod record;
mod resolve;
mod status;
mod sys;
mod target;
mod together;
mod wait;

pub use self::collection::{Collection, CollectionKind, Prune, Pruned, Split};
pub use self::document::{Document, Snapshot, Watch, Written};
pub use self::error::{Error, ErrorKind, Result};
pub use self::fs::Mode;
pub use self::holder::{HoldKind, Holder};
pub use self::journal::{
    AppendOptions, Appended, Compacted, Damage, Entries, Entry, Follow, Journal, Report, Rotated,
};
pub use self::json::Rules;
pub use self::lease::{AcquireOptions, Lease, LeaseInfo, Leased};
pub use self::lock::{Lock, LockGuard, LockOptions, lock, try_lock};
pub use self::max_hold::MaxHold;
pub use self::options::{Durability, Fence, Guard, Version, WriteOptions};
pub use self::status::{HoldState, Process, Status, recorded_events, status, status_below};
pub use self::together::update_and_append;
pub use self::wait::{Cancel, Wait};
