//! A private directory that goes away with its owner.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tenure_shipped::Dice;

/// The directory that all races of one run live in.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one among the system's temporary files. A name that exists is an error, never reused.
    pub(super) fn new() -> io::Result<Self> {
        let name = format!("tenure-demo-{}-{:08x}", std::process::id(), Dice::fresh_seed());
        let path = std::env::temp_dir().join(name);
        create_private(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new directory inside, gone with the returned value.
    pub(super) fn inner(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(Self { path })
    }
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<()> {
    // The temporary directory is the user's own there.
    fs::create_dir(path)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: leftovers in the temporary directory are harmless.
        let _ = fs::remove_dir_all(&self.path);
    }
}
