//! Ways to append to a shared file of lines that shipped.

mod cached_number;
mod header_rewrite;
mod noted_length;
mod plain_append;
mod rotating;
mod two_writes;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

pub use self::cached_number::CachedNumber;
pub use self::header_rewrite::HeaderRewrite;
pub use self::noted_length::NotedLength;
pub use self::plain_append::PlainAppend;
pub use self::rotating::Rotating;
pub use self::two_writes::TwoWrites;

/// The log in `directory`.
pub fn path(directory: &Path) -> PathBuf {
    directory.join("log.jsonl")
}

fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
