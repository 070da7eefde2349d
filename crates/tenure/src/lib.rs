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
//! # The rest
//!
//! | | |
//! |---|---|
//! | [`outcome`] | what the calls return |
//! | [`options`] | the rarer options: durability, shared locks, pruning |
//! | [`mod@json`] | parts of a [`Value`], the parser, rules of a merge |
//! | [`blob`] | files that are not JSON |
//! | [`once`] | an action that one caller does for many |
//! | [`queue`] | tasks that each one worker claims |
//! | [`status`] | who holds what |
//! | [`mod@file`] | what only local files have |
//! | [`store`] | for authors of stores |
//! | [`embed`] | for authors of commands and of packages for other languages |
//!
//! What is guaranteed, and where not, is in the README and in `docs/` of the repository.

mod address;
mod advice;
pub mod blob;
mod checksum;
mod collection;
mod document;
pub mod embed;
mod error;
pub mod file;
// The lower seam, which tests replace by a disk that crashes. Not part of the interface.
#[doc(hidden)]
pub mod fs;
mod holder;
mod inherited;
mod journal;
pub mod json;
mod key;
mod lease;
mod lock;
pub mod once;
pub mod options;
pub mod outcome;
mod printable;
mod process_local;
pub mod queue;
mod random;
mod results;
mod several;
mod slots;
pub mod status;
pub mod store;
mod sys;
mod update_and_append;
mod wait;

pub use self::collection::Collection;
pub use self::document::Document;
pub use self::error::{Error, ErrorKind, Result};
pub use self::journal::Journal;
pub use self::json::Value;
pub use self::lease::Lease;
pub use self::lock::{Lock, LockGuard, lock, try_lock};
pub use self::options::{
    AppendOptions, Fence, Guard, LeaseOptions, LockOptions, Version, WriteOptions,
};
#[doc(hidden)]
pub use self::sys::disk;
pub use self::update_and_append::update_and_append;
pub use self::wait::{Cancel, Wait};
