//! Opening a file without following a symlink in any component of its path.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as rfs, Mode as Bits, OFlags};
use rustix::io::Errno;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_no_symlinks(
    path: &Path,
    flags: OFlags,
    mode: Bits,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    match rfs::openat2(rfs::CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, and under seccomp filters that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_checked(path, flags, mode),
        opened => opened,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn open_no_symlinks(
    path: &Path,
    flags: OFlags,
    mode: Bits,
) -> rustix::io::Result<OwnedFd> {
    open_checked(path, flags, mode)
}

/// `NOFOLLOW` guards the last component, a look at the directory the one before it; the rest of a
/// resolved path can only be changed by somebody who could change the data as well.
fn open_checked(path: &Path, flags: OFlags, mode: Bits) -> rustix::io::Result<OwnedFd> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        let stat = rfs::lstat(dir)?;
        if rfs::FileType::from_raw_mode(stat.st_mode) == rfs::FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    rfs::open(path, flags, mode)
}
