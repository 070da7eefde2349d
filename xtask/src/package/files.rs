//! Files of packages: made, copied and listed, with errors that name them.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The problem with a file.
pub(super) fn failed(verb: &str, path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |err| format!("failed to {verb} `{}`: {err}", path.display())
}

/// Makes a directory, and those above it.
pub(super) fn directory(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(failed("make", path))
}

/// Makes a directory with nothing in it.
pub(super) fn empty(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(failed("empty", path)(err)),
        _ => directory(path),
    }
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(failed("read", path))
}

/// Writes a file, and makes its directory.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    directory(path.parent().unwrap_or(path))?;
    let mut file = std::fs::File::create(path).map_err(failed("write", path))?;
    file.write_all(text.as_bytes()).map_err(failed("write", path))
}

/// Copies a file with its mode, and makes its new directory.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    directory(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to).map(drop).map_err(failed("copy", from))
}

/// Copies a directory and everything below it.
pub(super) fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    for path in list(from)? {
        copy(&path, &to.join(path.strip_prefix(from).unwrap_or(&path)))?;
    }
    Ok(())
}

/// Every file below a directory, in order.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
        let path = entry.map_err(failed("list", dir))?.path();
        if path.is_dir() {
            found.extend(list(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The one file in `dir` whose name ends so.
pub(super) fn only(dir: &Path, end: &str) -> Result<PathBuf, String> {
    let mut found = list(dir)?;
    found.retain(|path| path.to_string_lossy().ends_with(end));
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(other) => Err(format!("{} files `*{end}` in `{}`", other.len(), dir.display())),
    }
}

/// The newest version of the GNU C library that a program or library asks for, as its symbols name it.
pub(super) fn glibc(path: &Path) -> Result<Option<(u32, u32)>, String> {
    let bytes = std::fs::read(path).map_err(failed("read", path))?;
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    Ok(newest_glibc(&text))
}

fn newest_glibc(text: &str) -> Option<(u32, u32)> {
    let versions = text.split('\0').filter_map(|name| name.strip_prefix("GLIBC_"));
    let versions = versions.filter_map(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_is_the_greatest_number() {
        let names = "\0GLIBC_2.2.5\0read\0GLIBC_2.17\0GLIBC_2.9\0xGLIBC_2.99\0GLIBC_PRIVATE\0";
        assert_eq!(newest_glibc(names), Some((2, 17)));
        assert_eq!(newest_glibc("\0read\0"), None);
    }
}
