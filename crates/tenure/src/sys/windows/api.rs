//! The Win32 API: results, error codes and strings.

use std::io;
use std::path::Path;

use windows_sys::Win32::Foundation::{
    ERROR_INVALID_FUNCTION, ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED,
};

/// The file system, or this version of Windows, does not have the operation.
pub(super) fn is_unsupported(err: &io::Error) -> bool {
    is_one_of(err, &[ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED, ERROR_INVALID_PARAMETER])
}

pub(super) fn is_one_of(err: &io::Error, codes: &[u32]) -> bool {
    let code = err.raw_os_error().and_then(|code| u32::try_from(code).ok());
    code.is_some_and(|code| codes.contains(&code))
}

/// A path as system calls take it.
pub(super) fn wide(path: &Path) -> io::Result<Vec<u16>> {
    use std::os::windows::ffi::OsStrExt;
    let mut wide: Vec<u16> = path.as_os_str().encode_wide().collect();
    if wide.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    wide.push(0);
    Ok(wide)
}

/// The text of a buffer that a system call filled.
pub(super) fn text(wide: &[u16]) -> String {
    let len = wide.iter().position(|unit| *unit == 0).unwrap_or(wide.len());
    String::from_utf16_lossy(&wide[..len])
}

/// What a call that returns a `BOOL` means.
pub(super) fn check(result: windows_sys::core::BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
