//! From a given path to the one target that it means, and to the stem of its sidecars.
//!
//! Two spellings of one file are one path, and two names never share a stem.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, Kind, Stat};

/// The longest name that is used as a stem unchanged: with every suffix it stays below 255 bytes.
const PLAIN_STEM_BYTES_MAX: usize = 180;

/// Every user may create names, and remove only their own.
const STICKY_FOR_ALL: u32 = 0o1002;

/// Resolves symlinks; of a path that does not exist yet, the existing part.
pub(crate) fn resolve_path(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    look_up(fs, path).map(|(found, _)| found)
}

/// The same, with what was seen at the path; `None` if there was no need to look.
pub(crate) fn look_up(fs: &dyn Fs, path: &Path) -> Result<(PathBuf, Option<io::Result<Stat>>)> {
    let failed = |err| Error::io("resolve", path, err);
    if path.as_os_str().is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "resolve", "the path is empty"));
    }
    let absolute = std::path::absolute(path).map_err(failed)?;
    // Most paths are resolved as they are. A name at the end is one unless it is a link.
    let seen = if is_name(&absolute) { fs.stat_resolved(&absolute) } else { None };
    let is_plain = match &seen {
        Some(Ok(found)) => found.kind != Kind::Symlink,
        Some(Err(err)) => err.kind() == io::ErrorKind::NotFound,
        None => false,
    };
    if is_plain {
        return Ok((absolute, seen));
    }
    resolve_links(fs, path, &absolute).map(|found| (found, None))
}

/// Whether a path ends with a name: no slash, no dots.
fn is_name(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_encoded_bytes);
    name.is_some_and(|name| path.as_os_str().as_encoded_bytes().ends_with(name))
}

/// Resolves `absolute`, which was given as `path`, part by part.
fn resolve_links(fs: &dyn Fs, path: &Path, absolute: &Path) -> Result<PathBuf> {
    let failed = |err| Error::io("resolve", path, err);
    match fs.resolve(absolute) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        Ok(found) if found == absolute => return Ok(found),
        found => {
            let found = found.map_err(failed)?;
            check_link(fs, absolute, &found)?;
            return Ok(found);
        }
    }
    if fs.stat(absolute).is_ok_and(|found| found.kind == Kind::Symlink) {
        return Err(Error::new(ErrorKind::NotFound, "resolve", "it is a symlink to nothing")
            .at(path)
            .hint("create what it points to, or remove the link"));
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        let detail = "it does not name a file";
        return Err(Error::new(ErrorKind::Invalid, "resolve", detail).at(path));
    };
    Ok(resolve_path(fs, parent)?.join(name))
}

/// Refuses a link that another user put into a sticky directory (`/tmp`), since it chooses where we
/// write. The kernel refuses it too (`protected_symlinks`), but not for programs that resolve links
/// themselves. The link is checked after it was followed to `found`: no other user can have
/// replaced it by a link of a trusted user.
fn check_link(fs: &dyn Fs, path: &Path, found: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let failed = |err| Error::io("resolve", path, err);
    let parent = fs.resolve(parent).map_err(failed)?;
    let dir = fs.stat(&parent).map_err(failed)?;
    let followed = parent.join(name);
    if found == followed || dir.mode & STICKY_FOR_ALL != STICKY_FOR_ALL {
        return Ok(());
    }
    let link = fs.stat(&followed).map_err(failed)?;
    let trusted = [0, dir.uid, crate::sys::effective_user()].contains(&link.uid);
    if link.kind == Kind::Symlink && trusted {
        return Ok(());
    }
    let detail = "it is a link of another user in a directory that every user may write";
    Err(Error::new(ErrorKind::Unsupported, "resolve", detail).at(path).hint("name the file itself"))
}

/// Whether a stem is the checksum of a name, and not the name.
pub(crate) fn is_checksum(stem: &str) -> bool {
    stem.starts_with('~')
}

/// The name itself where that is safe, else its checksum; `~` keeps the two apart.
pub(crate) fn stem_of(name: &OsStr) -> String {
    let plain = name.to_str().filter(|name| {
        name.len() <= PLAIN_STEM_BYTES_MAX
            && !name.starts_with('~')
            && !name.chars().any(char::is_control)
    });
    plain.map_or_else(
        || {
            let sum = checksum::wide(name.as_encoded_bytes());
            format!("~{:032x}", u128::from_be_bytes(sum))
        },
        str::to_owned,
    )
}
