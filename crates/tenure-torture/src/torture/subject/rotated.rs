//! A journal with one mistake: a rotation writes what it has read beside the file and renames that over it, as
//! codegraph's does. Whole batches are appended in one write each, so nothing tears, and what is not there in
//! the end was lost by a rotation. All the rest is tenure's.

use std::path::Path;

use tenure_shipped::Log as _;
use tenure_shipped::logs::{PlainAppend, Rotating};

use super::{Answer, Naive, Subject};

/// Tenure, but for the journal.
#[derive(Debug)]
pub(in super::super) struct Rotated;

impl Subject for Rotated {
    fn append(
        &self,
        path: &Path,
        lines: &[String],
        _durable: bool,
        _fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        PlainAppend::at(path.to_path_buf()).append(&lines.join("\n"))?;
        Ok(None)
    }

    fn entries(&self, path: &Path, from: u64) -> Answer<Vec<(u64, Vec<u8>)>> {
        Naive.entries(path, from)
    }

    /// Cuts nothing here: that others appended meanwhile is what counts.
    fn rotate(&self, path: &Path) -> Answer<()> {
        Ok(Rotating::at(path.to_path_buf()).rotate(usize::MAX)?)
    }

    fn compact(&self, path: &Path) -> Answer<()> {
        self.rotate(path)
    }
}
