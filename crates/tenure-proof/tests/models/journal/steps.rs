//! The steps of a call: the order of an append, and the shared sync of `sync.rs`.
//!
//! # Invariants
//!
//! 1. The note is written only by the leader that holds the lock of its generation.

use super::Fault;
use super::state::{At, Note, Page, Process, State, Task, Then};

impl State {
    pub(super) fn can_step(&self, index: usize) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::Idle => false,
            At::WaitCommit => !self.processes.iter().any(|other| other.in_commit),
            At::Follow | At::WaitLead => !self.is_led(process.generation),
            _ => true,
        }
    }

    /// Whether the lock of this generation is taken: two files alternate.
    fn is_led(&self, generation: u8) -> bool {
        let is_same = |other: &Process| other.leads && other.generation % 2 == generation % 2;
        self.processes.iter().any(is_same)
    }

    /// A sync that can fail.
    pub(super) fn can_fail(&self, index: usize) -> bool {
        let syncs = [At::SyncJournal, At::SyncLog, At::SyncNames, At::SyncEnd];
        syncs.contains(&self.processes[index].at)
    }

    /// A caller that waits for a sync gives up at any time; a leader, when the commit lock is taken.
    pub(super) fn can_lose_patience(&self, index: usize) -> bool {
        let Process { at, leads, task, .. } = self.processes[index];
        match at {
            At::Follow | At::WaitLead => true,
            At::WaitCommit => leads && task == Task::Bring && !self.can_step(index),
            _ => false,
        }
    }

    pub(super) fn lose_patience(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if process.leads {
            process.at = At::WriteNote; // Each caller does it separately.
        } else {
            (process.task, process.at) = (Task::Renew, At::WaitCommit);
        }
    }

    /// The log has become long: a checkpoint comes before the batch.
    pub(super) fn make_room(&mut self, index: usize) {
        self.checkpoints -= 1;
        let mut next = self.processes[index];
        next.at = self.checkpoint(&mut next, Then::Log);
        self.processes[index] = next;
    }

    pub(super) fn fail_sync(&mut self, index: usize, fault: Fault) {
        self.sync_errors -= 1;
        let process = &mut self.processes[index];
        if process.at != At::SyncEnd {
            return self.fail_section(index, fault);
        }
        (process.task, process.synced, process.at) = (Task::Bring, false, At::WaitCommit);
        let Process { log, covered, .. } = *process;
        self.sync_log(log, covered, Page::Lost);
    }

    pub(super) fn step(&mut self, index: usize, fault: Fault) {
        let mut next = self.processes[index];
        next.at = match next.at {
            At::Idle => At::Idle,
            At::WaitCommit => {
                next.in_commit = true;
                At::Enter
            }
            At::Enter => self.enter(&mut next, fault),
            At::Work => self.work(&mut next, fault),
            At::Log => self.log_batch(&mut next),
            At::Count => {
                let at = self.count(&mut next);
                if fault == Fault::AckBeforeSync {
                    self.processes[index] = next;
                    self.acknowledge(index);
                }
                at
            }
            At::NoteJournal | At::SyncJournal | At::WriteLog | At::SyncLog | At::Rename => {
                self.step_checkpoint(&mut next, fault)
            }
            At::SyncNames => self.sync_names(&mut next, fault),
            At::Apply => self.apply(&mut next, fault),
            At::Applying => self.begin_apply(&mut next),
            At::Push => self.push(&mut next, fault),
            At::ReadNote => self.read_note(&mut next),
            At::Follow if fault == Fault::LeaderBelieved => {
                next.synced = true;
                At::Settle
            }
            At::Follow => {
                next.outlived = true; // If the note is still there, its leader died.
                At::ReadNote
            }
            At::WaitLead => {
                next.leads = true;
                At::Lead
            }
            At::Lead => self.lead(&mut next, fault),
            At::SyncBegin => {
                next.covered = self.logs[next.log].records.len().max(1);
                At::SyncEnd
            }
            At::SyncEnd => {
                self.sync_log(next.log, next.covered, Page::Durable);
                if fault == Fault::ReachReadLate {
                    next.reach = self.newest(next.log);
                }
                (next.task, next.synced) = (Task::Bring, true);
                At::WaitCommit
            }
            At::WriteNote => self.write_note(&mut next, fault),
            At::Settle => return self.settle(index, next),
        };
        self.processes[index] = next;
    }

    /// `Shared::newest`.
    fn newest(&self, log: usize) -> u8 {
        self.logs[log].known.map_or(0, |known| known.newest)
    }

    /// The note as it concerns `log`.
    fn note(&self, log: usize) -> Note {
        let Note { generation, subject, .. } = self.note;
        if subject == log {
            self.note
        } else {
            Note { generation, subject: log, ..Note::default() }
        }
    }

    fn read_note(&mut self, next: &mut Process) -> At {
        let note = self.note(next.log);
        if note.synced >= next.mine || note.doubt >= next.mine {
            next.synced = note.synced >= next.mine;
            self.served |= next.synced;
            return At::Settle;
        }
        next.outlived &= next.generation == note.generation;
        next.generation = note.generation;
        if note.began && !next.outlived { At::Follow } else { At::WaitLead }
    }

    /// The generation's lock is held.
    fn lead(&mut self, next: &mut Process, fault: Fault) -> At {
        let note = self.note(next.log);
        if note.generation != next.generation {
            next.leads = false;
            return At::ReadNote;
        }
        if self.named() != next.log || note.synced >= next.mine {
            // `is_renewed`: the log that replaced it was synced.
            (next.leads, next.synced) = (false, true);
            return At::Settle;
        }
        if (note.began || note.doubt > 0) && fault != Fault::SyncedAgain {
            next.task = Task::Renew;
            return At::WaitCommit;
        }
        self.note = Note { began: true, ..note };
        next.reach = self.newest(next.log).max(next.mine);
        if fault == Fault::JournalFirst {
            (next.task, next.synced, next.covered) = (Task::Bring, true, 0);
            return At::WaitCommit;
        }
        At::SyncBegin
    }

    /// The leader reports the result, and unlocks.
    fn write_note(&mut self, next: &mut Process, fault: Fault) -> At {
        let note = Note { generation: next.generation + 1, began: false, ..self.note(next.log) };
        self.note = match next.task {
            Task::Renew => Note { synced: next.mine, doubt: 0, ..note },
            _ if next.synced => Note { synced: next.reach, ..note },
            _ if fault == Fault::DoubtForgotten => note,
            _ => Note { doubt: next.reach, ..note },
        };
        next.leads = false;
        At::Settle
    }

    /// Usually the leader has written the batch to the journal, and a state says so.
    fn settle(&mut self, index: usize, mut next: Process) {
        let is_applied =
            |log: usize| self.logs[log].known.is_some_and(|known| known.placed >= next.mine);
        if is_applied(next.log) || is_applied(self.named()) {
            if next.synced {
                self.acknowledge(index);
            }
            return self.end(index);
        }
        (next.task, next.reach, next.at) = (Task::Bring, next.mine, At::WaitCommit);
        self.processes[index] = next;
    }
}
