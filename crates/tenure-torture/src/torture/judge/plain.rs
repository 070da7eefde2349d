//! A journal as `cat` shows it: the archives in the order of their numbers, then the file itself.
//!
//! No code of tenure is used. docs/FORMAT.md promises to every reader that archives are named
//! `NAME.1`, `NAME.2` and so on.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The lines of all files, the oldest first, without their ends; or which file is cut short.
pub(in crate::torture) fn lines(journal: &Path) -> Result<Vec<Vec<u8>>, String> {
    let told = |path: &Path, err: &io::Error| format!("{}: {err}", path.display());
    let mut files = archives(journal).map_err(|err| told(journal, &err))?;
    files.push(journal.to_path_buf());
    let mut lines = Vec::new();
    for file in files {
        let bytes = fs::read(&file).map_err(|err| told(&file, &err))?;
        lines.extend(bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        // What comes after the last newline.
        if lines.pop().is_some_and(|rest| !rest.is_empty()) {
            return Err(format!("{} does not end with a newline", file.display()));
        }
    }
    Ok(lines)
}

/// The archives that are there, in order.
fn archives(journal: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(dir), Some(name)) = (journal.parent(), journal.file_name()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        found.extend(number(&entry.file_name(), name).map(|number| (number, entry.path())));
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The number of an archive of `journal`, if `name` is one.
fn number(name: &OsStr, journal: &OsStr) -> Option<u64> {
    let rest = name.to_str()?.strip_prefix(journal.to_str()?)?.strip_prefix('.')?;
    rest.parse().ok().filter(|number: &u64| number.to_string() == rest)
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "plain files for a plain reader")]
    fn archives_come_first_and_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("written");
        };
        let journal = dir.path().join("j");
        assert!(lines(&journal).is_err(), "it is not there");
        write("j", "e\n");
        for (name, text) in [("j.10", "d\n"), ("j.2", "b\nc\n"), ("j.1", "a\n")] {
            write(name, text);
        }
        for other in ["j.x", "j.01", "j.tmp.1", "jj.1", "j2"] {
            write(other, "not its own\n");
        }
        assert_eq!(
            lines(&journal),
            Ok([b"a", b"b", b"c", b"d", b"e"].map(|l| l.to_vec()).to_vec())
        );
        write("j.2", "b\nc");
        assert!(lines(&journal).is_err_and(|why| why.contains("j.2 does not end")));
    }
}
