//! Content that reaches the disk before the names that follow it, without a flush of its own.
//!
//! A sync waits until the pages of a file are written, and then for a flush of the disk's cache, which is
//! nearly all of its time. A file system with a journal commits its names in order, and flushes before each
//! commit. So content that was *written* before a name was changed is durable whenever the changed
//! name is, and one flush (of the directory) serves both, for everybody who waits for it.
//!
//! # Invariants
//!
//! 1. Only where this is known to hold, and was tried by cutting the disk (docs/DESIGN.md): ext4 with a
//!    journal, and xfs, each on one device. When the wait for the pages ends, their blocks, their state
//!    and the file's length are in the running transaction or an earlier one; the change of names comes
//!    in that one or a later one; transactions are committed in order, each behind a flush.
//! 2. What cannot be found out counts as no: then it is a sync.
#![expect(unsafe_code, reason = "sync_file_range is a raw call")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use rustix::fs as rfs;
use rustix::io::Errno;

/// What `statfs` says of ext2, ext3 and ext4.
const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
/// Before Linux 5.2 the call may pass over pages.
const LINUX_LEAST: (u32, u32) = (5, 2);
/// Mount options with a commit of another kind, as kernels show them.
const OTHER_COMMITS: [&str; 3] = ["journal_async_commit", "fast_commit", "fc_debug_force"];
/// So many file systems are remembered; a process seldom knows more than one.
const REMEMBERED: usize = 16;

/// [`crate::fs::Handle::sync_in_order`].
pub(super) fn sync(fd: &OwnedFd) -> io::Result<()> {
    if keeps_order(fd) {
        match written(fd) {
            Err(Errno::NOSYS | Errno::PERM) => {} // Not known to a filter of system calls.
            done => return Ok(done?),
        }
    }
    Ok(rustix::io::retry_on_intr(|| rfs::fdatasync(fd))?)
}

/// Waits until every page of the file is written.
fn written(fd: &OwnedFd) -> rustix::io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    rustix::io::retry_on_intr(|| {
        // SAFETY: the call takes numbers only, and the descriptor is open.
        let done = unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, flags) };
        match done {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    })
}

/// Whether the file system of this file keeps the order (invariant 1).
fn keeps_order(fd: &OwnedFd) -> bool {
    static KNOWN: Mutex<Vec<((u64, u64), bool)>> = Mutex::new(Vec::new());
    #[expect(clippy::cast_sign_loss, reason = "magic numbers have no sign")]
    let asked: fn(u64) -> bool = match rfs::fstatfs(fd).map(|system| system.f_type as u64) {
        Ok(EXT4) => ext4_keeps_order,
        Ok(XFS) => xfs_keeps_order,
        _ => return false,
    };
    let (Ok(system), Ok(file)) = (rfs::fstatvfs(fd), rfs::fstat(fd)) else { return false };
    if !is_known_linux() {
        return false;
    }
    // The number of a device is given out again, the id of a file system is not.
    let key = (file.st_dev, system.f_fsid);
    // A forked child could wait for ever for a lock of its parent's other threads.
    let Ok(mut known) = KNOWN.try_lock() else { return asked(file.st_dev) };
    if let Some((_, keeps)) = known.iter().find(|(of, _)| *of == key) {
        return *keeps;
    }
    let keeps = asked(file.st_dev);
    if known.len() == REMEMBERED {
        known.remove(0);
    }
    known.push((key, keeps));
    keeps
}

/// Whether the ext4 on this device has a journal inside (in its inode 8), with plain commits.
fn ext4_keeps_order(device: u64) -> bool {
    let (major, minor) = (rfs::major(device), rfs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let Some(name) = link.ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned())) else {
        return false;
    };
    let Ok(options) = std::fs::read_to_string(format!("/proc/fs/ext4/{name}/options")) else {
        return false;
    };
    Path::new(&format!("/proc/fs/jbd2/{name}-8")).is_dir()
        && !options.lines().any(|option| OTHER_COMMITS.contains(&option))
}

/// Whether the xfs on this device has its content and its log there, and nowhere else.
fn xfs_keeps_order(device: u64) -> bool {
    let number = format!("{}:{}", rfs::major(device), rfs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_device = |mount: &&str| mount.split(' ').nth(2) == Some(number.as_str());
    let options = mounts.lines().find(of_device).and_then(|mount| mount.rsplit(' ').next());
    options.is_some_and(|options| !options.contains("rtdev=") && !options.contains("logdev="))
}

fn is_known_linux() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        let found = numbers.next().zip(numbers.next());
        found.is_some_and(|found| found >= LINUX_LEAST)
    })
}
