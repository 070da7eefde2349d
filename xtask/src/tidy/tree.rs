//! The files of the repository: those git knows or would add, and all of them where there is no git.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::root;

/// Directories that are never part of the sources.
const NOT_OURS: &[&str] = &[".git", ".tenure", "dist", "node_modules", "target"];

/// One file: its path from the top, with `/`, and its text. Bytes that are not UTF-8 are replaced.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    /// Whether the name ends in `.` and one of `extensions`.
    pub(super) fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }
}

/// Every file, read once.
pub(super) fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(read_all);
    &FILES
}

/// Runs `check` on every file with one of `extensions`.
pub(super) fn check_each(
    extensions: &[&str],
    check: impl Fn(&str, &str) -> Vec<String>,
) -> Vec<String> {
    let files = files().iter().filter(|file| file.has_extension(extensions));
    files.flat_map(|file| check(&file.path, &file.text)).collect()
}

/// The text of one file, or the problem that there is none.
pub(super) fn text(path: &str) -> Result<&'static str, String> {
    let file = files().iter().find(|file| file.path == path);
    file.map(|file| file.text.as_str()).ok_or_else(|| format!("{path}: is missing"))
}

fn read_all() -> Vec<File> {
    let mut paths = listed_by_git();
    // A copy without its `.git` may be inside another repository, which knows none of its files.
    if !paths.iter().any(|path| path == "xtask/src/tidy/tree.rs") {
        paths.clear();
        walk(root(), "", &mut paths);
    }
    paths.sort();
    paths.dedup();
    let read = |path: String| {
        // A file that is listed but gone is a deletion that is not committed yet.
        let bytes = std::fs::read(root().join(&path)).ok()?;
        Some(File { path, text: String::from_utf8_lossy(&bytes).into_owned() })
    };
    paths.into_iter().filter_map(read).collect()
}

fn listed_by_git() -> Vec<String> {
    // `safe.directory`: the checkout may belong to another user than the one who tests.
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let Ok(output) = listed else { return Vec::new() };
    let names = String::from_utf8_lossy(&output.stdout);
    names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn walk(dir: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a readable directory") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().expect("a file type").is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), paths);
            }
        } else {
            paths.push(path);
        }
    }
}

#[test]
fn both_ways_of_listing_find_the_sources() {
    let mut walked = Vec::new();
    walk(root(), "", &mut walked);
    assert!(walked.iter().any(|path| path == "xtask/src/main.rs"));
    assert!(files().iter().any(|file| file.path == "xtask/src/main.rs"));
}

#[test]
fn a_missing_file_is_a_problem() {
    assert_eq!(text("no/such/file"), Err("no/such/file: is missing".into()));
}
