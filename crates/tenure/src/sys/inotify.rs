//! Sleeping until a file in a directory changes (Linux).
//!
//! The instances and watches of inotify are few, and all processes of a user share them. Where none
//! is left, or a path may not be watched, the watcher polls; callers need not care.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Wakes when something changes below the watched directories. A wake-up is a hint: look again.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None`: it polls.
    fd: Option<OwnedFd>,
}

impl Watcher {
    /// Watches directories and files; a path that does not exist is left out.
    pub(crate) fn new(paths: &[&Path]) -> Self {
        Self { fd: Self::watch(paths).ok() }
    }

    fn watch(paths: &[&Path]) -> rustix::io::Result<OwnedFd> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ATTRIB;
        for path in paths {
            match inotify::add_watch(&fd, *path, events) {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(err) => return Err(err),
            }
        }
        Ok(fd)
    }

    /// Sleeps until a change or the timeout; `true` if something may have changed.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let Some(fd) = &self.fd else { return Ok(super::polling::wait(timeout)) };
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(err) => return Err(err.into()),
        }
        // Everything that is queued is one wake-up.
        let mut buf = [MaybeUninit::uninit(); 4096];
        loop {
            match rustix::io::read(fd, &mut buf) {
                Ok(([], _)) | Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(true),
                Ok(_) => {}
                Err(err) => return Err(err.into()),
            }
        }
    }
}
