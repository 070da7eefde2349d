//! The real disk with single answers altered: another boot, an untrusted file system, a `try_lock`
//! that always succeeds, counted and failing syncs. The code under test cannot tell the difference.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tenure::disk;
use tenure::fs::{Access, Fs, Handle, RawHandle, Stat, Times, Trust};
use tenure::options::Mode;

/// What is different from the real disk.
#[derive(Debug, Default)]
pub(crate) struct Altered {
    /// `None` is the boot of this machine.
    pub(crate) boot: Option<[u8; 16]>,
    pub(crate) trust: Option<Trust>,
    /// `try_lock` always says yes.
    pub(crate) locks_for_everybody: bool,
    /// Syncs of files and directories so far.
    pub(crate) syncs: AtomicUsize,
    /// What each file was when it was last synced: all that a power failure need leave of it.
    pub(crate) synced: Mutex<HashMap<PathBuf, Vec<u8>>>,
    /// While set, syncs fail.
    pub(crate) sync_fails: AtomicBool,
    /// What happens when a name is looked up next.
    pub(crate) next_look: Event,
}

/// Something that happens once, when its time comes.
#[derive(Default)]
pub(crate) struct Event(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Event {
    pub(crate) fn plan(&self, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(act));
    }

    fn comes(&self) {
        let planned = self.0.lock().unwrap().take();
        if let Some(act) = planned {
            act();
        }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Event")
    }
}

impl Altered {
    /// The disk after a reboot: number 0 is this boot, any other one is not.
    pub(crate) fn boot(number: u8) -> Self {
        let boot = (number > 0).then_some([number; 16]);
        Self { boot, ..Self::default() }
    }

    /// As the library takes it, and as the test looks into it.
    pub(crate) fn mounted(self) -> (Arc<dyn Fs>, Arc<Self>) {
        let this = Arc::new(self);
        (Arc::new(View(this.clone())), this)
    }

    fn count_sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        if self.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is dying"));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct View(Arc<Altered>);

impl Fs for View {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let inner = disk().open(path, access)?;
        Ok(Arc::new(File { inner, path: path.into(), altered: self.0.clone() }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.0.next_look.comes();
        disk().stat(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        disk().resolve(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().rename_new(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        disk().exchange(one, other)
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        disk().link(existing, new)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        disk().create_dir(path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.count_sync()?;
        disk().sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        disk().list(path)
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        self.0.trust.clone().map_or_else(|| disk().trust(dir), Ok)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.0.boot.unwrap_or_else(|| disk().boot_id())
    }
}

#[derive(Debug)]
struct File {
    inner: Arc<dyn Handle>,
    path: PathBuf,
    altered: Arc<Altered>,
}

impl Handle for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.inner.write_at(buf, offset)
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        self.inner.append(buf)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.altered.count_sync()?;
        let content = self.inner.read_range(0, self.inner.stat()?.size)?;
        self.altered.synced.lock().unwrap().insert(self.path.clone(), content);
        self.inner.sync()
    }

    fn stat(&self) -> io::Result<Stat> {
        self.inner.stat()
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        Ok(self.altered.locks_for_everybody || self.inner.try_lock(mode)?)
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.inner.lock(mode)
    }

    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.inner.set_mode(mode)
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        self.inner.copy_attributes(model)
    }

    fn times(&self) -> Times {
        self.inner.times()
    }

    fn raw(&self) -> Option<RawHandle> {
        self.inner.raw()
    }
}
