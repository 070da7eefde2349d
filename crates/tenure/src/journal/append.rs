//! Appending a batch: logged under the lock, synced outside of it, then written to the journal.

use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::group;
use crate::options::Durability;
use crate::target::Target;
use crate::wait::Wait;

use super::Journal;
use super::batch::Batch;
use super::entry::{ENTRY_BYTES, Entry, Kind};
use super::head::{ENTRIES_AT, Operation};
use super::lines::Count;
use super::log_sync::{FINISH_PATIENCE, LogSync, lost};
use super::options::{AppendOptions, Appended};
use super::session::{Section, Session};
use super::settle::ATTEMPTS;
use super::wal::{Reach, Wal};

impl Journal {
    pub(super) fn append_batch(
        &self,
        batch: &[impl AsRef<[u8]>],
        options: &AppendOptions,
    ) -> Result<Appended> {
        let mut batch = Batch::check(self, batch, options)?;
        let commit = Commit::begin(&self.target, &options.write)?;
        let (appended, pending) = self.append_in(commit, &mut batch, options)?;
        self.finish(pending, options)?;
        Ok(appended)
    }

    /// Appends in a critical section, and ends it. What comes back with the result is the number that
    /// has to be synced by [`Self::finish`].
    pub(crate) fn append_in(
        &self,
        mut commit: Commit,
        batch: &mut Batch,
        options: &AppendOptions,
    ) -> Result<(Appended, Option<u64>)> {
        let durable = options.write.durability == Durability::Durable;
        if !commit.seen.record.journal {
            commit.seen.record.journal = true;
            commit.write_record()?;
        }
        let section = Section::Write(Box::new(commit));
        let mut session = Session::enter(&self.files, section, options.write.new_mode)?;
        if durable {
            session.leave_series_put_back()?;
        }
        let mut waits = durable;
        let mut appended = if let Some(done) = session.head.finished(batch.operation) {
            // Whoever did it may have died before it was in the journal, or did it without a sync.
            let kept = if durable { session.promise() } else { session.apply_pending() };
            let settled = kept.and_then(|()| Ok(!durable || session.is_durable(batch.operation)?));
            waits = !settled.map_err(|error| error.committed(true))?;
            Appended::replay(done)
        } else if let Some(appended) = session.stamp(batch, options)? {
            return Ok((appended, None));
        } else if batch.lines() == 0 {
            return Ok((Appended::new(session.head.next_seq, 0), None)); // The header is there already.
        } else {
            session.log(batch, durable)?
        };
        appended.tell(&session.news);
        let mine = session.head.next_number() - 1;
        Ok((appended, waits.then_some(mine)))
    }

    /// Makes what was appended durable, and lets it into the journal.
    pub(crate) fn finish(&self, pending: Option<u64>, options: &AppendOptions) -> Result<()> {
        let Some(mine) = pending else { return Ok(()) };
        let write = &options.write;
        let target = self.target.with(write.lock_file.as_deref(), write.allow_network);
        self.make_durable(&target.map_err(logged_already)?, mine, options)
    }

    /// Syncs the log together with everybody else who waits for that, and lets what is synced into the
    /// journal. Usually the leader has done both for everybody, and the head says so.
    fn make_durable(&self, target: &Target, mine: u64, options: &AppendOptions) -> Result<()> {
        let file = target.open_sidecar(&target.sidecar("wal")).map_err(logged_already)?;
        let patience = match options.write.wait {
            Wait::For(time) => Wait::For(time.max(FINISH_PATIENCE)),
            Wait::No => Wait::For(FINISH_PATIENCE),
            Wait::Forever => Wait::Forever,
        };
        let (files, new_mode) = (&self.files, options.write.new_mode);
        let log = LogSync { target, wal: Wal { file }, files, new_mode, patience };
        let synced = group::sync(target, mine, &log);
        let reach = match &synced {
            Ok(reach) => {
                let head = log.head();
                if head.lost.has(mine) {
                    return Err(lost(target));
                }
                if head.has_applied(mine) {
                    return Ok(());
                }
                *reach
            }
            Err(error) if error.kind() == ErrorKind::NotDurable => mine,
            Err(_) if log.head().lost.has(mine) => return Err(lost(target)),
            Err(_) => return synced.map(drop).map_err(logged_already),
        };
        match log.apply(reach, patience) {
            Ok(head) if head.has_applied(mine) && !head.lost.has(mine) => synced.map(drop),
            Ok(_) => Err(lost(target)),
            // What is lost is written down before anything else is tried.
            Err(_) if log.head().lost.has(mine) => Err(lost(target)),
            Err(error) => Err(logged_already(error)),
        }
    }
}

/// The batch is in the log: it will be in the journal, whatever this error says. To a caller who asks
/// whether to repeat it, that is the same as being there.
fn logged_already(error: Error) -> Error {
    let hint = "the batch is logged; the next write makes it visible, so do not repeat it";
    error.committed(true).hint(hint)
}

impl Session {
    /// A log that was put back in its place, from a copy, gives numbers out a second time. The notes of the
    /// shared sync speak of those of the first time, and whoever believed them would not sync.
    fn leave_series_put_back(&mut self) -> Result<()> {
        if group::reach(&self.target)? < self.head.next_number() {
            return Ok(());
        }
        self.adopt(true, self.head.journal, self.head.file)
    }

    /// What was done without a sync is asked for again, with one. What the log and the journal stand on is
    /// made durable; the log itself is synced outside of the lock, and from here on not emptied without a sync.
    fn promise(&mut self) -> Result<()> {
        if self.head.unanchored.is_some() {
            // Everything is in the journal then, which is synced first.
            self.anchor()?;
        } else if !self.head.names_synced {
            // No anchor: it would know the operation, and outlive an entry that is not synced yet.
            self.sync_names()?;
            self.store()?;
        }
        if self.head.promised || self.head.entries == 0 {
            return Ok(());
        }
        self.head.promised = true;
        self.store()
    }

    /// Whether a repeated operation, after [`Self::promise`], has nothing to wait for. Its entry was synced, and a sync that
    /// failed for a later one says nothing about it; or it is not in the log any more, so journal and index were synced.
    fn is_durable(&self, operation: u64) -> Result<bool> {
        let chain = self.wal.chain(&self.head, ENTRIES_AT, self.head.first_number, Reach::Counted);
        let chain = chain.map_err(|err| self.wal_failed("read", err))?;
        let Some(logged) = chain.iter().find(|logged| logged.entry.operation == operation) else {
            return Ok(chain.len() as u64 >= self.head.entries);
        };
        let number = logged.entry.number;
        Ok(self.head.has_applied(number) && group::has_synced(&self.target, number)?)
    }

    /// Logs the batch. Without a sync to wait for, it goes to the journal at once.
    pub(super) fn log(&mut self, batch: &mut Batch, durable: bool) -> Result<Appended> {
        self.make_room(durable)?;
        if durable && self.head.unanchored.is_some() {
            self.anchor()?;
        }
        for _ in 0..ATTEMPTS {
            if !durable {
                self.apply_pending()?;
            }
            // After it: what waits may have been let in with a line of others right behind it.
            self.adopt_tail()?;
            let close = self.head.open_tail;
            debug_assert!(!close || !self.head.has_pending(), "what waits has closed the line");
            let payload_len = batch.entry_bytes(close).len() - ENTRY_BYTES;
            let kind = if durable { Kind::Durable } else { Kind::Direct };
            let mut entry = self.next_entry(batch.lines(), payload_len, kind);
            entry.operation = batch.operation;
            self.write_entry(&entry, batch.entry_bytes(close))?;
            if self.has_grown()? {
                continue;
            }
            self.section.verify_batch()?;
            self.news.closed_tail |= close;
            if durable {
                // From here on the batch is going to be in the journal, whatever happens to us.
                self.count_entry(&entry);
                self.store()?;
            } else {
                self.push_entry(&entry, &batch.entry_bytes(close)[ENTRY_BYTES..])?;
            }
            return Ok(Appended::new(entry.seq, batch.lines()));
        }
        let detail = "others append to it faster than it can be numbered";
        Err(Error::new(ErrorKind::Busy, "append", detail).at(self.target.path()).committed(false))
    }

    /// The entry that comes next in the log.
    pub(super) fn next_entry(&self, lines: u64, payload_len: usize, kind: Kind) -> Entry {
        Entry {
            epoch: self.head.epoch,
            number: self.head.next_number(),
            seq: self.head.next_seq,
            lines: u32::try_from(lines).unwrap_or(u32::MAX),
            payload_len: u32::try_from(payload_len).unwrap_or(u32::MAX),
            operation: 0,
            kind,
        }
    }

    /// Whether somebody else appended since we looked. Then a reader may have numbered their lines
    /// before it could see the entry just logged, which must take a later number: it is withdrawn. A
    /// line that comes after this look is numbered behind the entry, by readers too, since they look
    /// at the length first and at the log second.
    fn has_grown(&mut self) -> Result<bool> {
        let size = self.journal_size();
        if size.as_ref().is_ok_and(|size| *size == self.size) {
            return Ok(false);
        }
        self.withdraw()?;
        self.size = size?;
        self.recover_crash()?;
        Ok(true)
    }

    /// Takes the entry back that was just written behind the counted ones. If it is direct and the
    /// journal grows, the next section would finish it; so what cannot be withdrawn may come back.
    fn withdraw(&self) -> Result<()> {
        let withdrawn = self.wal.file.write_all_at(&[0; ENTRY_BYTES], self.head.end);
        withdrawn.map_err(Target::failed("withdraw from", &self.target.sidecar("wal")))
    }

    pub(super) fn write_entry(&mut self, entry: &Entry, bytes: &mut [u8]) -> Result<()> {
        let written = self.wal.write(&mut self.head, entry, bytes);
        written.map_err(|err| self.wal_failed("write", err))
    }

    pub(super) fn count_entry(&mut self, entry: &Entry) {
        let head = &mut self.head;
        if !head.has_pending() {
            head.pending_seq = entry.seq;
        }
        head.entries += 1;
        head.end += entry.log_len();
        head.next_seq = entry.next_seq();
        head.open_tail = false;
        head.promised |= entry.is_promised();
        let lines = entry.lines.into();
        head.remember(Operation { id: entry.operation, first: entry.seq, lines });
        if let (Kind::Late(until), Some(displaced)) = (entry.kind, &mut head.displaced) {
            displaced.end = until;
        }
    }

    /// Writes a direct entry to the journal; it is in the log, not yet counted. A crash before the
    /// write leaves the journal as it was; in the middle or after it, the next section finds the entry
    /// behind the counted ones and finishes it.
    fn push_entry(&mut self, entry: &Entry, payload: &[u8]) -> Result<()> {
        if let Err(error) = self.push_all(payload) {
            // What is in the log is finished as soon as the journal has grown, by a beginning of it or by
            // somebody else. A batch of which nothing is there must not come back.
            let failed = Target::failed("look at", self.target.path());
            if self.journal.extent().map_err(failed)?.size > self.size {
                return Err(logged_already(error));
            }
            self.withdraw()?;
            return Err(error);
        }
        let alone = self.was_alone(payload).map_err(|error| error.committed(true))?;
        self.count_entry(entry);
        if !alone {
            let pending = self.pending(Reach::Counted);
            let settled = pending.and_then(|pending| self.settle(pending, None, false));
            return settled.map_err(|error| error.committed(true));
        }
        let head = &mut self.head;
        (head.applied, head.applied_end) = (head.entries, head.end);
        head.journal_end += payload.len() as u64;
        // Readers see it, and the next section finds it in the log, whatever becomes of this hint.
        self.store().map_err(|error| error.committed(true))
    }

    /// Logs `payload` and writes it to the journal at once.
    pub(super) fn log_direct(&mut self, payload: &[u8], kind: Kind) -> Result<()> {
        let mut bytes = [&[0; ENTRY_BYTES], payload].concat();
        let entry = self.next_entry(Count::of(payload).entries(), payload.len(), kind);
        self.write_entry(&entry, &mut bytes)?;
        if entry.is_promised() {
            // A power loss must not keep late lines and forget that they were taken over.
            self.sync_wal()?;
        }
        self.section.verify()?;
        self.push_entry(&entry, payload)
    }

    /// Empties a log that has become long. For a batch that is not durable, nothing is synced if the
    /// log holds nothing else.
    fn make_room(&mut self, durable: bool) -> Result<()> {
        if self.head.end - ENTRIES_AT <= super::checkpoint::LOG_BYTES {
            return Ok(());
        }
        self.apply_pending()?;
        self.adopt_late()?;
        if durable || !self.light_checkpoint()? { self.checkpoint(false) } else { Ok(()) }
    }

    /// Writes everything that is logged to the journal, synced first.
    pub(super) fn apply_pending(&mut self) -> Result<()> {
        if !self.head.has_pending() {
            return Ok(());
        }
        self.sync_wal()?;
        self.apply(u64::MAX)
    }

    /// Writes the entries up to number `reach`, which are durable in the log, to the journal: for
    /// everybody at once. If some that are counted cannot be read, the journal goes on without them.
    pub(super) fn apply(&mut self, reach: u64) -> Result<()> {
        if !self.head.has_pending() || self.head.has_applied(reach) {
            return Ok(());
        }
        let pending = self.pending(Reach::Counted)?;
        if (pending.len() as u64) < self.head.entries - self.head.applied {
            return self.recover_crash();
        }
        let ready = pending.iter().take_while(|logged| logged.entry.number <= reach);
        let (mut bytes, mut count, mut log_len) = (Vec::new(), 0, 0);
        let mut next_seq = self.head.pending_seq;
        for logged in ready {
            bytes.extend_from_slice(&logged.payload);
            count += 1;
            log_len += logged.entry.log_len();
            next_seq = logged.entry.next_seq();
        }
        self.sync_names()?;
        self.begin_applying()?;
        self.section.verify_batch()?;
        if !self.push(&bytes)? {
            return self.settle(pending, None, false);
        }
        let head = &mut self.head;
        head.applied += count;
        head.applied_end += log_len;
        head.journal_end += bytes.len() as u64;
        head.pending_seq = next_seq;
        head.begun = false;
        self.store()
    }
}
