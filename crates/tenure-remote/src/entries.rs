//! Entries of a journal, page by page.
//!
//! # Invariants
//!
//! 1. Numbers of one journal follow each other without a gap, unless entries were lost: to a failover, to a restored
//!    backup, or removed at the server. Each gap is reported once, before the entry behind it.

use std::path::Path;
use std::sync::Arc;

use tenure::store::EntryReader;
use tenure::{Error, ErrorKind, Result};

use crate::client::{Client, about};

/// A page has at least one entry and at most this many.
const ENTRIES_MAX: usize = 512;
/// The first page is small: how long the lines are is not known yet.
const ENTRIES_FIRST: usize = 16;
/// A page should not have many more bytes than this.
const BYTES: usize = 4 << 20;

/// Reads a journal from a number on.
#[derive(Debug)]
pub(crate) struct Pages {
    client: Arc<Client>,
    name: String,
    /// The number to read next.
    from: u64,
    /// The number that the next entry has if none was lost; `None` before the first one.
    expected: Option<u64>,
    /// So many entries are wanted.
    left: u64,
    /// So many are asked for at once.
    size: usize,
    /// A page had fewer entries than were asked for.
    is_last: bool,
    gap: Option<(u64, u64)>,
    page: std::vec::IntoIter<(u64, Vec<u8>)>,
    line: Vec<u8>,
}

impl Pages {
    pub(crate) fn new(client: Arc<Client>, name: String, from: u64, limit: Option<u64>) -> Self {
        let page = Vec::new().into_iter();
        let left = limit.unwrap_or(u64::MAX);
        let (is_last, gap, line) = (false, None, Vec::new());
        Self {
            client,
            name,
            from,
            expected: None,
            left,
            size: ENTRIES_FIRST,
            is_last,
            gap,
            page,
            line,
        }
    }

    fn turn(&mut self) -> Result<()> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.size);
        let page = self.client.engine.entries(&self.name, self.from, wanted);
        let page = page.map_err(|error| about(error, &self.name))?;
        self.is_last = page.entries.len() < wanted;
        self.gap = page.gap;
        if let Some((last, _)) = page.entries.last() {
            self.from = last + 1;
            let bytes: usize = page.entries.iter().map(|(_, line)| line.len() + 1).sum();
            let line = bytes / page.entries.len();
            self.size = (BYTES / line.max(1)).clamp(1, ENTRIES_MAX);
        }
        self.page = page.entries.into_iter();
        Ok(())
    }

    /// The error of a gap, behind which it goes on.
    fn lost(&mut self, (first, last): (u64, u64)) -> Error {
        self.expected = Some(last + 1);
        let detail = format!("entries {first} to {last} can no longer be read");
        let store = self.client.engine.name();
        Error::new(ErrorKind::Damaged, "read", detail)
            .at(Path::new(&self.name))
            .missing(first, last)
            .hint(format!("continue after them, and see `tenure store check {store}`"))
    }
}

impl EntryReader for Pages {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.page.len() == 0 && !self.is_last {
            self.turn()?;
        }
        if let Some(gap) = self.gap.take() {
            return Err(self.lost(gap));
        }
        let next = self.page.as_slice().first().map(|(seq, _)| *seq);
        if let Some((expected, next)) =
            self.expected.zip(next).filter(|(expected, next)| expected < next)
        {
            return Err(self.lost((expected, next - 1)));
        }
        let Some((seq, line)) = self.page.next() else { return Ok(None) };
        self.expected = Some(seq + 1);
        self.left -= 1;
        self.line = line;
        Ok(Some((seq, &self.line)))
    }
}
