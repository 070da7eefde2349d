//! Where things are counted: a fresh directory whose path always has the same length, removed at
//! the end.
//!
//! The path of a program is part of what it writes down about itself, so that is always the same, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::prove::failed;

/// Memory: the same file system on every machine, and no disk to wait for.
const PARENT: &str = "/dev/shm";

/// A directory with links to the programs, and the directory `work` beside them.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// With the programs in `built`.
    pub(super) fn new(built: &Path) -> Result<Self, String> {
        let path = Path::new(PARENT).join(format!("tenure-costs-{:07}", std::process::id()));
        std::fs::create_dir(&path).map_err(failed("make", &path))?;
        let scratch = Self { path };
        for program in ["tenure", "tenure-costs"] {
            // Not copies: memory is often mounted `noexec`.
            let from = built.join(program);
            symlink(&from, &scratch.path.join(program)).map_err(failed("link to", &from))?;
        }
        scratch.clear()?;
        Ok(scratch)
    }

    /// Makes `work` empty.
    pub(super) fn clear(&self) -> Result<(), String> {
        let work = self.work();
        if work.exists() {
            std::fs::remove_dir_all(&work).map_err(failed("remove", &work))?;
        }
        std::fs::create_dir(&work).map_err(failed("make", &work))
    }

    /// The directory that the programs work in.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The path of a program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file for a tracer.
    pub(super) fn trace(&self) -> PathBuf {
        self.path.join("trace")
    }

    /// Something that is run in `work` without an environment. A tracer finds its own parts beside
    /// itself, and a Rust program finds nothing that would change what it does.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(self.work());
        command
    }
}

#[cfg(unix)]
fn symlink(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_dir_all(&self.path) {
            println!("{} was not removed: {err}", self.path.display());
        }
    }
}
