//! Lines: what an entry is, and how many there are in a range of the file.
//!
//! An entry is a line that is not blank. Blank lines (spaces, tabs, carriage returns and the NULs that
//! a power loss leaves in unsynced files) are skipped and never numbered.

use std::io;

use crate::checksum;
use crate::fs::Handle;

/// How much is read at a time.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// Nothing but white space and NULs.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0))
}

/// Counts entries in bytes that come in pieces.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count {
    /// Entries whose newline was seen.
    pub(super) closed: u64,
    /// The bytes after the last newline are not blank.
    ink: bool,
    /// There are bytes after the last newline.
    open: bool,
}

impl Count {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', bytes) {
            if self.ink || !is_blank(&bytes[start..newline]) {
                self.closed += 1;
            }
            (self.ink, self.open) = (false, false);
            start = newline + 1;
        }
        if start < bytes.len() {
            self.open = true;
            self.ink = self.ink || !is_blank(&bytes[start..]);
        }
    }

    /// Entries, the unterminated one included.
    pub(super) fn entries(self) -> u64 {
        self.closed + u64::from(self.ink)
    }

    /// The last line has no newline.
    pub(super) fn is_open(self) -> bool {
        self.open
    }

    /// The number of entries in `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut count = Self::default();
        count.feed(bytes);
        count
    }
}

/// A range of the file with its entries counted and its bytes summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) entries: u64,
    pub(super) sum: u64,
}

/// Cuts `[start, end)` into ranges of about `target_bytes` that end at a newline (the last one where
/// the range ends), each counted and summed. Memory does not grow with the range.
pub(super) fn measure(
    file: &dyn Handle,
    start: u64,
    end: u64,
    target_bytes: u64,
    mut each: impl FnMut(Measured) -> io::Result<()>,
) -> io::Result<()> {
    let mut buf = vec![0; CHUNK_BYTES.min(usize::try_from(end - start).unwrap_or(CHUNK_BYTES))];
    let (mut at, mut from) = (start, start);
    let (mut count, mut sum) = (Count::default(), checksum::Running::default());
    while at < end {
        let want = buf.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let read = file.read_full_at(&mut buf[..want], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut chunk = &buf[..read];
        while !chunk.is_empty() {
            // How far this range still goes before it may be cut.
            let left = target_bytes.saturating_sub(at - from);
            let left = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let cut = match memchr::memchr(b'\n', &chunk[left..]) {
                Some(newline) => left + newline + 1,
                None => chunk.len(),
            };
            let is_cut = left < chunk.len() && chunk[cut - 1] == b'\n';
            count.feed(&chunk[..cut]);
            sum.update(&chunk[..cut]);
            at += cut as u64;
            chunk = &chunk[cut..];
            if is_cut || at == end {
                each(Measured {
                    start: from,
                    end: at,
                    entries: count.entries(),
                    sum: sum.finish(),
                })?;
                (from, count, sum) = (at, Count::default(), checksum::Running::default());
            }
        }
    }
    Ok(())
}

/// The end of the last complete line in `[start, end)`; `start` if there is none.
pub(super) fn last_line_end(file: &dyn Handle, start: u64, end: u64) -> io::Result<u64> {
    let mut at = end;
    while at > start {
        let from = at.saturating_sub(CHUNK_BYTES as u64).max(start);
        let bytes = file.read_range(from, at)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(from + newline as u64 + 1);
        }
        at = from;
    }
    Ok(start)
}

/// Whether the byte before `end` is something else than a newline.
pub(super) fn is_open_at(file: &dyn Handle, end: u64) -> io::Result<bool> {
    if end == 0 {
        return Ok(false);
    }
    let last = file.read_range(end - 1, end)?;
    Ok(last.first().is_some_and(|byte| *byte != b'\n'))
}
