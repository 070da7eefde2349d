//! Stores that people would use instead of files: one document, or a log of lines, in each.

pub(crate) mod lmdb;
pub(crate) mod redb;
pub(crate) mod sqlite;
