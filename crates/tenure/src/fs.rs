//! The seam: every file operation of locks, documents and journals goes through [`Fs`].
//!
//! The same production code runs on the real disk ([`disk`](crate::disk)) and on a simulated file system that
//! crashes after any operation and keeps any legal subset of what was not synced. Nothing above this
//! file calls `std::fs` for data, sidecars or locks.
//!
//! # Contract
//!
//! 1. Paths are absolute and already resolved; [`Fs::open`] refuses a symlink in any component.
//! 2. What was written is visible to every later read at once, and durable only after
//!    [`Handle::sync`]. A name is durable only after [`Fs::sync_dir`] of its directory; that it exists
//!    proves nothing.
//! 3. [`Fs::rename`] and [`Fs::exchange`] are atomic, also between two directories of one file
//!    system, and also across a crash: both names change or none does.
//! 4. A lock belongs to the handle (the open file description): dropping the last copy releases it.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of sidecars beside a target. In a sticky directory that users share, each has one of
/// their own: `.tenure-` and the number of the user.
pub(crate) const SIDE_DIR: &str = ".tenure";

/// Whether a directory of this name holds sidecars.
pub fn is_side_dir(name: &OsStr) -> bool {
    name == SIDE_DIR || user_of_side_dir(name).is_some()
}

/// The directory of one user's sidecars.
pub(crate) fn side_dir_of(user: u32) -> String {
    format!("{SIDE_DIR}-{user}")
}

/// Whose sidecars a directory of this name holds, in a sticky directory.
pub(crate) fn user_of_side_dir(name: &OsStr) -> Option<u32> {
    let number = name.to_str()?.strip_prefix(SIDE_DIR)?.strip_prefix('-')?;
    let user = number.parse().ok()?;
    (side_dir_of(user).as_str() == name).then_some(user)
}

/// What was found; `None` if nothing has that name.
pub fn if_found<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; the file must exist.
    Read,
    /// Read and write; the file must exist.
    ReadWrite,
    /// Read and write; created with this mode if it is missing.
    Create(u32),
    /// Read and write; must not exist yet, created with this mode.
    CreateNew(u32),
    /// Read, and write at the end only (`O_APPEND`); the file must exist.
    Append,
}

/// Shared or exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Several holders at once.
    Shared,
    /// One holder.
    #[default]
    Exclusive,
}

/// The kind of object that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, device or socket.
    Other,
}

/// Which file system object it is: the same identity is the same object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device.
    pub dev: u64,
    /// The inode on it.
    pub ino: u64,
}

/// What the file system says about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Identity.
    pub id: FileId,
    /// How many names it has; 0 after the last was removed.
    pub links: u64,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of the content, nanoseconds of the wall clock.
    pub modified_ns: i128,
    /// What it is.
    pub kind: Kind,
    /// The name is a mount point of its own (a single-file bind mount).
    pub mount_root: bool,
}

/// Identity, length and birth only: on Linux, asking for times as well makes the next write more
/// expensive, because that write then gets a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Identity.
    pub id: FileId,
    /// How many names it has; 0 after the last was removed.
    pub links: u64,
    /// Length in bytes.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    /// When it was born, microseconds of the wall clock; 0 where that is not known.
    pub born_us: u64,
}

impl From<Stat> for Extent {
    fn from(found: Stat) -> Self {
        let Stat { id, links, size, kind, .. } = found;
        Self { id, links, size, kind, born_us: 0 }
    }
}

/// The file system as tenure sees it.
pub trait Fs: Send + Sync + Debug {
    /// Opens a file, close-on-exec, never through a symlink in any component of `path`. Never blocks
    /// on a FIFO.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>>;

    /// Describes `path` itself; a symlink is not followed.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Identity and length of `path` itself; a symlink is not followed.
    fn extent(&self, path: &Path) -> io::Result<Extent> {
        self.stat(path).map(Extent::from)
    }

    /// The absolute path with every symlink resolved; the object must exist.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Describes `path` if that is its resolved form, where one call can find out; `None` says
    /// nothing.
    fn stat_resolved(&self, path: &Path) -> Option<io::Result<Stat>> {
        let _ = path;
        None
    }

    /// Moves `from` over `to`, replacing it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves `from` to `to`, which must not exist (`AlreadyExists`).
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Swaps two existing names in one step. `Unsupported` where the platform or file system cannot.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Gives `existing` a second name.
    fn link(&self, existing: &Path, new: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates one directory with this mode (whatever the umask); `AlreadyExists` if it is there.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Makes a file that gets its name when `prepare` is done with it, so that no reader ever finds
    /// it incomplete; `AlreadyExists` if the name is taken. Where a file cannot exist without a
    /// name, it has the name from the start.
    fn create_whole(
        &self,
        path: &Path,
        mode: u32,
        prepare: &dyn Fn(&Arc<dyn Handle>) -> io::Result<()>,
    ) -> io::Result<Arc<dyn Handle>> {
        create_in_place(self, path, mode, prepare)
    }

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Whether locks on this directory's file system can be trusted (G12); the reason if not.
    fn trust(&self, dir: &Path) -> io::Result<Trust>;

    /// This boot of the machine: a different value means that everything unsynced may be gone. Zeros
    /// if that is not known.
    fn boot_id(&self) -> [u8; 16];
}

/// [`Fs::create_whole`] where a file cannot exist without a name. A crash before `prepare` is done
/// leaves it in its initial state.
pub(crate) fn create_in_place(
    fs: &(impl Fs + ?Sized),
    path: &Path,
    mode: u32,
    prepare: &dyn Fn(&Arc<dyn Handle>) -> io::Result<()>,
) -> io::Result<Arc<dyn Handle>> {
    let made = fs.open(path, Access::CreateNew(mode))?;
    prepare(&made).map(|()| made)
}

/// The verdict of [`Fs::trust`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Known to lock and to sync, and to keep changes of names in their order, whatever is synced.
    Yes,
    /// Known to lock and to sync. A sync of one file may bring a part of an earlier change of names
    /// to the disk, so a power loss can leave a file that was never synced without any name.
    Unordered,
    /// Not known; a self-test of the lock decides.
    Probe,
    /// Known not to exclude other machines or at all; the name of the file system.
    No(String),
}

/// An open file.
pub trait Handle: Send + Sync + Debug {
    /// Reads at an offset; 0 only at the end of the file. Retries interruptions.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset, possibly less than asked for.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes at the end ([`Access::Append`] only), possibly less than asked for. Returns how much,
    /// and the offset after it: everything before what was written is final.
    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)>;

    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes content and length durable (`fdatasync`, `F_FULLFSYNC`).
    fn sync(&self) -> io::Result<()>;

    /// Makes the content reach the disk before any later change of the file's names does: no crash
    /// leaves such a change without it. It is durable as soon as the change is ([`Fs::sync_dir`]). That
    /// costs no flush where a file system keeps this order; elsewhere it is a [`Self::sync`].
    fn sync_in_order(&self) -> io::Result<()> {
        self.sync()
    }

    /// Describes the open object.
    fn stat(&self) -> io::Result<Stat>;

    /// Which object it is; that never changes while it is open.
    fn id(&self) -> io::Result<FileId> {
        Ok(self.stat()?.id)
    }

    /// Identity and length of the open object.
    fn extent(&self) -> io::Result<Extent> {
        self.stat().map(Extent::from)
    }

    /// Takes the lock if it is free; `false` if another handle has it.
    fn try_lock(&self, mode: Mode) -> io::Result<bool>;

    /// Takes the lock, blocked in the kernel until it is free. Retries interruptions.
    fn lock(&self, mode: Mode) -> io::Result<()>;

    /// Gives the lock back, for every copy of this handle.
    fn unlock(&self) -> io::Result<()>;

    /// Sets the permission bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;

    /// Takes over owner, group, mode, ACL and extended attributes of `model`, each where permitted.
    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()>;

    /// When the open object was born and last changed. Inode numbers are reused, so this
    /// distinguishes a file from its restored copy.
    fn times(&self) -> Times {
        Times::default()
    }

    /// The descriptor for a child process to inherit.
    fn raw(&self) -> Option<RawHandle>;
}

/// Times that no program can set; 0 where they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Birth, microseconds of the wall clock.
    pub born_us: u64,
    /// Last change of content or attributes, microseconds of the wall clock.
    pub changed_us: u64,
}

/// The descriptor that a child process inherits. Windows has none: there no handle is inherited.
pub type RawHandle = i32;

impl dyn Handle + '_ {
    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_full_at(buf, offset)?;
        if read == buf.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads until `buf` is full or the file ends; returns how much.
    pub fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64)? {
                0 => break,
                read => done += read,
            }
        }
        Ok(done)
    }

    /// Reads `[start, end)`, or less if the file ends before.
    pub fn read_range(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut len = end.saturating_sub(start);
        if len > 1 << 20 {
            // A user who may write a sidecar can plant any length; the file itself is the limit.
            len = len.min(self.extent()?.size.saturating_sub(start));
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut buf = Vec::new();
        // A sparse file can claim more than there is memory; that must be an error, not an abort.
        buf.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        buf.resize(len, 0);
        let read = self.read_full_at(&mut buf, start)?;
        buf.truncate(read);
        Ok(buf)
    }

    /// Writes all of `buf` at `offset`; a short write is continued, so that a full disk is an error
    /// and never a silent partial write.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_at(&buf[done..], offset + done as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
        }
        Ok(())
    }
}
