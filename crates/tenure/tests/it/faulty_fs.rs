//! The real disk with a hook before every operation: it can refuse the operation, do something
//! before it, read or write less than asked, or change what metadata says.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tenure::disk;
use tenure::fs::{Access, Fs, Handle, Mode, RawHandle, Stat, Trust};

/// Which operation is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Op {
    Open(Change),
    Stat,
    Rename,
    RenameNew,
    Exchange,
    Link,
    Remove,
    CreateDir,
    SyncDir,
    List,
    Read,
    Write,
    SetLen,
    Sync,
    StatHandle,
    Lock,
    SetMode,
}

/// Whether an open may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Change {
    Never,
    Append,
    Write,
    Create,
}

impl Op {
    /// It would be refused by a read-only file system.
    pub(crate) fn changes(self) -> bool {
        match self {
            Self::Open(change) => change != Change::Never,
            Self::Stat
            | Self::List
            | Self::Read
            | Self::StatHandle
            | Self::Lock
            | Self::Sync
            | Self::SyncDir => false,
            _ => true,
        }
    }
}

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum Verdict {
    Go,
    Fail(io::Error),
    /// A write takes, or a read gives, half of the bytes.
    Short,
}

type Before = dyn Fn(Op, &Path) -> Verdict + Send + Sync;
type Seen = dyn Fn(&Path, Stat) -> Stat + Send + Sync;

/// See the module documentation.
#[derive(Clone)]
pub(crate) struct FaultyFs {
    inner: Arc<dyn Fs>,
    before: Arc<Before>,
    seen: Arc<Seen>,
    seen_open: Arc<Seen>,
    boots: Arc<AtomicU8>,
    unknown: bool,
}

impl FaultyFs {
    /// Asks `before` about each operation on the real disk.
    pub(crate) fn new(before: impl Fn(Op, &Path) -> Verdict + Send + Sync + 'static) -> Self {
        Self::on(disk(), before)
    }

    /// The same on another file system.
    pub(crate) fn on(
        inner: Arc<dyn Fs>,
        before: impl Fn(Op, &Path) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            before: Arc::new(before),
            seen: Arc::new(|_, stat| stat),
            seen_open: Arc::new(|_, stat| stat),
            boots: Arc::default(),
            unknown: false,
        }
    }

    /// A file system of an unknown kind.
    pub(crate) fn unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Lets `seen` change what a path looks like.
    pub(crate) fn showing(
        mut self,
        seen: impl Fn(&Path, Stat) -> Stat + Send + Sync + 'static,
    ) -> Self {
        self.seen = Arc::new(seen);
        self
    }

    /// Lets `seen` change what an open file looks like.
    pub(crate) fn showing_open(
        mut self,
        seen: impl Fn(&Path, Stat) -> Stat + Send + Sync + 'static,
    ) -> Self {
        self.seen_open = Arc::new(seen);
        self
    }

    /// Another boot of the machine. Nothing was lost: the disk was lucky.
    pub(crate) fn reboot(&self) {
        self.boots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn shared(&self) -> Arc<dyn Fs> {
        Arc::new(self.clone())
    }

    fn ask(&self, op: Op, path: &Path) -> io::Result<()> {
        match (self.before)(op, path) {
            Verdict::Fail(error) => Err(error),
            Verdict::Go | Verdict::Short => Ok(()),
        }
    }
}

impl fmt::Debug for FaultyFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyFs")
    }
}

impl Fs for FaultyFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let change = match access {
            Access::Read => Change::Never,
            Access::Append => Change::Append,
            Access::ReadWrite => Change::Write,
            Access::Create(_) | Access::CreateNew(_) => Change::Create,
        };
        self.ask(Op::Open(change), path)?;
        let inner = self.inner.open(path, access)?;
        Ok(Arc::new(FaultyHandle { inner, path: path.into(), fs: self.clone() }))
    }

    fn create_whole(
        &self,
        path: &Path,
        mode: u32,
        prepare: &dyn Fn(&Arc<dyn Handle>) -> io::Result<()>,
    ) -> io::Result<Arc<dyn Handle>> {
        self.ask(Op::Open(Change::Create), path)?;
        let faulty = |inner: &Arc<dyn Handle>| -> Arc<dyn Handle> {
            let inner = inner.clone();
            Arc::new(FaultyHandle { inner, path: path.into(), fs: self.clone() })
        };
        let made = self.inner.create_whole(path, mode, &|made| prepare(&faulty(made)))?;
        Ok(faulty(&made))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.ask(Op::Stat, path)?;
        self.inner.stat(path).map(|stat| (self.seen)(path, stat))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Op::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Op::RenameNew, to)?;
        self.inner.rename_new(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.ask(Op::Exchange, other)?;
        self.inner.exchange(one, other)
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.ask(Op::Link, new)?;
        self.inner.link(existing, new)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::Remove, path)?;
        self.inner.remove(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.ask(Op::CreateDir, path)?;
        self.inner.create_dir(path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::SyncDir, path)?;
        self.inner.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.ask(Op::List, path)?;
        self.inner.list(path)
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        if self.unknown { Ok(Trust::Probe) } else { self.inner.trust(dir) }
    }

    fn boot_id(&self) -> [u8; 16] {
        let mut id = self.inner.boot_id();
        id[0] ^= self.boots.load(Ordering::Relaxed);
        id
    }
}

#[derive(Debug)]
struct FaultyHandle {
    inner: Arc<dyn Handle>,
    path: PathBuf,
    fs: FaultyFs,
}

impl FaultyHandle {
    /// How much of `len` bytes is written or read.
    fn ask_for(&self, op: Op, len: usize) -> io::Result<usize> {
        match (self.fs.before)(op, &self.path) {
            Verdict::Go => Ok(len),
            Verdict::Short => Ok(len.div_ceil(2)),
            Verdict::Fail(error) => Err(error),
        }
    }
}

impl Handle for FaultyHandle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let given = self.ask_for(Op::Read, buf.len())?;
        self.inner.read_at(&mut buf[..given], offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let taken = self.ask_for(Op::Write, buf.len())?;
        self.inner.write_at(&buf[..taken], offset)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        let taken = self.ask_for(Op::Write, buf.len())?;
        self.inner.append(&buf[..taken])
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.ask(Op::SetLen, &self.path)?;
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.ask(Op::Sync, &self.path)?;
        self.inner.sync()
    }

    fn stat(&self) -> io::Result<Stat> {
        self.fs.ask(Op::StatHandle, &self.path)?;
        self.inner.stat().map(|stat| (self.fs.seen_open)(&self.path, stat))
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        self.fs.ask(Op::Lock, &self.path)?;
        self.inner.try_lock(mode)
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.fs.ask(Op::Lock, &self.path)?;
        self.inner.lock(mode)
    }

    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.fs.ask(Op::SetMode, &self.path)?;
        self.inner.set_mode(mode)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        self.fs.ask(Op::SetMode, &self.path)?;
        self.inner.copy_attributes(model)
    }

    fn raw(&self) -> Option<RawHandle> {
        self.inner.raw()
    }
}
