//! A file system that calls the test at each step that can block or fail.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure_proof::victim::{Layer, OpenFile, lay};

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was written to it.
    Written,
    /// It is about to be synced.
    Sync,
    /// The names in it are about to be synced.
    SyncNames,
}

/// `below`, with `at` called at each step; an error that it returns is the result of the step.
pub(crate) fn stepping(
    below: &Arc<dyn Fs>,
    at: impl Fn(Step, &Path) -> io::Result<()> + Send + Sync + 'static,
) -> Arc<dyn Fs> {
    lay(Arc::new(Stepping(at)), below)
}

struct Stepping<A>(A);

impl<A: Fn(Step, &Path) -> io::Result<()> + Send + Sync + 'static> Layer for Stepping<A> {
    fn write_at(&self, file: &OpenFile, buf: &[u8], offset: u64) -> io::Result<usize> {
        let written = file.below.write_at(buf, offset)?;
        (self.0)(Step::Written, &file.path).map(|()| written)
    }
    fn sync(&self, file: &OpenFile) -> io::Result<()> {
        (self.0)(Step::Sync, &file.path).and_then(|()| file.below.sync())
    }
    fn sync_in_order(&self, file: &OpenFile) -> io::Result<()> {
        (self.0)(Step::Sync, &file.path).and_then(|()| file.below.sync_in_order())
    }
    fn sync_dir(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        (self.0)(Step::SyncNames, path).and_then(|()| below.sync_dir(path))
    }
}
