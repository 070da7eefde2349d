//! Content that reaches the disk before the names that follow it, without a flush of its own.
//!
//! A sync waits until the pages of a file are written, and then for a flush of the disk's cache, which is
//! nearly all of its time. A file system with a journal commits its names in order, and flushes before each
//! commit. So content that was *written* before a name was changed is durable whenever the changed
//! name is, and one flush (of the directory) serves both, for all callers that wait for it.
//!
//! # Invariants
//!
//! 1. Only where this is known to hold, and was tested by cutting the disk (docs/DESIGN.md): ext4
//!    with a journal, and xfs, each on one device. When the wait for the pages ends, their blocks,
//!    their state and the file's length are in the running transaction or an earlier one; the
//!    change of names comes in that one or a later one; transactions are committed in order, each
//!    after a flush.
//! 2. Whatever cannot be determined counts as no: then it is a sync.
#![expect(unsafe_code, reason = "sync_file_range and fstatfs are raw calls")]

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
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
/// How many file systems are remembered; a process rarely uses more than one.
const REMEMBERED: usize = 16;

/// [`crate::fs::Handle::sync_in_order`] of a file on this device.
pub(super) fn sync(fd: &OwnedFd, device: u64) -> io::Result<()> {
    if keeps_order(fd, device) {
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

/// Whether the file system of this file keeps the order (invariant 1). Asked once for each file system: a process that
/// syncs one file pays for it.
fn keeps_order(fd: &OwnedFd, device: u64) -> bool {
    static KNOWN: Mutex<Vec<((u64, u64), bool)>> = Mutex::new(Vec::new());
    let Some((kind, id)) = system_of(fd) else { return false };
    let asked: fn(u64) -> bool = match kind {
        EXT4 => ext4_keeps_order,
        XFS => xfs_keeps_order,
        _ => return false,
    };
    let keeps = || asked(device) && is_known_linux();
    // The number of a device is reused, the id of a file system is not; but copies may share it.
    let key = (device, id);
    // A forked child could wait for ever for a lock of its parent's other threads.
    let Ok(mut known) = KNOWN.try_lock() else { return keeps() };
    if let Some((_, keeps)) = known.iter().find(|(of, _)| *of == key) {
        return *keeps;
    }
    let keeps = keeps();
    if known.len() == REMEMBERED {
        known.remove(0);
    }
    known.push((key, keeps));
    keeps
}

/// The kind and the id of a file system.
fn system_of(fd: &OwnedFd) -> Option<(u64, u64)> {
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    let done = unsafe { libc::fstatfs(fd.as_raw_fd(), system.as_mut_ptr()) };
    if done != 0 {
        return None;
    }
    // SAFETY: the call has filled it in.
    let system = unsafe { system.assume_init() };
    // SAFETY: it is two numbers of 32 bits, which libc keeps to itself.
    let id = unsafe { std::mem::transmute::<libc::fsid_t, u64>(system.f_fsid) };
    #[expect(clippy::cast_sign_loss, reason = "magic numbers have no sign")]
    Some((system.f_type as u64, id))
}

/// Whether the ext4 on this device has a journal inside (in its inode 8), with plain commits.
fn ext4_keeps_order(device: u64) -> bool {
    let (major, minor) = (rfs::major(device), rfs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let Some(name) = link.ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned())) else {
        return false;
    };
    rfs::access(format!("/proc/fs/jbd2/{name}-8"), rfs::Access::EXISTS).is_ok()
        && small_file(&format!("/proc/fs/ext4/{name}/options"))
            .is_some_and(|options| !options.lines().any(|option| OTHER_COMMITS.contains(&option)))
}

/// A file of less than a page. The kernel does not report its length, and it is read in one piece.
fn small_file(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(4096);
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut bytes));
    String::from_utf8(bytes).ok().filter(|_| read.is_ok_and(|length| length < 4096))
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
