//! Lines: what an entry is, and ranges of them with their checksums.
//!
//! An entry is a line that is not blank. Blank lines (spaces, tabs, carriage returns and the NULs that
//! a power loss leaves in unsynced files) are skipped and never numbered.

use std::io;
use std::sync::Arc;

use crate::checksum;
use crate::fs::Handle;

use super::format::{HeaderLine, Range};

/// How much is read at a time.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;
/// The approximate length of a range, unless one line is longer: a reader reads it in one piece.
pub(super) const RANGE_BYTES: u64 = CHUNK_BYTES as u64 - 4096;

pub(super) use crate::store::is_blank;

/// How many entries are in `bytes`; a line without a newline at the end counts.
pub(super) fn count(bytes: &[u8]) -> u64 {
    let (mut entries, mut start) = (0, 0);
    for newline in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
        entries += u64::from(!is_blank(&bytes[start.min(newline)..newline]));
        start = newline + 1;
    }
    entries
}

/// Collects text that is contiguous, in the file and in its numbers, and cuts it into ranges at
/// newlines.
#[derive(Default)]
pub(super) struct Cut {
    done: Vec<Range>,
    current: Option<Range>,
    sum: checksum::Running,
}

impl Cut {
    /// Adds `text`, which is at `start` of the file and begins with entry `seq`.
    pub(super) fn add(&mut self, start: u64, seq: u64, text: &[u8]) {
        let follows = |range: &Range| range.end == start && range.next_seq() == seq;
        if !self.current.as_ref().is_some_and(follows) {
            self.end();
            self.current = Some(Range { start, end: start, seq, ..Range::default() });
        }
        let mut rest = text;
        while !rest.is_empty() {
            let room = self
                .current
                .map_or(RANGE_BYTES, |range| RANGE_BYTES.saturating_sub(range.end - range.start));
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let newline = rest.get(room..).and_then(|far| memchr::memchr(b'\n', far));
            let len = newline.map_or(rest.len(), |newline| room + newline + 1);
            let (piece, behind) = rest.split_at(len);
            if let Some(range) = &mut self.current {
                self.sum.update(piece);
                range.end += piece.len() as u64;
                range.lines += count(piece);
                let (start, seq) = (range.end, range.next_seq());
                if newline.is_some() {
                    self.end();
                    self.current = Some(Range { start, end: start, seq, ..Range::default() });
                }
            }
            rest = behind;
        }
    }

    fn end(&mut self) {
        if let Some(range) = self.current.take().filter(|range| range.end > range.start) {
            self.done.push(Range { sum: self.sum.finish(), ..range });
        }
        self.sum = checksum::Running::default();
    }

    pub(super) fn finish(mut self) -> Vec<Range> {
        self.end();
        self.done
    }
}

/// Cuts `[start, end)` of a file, lines of other tools that begin with entry `seq`, into ranges, in
/// bounded memory. `end` is after a newline, or the last line has none.
pub(super) fn measure(file: &dyn Handle, start: u64, end: u64, seq: u64) -> io::Result<Vec<Range>> {
    let (mut ranges, mut at, mut seq) = (Vec::new(), start, seq);
    let mut left = Vec::new();
    while at < end {
        let bytes = file.read_range(at, end.min(at + CHUNK_BYTES as u64))?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += bytes.len() as u64;
        left.extend_from_slice(&bytes);
        // Only whole lines, so that none is counted twice.
        let whole = match memchr::memrchr(b'\n', &left) {
            _ if at == end => left.len(),
            Some(newline) => newline + 1,
            None => continue,
        };
        let mut cut = Cut::default();
        cut.add(at - left.len() as u64, seq, &left[..whole]);
        ranges.extend(cut.finish());
        seq = ranges.last().map_or(seq, Range::next_seq);
        left.drain(..whole);
    }
    for range in &mut ranges {
        range.foreign = range.lines;
    }
    Ok(ranges)
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

impl Range {
    /// Whether its bytes are in `file` as they were written. A range without bytes needs no file.
    pub(super) fn is_in(&self, file: Option<&Arc<dyn Handle>>) -> io::Result<bool> {
        let sum = file.map(|file| sum(file.as_ref(), self.start, self.end)).transpose()?;
        Ok(!self.has_bytes() || sum.flatten() == Some(self.sum))
    }
}

impl HeaderLine {
    /// Whether `file` begins with it. A file without one does.
    pub(super) fn is_in(&self, file: &dyn Handle) -> io::Result<bool> {
        Ok(self.len == 0 || sum(file, 0, self.len)? == Some(self.sum))
    }
}

/// The checksum of `[start, end)`; `None` if the file is shorter.
fn sum(file: &dyn Handle, start: u64, end: u64) -> io::Result<Option<u64>> {
    let (mut sum, mut at) = (checksum::Running::default(), start);
    while at < end {
        let bytes = file.read_range(at, end.min(at + CHUNK_BYTES as u64))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        sum.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(Some(sum.finish()))
}
