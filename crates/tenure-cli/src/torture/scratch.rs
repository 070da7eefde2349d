//! The directory of a run: removed at its end, kept when something was found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::demo::Dice;

/// The directory.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes one in `parent`. A name that exists is an error, never reused.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let name = format!("tenure-torture-{:08x}", Dice::fresh_seed());
        let path = parent.canonicalize()?.join(name);
        fs::create_dir(&path)?;
        Ok(Self { path, keep: false })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// It is evidence now.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Best effort: a name that says where it comes from is all that may stay.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
