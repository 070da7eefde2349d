//! Sleeping until a file in a directory changes (Linux).

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
    fd: OwnedFd,
}

impl Watcher {
    /// Watches directories and files; a path that does not exist is left out.
    pub(crate) fn new(paths: &[&Path]) -> io::Result<Self> {
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
                Err(err) => return Err(err.into()),
            }
        }
        Ok(Self { fd })
    }

    /// Sleeps until a change or the timeout; `true` on a change.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(err) => return Err(err.into()),
        }
        // Everything that is queued is one wake-up.
        let mut buf = [MaybeUninit::uninit(); 4096];
        loop {
            match rustix::io::read(&self.fd, &mut buf) {
                Ok(([], _)) | Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(true),
                Ok(_) => {}
                Err(err) => return Err(err.into()),
            }
        }
    }
}
