//! Who has or waits for a kernel lock, according to `/proc`. For display only.
//!
//! Only Linux can be asked. Locks of other PID namespaces and descriptors of other users' processes
//! stay invisible, so an empty answer proves nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::fs::FileId;

/// One `flock` that a process has or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelLock {
    /// In the queue, not yet granted.
    pub(crate) waiting: bool,
    pub(crate) exclusive: bool,
    /// The process that asked for it; a child that inherited it may be the one that keeps it.
    pub(crate) pid: u32,
    pub(crate) file: FileId,
}

/// All locks and open lock files that this process can see, at one instant.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: Vec<KernelLock>,
    /// Processes and the sidecars they have open; a removed one ends in ` (deleted)`.
    open: Vec<(u32, PathBuf)>,
}

impl Locks {
    /// Reads them once.
    pub(crate) fn now() -> Self {
        Self { locks: read(), open: open_sidecars() }
    }

    /// The locks on one file. Some file systems number devices differently in `/proc/locks`; there
    /// the open descriptor decides.
    pub(crate) fn of<'a>(
        &'a self,
        file: FileId,
        path: &'a Path,
    ) -> impl Iterator<Item = KernelLock> + 'a {
        self.locks.iter().copied().filter(move |lock| {
            lock.file == file
                || (lock.file.ino == file.ino && self.opened(path).any(|pid| pid == lock.pid))
        })
    }

    /// The processes that have `path` open.
    pub(crate) fn opened<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = u32> + 'a {
        self.open.iter().filter(move |(_, open)| open == path).map(|(pid, _)| *pid)
    }
}

/// A living process that has a lock on this file, as far as the kernel shows.
pub(crate) fn lock_holder(file: FileId) -> Option<u32> {
    let mut locks = read().into_iter();
    let held = locks.find(|lock| !lock.waiting && lock.pid > 0 && lock.file == file)?;
    // A child may keep the lock of a process that is gone.
    (!command_of(held.pid).is_empty()).then_some(held.pid)
}

/// The command line of a process; empty if it has ended or is not visible to us.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn command_of(pid: u32) -> Vec<OsString> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned().into())
        .collect()
}

/// The kernel hands out one page at a time, and a list that changes between two pages may skip lines;
/// so a longer one is read several times, and what was seen once counts.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn read() -> Vec<KernelLock> {
    const PASSES: usize = 3;
    let mut found: Vec<KernelLock> = Vec::new();
    for _ in 0..PASSES {
        let (text, pages) = read_pass().unwrap_or_default();
        for lock in text.lines().filter_map(parse) {
            if !found.contains(&lock) {
                found.push(lock);
            }
        }
        if pages <= 1 {
            break;
        }
    }
    found
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn read_pass() -> std::io::Result<(String, usize)> {
    use std::io::Read;
    let mut file = std::fs::File::open("/proc/locks")?;
    let (mut text, mut pages) = (Vec::new(), 0);
    // Larger than a page: a smaller buffer would only make more pieces.
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((String::from_utf8_lossy(&text).into_owned(), pages)),
            read => text.extend_from_slice(&buffer[..read]),
        }
        pages += 1;
    }
}

/// `3: -> FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF`; the arrow is a waiter.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn parse(line: &str) -> Option<KernelLock> {
    let mut fields = line.split_whitespace().skip(1).peekable();
    let waiting = fields.next_if_eq(&"->").is_some();
    if fields.next()? != "FLOCK" {
        return None;
    }
    let exclusive = match fields.nth(1)? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let pid = fields.next()?.parse().ok()?;
    let mut id = fields.next()?.split(':');
    let device = |text: &str| u32::from_str_radix(text, 16).ok();
    let (major, minor) = (device(id.next()?)?, device(id.next()?)?);
    let ino = id.next()?.parse().ok()?;
    Some(KernelLock { waiting, exclusive, pid, file: FileId { dev: number(major, minor), ino } })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn number(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

#[cfg(all(test, not(any(target_os = "linux", target_os = "android"))))]
fn number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 8 | u64::from(minor)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_sidecars() -> Vec<(u32, PathBuf)> {
    let mut open = Vec::new();
    each_descriptor(|pid, _, path| {
        let side = path.parent().and_then(Path::file_name);
        if side.is_some_and(crate::fs::is_side_dir) {
            open.push((pid, path));
        }
    });
    open.sort();
    open.dedup();
    open
}

/// The processes that have a lock on the file at `path`, whether they took it or inherited it: for
/// each descriptor the kernel lists the locks on it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn lock_keepers(path: &Path) -> Vec<u32> {
    let mut keepers = Vec::new();
    each_descriptor(|pid, number, open| {
        if open != path || keepers.last() == Some(&pid) {
            return;
        }
        let file = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(number);
        let info = std::fs::read_to_string(file).unwrap_or_default();
        let locks = info.lines().filter_map(|line| parse(line.strip_prefix("lock:")?));
        if locks.into_iter().any(|lock| !lock.waiting) {
            keepers.push(pid);
        }
    });
    keepers
}

/// Every descriptor that this process can see: its process, its number, and its file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn each_descriptor(mut tell: impl FnMut(u32, OsString, PathBuf)) {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let descriptors = std::fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            if let Ok(path) = std::fs::read_link(descriptor.path()) {
                tell(pid, descriptor.file_name(), path);
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn command_of(_pid: u32) -> Vec<OsString> {
    Vec::new()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read() -> Vec<KernelLock> {
    Vec::new()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_sidecars() -> Vec<(u32, PathBuf)> {
    Vec::new()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn lock_keepers(_path: &Path) -> Vec<u32> {
    Vec::new()
}

#[cfg(test)]
mod tests;
