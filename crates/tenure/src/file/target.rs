//! A target: a fully resolved path, and where its sidecars are.
//!
//! # Invariants
//!
//! 1. Two spellings of one file (relative, through symlinks, with `..`) are one target.
//! 2. Sidecars are in one directory beside the target, one stem per target name. The stem is injective:
//!    two names never share a sidecar.
//! 3. Sidecars are regular files, never opened through a symlink (the seam refuses), owned by a user whom
//!    the table in `owner` allows, and as open to others as the target is, else as the directory.

mod kept;
mod names;
mod owner;
mod rights;
mod sidecar;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::address;
use crate::error::{Error, ErrorKind, Result};
use crate::file::resolve::{look_up, resolve_path};
use crate::fs::{Access, Fs, Kind, Stat, Trust};

use self::kept::Kept;
pub(crate) use self::kept::{Home, Opened};
use self::names::{FLOOR, Names, PROBE, look};
use self::rights::Rights;

/// The sidecars that a target can have, besides temporary files, the indexes of archives, and files
/// that were set aside earlier. The hold is the last: when the modes are changed to follow the
/// target, other users get access only after all the rest.
const SUFFIXES: &[&str] = &[
    "commit", "sync0", "sync1", "good", "ops", "damaged", "events", "log", "index", "replaced",
    "hold",
];
/// New parent directories are closed to others, like new documents.
const NEW_DIR_MODE: u32 = 0o700;

/// A resolved path and its sidecars.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) fs: Arc<dyn Fs>,
    names: Arc<Names>,
    /// The current place of the sidecars, if it changed since the path was resolved: for the next
    /// calls.
    moved_to: Arc<Mutex<Option<Arc<Names>>>>,
    /// `--lock-file`: this file is locked as well, since other tools lock it.
    lock_file: Option<PathBuf>,
    allow_network: bool,
    /// Its document is any bytes, and never parsed.
    is_bytes: bool,
    /// Whether the target was a mount point of its own when it was resolved, if that is known.
    mount_root: Option<bool>,
    /// The file system was fit for locking at the last check.
    prepared: Arc<AtomicBool>,
    /// It is known to keep changes of names in their order.
    orders_names: Arc<AtomicBool>,
    /// Group and mode of the target that its sidecars were last brought in line with.
    followed: Arc<AtomicU64>,
    kept: Arc<Kept>,
}

impl Target {
    /// Resolves `path`; creates nothing.
    pub(crate) fn resolve(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        let (resolved, seen) = look_up(fs.as_ref(), address::name_in(None, path)?)?;
        let mount_root = seen.as_ref().map(|seen| seen.as_ref().is_ok_and(is_mounted_alone));
        let names = look(fs.as_ref(), resolved, seen)?;
        Ok(Self { mount_root, ..Self::named(fs, names) })
    }

    /// The target of a sidecar in `side`, for callers that start from sidecars. `None` if the
    /// target's sidecars are elsewhere.
    pub(crate) fn resolve_in(fs: &Arc<dyn Fs>, path: &Path, side: &Path) -> Result<Option<Self>> {
        let target = Self::resolve(fs, path)?;
        if target.side() == side {
            return Ok(Some(target));
        }
        // Where there is no file, each user has sidecars of their own.
        let user = side.file_name().and_then(crate::fs::user_of_side_dir);
        let gone = |err: io::Error| err.kind() == io::ErrorKind::NotFound;
        let is_theirs = target.names.owner.is_some()
            && side.parent() == Some(target.dir())
            && fs.stat(target.path()).is_err_and(gone);
        match user.filter(|_| is_theirs) {
            Some(user) => {
                let names = Names::new(target.path().to_path_buf(), Some(user))?;
                Ok(Some(Self::named(fs, names)))
            }
            None => Ok(None),
        }
    }

    /// The target of a stem in a directory of sidecars, which need not be a file's name.
    pub(crate) fn of_stem(fs: &Arc<dyn Fs>, dir: &Path, side: &Path, stem: &str) -> Self {
        let owner = side.file_name().and_then(crate::fs::user_of_side_dir);
        let around = fs.stat(dir).ok().as_ref().map(Rights::from);
        let names = Names { around, ..Names::in_side(dir.join(stem), dir, side, stem, owner) };
        Self::named(fs, names)
    }

    fn named(fs: &Arc<dyn Fs>, names: Names) -> Self {
        let followed = names.rights.map_or(0, Rights::packed);
        Self {
            fs: fs.clone(),
            names: Arc::new(names),
            moved_to: Arc::default(),
            lock_file: None,
            allow_network: false,
            is_bytes: false,
            mount_root: None,
            prepared: Arc::default(),
            orders_names: Arc::default(),
            followed: Arc::new(AtomicU64::new(followed)),
            kept: Arc::default(),
        }
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

    /// The same target, with a document of any bytes.
    pub(crate) fn as_bytes(&self) -> Self {
        Self { is_bytes: true, ..self.clone() }
    }

    /// Whether its document is any bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        self.is_bytes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.names.path
    }

    /// Whether that directory was there when the path was resolved.
    pub(crate) fn has_directory(&self) -> bool {
        self.names.around.is_some()
    }

    /// The directory of the target itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.names.dir
    }

    /// A sidecar for this call alone: one that was kept, or newly opened. A kept one may have lost its
    /// name meanwhile.
    pub(crate) fn take_out(&self, path: &Path) -> Result<Opened> {
        if let Some(opened) = self.kept.take_out(path) {
            return Ok(opened);
        }
        let home = self.kept.home(path);
        Ok(Opened { handle: self.open_sidecar(path)?, home })
    }

    /// The sidecar directory.
    pub(crate) fn side(&self) -> &Path {
        &self.names.side
    }

    /// The sidecar with this suffix ("commit", "log", ...).
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

    /// The fence floor of the directory.
    pub(crate) fn floor_file(&self) -> PathBuf {
        self.side().join(FLOOR)
    }

    /// The `--lock-file` that is locked together with the hold.
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

    /// Whether a name in the sidecar directory is a sidecar of this target, and of no other.
    pub(crate) fn owns(&self, name: &OsStr) -> bool {
        name.to_str().and_then(split_sidecar).is_some_and(|(stem, _)| stem == self.stem())
    }

    /// Whether a name in the target's own directory is an archive that a rotation made of it.
    pub(crate) fn is_archive(&self, name: &OsStr) -> bool {
        let own = self.path().file_name().and_then(OsStr::to_str);
        let rest = own.and_then(|own| name.to_str()?.strip_prefix(own)?.strip_prefix('.'));
        rest.is_some_and(is_number)
    }

    /// Refuses to write a file that has other names, unless the caller breaks the link: each name has a lock
    /// of its own. `links` is what the open file says; `ours` counts the names that sidecars give it.
    pub(crate) fn refuse_other_links(
        &self,
        mut links: u64,
        ours: impl FnOnce() -> u64,
        break_link: bool,
    ) -> Result<()> {
        if links <= 1 || break_link {
            return Ok(());
        }
        // By its path, which is never answered from a cache: a FUSE server that cannot refuse to replace a
        // name has just given it a second one for a moment.
        let found = self.fs.stat(self.path()).map_err(Self::failed("look at", self.path()))?;
        links = found.links;
        if links <= 1 || links.saturating_sub(ours()) <= 1 {
            return Ok(());
        }
        let detail =
            format!("it has {links} names (hard links), and each name has a lock of its own");
        Err(Error::new(ErrorKind::Unsupported, "write", detail)
            .at(self.path())
            .hint("remove the other names, or break the link to write this one alone"))
    }

    /// An I/O error of a step on one of this target's files.
    pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |err| Error::io(action, path, err)
    }

    /// Whether the directory of its sidecars is there, so that a lock makes and syncs none.
    pub(crate) fn has_sidecars(&self) -> bool {
        self.is_prepared() || self.fs.stat(self.side()).is_ok()
    }

    fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Relaxed) && self.names.ready.load(Ordering::Relaxed)
    }

    /// Makes sure that a lock beside the target is reliable (G12), and in a shared directory that
    /// the sidecar directory is fit to use. Elsewhere the first caller that finds it missing
    /// creates it.
    pub(crate) fn prepare(&self) -> Result<()> {
        if self.is_prepared() {
            return Ok(());
        }
        if !self.names.ready.load(Ordering::Relaxed) {
            self.prepare_side()?;
        }
        if self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let look = || self.fs.stat(self.path()).is_ok_and(|found| is_mounted_alone(&found));
        if self.mount_root.unwrap_or_else(look) {
            let detail = "it is a mount point of its own, so its sidecars would be in another \
                          directory for every other process";
            return Err(Error::new(ErrorKind::Unsupported, "use", detail)
                .at(self.path())
                .hint("mount the directory instead of the single file"));
        }
        let trust = self.require_trust()?;
        self.orders_names.store(trust == Trust::Yes, Ordering::Relaxed);
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure that the directory of the sidecars is there and fit to use.
    fn prepare_side(&self) -> Result<()> {
        match self.fs.stat(self.side()) {
            Ok(found) if found.kind == Kind::Directory => self.check_side(&found)?,
            Ok(_) => return Err(self.side_is_no_directory()),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                self.refuse_to_create(self.side())?;
                self.create_directories()?;
            }
            Err(err) => return Err(Error::io("look at sidecar directory", self.side(), err)),
        }
        self.names.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a power loss leaves changes of names in their order. Not checked counts as no.
    pub(crate) fn orders_names(&self) -> bool {
        self.orders_names.load(Ordering::Relaxed)
    }

    fn side_is_no_directory(&self) -> Error {
        Error::new(ErrorKind::Invalid, "use sidecar directory", "it is not a directory")
            .at(self.side())
            .hint("move it away; tenure never follows or replaces it")
    }

    /// Makes the names of sidecars durable. An existing directory need not have a durable name: its
    /// creator may have died.
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
            // The process that made the last existing one may have died before it synced it. One in
            // a directory that we may not read was not made by us.
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
        self.create_side()?;
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
            // Most likely the process has no descriptors left, so report that.
            self.fs.open(self.dir(), Access::Read).map_err(Self::failed("open", self.dir()))?;
            let detail = "this boot of the machine cannot be distinguished from the last one";
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
        self.prepare_side()?;
        let path = self.side().join(PROBE);
        let failed = Self::failed;
        let (one, two) = (self.open_sidecar(&path)?, self.open_sidecar(&path)?);
        let mode = crate::fs::Mode::Exclusive;
        if !one.try_lock(mode).map_err(failed("self-test the lock of", &path))? {
            return Ok(()); // Another process tests right now, and excludes us: that is the answer.
        }
        if two.try_lock(mode).map_err(failed("self-test the lock of", &path))? {
            let detail = "this file system gives one lock to two holders";
            return Err(Error::new(ErrorKind::Unsupported, "use", detail).at(self.path()));
        }
        Ok(())
    }
}

/// The stem in the name of a sidecar, and what follows it ("commit", "index.3"). A suffix has no
/// dot before its number, so there is one way to split a name.
pub(crate) fn split_sidecar(name: &str) -> Option<(&str, &str)> {
    let last = name.rfind('.')?;
    let (rest, number) = (&name[..last], &name[last + 1..]);
    if SUFFIXES.contains(&number) {
        return Some((rest, number));
    }
    let dot = rest.rfind('.')?;
    let is_known = match &rest[dot + 1..] {
        "index" | "damaged" | "archive" | "replaced" | "history" => is_number(number),
        "tmp" => number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => false,
    };
    is_known.then(|| (&name[..dot], &name[dot + 1..]))
}

/// A single file that was mounted over another one.
fn is_mounted_alone(found: &Stat) -> bool {
    found.mount_root && found.kind == Kind::File
}

/// Digits only, as in the name of an archive.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
