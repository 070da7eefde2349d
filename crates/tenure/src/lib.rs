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
//! A lock that no process can steal and that the death of its holder releases; its fence proves it to
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
//! let proven = WriteOptions { fence: Some(guard.publish_fence()), ..WriteOptions::default() };
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
mod collection;
mod document;
mod error;
mod file;
// The lower seam, which tests replace by a disk that crashes. Not part of the interface.
#[doc(hidden)]
pub mod fs;
mod holder;
mod inherited;
mod journal;
mod json;
mod key;
mod lease;
mod lock;
mod options;
mod outcome;
mod printable;
mod process_local;
mod random;
mod status;
pub mod store;
mod sys;
mod update_and_append;
mod wait;

pub use self::collection::{Collection, CollectionKind};
pub use self::document::{Document, Typed, Watch};
pub use self::error::{Error, ErrorKind, Result};
pub use self::file::FileStore;
pub use self::file::sweep::sweep;
#[doc(hidden)]
pub use self::file::sweep::sweep_on;
pub use self::fs::Mode;
pub use self::holder::{HoldKind, Holder};
pub use self::inherited::Inherited;
pub use self::journal::{Entries, Follow, Journal};
pub use self::json::{Number, Object, Rules, Value, parse_json};
pub use self::lease::Lease;
pub use self::lock::{Lock, LockGuard, lock, try_lock};
pub use self::options::{
    AcquireOptions, AppendOptions, Durability, Fence, FileOptions, Guard, LockOptions, MaxHold,
    Prune, Version, WriteOptions,
};
pub use self::outcome::{
    Appended, Compacted, Damage, Earlier, Entry, HoldState, LeaseInfo, Leased, Process, Pruned,
    Report, Rotated, Snapshot, Split, Status, Survey, Unseen, Written,
};
pub use self::printable::{printable, show_times_ahead_of_utc};
pub use self::status::{recorded_events, status, status_below, survey};
#[doc(hidden)]
pub use self::sys::disk;
pub use self::update_and_append::update_and_append;
pub use self::wait::{Cancel, Wait};
