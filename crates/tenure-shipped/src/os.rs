//! System calls of the race that the standard library does not have on every system.
//!
//! Only the re-implemented protocols and their judges use this module. Tenure has its own, so that
//! the judge and the judged share no code.

#[cfg(unix)]
pub use self::unix::open_alone;
#[cfg(unix)]
pub(crate) use self::unix::{Presence, flock};
#[cfg(windows)]
pub use self::windows::open_alone;
#[cfg(windows)]
pub(crate) use self::windows::{Presence, flock};

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;

    use rustix::fs::FlockOperation;
    use rustix::process::Pid;

    /// Whether a process is alive, by `kill(pid, 0)`.
    #[derive(Debug)]
    pub(crate) struct Presence;

    impl Presence {
        /// Nothing to announce: the kernel knows its processes.
        #[expect(clippy::unnecessary_wraps, reason = "the other system can fail here")]
        pub(crate) fn announce(_directory: &Path) -> io::Result<Self> {
            Ok(Self)
        }

        /// Whether a process with this number exists. One of another user counts as alive.
        #[expect(clippy::unused_self, reason = "the other system needs its directory here")]
        pub(crate) fn is_alive(&self, pid: i32) -> bool {
            match Pid::from_raw(pid) {
                Some(pid) if pid.as_raw_nonzero().is_positive() => {
                    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
                }
                _ => false,
            }
        }
    }

    /// Waits for the exclusive `flock` of an open file; closing the file releases it.
    pub(crate) fn flock(file: &File) -> io::Result<()> {
        loop {
            match rustix::fs::flock(file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                result => return result.map_err(io::Error::from),
            }
        }
    }

    /// Takes the `flock` of the file without waiting, or reports that another process has it.
    pub fn open_alone(path: &Path) -> io::Result<Option<File>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt;
    use std::path::{Path, PathBuf};

    /// `ERROR_SHARING_VIOLATION`: another process has the file open and does not share it.
    const SHARING_VIOLATION: i32 = 32;

    /// `FILE_SHARE_READ`: others may read the file, but not open it for writing.
    const SHARE_READ: u32 = 1;

    /// Opens a file so that no other process can write it until it is closed, or reports that it is
    /// already open.
    pub fn open_alone(path: &Path) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).share_mode(SHARE_READ);
        match options.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which workers are alive: each keeps its own file open, and death closes it. This replaces
    /// the process query of the shipped code, which needs the raw system interface.
    #[derive(Debug)]
    pub(crate) struct Presence {
        directory: PathBuf,
        _own: Option<File>,
    }

    impl Presence {
        fn marker(directory: &Path, pid: i64) -> PathBuf {
            directory.join(format!("alive.{pid}"))
        }

        /// Announces that this process is alive.
        pub(crate) fn announce(directory: &Path) -> io::Result<Self> {
            let own = open_alone(&Self::marker(directory, i64::from(std::process::id())))?;
            Ok(Self { directory: directory.to_path_buf(), _own: own })
        }

        /// Whether a worker with this number is alive.
        pub(crate) fn is_alive(&self, pid: i32) -> bool {
            let marker = Self::marker(&self.directory, i64::from(pid));
            marker.exists() && !matches!(open_alone(&marker), Ok(Some(_)))
        }
    }

    /// There is no `flock` here, and the shipped code continues without one.
    pub(crate) fn flock(_file: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
