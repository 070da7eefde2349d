//! The checkpoint: what the log holds becomes durable in the journal and the index, and a new log begins.
//!
//! In order, with what a crash (of the process, or of the power) after each step leaves:
//!
//! 1. The journal is synced: the old log still has everything.
//! 2. Index records are written and synced: they do not count yet, and the next checkpoint writes over them. A new
//!    index is written under a temporary name, which is synced, too: a left-over.
//! 3. The new log is written under a temporary name and synced: a left-over that the next checkpoint replaces.
//! 4. It takes the name of the log: both logs describe the journal, and everything acknowledged is
//!    in both.
//! 5. The directory is synced: the new log stays.
//! 6. A new index takes its name. Until then it is found under the temporary one.
//!
//! This is also the answer to every doubt (G8): a sync of the log that failed, or whose leader died, is never
//! repeated on that file; the next durable call comes here, where everything is written to a new file.
//!
//! # Invariants
//!
//! 1. Pending batches go to the new log, and so do ranges with larger numbers than theirs: the index is in the
//!    order of the numbers.
//! 2. Numbers that are given out without a sync of their own lie below `reserved`, which was synced before.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checksum;
use crate::error::Result;
use crate::file::operations;
use crate::file::target::Target;
use crate::fs::{Access, Handle};
use crate::random;

use super::archive::previous_paths;
use super::files::open_by_inode;
use super::format::{
    Batch, Flags, Header, IndexId, Kind, Previous, RECORDS_AT, Range, Replace, State, Title,
};
use super::index::Index;
use super::lines;
use super::log::{FIRST_TURN, Log, path_of, tail_sum};
use super::writer::Writer;

/// A log is emptied when its records exceed this: with durable batches, and without.
const LOG_BYTES: u64 = 1024 * 1024;
const UNSYNCED_LOG_BYTES: u64 = 4 * LOG_BYTES;
/// How many numbers one checkpoint reserves.
const NUMBERS_RESERVED: u64 = 16 * 1024;
/// Foreign ranges that follow each other are joined up to this size.
const SMALL_BYTES: u64 = 4096;

/// The temporary names of a log, of an index, and of a new journal and its index. Only one change is under way at a
/// time.
pub(super) const LOG_TEMP: u64 = 1;
pub(super) const INDEX_TEMP: u64 = 2;
pub(super) const JOURNAL_TEMP: u64 = 3;
pub(super) const NEXT_INDEX_TEMP: u64 = 4;

/// The temporary file with this number.
pub(super) fn temp_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("tmp.{number:016x}"))
}

/// Removes what killed writers have left. Recovery has used what it needs.
pub(super) fn remove_temps(target: &Target) {
    for number in [LOG_TEMP, INDEX_TEMP, JOURNAL_TEMP, NEXT_INDEX_TEMP] {
        let _ = target.fs.remove(&temp_path(target, number));
    }
}

/// A new file under a temporary name. A left-over of a crash is removed.
pub(super) fn new_temp(target: &Target, number: u64) -> Result<(PathBuf, Arc<dyn Handle>)> {
    let path = temp_path(target, number);
    let _ = target.fs.remove(&path);
    let file = target.open_sidecar(&path).map_err(|error| error.committed(false))?;
    Ok((path, file))
}

/// The content of the next log, besides what the old one knew.
#[derive(Debug, Default)]
pub(super) struct Next<'a> {
    /// Everything that is in the files and not in the index, in the order of its numbers.
    pub(super) ranges: Vec<Range>,
    /// Batches that are not in the journal.
    pub(super) pending: Vec<(Batch, &'a [u8])>,
    pub(super) replace: Option<Replace>,
    /// How many numbers will be given out without a sync; 0: none.
    pub(super) reserve: u64,
}

impl Writer {
    /// Empties a log that has become long, or that has no room for `lines` numbers that are given out without a
    /// sync.
    pub(super) fn make_room(&mut self, lines: u64) -> Result<()> {
        let limit = if self.state.flags.durable { LOG_BYTES } else { UNSYNCED_LOG_BYTES };
        let reserve = lines > 0 && self.state.seq + lines > self.log.header.reserved;
        if self.state.end > limit || reserve || (lines > 0 && self.has_leftover()?) {
            return self.checkpoint(lines, None);
        }
        // A log's reservation counts only if the log itself is durable.
        if lines > 0 { self.sync_names() } else { Ok(()) }
    }

    /// Whether a writer died right after it logged a durable batch: its record is behind `end` and does not count.
    ///
    /// A durable batch overwrites it, and is synced before any reader sees it. What is given out without a sync must not
    /// take its place: a power loss could bring the old record back, with a number that a reader has seen elsewhere.
    pub(super) fn has_leftover(&self) -> Result<bool> {
        let found = self.log.has_record(self.state.end);
        found.map_err(|err| self.log_failed("read", err))
    }

    /// Begins a new log. Pending batches stay pending.
    pub(super) fn checkpoint(&mut self, reserve: u64, replace: Option<Replace>) -> Result<()> {
        let chain = self.chain(RECORDS_AT, Some(self.state.end))?;
        if chain.end != self.state.end {
            return self.adopt_file("its log is damaged", true);
        }
        let ranges = chain.placed(self.state.placed);
        let pending = chain.batches.iter().filter(|batch| batch.number >= self.state.placed);
        let pending = pending.map(|batch| (batch.clone(), chain.text(batch))).collect();
        self.begin_log(Next { ranges, pending, replace, reserve })
    }

    /// Steps 1 to 5.
    pub(super) fn begin_log(&mut self, next: Next<'_>) -> Result<()> {
        let Next { mut ranges, pending, replace, reserve } = next;
        let first_pending = pending.first().map_or(u64::MAX, |(batch, _)| batch.seq);
        let later = ranges.split_off(ranges.partition_point(|range| range.seq < first_pending));
        let ranges = self.join_small(ranges)?;
        let old = self.log.header;
        let base = ranges.iter().filter(|range| range.kind != Kind::Late).map(|range| range.end);
        let base = base.max().unwrap_or(0).max(old.base);
        if !ranges.is_empty() {
            self.sync_journal(&ranges)?;
        }
        let index = self.extend_index(&ranges)?;
        operations::sync(&self.target, first_pending).map_err(|error| error.committed(false))?;
        let reserves = reserve > 0 || self.state.seq < old.reserved;
        let reserved = self.state.seq + reserve + NUMBERS_RESERVED;
        let reserved = if reserves { reserved } else { 0 };
        let (path, file) = new_temp(&self.target, LOG_TEMP)?;
        let header = Header {
            salt: random::number()?,
            file: file.id().map_err(Target::failed("look at", &path))?,
            journal: self.journal_id()?,
            base,
            base_sum: tail_sum(self.journal.as_ref(), base)
                .map_err(|err| self.journal_failed("read", err))?,
            seq: ranges.last().map_or(old.seq, Range::next_seq).max(old.seq),
            number: pending.first().map_or(self.state.number, |(batch, _)| batch.number),
            reserved,
            index,
            previous: Previous { end: self.state.late_end, ..old.previous },
            ..old
        };
        let mut state = State {
            placed: header.number,
            applying: if pending.is_empty() { 0 } else { self.state.applying },
            pending_bytes: pending.iter().map(|(_, text)| text.len() as u64).sum(),
            flags: Flags {
                replacing: replace.is_some(),
                durable: pending.iter().any(|(batch, _)| batch.durable),
                ..Flags::default()
            },
            ..self.state
        };
        let mut put = || -> io::Result<()> {
            Log::begin(&file, &header, &mut state, &later, &pending, replace)?;
            file.sync()?;
            self.target.fs.rename(&path, &path_of(&self.target))
        };
        if let Err(err) = put() {
            for left in [path, temp_path(&self.target, INDEX_TEMP)] {
                let _ = self.target.fs.remove(&left); // Give its room back.
            }
            return Err(self.log_failed("write", err));
        }
        self.log = Log { file, header };
        self.files.keep_log(self.section.lock(), &self.log);
        (self.turn, self.state, self.stored) = (FIRST_TURN, state, Some(state));
        // A process that finds the new log before this syncs its name first.
        self.sync_names()?;
        self.place_index()?;
        self.store()
    }

    /// Makes the bytes of `ranges` durable in the journal, and in the file that it replaced.
    ///
    /// After a sync that failed, or whose caller died, the page cache may claim to be clean:
    /// everything after `base` is rewritten before the next one, unless the file is append-only (a
    /// limit).
    fn sync_journal(&mut self, ranges: &[Range]) -> Result<()> {
        if ranges.iter().any(|range| range.kind == Kind::Late) {
            let previous = self.log.header.previous;
            let paths = previous_paths(&self.target, previous);
            if let Some(file) = open_by_inode(&self.target, previous.ino, &paths)? {
                file.sync().map_err(Target::failed("sync", &paths[0]))?;
            }
        }
        if self.state.flags.journal_doubt {
            self.write_again()?;
        }
        self.note_sync()?;
        self.journal.sync().map_err(|err| self.journal_failed("sync", err))?;
        Ok(())
    }

    fn write_again(&self) -> Result<()> {
        let Some(file) = self.open_in_place()? else { return Ok(()) };
        let mut at = self.log.header.base;
        while at < self.size {
            let bytes = self.read(at, self.size.min(at + LOG_BYTES))?;
            if bytes.is_empty() {
                break;
            }
            file.write_all_at(&bytes, at).map_err(|err| self.journal_failed("write", err))?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Joins small adjacent ranges of other tools. A range whose bytes changed stays alone, with
    /// its old checksum: a checkpoint neither widens damage nor hides it.
    fn join_small(&self, ranges: Vec<Range>) -> Result<Vec<Range>> {
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let follows = |last: &&mut Range| {
                last.kind == Kind::Here
                    && (last.kind, last.end, last.next_seq())
                        == (range.kind, range.start, range.seq)
                    && range.end - range.start <= SMALL_BYTES
                    && range.end - last.start <= lines::RANGE_BYTES
            };
            if let Some(last) = joined.last_mut().filter(follows) {
                let bytes = self.read(last.start, range.end)?;
                let split = usize::try_from(last.end - last.start).unwrap_or(0).min(bytes.len());
                let (one, other) = bytes.split_at(split);
                if checksum::of(one) == last.sum && checksum::of(other) == range.sum {
                    (last.end, last.sum) = (range.end, checksum::of(&bytes));
                    last.lines += range.lines;
                    last.foreign += range.foreign;
                    continue;
                }
            }
            joined.push(range);
        }
        Ok(joined)
    }

    /// Appends `ranges` to the index, which is created with its first record.
    fn extend_index(&self, ranges: &[Range]) -> Result<IndexId> {
        let old = self.log.header.index;
        let path = self.target.sidecar("index");
        let failed = Target::failed;
        if ranges.is_empty() {
            return Ok(old);
        }
        let len = old.len + ranges.len() as u64;
        if old.generation != 0 {
            let index = Index::open(&self.target, &path, Access::ReadWrite)?;
            let index = index.filter(|index| index.title.generation == old.generation);
            let damaged = |at| super::index::damaged(&self.target, at, self.target.path());
            let index = index.ok_or_else(|| damaged(0))?;
            // A header that counts more records than there are must not make the index grow to there.
            let has = index.capacity().map_err(failed("look at index", &path))?;
            if has < old.len {
                return Err(damaged(has).committed(false));
            }
            index.append(old.len, ranges).map_err(failed("write index", &path))?;
            return Ok(IndexId { len, ..old });
        }
        let title = Title {
            generation: random::number()?.max(1),
            first_seq: self.log.header.seq,
            previous: self.log.header.previous,
            line: self.log.header.line,
        };
        self.put_index(title, ranges)?;
        Ok(IndexId { generation: title.generation, len })
    }

    /// Writes a whole index under a temporary name, which is durable before a log names its generation.
    pub(super) fn put_index(&self, title: Title, ranges: &[Range]) -> Result<()> {
        let (temp, file) = new_temp(&self.target, INDEX_TEMP)?;
        let put = Index::begin(file, title, ranges)
            .and_then(|()| self.target.fs.sync_dir(self.target.side()));
        put.map_err(|err| {
            let _ = self.target.fs.remove(&temp);
            Target::failed("write index", &temp)(err).committed(false)
        })
    }

    /// Renames the index that the log refers to, if that has not been done.
    pub(super) fn place_index(&self) -> Result<()> {
        let (path, temp) = (self.target.sidecar("index"), temp_path(&self.target, INDEX_TEMP));
        let index = Index::open(&self.target, &temp, Access::Read)?;
        let named = self.log.header.index.generation;
        if index.is_none_or(|index| index.title.generation != named) {
            return Ok(());
        }
        let placed = self.target.fs.rename(&temp, &path);
        placed.map_err(|err| Target::failed("name index", &path)(err).committed(false))
    }
}
