//! The directory of a run: removed at its end, kept if something was found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::demo::Dice;

/// How often removal is tried.
const TRIES: u32 = 100;
const TURN: Duration = Duration::from_millis(10);

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

    /// Removes it with its content, even while a process may still create a file in it. Best
    /// effort: at worst an empty directory stays, whose name says where it comes from.
    pub(super) fn remove(path: &Path) {
        let mut tries = TRIES;
        while tries > 0 && fs::remove_dir_all(path).is_err() && path.exists() {
            tries -= 1;
            std::thread::park_timeout(TURN);
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it as evidence.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A final check that was given up may still create files in it.
        if !self.keep {
            Self::remove(&self.path);
        }
    }
}
