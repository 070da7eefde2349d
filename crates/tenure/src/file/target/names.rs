//! Where the sidecars of a target are, and to whom they belong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::rights::Rights;
use crate::error::{Error, ErrorKind, Result};
use crate::file::resolve::stem_of;
use crate::fs::{Fs, Kind, SIDE_DIR, Stat, is_side_dir, side_dir_of};
use crate::sys;

/// The file of the self-test.
pub(super) const PROBE: &str = "probe";
/// The fence floor of the directory.
pub(super) const FLOOR: &str = "floor";

/// Where everything is, and to whom it belongs.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) path: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) side: PathBuf,
    pub(super) stem: String,
    pub(super) hold: PathBuf,
    pub(super) commit: PathBuf,
    /// In a sticky directory that users share: whose sidecars these are.
    pub(super) owner: Option<u32>,
    /// The directory when the path was resolved; `None` if there was none.
    pub(super) around: Option<Rights>,
    /// The target, if it was a file and was looked up.
    pub(super) rights: Option<Rights>,
    /// The directory of the sidecars needs no look before it is used.
    pub(super) ready: AtomicBool,
}

impl Names {
    pub(super) fn new(path: PathBuf, owner: Option<u32>) -> Result<Self> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            let detail = "a target needs a name of its own";
            return Err(Error::new(ErrorKind::Invalid, "resolve", detail).at(&path));
        };
        if is_side_dir(name) || dir.file_name().is_some_and(is_side_dir) {
            let detail = "it belongs to tenure itself";
            return Err(Error::new(ErrorKind::Invalid, "resolve", detail).at(&path));
        }
        let side = dir.join(owner.map_or_else(|| SIDE_DIR.to_owned(), side_dir_of));
        let (dir, stem) = (dir.to_path_buf(), stem_of(name));
        Ok(Self::in_side(path, &dir, &side, &stem, owner))
    }

    pub(super) fn in_side(
        path: PathBuf,
        dir: &Path,
        side: &Path,
        stem: &str,
        owner: Option<u32>,
    ) -> Self {
        Self {
            path,
            dir: dir.to_path_buf(),
            hold: side.join(format!("{stem}.hold")),
            commit: side.join(format!("{stem}.commit")),
            side: side.to_path_buf(),
            stem: stem.to_owned(),
            owner,
            around: None,
            rights: None,
            ready: AtomicBool::new(false),
        }
    }
}

/// Where the sidecars of `path` are now. `seen` is what was found there, if the caller looked.
pub(super) fn look(fs: &dyn Fs, path: PathBuf, seen: Option<io::Result<Stat>>) -> Result<Names> {
    let dir = path.parent().and_then(|dir| fs.stat(dir).ok());
    let around = dir.as_ref().map(Rights::from);
    let shared = around.is_some_and(Rights::is_shared);
    let seen = if shared { Some(seen.unwrap_or_else(|| fs.stat(&path))) } else { seen };
    let owner = match &seen {
        _ if !shared => None,
        Some(Ok(found)) => Some(found.uid),
        Some(Err(err)) if !is_missing(err) => {
            let source = io::Error::new(err.kind(), err.to_string());
            return Err(Error::io("look at", &path, source));
        }
        _ => Some(sys::effective_user()),
    };
    let file = seen.and_then(io::Result::ok).filter(|found| found.kind == Kind::File);
    let rights = file.as_ref().map(Rights::from);
    // In an existing plain directory, opening a sidecar shows whether the sidecar directory exists.
    let ready = AtomicBool::new(!shared && around.is_some());
    Ok(Names { around, rights, ready, ..Names::new(path, owner)? })
}

pub(super) fn is_missing(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::NotFound
}
