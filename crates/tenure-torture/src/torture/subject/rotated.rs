//! A journal with one mistake: a rotation writes what it has read to a temporary file and renames
//! that over the journal, as codegraph's does. Each batch is appended in one write, so nothing
//! tears, and a missing entry was lost by a rotation. All the rest is tenure's.

use std::path::Path;

use tenure_shipped::Log as _;
use tenure_shipped::logs::{PlainAppend, Rotating};

use super::{Answer, Naive, Subject};

/// Tenure, except for the journal.
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

    /// It removes nothing: the test is about lines that others appended meanwhile.
    fn rotate(&self, path: &Path) -> Answer<()> {
        Ok(Rotating::at(path.to_path_buf()).rotate(usize::MAX)?)
    }

    fn compact(&self, path: &Path) -> Answer<()> {
        self.rotate(path)
    }
}
