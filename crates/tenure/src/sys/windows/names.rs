//! Changing names: replace, move, remove.
//!
//! With POSIX semantics (Windows 10 1607 and later, on NTFS and ReFS) the old file may be open
//! elsewhere: its name is free at once, and its readers go on reading the old content. Where the file
//! system does not have them, the classic call does the same in one step, but fails while the file in
//! the way is open.
#![expect(unsafe_code, reason = "POSIX semantics are asked for through raw calls")]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_DISPOSITION_FLAG_DELETE, FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE,
    FILE_DISPOSITION_FLAG_POSIX_SEMANTICS, FILE_DISPOSITION_INFO_EX, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAG_WRITE_THROUGH, FILE_INFO_BY_HANDLE_CLASS,
    FILE_RENAME_INFO, FileDispositionInfoEx, FileRenameInfoEx, MOVE_FILE_FLAGS,
    MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW, SYNCHRONIZE,
    SetFileInformationByHandle,
};
use windows_sys::Win32::System::WindowsProgramming::{
    FILE_RENAME_FLAG_POSIX_SEMANTICS, FILE_RENAME_FLAG_REPLACE_IF_EXISTS,
};

use super::api::{check, is_unsupported, wide};

/// Moves `from` over `to`. A read-only file in the way is respected: "access denied".
///
/// Crash before the call returns: one of the two states, never a missing `to`. After it: written
/// through, because flushing the directory may not be possible.
pub(super) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    match replace_open(from, to) {
        Err(err) if is_unsupported(&err) => {
            move_file(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
        }
        done => done,
    }
}

/// Moves `from` to `to`, which must not exist.
pub(super) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    move_file(from, to, MOVEFILE_WRITE_THROUGH)
}

/// Removes a file's name at once, even while another program has it open. Tenure only removes its
/// own files, so a read-only bit that was copied to one does not count.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let info = FILE_DISPOSITION_INFO_EX {
        Flags: FILE_DISPOSITION_FLAG_DELETE
            | FILE_DISPOSITION_FLAG_POSIX_SEMANTICS
            | FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE,
    };
    let file = open_name(path, 0)?;
    // SAFETY: `info` is what the class asks for.
    let done = unsafe {
        set_information(
            &file,
            FileDispositionInfoEx,
            (&raw const info).cast(),
            size_of::<FILE_DISPOSITION_INFO_EX>(),
        )
    };
    match done {
        Err(err) if is_unsupported(&err) => {
            drop(file);
            std::fs::remove_file(path)
        }
        done => done,
    }
}

fn replace_open(from: &Path, to: &Path) -> io::Result<()> {
    let file = open_name(from, FILE_FLAG_WRITE_THROUGH | FILE_FLAG_BACKUP_SEMANTICS)?;
    let name = wide(to)?;
    let bytes = offset_of!(FILE_RENAME_INFO, FileName) + size_of_val(&name[..]);
    let size = bytes.max(size_of::<FILE_RENAME_INFO>());
    // Words of eight bytes, for the alignment of the structure at the front.
    let mut buffer = vec![0u64; size.div_ceil(size_of::<u64>())];
    let info = buffer.as_mut_ptr().cast::<FILE_RENAME_INFO>();
    let name_bytes = size_of_val(&name[..name.len() - 1]);
    let name_bytes = u32::try_from(name_bytes).map_err(io::Error::other)?;
    // SAFETY: the buffer is aligned for the structure, zeroed, and long enough for it and for the
    // name after it; it outlives the call.
    unsafe {
        (*info).Anonymous.Flags =
            FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS;
        (*info).FileNameLength = name_bytes;
        let place = (&raw mut (*info).FileName).cast::<u16>();
        ptr::copy_nonoverlapping(name.as_ptr(), place, name.len());
        set_information(&file, FileRenameInfoEx, info.cast_const().cast(), size)
    }
}

/// Opens a file for changing its name only; a link is not followed.
fn open_name(path: &Path, flags: u32) -> io::Result<File> {
    OpenOptions::new()
        .access_mode(DELETE | SYNCHRONIZE)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | flags)
        .open(path)
}

/// # Safety
///
/// `info` must point to `size` bytes that hold what `class` asks for.
unsafe fn set_information(
    file: &File,
    class: FILE_INFO_BY_HANDLE_CLASS,
    info: *const c_void,
    size: usize,
) -> io::Result<()> {
    let size = u32::try_from(size).map_err(io::Error::other)?;
    // SAFETY: the handle is open; the caller answers for `info`.
    check(unsafe { SetFileInformationByHandle(file.as_raw_handle(), class, info, size) })
}

fn move_file(from: &Path, to: &Path, flags: MOVE_FILE_FLAGS) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both names end with a zero.
    check(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), flags) })
}
