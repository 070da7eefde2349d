//! Linux and macOS: flock, openat2, renameat2 / renamex, fdatasync / F_FULLFSYNC.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{self as rfs, AtFlags, FlockOperation, Mode as Bits, OFlags};
#[cfg(not(target_vendor = "apple"))]
use rustix::fs::{fdatasync as sync_data, fsync as sync_whole};
use rustix::io::Errno;

use super::stat::bits;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::fs::Extent;
use crate::fs::{Access, FileId, Fs, Handle, Mode, RawHandle, Stat, Times, Trust};

#[cfg(target_vendor = "apple")]
use super::apple::{boot_name, full_sync as sync_data, full_sync as sync_whole};

/// The real disk of a Unix system.
#[derive(Debug)]
struct Disk;

/// The real disk. It has no state, so there is one.
pub fn disk() -> Arc<dyn Fs> {
    static DISK: OnceLock<Arc<Disk>> = OnceLock::new();
    DISK.get_or_init(|| Arc::new(Disk)).clone()
}

/// A name, or a whole path, is longer than the system takes.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NAMETOOLONG)
}

/// Links that lead to each other.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// This process, or the machine, has as many files open as it may.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// The disk itself failed.
pub(crate) fn is_hardware(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// An open file description; the lock on it lives as long as its last descriptor.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    /// Asked once: the lock path needs it several times.
    id: OnceLock<FileId>,
}

impl Fs for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        // O_NONBLOCK: a FIFO in place of a file must not hang us; it has no effect on regular files.
        let common = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (flags, mode) = match access {
            Access::Read => (OFlags::RDONLY, 0),
            Access::ReadWrite => (OFlags::RDWR, 0),
            Access::Append => (OFlags::RDWR | OFlags::APPEND, 0),
            Access::Create(mode) => (OFlags::RDWR | OFlags::CREATE, mode),
            Access::CreateNew(mode) => (OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode),
        };
        if let Access::Create(_) = access {
            // In sticky directories `protected_regular` refuses O_CREAT on another user's file, so an
            // existing one is opened without it.
            match open_no_symlinks(path, common | OFlags::RDWR, Bits::empty()) {
                Err(Errno::NOENT) => {}
                opened => return opened.map(describe).map_err(io::Error::from),
            }
        }
        let fd = open_no_symlinks(path, common | flags, bits(mode))?;
        Ok(describe(fd))
    }

    /// If the process dies, an unnamed file leaves nothing; a crash after the link leaves all of
    /// it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn create_whole(
        &self,
        path: &Path,
        mode: u32,
        prepare: &dyn Fn(&Arc<dyn Handle>) -> io::Result<()>,
    ) -> io::Result<Arc<dyn Handle>> {
        let in_place = || crate::fs::create_in_place(self, path, mode, prepare);
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return in_place() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A link follows symlinks on the way (G13), so it is made in the very directory.
        let Ok(dir) = open_no_symlinks(dir, flags, Bits::empty()) else { return in_place() };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        // Not every file system has such files.
        let Ok(fd) = rfs::openat(&dir, ".", flags, bits(mode)) else { return in_place() };
        let unnamed = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let made = describe(fd);
        prepare(&made)?;
        match rfs::linkat(rfs::CWD, unnamed, &dir, name, AtFlags::SYMLINK_FOLLOW) {
            // By its name: a descriptor from before it had one shows none to those who look for it.
            Ok(()) => self.open(path, Access::ReadWrite),
            Err(Errno::EXIST) => Err(Errno::EXIST.into()),
            Err(_) => in_place(), // Without `/proc`, for one.
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        super::stat::of(path)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn extent(&self, path: &Path) -> io::Result<Extent> {
        super::stat::extent(rfs::CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC)
            .unwrap_or_else(|| Ok(self.stat(path)?.into()))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn stat_resolved(&self, path: &Path) -> Option<io::Result<Stat>> {
        super::stat::is_resolved_dir(path.parent()?).then(|| self.stat(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rfs::rename(from, to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let flags = rfs::RenameFlags::NOREPLACE;
        match rfs::renameat_with(rfs::CWD, from, rfs::CWD, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // Without NOREPLACE a hard link gives the same "must not exist" in one step.
                rfs::link(from, to)?;
                // After a failure it may have both names, as after a death. Nothing is removed by
                // name: by now the name may belong to another process's file.
                match rfs::unlink(from) {
                    Err(Errno::NOENT) => Ok(()),
                    removed => Ok(removed?),
                }
            }
            other => Ok(other?),
        }
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let flags = rfs::RenameFlags::EXCHANGE;
        match rfs::renameat_with(rfs::CWD, one, rfs::CWD, other, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            done => Ok(done?),
        }
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        Ok(rfs::linkat(rfs::CWD, existing, rfs::CWD, new, AtFlags::empty())?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(rfs::unlink(path)?)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        rfs::mkdir(path, bits(mode))?;
        // The umask may have taken bits away that a second user of the group needs. By descriptor:
        // a user who may write beside it could have replaced it by a symlink to another file of
        // ours.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match open_no_symlinks(path, OFlags::RDONLY | flags, Bits::empty()) {
            // A umask like 777 takes our own rights as well; no user could ever use the directory.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Err(Errno::ACCESS) => {
                let made = open_no_symlinks(path, OFlags::PATH | flags, Bits::empty())?;
                Ok(rfs::chmod(format!("/proc/self/fd/{}", made.as_raw_fd()), bits(mode))?)
            }
            made => Ok(rfs::fchmod(&made?, bits(mode))?),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rfs::open(path, flags, Bits::empty())?;
        // A signal is no failed sync: nothing was reported as lost, so it may be repeated.
        match rustix::io::retry_on_intr(|| sync_whole(&fd)) {
            // Some FUSE file systems cannot sync a directory and keep names on their own.
            Err(Errno::INVAL) => Ok(()),
            done => Ok(done?),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        super::trust::of(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        boot_id()
    }
}

impl Handle for Descriptor {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut *buf, offset))?)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.fd, buf, offset))?)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, buf))?;
        // The kernel has moved the descriptor after what it wrote. After the write nothing may fail
        // any more.
        let end = rfs::tell(&self.fd).or_else(|_| {
            rfs::fstat(&self.fd).map(|found| u64::try_from(found.st_size).unwrap_or_default())
        });
        Ok((written, end?))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| rfs::ftruncate(&self.fd, len))?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| sync_data(&self.fd))?)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn sync_in_order(&self) -> io::Result<()> {
        super::in_order::sync(&self.fd, self.id()?.dev)
    }

    fn stat(&self) -> io::Result<Stat> {
        let stat = super::stat::from(&rfs::fstat(&self.fd)?, false);
        let _ = self.id.set(stat.id);
        Ok(stat)
    }

    fn id(&self) -> io::Result<FileId> {
        self.id.get().map_or_else(|| Ok(self.stat()?.id), |id| Ok(*id))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn extent(&self) -> io::Result<Extent> {
        super::stat::extent(&self.fd, Path::new(""), AtFlags::EMPTY_PATH)
            .unwrap_or_else(|| Ok(self.stat()?.into()))
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        let operation = match mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match rustix::io::retry_on_intr(|| rfs::flock(&self.fd, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        let operation = match mode {
            Mode::Shared => FlockOperation::LockShared,
            Mode::Exclusive => FlockOperation::LockExclusive,
        };
        // flock is not restarted after every signal; an interrupted wait is still a wait.
        Ok(rustix::io::retry_on_intr(|| rfs::flock(&self.fd, operation))?)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| rfs::flock(&self.fd, FlockOperation::Unlock))?)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rfs::fchmod(&self.fd, bits(mode))?)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        super::attributes::copy(&self.fd, model)
    }

    fn times(&self) -> Times {
        super::attributes::times(&self.fd)
    }

    fn raw(&self) -> Option<RawHandle> {
        Some(self.fd.as_raw_fd())
    }
}

fn describe(fd: OwnedFd) -> Arc<dyn Handle> {
    Arc::new(Descriptor { fd, id: OnceLock::new() })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_no_symlinks(path: &Path, flags: OFlags, mode: Bits) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    match rfs::openat2(rfs::CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, and under seccomp filters that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_checked(path, flags, mode),
        opened => opened,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_no_symlinks(path: &Path, flags: OFlags, mode: Bits) -> rustix::io::Result<OwnedFd> {
    open_checked(path, flags, mode)
}

/// `NOFOLLOW` guards the last component, a check of the directory the one before it. The rest of a
/// resolved path can only be changed by a user who could change the data as well.
fn open_checked(path: &Path, flags: OFlags, mode: Bits) -> rustix::io::Result<OwnedFd> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        let stat = rfs::lstat(dir)?;
        if rfs::FileType::from_raw_mode(stat.st_mode) == rfs::FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    rfs::open(path, flags, mode)
}

/// This boot of the machine; the same in every container of it.
fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    ID.get().copied().unwrap_or_else(|| match boot_name().trim() {
        "" => [0; 16], // Not known now; nothing may be built on that, nor is it remembered.
        name => *ID.get_or_init(|| crate::checksum::wide(name.as_bytes())),
    })
}

#[cfg(not(target_vendor = "apple"))]
fn boot_name() -> String {
    // It has 36 letters: one read, where reading a file of unknown length takes three and a look at it.
    let mut text = [0; 64];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let read = rfs::open("/proc/sys/kernel/random/boot_id", flags, Bits::empty())
        .and_then(|file| rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut text)));
    String::from_utf8_lossy(&text[..read.unwrap_or(0)]).into_owned()
}
