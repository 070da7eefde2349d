//! The FUSE file system with the two files: `disk`, and `ack`.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use rustix::mount::UnmountFlags;

use super::cut::Image;

/// Something that happened to the device.
#[derive(Debug, Clone)]
pub enum Step {
    /// Bytes were written; the disk may keep them in its cache.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// Everything before it is on the disk.
    Flush,
    /// A victim wrote this.
    Told(String),
}

const DISK: INodeNo = INodeNo(2);
const ACK: INodeNo = INodeNo(3);
/// Only the contents change, and those are not cached.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
struct Device {
    image: Image,
    log: Vec<Step>,
}

/// The mounted recorder. All users of its disk should close it before this is dropped.
#[derive(Debug)]
pub struct BlockLog {
    device: Arc<Mutex<Device>>,
    // Ended before its mount point is removed.
    _session: BackgroundSession,
    at: tempfile::TempDir,
}

impl Drop for BlockLog {
    fn drop(&mut self) {
        // Works even while a loop device still has the disk open, as after a panic: the mount then
        // goes away with its last user.
        let _ = rustix::mount::unmount(self.at.path(), UnmountFlags::DETACH);
    }
}

impl BlockLog {
    /// A device with the contents of `base`.
    pub fn over(base: Image) -> io::Result<Self> {
        let at = tempfile::tempdir()?;
        let device = Arc::new(Mutex::new(Device { image: base, log: Vec::new() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("block-log".into()), MountOption::RW];
        let session = fuser::spawn_mount(Recorder(device.clone()), at.path(), &config)?;
        Ok(Self { device, _session: session, at })
    }

    /// The file for the loop device.
    pub fn disk(&self) -> PathBuf {
        self.at.path().join("disk")
    }

    /// The file for acknowledgements; each write to it is one step.
    pub fn ack(&self) -> PathBuf {
        self.at.path().join("ack")
    }

    /// What has happened so far.
    pub fn steps(&self) -> Vec<Step> {
        lock(&self.device).log.clone()
    }
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorder(Arc<Mutex<Device>>);

impl Recorder {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let size = if ino == DISK { lock(&self.0).image.len() } else { 0 };
        let is_root = ino == INodeNo::ROOT;
        let then = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("disk") => reply.entry(&FOR_EVER, &self.attributes(DISK), Generation(0)),
            Some("ack") => reply.entry(&FOR_EVER, &self.attributes(ACK), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOR_EVER, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without the page cache, so that a write is a step when it is made.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let device = lock(&self.0);
        let left = if ino == DISK { device.image.len().saturating_sub(offset) } else { 0 };
        let mut bytes = vec![0; usize::try_from(left.min(size.into())).unwrap_or(0)];
        device.image.read_at(offset, &mut bytes);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut device = lock(&self.0);
        if ino == DISK {
            device.image.write(offset, bytes);
            device.log.push(Step::Write { offset, bytes: bytes.into() });
        } else {
            device.log.push(Step::Told(String::from_utf8_lossy(bytes).into_owned()));
        }
        reply.written(u32::try_from(bytes.len()).unwrap_or(0));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if ino == DISK {
            lock(&self.0).log.push(Step::Flush);
        }
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // A discard changes nothing that has to survive; a disk may refuse it.
        reply.error(Errno::EOPNOTSUPP);
    }
}
