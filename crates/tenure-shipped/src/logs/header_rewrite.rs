//! codegraph's header: one language appends to the journal, the other rewrites its first line.
//!
//! The new first line has another length, so the whole file is written again, from what was read
//! before. Lines appended since that read are lost.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Meanwhile;

/// A log with a header line.
#[derive(Debug)]
pub struct HeaderRewrite {
    path: PathBuf,
    /// After the read, before the write.
    pub meanwhile: Meanwhile,
}

impl HeaderRewrite {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: super::path(directory), meanwhile: Meanwhile::default() }
    }

    /// Makes `header` the first line.
    pub fn stamp(&mut self, header: &str) -> io::Result<()> {
        let content = fs::read_to_string(&self.path)?;
        self.meanwhile.now();
        let (_, entries) = content.split_once('\n').unwrap_or_default();
        fs::write(&self.path, format!("{header}\n{entries}"))
    }
}
