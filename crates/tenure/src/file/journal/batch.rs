//! A batch, laid out as the log stores it.

use crate::file::operations;

use super::format::BATCH_HEAD_BYTES;
use crate::options::AppendOptions;

/// A batch that can be logged.
#[derive(Debug)]
pub(crate) struct Lines {
    /// [`BATCH_HEAD_BYTES`] free bytes, then the lines.
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The checksum of the operation id; 0 is none.
    pub(super) operation: u64,
}

impl Lines {
    /// Lays out lines that were checked.
    pub(crate) fn new(lines: &[&[u8]], options: &AppendOptions) -> Self {
        let total: usize = lines.iter().map(|line| line.len() + 1).sum();
        let mut bytes = Vec::with_capacity(BATCH_HEAD_BYTES + total);
        bytes.resize(BATCH_HEAD_BYTES, 0);
        for line in lines {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        let operation = options.write.operation.as_deref().map_or(0, operations::id_of);
        Self { bytes, count: lines.len() as u64, operation }
    }

    /// The lines as they are going to be in the file.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[BATCH_HEAD_BYTES..]
    }
}
