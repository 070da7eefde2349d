//! Windows: the command gets console events by itself, and a lock cannot be inherited.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use tenure::LockGuard;

use super::Ended;

/// Handles of a lock are not inherited: the lock ends with tenure.
#[derive(Debug)]
pub struct Inherited;

impl Inherited {
    /// There is none to give.
    pub fn of(_guard: &LockGuard) -> io::Result<Option<Self>> {
        Ok(None)
    }
}

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Mutex<Child>,
}

impl Running {
    pub(super) fn start(command: &mut Command, _inherited: Option<Inherited>) -> io::Result<Self> {
        Ok(Self { child: Mutex::new(command.spawn()?) })
    }

    /// There is no polite way.
    pub(crate) fn terminate(&self) {
        self.kill();
    }

    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
    }

    /// Polls, since a blocking wait would keep `kill` out.
    pub(crate) fn wait(&self) -> io::Result<()> {
        loop {
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            drop(child);
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn reap(self) -> io::Result<Ended> {
        let mut child = self.child.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Ended::Exited(child.wait()?.code().unwrap_or(1)))
    }
}

/// Runs `program` to its end. It has the console of this process, and gets its events.
pub(crate) fn become_program(program: &Path, arguments: &[OsString]) -> io::Result<Ended> {
    let status = Command::new(program).args(arguments).status()?;
    Ok(Ended::Exited(status.code().unwrap_or(1)))
}
