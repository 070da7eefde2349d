//! OpenClaw's check for a take-over: it compares the file's inode, size and times with those of the
//! last check.
//!
//! It reports a change when there was none: after a touch, a restored copy, or the atomic save of
//! the process itself. And it reports no change after a write of the same size that restored the
//! old time.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::state;

/// What the file looked like.
#[derive(Debug)]
pub struct Fingerprint {
    path: PathBuf,
    seen: (u64, u64, SystemTime),
}

impl Fingerprint {
    /// Looks at the state in `directory`.
    pub fn take(directory: &Path) -> io::Result<Self> {
        let path = state::path(directory);
        let seen = look(&path.metadata()?)?;
        Ok(Self { path, seen })
    }

    /// Whether the file seems to have been replaced or changed since.
    pub fn has_changed(&self) -> io::Result<bool> {
        Ok(look(&self.path.metadata()?)? != self.seen)
    }
}

fn look(metadata: &Metadata) -> io::Result<(u64, u64, SystemTime)> {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Ok((inode, metadata.len(), metadata.modified()?))
}
