//! Windows: the command gets console events by itself, and a lock cannot be inherited.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::{Mutex, PoisonError};

use tenure::LockGuard;

use super::{Captured, Ended};

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
    pub(super) fn start(command: &mut Command, _inherited: Vec<Inherited>) -> io::Result<Self> {
        Ok(Self { child: Mutex::new(command.spawn()?) })
    }

    /// Its standard input, if that is a pipe.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.get_mut().unwrap_or_else(PoisonError::into_inner).stdin.take()
    }

    /// Its standard output, if that is a pipe.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.get_mut().unwrap_or_else(PoisonError::into_inner).stdout.take()
    }

    /// There is no polite way.
    pub(crate) fn terminate(&self) {
        self.kill();
    }

    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
    }

    /// Looks now and then, since waiting would keep `kill` out.
    pub(crate) fn ends_within(&self, _time: std::time::Duration) -> bool {
        self.wait().is_ok() // Without a thread the lease is renewed after the command only.
    }

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

impl Captured {
    /// Reads the output to its end.
    pub(crate) fn until_end(mut self, _running: &Running, mut take: impl FnMut(&[u8])) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = self.output.read(&mut bytes) {
            take(&bytes[..count]);
        }
    }
}

/// Runs `program` to its end. It has the console of this process, and gets its events.
pub(crate) fn become_program(program: &Path, arguments: &[OsString]) -> io::Result<Ended> {
    let status = Command::new(program).args(arguments).status()?;
    Ok(Ended::Exited(status.code().unwrap_or(1)))
}
