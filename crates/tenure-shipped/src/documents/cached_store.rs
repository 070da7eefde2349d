//! OpenClaw's session store in several versions: it updates under the lock but reads from a cache.
//!
//! The lock is sound (a kernel lock). It does not help: changes that others wrote since the cache
//! was filled are not read, so they are overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{os, state};

/// A store that remembers what it read.
#[derive(Debug)]
pub struct CachedStore {
    path: PathBuf,
    lock: PathBuf,
    cache: Option<Value>,
}

impl CachedStore {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        let lock = directory.join("store.lock");
        Self { path: state::path(directory), lock, cache: None }
    }
}

impl crate::Document for CachedStore {
    fn add(&mut self, key: &str) -> io::Result<()> {
        let _alone = loop {
            // A child of this process also has it open between fork and exec.
            match os::open_alone(&self.lock)? {
                Some(alone) => break alone,
                None => std::thread::yield_now(),
            }
        };
        let current = match self.cache.take() {
            Some(cached) => cached,
            None => state::read(&self.path)?,
        };
        let changed = state::with_key(Some(&current), key);
        let temporary = format!("{}.{}.tmp", self.path.display(), std::process::id());
        fs::write(&temporary, serde_json::to_vec(&changed)?)?;
        fs::rename(&temporary, &self.path)?;
        self.cache = Some(changed);
        Ok(())
    }
}
