//! What happens under the commit lock: entering, recovery, the checkpoint, and writing batches to
//! the journal.
//!
//! # Invariants
//!
//! 1. One process at a time is in here.
//! 2. A log that had the name is never overwritten, except its state and records that do not count.

use super::Fault;
use super::state::{At, Known, Line, Log, NO_LOG, Page, Process, Record, State, Task, Then};

impl State {
    /// Stores the writer's state in the log that has the name.
    fn store(&mut self, process: &Process) {
        let named = self.named();
        self.logs[named].known = Some(process.known);
    }

    fn rename(&mut self, log: usize) {
        self.names.push(log);
        self.names_dirty = true;
    }

    /// `recover::enter`: handles what the last writer left.
    pub(super) fn enter(&mut self, next: &mut Process, fault: Fault) -> At {
        if self.named() == NO_LOG {
            // Not synced: the first batch syncs it, too.
            next.known = Known::default();
            let known = Some(next.known);
            self.logs.push(Log { first: 1, header: Page::Dirty, records: Vec::new(), known });
            self.rename(self.logs.len() - 1);
            return At::Work;
        }
        let log = &self.logs[self.named()];
        let Some(known) = log.known else {
            next.known = self.restart();
            return self.checkpoint(next, Then::Place);
        };
        next.known = known;
        if known.applying == 0 {
            return At::Work;
        }
        // A process died while it wrote to the journal.
        if matches!(fault, Fault::VisibleBeforeNamed | Fault::PlacedWithoutLog) {
            next.known.applying = known.newest;
        }
        if fault == Fault::PlacedAgain && self.journal.len() == 2 * usize::from(known.applying) {
            let batch = self.in_journal(known.applying, |_| true).unwrap_or_default();
            self.journal.push(Line { number: known.applying, batch, page: Page::Dirty });
        }
        if fault == Fault::PlacedWithoutLog {
            next.then = Then::Place;
            self.store(next);
            return At::Push;
        }
        self.checkpoint(next, Then::Place)
    }

    /// `recover_restart`: only the chain counts. A batch that lost bytes is written again in its
    /// place; one without a place is pending.
    fn restart(&mut self) -> Known {
        let log = &self.logs[self.named()];
        let mut known = Known { placed: log.first - 1, journal_doubt: true, ..Known::default() };
        known.newest = known.placed;
        let begun = self.journal.len();
        for (number, record) in (log.first..).zip(&log.records) {
            known.newest = number;
            let at = 2 * usize::from(number - 1);
            if at >= begun {
                continue;
            }
            known.placed = number;
            for at in at..at + 2 {
                let whole = Line { number, batch: record.batch, page: Page::Dirty };
                match self.journal.get_mut(at) {
                    Some(line) if line.page == Page::Gone => *line = whole,
                    Some(_) => {}
                    None => self.journal.push(whole),
                }
            }
        }
        known.applying = if known.placed < known.newest { known.newest } else { 0 };
        known
    }

    /// Begins a checkpoint. The journal is synced if it has anything that is not in the index.
    pub(super) fn checkpoint(&self, next: &mut Process, then: Then) -> At {
        next.then = then;
        let is_indexed = next.known.placed < self.logs[self.named()].first;
        if is_indexed { At::WriteLog } else { At::NoteJournal }
    }

    /// The steps of the checkpoint, in the order of `checkpoint.rs`.
    pub(super) fn step_checkpoint(&mut self, next: &mut Process, fault: Fault) -> At {
        let named = self.named();
        match next.at {
            At::NoteJournal => {
                if next.known.journal_doubt {
                    let lost = self.journal.iter_mut().filter(|line| line.page == Page::Lost);
                    lost.for_each(|line| line.page = Page::Dirty);
                }
                // Only its beginning is noted.
                if let Some(known) = &mut self.logs[named].known {
                    known.journal_doubt = true;
                }
                next.known.journal_doubt |= fault != Fault::JournalDoubtForgotten;
                At::SyncJournal
            }
            At::SyncJournal => {
                sync(self.journal.iter_mut().map(|line| &mut line.page), Page::Durable);
                At::WriteLog
            }
            At::WriteLog => {
                let Known { newest, placed, applying, .. } = next.known;
                let old = &self.logs[named];
                let pending = old.records.iter().skip(usize::from(placed + 1 - old.first));
                let pending = pending.take(usize::from(newest - placed));
                let records =
                    pending.map(|record| Record { page: Page::Dirty, ..*record }).collect();
                let applying = if placed < newest { applying } else { 0 };
                let known = Some(Known { newest, placed, applying, ..Known::default() });
                self.logs.push(Log { first: placed + 1, header: Page::Dirty, records, known });
                next.new = self.logs.len() - 1;
                if fault == Fault::RenamedBeforeSynced { At::Rename } else { At::SyncLog }
            }
            At::SyncLog => {
                self.sync_log(next.new, usize::MAX, Page::Durable);
                if fault == Fault::RenamedBeforeSynced { At::SyncNames } else { At::Rename }
            }
            _ => {
                self.rename(next.new);
                next.known = self.logs[next.new].known.unwrap_or_default();
                if fault == Fault::RenamedBeforeSynced { At::SyncLog } else { At::SyncNames }
            }
        }
    }

    /// The first `covered` records of a log reach the disk, or are lost.
    pub(super) fn sync_log(&mut self, log: usize, covered: usize, to: Page) {
        let Log { header, records, .. } = &mut self.logs[log];
        sync(records.iter_mut().take(covered).map(|record| &mut record.page).chain([header]), to);
    }

    /// `sync_names`: of the checkpoint, or by a writer that found the log with an unsynced name.
    pub(super) fn sync_names(&mut self, next: &mut Process, fault: Fault) -> At {
        if self.names_dirty && fault != Fault::NameNotSynced {
            self.names = vec![self.named()];
            self.names_dirty = false;
        }
        next.known.named = true;
        // A new log holds everything.
        self.excused &= next.new == NO_LOG;
        next.new = NO_LOG;
        match next.then {
            Then::Applying => return At::Applying,
            Then::Place => next.known.applying = next.known.newest,
            Then::Log | Then::Apply => {}
        }
        let is_placed = next.known.placed == next.known.newest;
        if is_placed {
            next.known.applying = 0;
        }
        self.store(next);
        match next.then {
            Then::Place if is_placed => At::Work,
            Then::Place => At::Push,
            Then::Log => At::Log,
            _ => At::Apply,
        }
    }

    /// A sync under the commit lock failed.
    pub(super) fn fail_section(&mut self, index: usize, fault: Fault) {
        let mut next = self.processes[index];
        match next.at {
            At::SyncJournal => sync(self.journal.iter_mut().map(|line| &mut line.page), Page::Lost),
            At::SyncLog => self.sync_log(next.new, usize::MAX, Page::Lost),
            _ => {
                // The names stay in doubt until there is a new log.
                self.names_dirty = false;
                next.known.log_doubt |= fault != Fault::LogDoubtForgotten;
                self.store(&next);
            }
        }
        next.new = NO_LOG;
        if (next.then, next.task) == (Then::Apply, Task::Bring) && !next.synced {
            // Still visible: calls without a sync continue.
            next.known.log_doubt |= fault != Fault::LogDoubtForgotten;
            self.store(&next);
            self.excused = true;
            next.at = At::Apply;
            self.processes[index] = next;
            return;
        }
        self.processes[index] = next;
        self.give_up(index);
    }

    /// The call under the commit lock returns an error.
    fn give_up(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if process.leads && process.task == Task::Bring {
            // Each caller reports it separately.
            (process.in_commit, process.at) = (false, At::WriteNote);
            process.known = Known::default();
        } else {
            self.end(index);
        }
    }

    /// What the call wants, after recovery.
    pub(super) fn work(&mut self, next: &mut Process, fault: Fault) -> At {
        let is_same = self.named() == next.log;
        match next.task {
            Task::Append if next.known.log_doubt => self.checkpoint(next, Then::Log),
            Task::Append => At::Log,
            Task::Bring if !next.synced && is_same && fault != Fault::NoNewLog => {
                self.checkpoint(next, Then::Apply)
            }
            Task::Bring => At::Apply,
            Task::Renew if is_same => self.checkpoint(next, Then::Apply),
            Task::Renew => Self::leave(next, fault),
        }
    }

    /// Writes the record of a batch after the last record that counts.
    pub(super) fn log_batch(&mut self, next: &mut Process) -> At {
        self.batches += 1;
        next.batch = self.batches;
        let named = self.named();
        let log = &mut self.logs[named];
        log.records.truncate(usize::from(next.known.newest + 1 - log.first));
        log.records.push(Record { batch: next.batch, page: Page::Dirty });
        At::Count
    }

    pub(super) fn count(&mut self, next: &mut Process) -> At {
        next.known.newest += 1;
        self.store(next);
        (next.mine, next.log) = (next.known.newest, self.named());
        (next.in_commit, next.known) = (false, Known::default());
        At::ReadNote
    }

    /// `Writer::apply`. A name in doubt is not synced again: a new log gets it.
    pub(super) fn apply(&mut self, next: &mut Process, fault: Fault) -> At {
        let Known { placed, newest, named, log_doubt, .. } = next.known;
        let last = if next.task == Task::Renew { newest } else { next.reach };
        if placed >= last.min(newest) {
            Self::leave(next, fault)
        } else if named {
            At::Applying
        } else if log_doubt && fault != Fault::NameSyncedAgain {
            self.checkpoint(next, Then::Applying)
        } else {
            next.then = Then::Applying;
            At::SyncNames
        }
    }

    pub(super) fn begin_apply(&mut self, next: &mut Process) -> At {
        let newest = next.known.newest;
        next.known.applying =
            if next.task == Task::Renew { newest } else { next.reach.min(newest) };
        self.store(next);
        At::Push
    }

    /// One line of the text; after the last one the batches are placed.
    pub(super) fn push(&mut self, next: &mut Process, fault: Fault) -> At {
        let alone =
            fault == Fault::OwnBatchOnly && next.task == Task::Bring && next.then != Then::Place;
        let is_mine = |line: &Line| line.number == next.mine;
        let is_done = if alone {
            self.journal.iter().filter(|line| is_mine(line)).count() == 2
        } else {
            self.journal.len() >= 2 * usize::from(next.known.applying)
        };
        if is_done {
            (next.known.placed, next.known.applying) = (next.known.applying, 0);
            self.store(next);
            return if next.then == Then::Place { At::Work } else { Self::leave(next, fault) };
        }
        let behind = u8::try_from(self.journal.len() / 2).expect("few batches") + 1;
        let number = if alone { next.mine } else { behind };
        let log = &self.logs[self.named()];
        let record = log.records.get(usize::from(number - log.first));
        let batch = record.map_or(0, |record| record.batch);
        self.journal.push(Line { number, batch, page: Page::Dirty });
        At::Push
    }

    /// The work under the commit lock is done.
    fn leave(next: &mut Process, fault: Fault) -> At {
        (next.in_commit, next.known) = (false, Known::default());
        if next.leads && fault == Fault::JournalFirst && next.covered == 0 {
            return At::SyncBegin;
        }
        if next.task == Task::Renew {
            next.synced = true;
        }
        if next.leads { At::WriteNote } else { At::Settle }
    }
}

fn sync<'a>(pages: impl Iterator<Item = &'a mut Page>, to: Page) {
    pages.filter(|page| **page == Page::Dirty).for_each(|page| *page = to);
}
