//! Locks, documents, journals and leases on plain files that many processes can share.

mod checksum;
mod error;
pub mod fs;
mod holder;
mod json;
mod sys;

pub use self::error::{Error, ErrorKind, Result};
pub use self::holder::{HoldKind, Holder};
