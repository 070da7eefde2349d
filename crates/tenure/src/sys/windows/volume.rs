//! Which file systems can be trusted to lock.
#![expect(unsafe_code, reason = "the volume of a directory is asked for through raw calls")]

use std::io;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Storage::FileSystem::{
    GetDriveTypeW, GetVolumeInformationW, GetVolumePathNameW,
};
use windows_sys::Win32::System::WindowsProgramming::DRIVE_REMOTE;

use crate::fs::Trust;

use super::api::{check, text, wide};

/// Names of file systems are short; the documented limit is `MAX_PATH` + 1.
const NAME_MAX: u32 = 261;

/// What is on another machine is locked there or not at all. NTFS and ReFS lock and flush; the rest
/// (FAT, exFAT, drivers of third parties) has to show it.
pub(super) fn trust(dir: &Path) -> io::Result<Trust> {
    let dir = wide(dir)?;
    // The volume's path is a part of this one, with at most a separator added.
    let mut root = vec![0u16; dir.len() + 2];
    let units = u32::try_from(root.len()).map_err(io::Error::other)?;
    // SAFETY: `dir` ends with a zero, and `root` has that many units.
    check(unsafe { GetVolumePathNameW(dir.as_ptr(), root.as_mut_ptr(), units) })?;
    // SAFETY: the call above ended `root` with a zero.
    if unsafe { GetDriveTypeW(root.as_ptr()) } == DRIVE_REMOTE {
        return Ok(Trust::No("network drive".to_owned()));
    }
    let mut name = [0u16; NAME_MAX as usize];
    // SAFETY: `root` ends with a zero, `name` has NAME_MAX units, and what is null is not filled.
    check(unsafe {
        GetVolumeInformationW(
            root.as_ptr(),
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            name.as_mut_ptr(),
            NAME_MAX,
        )
    })?;
    Ok(match text(&name).as_str() {
        "NTFS" | "ReFS" => Trust::Yes,
        _ => Trust::Probe,
    })
}
