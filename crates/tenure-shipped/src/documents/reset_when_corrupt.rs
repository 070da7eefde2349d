//! claude-code's settings: a file that cannot be parsed is moved aside, and an empty one is
//! written.
//!
//! Most files that could not be parsed were valid a moment later: the reader had met a writer in
//! the middle of its work. The reset then replaced good data with nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Meanwhile, state};

/// A reader that repairs.
#[derive(Debug)]
pub struct ResetWhenCorrupt {
    path: PathBuf,
    /// After the parse failed, before the reset.
    pub meanwhile: Meanwhile,
}

impl ResetWhenCorrupt {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: state::path(directory), meanwhile: Meanwhile::default() }
    }

    /// The state, or a fresh one if it cannot be parsed.
    pub fn load(&mut self) -> io::Result<Value> {
        if let Ok(state) = state::read(&self.path) {
            return Ok(state);
        }
        self.meanwhile.now();
        fs::copy(&self.path, self.path.with_extension("json.corrupted"))?;
        fs::write(&self.path, "{}")?;
        Ok(json!({}))
    }
}
