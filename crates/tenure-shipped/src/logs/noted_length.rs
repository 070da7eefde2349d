//! A log whose length is noted beside it: bytes beyond that length count as torn, and are cut off.
//!
//! That is sound while both files are from the same time. A backup, a copy or a clean-up restores
//! an older note, and the next append cuts off lines acknowledged since.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A log and its note.
#[derive(Debug)]
pub struct NotedLength {
    path: PathBuf,
    note: PathBuf,
}

impl NotedLength {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        let path = super::path(directory);
        let note = path.with_extension("length");
        Self { path, note }
    }

    /// The file with the length.
    pub fn note(&self) -> &Path {
        &self.note
    }
}

impl crate::Log for NotedLength {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let mut log = super::open_to_append(&self.path)?;
        let noted = fs::read_to_string(&self.note).ok().and_then(|note| note.parse().ok());
        if let Some(noted) = noted.filter(|noted| *noted < log.metadata().map_or(0, |it| it.len()))
        {
            log.set_len(noted)?;
        }
        log.write_all(format!("{line}\n").as_bytes())?;
        fs::write(&self.note, log.metadata()?.len().to_string())
    }
}
