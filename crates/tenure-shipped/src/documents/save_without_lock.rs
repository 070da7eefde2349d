//! Load, change, write a temporary file, rename: what most tools do. The rename is atomic, the
//! update is not.
//!
//! The rename replaces everything that others published since the load. The same happens if a lock
//! is taken for the write only, or if the new value was computed before the lock was taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Meanwhile, state};

/// A state file without a lock.
#[derive(Debug)]
pub struct SaveWithoutLock {
    path: PathBuf,
    /// After the load, before the rename.
    pub meanwhile: Meanwhile,
}

impl SaveWithoutLock {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self::at(state::path(directory))
    }

    /// The document in this file.
    pub fn at(path: PathBuf) -> Self {
        Self { path, meanwhile: Meanwhile::default() }
    }

    /// Any other change; the file may be missing. `name` distinguishes two temporary files of one
    /// process.
    pub fn update(
        &mut self,
        name: &str,
        change: impl FnOnce(Option<&Value>) -> Value,
    ) -> io::Result<()> {
        let loaded = match state::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            loaded => Some(loaded?),
        };
        self.meanwhile.now();
        let temporary = format!("{}.{}.{name}.tmp", self.path.display(), std::process::id());
        fs::write(&temporary, serde_json::to_vec(&change(loaded.as_ref()))?)?;
        fs::rename(&temporary, &self.path)
    }
}

impl crate::Document for SaveWithoutLock {
    fn add(&mut self, key: &str) -> io::Result<()> {
        self.update(key, |loaded| state::with_key(loaded, key))
    }
}
