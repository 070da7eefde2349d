//! ECC's expiry: the next process that loads a state removes it if it is older than half an hour.
//!
//! Between the check of the time and the removal by name, another process saves a fresh state. The
//! removal deletes that one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Meanwhile, state};

/// Shipped: 30 minutes.
const EXPIRED_MS: u64 = 30 * 60 * 1000;

/// A state that is removed when it is old.
#[derive(Debug)]
pub struct Expiring {
    path: PathBuf,
    /// After the verdict "expired", before the removal.
    pub meanwhile: Meanwhile,
}

impl Expiring {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: state::path(directory), meanwhile: Meanwhile::default() }
    }

    /// The state, or none if it has expired by now.
    pub fn load(&mut self, now_ms: u64) -> io::Result<Option<Value>> {
        let state = state::read(&self.path)?;
        let active = state["last_active"].as_u64().unwrap_or(0);
        if now_ms.saturating_sub(active) < EXPIRED_MS {
            return Ok(Some(state));
        }
        self.meanwhile.now();
        fs::remove_file(&self.path)?;
        Ok(None)
    }
}
