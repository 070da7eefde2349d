//! File systems that lie, as wrappers around the seam: each skips or moves one step that tenure
//! relies on. The ring must detect every one of them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tenure::fs::{Access, Fs, Handle, Mode, RawHandle, Stat, Times, Trust};
use tenure_testkit::Broken;

/// One lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The truth.
    None,
    /// The disk itself breaks a promise.
    Disk(Broken),
    /// Files whose path contains this are never synced.
    SkipsSync(&'static str),
    /// The file with this path is never synced; those beside it are.
    SkipsSyncOf(&'static str),
    /// A directory whose path ends in this is never synced.
    SkipsDirSync(&'static str),
    /// Files whose path contains this are synced after the next change of names, not before it.
    SyncsLate(&'static str),
}

impl Lie {
    /// `fs` with this lie.
    pub(crate) fn told_by(self, fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
        match self {
            Self::None | Self::Disk(_) => fs,
            _ => Arc::new(Liar { fs, lie: self, late: Arc::default() }),
        }
    }

    pub(crate) fn disk(self) -> Broken {
        if let Self::Disk(broken) = self { broken } else { Broken::default() }
    }
}

type Late = Arc<Mutex<Vec<Arc<dyn Handle>>>>;

#[derive(Debug)]
struct Liar {
    fs: Arc<dyn Fs>,
    lie: Lie,
    late: Late,
}

impl Liar {
    /// After a change of names: the sync that should have come before it.
    fn catch_up(&self) -> io::Result<()> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.drain(..).try_for_each(|handle| handle.sync())
    }
}

impl Fs for Liar {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let handle = self.fs.open(path, access)?;
        let meant = |part: &str| path.to_string_lossy().contains(part);
        match self.lie {
            Lie::SkipsSync(part) if meant(part) => {
                Ok(Arc::new(LyingHandle { handle, about: About::Syncs }))
            }
            Lie::SkipsSyncOf(whole) if path == Path::new(whole) => {
                Ok(Arc::new(LyingHandle { handle, about: About::Syncs }))
            }
            Lie::SyncsLate(part) if meant(part) => {
                Ok(Arc::new(LyingHandle { handle, about: About::Order(self.late.clone()) }))
            }
            _ => Ok(handle),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.lie {
            Lie::SkipsDirSync(name) if path.ends_with(name) => Ok(()),
            _ => self.fs.sync_dir(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)?;
        self.catch_up()
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename_new(from, to)?;
        self.catch_up()
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.fs.exchange(one, other)?;
        self.catch_up()
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.fs.link(existing, new)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.fs.stat(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.resolve(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.fs.create_dir(path, mode)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.fs.list(path)
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        self.fs.trust(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.fs.boot_id()
    }
}

/// What a handle lies about.
#[derive(Debug)]
enum About {
    Syncs,
    Order(Late),
}

#[derive(Debug)]
struct LyingHandle {
    handle: Arc<dyn Handle>,
    about: About,
}

impl Handle for LyingHandle {
    fn sync(&self) -> io::Result<()> {
        match &self.about {
            About::Syncs => {}
            About::Order(late) => {
                late.lock().unwrap_or_else(PoisonError::into_inner).push(self.handle.clone());
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.handle.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.handle.write_at(buf, offset)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        self.handle.append(buf)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.handle.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.handle.stat()
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        self.handle.try_lock(mode)
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.handle.lock(mode)
    }

    fn unlock(&self) -> io::Result<()> {
        self.handle.unlock()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.handle.set_mode(mode)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        self.handle.copy_attributes(model)
    }

    fn times(&self) -> Times {
        self.handle.times()
    }

    fn raw(&self) -> Option<RawHandle> {
        self.handle.raw()
    }
}
