//! Deliberately broken file systems: what a careless implementation of tenure would do.
//!
//! The power-loss ring must find the fault of each, or it proves nothing. One is missing here: a
//! record of fences that is not synced. Lost fences start again at the clock, so only a clock that
//! was also set back would show it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use tenure::fs::{Access, Fs, Handle};

use super::layer::{Layer, OpenFile, lay};

/// One way to be careless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// No file is ever synced.
    NoFileSync,
    /// No directory is ever synced.
    NoDirSync,
    /// The log of a journal is not synced.
    NoLogSync,
    /// A new version gets its name first and is synced afterwards.
    RenameBeforeSync,
    /// A document is overwritten where it is, and synced.
    InPlace,
    /// Two names are exchanged by three renames.
    ThreeRenames,
    /// A directory is synced only by the process that made a name in it.
    TrustsNames,
}

impl Broken {
    /// Every way.
    pub const ALL: &[Self] = &[
        Self::NoFileSync,
        Self::NoDirSync,
        Self::NoLogSync,
        Self::RenameBeforeSync,
        Self::InPlace,
        Self::ThreeRenames,
        Self::TrustsNames,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFileSync => "no-file-sync",
            Self::NoDirSync => "no-dir-sync",
            Self::NoLogSync => "no-log-sync",
            Self::RenameBeforeSync => "rename-before-sync",
            Self::InPlace => "in-place",
            Self::ThreeRenames => "three-renames",
            Self::TrustsNames => "trusts-names",
        }
    }

    /// `below`, broken in this way.
    pub fn over(self, below: &Arc<dyn Fs>) -> Arc<dyn Fs> {
        let layer = BrokenLayer { how: self, late: Mutex::default(), made: Mutex::default() };
        lay(Arc::new(layer), below)
    }
}

impl FromStr for Broken {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|broken| broken.name() == name);
        found.copied().ok_or_else(|| format!("`{name}` is no known way to be broken"))
    }
}

struct BrokenLayer {
    how: Broken,
    /// A sync that was postponed until after the publication.
    late: Mutex<Vec<Arc<dyn Handle>>>,
    /// Directories in which this process has made a name.
    made: Mutex<BTreeSet<PathBuf>>,
}

impl BrokenLayer {
    /// Whether a sync of this file is left out, or postponed.
    fn skips(&self, file: &OpenFile) -> bool {
        // A new log is opened under its temporary name.
        let name = file.path.to_string_lossy();
        let is_log = name.ends_with(".log") || name.ends_with(".tmp.0000000000000001");
        match self.how {
            Broken::NoFileSync => true,
            Broken::NoLogSync => is_log,
            Broken::RenameBeforeSync if is_temp(&file.path) => {
                lock(&self.late).push(file.below.clone());
                true
            }
            _ => false,
        }
    }

    fn is(&self, how: Broken) -> bool {
        self.how == how
    }

    fn made_in(&self, path: &Path) {
        if let Some(dir) = path.parent() {
            lock(&self.made).insert(dir.to_path_buf());
        }
    }

    /// Does the postponed sync.
    fn catch_up(&self) -> io::Result<()> {
        lock(&self.late).drain(..).try_for_each(|file| file.sync())
    }
}

impl Layer for BrokenLayer {
    fn open(&self, below: &dyn Fs, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        if matches!(access, Access::Create(_) | Access::CreateNew(_)) && below.stat(path).is_err() {
            self.made_in(path);
        }
        below.open(path, access)
    }

    fn rename(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        if self.is(Broken::InPlace) && is_temp(from) && to.extension() == Some("json".as_ref()) {
            return overwrite(below, from, to);
        }
        self.made_in(to);
        below.rename(from, to)?;
        self.catch_up()
    }

    fn rename_new(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        self.made_in(to);
        below.rename_new(from, to)?;
        self.catch_up()
    }

    fn exchange(&self, below: &dyn Fs, one: &Path, other: &Path) -> io::Result<()> {
        match self.how {
            // The caller then renames, which is done in place.
            Broken::InPlace => return Err(io::ErrorKind::Unsupported.into()),
            Broken::ThreeRenames => {
                let aside = one.with_extension("aside");
                below.rename(other, &aside)?;
                below.rename(one, other)?;
                below.rename(&aside, one)?;
            }
            _ => below.exchange(one, other)?,
        }
        self.catch_up()
    }

    fn link(&self, below: &dyn Fs, existing: &Path, new: &Path) -> io::Result<()> {
        if self.is(Broken::InPlace) {
            return Err(io::ErrorKind::Unsupported.into()); // A second name would change with it.
        }
        self.made_in(new);
        below.link(existing, new)
    }

    fn create_dir(&self, below: &dyn Fs, path: &Path, mode: u32) -> io::Result<()> {
        self.made_in(path);
        below.create_dir(path, mode)
    }

    fn sync_dir(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        let skipped = match self.how {
            Broken::NoDirSync => true,
            Broken::TrustsNames => !lock(&self.made).contains(path),
            _ => false,
        };
        if skipped { Ok(()) } else { below.sync_dir(path) }
    }

    fn sync(&self, file: &OpenFile) -> io::Result<()> {
        if self.skips(file) { Ok(()) } else { file.below.sync() }
    }

    fn sync_in_order(&self, file: &OpenFile) -> io::Result<()> {
        if self.skips(file) { Ok(()) } else { file.below.sync_in_order() }
    }
}

fn is_temp(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains(".tmp."))
}

/// The new content over the old one, in the same file.
fn overwrite(below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
    let source = below.open(from, Access::Read)?;
    let bytes = source.read_range(0, source.stat()?.size)?;
    let file = below.open(to, Access::ReadWrite)?;
    file.set_len(0)?;
    file.write_all_at(&bytes, 0)?;
    file.sync()?;
    below.remove(from)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
