//! The directory that is measured in, removed at the end.

use std::io;
use std::path::{Path, PathBuf};

use crate::demo::Dice;

/// The directory.
#[derive(Debug)]
pub(super) struct Scratch {
    parent: PathBuf,
    path: PathBuf,
}

impl Scratch {
    /// Makes one in `parent`. A name that exists is an error, never reused.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let parent = parent.canonicalize()?;
        let path = parent.join(format!("tenure-bench-{:08x}", Dice::fresh_seed()));
        std::fs::create_dir(&path)?;
        Ok(Self { parent, path })
    }

    /// The directory of the user.
    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_dir_all(&self.path) {
            tenure_cli::warn(false, &format!("{} is left: {err}", self.path.display()));
        }
    }
}
