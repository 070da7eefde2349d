//! Load, change, write beside, rename: what most tools do. The rename is atomic, the update is not.
//!
//! Whatever others published between the load and the rename is replaced. The same happens where a lock
//! is taken for the write only, and where the new value was computed before the lock was taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
        Self { path: state::path(directory), meanwhile: Meanwhile::default() }
    }
}

impl crate::Document for SaveWithoutLock {
    fn add(&mut self, key: &str) -> io::Result<()> {
        let loaded = state::read(&self.path)?;
        self.meanwhile.now();
        let temporary = format!("{}.{}.{key}.tmp", self.path.display(), std::process::id());
        fs::write(&temporary, serde_json::to_vec(&state::with_key(Some(&loaded), key))?)?;
        fs::rename(&temporary, &self.path)
    }
}
