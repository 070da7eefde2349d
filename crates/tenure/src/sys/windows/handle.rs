//! An open file: reads and writes at offsets, and the lock on it.
//!
//! # Invariants
//!
//! 1. The lock is the byte [`LOCK_BYTE`]. Locks are mandatory: while it is held exclusively, other
//!    handles can neither read nor write that byte. Nothing that is read without the lock may lie in it,
//!    and a data file is never locked.
//! 2. The lock belongs to this handle and this process: a child that inherits the handle does not share
//!    it. So there is no handle to inherit.
//! 3. Handles are synchronous: the system runs one operation on a handle at a time. While a thread is
//!    blocked in [`Handle::lock`], every other operation on the same handle waits; on another handle of
//!    the same file it does not. (Overlapped handles would not have that limit, but under Wine a
//!    blocking lock on one returns at once, as if it were granted.)
#![expect(unsafe_code, reason = "locks, appending and file identity are raw calls")]

use std::fs::File;
use std::io::{self, Seek};
use std::os::windows::fs::FileExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_HANDLE_EOF, ERROR_LOCK_VIOLATION, ERROR_NOT_LOCKED, FILETIME,
    INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_READONLY,
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_GENERIC_WRITE, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE, GetFileInformationByHandle, LOCK_FILE_FLAGS, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, ReOpenFile, UnlockFileEx, WriteFile,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

use crate::fs::{FileId, Handle, Kind, Mode, RawHandle, Stat};

use super::api::{check, is_one_of};

/// The first byte, as the `filelock` of Python does, so that a lock file can be shared with it. Those
/// who lock whole files (Rust's `std`, Go, Cargo) lock this byte too.
const LOCK_BYTE: u64 = 0;

/// As an offset of a write: the end of the file, wherever it is at that moment.
const END_OF_FILE: u64 = u64::MAX;

/// 1970 in the unit of file times, 100 nanoseconds since 1601.
const UNIX_EPOCH: i128 = 116_444_736_000_000_000;

/// An open file; the lock on it lives as long as the handle.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
}

impl OpenFile {
    pub(super) fn new(file: File) -> Self {
        Self { file }
    }

    /// The same file once more, with the right to write.
    fn for_writing(&self) -> io::Result<File> {
        let sharing = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
        // SAFETY: the handle is open.
        let again =
            unsafe { ReOpenFile(self.file.as_raw_handle(), FILE_GENERIC_WRITE, sharing, 0) };
        if again == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new and has no other owner.
        Ok(unsafe { File::from_raw_handle(again) })
    }

    /// Converting a lock means giving it back first, as `flock` does: a second lock on the same byte
    /// would wait for the first one, for ever.
    fn take(&self, flags: LOCK_FILE_FLAGS) -> io::Result<()> {
        self.unlock()?;
        let mut place = at(LOCK_BYTE);
        // SAFETY: the handle is open and synchronous, so the system is done with `place` on return.
        check(unsafe { LockFileEx(self.file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) })
    }
}

impl Handle for OpenFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.file.seek_read(buf, offset) {
            Err(err) if is_one_of(&err, &[ERROR_HANDLE_EOF]) => Ok(0),
            done => done,
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.seek_write(buf, offset)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        // More than one call can take is a short write; the caller continues where it ended.
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        let (mut place, mut written) = (at(END_OF_FILE), 0);
        // SAFETY: the handle is open and synchronous, so the system is done with `buf` and `place` on
        // return; `len` is not more than `buf` has.
        check(unsafe {
            WriteFile(
                self.file.as_raw_handle(),
                buf.as_ptr(),
                len,
                &raw mut written,
                &raw mut place,
            )
        })?;
        let written = usize::try_from(written).map_err(io::Error::other)?;
        // The system has moved the handle after what it wrote.
        Ok((written, (&self.file).stream_position()?))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Flushing is about the file, but takes a handle that may write to it.
            Err(err) if is_one_of(&err, &[ERROR_ACCESS_DENIED]) => self.for_writing()?.sync_all(),
            done => done,
        }
    }

    fn stat(&self) -> io::Result<Stat> {
        stat(&self.file)
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        match self.take(flags_of(mode) | LOCKFILE_FAIL_IMMEDIATELY) {
            Ok(()) => Ok(true),
            Err(err) if is_one_of(&err, &[ERROR_LOCK_VIOLATION]) => Ok(false),
            Err(err) => Err(err),
        }
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.take(flags_of(mode))
    }

    fn unlock(&self) -> io::Result<()> {
        let mut place = at(LOCK_BYTE);
        // SAFETY: the handle is open, and unlocking is done when the call returns.
        let done = unsafe { UnlockFileEx(self.file.as_raw_handle(), 0, 1, 0, &raw mut place) };
        match check(done) {
            // Nothing to give back. Wine has the second code for it.
            Err(err) if is_one_of(&err, &[ERROR_NOT_LOCKED, ERROR_LOCK_VIOLATION]) => Ok(()),
            done => done,
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mut permissions = self.file.metadata()?.permissions();
        permissions.set_readonly(mode & 0o222 == 0);
        self.file.set_permissions(permissions)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        // Owner and access list are those that the directory gives to every new file in it; that is
        // what people on Windows expect of a saved file. Only the read-only bit is the file's own.
        self.set_mode(model.stat()?.mode)
    }

    fn raw(&self) -> Option<RawHandle> {
        None
    }
}

/// What the system says about an open file or directory.
pub(super) fn stat(file: &File) -> io::Result<Stat> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and `found` is what the call fills.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) })?;
    let has = |attribute: u32| found.dwFileAttributes & attribute != 0;
    let kind = if has(FILE_ATTRIBUTE_REPARSE_POINT) && file.metadata()?.file_type().is_symlink() {
        Kind::Symlink
    } else if has(FILE_ATTRIBUTE_DIRECTORY) {
        Kind::Directory
    } else {
        Kind::File
    };
    let mode = if kind == Kind::Directory { 0o777 } else { 0o666 };
    Ok(Stat {
        id: FileId {
            dev: found.dwVolumeSerialNumber.into(),
            ino: join(found.nFileIndexHigh, found.nFileIndexLow),
        },
        links: found.nNumberOfLinks.into(),
        size: join(found.nFileSizeHigh, found.nFileSizeLow),
        mode: if has(FILE_ATTRIBUTE_READONLY) { mode & !0o222 } else { mode },
        uid: 0,
        gid: 0,
        modified_ns: (i128::from(time_of(found.ftLastWriteTime)) - UNIX_EPOCH) * 100,
        kind,
        mount_root: false,
    })
}

/// A file time as one number.
pub(super) fn time_of(time: FILETIME) -> u64 {
    join(time.dwHighDateTime, time.dwLowDateTime)
}

fn join(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

fn flags_of(mode: Mode) -> LOCK_FILE_FLAGS {
    match mode {
        Mode::Shared => 0,
        Mode::Exclusive => LOCKFILE_EXCLUSIVE_LOCK,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the offset")]
fn at(offset: u64) -> OVERLAPPED {
    let place = OVERLAPPED_0_0 { Offset: offset as u32, OffsetHigh: (offset >> 32) as u32 };
    OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() }
}
