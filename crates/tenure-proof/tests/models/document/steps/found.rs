//! Syncing a version that somebody else wrote, or that was published without a sync (`durable::sync_found`); the
//! call that changes nothing, which does that first of all; and syncs that fail.

use super::{Aim, At, Process, State};
use crate::document::Fault;

impl State {
    /// `unchanged`, `make_durable` and `sync_as_it_is`: where a call begins that found what it wanted.
    pub(super) fn begin_repeat(&self, next: &mut Process, fault: Fault) -> At {
        let known = next.base.is_some_and(|base| self.is_published(base, fault));
        if fault == Fault::RepeatNotSynced || (known && self.record.synced) {
            next.forget();
            next.in_commit = false;
            return At::SyncNames;
        }
        if known && self.record.failed && fault != Fault::FailedIsBelieved {
            next.aim = Aim::Anew;
            return At::Temp;
        }
        if self.names.temp.is_some() { At::ClearLeftOver } else { At::FoundRecord }
    }

    pub(super) fn step_found(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        let base = process.base.expect("what was found");
        self.processes[index].at = match process.at {
            At::ClearLeftOver => {
                if fault == Fault::RecordChanged && !self.is_published(base, fault) {
                    self.rename(|names| names.temp = None);
                } else {
                    self.clear_left_over(Some(base), fault);
                }
                At::FoundRecord
            }
            At::FoundRecord => {
                (self.record.content, self.record.file) = (base.content, base.id);
                (self.record.synced, self.record.failed) = (false, fault != Fault::DoubtNotedLate);
                At::FoundSync
            }
            At::FoundSync => {
                self.sync_file(base.id);
                if fault == Fault::FoundNameNotSynced { At::FoundDone } else { At::FoundNames }
            }
            At::FoundNames => {
                self.sync_names();
                At::FoundDone
            }
            At::FoundDone => {
                (self.record.synced, self.record.failed) = (true, false);
                if process.repeated {
                    self.acknowledge(&process);
                    return self.end(index);
                }
                self.processes[index].keeps = true;
                At::Sync
            }
            _ => {
                self.record.failed = true;
                return self.leave_in_doubt(index);
            }
        };
    }

    /// The record says already that it is.
    fn leave_in_doubt(&mut self, index: usize) {
        if self.processes[index].repeated {
            self.end(index);
        } else {
            self.processes[index].at = At::Sync;
        }
    }

    /// Whether the next step is a sync that may fail. A failed one of the shared sync of names is like a death there.
    pub(in crate::document) fn can_fail(&self, index: usize, fault: Fault) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::FoundSync | At::FoundNames => true,
            At::Rescue => !self.is_copy(fault),
            At::Sync => process.durable || self.syncs(process, fault),
            At::ClearLeftOver | At::Temp => self.keeps_left_over(fault),
            At::Settle => {
                let unknown = process.base.is_some_and(|base| base.content != self.record.content);
                unknown && self.keeps_left_over(fault)
            }
            _ => false,
        }
    }

    /// What was not on the disk before is not there now, and nobody will write it.
    pub(in crate::document) fn fail(&mut self, index: usize, fault: Fault) {
        self.failures -= 1;
        let process = self.processes[index];
        let found = process.base.map_or(0, |base| base.id);
        let temp = self.names.temp.map_or(0, |temp| temp.id);
        match process.at {
            At::FoundSync | At::FoundNames => {
                if process.at == At::FoundSync {
                    self.fail_sync(found);
                }
                if fault == Fault::DoubtNotedLate {
                    self.processes[index].at = At::FoundFailed;
                } else {
                    self.leave_in_doubt(index);
                }
            }
            At::Sync => {
                self.fail_sync(temp);
                self.processes[index].at = At::Abandon;
            }
            // Of a left-over, which stays where it is.
            _ => {
                self.fail_sync(temp);
                self.end(index);
            }
        }
    }
}
