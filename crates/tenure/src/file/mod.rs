//! The store on local files: locks, leases, documents, journals and collections beside their targets.
//!
//! For programs that need what only files have: the [`FileOptions`] of a call, [`sweep`](sweep()), and the [`FileStore`] where
//! a store is passed. `Lock::open`, `Document::open` and the like use it without being asked.
//!
//! Nothing else in the crate touches a disk. Everything here goes through [`crate::fs`], so that the
//! code that crashes in the simulation is the code that ships.

pub(crate) mod collection;
pub(crate) mod commit;
pub(crate) mod document;
pub(crate) mod events;
pub(crate) mod floor;
pub(crate) mod gate;
pub(crate) mod hold;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod marks;
pub(crate) mod max_hold;
pub(crate) mod operations;
pub(crate) mod record;
pub(crate) mod replace;
pub(crate) mod resolve;
pub(crate) mod seen;
pub(crate) mod slot;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod survey;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod target;
pub(crate) mod update_and_append;
pub(crate) mod waiter_thread;

pub use self::store::FileStore;
pub use self::sweep::sweep;
#[doc(hidden)]
pub use self::sweep::sweep_on;
pub use crate::options::FileOptions;
