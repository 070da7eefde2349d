//! What the system says about a file.

use std::io;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs as rfs;
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::{fs::AtFlags, io::Errno};

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::fs::Extent;
use crate::fs::{FileId, Kind, Stat};

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn of(path: &Path) -> io::Result<Stat> {
    use rustix::fs::{StatxAttributes, StatxFlags};
    // Whether a lock file is still the same, and how many names a document has, is asked of the
    // file system itself: FUSE and network file systems would otherwise answer from a cache.
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let found = match rfs::statx(rfs::CWD, path, at, StatxFlags::BASIC_STATS) {
        Ok(found) => found,
        Err(Errno::NOSYS | Errno::PERM) => return Ok(from(&rfs::lstat(path)?, false)),
        Err(err) => return Err(err.into()),
    };
    Ok(Stat {
        id: id_of(&found),
        links: found.stx_nlink.into(),
        size: found.stx_size,
        mode: u32::from(found.stx_mode) & 0o7777,
        uid: found.stx_uid,
        gid: found.stx_gid,
        modified_ns: i128::from(found.stx_mtime.tv_sec) * 1_000_000_000
            + i128::from(found.stx_mtime.tv_nsec),
        kind: kind_of(found.stx_mode.into()),
        mount_root: found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
            && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn of(path: &Path) -> io::Result<Stat> {
    Ok(from(&rfs::lstat(path)?, false))
}

#[expect(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "field types differ by platform"
)]
#[cfg_attr(
    target_vendor = "apple",
    expect(clippy::cast_sign_loss, reason = "the number of a device has no sign")
)]
pub(super) fn from(found: &rfs::Stat, mount_root: bool) -> Stat {
    Stat {
        id: FileId { dev: found.st_dev as u64, ino: found.st_ino as u64 },
        links: found.st_nlink as u64,
        size: u64::try_from(found.st_size).unwrap_or(0),
        mode: found.st_mode as u32 & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        modified_ns: found.st_mtime as i128 * 1_000_000_000 + found.st_mtime_nsec as i128,
        kind: kind_of(found.st_mode as u32),
        mount_root,
    }
}

/// Identity, length and birth, without the times that change; `None` where the call is not known, or a
/// filter refuses it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn extent(dir: impl AsFd, path: &Path, flags: AtFlags) -> Option<io::Result<Extent>> {
    use rustix::fs::StatxFlags;
    let wanted = StatxFlags::TYPE
        | StatxFlags::NLINK
        | StatxFlags::INO
        | StatxFlags::SIZE
        | StatxFlags::BTIME;
    match rfs::statx(dir, path, flags, wanted) {
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(err) => Some(Err(err.into())),
        Ok(found) => Some(Ok(Extent {
            id: id_of(&found),
            links: found.stx_nlink.into(),
            size: found.stx_size,
            kind: kind_of(found.stx_mode.into()),
            born_us: time_us(&found, StatxFlags::BTIME, found.stx_btime),
        })),
    }
}

/// Whether this is the resolved form of a directory: nothing in it is relative, doubled or a symlink.
///
/// The kernel walks the path without following links, finds a directory, and only then refuses to
/// open it for writing, as it does with every directory. So exactly one answer says yes, there is
/// nothing to close, and no further call for any part of the path. Every other answer says nothing.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_resolved_dir(path: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    use std::os::unix::ffi::OsStrExt;
    let mut names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let is_absolute = names.next() == Some(b"");
    if !is_absolute || names.any(|name| matches!(name, b"" | b"." | b"..")) {
        return false;
    }
    let flags = OFlags::WRONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rfs::openat2(rfs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    matches!(opened, Err(Errno::ISDIR))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn id_of(found: &rfs::Statx) -> FileId {
    FileId { dev: rfs::makedev(found.stx_dev_major, found.stx_dev_minor), ino: found.stx_ino }
}

fn kind_of(mode: u32) -> Kind {
    match rfs::FileType::from_raw_mode(raw_mode(mode)) {
        rfs::FileType::RegularFile => Kind::File,
        rfs::FileType::Directory => Kind::Directory,
        rfs::FileType::Symlink => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// The mode in the type of the platform, which has 16 bits on macOS.
#[cfg_attr(
    target_vendor = "apple",
    expect(clippy::cast_possible_truncation, reason = "no bit of a mode is above them")
)]
pub(super) fn raw_mode(mode: u32) -> rfs::RawMode {
    mode as _
}

/// Permission bits.
pub(super) fn bits(mode: u32) -> rfs::Mode {
    rfs::Mode::from_raw_mode(raw_mode(mode))
}

/// One of the times that were asked for; 0 if the file system does not know it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn time_us(found: &rfs::Statx, flag: rfs::StatxFlags, time: rfs::StatxTimestamp) -> u64 {
    if found.stx_mask & flag.bits() == 0 {
        return 0;
    }
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::from(time.tv_nsec) / 1_000
}
