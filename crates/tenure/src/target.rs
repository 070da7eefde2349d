//! A target: a fully resolved path, and where its sidecars are.
//!
//! # Invariants
//!
//! 1. Two spellings of one file (relative, through symlinks, with `..`) are one target.
//! 2. Everything of ours lives in `.tenure/` beside the target, one stem per target name; the stem is
//!    injective: two names never share a sidecar.
//! 3. Sidecars are never opened through a symlink (the seam refuses), are regular files, and follow
//!    the target's mode and group, else the directory's.

mod kept;
mod sidecar;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Fs, Kind, Stat, Trust};
use crate::resolve::{look_up, resolve_path, stem_of};

use self::kept::Kept;
pub(crate) use self::kept::{Home, Opened};

/// The one directory of ours.
pub(crate) const SIDE_DIR: &str = ".tenure";
/// The sidecars that a target can have, besides temporary files, the indexes of archives, and what was
/// set aside earlier.
const SUFFIXES: &[&str] = &[
    "hold",
    "commit",
    "sync0",
    "sync1",
    "good",
    "spare",
    "damaged",
    "events",
    "wal",
    "index",
    "torn",
    "displaced",
];
/// New parent directories are closed to others, like new documents.
const NEW_DIR_MODE: u32 = 0o700;

/// A resolved path and its sidecars.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) fs: Arc<dyn Fs>,
    names: Arc<Names>,
    /// `--lock-file`: exactly this file is locked as well, since others lock it.
    lock_file: Option<PathBuf>,
    allow_network: bool,
    /// Whether the target was a mount point of its own when it was resolved, if somebody looked.
    mount_root: Option<bool>,
    /// The directories were there and fit to lock in when we last looked.
    prepared: Arc<AtomicBool>,
    /// They are known to keep changes of names in their order.
    orders_names: Arc<AtomicBool>,
    kept: Arc<Kept>,
}

/// Where everything is.
#[derive(Debug)]
struct Names {
    path: PathBuf,
    dir: PathBuf,
    side: PathBuf,
    stem: String,
    hold: PathBuf,
    commit: PathBuf,
}

impl Target {
    /// Resolves `path`; creates nothing.
    pub(crate) fn resolve(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        let (resolved, seen) = look_up(fs.as_ref(), path)?;
        let (Some(dir), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            let detail = "a target needs a name of its own";
            return Err(Error::new(ErrorKind::Invalid, "resolve", detail).at(path));
        };
        if name == SIDE_DIR || dir.file_name() == Some(OsStr::new(SIDE_DIR)) {
            let detail = "it belongs to tenure itself";
            return Err(Error::new(ErrorKind::Invalid, "resolve", detail).at(path));
        }
        let (side, stem) = (dir.join(SIDE_DIR), stem_of(name));
        let names = Names {
            dir: dir.to_path_buf(),
            hold: side.join(format!("{stem}.hold")),
            commit: side.join(format!("{stem}.commit")),
            side,
            stem,
            path: resolved,
        };
        Ok(Self {
            fs: fs.clone(),
            names: Arc::new(names),
            lock_file: None,
            allow_network: false,
            mount_root: seen.map(|seen| seen.is_ok_and(|found| is_mounted_alone(&found))),
            prepared: Arc::default(),
            orders_names: Arc::default(),
            kept: Arc::default(),
        })
    }

    /// The same target, with the options of a call that change where and whether it may lock.
    pub(crate) fn with(&self, lock_file: Option<&Path>, allow_network: bool) -> Result<Self> {
        let mut target = self.clone();
        if allow_network != self.allow_network {
            target.allow_network = allow_network;
            (target.prepared, target.orders_names) = Default::default();
        }
        if let Some(file) = lock_file {
            target.lock_file = Some(resolve_path(self.fs.as_ref(), file)?);
        }
        Ok(target)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.names.path
    }

    /// The directory of the target itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.names.dir
    }

    /// The sidecar directory.
    pub(crate) fn side(&self) -> &Path {
        &self.names.side
    }

    /// The sidecar with this suffix ("commit", "wal", ...).
    pub(crate) fn sidecar(&self, suffix: &str) -> PathBuf {
        self.side().join(format!("{}.{suffix}", self.stem()))
    }

    /// What the names of its sidecars start with.
    pub(crate) fn stem(&self) -> &str {
        &self.names.stem
    }

    /// Every sidecar that has a fixed name, whether or not it is there.
    pub(crate) fn sidecars(&self) -> impl Iterator<Item = PathBuf> + '_ {
        SUFFIXES.iter().map(|suffix| self.sidecar(suffix))
    }

    /// The file whose lock is the hold.
    pub(crate) fn hold_file(&self) -> &Path {
        &self.names.hold
    }

    /// The file with the commit lock and the record.
    pub(crate) fn commit_file(&self) -> &Path {
        &self.names.commit
    }

    /// The file of others that is locked together with the hold.
    pub(crate) fn lock_file(&self) -> Option<&Path> {
        self.lock_file.as_deref()
    }

    /// The same target, for a call that has the lock file already.
    pub(crate) fn without_lock_file(&self) -> Self {
        Self { lock_file: None, ..self.clone() }
    }

    /// The temporary file of every change of a document. Only one change is ever under way (the
    /// commit lock), so a file of this name is left over from one that died. And since every change
    /// passes through this one name, a power loss leaves all names as they were after some step of
    /// some change, never a mixture.
    pub(crate) fn document_temp(&self) -> PathBuf {
        self.sidecar(&format!("tmp.{:016x}", 0))
    }

    /// Whether a name in the sidecar directory is a temporary file of this target.
    pub(crate) fn is_temp(&self, name: &OsStr) -> bool {
        let hex = name
            .to_str()
            .and_then(|name| name.strip_prefix(self.stem()))
            .and_then(|rest| rest.strip_prefix(".tmp."));
        hex.is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    /// Whether a name in the sidecar directory is a sidecar of this target, and of no other.
    pub(crate) fn owns(&self, name: &OsStr) -> bool {
        let rest = name.to_str().and_then(|name| name.strip_prefix(self.stem()));
        let suffix = rest.and_then(|rest| rest.strip_prefix('.'));
        let known = |suffix: &str| {
            let numbered = ["index.", "damaged."].iter().find_map(|kind| suffix.strip_prefix(kind));
            SUFFIXES.contains(&suffix) || numbered.is_some_and(is_number)
        };
        suffix.is_some_and(known) || self.is_temp(name)
    }

    /// Whether a name in the target's own directory is an archive that a rotation made of it.
    pub(crate) fn is_archive(&self, name: &OsStr) -> bool {
        let own = self.path().file_name().and_then(OsStr::to_str);
        let rest = own.and_then(|own| name.to_str()?.strip_prefix(own)?.strip_prefix('.'));
        rest.is_some_and(is_number)
    }

    /// An I/O error of a step on one of this target's files.
    pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |err| Error::io(action, path, err)
    }

    /// Whether the directory of its sidecars is there, so that [`Self::prepare`] makes and syncs nothing.
    pub(crate) fn has_sidecars(&self) -> bool {
        self.prepared.load(Ordering::Relaxed) || self.fs.stat(self.side()).is_ok()
    }

    /// Makes sure that the directories are there, and that a lock in them means something (G12).
    pub(crate) fn prepare(&self) -> Result<()> {
        if self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.fs.stat(self.side()) {
            Ok(found) if found.kind == Kind::Directory => self.refuse_planted(&found)?,
            Ok(_) => return Err(self.side_is_no_directory()),
            Err(err) if err.kind() == io::ErrorKind::NotFound => self.create_directories()?,
            Err(err) => return Err(Error::io("look at sidecar directory", self.side(), err)),
        }
        let look = || self.fs.stat(self.path()).is_ok_and(|found| is_mounted_alone(&found));
        if self.mount_root.unwrap_or_else(look) {
            let detail = "it is a mount point of its own, so its sidecars would be in another \
                          directory for everybody else";
            return Err(Error::new(ErrorKind::Unsupported, "use", detail)
                .at(self.path())
                .hint("mount the directory instead of the single file"));
        }
        let trust = self.require_trust()?;
        self.orders_names.store(trust == Trust::Yes, Ordering::Relaxed);
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a power loss leaves changes of names as they were after one of them. What was not looked at
    /// counts as no.
    pub(crate) fn orders_names(&self) -> bool {
        self.orders_names.load(Ordering::Relaxed)
    }

    /// In a directory like `/tmp` nobody can replace another user's file. But whoever owns `.tenure/`
    /// can replace what is in it, temporary files of documents included (G13).
    fn refuse_planted(&self, side: &Stat) -> Result<()> {
        if side.uid == 0 || side.uid == crate::sys::effective_user() {
            return Ok(());
        }
        let Ok(dir) = self.fs.stat(self.dir()) else { return Ok(()) };
        if dir.mode & 0o1000 == 0 || side.uid == dir.uid {
            return Ok(());
        }
        let detail = format!("it belongs to user {}, who could replace what is in it", side.uid);
        Err(Error::new(ErrorKind::Unsupported, "use sidecar directory", detail)
            .at(self.side())
            .hint("use a directory of your own inside the shared one"))
    }

    fn side_is_no_directory(&self) -> Error {
        Error::new(ErrorKind::Invalid, "use sidecar directory", "it is not a directory")
            .at(self.side())
            .hint("move it away; tenure never follows or replaces it")
    }

    /// Makes the names of sidecars durable. That their directory is there does not make its own name durable: its
    /// maker may have died.
    pub(crate) fn sync_sidecars(&self) -> io::Result<()> {
        [self.side(), self.dir()].into_iter().try_for_each(|dir| self.fs.sync_dir(dir))
    }

    fn create_directories(&self) -> Result<()> {
        let mut missing = Vec::new();
        let mut dir = self.dir();
        while let Err(err) = self.fs.stat(dir) {
            if err.kind() != io::ErrorKind::NotFound {
                return Err(Error::io("look at directory", dir, err));
            }
            missing.push(dir.to_path_buf());
            let Some(parent) = dir.parent() else { break };
            dir = parent;
        }
        if let Some(parent) = dir.parent() {
            // Whoever made the last one that is there may have died before syncing it. One in a directory that
            // we may not read was not made by us.
            match self.fs.sync_dir(parent) {
                Err(err) if err.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(Error::io("sync the name of directory", dir, err));
                }
                _ => {}
            }
        }
        for dir in missing.iter().rev() {
            self.create_dir(dir, NEW_DIR_MODE)?;
            if let Some(parent) = dir.parent() {
                // Without this a durable document could vanish with the directory it is in.
                self.fs.sync_dir(parent).map_err(Self::failed("sync directory", parent))?;
            }
        }
        let mode = self.fs.stat(self.dir()).map_or(NEW_DIR_MODE, |found| found.mode);
        // Whoever may write beside the target may also lock it; the set-group bit hands the group on.
        self.create_dir(self.side(), (mode & 0o1777) | 0o2000)?;
        // Somebody else may have been faster, and it is theirs to open then.
        let _ = self.follow_dir(self.side(), (mode & 0o1777) | 0o2000);
        self.fs.sync_dir(self.dir()).map_err(Self::failed("sync directory", self.dir()))?;
        let ignore = self.side().join(".gitignore");
        match self.fs.open(&ignore, Access::CreateNew(0o644)) {
            Ok(file) => {
                // Losing it in a crash costs a line in `git status`, nothing else.
                file.write_all_at(b"*\n", 0).map_err(Self::failed("write", &ignore))
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(err) => Err(Error::io("create", &ignore, err)),
        }
    }

    /// Gives a sidecar directory that we made the owner and group of the target's directory, where
    /// permitted: whoever may write there may lock, also after root was the first to come.
    fn follow_dir(&self, made: &Path, mode: u32) -> io::Result<()> {
        let (Ok(made), Ok(dir)) =
            (self.fs.open(made, Access::Read), self.fs.open(self.dir(), Access::Read))
        else {
            return Ok(()); // Not every system opens directories.
        };
        made.copy_attributes(dir.as_ref())?;
        made.set_mode((made.stat()?.mode & mode & 0o777) | (mode & 0o7000))
    }

    fn create_dir(&self, dir: &Path, mode: u32) -> Result<()> {
        match self.fs.create_dir(dir, mode) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                match self.fs.stat(dir).map(|found| found.kind) {
                    Ok(Kind::Directory) => Ok(()),
                    _ => Err(self.side_is_no_directory()),
                }
            }
            made => made.map_err(Self::failed("create directory", dir)),
        }
    }

    fn require_trust(&self) -> Result<Trust> {
        if self.fs.boot_id() == [0; 16] {
            // Most likely nothing can be opened any more, and that is what to say.
            self.fs.open(self.dir(), Access::Read).map_err(Self::failed("open", self.dir()))?;
            let detail = "this boot of the machine cannot be told from the last one";
            return Err(Error::new(ErrorKind::Unsupported, "use", detail)
                .at(self.path())
                .hint("make the boot id readable (mount /proc)"));
        }
        if self.allow_network {
            return Ok(Trust::Probe);
        }
        let trust = self.fs.trust(self.dir());
        match trust.map_err(Self::failed("look at the file system of", self.dir()))? {
            known @ (Trust::Yes | Trust::Unordered) => Ok(known),
            Trust::Probe => self.probe().map(|()| Trust::Probe),
            Trust::No(name) => {
                let detail = format!("{name} does not keep locks between machines");
                Err(Error::new(ErrorKind::Unsupported, "use", detail).at(self.path()).hint(
                    "keep it on a local file system, or allow the network file system explicitly",
                ))
            }
        }
    }

    /// An unknown file system must at least refuse a second lock.
    fn probe(&self) -> Result<()> {
        let path = self.side().join(sidecar::PROBE);
        let failed = Self::failed;
        let (one, two) = (self.open_sidecar(&path)?, self.open_sidecar(&path)?);
        let mode = crate::fs::Mode::Exclusive;
        if !one.try_lock(mode).map_err(failed("self-test the lock of", &path))? {
            return Ok(()); // Somebody else tests right now, and excludes us: that is the answer.
        }
        if two.try_lock(mode).map_err(failed("self-test the lock of", &path))? {
            let detail = "this file system gives one lock to two holders";
            return Err(Error::new(ErrorKind::Unsupported, "use", detail).at(self.path()));
        }
        Ok(())
    }
}

/// A single file that was mounted over another one.
fn is_mounted_alone(found: &Stat) -> bool {
    found.mount_root && found.kind == Kind::File
}

/// Digits only, as in the name of an archive.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
