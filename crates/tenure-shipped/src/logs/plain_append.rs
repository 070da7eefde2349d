//! What every transcript writer does: open to append, one write of the line and its newline.
//!
//! No writer checks how the file ends. After a crash in the middle of a write the next record is
//! joined to the fragment, and a reader that parses lines loses both.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A log without repair.
#[derive(Debug)]
pub struct PlainAppend {
    path: PathBuf,
}

impl PlainAppend {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self::at(super::path(directory))
    }

    /// The log in this file.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }
}

impl crate::Log for PlainAppend {
    fn append(&mut self, line: &str) -> io::Result<()> {
        super::open_to_append(&self.path)?.write_all(format!("{line}\n").as_bytes())
    }
}
