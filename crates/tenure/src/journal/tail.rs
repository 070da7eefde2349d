//! Lines that others have appended behind what is settled: they get the next numbers.
//!
//! # Invariants
//!
//! 1. A line that was numbered while it stood open keeps its number, and what is appended to it later
//!    gets none: writers and readers count a line once, from where the epoch begins.

use crate::checksum;
use crate::error::Result;

use super::entry::{ENTRY_BYTES, Kind};
use super::lines::{self, Count};
use super::session::Session;

/// Lines of others up to this much are noted in the log; more of them go to the index at once.
const FOREIGN_BYTES_LOGGED_MAX: u64 = super::checkpoint::LOG_BYTES;

impl Session {
    /// Numbers lines that others have appended.
    pub(super) fn adopt_tail(&mut self) -> Result<()> {
        let (start, mut end) = (self.head.journal_end, self.size);
        if self.head.has_pending() || end <= start {
            return Ok(());
        }
        let failed = |err| self.journal_failed("read", err);
        let many = end - start > FOREIGN_BYTES_LOGGED_MAX;
        if many && self.head.open_tail {
            // The rest of a line that was numbered before belongs to the part that is logged.
            end = lines::line_end(self.journal.as_ref(), start, end).map_err(failed)?;
        }
        if end - start > FOREIGN_BYTES_LOGGED_MAX && !self.head.open_tail {
            let mut spans = self.settled_spans(None)?;
            self.measure(start, end, &mut spans)?;
            self.news.adopted += self.number_foreign(&mut spans);
            self.head.journal_end = end;
            let open = lines::is_open_at(self.journal.as_ref(), end);
            self.head.open_tail = open.map_err(|err| self.journal_failed("read", err))?;
            return self.commit_spans(spans);
        }
        let bytes = self.journal.read_range(start, end).map_err(failed)?;
        let mut count = Count::default();
        if self.head.open_tail {
            count =
                lines::open_line(self.journal.as_ref(), self.head.base, start).map_err(failed)?;
        }
        let before = count.entries();
        count.feed(&bytes);
        let lines = count.entries() - before;
        let mut log = vec![0; ENTRY_BYTES];
        log.extend_from_slice(&checksum::of(&bytes).to_le_bytes());
        let entry = self.next_entry(lines, 8, Kind::Foreign(end - start));
        self.write_entry(&entry, &mut log)?;
        self.count_entry(&entry);
        let head = &mut self.head;
        (head.applied, head.applied_end, head.journal_end) = (head.entries, head.end, end);
        head.open_tail = count.is_open();
        self.news.adopted += lines;
        self.store()?;
        if many { self.adopt_tail() } else { Ok(()) }
    }
}
