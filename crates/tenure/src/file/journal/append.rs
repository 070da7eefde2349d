//! Appending a batch: logged under the lock, synced outside of it together with the batches of other
//! processes, then written to the journal.
//!
//! Without a sync: logged and written in one critical section. A batch without a sync that finds
//! others pending waits with them, since the journal has the order of the log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::operations::{self, Done};
use crate::file::sync::{self, Shared};
use crate::file::target::Target;
use crate::fs::Access;
use crate::options::{AppendOptions, Durability};
use crate::results::Appended;
use crate::wait::{Deadline, Request, Wait};

use super::Journal;
use super::batch::Lines;
use super::files::OpenFiles;
use super::format::{Batch, State};
use super::log::{Found, Log, path_of};
use super::maintain::stamp;
use super::recover::enter;
use super::writer::{Placed, Section, Writer, lost};

/// Finishing a logged batch waits at least this long: other sections are short.
const FINISH_PATIENCE: Duration = Duration::from_secs(10);
/// A leader that finishes for others waits less than they wait for it.
const LEADER_PATIENCE: Duration = Duration::from_secs(1);

/// What was published as a document does not become a journal: a line behind it would make it unreadable.
fn refuse_document(commit: &Commit) -> Result<()> {
    let (target, published) = (&commit.target, &commit.seen.record.published);
    if published.generation == 0 {
        return Ok(());
    }
    let content = target.fs.open(target.path(), Access::Read).and_then(|file| {
        let end = file.extent()?.size;
        file.read_range(0, end)
    });
    // A file that cannot be read is an error of the steps that follow.
    if content.map_or(true, |content| checksum::wide(&content) != published.checksum) {
        return Ok(());
    }
    let detail = "its content was written as a document";
    let error = Error::new(ErrorKind::Invalid, "append to", detail).at(target.path());
    Err(error.committed(false).hint("use another file for the journal"))
}

/// A batch that is logged, and not yet durable.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Log,
    number: u64,
}

impl Journal {
    /// Appends in a critical section, and ends it. The ticket is for [`Self::finish`].
    pub(crate) fn append_in(
        &self,
        mut commit: Commit,
        batch: &mut Lines,
        options: &AppendOptions,
    ) -> Result<(Appended, Option<Ticket>)> {
        let durable = options.write.durability == Durability::Durable;
        if !commit.seen.record.journal {
            refuse_document(&commit)?;
            commit.seen.record.journal = true;
            commit.write_record()?;
        }
        let section = Section::Write(Box::new(commit));
        let mut writer = enter(&self.files, section, options.write.file.new_mode)?;
        if durable && writer.state.flags.log_doubt {
            // Nothing is logged yet: if this fails, nothing was appended (G8).
            writer.checkpoint(0, None)?;
        }
        if batch.operation != 0 {
            if let Some(done) = operations::find(&writer.target, batch.operation)? {
                return replay(&mut writer, done, durable);
            }
        }
        if let Some(header) = &options.header {
            if let Some(appended) = stamp(&mut writer, header, batch)? {
                return Ok((appended, None));
            }
            if batch.count == 0 {
                return Ok((writer.news.appended(writer.state.seq, 0), None));
            }
        }
        writer.append(batch, durable)
    }

    /// Makes a logged batch durable, and writes it to the journal.
    pub(crate) fn finish(&self, ticket: Option<Ticket>, options: &AppendOptions) -> Result<()> {
        let Some(Ticket { log, number }) = ticket else { return Ok(()) };
        let write = &options.write;
        let target = self.target.with(write.file.lock_file.as_deref(), write.file.allow_network);
        let target = target.map_err(logged_already)?;
        let patience = match write.wait {
            Wait::For(time) => Wait::For(time.max(FINISH_PATIENCE)),
            Wait::No => Wait::For(FINISH_PATIENCE),
            Wait::Forever => Wait::Forever,
        };
        let (files, new_mode) = (&self.files, write.file.new_mode);
        let shared = LogSync { target: &target, log, files, new_mode, patience };
        let synced = sync::sync(&target, number, &shared).map(drop);
        if synced.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotDurable) {
            return synced.map_err(logged_already);
        }
        // Usually the leader has written it for all callers, and the state shows it.
        let is_applied = shared.is_applied(number)?
            || shared.apply(number, synced.is_ok(), patience).map_err(logged_already)?;
        if is_applied { synced } else { Err(lost(&target)) }
    }
}

/// Answers a repeated operation. It may have been done without a sync, or its caller died before it was in
/// the journal.
fn replay(writer: &mut Writer, done: Done, durable: bool) -> Result<(Appended, Option<Ticket>)> {
    let logged = done.first + done.lines > writer.log.header.seq;
    let mut settled = Ok(());
    if writer.has_pending() || (durable && logged) {
        settled = writer.place_all();
    }
    if durable {
        // The writer that began this log may have died before its name was durable.
        settled = settled.and_then(|()| writer.sync_names());
    }
    settled.map_err(|error| error.committed(true))?;
    let appended = writer.news.appended(done.first, done.lines);
    Ok((Appended { replayed: true, ..appended }, None))
}

impl Writer {
    fn append(&mut self, batch: &mut Lines, durable: bool) -> Result<(Appended, Option<Ticket>)> {
        let waits = durable || self.has_pending();
        self.adopt_late()?;
        self.adopt_tail()?;
        self.make_room(if waits { 0 } else { batch.count })?;
        let record = Batch {
            number: self.state.number,
            seq: self.state.seq,
            // After a newline, if the last line is open.
            start: self.size
                + self.state.pending_bytes
                + u64::from(self.size > self.state.journal_end),
            operation: batch.operation,
            lines: batch.count,
            durable: waits,
            ..Batch::default()
        };
        // It is closed when the batch is written.
        self.news.closed_tail |= waits && self.tail_is_open()?;
        if waits && !self.has_pending() {
            self.state.pending_at = self.state.end;
            // The rest of the tail is an open line, which is closed when the batch is written.
            self.news.closed_tail |= self.size > self.state.journal_end;
        }
        let before = self.state;
        let written = self.log.write_batch(&mut self.state, &record, &mut batch.bytes);
        written.map_err(|err| self.log_failed("write", err))?;
        if waits {
            self.section.verify_unless_recent()?;
            // From here on the batch will be in the journal, whatever happens to this process.
            self.count_batch(&record);
            self.state.pending_bytes += batch.text().len() as u64;
            self.store()?;
        } else {
            self.write_through(&record, batch.text(), before)?;
        }
        if record.operation != 0 {
            let done = Done { first: record.seq, lines: record.lines };
            operations::remember(&self.target, record.operation, done)
                .map_err(|error| error.committed(true))?;
        }
        let appended = self.news.appended(record.seq, record.lines);
        let ticket = waits.then(|| Ticket { log: self.log.clone(), number: record.number });
        Ok((appended, ticket))
    }

    /// Writes a batch that does not wait for a sync to the journal. It is in the log, but does not
    /// count yet: a crash before the write leaves nothing of it; during or after the write, the
    /// next writer finishes it.
    fn write_through(&mut self, batch: &Batch, text: &[u8], before: State) -> Result<()> {
        let start = match self.push(text) {
            Ok(start) => start,
            Err(error) if error.is_committed() == Some(true) => return Err(logged_already(error)),
            Err(error) => {
                // Nothing of it is in the journal: it must not come back.
                self.log
                    .withdraw(before.end)
                    .map_err(|err| self.log_failed("withdraw from", err))?;
                return Err(error);
            }
        };
        // It counts, and is pending until the log records its position.
        if self.state.placed == self.state.number {
            self.state.pending_at = before.end;
        }
        self.count_batch(batch);
        self.state.applying = batch.number;
        let batch = Batch { text: 0..text.len(), ..batch.clone() };
        // If this fails, plain readers see the batch, and the next writer numbers it.
        self.count_placed(&[Placed { batch, start }], None).map_err(logged_already)
    }
}

/// The batch is in the log: it will be in the journal, whatever this error says.
fn logged_already(error: Error) -> Error {
    let hint = "the batch is logged; the next write makes it visible, so do not repeat it";
    error.committed(true).hint(hint)
}

/// The log, synced together for all callers that wait for it.
struct LogSync<'a> {
    target: &'a Target,
    /// The log that the batch was written to.
    log: Log,
    files: &'a Arc<OpenFiles>,
    new_mode: u32,
    patience: Wait,
}

impl LogSync<'_> {
    fn writer(&self, patience: Wait) -> Result<Writer> {
        let request = Request::until(Deadline::after(patience));
        enter(self.files, Section::finish(self.target, request)?, self.new_mode)
    }

    /// Writes the batches up to `last` to the journal. `false` if they are lost.
    fn apply(&self, last: u64, synced: bool, patience: Wait) -> Result<bool> {
        let mut writer = self.writer(patience)?;
        if last < writer.log.header.since {
            return Ok(false);
        }
        if !synced && writer.log.header.salt == self.log.header.salt {
            // A new log holds them. Otherwise a power loss could take what readers have seen, and
            // their numbers. If the new log fails as well they are still visible: calls without a
            // sync continue.
            if writer.checkpoint(0, None).is_err() {
                writer.state.flags.log_doubt = true;
                writer.store()?;
            }
        }
        writer.apply(last)?;
        Ok(writer.state.placed > last)
    }

    /// Whether batch `number` is in the journal.
    fn is_applied(&self, number: u64) -> Result<bool> {
        let boot = self.target.fs.boot_id();
        let state = |log: &Log| log.state(boot).ok().flatten().map(|(_, state)| state);
        if state(&self.log).is_some_and(|state| state.placed > number) {
            return Ok(true);
        }
        match Log::open(self.target, Access::Read).map_err(logged_already)? {
            Found::Log(log) if number < log.header.since => Err(lost(self.target)),
            Found::Log(log) => Ok(state(&log).is_some_and(|state| state.placed > number)),
            Found::Missing | Found::Garbage => Ok(false),
        }
    }
}

impl Shared for LogSync<'_> {
    fn subject(&self) -> u64 {
        self.log.header.salt
    }

    fn newest(&self) -> Result<u64> {
        let state = self.log.state(self.target.fs.boot_id());
        let state = state.map_err(Target::failed("read", &path_of(self.target)))?;
        Ok(state.map_or(0, |(_, state)| state.number.saturating_sub(1)))
    }

    fn sync(&self) -> io::Result<()> {
        self.log.file.sync()
    }

    /// Begins a new log, which is synced before it counts, and writes its batches to the journal.
    fn renew(&self) -> Result<()> {
        let mut writer = self.writer(self.patience)?;
        if writer.log.header.salt != self.log.header.salt {
            return Ok(()); // Another caller did, and batches that came since may not be durable.
        }
        writer.place_all()
    }

    fn is_renewed(&self) -> Result<bool> {
        let named = self.target.fs.extent(&path_of(self.target)).ok().map(|found| found.id);
        Ok(named.is_some() && named != self.log.file.id().ok())
    }

    /// If it cannot be done now, each caller does it for itself.
    fn finish(&self, reach: u64, synced: bool) {
        let _ = self.apply(reach, synced, Wait::For(LEADER_PATIENCE));
    }
}
