//! A file system over another one: calls that a [`Layer`] does not change are passed on.
//!
//! This is how the rings break a promise, record a run, or give a file another identity without a
//! switch in production code: tenure is opened on the layered file system.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::{Access, Fs, Handle, Mode, RawHandle, Stat, Times, Trust};

/// What a layer does instead of the file system below; every default passes the call on.
#[expect(missing_docs, reason = "each does what its namesake in `Fs` or `Handle` does")]
pub trait Layer: Send + Sync + 'static {
    fn open(&self, below: &dyn Fs, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        below.open(path, access)
    }
    fn stat(&self, below: &dyn Fs, path: &Path) -> io::Result<Stat> {
        below.stat(path)
    }
    fn rename(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        below.rename(from, to)
    }
    fn rename_new(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        below.rename_new(from, to)
    }
    fn exchange(&self, below: &dyn Fs, one: &Path, other: &Path) -> io::Result<()> {
        below.exchange(one, other)
    }
    fn link(&self, below: &dyn Fs, existing: &Path, new: &Path) -> io::Result<()> {
        below.link(existing, new)
    }
    fn remove(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        below.remove(path)
    }
    fn create_dir(&self, below: &dyn Fs, path: &Path, mode: u32) -> io::Result<()> {
        below.create_dir(path, mode)
    }
    fn sync_dir(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        below.sync_dir(path)
    }
    fn boot_id(&self, below: &dyn Fs) -> [u8; 16] {
        below.boot_id()
    }
    fn write_at(&self, file: &OpenFile, buf: &[u8], offset: u64) -> io::Result<usize> {
        file.below.write_at(buf, offset)
    }
    fn append(&self, file: &OpenFile, buf: &[u8]) -> io::Result<(usize, u64)> {
        file.below.append(buf)
    }
    fn set_len(&self, file: &OpenFile, len: u64) -> io::Result<()> {
        file.below.set_len(len)
    }
    fn sync(&self, file: &OpenFile) -> io::Result<()> {
        file.below.sync()
    }
    fn sync_in_order(&self, file: &OpenFile) -> io::Result<()> {
        file.below.sync_in_order()
    }
    fn stat_open(&self, file: &OpenFile) -> io::Result<Stat> {
        file.below.stat()
    }
}

/// A file that was opened through a layer.
#[derive(Debug, Clone)]
pub struct OpenFile {
    /// The path that it was opened by.
    pub path: PathBuf,
    /// The file of the file system below.
    pub below: Arc<dyn Handle>,
}

/// The file system that tenure gets.
struct Layered<L> {
    below: Arc<dyn Fs>,
    layer: Arc<L>,
}

/// Lays `layer` over `below`.
pub fn lay<L: Layer>(layer: Arc<L>, below: &Arc<dyn Fs>) -> Arc<dyn Fs> {
    Arc::new(Layered { below: below.clone(), layer })
}

impl<L> fmt::Debug for Layered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a layer over {:?}", self.below)
    }
}

impl<L: Layer> Fs for Layered<L> {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let below = self.layer.open(self.below.as_ref(), path, access)?;
        let file = OpenFile { path: path.to_path_buf(), below };
        Ok(Arc::new(LayeredHandle { file, layer: self.layer.clone() }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.layer.stat(self.below.as_ref(), path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.resolve(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.layer.rename(self.below.as_ref(), from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.layer.rename_new(self.below.as_ref(), from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.layer.exchange(self.below.as_ref(), one, other)
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.layer.link(self.below.as_ref(), existing, new)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.layer.remove(self.below.as_ref(), path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.layer.create_dir(self.below.as_ref(), path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.layer.sync_dir(self.below.as_ref(), path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.below.list(path)
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        self.below.trust(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.layer.boot_id(self.below.as_ref())
    }
}

struct LayeredHandle<L> {
    file: OpenFile,
    layer: Arc<L>,
}

impl<L> fmt::Debug for LayeredHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a layer over {:?}", self.file)
    }
}

impl<L: Layer> Handle for LayeredHandle<L> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.below.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.layer.write_at(&self.file, buf, offset)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        self.layer.append(&self.file, buf)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.layer.set_len(&self.file, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.layer.sync(&self.file)
    }

    fn sync_in_order(&self) -> io::Result<()> {
        self.layer.sync_in_order(&self.file)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.layer.stat_open(&self.file)
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        self.file.below.try_lock(mode)
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.file.below.lock(mode)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.below.unlock()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.below.set_mode(mode)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        self.file.below.copy_attributes(model)
    }

    fn times(&self) -> Times {
        self.file.below.times()
    }

    fn raw(&self) -> Option<RawHandle> {
        self.file.below.raw()
    }
}
