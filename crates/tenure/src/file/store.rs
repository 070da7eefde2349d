//! The file store behind the seam: one target is one path, with its lock, its lease, its document and its journal.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::collection::Directory;
use crate::file::document::Document;
use crate::file::journal::{Entries, Journal};
use crate::file::target::Target;
use crate::file::update_and_append::update_and_append;
use crate::file::{lease, lock, status, survey};
use crate::fs::Fs;
use crate::json::Value;
use crate::options::{AppendOptions, LeaseOptions, LockOptions, Prune, WriteOptions};
use crate::results::{
    Appended, Compacted, Earlier, Entry, LeaseInfo, Leased, Pruned, Report, Rotated, Snapshot,
    Status, Survey, Written,
};
use crate::store::{self, Capabilities, Compute, EntryReader, Held, Store, Watcher};
use crate::sys::{self, disk};

/// The store on local files. Names are paths.
#[derive(Debug, Clone)]
pub struct FileStore {
    fs: Arc<dyn Fs>,
}

impl FileStore {
    /// The files of this machine.
    pub fn local() -> Self {
        Self { fs: disk() }
    }

    /// On another file system.
    #[doc(hidden)]
    pub fn on(fs: &Arc<dyn Fs>) -> Self {
        Self { fs: fs.clone() }
    }

    fn directory<'a>(&'a self, dir: &'a Path, suffix: &'a str) -> Directory<'a> {
        Directory { fs: &self.fs, dir, suffix }
    }
}

impl Store for FileStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            death_frees: true,
            files: true,
            shared_locks: true,
            ..Capabilities::common(Duration::ZERO, u64::MAX)
        }
    }

    fn open(&self, name: &Path) -> Result<Arc<dyn store::Target>> {
        Ok(Arc::new(FileTarget::new(Target::resolve(&self.fs, name)?)))
    }

    fn keys(&self, collection: &Path, suffix: &str) -> Result<Vec<String>> {
        self.directory(collection, suffix).keys()
    }

    fn remove(
        &self,
        collection: &Path,
        suffix: &str,
        key: &str,
        options: &WriteOptions,
    ) -> Result<bool> {
        self.directory(collection, suffix).remove(key, options)
    }

    fn prune(
        &self,
        collection: &Path,
        suffix: &str,
        prune: &Prune,
        options: &WriteOptions,
    ) -> Result<Pruned> {
        self.directory(collection, suffix).prune(prune, options)
    }

    fn survey(&self, name: &Path) -> Result<Survey> {
        survey::survey(&self.fs, name)
    }
}

/// One path.
#[derive(Debug)]
struct FileTarget {
    document: Document,
    journal: Journal,
}

impl FileTarget {
    fn new(target: Target) -> Self {
        Self { document: Document::new(target.clone()), journal: Journal::new(target) }
    }

    fn target(&self) -> &Target {
        self.journal.target()
    }
}

impl store::Target for FileTarget {
    fn name(&self) -> &Path {
        self.target().path()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn has_directory(&self) -> bool {
        self.target().has_directory()
    }

    fn beside(&self, name: &Path) -> Result<Arc<dyn store::Target>> {
        FileStore::on(&self.target().fs).open(name)
    }

    fn as_bytes(&self) -> Result<Arc<dyn store::Target>> {
        Ok(Arc::new(Self::new(self.target().as_bytes())))
    }

    fn lock(&self, options: &LockOptions) -> Result<Box<dyn Held>> {
        Ok(Box::new(lock::lock(self.target(), options)?))
    }

    fn try_lock_fast(&self, options: &LockOptions) -> Result<Option<Box<dyn Held>>> {
        let taken = lock::try_lock_fast(self.target(), options)?;
        Ok(taken.map(|guard| Box::new(guard) as Box<dyn Held>))
    }

    fn acquire(&self, options: &LeaseOptions) -> Result<Leased> {
        lease::acquire(self.target(), options)
    }

    fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        lease::renew(self.target(), token, ttl)
    }

    fn release(&self, token: &str) -> Result<()> {
        lease::release(self.target(), token)
    }

    fn take_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased> {
        lease::take_over(self.target(), options, reason)
    }

    fn lease(&self) -> Result<Option<LeaseInfo>> {
        lease::show(self.target())
    }

    fn status(&self) -> Result<Status> {
        status::status(self.target())
    }

    fn events(&self) -> Result<Vec<Value>> {
        status::recorded_events(self.target())
    }

    fn read(&self) -> Result<Option<Snapshot>> {
        self.document.read()
    }

    fn change(&self, options: &WriteOptions, compute: &mut Compute<'_>) -> Result<Written> {
        self.document.change(options, compute)
    }

    fn append(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<Appended> {
        self.journal.append(lines, options)
    }

    fn change_and_append(
        &self,
        journal: &dyn store::Target,
        lines: &[&[u8]],
        options: &AppendOptions,
        compute: &mut Compute<'_>,
    ) -> Result<(Written, Appended)> {
        let Some(other) = journal.as_any().downcast_ref::<Self>() else {
            let detail = "the document and the journal are in different stores";
            let error = Error::new(ErrorKind::Invalid, "update and append", detail);
            return Err(error.at(self.name()));
        };
        update_and_append(&self.document, &other.journal, lines, options, compute)
    }

    fn entries(&self, from: u64, limit: Option<u64>) -> Result<Box<dyn EntryReader>> {
        Ok(Box::new(self.journal.read(from, limit)?))
    }

    fn adopt(&self) -> Result<()> {
        self.journal.adopt()
    }

    fn watch(&self) -> Result<Box<dyn Watcher>> {
        Ok(Box::new(FileWatcher::new(self.target().current()?.into_owned())?))
    }

    fn restore(&self, options: &WriteOptions) -> Result<Written> {
        self.document.restore(options)
    }

    fn earlier(&self) -> Result<Vec<Earlier>> {
        self.document.earlier()
    }

    fn keep_versions(&self, count: u16, options: &WriteOptions) -> Result<()> {
        self.document.keep_versions(count, options)
    }

    fn kept_versions(&self) -> Result<u16> {
        self.document.kept_versions()
    }

    fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        self.journal.rotate(options)
    }

    fn compact(
        &self,
        options: &WriteOptions,
        keep: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        self.journal.compact(options, keep)
    }

    fn verify(&self) -> Result<Report> {
        self.journal.verify()
    }

    fn repair(&self, options: &WriteOptions, accept: bool) -> Result<Report> {
        self.journal.repair(options, accept)
    }
}

impl EntryReader for Entries {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.next_line()
    }

    fn pending(&self) -> Result<Vec<Vec<u8>>> {
        Self::pending(self)
    }
}

/// Watches the directory, since the file is replaced, and that of the sidecars.
#[derive(Debug)]
struct FileWatcher {
    target: Target,
    watcher: sys::Watcher,
}

impl FileWatcher {
    /// A missing directory cannot wake us.
    fn new(target: Target) -> Result<Self> {
        let dir = target.dir();
        target.fs.stat(dir).map_err(Target::failed("watch", dir))?;
        let watcher = sys::Watcher::new(&[dir, target.side()]);
        Ok(Self { target, watcher })
    }
}

impl Watcher for FileWatcher {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let woken = self.watcher.wait(time);
        let woken = woken.map_err(Target::failed("watch", self.target.path()))?;
        if woken {
            // The directory may have been replaced, and nothing would wake us any more.
            *self = Self::new(self.target.clone())?;
        }
        Ok(woken)
    }
}
