//! Entering the critical section of a journal, and recovering from whatever the last writer left.
//!
//! | found | done | a crash in it leaves |
//! | --- | --- | --- |
//! | no log, empty journal | an empty log begins | the same |
//! | no log, or one that cannot be read, and lines | adopt all of them | the same |
//! | the log is a copy, and fits the journal beside it | as after a restart: entries keep their numbers | the same |
//! | the log or the journal is another file, or the journal is shorter than it was | adopt all of it; numbers go on | the same |
//! | a replacement begun, no intent, or old journal in place | abandon it | the same, or no intent |
//! | an intent to replace, new journal in place | finish it | the same, or done |
//! | state of this boot, journal as long as it says | nothing | |
//! | state of this boot, journal longer | adopt complete lines | the lines, pending |
//! | the same, and batches were being written | checkpoint, then place each of them | the same, fewer of them |
//! | no state of this boot | check everything behind `base`; checkpoint; place what is missing | the same |
//!
//! Placing a batch: it is found whole at its position or after it; or a torn part of it is
//! completed, or blanked if another tool has written after it; or it is appended.
//!
//! # Invariants
//!
//! 1. When recovery is done, every batch in the log is in the journal: whole, once, with its
//!    numbers.
//! 2. No byte of a durable batch reaches the journal before a log that holds it is durable.
//! 3. Only bytes of a batch in the log are ever overwritten, and NULs that a power loss left in its
//!    place.
//! 4. Where log and journal do not belong together the data wins: nothing is cut or replayed.

use std::io;
use std::sync::Arc;

use crate::json;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::events;
use crate::file::operations;
use crate::file::replace::Temp;
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::fs::{Access, Extent, FileId, Handle, Kind as FileKind};
use crate::random;
use crate::sys;
use crate::wait::{Deadline, Request, Wait};

use super::archive::replaced_path;
use super::checkpoint::{JOURNAL_TEMP, LOG_TEMP, Next, new_temp, temp_path};
use super::files::{OpenFiles, has_inode};
use super::format::{
    Batch, Flags, Header, HeaderLine, IndexId, Kind, Operation, RECORDS_AT, Range, State,
};
use super::index::Index;
use super::lines;
use super::log::{Chain, FIRST_TURN, Found, Log, has_base, path_of};
use super::torn::{TORN_BYTES_MIN, find_torn, find_whole};
use super::view::{file_of, has_pending, has_unadopted};
use super::writer::{News, Placed, Section, Writer, between};

/// Enters the critical section; afterwards the state describes the journal.
///
/// An error does not refer to the batches that recovery writes: the caller's own change was not
/// made.
pub(super) fn enter(files: &Arc<OpenFiles>, section: Section, new_mode: u32) -> Result<Writer> {
    recover(files, section, new_mode).map_err(|error| error.committed(false))
}

fn recover(files: &Arc<OpenFiles>, section: Section, new_mode: u32) -> Result<Writer> {
    let target = section.target().clone();
    let found = open_journal(&section, new_mode)?;
    let (journal, found) = files.journal(&target, found)?;
    let (log, stored, is_new) = match files.log(&target, section.lock())? {
        Found::Log(log) => {
            // The path is built only for an error: every append passes here.
            let state = log.state(target.fs.boot_id());
            let state = state.map_err(|err| Error::io("read", &path_of(&target), err))?;
            (log, state, false)
        }
        Found::Missing | Found::Garbage => {
            let (log, state) = start(files, &section, found)?;
            (log, Some((FIRST_TURN, state)), true)
        }
    };
    let (turn, state) = stored.unwrap_or_default();
    let mut writer = Writer {
        section,
        target,
        files: files.clone(),
        log,
        stored: stored.map(|(_, state)| state),
        turn,
        state,
        journal,
        size: found.size,
        news: News::default(),
    };
    if is_new {
        writer.adopt_file("new to tenure", true)?;
        writer.adopt_arrived()?;
    } else {
        writer.orient(stored.is_some(), found.id)?;
    }
    Ok(writer)
}

/// The mode of a journal that a crash left without its file.
const NEW_MODE: u32 = 0o600;

/// Numbers the complete lines that other tools have appended, if the commit lock is free.
pub(super) fn adopt(files: &Arc<OpenFiles>, target: &Target) -> Result<()> {
    let target = target.current()?;
    if !has_unadopted(&target)? {
        return Ok(());
    }
    target.prepare()?;
    let section = Section::finish(&target, Request::until(Deadline::after(Wait::No)))?;
    let mut writer = enter(files, section, NEW_MODE)?;
    writer.adopt_late()?;
    writer.adopt_tail()
}

/// Writes pending batches to the journal before a hold is granted, so that nothing written earlier
/// appears during it. The caller has the hold; `seen` is the record it found.
pub(crate) fn settle_for_hold(target: &Target, seen: &Seen, request: Request<'_>) -> Result<()> {
    if !seen.record.journal || !has_pending(target)? {
        return Ok(());
    }
    let section = Section::finish(target, request)?;
    enter(&Arc::default(), section, NEW_MODE)?.settle()
}

/// The journal's file, created if it is missing.
fn open_journal(section: &Section, new_mode: u32) -> Result<Extent> {
    let (target, path) = (section.target(), section.target().path());
    let found = match target.fs.extent(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            create_journal(section, new_mode)?;
            if let Ok(found) = target.fs.stat(path) {
                target.follow(&found); // Its locks were made before it, and may be more open than it is.
            }
            target.fs.extent(path)
        }
        found => found,
    };
    let found = found.map_err(Target::failed("look at", path))?;
    let refuse = |kind, detail: &str, hint: &str| {
        Err(Error::new(kind, "use as a journal", detail).at(path).hint(hint))
    };
    if found.kind != FileKind::File {
        return refuse(ErrorKind::Invalid, "it is not a regular file", "name a file");
    }
    if found.links > 1 && !has_inode(target, &replaced_path(target, found.id.ino), found.id.ino)? {
        let hint = "each name has its own lock: remove the other hard links";
        return refuse(ErrorKind::Unsupported, "it has more than one hard link", hint);
    }
    Ok(found)
}

/// Gives an empty file the name of the journal, when it has its mode. A crash before leaves a temporary file.
fn create_journal(section: &Section, new_mode: u32) -> Result<()> {
    let target = section.target();
    if let Found::Log(log) = Log::open(target, Access::Read)? {
        // Where names cannot be exchanged, a replacement may have died before the new file got its name.
        let chain =
            log.chain(RECORDS_AT, None).map_err(Target::failed("read", &path_of(target)))?;
        let temp = temp_path(target, JOURNAL_TEMP);
        let new = chain.replace.map(|replace| replace.new.ino);
        if new.map_or(Ok(false), |ino| has_inode(target, &temp, ino))? {
            return target
                .fs
                .rename(&temp, target.path())
                .map_err(Target::failed("replace", target.path()));
        }
    }
    let path = temp_path(target, LOG_TEMP);
    let _ = target.fs.remove(&path);
    let set_mode = |file: &dyn Handle| file.set_mode(new_mode & 0o777);
    let temp = Temp::create(target, path.clone(), set_mode);
    let mut temp = temp.map_err(Target::failed("create", &path))?;
    section.claim_locks(temp.stat())?;
    temp.place_new(target.path())?; // If another tool was faster, its file is the journal.
    Ok(())
}

/// The first log of a journal.
fn start(files: &OpenFiles, section: &Section, found: Extent) -> Result<(Log, State)> {
    let target = section.target();
    let (path, file) = new_temp(target, LOG_TEMP)?;
    let failed = Target::failed;
    let number = sys::wall_time_us();
    let mut header = Header {
        salt: random::number()?,
        file: file.id().map_err(failed("look at", &path))?,
        journal: found.id,
        base_sum: checksum::of(b""),
        seq: 1,
        number,
        since: number,
        ..Header::default()
    };
    if let Some(index) = Index::open(target, &target.sidecar("index"), Access::Read)? {
        // The index outlived its log. Its numbers are not reused, and it knows the archives.
        header.seq = index.next_seq().map_err(failed("read index of", target.path()))?;
        header.previous = index.title.previous;
        header.line = index.title.line;
    }
    let mut state = State {
        boot: target.fs.boot_id(),
        number,
        placed: number,
        seq: header.seq,
        late_end: header.previous.end,
        ..State::default()
    };
    // Not synced: the first durable batch syncs it too, and before that there is nothing to lose.
    let begun = Log::begin(&file, &header, &mut state, &[], &[], None);
    begun.map_err(failed("write", &path))?;
    let log = Log { file, header };
    if found.size == 0 {
        target.fs.rename(&path, &path_of(target)).map_err(failed("create log", &path))?;
        files.keep_log(section.lock(), &log);
    } // Else readers number the lines without it until they are adopted, in a log of their own.
    Ok((log, state))
}

impl Writer {
    /// Decides what state the last writer left, and recovers from it. `known`: the state is of this
    /// boot.
    fn orient(&mut self, known: bool, found: FileId) -> Result<()> {
        let own = self.log.file.id().map_err(|err| self.log_failed("look at", err))?;
        // A device may have another number after a restart; an inode does not.
        let same = |one: FileId, other: FileId| one == other || (!known && one.ino == other.ino);
        let header = self.log.header;
        if !known {
            self.state = self.state_after_restart()?;
        }
        if !same(header.file, own) {
            return self.take_over_copy(known, found);
        }
        if !self.state.flags.named {
            self.place_index()?;
        }
        if self.state.flags.replacing {
            match self.chain(RECORDS_AT, None)?.replace {
                Some(replace) if found.ino == replace.new.ino => {
                    self.news.rolled_forward += 1;
                    self.finish_replace(&replace)?;
                    // Another tool may have cut it since.
                    let found = self.log.header.journal;
                    return self.orient(true, found);
                }
                Some(replace) if found.ino != replace.old.ino => {}
                // The replacement was being written, or was not made.
                _ => self.abandon(known)?,
            }
        }
        if !same(self.log.header.journal, found) {
            return self.adopt_file("another file has its name", known);
        }
        let base = self.log.header.base;
        let shorter = self.size < if known { self.state.journal_end } else { base };
        let has_base = || has_base(self.journal.as_ref(), &self.log.header);
        if shorter || (!known && !has_base().map_err(|err| self.journal_failed("read", err))?) {
            return self.adopt_file("it was cut or restored", known);
        }
        if !known {
            return self.recover_restart();
        }
        self.remember_operation()?;
        if self.size > self.state.journal_end || self.state.applying > 0 {
            self.recover_crash()?;
            self.remember_operation()?;
        }
        Ok(())
    }

    /// The directory was copied or restored. Entries keep their numbers if log and journal were copied together.
    fn take_over_copy(&mut self, known: bool, found: FileId) -> Result<()> {
        let chain = self.chain(RECORDS_AT, None)?;
        let described = chain.describes(&self.log.header, &self.journal);
        if !described.map_err(|err| self.journal_failed("read", err))? {
            return self.adopt_file("its log is a copy", known);
        }
        let detail = json!({ "bytes": self.size, "why": "its log is a copy, and fits it" });
        let _ = events::record(&self.target, "journal_adopted", &detail);
        self.log.header.journal = found;
        self.state = self.state_after_restart()?;
        self.recover_restart()
    }

    /// Remembers the last operation: its writer may have died before it did.
    fn remember_operation(&mut self) -> Result<()> {
        let Operation { id, first, lines } = std::mem::take(&mut self.state.operation);
        if id == 0 {
            return Ok(());
        }
        operations::remember_for_another(&self.target, id, operations::Done { first, lines })
    }

    /// The state according to the chain alone.
    fn state_after_restart(&self) -> Result<State> {
        let header = self.log.header;
        let chain = self.chain(RECORDS_AT, None)?;
        let numbers = chain.batches.iter().map(|batch| batch.number + 1);
        let number = numbers.fold(header.number, u64::max);
        // Whether an earlier recovery has tried to sync the journal is not known.
        let journal_doubt = true;
        let flags = Flags { replacing: chain.replace.is_some(), journal_doubt, ..Flags::default() };
        Ok(State {
            boot: self.target.fs.boot_id(),
            end: chain.end,
            room: chain.end,
            number,
            placed: number,
            pending_at: chain.end,
            seq: chain.next_seq(&header),
            journal_end: header.base,
            late_end: header.previous.end,
            flags,
            ..State::default()
        })
    }

    /// A process died while it wrote to the journal, or another tool has appended.
    fn recover_crash(&mut self) -> Result<()> {
        let end = self.state.end;
        let chain = self.chain(end, None)?;
        // A batch that was logged and not counted: its writer died before, during or after its
        // write.
        let uncounted = chain.batches.first().filter(|batch| {
            batch.number == self.state.number && !batch.durable && batch.seq == self.state.seq
        });
        if let Some(batch) = uncounted {
            if !self.has_pending() {
                self.state.pending_at = end;
            }
            self.count_batch(batch);
            self.state.end = chain.end;
            // Without a sync: its numbers are reserved, so readers may see it at once.
            self.state.applying = batch.number;
        } else if self.state.applying == 0 {
            return Ok(());
        }
        let chain = self.chain(self.state.pending_at, Some(self.state.end))?;
        if chain.end != self.state.end {
            return self.adopt_file("its log is damaged", true);
        }
        let pending: Vec<_> = chain
            .batches
            .iter()
            .filter(|batch| batch.number >= self.state.placed)
            .cloned()
            .collect();
        self.checkpoint(1, None)?;
        if !self.has_pending() {
            return Ok(()); // The log was damaged: the file was adopted, and what was pending is in it.
        }
        // From here on they are durable: readers may see them, and they may be written to the journal.
        self.state.applying = self.state.number - 1;
        self.store()?;
        self.place_pending(&chain, &pending)
    }

    /// Places all pending batches, and adopts every byte between and after them.
    fn place_pending(&mut self, chain: &Chain, pending: &[Batch]) -> Result<()> {
        let (mut placed, mut cursor) = (Vec::with_capacity(pending.len()), self.state.journal_end);
        for batch in pending {
            let text = chain.text(batch);
            let start = match self.find(batch, text, (cursor, &[]), false)? {
                Place::Found(start) => start,
                Place::Missing => self.push(text)?,
            };
            self.news.rolled_forward += 1;
            placed.push(Placed { batch: batch.clone(), start });
            cursor = cursor.max(start + text.len() as u64);
        }
        self.count_placed(&placed, None)?;
        self.adopt_tail()
    }

    /// Counts a batch that is in the log.
    pub(super) fn count_batch(&mut self, batch: &Batch) {
        self.state.number = batch.number + 1;
        self.state.seq = batch.next_seq();
        self.state.flags.durable |= batch.durable;
        if batch.operation != 0 {
            let (id, first, lines) = (batch.operation, batch.seq, batch.lines);
            self.state.operation = Operation { id, first, lines };
        }
    }

    /// The machine restarted: what is durable counts, and everything after `base` is checked.
    fn recover_restart(&mut self) -> Result<()> {
        let Header { base, reserved, .. } = self.log.header;
        let chain = self.chain(RECORDS_AT, None)?;
        let (mut cut, mut pending) = (lines::Cut::default(), Vec::new());
        let mut known = Vec::new();
        for batch in &chain.batches {
            let (start, text) = (batch.start, chain.text(batch));
            let end = start + text.len() as u64;
            if end <= self.size && self.read(start, end)? == text {
                cut.add(start, batch.seq, text);
                known.push((start, end));
            } else {
                pending.push(batch.clone());
            }
            let done = operations::Done { first: batch.seq, lines: batch.lines };
            if batch.operation != 0 {
                operations::remember_for_another(&self.target, batch.operation, done)?;
            }
        }
        let mut ranges = cut.finish();
        for range in &chain.ranges {
            let range = self.check_range(range)?;
            known.extend((range.kind == Kind::Here).then_some((range.start, range.end)));
            ranges.push(range);
        }
        if self.state.seq < reserved {
            // A reader may have seen them.
            ranges.push(Range::without(Kind::Skipped, self.state.seq, reserved));
            self.state.seq = reserved;
        }
        let mut missing = Vec::new();
        for batch in pending {
            let text = chain.text(&batch);
            match self.find(&batch, text, (base, &known), true)? {
                Place::Missing => missing.push(batch),
                Place::Found(start) => {
                    let mut cut = lines::Cut::default();
                    cut.add(start, batch.seq, text);
                    ranges.extend(cut.finish());
                    known.push((start, start + text.len() as u64));
                    self.news.rolled_forward += 1;
                }
            }
        }
        // Everything else is from other tools, up to the last complete line.
        let end = self.last_line_end(base)?;
        known.push((end, end));
        let (holes, end) = between(base, known);
        for (start, end) in holes {
            let adopted = self.measure(start, end, self.state.seq)?;
            self.state.seq = adopted.last().map_or(self.state.seq, Range::next_seq);
            self.news.adopted += adopted.iter().map(|range| range.foreign).sum::<u64>();
            ranges.extend(adopted);
        }
        ranges.sort_by_key(|range| range.seq);
        self.state.journal_end = end;
        let late = ranges.iter().filter(|range| range.kind == Kind::Late).map(|range| range.end);
        self.state.late_end = late.fold(self.state.late_end, u64::max);
        // A missing batch is appended after a log records its position: a power loss may tear it
        // again.
        let mut at = self.size + u64::from(self.size > end);
        for (batch, number) in missing.iter_mut().zip(self.state.number..) {
            (batch.start, batch.number) = (at, number);
            at += batch.text.len() as u64;
        }
        self.state.placed = self.state.number;
        self.state.number += missing.len() as u64;
        self.state.applying = self.state.number - 1;
        let with_text = missing.iter().map(|batch| (batch.clone(), chain.text(batch))).collect();
        let reserve = u64::from(reserved > 0);
        self.begin_log(Next { ranges, pending: with_text, replace: None, reserve })?;
        if missing.is_empty() { Ok(()) } else { self.place_pending(&chain, &missing) }
    }

    /// A range that was adopted before a restart, or the numbers that were lost with it.
    fn check_range(&self, range: &Range) -> Result<Range> {
        let previous = self.log.header.previous;
        let file = file_of(&self.target, Some(&self.journal), previous, range)?;
        let is_whole = range.is_in(file.as_ref());
        let is_whole = is_whole.map_err(|err| self.journal_failed("read", err))?;
        Ok(if is_whole { *range } else { range.as_lost() })
    }

    /// Finds `text` in the journal from `from` on, outside of the ranges that are known to be
    /// something else. A torn part of it is completed, or blanked if other bytes follow it.
    fn find(
        &mut self,
        batch: &Batch,
        text: &[u8],
        (from, known): (u64, &[(u64, u64)]),
        restarted: bool,
    ) -> Result<Place> {
        self.update_size()?;
        let mut holes = Vec::new();
        for (start, end) in between(from, [known, &[(self.size, self.size)]].concat()).0 {
            holes.push((start, self.read(start, end)?));
        }
        for (start, bytes) in &holes {
            if let Some(at) = find_whole(bytes, text, restarted) {
                return Ok(Place::Found(start + at as u64));
            }
        }
        let len = text.len() as u64;
        if restarted && batch.start >= from && batch.start < self.size {
            let there = self.read(batch.start, batch.start + len)?;
            let is_ours = |(have, want): (&u8, &u8)| have == want || *have == 0;
            let file =
                if there.iter().zip(text).all(is_ours) { self.open_in_place()? } else { None };
            if let Some(file) = file {
                // Only its own bytes were lost there.
                let written = file.write_all_at(text, batch.start);
                written.map_err(|err| self.journal_failed("write", err))?;
                self.size = self.size.max(batch.start + len);
                return Ok(Place::Found(batch.start));
            }
        }
        let torn = |(hole, bytes): &(u64, Vec<u8>)| {
            let is_last = hole + bytes.len() as u64 == self.size;
            find_torn(bytes, text, (*hole, is_last), batch.start, restarted)
        };
        if let Some((start, done)) = holes.iter().find_map(torn) {
            if start + done as u64 == self.size {
                let rest = self.push_rest(&text[done..])?;
                if rest == start + done as u64 {
                    return Ok(Place::Found(start));
                }
                self.blank(rest, rest + (text.len() - done) as u64)?;
                if done < TORN_BYTES_MIN {
                    // It may be the beginning of the line that follows it now.
                    return Ok(Place::Missing);
                }
            }
            // Another tool has written after it: its line must stay separate.
            self.blank(start, start + done as u64)?;
        }
        Ok(Place::Missing)
    }

    /// Appends the rest of a torn batch.
    fn push_rest(&mut self, rest: &[u8]) -> Result<u64> {
        let known = std::mem::replace(&mut self.state.journal_end, u64::MAX);
        let pushed = self.push(rest);
        self.state.journal_end = known;
        pushed
    }

    /// Accepts the journal as it is: all of its complete lines get new numbers, above every known
    /// number. `known`: the state is of this boot.
    pub(super) fn adopt_file(&mut self, why: &str, known: bool) -> Result<()> {
        let old = self.log.clone();
        let boot = self.target.fs.boot_id();
        let id = self.log.file.id().map_err(|err| self.log_failed("look at", err))?;
        let own = known && id == old.header.file;
        let journal = self.journal_id()?;
        let chain = self.chain(self.state.pending_at.max(RECORDS_AT), Some(self.state.end))?;
        // For another file, or another boot, no caller waits for pending batches.
        let is_waited = |batch: &&Batch| own && batch.number >= self.state.placed;
        let mut pending: Vec<Batch> = chain.batches.iter().filter(is_waited).cloned().collect();
        let is_whole = chain.end == self.state.end;
        if !is_whole {
            // The log is damaged. Callers that wait learn that their batch may be lost.
            self.state.placed = self.state.number;
            for batch in &mut pending {
                batch.number = self.state.number;
                self.state.number += 1;
            }
        }
        let since = if own && is_whole { old.header.since } else { self.state.placed };
        let line = self.header_line()?;
        if self.size == line.len
            && self.size == self.state.journal_end
            && old.header.index.generation == 0
            && old.header.journal == journal
        {
            return Ok(()); // A new journal.
        }
        // A state of this boot knows every number that was given out.
        let reserved = if own { 0 } else { old.header.reserved };
        let first_seq = self.state.seq.max(reserved);
        let end = self.last_line_end(line.len)?;
        let first_gone = self.first_number()?.min(first_seq);
        let (mut ranges, mut at) = (Vec::new(), first_gone);
        // What is pending keeps its numbers.
        let kept = pending.iter().map(|batch| (batch.seq, batch.next_seq()));
        for (seq, next) in kept.chain([(first_seq, first_seq)]) {
            if at < seq {
                ranges.push(Range::without(Kind::Lost, at, seq));
            }
            at = at.max(next);
        }
        ranges.extend(self.measure(line.len, end, first_seq)?);
        let lines: u64 = ranges.iter().map(|range| range.foreign).sum();
        self.news.adopted += lines;
        let detail = json!({ "lines": lines, "bytes": self.size, "why": why });
        let _ = events::record(&self.target, "journal_adopted", &detail);
        let seq = ranges.last().map_or(first_seq, Range::next_seq).max(first_seq);
        self.log.header = Header {
            base: line.len,
            seq: first_gone,
            index: IndexId::default(),
            line,
            reserved: 0,
            since,
            ..old.header
        };
        let applying = if pending.is_empty() { 0 } else { self.state.number - 1 };
        let flags = Flags::default();
        self.state = State { boot, seq, applying, journal_end: end, flags, ..self.state };
        if pending.is_empty() {
            self.state.placed = self.state.number;
        }
        let with_text = pending.iter().map(|batch| (batch.clone(), chain.text(batch))).collect();
        self.begin_log(Next { ranges, pending: with_text, replace: None, reserve: 1 })?;
        if pending.is_empty() {
            return self.adopt_arrived();
        }
        self.place_pending(&chain, &pending)
    }

    /// Adopts the lines that arrived before the new log had its name. Readers that found no log, or one of another
    /// file, have numbered them in the order of the file: nothing may come before them.
    fn adopt_arrived(&mut self) -> Result<()> {
        self.update_size()?;
        self.adopt_tail()
    }

    /// The first number of the file that was the journal.
    pub(super) fn first_number(&self) -> Result<u64> {
        let index = Index::open(&self.target, &self.target.sidecar("index"), Access::Read)?;
        let header = self.log.header;
        let index = index.filter(|index| index.title.generation == header.index.generation);
        Ok(index.map_or(header.seq, |index| index.title.first_seq))
    }

    /// Whether the index that the log names can be read, if it names one.
    pub(super) fn has_index(&self) -> Result<bool> {
        let named = self.log.header.index.generation;
        let index = Index::open(&self.target, &self.target.sidecar("index"), Access::Read)?;
        Ok(named == 0 || index.is_some_and(|index| index.title.generation == named))
    }

    /// The header line, if the journal still begins with it.
    fn header_line(&self) -> Result<HeaderLine> {
        let line = self.log.header.line;
        let is_there = line.is_in(self.journal.as_ref());
        let is_there = is_there.map_err(|err| self.journal_failed("read", err))?;
        Ok(if is_there { line } else { HeaderLine::default() })
    }

    /// Makes sure that nothing is pending and every complete line has a number. An error does not
    /// refer to the caller's own change, which comes later.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.has_pending() {
            self.place_all().map_err(|error| error.committed(false))?;
        }
        self.adopt_late()?;
        self.adopt_tail()
    }
}

/// Where a batch of the log is.
enum Place {
    Found(u64),
    Missing,
}
