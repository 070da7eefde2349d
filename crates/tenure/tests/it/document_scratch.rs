//! A directory for each test, and what tools that do not use tenure do in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::options::Durability;
use tenure::{Document, Error, ErrorKind, Value, Wait, WriteOptions, json};

/// A new directory, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// On a file system whose syncs cost nothing, for tests with thousands of them.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    fn below(parent: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("tenure-doc-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a scratch directory");
        Self { dir: dir.canonicalize().expect("a scratch directory") }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn document(&self, name: &str) -> Document {
        Document::open(self.path(name)).expect("a document")
    }

    /// Every name below the directory.
    pub(crate) fn listing(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut todo = vec![self.dir.clone()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    todo.push(entry.path());
                }
                let path = entry.path();
                found.insert(path.strip_prefix(&self.dir).unwrap_or(&path).to_path_buf());
            }
        }
        found
    }

    /// The temporary files that are left.
    pub(crate) fn temps(&self) -> Vec<PathBuf> {
        let is_temp = |path: &PathBuf| path.to_string_lossy().contains(".tmp.");
        self.listing().into_iter().filter(is_temp).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A tool that does not use tenure writes in place.
pub(crate) fn foreign_write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).expect("a foreign write");
}

/// A tool that does not use tenure replaces the file by a rename.
pub(crate) fn foreign_replace(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let other = path.as_ref().with_extension("foreign");
    foreign_write(&other, bytes);
    fs::rename(&other, path).expect("a foreign rename");
}

pub(crate) fn bytes_of(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(path).expect("a readable file")
}

/// Not durable, and `busy` instead of waiting: a leaked lock shows at once.
pub(crate) fn at_once() -> WriteOptions {
    WriteOptions { wait: Wait::No, durability: Durability::NoSync, ..WriteOptions::default() }
}

/// The same as a durable write.
pub(crate) fn durably() -> WriteOptions {
    WriteOptions { wait: Wait::No, ..WriteOptions::default() }
}

/// Adds one to `/n`.
#[expect(clippy::unnecessary_wraps, reason = "the signature that an update takes")]
pub(crate) fn increment(current: Option<&Value>) -> tenure::Result<Option<Value>> {
    let mut next = current.cloned().unwrap_or_else(|| json!({ "n": 0 }));
    next["n"] = json!(next["n"].as_u64().unwrap_or(0) + 1);
    Ok(Some(next))
}

pub(crate) fn refusal(detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, "decide", detail)
}

/// The number in a document that [`increment`] counts.
pub(crate) fn count_in(document: &Document) -> u64 {
    let snapshot = document.read().expect("a readable document").expect("a document");
    snapshot.value["n"].as_u64().expect("a number")
}
