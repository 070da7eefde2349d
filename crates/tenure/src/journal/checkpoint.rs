//! The checkpoint: what the log holds becomes durable in the journal and the index, and the log
//! starts over.
//!
//! Order, and what a crash leaves in between: sync the journal (the log still has everything) -> write
//! and sync a group of index records (the log still has everything; what the group covers is skipped)
//! -> write and sync an anchor with a new epoch (from here on the old entries are stale).
//!
//! A log in which nothing was promised to survive a power loss is emptied without a sync: a *light*
//! checkpoint. Its group carries [`LIGHT`], so a power loss leaves the anchor before it, and lines that
//! have no log: they are adopted. A killed process leaves the hint before it, whose log is still there,
//! or the hint after it. The next anchor makes up for the syncs, and no durable batch is logged before it.

use std::io;
use std::sync::Arc;

use crate::checksum;
use crate::error::Result;
use crate::fs::{Access, Handle};
use crate::group::{self, Part};
use crate::random;

use super::entry::Logged;
use super::head::{ENTRIES_AT, Head, Shift, Unanchored};
use super::index::{Group, Header, Index, Record, Segment, Title};
use super::publish;
use super::session::Session;
use super::wal::Reach;

/// The log is emptied when its entries exceed this.
pub(super) const LOG_BYTES: u64 = 1024 * 1024;
/// A log that one large batch made longer is cut back to this.
const LOG_BYTES_KEPT: u64 = 4 * LOG_BYTES;
/// A segment of the index is about as long, if it is not one larger batch. Whoever looks for a number
/// reads at most one of them, in one piece: a line more than this still fits.
pub(super) const SEGMENT_BYTES: u64 = super::lines::CHUNK_BYTES as u64 - 4096;

/// In the epoch of records that were written without a sync: a power loss must not count them.
const LIGHT: u64 = 1 << 63;
/// No more than this is left to be made up for.
const LIGHT_BYTES_MAX: u64 = 64 * LOG_BYTES;

/// Whether so many bytes of the journal must not stay unsynced.
fn is_too_much(unsynced: u64) -> bool {
    unsynced > LIGHT_BYTES_MAX
}

/// A range of the journal on its way into the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `None`: lines of others that have no number yet.
    pub(super) seq: Option<u64>,
    pub(super) lines: u64,
    pub(super) foreign: u64,
    pub(super) sum: u64,
}

impl Session {
    /// Empties the log if it is long enough, or if `force` asks for it. Nothing may be pending.
    pub(super) fn checkpoint(&mut self, force: bool) -> Result<()> {
        debug_assert!(!self.head.has_pending(), "only what is in the journal can be indexed");
        let long = self.head.end - ENTRIES_AT > LOG_BYTES;
        if !(long || force) {
            return Ok(());
        }
        let index = self.matching_index()?;
        if index.is_none() && self.head.index_len > 0 {
            // Somebody removed it, or a repair died before its head: what it said is gone (J8).
            return self.adopt(false, self.head.journal, self.head.file);
        }
        if self.head.entries == 0 {
            return Ok(());
        }
        let newer = self.group_behind(index.as_ref())?;
        let mut spans = self.settled_spans(newer)?;
        self.number_foreign(&mut spans);
        self.commit_spans(spans)
    }

    /// Empties the log without a sync, if nothing in it has to survive a power loss.
    pub(super) fn light_checkpoint(&mut self) -> Result<bool> {
        debug_assert!(!self.head.has_pending(), "only what is in the journal can be indexed");
        let Head { base, index_len, .. } = self.head;
        let durable = self.head.unanchored.unwrap_or(Unanchored { base, index_len });
        let much = is_too_much(self.head.journal_end.saturating_sub(durable.base));
        if much || self.head.promised || self.head.shift != Shift::default() {
            return Ok(false);
        }
        let Some(index) = self.matching_index()? else { return Ok(false) };
        if self.group_behind(Some(&index))?.is_some() {
            return Ok(false);
        }
        let mut spans = self.settled_spans(None)?;
        self.number_foreign(&mut spans);
        let records = self.group_of(spans, self.head.epoch | LIGHT);
        // A crash after this: the records do not count, and the log still has everything.
        index.write(index_len, &records).map_err(|err| self.index_failed(err))?;
        self.head.index_len += records.len() as u64;
        self.head.unanchored = Some(durable);
        self.turn_over(self.head.journal_end)?;
        // Before it an entry of the new epoch must not overwrite one of the old.
        self.store()?;
        Ok(true)
    }

    /// What the log's entries stand for, as far as they are in the journal and not in the index. A
    /// damaged entry ends what the log can tell; lines behind it are counted instead.
    pub(super) fn settled_spans(&self, newer: Option<Group>) -> Result<Vec<Span>> {
        let chain = self.wal.chain(&self.head, ENTRIES_AT, self.head.first_number, Reach::Counted);
        let chain = chain.map_err(|err| self.wal_failed("read", err))?;
        let mut builder = Merging::default();
        let (mut pos, mut seq) = (self.head.base, self.head.base_seq);
        for logged in &chain {
            let covered = newer.is_some_and(|group| logged.entry.number <= group.number);
            if logged.entry.number >= self.head.first_number + self.head.applied {
                break;
            }
            if !covered {
                self.merge(&mut builder, logged, pos)?;
            }
            (pos, seq) = (pos.saturating_add(logged.entry.span()), logged.entry.next_seq());
        }
        let mut spans = builder.finish();
        if (chain.len() as u64) < self.head.applied {
            let known = spans.len();
            self.measure(pos, self.head.journal_end, &mut spans)?;
            let lost = &mut spans[known..];
            let lines: u64 = lost.iter().map(|span| span.lines).sum();
            if !self.head.has_pending() && seq + lines == self.head.next_seq {
                // As many as were numbered (J3), so they have these numbers.
                for span in lost {
                    span.seq = Some(seq);
                    seq += span.lines;
                }
            }
        }
        Ok(spans)
    }

    pub(super) fn span_of(&self, logged: &Logged, start: u64) -> Result<Span> {
        let mut builder = Merging::default();
        self.merge(&mut builder, logged, start)?;
        let empty = Span { start, end: start, seq: None, lines: 0, foreign: 0, sum: 0 };
        Ok(builder.finish().pop().unwrap_or(empty))
    }

    /// An entry whose bytes are not what was logged stays alone, with the checksum it had: what is
    /// damaged does not grow, and is not taken for sound.
    fn merge(&self, builder: &mut Merging, logged: &Logged, start: u64) -> Result<()> {
        let bytes = self.journal.read_range(start, start + logged.entry.span());
        let bytes = bytes.map_err(|err| self.journal_failed("read", err))?;
        let sum = checksum::of(&bytes);
        let logged_sum = if logged.entry.is_foreign() {
            logged.foreign_sum()
        } else {
            checksum::of(&logged.payload)
        };
        if sum == logged_sum {
            builder.add(logged, start, &bytes);
        } else {
            builder.add_alone(logged, start, logged_sum);
        }
        Ok(())
    }

    /// Makes `spans` and everything before them durable, and starts a new epoch behind them. The head
    /// already says where the journal ends.
    pub(super) fn commit_spans(&mut self, spans: Vec<Span>) -> Result<()> {
        self.sync_journal()?;
        let records = self.group_of(spans, self.head.epoch);
        let (index, len) = match self.matching_index()? {
            Some(index) => {
                let newer = self.group_behind(Some(&index))?;
                (index, newer.map_or(self.head.index_len, |group| group.len))
            }
            None if self.head.index_len > 0 => {
                // Somebody removed it meanwhile: one of these spans alone would hide all before them (J8).
                return self.adopt(false, self.head.journal, self.head.file);
            }
            None => (self.create_index()?, 0),
        };
        if self.head.index_len == 0 {
            // That the index exists proves nothing: its maker may have died before this sync.
            if let Err(err) = self.target.fs.sync_dir(self.target.side()) {
                // A later sync may succeed without the name, so the next try makes a new one.
                let _ = self.target.fs.remove(&self.target.sidecar("index"));
                return Err(self.index_failed(err));
            }
        }
        let head = &self.head;
        let durable = head.unanchored.map_or(head.index_len, |durable| durable.index_len);
        let written = index.write_again(durable, len).and_then(|()| index.append(len, &records));
        written.map_err(|err| self.index_failed(err))?;
        self.head.index_len = len + records.len() as u64;
        self.head.unanchored = None;
        self.begin_epoch(self.head.journal_end)
    }

    /// The records of one checkpoint, which covers everything that is in the journal.
    fn group_of(&self, mut spans: Vec<Span>, epoch: u64) -> Vec<Record> {
        let reach = self.head.journal_end;
        spans.sort_by_key(|span| span.seq);
        if spans.is_empty() {
            // A group needs a last record to say how far it reaches.
            let sum = checksum::of(b"");
            let seq = Some(self.head.next_seq);
            spans.push(Span { start: reach, end: reach, seq, lines: 0, foreign: 0, sum });
        }
        let mut records: Vec<Record> = spans.iter().map(|span| span.record(epoch)).collect();
        if let Some(last) = records.last_mut() {
            (last.reach, last.number) = (reach, self.head.next_number() - 1);
        }
        records
    }

    /// Starts a new epoch: everything up to `base` is durable in journal and index.
    pub(super) fn begin_epoch(&mut self, base: u64) -> Result<()> {
        self.turn_over(base)?;
        // Before its sync an entry of the new epoch must not overwrite one of the old.
        self.anchor()?;
        if self.head.room > LOG_BYTES_KEPT && self.wal.file.set_len(LOG_BYTES_KEPT).is_ok() {
            self.head.room = LOG_BYTES_KEPT;
        }
        Ok(())
    }

    /// Makes the head that of a new epoch. It is not written yet.
    fn turn_over(&mut self, base: u64) -> Result<()> {
        let tail_sum = self.tail_sum(base)?;
        let salt = random::number()?;
        let head = &mut self.head;
        head.first_number = head.next_number();
        head.epoch += 1;
        head.salt = salt;
        head.boot = self.target.fs.boot_id();
        (head.base, head.base_seq, head.tail_sum) = (base, head.next_seq, tail_sum);
        (head.entries, head.end) = (0, ENTRIES_AT);
        (head.applied, head.applied_end, head.journal_end) = (0, ENTRIES_AT, base);
        (head.begun, head.partial, head.shift) = (false, 0, Shift::default());
        head.promised = false;
        Ok(())
    }

    /// After a failed sync the pages behind the durable part are written again, so that a later sync
    /// cannot succeed without them.
    pub(super) fn sync_journal(&self) -> Result<()> {
        self.sync_part(Part::Lines)
    }

    /// The same, after lines before that were written over.
    pub(super) fn sync_repaired(&self) -> Result<()> {
        self.sync_part(Part::Repaired)
    }

    fn sync_part(&self, part: Part) -> Result<()> {
        let durable = self.head.unanchored.map_or(self.head.base, |durable| durable.base);
        let write_again = |all: bool| self.write_again(if all { 0 } else { durable });
        let synced =
            group::sync_in_section(&self.target, part, || self.journal.sync(), write_again);
        let synced = synced.map_err(|error| error.committed(false))?;
        synced.map_err(|err| self.journal_failed("sync", err))
    }

    fn write_again(&self, mut at: u64) -> io::Result<()> {
        let file = match self.target.fs.open(self.target.path(), Access::ReadWrite) {
            // It may only be appended to (`chattr +a`), and nobody can write it again. Then a failed sync is told to
            // whoever asked for it, and not made up for (PLATFORM.md).
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            opened => opened?,
        };
        if file.id()? != self.journal.id()? {
            return Err(io::Error::other("somebody replaced it meanwhile")); // That one is not ours (J8).
        }
        while at < self.size {
            let bytes = self.journal.read_range(at, self.size.min(at + LOG_BYTES))?;
            if bytes.is_empty() {
                break;
            }
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// The first index of a generation.
    fn create_index(&self) -> Result<Index> {
        let title = Title {
            generation: self.head.generation,
            journal: self.head.journal,
            first_seq: self.head.base_seq,
            header: Header::default(),
            archive: self.head.archive,
        };
        let path = self.target.sidecar("index");
        let (temp, file) = self.new_index_file(title)?;
        // A crash before the rename leaves a temporary file, after it an index without records.
        file.file.sync().map_err(|err| self.index_failed(err))?;
        self.target.fs.rename(&temp, &path).map_err(|err| self.index_failed(err))?;
        Ok(file)
    }

    pub(super) fn new_index_file(&self, title: Title) -> Result<(std::path::PathBuf, Index)> {
        let temp = publish::fresh_temp(&self.target, publish::INDEX_ALONE_TEMP)?;
        let file: Arc<dyn Handle> = self.target.open_sidecar(&temp)?;
        let index = Index::begin(file, title).map_err(|err| self.index_failed(err))?;
        Ok((temp, index))
    }
}

impl Span {
    pub(super) fn of(segment: &Segment) -> Self {
        let Segment { start, end, seq, lines, foreign, sum } = *segment;
        Self { start, end, seq: Some(seq), lines: lines.into(), foreign: foreign.into(), sum }
    }

    pub(super) fn record(&self, epoch: u64) -> Record {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let segment = Segment {
            start: self.start,
            end: self.end,
            seq: self.seq.unwrap_or(0),
            lines: narrow(self.lines),
            foreign: narrow(self.foreign),
            sum: self.sum,
        };
        Record { segment, epoch, reach: 0, number: 0 }
    }
}

/// Joins entries that follow each other, in the file and in their numbers, into one span.
#[derive(Default)]
struct Merging {
    done: Vec<Span>,
    current: Option<Span>,
    /// The current one ends within a line, of which the rest must not begin another one.
    open: bool,
    sum: checksum::Running,
}

impl Merging {
    fn add_alone(&mut self, logged: &Logged, start: u64, sum: u64) {
        let entry = &logged.entry;
        let lines = u64::from(entry.lines);
        let (end, foreign) = (start + entry.span(), if entry.is_foreign() { lines } else { 0 });
        self.done.push(Span { start, end, seq: Some(entry.seq), lines, foreign, sum });
    }

    fn add(&mut self, logged: &Logged, start: u64, bytes: &[u8]) {
        let entry = &logged.entry;
        let lines = u64::from(entry.lines);
        let foreign = if entry.is_foreign() { lines } else { 0 };
        let follows = self.current.filter(|span| {
            span.end == start
                && span.seq.map(|seq| seq + span.lines) == Some(entry.seq)
                && (self.open || span.end - span.start < SEGMENT_BYTES)
        });
        let mut span = follows.unwrap_or_else(|| {
            self.done.extend(self.current.take());
            self.sum = checksum::Running::default();
            Span { start, end: start, seq: Some(entry.seq), lines: 0, foreign: 0, sum: 0 }
        });
        self.sum.update(bytes);
        self.open = bytes.last().is_some_and(|byte| *byte != b'\n');
        span.end += entry.span();
        span.lines += lines;
        span.foreign += foreign;
        span.sum = self.sum.finish();
        self.current = Some(span);
    }

    fn finish(mut self) -> Vec<Span> {
        self.done.extend(self.current.take());
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::is_too_much;

    #[test]
    fn as_much_may_stay_unsynced_as_the_format_says() {
        let limit = 64 * 1024 * 1024;
        assert!(!is_too_much(0) && !is_too_much(limit) && is_too_much(limit + 1));
    }
}
