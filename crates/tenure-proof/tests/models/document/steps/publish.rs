//! The steps of a call, one arm each, in the order of the protocol.

use super::{Aim, At, File, Published, State};
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
                match fault {
                    Fault::InPlace => return self.write_in_place(index),
                    _ if State::is_whole(self.names.document) => {
                        if process.repeated {
                            self.begin_repeat(&mut next, fault)
                        } else {
                            At::Settle
                        }
                    }
                    _ => {
                        next.aim = Aim::Restore;
                        let rescue = self.names.temp.is_some_and(|left| !left.cut);
                        let rescue = rescue && fault != Fault::LeftOverRemoved;
                        if rescue { At::Rescue } else { At::Temp }
                    }
                }
            }
            At::Rescue => {
                if self.is_copy(fault) {
                    self.rename(|names| names.temp = None);
                } else {
                    self.keep_left_over();
                }
                At::Temp
            }
            At::Settle if fault == Fault::FoundNotSettled => At::Temp,
            At::Settle => match process.base.filter(|base| base.content != self.record.content) {
                Some(base) if self.names.temp.is_some() => {
                    self.clear_left_over(Some(base), fault);
                    At::Settle
                }
                Some(base) => {
                    let (content, file) = (base.content, base.id);
                    self.record = Published { content, file, ..Published::default() };
                    At::Temp
                }
                None => At::Temp,
            },
            At::Temp if self.names.temp.is_some() => {
                self.clear_left_over(process.base, fault);
                At::Temp
            }
            At::Temp => {
                let new = File::new(self.next_id, process.result());
                self.rename(|names| names.temp = Some(new));
                if fault.is_unchecked() { At::Sync } else { At::KeepAs }
            }
            At::KeepAs => {
                next.syncs = self.syncs(&process, fault);
                next.keeps = self.keeps(&process, fault);
                let sync_first = !next.keeps && self.syncs_found(&process, fault);
                if sync_first { At::FoundRecord } else { At::Sync }
            }
            At::Sync => {
                let id = self.names.temp.expect("our temporary file").id;
                if fault != Fault::DecidedBefore {
                    next.syncs = self.syncs(&process, fault);
                }
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
                // Somebody was faster again: the newest one goes back.
                next.placed = displaced;
                At::GiveBack
            }
            At::Keep => {
                self.published |= process.bit();
                if fault == Fault::OrderedLate {
                    let id = self.names.document.expect("our new version").id;
                    self.sync_content(id, in_order);
                }
                if process.keeps {
                    self.rename(|names| names.good = names.temp.take());
                }
                At::Record
            }
            At::Record => {
                let synced = process.syncs && fault != Fault::ContentNotSynced;
                let file = process.placed.map_or(0, |placed| placed.id);
                let content = process.result();
                self.record = Published { content, file, synced, failed: false, this_boot: true };
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
            At::ClearLeftOver
            | At::FoundRecord
            | At::FoundSync
            | At::FoundNames
            | At::FoundDone
            | At::FoundFailed => return self.step_found(index, fault),
        };
        self.processes[index] = next;
    }

    /// Somebody replaced the document since it was read. What was to be published as it was is not there any
    /// more: such a call fails.
    fn start_again(&mut self, index: usize) {
        if self.processes[index].aim == Aim::Change {
            self.processes[index].at = At::Read;
        } else {
            self.end(index);
        }
    }
}
