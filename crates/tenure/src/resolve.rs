//! From a path as people write it to the one target that it means, and to the stem of its sidecars.
//!
//! Two spellings of one file are one path, and two names never share a stem.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, Kind};

/// The longest name that is used as a stem unchanged: with every suffix it stays below 255 bytes.
const PLAIN_STEM_BYTES_MAX: usize = 180;

/// Resolves symlinks; what does not exist yet is resolved as far as it does.
pub(crate) fn resolve_path(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    let failed = |err| Error::io("resolve", path, err);
    if path.as_os_str().is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "resolve", "the path is empty"));
    }
    let absolute = std::path::absolute(path).map_err(failed)?;
    match fs.resolve(&absolute) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        found => return found.map_err(failed),
    }
    if fs.stat(&absolute).is_ok_and(|found| found.kind == Kind::Symlink) {
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
