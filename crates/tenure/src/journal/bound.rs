//! Whether a file is the one that log and index describe. Its identity and its length say so nearly always; not if
//! somebody has cut it (`copytruncate`) and others have made it longer again.
//!
//! # Invariants
//!
//! 1. (J8) A file of which nothing is as it was is another one: it is adopted. As long as anything in it is, the rest is
//!    damage, which is told and not adopted (G7).

use std::io;

use crate::error::Result;
use crate::fs::Handle;

use super::entry::Logged;
use super::head::{ENTRIES_AT, Head};
use super::index::{Header, Index, Record};
use super::lines;
use super::session::{Session, tail_sum};
use super::verify;
use super::wal::{Reach, Wal};

impl Session {
    /// Whether the journal, which is longer than the head says, was cut before it grew.
    pub(super) fn is_another(&mut self, index: Option<&Index>) -> Result<bool> {
        let log = (&self.wal, &self.head);
        let same = is_described(self.journal.as_ref(), log, index);
        self.cut |= !same.map_err(|err| self.journal_failed("read", err))?;
        Ok(self.cut)
    }
}

/// Looks at what was let in and indexed; nearly always the first look is enough. What cannot be told is taken for so.
pub(super) fn is_described(
    journal: &dyn Handle,
    (wal, head): (&Wal, &Head),
    index: Option<&Index>,
) -> io::Result<bool> {
    if head.base > 0 && tail_sum(journal, head.base)? == head.tail_sum {
        return Ok(true);
    }
    let mut differs = head.base > 0;
    if head.applied > 0 {
        if let Some(first) = wal.entry_at(head, ENTRIES_AT, head.first_number)? {
            if verify::is_as_logged(journal, &first, head.base)? {
                return Ok(true);
            }
            differs = true;
        }
        let chain = wal.chain(head, ENTRIES_AT, head.first_number, Reach::Counted)?;
        let applied = usize::try_from(head.applied).unwrap_or(usize::MAX);
        let mut start = head.base;
        for logged in chain.iter().take(applied) {
            if has_a_line(journal, logged, start)? {
                return Ok(true);
            }
            start = start.saturating_add(logged.entry.span());
        }
    }
    let records = index.map_or(Ok(Vec::new()), |index| index.records(0, head.index_len))?;
    Ok(!differs || has_a_range(journal, &records)? == Some(true))
}

/// Whether a file that replaced another one is the one that was made, `end` bytes long then: nobody has made it longer or
/// shorter, or its header and at least one of its ranges are as they were. The rest is damage.
pub(super) fn is_published(
    journal: &dyn Handle,
    index: Option<&Index>,
    end: u64,
) -> io::Result<bool> {
    let Some(index) = index else { return Ok(false) };
    if journal.extent()?.size == end {
        return Ok(true);
    }
    if header(journal, Some(index)) != index.title.header {
        return Ok(false);
    }
    let (mut at, mut differs) = (0, false);
    loop {
        let records = index.records(at, u64::MAX - at)?;
        if records.is_empty() {
            return Ok(!differs);
        }
        at += records.len() as u64;
        for record in records {
            match has_a_range(journal, &[record])? {
                Some(true) => return Ok(true),
                Some(false) => differs = true,
                None => {}
            }
        }
    }
}

/// The header line that the last index knew, if the journal still begins with it.
pub(super) fn header(journal: &dyn Handle, index: Option<&Index>) -> Header {
    let Some(header) = index.map(|index| index.title.header) else { return Header::default() };
    let len = header.len;
    // Read piece by piece: whoever may write there can plant any length.
    let ends = lines::line_end(journal, 0, len).ok().filter(|ends| *ends == len && len > 0);
    let newline = ends.and_then(|ends| journal.read_range(ends - 1, ends).ok());
    let sum = || verify::sum(journal, 0, len).ok().flatten();
    let is_there =
        newline.as_deref() == Some(b"\n") && (header.sum == 0 || sum() == Some(header.sum));
    if is_there { header } else { Header::default() }
}

/// Whether any line of a batch is where it was; of lines of others, all of them.
fn has_a_line(journal: &dyn Handle, logged: &Logged, start: u64) -> io::Result<bool> {
    if logged.entry.is_foreign() {
        return verify::is_as_logged(journal, logged, start);
    }
    let found = journal.read_range(start, start + logged.entry.span())?;
    let mut at = 0;
    Ok(logged.payload.split_inclusive(|byte| *byte == b'\n').any(|line| {
        at += line.len();
        line.len() > 1 && found.get(at - line.len()..at) == Some(line)
    }))
}

/// Whether the first of these ranges that has any bytes is as it was; `None` if there is none.
pub(super) fn has_a_range(
    journal: &dyn Handle,
    records: &[Option<Record>],
) -> io::Result<Option<bool>> {
    let mut segments = records.iter().flatten().map(|record| record.segment);
    let Some(segment) = segments.find(|segment| segment.start < segment.end) else {
        return Ok(None);
    };
    let sum = verify::sum(journal, segment.start, segment.end)?;
    Ok(Some(sum == Some(segment.sum)))
}
