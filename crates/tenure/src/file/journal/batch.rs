//! A batch on its way: checked, and laid out as the log wants it.

use crate::error::{Error, ErrorKind, Result};
use crate::file::operations;
use crate::file::target::Target;

use super::format::BATCH_HEAD_BYTES;
use super::lines;
use super::options::AppendOptions;

/// A batch is in memory, and has to fit the log.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// A batch that was checked and can be logged.
#[derive(Debug)]
pub(crate) struct Lines {
    /// [`BATCH_HEAD_BYTES`] free bytes, then the lines.
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The checksum of the operation id; 0 is none.
    pub(super) operation: u64,
}

impl Lines {
    pub(crate) fn check(
        target: &Target,
        batch: &[impl AsRef<[u8]>],
        options: &AppendOptions,
    ) -> Result<Self> {
        let invalid = |detail: String| {
            Error::new(ErrorKind::Invalid, "append", detail).at(target.path()).committed(false)
        };
        if batch.is_empty() && options.header.is_none() {
            return Err(invalid("the batch is empty, and there is no header to set".to_owned()));
        }
        if options.write.if_version.is_some() {
            return Err(invalid("a journal has no version; use the fence or a guard".to_owned()));
        }
        let total: usize = batch.iter().map(|line| line.as_ref().len() + 1).sum();
        if total > BATCH_BYTES_MAX {
            return Err(invalid("the batch is larger than 1 GiB".to_owned()));
        }
        let mut bytes = Vec::with_capacity(BATCH_HEAD_BYTES + total);
        bytes.resize(BATCH_HEAD_BYTES, 0);
        for (at, line) in batch.iter().enumerate() {
            let line = line.as_ref();
            let wrong = |why: &str| invalid(format!("line {} of the batch {why}", at + 1));
            if memchr::memchr(b'\n', line).is_some() {
                return Err(wrong("contains a newline"));
            }
            if lines::is_blank(line) {
                return Err(wrong("is blank"));
            }
            if options.json {
                let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(line);
                parsed.map_err(|err| wrong(&format!("is not JSON: {err}")))?;
            }
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        let operation = options.write.operation.as_deref();
        let operation = operation.map_or(0, operations::id_of);
        Ok(Self { bytes, count: batch.len() as u64, operation })
    }

    /// The lines as they are going to be in the file.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[BATCH_HEAD_BYTES..]
    }
}
