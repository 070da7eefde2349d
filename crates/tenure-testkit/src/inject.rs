//! Errors without a crash: a full disk, a failing sync, no descriptors left.

use std::io;

use crate::step::Verb;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `ENOSPC` from whatever may need a block: writes, lengths, new names.
    NoSpace,
    /// `EIO` from a read or any change. A failed sync forgets its pages: see [`Fault::SyncFailure`].
    Io,
    /// `EIO` from a sync of a file or directory. What it should have written counts as written from
    /// then on, as on Linux: it stays visible, a later sync succeeds, and it may not be on the disk.
    SyncFailure,
    /// The same from a sync of a file only.
    FileSyncFailure,
    /// `EMFILE` from opening or creating a file.
    TooManyFiles,
    /// A write that takes half of the bytes and says so.
    ShortWrite,
    /// `EROFS` from every change.
    ReadOnly,
    /// A file system that cannot exchange two names: `Unsupported`.
    NoExchange,
    /// `ENOLCK` from taking a lock.
    NoLocks,
}

/// How often a [`Fault`] strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Only the one operation.
    Once,
    /// That operation and every later one that it can hit.
    Forever,
}

impl Fault {
    fn hits(self, verb: Verb) -> bool {
        match self {
            Self::NoSpace => verb.may_allocate(),
            Self::Io => verb.changes() || verb == Verb::Read,
            Self::SyncFailure => verb.syncs(),
            Self::FileSyncFailure => verb.syncs() && verb != Verb::SyncDir,
            Self::TooManyFiles => matches!(verb, Verb::Open | Verb::Create),
            Self::ShortWrite => matches!(verb, Verb::Write | Verb::Append),
            Self::ReadOnly => verb.changes() && !verb.syncs(),
            Self::NoExchange => verb == Verb::Exchange,
            Self::NoLocks => matches!(verb, Verb::Lock | Verb::TryLock),
        }
    }

    pub(crate) fn error(self) -> io::Error {
        match self {
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
            Self::Io | Self::SyncFailure | Self::FileSyncFailure => raw(5, 5, 1117),
            Self::TooManyFiles => raw(24, 24, 4),
            Self::ShortWrite => io::ErrorKind::WriteZero.into(),
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            Self::NoExchange => io::ErrorKind::Unsupported.into(),
            Self::NoLocks => raw(37, 77, 33),
        }
    }
}

/// The faults that wait for their operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Injector {
    waiting: Vec<Injection>,
    pub(crate) fired: u64,
}

#[derive(Debug, Clone)]
struct Injection {
    left: u64,
    fault: Fault,
    times: Times,
}

impl Injector {
    pub(crate) fn add(&mut self, nth: u64, fault: Fault, times: Times) {
        self.waiting.push(Injection { left: nth, fault, times });
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Removes a fault that has not struck yet. Returns whether there was one.
    pub(crate) fn withdraw(&mut self, fault: Fault) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|injection| injection.fault != fault);
        self.waiting.len() < before
    }

    /// Counts an operation and says which fault strikes it.
    pub(crate) fn strike(&mut self, verb: Verb) -> Option<Fault> {
        let mut struck = None;
        self.waiting.retain_mut(|injection| {
            if !injection.fault.hits(verb) {
                return true;
            }
            injection.left = injection.left.saturating_sub(1);
            if injection.left > 0 || struck.is_some() {
                return true;
            }
            struck = Some(injection.fault);
            injection.times == Times::Forever
        });
        self.fired += u64::from(struck.is_some());
        struck
    }
}

/// What every operation reports after a crash.
pub(crate) fn crashed() -> io::Error {
    io::Error::other("crashed")
}

/// `ELOOP`: there is no stable [`io::ErrorKind`] for it.
pub(crate) fn symlink_refused() -> io::Error {
    raw(40, 62, 1921)
}

/// A write through a handle that was opened for reading: `EBADF`.
pub(crate) fn not_writable() -> io::Error {
    raw(9, 9, 5)
}

/// The error number of this platform, so that code under test sees what it would really see.
fn raw(linux: i32, bsd: i32, windows: i32) -> io::Error {
    let number = if cfg!(windows) {
        windows
    } else if cfg!(any(target_os = "linux", target_os = "android")) {
        linux
    } else {
        bsd
    };
    io::Error::from_raw_os_error(number)
}
