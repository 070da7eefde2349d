//! sbox and others: write a temporary file and rename it, with one temporary name for all writers.
//!
//! Two writers open the same temporary file. The first one renames the file into place while the
//! second one is still writing it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Meanwhile, state};

/// A save through `state.json.tmp`.
#[derive(Debug)]
pub struct FixedTemporary {
    path: PathBuf,
    /// After the first half of the temporary file was written.
    pub meanwhile: Meanwhile,
}

impl FixedTemporary {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: state::path(directory), meanwhile: Meanwhile::default() }
    }
}

impl crate::Document for FixedTemporary {
    fn add(&mut self, key: &str) -> io::Result<()> {
        let content = serde_json::to_vec(&state::with_key(Some(&state::read(&self.path)?), key))?;
        let temporary = self.path.with_extension("json.tmp");
        let mut file = File::create(&temporary)?;
        let (half, rest) = content.split_at(content.len() / 2);
        file.write_all(half)?;
        self.meanwhile.now();
        file.write_all(rest)?;
        fs::rename(&temporary, &self.path)
    }
}
