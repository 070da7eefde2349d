//! carl's log: the record first, then its newline, each with a write of its own.
//!
//! Both writes append, and each is atomic. Between them another writer's record gets onto the same
//! line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Meanwhile;

/// A log whose records take two writes.
#[derive(Debug)]
pub struct TwoWrites {
    path: PathBuf,
    /// After the record, before its newline.
    pub meanwhile: Meanwhile,
}

impl TwoWrites {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self::at(super::path(directory))
    }

    /// The log in this file.
    pub fn at(path: PathBuf) -> Self {
        Self { path, meanwhile: Meanwhile::default() }
    }
}

impl crate::Log for TwoWrites {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let mut file = super::open_to_append(&self.path)?;
        file.write_all(line.as_bytes())?;
        self.meanwhile.now();
        file.write_all(b"\n")
    }
}
