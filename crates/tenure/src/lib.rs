//! Locks, documents, journals and leases on plain files that many processes can share.
//!
//! # Start here
//!
//! A JSON file that several processes change, without losing an update:
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("tenure-doc-{}", std::process::id()));
//! # let path = dir.join("state.json");
//! use tenure::{Document, WriteOptions, json};
//!
//! let state = Document::open(&path)?;
//! state.update(&WriteOptions::default(), |current| {
//!     let count = current.and_then(|value| value["count"].as_u64()).unwrap_or(0);
//!     Ok(Some(json!({ "count": count + 1 })))
//! })?;
//! assert_eq!(state.read()?.unwrap().value["count"], 1);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), tenure::Error>(())
//! ```
//!
//! A lock that nobody can steal and that the death of its holder releases; its fence proves it to
//! writes of the same target:
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("tenure-lock-{}", std::process::id()));
//! # let path = dir.join("state.json");
//! use tenure::{Document, WriteOptions, json};
//!
//! let guard = tenure::lock(&path)?;
//! if let Some(holder) = guard.recovered_from() {
//!     eprintln!("{holder} died while it held this");
//! }
//! let proven = WriteOptions { fence: Some(guard.fence()), ..WriteOptions::default() };
//! Document::open(&path)?.set(&json!({ "turn": 1 }), &proven)?;
//! guard.release()?;
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), tenure::Error>(())
//! ```
//!
//! # The four things
//!
//! | | |
//! |---|---|
//! | [`Lock`] | one holder among all threads and processes of this machine |
//! | [`Lease`] | a hold that outlives its process, until a time; writes under an old fence are refused |
//! | [`Document`] | a JSON file, replaced as a whole, changed under the lock |
//! | [`Journal`] | a file of lines, appended in whole batches, numbered and verified |
//!
//! A [`Collection`] is a directory of documents or journals by key; [`update_and_append`] changes one of
//! each in a single call. Everything that can fail fails with an [`Error`], whose [`ErrorKind`] says
//! what to do.
//!
//! What is guaranteed, and where not, is in the README and in `docs/` of the repository.

mod advice;
mod checksum;
mod error;
mod file;
pub mod fs;
mod holder;
mod inherited;
mod json;
mod options;
mod printable;
mod process_local;
mod random;
mod sys;
mod wait;

pub use self::error::{Error, ErrorKind, Result};
pub use self::file::collection::{Collection, CollectionKind, Prune, Pruned, Split};
pub use self::file::document::{Document, Earlier, Snapshot, Watch, Written};
pub use self::file::journal::{
    AppendOptions, Appended, Compacted, Damage, Entries, Entry, Follow, Journal, Report, Rotated,
};
pub use self::file::lease::{AcquireOptions, Lease, LeaseInfo, Leased};
pub use self::file::lock::{Lock, LockGuard, LockOptions, lock, try_lock};
pub use self::file::max_hold::MaxHold;
pub use self::file::status::{HoldState, Process, Status, recorded_events, status};
pub use self::file::survey::{Survey, Unseen, status_below, survey};
pub use self::file::sweep::{sweep, sweep_on};
pub use self::file::update_and_append::update_and_append;
pub use self::fs::Mode;
pub use self::holder::{HoldKind, Holder};
pub use self::inherited::Inherited;
pub use self::json::{Number, Object, Rules, Value, parse_json};
pub use self::options::{Durability, Fence, Guard, Version, WriteOptions};
pub use self::printable::{printable, show_times_ahead_of_utc};
pub use self::sys::disk;
pub use self::wait::{Cancel, Wait};
