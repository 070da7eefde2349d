//! App-Store-Connect-CLI: if the lock cannot be taken in time, continue without it.
//!
//! The tool must not fail, so it does not: after the deadline it works without the lock and reports
//! nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A lock file that is only a request.
#[derive(Debug)]
pub struct GivesIn {
    path: PathBuf,
}

impl GivesIn {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: super::lock_file(directory) }
    }
}

impl crate::Lock for GivesIn {
    fn enter(&mut self) -> io::Result<()> {
        // Shipped: some seconds of attempts first. They make no difference if the holder is slower.
        let _ = File::create_new(&self.path);
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let _ = fs::remove_file(&self.path);
        Ok(())
    }
}
