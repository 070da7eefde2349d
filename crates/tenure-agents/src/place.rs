//! Where a repository keeps its reservations, and the name of a file in it.
//!
//! The place is `tenure/` in the directory that all worktrees of a repository share
//! (`$GIT_COMMON_DIR`), so that one file has one name in all of them; without git it is `.tenure.d/` in
//! the project's root. Nothing is written beside the sources.
//!
//! # Invariants
//!
//! 1. A name is relative to the root of the worktree, with `/` between its parts, after every symlink was
//!    followed and every `..` was resolved. So one file has one name, however it was spelled.
//! 2. A file that is neither in a repository nor below the project's root has no place.
//! 3. A `.git` or `commondir` file leads to another directory only if that is one of git: what came with the sources
//!    cannot choose where reservations are written.
//! 4. Nothing here writes, and nothing runs git.

use std::io;
use std::path::{Component, Path, PathBuf};

use tenure::{Error, ErrorKind, Result};

/// Symlinks in a row that are followed before the path counts as a loop.
const LINKS_MAX: usize = 40;
/// A longer path is not resolved. The system takes none.
const PATH_BYTES_MAX: usize = 4096;
/// A `.git` file or `commondir` file is one short line.
const LINK_BYTES_MAX: u64 = 64 * 1024;

/// The place of a repository or project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    store: PathBuf,
}

impl Place {
    /// The place of the repository that contains `dir`, or else of the project in `dir` itself.
    pub fn of_directory(dir: &Path) -> Result<Self> {
        let dir = resolve(dir, LINKS_MAX)?;
        let found = dir.ancestors().find_map(Self::of_worktree);
        if found.is_none() && !dir.is_dir() {
            let err = io::ErrorKind::NotFound.into();
            return Err(Error::io("find the project in", &dir, err));
        }
        Ok(found.unwrap_or_else(|| Self { store: dir.join(".tenure.d"), root: dir }))
    }

    /// The place and the name of a file. `project` is the directory that a relative path starts from, and
    /// the root of the project if there is no repository. `None` if the file belongs to neither.
    pub fn of_file(file: &Path, project: &Path) -> Result<Option<(Self, String)>> {
        let file = resolve(&project.join(file), LINKS_MAX)?;
        let place = match file.ancestors().skip(1).find_map(Self::of_worktree) {
            Some(place) => place,
            None => Self::of_directory(project)?,
        };
        Ok(place.name_of(&file).map(|name| (place, name)))
    }

    /// The name of a directory, with `/` at its end; empty for the root. `None` if it is not of this place.
    pub fn directory(&self, dir: &Path) -> Result<Option<String>> {
        let dir = resolve(dir, LINKS_MAX)?;
        let found = dir.ancestors().find_map(Self::of_worktree);
        let place = found.as_ref().unwrap_or(self);
        Ok(if place.store != self.store {
            None
        } else if dir == place.root {
            Some(String::new())
        } else {
            place.name_of(&dir).map(|name| name + "/")
        })
    }

    /// The root of the worktree or project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory that reservations are kept in.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The name of a resolved path; `None` if it is not below the root.
    fn name_of(&self, file: &Path) -> Option<String> {
        let below = file.strip_prefix(&self.root).ok()?;
        let parts: Vec<_> =
            below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        (!parts.is_empty()).then(|| parts.join("/"))
    }

    /// The place of the worktree whose root is `dir`.
    fn of_worktree(dir: &Path) -> Option<Self> {
        let entry = dir.join(".git");
        let found = std::fs::metadata(&entry).ok()?;
        let own = found.is_dir();
        let git_dir = if own { entry } else { dir.join(link_in(&entry, "gitdir: ")?) };
        let (own, common) = match link_in(&git_dir.join("commondir"), "") {
            Some(shared) => (false, git_dir.join(shared)),
            None => (own, git_dir),
        };
        let common = std::fs::canonicalize(common).ok()?;
        let is_of_git = || common.join("HEAD").is_file() && common.join("objects").is_dir();
        if !own && !is_of_git() {
            return None;
        }
        Some(Self { root: dir.to_path_buf(), store: common.join("tenure") })
    }
}

/// The path in a file of one line that starts with `prefix`.
fn link_in(file: &Path, prefix: &str) -> Option<PathBuf> {
    let found = std::fs::metadata(file).ok()?;
    if !found.is_file() || found.len() > LINK_BYTES_MAX {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim_end().strip_prefix(prefix)?.into())
}

/// The path with every symlink followed. Its end need not exist.
fn resolve(path: &Path, links: usize) -> Result<PathBuf> {
    // Each part of a path that does not exist is a call below.
    if path.as_os_str().len() > PATH_BYTES_MAX {
        let detail = format!("the path is longer than {PATH_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::Invalid, "resolve a path", detail));
    }
    let failed = |err| Error::io("resolve", path, err);
    match std::fs::canonicalize(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        resolved => return resolved.map_err(failed),
    }
    if links == 0 {
        return Err(failed(io::Error::other("too many symlinks")));
    }
    let Some(parent) = path.parent() else { return Err(failed(io::ErrorKind::NotFound.into())) };
    match path.components().next_back() {
        // A link to a file that is not there yet: an edit through it makes that file.
        Some(Component::Normal(name)) => match std::fs::read_link(path) {
            Ok(target) => resolve(&parent.join(target), links - 1),
            Err(_) => Ok(resolve(parent, links)?.join(name)),
        },
        // `missing/..` is the directory of `missing`.
        Some(Component::ParentDir) => {
            let below = resolve(parent, links)?;
            Ok(below.parent().map_or(below.clone(), Path::to_path_buf))
        }
        _ => resolve(parent, links),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn repository(at: &Path) {
        fs::create_dir_all(at.join(".git/objects")).unwrap();
        fs::File::create(at.join(".git/HEAD")).unwrap();
        fs::create_dir_all(at.join("src")).unwrap();
    }

    fn name(file: &Path, base: &Path) -> Option<String> {
        Place::of_file(file, base).unwrap().map(|(_, name)| name)
    }

    #[test]
    fn one_file_has_one_name_however_it_is_spelled() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(&root);
        let expected = Some("src/a.rs".to_owned());
        for spelled in ["src/a.rs", "./src/a.rs", "src/../src/a.rs", "new/../src/a.rs"] {
            assert_eq!(name(Path::new(spelled), &root), expected, "{spelled}");
            assert_eq!(name(&root.join(spelled), Path::new("/")), expected, "{spelled}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_also_to_files_that_are_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(&root);
        std::os::unix::fs::symlink("src", root.join("link")).unwrap();
        std::os::unix::fs::symlink("src/later.rs", root.join("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        assert_eq!(name(Path::new("link/a.rs"), &root).unwrap(), "src/a.rs");
        assert_eq!(name(Path::new("dangling"), &root).unwrap(), "src/later.rs");
        assert!(Place::of_file(Path::new("loop"), &root).is_err());
    }

    #[test]
    fn what_is_outside_has_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        assert_eq!(name(Path::new("../other.txt"), &project), None);
        assert_eq!(name(Path::new("."), &project), None);
        let (place, name) = Place::of_file(Path::new("a\nb"), &project).unwrap().unwrap();
        assert_eq!(name, "a\nb");
        assert_eq!(place.store(), project.canonicalize().unwrap().join(".tenure.d"));
        assert!(Place::of_file(Path::new("a\0b"), &project).is_err());
        for long in ["x/".repeat(50_000), "x".repeat(50_000)] {
            let error = Place::of_file(Path::new(&long), &project).unwrap_err();
            assert!(error.to_string().len() < 200, "{error}");
        }
    }

    #[test]
    fn sources_cannot_lead_reservations_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("elsewhere")).unwrap();
        for (name, file) in [("file", ".git"), ("common", ".git/commondir")] {
            let project = root.join(name);
            let file = project.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let target = root.join("elsewhere").display().to_string();
            let text = if name == "file" { format!("gitdir: {target}") } else { target };
            std::io::Write::write_all(&mut fs::File::create(file).unwrap(), text.as_bytes())
                .unwrap();
            let place = Place::of_directory(&project).unwrap();
            assert_eq!(place.store(), project.join(".tenure.d"), "{name}");
        }
    }

    #[test]
    fn a_worktree_shares_the_place_of_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(&root.join("main"));
        let git_dir = root.join("main/.git/worktrees/second");
        fs::create_dir_all(&git_dir).unwrap();
        fs::create_dir_all(root.join("second/src")).unwrap();
        for (file, text) in [
            (git_dir.join("commondir"), "../..\n".to_owned()),
            (root.join("second/.git"), format!("gitdir: {}\n", git_dir.display())),
        ] {
            std::io::Write::write_all(&mut fs::File::create(file).unwrap(), text.as_bytes())
                .unwrap();
        }
        let first = Place::of_file(Path::new("src/a.rs"), &root.join("main")).unwrap().unwrap();
        let second = Place::of_file(Path::new("src/a.rs"), &root.join("second")).unwrap().unwrap();
        assert_eq!(first.0.store(), second.0.store());
        assert_eq!(first.1, second.1);
        assert_ne!(first.0.root(), second.0.root());
    }
}
