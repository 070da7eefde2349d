//! A batch on its way: checked, and laid out as the log wants it.

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};

use super::Journal;
use super::entry::ENTRY_BYTES;
use super::lines;
use super::options::AppendOptions;

/// A batch is in memory, and has to fit the log.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// A batch that was checked and can be logged.
#[derive(Debug)]
pub(crate) struct Batch {
    /// [`ENTRY_BYTES`] free bytes, one for a newline, then the lines.
    bytes: Vec<u8>,
    lines: u32,
    pub(super) operation: u64,
}

impl Batch {
    pub(crate) fn check(
        journal: &Journal,
        batch: &[impl AsRef<[u8]>],
        options: &AppendOptions,
    ) -> Result<Self> {
        let invalid = |at: usize, why: &str| {
            let detail = format!("line {} of the batch {why}", at + 1);
            Error::new(ErrorKind::Invalid, "append", detail).at(journal.path()).committed(false)
        };
        let nothing = batch.is_empty() && options.header.is_none();
        if nothing || options.write.if_version.is_some() {
            let detail = if nothing {
                "the batch is empty, and there is no header to set"
            } else {
                "a journal has no version; use the fence or a guard"
            };
            return Err(Error::new(ErrorKind::Invalid, "append", detail).at(journal.path()));
        }
        let total: usize = batch.iter().map(|line| line.as_ref().len() + 1).sum();
        if total > BATCH_BYTES_MAX {
            return Err(invalid(0, "and those after it are larger than 1 GiB together"));
        }
        let mut bytes = Vec::with_capacity(ENTRY_BYTES + 1 + total);
        bytes.resize(ENTRY_BYTES + 1, 0);
        for (at, line) in batch.iter().enumerate() {
            let line = line.as_ref();
            if memchr::memchr(b'\n', line).is_some() {
                return Err(invalid(at, "contains a newline"));
            }
            if lines::is_blank(line) {
                return Err(invalid(at, "is blank"));
            }
            if options.json {
                if let Err(err) = serde_json::from_slice::<serde::de::IgnoredAny>(line) {
                    return Err(invalid(at, &format!("is not JSON: {err}")));
                }
            }
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        let lines = u32::try_from(batch.len()).map_err(|_| invalid(0, "has too many after it"))?;
        let operation = options.write.operation.as_deref().map_or(0, operation_id);
        Ok(Self { bytes, lines, operation })
    }

    /// The lines as they are going to be in the file.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[ENTRY_BYTES + 1..]
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines.into()
    }

    /// The entry's bytes: room for its header, and the payload, which closes a foreign line first.
    pub(super) fn entry_bytes(&mut self, close: bool) -> &mut [u8] {
        if close {
            self.bytes[ENTRY_BYTES] = b'\n';
            return &mut self.bytes;
        }
        &mut self.bytes[1..]
    }
}

/// The checksum of an operation's name; never 0.
fn operation_id(name: &str) -> u64 {
    checksum::of(name.as_bytes()).max(1)
}
