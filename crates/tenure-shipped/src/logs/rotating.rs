//! codegraph's `rotateIfNeeded`: keep the last lines, written to a temporary file and renamed over
//! the journal.
//!
//! Lines that others append between the read and the rename go to the old file, which has no name
//! any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Meanwhile;

/// A log that any writer may cut when it is too long.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    /// After the read, before the rename.
    pub meanwhile: Meanwhile,
}

impl Rotating {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self::at(super::path(directory))
    }

    /// The log in this file.
    pub fn at(path: PathBuf) -> Self {
        Self { path, meanwhile: Meanwhile::default() }
    }

    /// Keeps the last lines only.
    pub fn rotate(&mut self, keep: usize) -> io::Result<()> {
        let content = fs::read_to_string(&self.path)?;
        self.meanwhile.now();
        let skip = content.lines().count().saturating_sub(keep);
        let kept: String = content.lines().skip(skip).flat_map(|line| [line, "\n"]).collect();
        let temporary = self.path.with_extension("jsonl.tmp");
        fs::write(&temporary, kept)?;
        fs::rename(&temporary, &self.path)
    }
}
