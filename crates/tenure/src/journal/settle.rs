//! Bringing the journal in agreement with its log: rolling forward, never back.
//!
//! # Invariants
//!
//! 1. (J7) Every batch that the log holds is in the journal when this is done, whole, once, and with
//!    the sequence number it was logged with.
//! 2. Dying anywhere in here leaves a state that the same code settles: every write is planned from
//!    what is in the file now.

use serde_json::json;

use crate::error::{Error, ErrorKind, Result};
use crate::events;
use crate::fs::Access;

use super::checkpoint::Span;
use super::entry::{Kind, Logged};
use super::head::{Operation, Shift};
use super::index::Group;
use super::lines;
use super::plan::{self, Circumstances, Plan, Step};
use super::session::Session;

/// How often others may get in between before the call gives up.
pub(super) const ATTEMPTS: usize = 64;
/// The quarantine of torn beginnings is bounded: one that would outgrow this starts anew.
const TORN_BYTES_MAX: u64 = 1024 * 1024;
/// Blanking goes page by page from the end, so that a kill in between leaves a shorter torn beginning.
const BLANK_BYTES: u64 = 4096;

impl Session {
    /// Settles `pending`, which starts behind the settled part of the journal.
    pub(super) fn settle(
        &mut self,
        mut pending: Vec<Logged>,
        newer: Option<Group>,
        power_loss: bool,
    ) -> Result<()> {
        let counted = self.head.entries - self.head.applied;
        self.count(&pending);
        let mut pos = self.head.journal_end;
        if let Some(group) = newer {
            // A checkpoint died between the index and its new head: what it covered is done.
            pending.retain(|logged| logged.entry.number > group.number);
            pos = pos.max(group.reach);
            self.head.next_seq = self.head.next_seq.max(group.next_seq);
        }
        let mut synced = false;
        let (begun, partial) = (self.head.begun, self.head.partial);
        let mut known = Circumstances { power_loss, begun, partial, shift: self.head.shift };
        for _ in 0..ATTEMPTS {
            self.was_alone(b"")?;
            if self.cut || self.size < self.head.journal_end {
                // Somebody has cut it since we looked: what is settled is gone, and offsets mean nothing.
                return self.adopt(!power_loss, self.head.journal, self.head.file);
            }
            let plan = plan::plan(self.journal.as_ref(), self.size, pos, &pending, known)
                .map_err(|err| self.journal_failed("read", err))?;
            if plan.needs_work() {
                if !power_loss && counted > 0 && !synced {
                    // Not a byte of a durable batch may reach the journal before the batch is durable.
                    self.sync_wal()?;
                    self.sync_names()?;
                    synced = true;
                }
                self.begin_applying()?;
                known.begun = true;
                self.work(&plan, &pending)?;
                known.shift = self.head.shift;
            } else if plan.in_order && newer.is_none() {
                return self.finish_in_order(pos, &pending, power_loss);
            } else {
                return self.finish_out_of_order(&plan, pos, &pending, newer);
            }
        }
        Err(self.overtaken())
    }

    pub(super) fn overtaken(&self) -> Error {
        let detail = "others append to it faster than it can be settled";
        Error::new(ErrorKind::Busy, "settle", detail).at(self.target.path())
    }

    /// Counts entries into the head that a crash kept out of it.
    pub(super) fn count(&mut self, pending: &[Logged]) {
        let head = &mut self.head;
        if let Some(first) = pending.first().filter(|_| !head.has_pending()) {
            head.pending_seq = first.entry.seq;
        }
        let mut end = head.applied_end;
        for logged in pending {
            let entry = &logged.entry;
            end += entry.log_len();
            head.next_seq = head.next_seq.max(entry.next_seq());
            head.promised |= entry.is_promised();
            head.remember(Operation {
                id: entry.operation,
                first: entry.seq,
                lines: entry.lines.into(),
            });
            if let (Kind::Late(until), Some(displaced)) = (entry.kind, &mut head.displaced) {
                displaced.end = displaced.end.max(until);
            }
        }
        head.entries = head.entries.max(head.applied + pending.len() as u64);
        head.end = head.end.max(end);
        head.room = head.room.max(head.end);
    }

    /// From here on, bytes behind the settled part may be ours. A crash before this leaves a journal
    /// without them; after it, the plan looks for them.
    pub(super) fn begin_applying(&mut self) -> Result<()> {
        if !self.head.begun {
            self.head.begun = true;
            self.store()?;
        }
        Ok(())
    }

    fn work(&mut self, plan: &Plan, pending: &[Logged]) -> Result<()> {
        self.section.verify()?;
        let mut bytes = Vec::new();
        for step in &plan.steps {
            match *step {
                Step::Torn { start, end } => self.blank(start, end)?,
                Step::Missing { index, start, done, mend } => {
                    let payload = &pending[index].payload;
                    let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                    if mend > 0 {
                        self.rewrite(&payload[..cut(mend)], start)?;
                    }
                    bytes.extend_from_slice(&payload[cut(done)..]);
                    self.news.rolled_forward += 1;
                }
                Step::Kept { .. } | Step::Foreign { .. } => {}
            }
        }
        let missing = plan.steps.iter().find_map(|step| match *step {
            Step::Missing { index, start, done, .. } => {
                (done < pending[index].entry.span()).then_some((index, start, done))
            }
            _ => None,
        });
        let Some((index, mut start, done)) = missing else { return Ok(()) };
        let mut moved = !plan.in_order;
        if done == 0 {
            // One that was logged behind an open line closes that itself, where the log says.
            if !pending[index].payload.starts_with(b"\n") {
                let before = self.size;
                self.close_line()?;
                moved |= self.size > before;
            }
            start = self.size;
        }
        if moved {
            self.shift(pending[index].entry.number, start)?;
        }
        self.push(&bytes)?;
        Ok(())
    }

    /// Closes an unterminated line of somebody else, so that a batch can follow it.
    pub(super) fn close_line(&mut self) -> Result<()> {
        let open = lines::is_open_at(self.journal.as_ref(), self.size);
        if open.map_err(|err| self.journal_failed("read", err))? {
            self.push(b"\n")?;
            self.news.closed_tail = true;
        }
        Ok(())
    }

    /// Writes down where a batch goes that bytes of others have overtaken, before its first byte is
    /// there: a power loss may leave any part of it, and the log alone says where that would be. What
    /// stands before it is synced, so that the offset means something.
    fn shift(&mut self, number: u64, at: u64) -> Result<()> {
        self.sync_journal()?;
        self.head.shift = Shift { number, at };
        self.anchor()
    }

    /// Everything is where the log says: the head follows.
    fn finish_in_order(&mut self, pos: u64, pending: &[Logged], power_loss: bool) -> Result<()> {
        let head = &mut self.head;
        let span = |logged: &Logged| logged.entry.span();
        head.journal_end = pos + pending.iter().map(span).sum::<u64>();
        // Looked up and not remembered: a restart leaves only what is in the journal.
        let open = lines::is_open_at(self.journal.as_ref(), head.journal_end);
        self.head.open_tail = open.map_err(|err| self.journal_failed("read", err))?;
        let head = &mut self.head;
        (head.applied, head.applied_end) = (head.entries, head.end);
        (head.begun, head.partial) = (false, 0);
        if power_loss {
            // An entry behind the chain may have survived the one before it, and numbers may have been
            // given out that are gone. What is logged from now on must not join them (J3).
            return if self.head.entries > 0 {
                self.checkpoint(true)
            } else {
                self.begin_epoch(pos)
            };
        }
        self.store()
    }

    /// Bytes of others are in between: a checkpoint writes down what is where.
    fn finish_out_of_order(
        &mut self,
        plan: &Plan,
        pos: u64,
        pending: &[Logged],
        newer: Option<Group>,
    ) -> Result<()> {
        let mut spans = self.settled_spans(newer)?;
        let tail = plan.tail.map(|(start, end)| Step::Foreign { start, end });
        let mut reach = pos;
        for step in plan.steps.iter().chain(&tail) {
            match *step {
                Step::Kept { index, start } => {
                    let logged = &pending[index];
                    reach = start + logged.entry.span();
                    spans.push(self.span_of(logged, start)?);
                }
                Step::Foreign { start, end } => {
                    reach = end;
                    self.measure(start, end, &mut spans)?;
                }
                Step::Missing { .. } | Step::Torn { .. } => {}
            }
        }
        let found = self.number_foreign(&mut spans);
        self.news.adopted += found;
        if found > 0 {
            let detail = json!({ "foreign_lines": found, "journal_bytes": reach });
            let _ = events::record(&self.target, "foreign_lines_adopted", &detail);
        }
        // All of them are there, whatever becomes of the index.
        (self.head.applied, self.head.applied_end) = (self.head.entries, self.head.end);
        self.head.journal_end = reach;
        let open = lines::is_open_at(self.journal.as_ref(), reach);
        self.head.open_tail = open.map_err(|err| self.journal_failed("read", err))?;
        self.commit_spans(spans)
    }

    /// Cuts bytes of others into spans. Their numbers are given later.
    pub(super) fn measure(&self, start: u64, end: u64, spans: &mut Vec<Span>) -> Result<()> {
        let target = super::checkpoint::SEGMENT_BYTES;
        lines::measure(self.journal.as_ref(), start, end, target, |found| {
            let lines::Measured { start, end, entries, sum } = found;
            spans.push(Span { start, end, seq: None, lines: entries, foreign: entries, sum });
            Ok(())
        })
        .map_err(|err| self.journal_failed("read", err))
    }

    /// Gives the lines of others the next numbers, in the order of the file. Returns how many.
    pub(super) fn number_foreign(&mut self, spans: &mut [Span]) -> u64 {
        let first = self.head.next_seq;
        for span in spans.iter_mut().filter(|span| span.seq.is_none()) {
            span.seq = Some(self.head.next_seq);
            self.head.next_seq += span.lines;
        }
        self.head.next_seq - first
    }

    pub(super) fn journal_size(&self) -> Result<u64> {
        let found = self.journal.extent();
        Ok(found.map_err(|err| self.journal_failed("look at", err))?.size)
    }

    /// Appends to the journal. `false` if somebody else got in between, so that it is not known where
    /// the bytes are.
    ///
    /// A crash before or in the middle leaves none or a beginning of the bytes, all of which are in
    /// the log; the next critical section writes the rest.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        self.push_all(bytes)?;
        self.was_alone(bytes)
    }

    /// The same without a look who else was there.
    pub(super) fn push_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let written = match self.journal.append(&bytes[done..]) {
                Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
                written => written,
            };
            match written {
                Ok(written) => done += written,
                Err(err) => {
                    self.note_torn(done as u64);
                    let mut error = self.journal_failed("append to", err);
                    if done > 0 {
                        error = error.hint("a part is written; the rest follows as soon as it can");
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Keeps what is known about a beginning of the next entry, if nothing else stands where it goes.
    /// An earlier attempt may have left some of it. If this fails too, the plan finds out.
    fn note_torn(&mut self, done: u64) {
        let ours = self.size == self.head.journal_end + self.head.partial;
        if ours && self.journal_size().is_ok_and(|size| size == self.size + done) {
            self.head.partial += done;
            self.head.begun = self.head.partial > 0;
            let _ = self.store();
        }
    }

    /// Whether nobody else has appended since these bytes were pushed.
    pub(super) fn was_alone(&mut self, bytes: &[u8]) -> Result<bool> {
        let size = self.journal_size()?;
        let alone = size == self.size + bytes.len() as u64;
        self.cut |= size < self.size + bytes.len() as u64;
        self.size = size;
        Ok(alone)
    }

    /// Writes bytes of a logged batch again where a power loss left NULs, or a repair found damage.
    pub(super) fn rewrite(&self, bytes: &[u8], start: u64) -> Result<()> {
        let file = self.open_for_mending()?;
        file.write_all_at(bytes, start).map_err(|err| self.journal_failed("mend", err))
    }

    fn open_for_mending(&self) -> Result<std::sync::Arc<dyn crate::fs::Handle>> {
        let file = self.target.fs.open(self.target.path(), Access::ReadWrite);
        let file = file.map_err(|err| self.journal_failed("open", err))?;
        let id = file.stat().map_err(|err| self.journal_failed("look at", err))?.id;
        let ours = self.journal.stat().map_err(|err| self.journal_failed("look at", err))?.id;
        if id != ours {
            let detail = "it was replaced while it was being mended";
            return Err(Error::new(ErrorKind::Busy, "mend", detail).at(self.target.path()));
        }
        Ok(file)
    }

    /// Sets a torn beginning of a batch aside and blanks it, so that the foreign line behind it stands
    /// alone. The copy comes first: a crash in between leaves both.
    fn blank(&self, start: u64, end: u64) -> Result<()> {
        let bytes = self.journal.read_range(start, end);
        let bytes = bytes.map_err(|err| self.journal_failed("read", err))?;
        let path = self.target.sidecar("torn");
        let failed = crate::target::Target::failed;
        let torn = self.target.open_sidecar(&path)?;
        let mut at = torn.stat().map_err(failed("look at", &path))?.size;
        if at + bytes.len() as u64 > TORN_BYTES_MAX {
            torn.set_len(0).map_err(failed("cut", &path))?;
            at = 0;
        }
        torn.write_all_at(&bytes, at).map_err(failed("write", &path))?;
        let detail = json!({ "start": start, "end": end });
        let _ = events::record(&self.target, "torn_batch_set_aside", &detail);
        let file = self.open_for_mending()?;
        let mut until = end;
        while until > start {
            let from = ((until - 1) / BLANK_BYTES * BLANK_BYTES).max(start);
            let mut blank = vec![b' '; usize::try_from(until - from).unwrap_or(0)];
            if until == end {
                blank.pop();
                blank.push(b'\n');
            }
            file.write_all_at(&blank, from).map_err(|err| self.journal_failed("blank", err))?;
            until = from;
        }
        Ok(())
    }
}
