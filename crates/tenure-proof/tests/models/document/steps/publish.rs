//! The steps of a call, one arm each, in the order of the protocol.

use super::{Aim, At, File, Published, State, Synced};
use crate::document::{Fault, Publishing};

impl State {
    #[expect(clippy::too_many_lines, reason = "one arm per step, in the order of the protocol")]
    pub(in crate::document) fn step(&mut self, index: usize, model: Publishing) {
        let Publishing { fault, in_order, .. } = model;
        let process = self.processes[index];
        let mut next = process;
        next.at = match process.at {
            At::Idle => At::Idle,
            At::Wait => {
                next.in_commit = true;
                if fault == Fault::ReadOutsideLock { At::Temp } else { At::Read }
            }
            At::Read => {
                next.forget();
                next.replaced = false;
                (next.base, next.content) = (self.names.document, self.view());
                let is_sure =
                    self.record.synced == Synced::Yes && self.is_published(next.base, fault);
                match fault {
                    Fault::InPlace => return self.write_in_place(index),
                    _ if !State::is_whole(self.names.document) => {
                        next.aim = Aim::Restore;
                        let rescue = self.names.temp.is_some_and(|left| !left.cut);
                        let rescue = rescue && fault != Fault::LeftOverRemoved;
                        if rescue { At::Rescue } else { At::Temp }
                    }
                    _ if !process.repeated => At::Settle,
                    Fault::SyncedInPlace if !is_sure => At::SyncFound,
                    _ if is_sure || fault == Fault::RepeatNotSynced => At::Clear,
                    _ => {
                        next.aim = Aim::Anew;
                        At::Settle
                    }
                }
            }
            At::Rescue => {
                if self.is_copy(fault) {
                    self.rename(|names| names.temp = None);
                } else {
                    self.rename(|names| names.good = names.temp.take());
                }
                At::Temp
            }
            At::Settle if fault == Fault::FoundNotSettled => At::Temp,
            At::Settle => {
                let known = self.is_published(process.base, fault);
                if known && self.record.this_boot {
                    At::Temp
                } else if self.names.temp.is_some() && fault != Fault::RecordChanged {
                    self.clear_left_over(process.base, fault);
                    At::Settle
                } else {
                    let base = process.base.expect("a whole document");
                    let is_synced = known && self.record.synced == Synced::Yes;
                    let synced = if is_synced { Synced::Yes } else { Synced::Unknown };
                    let (content, file) = (base.content, base.id);
                    self.record = Published { content, file, synced, this_boot: true };
                    At::Temp
                }
            }
            At::Temp if self.names.temp.is_some() => {
                self.clear_left_over(process.base, fault);
                At::Temp
            }
            At::Temp => {
                let new = File::new(self.next_id, process.result());
                self.rename(|names| names.temp = Some(new));
                At::Sync
            }
            At::Sync => {
                let id = self.names.temp.expect("our temporary file").id;
                next.syncs = self.syncs(&process, fault);
                let skipped = matches!(fault, Fault::ContentNotSynced | Fault::OrderedLate);
                if next.syncs && !skipped {
                    self.sync_content(id, in_order);
                }
                if fault.is_unchecked() { At::Exchange } else { At::Compare }
            }
            At::Abandon => {
                self.rename(|names| names.temp = None);
                return self.end(index);
            }
            At::Compare if Self::same(self.names.document, process.base) => At::Exchange,
            At::Compare => {
                self.rename(|names| names.temp = None);
                return self.start_again(index);
            }
            At::Exchange if fault == Fault::PlainRename => {
                next.placed = self.names.temp;
                self.rename(|names| names.document = names.temp.take());
                self.published |= process.bit();
                At::Record
            }
            At::Exchange => {
                next.placed = self.names.temp;
                self.rename(|names| std::mem::swap(&mut names.document, &mut names.temp));
                match fault {
                    Fault::DisplacedNotChecked | Fault::ReadOutsideLock => At::Keep,
                    _ => At::Look,
                }
            }
            At::Look if Self::same(self.names.temp, process.base) => At::Keep,
            At::Look => At::GiveBack,
            At::GiveBack => {
                let displaced = self.names.temp;
                self.rename(|names| std::mem::swap(&mut names.document, &mut names.temp));
                if Self::same(self.names.temp, process.placed) {
                    self.rename(|names| names.temp = None);
                    return self.start_again(index);
                }
                // Another writer was faster again: the newest version is restored.
                next.placed = displaced;
                At::GiveBack
            }
            At::Keep => {
                self.published |= process.bit();
                if fault == Fault::OrderedLate {
                    let id = self.names.document.expect("our new version").id;
                    self.sync_content(id, in_order);
                }
                if self.keeps(&process, fault) {
                    self.rename(|names| names.good = names.temp.take());
                }
                At::Record
            }
            At::Record => {
                let synced = process.syncs && fault != Fault::ContentNotSynced;
                let synced = if synced { Synced::Yes } else { Synced::No };
                let file = process.placed.map_or(0, |placed| placed.id);
                let content = process.result();
                self.record = Published { content, file, synced, this_boot: true };
                At::Remove
            }
            At::Remove => {
                self.rename(|names| names.temp = None);
                next.content = process.result();
                next.forget();
                if process.aim == Aim::Restore {
                    At::Read
                } else {
                    next.in_commit = false;
                    if fault == Fault::AckBeforeNames {
                        self.acknowledge(&next);
                    } else if !process.durable {
                        return self.end(index);
                    }
                    At::SyncNames
                }
            }
            At::SyncNames => {
                self.sync_names();
                self.acknowledge(&process);
                return self.end(index);
            }
            At::Clear => {
                self.clear_left_over(process.base, fault);
                next.forget();
                next.in_commit = false;
                At::SyncNames
            }
            At::Doubt => {
                // Whichever version is there by now: publishing it again to a new file is always
                // safe. But a version that was displaced, by a change that died, is the last synced
                // version.
                if fault == Fault::DoubtsDisplaced || self.is_published(self.names.document, fault)
                {
                    self.record.synced = Synced::Unknown;
                }
                return self.end(index);
            }
            At::SyncFound => {
                let base = process.base.expect("what was found");
                self.sync_file(base.id);
                let (content, file) = (base.content, base.id);
                self.record = Published { content, file, synced: Synced::Yes, this_boot: true };
                next.in_commit = false;
                At::SyncNames
            }
        };
        self.processes[index] = next;
    }

    /// Whether the next step is a sync that may fail.
    pub(in crate::document) fn can_fail(&self, index: usize, fault: Fault) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::SyncFound | At::SyncNames => true,
            At::Sync => self.syncs(process, fault),
            _ => false,
        }
    }

    /// What was not on the disk before is lost: no later sync writes it.
    pub(in crate::document) fn fail(&mut self, index: usize) {
        self.failures -= 1;
        let process = self.processes[index];
        match process.at {
            At::Sync => {
                self.fail_sync(self.names.temp.map_or(0, |temp| temp.id));
                self.processes[index].at = At::Abandon;
            }
            At::SyncNames => self.processes[index].at = At::Doubt,
            _ => {
                self.fail_sync(process.base.map_or(0, |base| base.id));
                self.end(index);
            }
        }
    }

    /// Another writer replaced the document since it was read. The version that was to be published
    /// again is gone: such a call fails.
    fn start_again(&mut self, index: usize) {
        if self.processes[index].aim == Aim::Change {
            self.processes[index].at = At::Read;
        } else {
            self.end(index);
        }
    }
}
