//! Windows: LockFileEx, rename and delete with POSIX semantics, FlushFileBuffers.
//!
//! # Invariants
//!
//! 1. Every handle shares reading, writing and deleting and is not inherited, which is what `std`
//!    asks for: no handle of tenure makes another program's rename or removal fail.
//! 2. Virus scanners, indexers and backup tools open files without sharing for a moment. What fails
//!    because of that is tried again for a bounded time and then reported; there is never a second,
//!    non-atomic way to do the same thing.
//! 3. Resolved paths have the `\\?\` form: no length limit, no reserved names, nothing rewritten.

mod api;
mod handle;
mod machine;
mod names;
#[cfg(test)]
mod tests;
mod volume;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_CANT_RESOLVE_FILENAME, ERROR_CRC, ERROR_FILENAME_EXCED_RANGE,
    ERROR_IO_DEVICE, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION, ERROR_STOPPED_ON_SYMLINK,
    ERROR_TOO_MANY_OPEN_FILES,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES,
};

use crate::fs::{Access, Fs, Handle, Stat, Trust};

use self::api::{is_one_of, is_unsupported};
use self::handle::OpenFile;
pub(crate) use self::machine::{
    boot_id, boot_time_us, effective_user, forks, host_name, is_gone, pid_namespace,
    process_number, process_start, wall_time_us,
};

/// How often an operation is tried while another program blocks it. The waits between are 1, 2, 4
/// ... milliseconds, half a second together.
const ATTEMPTS: u32 = 10;

/// The real disk of a Windows system.
#[derive(Debug)]
struct Disk;

/// The real disk. It has no state, so there is one.
pub fn disk() -> Arc<dyn Fs> {
    static DISK: OnceLock<Arc<Disk>> = OnceLock::new();
    DISK.get_or_init(|| Arc::new(Disk)).clone()
}

/// A name, or a whole path, is longer than the system takes.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_FILENAME_EXCED_RANGE])
}

/// Links that lead to each other.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_CANT_RESOLVE_FILENAME])
}

/// This process has as many files open as it may.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_TOO_MANY_OPEN_FILES])
}

/// The disk itself failed.
pub(crate) fn is_hardware(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_CRC, ERROR_IO_DEVICE])
}

impl Fs for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            refuse_redirection(dir)?;
        }
        let file = patiently(|| open_file(path, access))?;
        Ok(Arc::new(OpenFile::new(file)))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let file = patiently(|| {
            OpenOptions::new()
                .access_mode(FILE_READ_ATTRIBUTES)
                .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS)
                .open(path)
        })?;
        handle::stat(&file)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        patiently(|| names::replace(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        patiently(|| names::move_new(from, to))
    }

    fn exchange(&self, _one: &Path, _other: &Path) -> io::Result<()> {
        // No Windows file system swaps two names in one step.
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        patiently(|| std::fs::hard_link(existing, new))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        patiently(|| names::remove(path))
    }

    fn create_dir(&self, path: &Path, _mode: u32) -> io::Result<()> {
        // Who may do what is inherited from the directory above, as everywhere on Windows.
        std::fs::create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Flushing needs a handle that may write. Renames were written through already, so where a
        // directory cannot be flushed (no right to write to it, some network and FAT drivers) the
        // commit is finished all the same and must not be reported as failed.
        let opened =
            OpenOptions::new().write(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path);
        match opened.and_then(|dir| dir.sync_all()) {
            Err(err) if is_one_of(&err, &[ERROR_ACCESS_DENIED]) || is_unsupported(&err) => Ok(()),
            done => done,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        volume::trust(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        boot_id()
    }
}

/// Opens the file itself: a link in its place is refused, never followed.
fn open_file(path: &Path, access: Access) -> io::Result<File> {
    let opened = options(access, FILE_FLAG_OPEN_REPARSE_POINT).open(path);
    let file = opened.map_err(|err| name_a_directory(path, err))?;
    let found = file.metadata()?;
    if found.file_type().is_symlink() {
        return Err(redirected());
    }
    if found.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT == 0 {
        return Ok(file);
    }
    // Deduplicated, compressed and cloud files are reparse points too, but not links: a filter
    // driver supplies their content unless it is bypassed. That it is still the same file shows
    // that no link replaced it in between.
    let again = if access == Access::Read { Access::Read } else { Access::ReadWrite };
    let filled = options(again, 0).open(path)?;
    if handle::stat(&filled)?.id == handle::stat(&file)?.id {
        Ok(filled)
    } else {
        Err(redirected())
    }
}

fn options(access: Access, flags: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    match access {
        Access::Read => {}
        // Not `std`'s append mode: that one may not cut the file. `append` names the end itself.
        Access::ReadWrite | Access::Append => {
            options.write(true);
        }
        Access::Create(_) => {
            options.write(true).create(true).truncate(false);
        }
        Access::CreateNew(_) => {
            options.write(true).create_new(true);
        }
    }
    options
}

/// Fails if `dir` leads somewhere else. A volume mounted on a directory is such a name as well, but
/// there the resolved path goes through it. The rest of a resolved path can only be changed by a
/// user who could change the data as well.
fn refuse_redirection(dir: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(dir)?.file_type().is_symlink() || dir.canonicalize()? == dir {
        return Ok(());
    }
    Err(redirected())
}

fn redirected() -> io::Error {
    let code = i32::try_from(ERROR_STOPPED_ON_SYMLINK).unwrap_or(i32::MAX);
    io::Error::from_raw_os_error(code)
}

/// A directory in place of a file reads as "access denied", which is worth no second attempt.
fn name_a_directory(path: &Path, err: io::Error) -> io::Error {
    if is_one_of(&err, &[ERROR_ACCESS_DENIED]) && path.is_dir() {
        return io::ErrorKind::IsADirectory.into();
    }
    err
}

/// Tries again, for a bounded time, while another program blocks the operation.
fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for round in 1..ATTEMPTS {
        match attempt() {
            Err(err) if is_in_the_way(&err) => {
                crate::sys::pause(Duration::from_millis(1 << (round - 1)));
            }
            done => return done,
        }
    }
    attempt()
}

/// Another program has the file open without sharing, has a range of it locked, or has removed it
/// and not yet closed it (which reads as "access denied").
fn is_in_the_way(err: &io::Error) -> bool {
    is_one_of(err, &[ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION])
}
