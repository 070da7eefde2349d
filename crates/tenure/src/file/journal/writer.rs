//! The journal as seen by its one writer: the commit lock, the open files, and the position of the
//! log.
//!
//! # Invariants
//!
//! 1. Everything here is under the commit lock. [`super::recover::enter`] makes a writer, and leaves a
//!    journal whose state is right.
//! 2. The kernel serialises appends. Right after ours, the descriptor's position says where it
//!    ended: everything before it is final, and what other tools wrote between the known end and
//!    ours is adopted after the batch.
//! 3. A line of another tool is an entry once it is complete and a record of the log, or of the index, has
//!    its number. Nothing changes that number or those bytes.
//! 4. No entry is visible before all entries with smaller numbers are: readers stop at the first pending
//!    batch.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{Commit, NAME_CHECK_TTL, take_commit};
use crate::file::gate::Turn;
use crate::file::hold::check_named;
use crate::file::target::Target;
use crate::fs::{Access, FileId, Handle, Mode, Stat};
use crate::results::Appended;
use crate::wait::Request;

use super::archive::previous_paths;
use super::files::OpenFiles;
use super::format::{Batch, Kind, Position, Previous, Range, Record, STATE, State};
use super::lines;
use super::log::{Chain, Log, path_of};

/// What keeps other writers out.
#[derive(Debug)]
pub(super) enum Section {
    /// A write: fence and guards were checked.
    Write(Box<Commit>),
    /// Finishing what earlier writes have logged, or adopting lines, needs no proof.
    Finish { target: Target, turn: Turn, since: Instant },
}

impl Section {
    /// Takes the commit lock of `target` alone.
    pub(super) fn finish(target: &Target, request: Request<'_>) -> Result<Self> {
        let since = Instant::now();
        let turn = take_commit(target, Mode::Exclusive, request)?;
        Ok(Self::Finish { target: target.clone(), turn, since })
    }

    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Write(commit) => &commit.target,
            Self::Finish { target, .. } => target,
        }
    }

    /// The commit lock, if it is known which file that is.
    pub(super) fn lock(&self) -> Option<FileId> {
        match self {
            Self::Write(commit) => commit.seen.bound.then_some(commit.seen.record.file),
            Self::Finish { turn, .. } => Some(turn.id()),
        }
    }

    /// Before a new journal gets its name ([`Commit::claim_locks`]).
    pub(super) fn claim_locks(&self, new: &Stat) -> Result<()> {
        match self {
            Self::Write(commit) => commit.claim_locks(new),
            Self::Finish { .. } => Ok(()), // There was a journal when its batches were logged.
        }
    }

    /// The last check before a change becomes visible: the locks still have their names.
    pub(super) fn verify(&self) -> Result<()> {
        match self {
            Self::Write(commit) => commit.verify(),
            Self::Finish { target, turn, .. } => check_named(target, target.commit_file(), turn),
        }
    }

    /// The same, unless the names were compared a moment ago.
    pub(super) fn verify_unless_recent(&self) -> Result<()> {
        match self {
            Self::Write(commit) => commit.verify_unless_recent(),
            Self::Finish { since, .. } if since.elapsed() < NAME_CHECK_TTL => Ok(()),
            Self::Finish { .. } => self.verify(),
        }
    }
}

/// What happened in the call, for the caller to report.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct News {
    /// Lines of other tools that were adopted.
    pub(super) adopted: u64,
    /// An unterminated line of another tool was closed with a newline.
    pub(super) closed_tail: bool,
    /// Batches that a crash had left out of the journal.
    pub(super) rolled_forward: u64,
}

impl News {
    /// The outcome of an append of this many lines from number `first` on.
    pub(super) fn appended(&self, first: u64, lines: u64) -> Appended {
        let Self { adopted, closed_tail, rolled_forward } = *self;
        let last = (first + lines).saturating_sub(1);
        Appended { first, last, adopted, closed_tail, rolled_forward, replayed: false }
    }
}

/// The journal as seen by its one writer.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) section: Section,
    pub(super) target: Target,
    pub(super) files: Arc<OpenFiles>,
    pub(super) log: Log,
    /// The state that was stored last in this boot, and its turn.
    pub(super) stored: Option<State>,
    pub(super) turn: u64,
    pub(super) state: State,
    pub(super) journal: Arc<dyn Handle>,
    /// The journal's length as it was seen last.
    pub(super) size: u64,
    pub(super) news: News,
}

/// A batch of the log that is in the journal.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) batch: Batch,
    pub(super) start: u64,
}

impl Placed {
    pub(super) fn end(&self) -> u64 {
        self.start + self.batch.text.len() as u64
    }
}

impl Writer {
    /// Stores the position of the log. A crash before it leaves the old state.
    pub(super) fn store(&mut self) -> Result<()> {
        self.store_as(self.state)
    }

    fn store_as(&mut self, state: State) -> Result<()> {
        self.turn += 1;
        let stored = STATE.store(self.log.file.as_ref(), self.turn, &state);
        stored.map_err(|err| self.log_failed("write", err))?;
        self.stored = Some(state);
        Ok(())
    }

    /// Notes that a sync of the journal begins, and nothing else: the log still describes the
    /// journal.
    pub(super) fn note_sync(&mut self) -> Result<()> {
        let Some(mut stored) = self.stored else { return Ok(()) };
        stored.flags.journal_doubt = true;
        self.store_as(stored)
    }

    pub(super) fn has_pending(&self) -> bool {
        self.state.placed < self.state.number
    }

    /// Writes a record after the others; it counts with the next [`Self::store`].
    pub(super) fn log_record(&mut self, record: &Record) -> Result<()> {
        let written = self.log.write(&mut self.state, record);
        written.map_err(|err| self.log_failed("write", err))
    }

    /// The records of the log from `from` on: up to `end`, or as far as they are valid.
    pub(super) fn chain(&self, from: u64, end: Option<u64>) -> Result<Chain> {
        self.log.chain(from, end).map_err(|err| self.log_failed("read", err))
    }

    /// Reads `[start, end)` of the journal, or less if it is shorter.
    pub(super) fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        self.journal.read_range(start, end).map_err(|err| self.journal_failed("read", err))
    }

    /// Looks how long the journal is now.
    pub(super) fn update_size(&mut self) -> Result<()> {
        let found = self.journal.extent().map_err(|err| self.journal_failed("look at", err))?;
        self.size = found.size;
        Ok(())
    }

    pub(super) fn journal_id(&self) -> Result<FileId> {
        self.journal.id().map_err(|err| self.journal_failed("look at", err))
    }

    /// The end of the last complete line of the journal; `start` if there is none after it.
    pub(super) fn last_line_end(&self, start: u64) -> Result<u64> {
        let end = lines::last_line_end(self.journal.as_ref(), start, self.size);
        end.map_err(|err| self.journal_failed("read", err))
    }

    /// Makes sure that the numbers of `ranges` are reserved. Nothing else has changed yet: a crash
    /// in the checkpoint leaves the ranges without numbers.
    pub(super) fn reserve(&mut self, ranges: &[Range]) -> Result<()> {
        let until = ranges.last().map_or(0, Range::next_seq);
        if ranges.is_empty() {
            return Ok(());
        }
        if until > self.log.header.reserved || self.has_leftover()? {
            return self.checkpoint(until.saturating_sub(self.state.seq).max(1), None);
        }
        self.sync_names()
    }

    /// Logs ranges whose numbers are reserved; they count with the next [`Self::store`].
    pub(super) fn log_ranges(&mut self, ranges: &[Range]) -> Result<()> {
        for range in ranges {
            self.state.seq = self.state.seq.max(range.next_seq());
            self.news.adopted += range.foreign;
            self.log_record(&Record::Range(*range))?;
        }
        Ok(())
    }

    /// Lines of other tools in `[start, end)` of the journal, which is final.
    pub(super) fn measure(&self, start: u64, end: u64, seq: u64) -> Result<Vec<Range>> {
        let ranges = lines::measure(self.journal.as_ref(), start, end.max(start), seq);
        ranges.map_err(|err| self.journal_failed("read", err))
    }

    /// Adopts the complete lines that other tools have appended to the journal. Nothing may be pending.
    pub(super) fn adopt_tail(&mut self) -> Result<()> {
        if self.size <= self.state.journal_end || self.has_pending() {
            return Ok(());
        }
        let start = self.state.journal_end;
        let end = self.last_line_end(start)?;
        if end > start {
            let ranges = self.measure(start, end, self.state.seq)?;
            self.reserve(&ranges)?;
            self.log_ranges(&ranges)?;
            self.state.journal_end = end;
            self.store()?;
        }
        Ok(())
    }

    /// Adopts, where they are, the complete lines that were appended to the file that the journal
    /// replaced. Nothing may be pending.
    pub(super) fn adopt_late(&mut self) -> Result<()> {
        let Previous { ino, .. } = self.log.header.previous;
        if ino == 0 || self.has_pending() {
            return Ok(());
        }
        let paths = previous_paths(&self.target, self.log.header.previous);
        let file = self.files.previous(&self.target, ino, &paths);
        let Some(file) = file.map_err(|error| error.committed(false))? else { return Ok(()) };
        let failed = |err| Error::io("read", &paths[0], err).committed(false);
        let size = file.extent().map_err(failed)?.size;
        let start = self.state.late_end;
        if size <= start {
            return Ok(());
        }
        let end = lines::last_line_end(file.as_ref(), start, size).map_err(failed)?;
        if end > start {
            let mut ranges =
                lines::measure(file.as_ref(), start, end, self.state.seq).map_err(failed)?;
            for range in &mut ranges {
                range.kind = Kind::Late;
            }
            self.reserve(&ranges)?;
            self.log_ranges(&ranges)?;
            self.state.late_end = end;
            self.store()?;
        }
        Ok(())
    }

    /// Whether the journal ends with another tool's line without a newline, after the known end.
    pub(super) fn tail_is_open(&self) -> Result<bool> {
        if self.size <= self.state.journal_end {
            return Ok(false);
        }
        let last = self.read(self.size - 1, self.size)?;
        Ok(last.first().is_some_and(|byte| *byte != b'\n'))
    }

    /// Appends `text` to the journal, after a newline if the last line is open. Returns where it
    /// begins.
    ///
    /// A crash before the write leaves the journal unchanged; during or after it, the text is in
    /// the log and the next writer finds out how much of it is there. If the write fails, a part
    /// that was written becomes a blank line.
    pub(super) fn push(&mut self, text: &[u8]) -> Result<u64> {
        self.section.verify_unless_recent()?;
        let open = self.tail_is_open()?;
        self.news.closed_tail |= open;
        let with_newline;
        let bytes = if open {
            with_newline = [b"\n", text].concat();
            &with_newline
        } else {
            text
        };
        let (mut start, mut done) = (0, 0);
        while done < bytes.len() {
            let (written, end) = match self.journal.append(&bytes[done..]) {
                Ok((0, _)) => {
                    return Err(self.give_up(start, done, io::ErrorKind::WriteZero.into()));
                }
                Ok(appended) => appended,
                Err(err) => return Err(self.give_up(start, done, err)),
            };
            let begins = end - written as u64;
            if done == 0 {
                start = begins;
            } else if begins != start + done as u64 {
                // Another tool wrote between two parts. The whole text is written again.
                self.blank(start, start + done as u64)?;
                self.blank(begins, end)?;
                (start, done) = (0, 0);
                continue;
            }
            done += written;
            self.size = end;
        }
        Ok(start + (bytes.len() - text.len()) as u64)
    }

    /// Removes the part of a text that was written. If that fails too, the next writer completes
    /// it.
    fn give_up(&mut self, start: u64, done: usize, err: io::Error) -> Error {
        let error = self.journal_failed("append to", err);
        if done == 0 {
            return error;
        }
        match self.blank(start, start + done as u64) {
            Ok(()) => error,
            Err(_) => error.committed(true),
        }
    }

    /// Turns `[start, end)`, a part of a batch of ours, into a blank line. A crash in it leaves a
    /// shorter part. In an append-only file the part stays, as lines of another tool.
    pub(super) fn blank(&self, start: u64, end: u64) -> Result<()> {
        /// Page by page from the end.
        const PAGE_BYTES: u64 = 4096;
        let Some(file) = self.open_in_place()? else { return Ok(()) };
        let mut until = end;
        while until > start {
            let from = ((until - 1) / PAGE_BYTES * PAGE_BYTES).max(start);
            let mut blank = vec![b' '; usize::try_from(until - from).unwrap_or(0)];
            if let Some(last) = blank.last_mut().filter(|_| until == end) {
                *last = b'\n';
            }
            let written = file.write_all_at(&blank, from);
            written.map_err(|err| self.journal_failed("blank a part of", err))?;
            until = from;
        }
        // Before a log says that the batch is elsewhere: a power loss must not bring the part back.
        file.sync().map_err(|err| self.journal_failed("sync", err))
    }

    /// The journal, opened to overwrite bytes of ours; `None` if it is append-only (`chattr +a`).
    pub(super) fn open_in_place(&self) -> Result<Option<Arc<dyn Handle>>> {
        let file = match self.target.fs.open(self.target.path(), Access::ReadWrite) {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            opened => opened.map_err(|err| self.journal_failed("open", err))?,
        };
        let found = file.id().map_err(|err| self.journal_failed("look at", err))?;
        if found != self.journal_id()? {
            let detail = "another tool replaced it meanwhile";
            return Err(Error::new(ErrorKind::Busy, "write", detail).at(self.target.path()));
        }
        Ok(Some(file))
    }

    /// Makes the names of log and journal durable, once. Existing names need not be durable: the
    /// process that made them may have died before it synced them.
    pub(super) fn sync_names(&mut self) -> Result<()> {
        if self.state.flags.named {
            return Ok(());
        }
        if self.state.flags.log_doubt {
            // An earlier sync failed, and another one would prove nothing: a new log takes the name.
            return self.checkpoint(0, None);
        }
        if let Err(err) = self.target.sync_sidecars() {
            self.state.flags.log_doubt = true;
            self.store()?;
            return Err(Error::io("sync directory", self.target.side(), err).committed(false));
        }
        self.state.flags.named = true;
        Ok(())
    }

    /// Writes all pending batches to the journal, after a new log has made them durable.
    pub(super) fn place_all(&mut self) -> Result<()> {
        self.checkpoint(0, None)?;
        self.apply(u64::MAX - 1)
    }

    /// Writes pending batches up to number `last` to the journal. They are durable in the log.
    pub(super) fn apply(&mut self, last: u64) -> Result<()> {
        if !self.has_pending() || self.state.placed > last {
            return Ok(());
        }
        // It may begin a new log. A damaged one is adopted then, and nothing is pending any more.
        self.sync_names()?;
        if !self.has_pending() {
            return Ok(());
        }
        let chain = self.chain(self.state.pending_at, Some(self.state.end))?;
        if chain.end != self.state.end {
            self.adopt_file("its log is damaged", true)?;
            return Err(lost(&self.target));
        }
        let wanted = |batch: &&Batch| (self.state.placed..=last).contains(&batch.number);
        let batches: Vec<&Batch> = chain.batches.iter().filter(wanted).collect();
        let text: Vec<u8> = batches.iter().flat_map(|batch| chain.text(batch)).copied().collect();
        let Some(newest) = batches.last() else {
            return Err(lost(&self.target));
        };
        self.state.applying = newest.number;
        self.store()?;
        let start = self.push(&text).inspect_err(|error| {
            if error.is_committed() != Some(true) {
                // Nothing of it is in the journal.
                self.state.applying = 0;
                let _ = self.store();
            }
        })?;
        let next = chain.batches.iter().find(|batch| batch.number > newest.number);
        let next = next.map(|batch| batch.at);
        let mut at = start;
        let placed = batches.iter().map(|batch| {
            at += batch.text.len() as u64;
            Placed { batch: (*batch).clone(), start: at - batch.text.len() as u64 }
        });
        self.count_placed(&placed.collect::<Vec<_>>(), next)
    }

    /// Counts pending batches that are in the journal now, and adopts what other tools have written
    /// between the known end and the last of them: that is final. `next` is the place of the record of
    /// the first batch that is still pending.
    pub(super) fn count_placed(&mut self, placed: &[Placed], next: Option<u64>) -> Result<()> {
        let visible = |error: Error| error.committed(true);
        let known = placed.iter().map(|placed| (placed.start, placed.end())).collect();
        let (holes, end) = between(self.state.journal_end, known);
        let (mut ranges, mut seq) = (Vec::new(), self.state.seq);
        for (start, end) in holes {
            ranges.extend(self.measure(start, end, seq).map_err(visible)?);
            seq = ranges.last().map_or(seq, Range::next_seq);
        }
        let salt = self.log.header.salt;
        self.reserve(&ranges).map_err(visible)?;
        for Placed { batch, start } in
            placed.iter().filter(|placed| placed.start != placed.batch.start)
        {
            let position = Position { number: batch.number, start: *start };
            self.log_record(&Record::Placed(position)).map_err(visible)?;
        }
        self.log_ranges(&ranges).map_err(visible)?;
        let bytes: u64 = placed.iter().map(|placed| placed.batch.text.len() as u64).sum();
        let state = &mut self.state;
        state.placed = placed.last().map_or(state.number, |placed| placed.batch.number + 1);
        state.journal_end = end;
        state.applying = 0;
        state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
        match next {
            None => state.pending_at = state.end,
            Some(at) if salt == self.log.header.salt => state.pending_at = at,
            Some(_) => {} // A log begun meanwhile has it elsewhere.
        }
        self.store().map_err(visible)
    }

    pub(super) fn log_failed(&self, action: &'static str, err: io::Error) -> Error {
        let path = path_of(&self.target);
        let error = match err.kind() {
            // A number of the log that cannot be counted on: tenure did not write it.
            io::ErrorKind::InvalidData => {
                Error::new(ErrorKind::Damaged, action, err.to_string()).at(&path)
            }
            _ => Error::io(action, &path, err),
        };
        error.committed(false)
    }

    pub(super) fn journal_failed(&self, action: &'static str, err: io::Error) -> Error {
        Error::io(action, self.target.path(), err).committed(false)
    }
}

/// The ranges from `from` on that are not in `known`, up to where the last of those ends.
pub(super) fn between(from: u64, mut known: Vec<(u64, u64)>) -> (Vec<(u64, u64)>, u64) {
    known.sort_unstable();
    let (mut holes, mut at) = (Vec::new(), from);
    for (start, end) in known {
        if at < start {
            holes.push((at, start));
        }
        at = at.max(end);
    }
    (holes, at)
}

/// Logged batches can no longer be read: a failed sync, or another program, took them.
pub(super) fn lost(target: &Target) -> Error {
    let detail = "a part of the log is lost, with batches that were not in the journal yet";
    let error = Error::new(ErrorKind::Damaged, "apply", detail).at(&path_of(target));
    error.hint("read the journal, and append the batch again if it is not there")
}
