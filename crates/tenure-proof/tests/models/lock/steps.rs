//! What a process does, one visible step at a time, and what a death or a power loss leaves.

use super::process::{At, Process, Record, Role};
use super::{Fault, Locking};

/// `FENCES_PER_SYNC`, small enough to be used up.
const BLOCK: u8 = 2;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    /// Which file the names refer to: a removal moves them to the next.
    pub(super) hold_name: u8,
    commit_name: u8,
    /// The record as all processes read it, the write before it, and what was synced (none: no
    /// name).
    record: Record,
    before: Record,
    durable: Option<Record>,
    /// The marks beside the record: the fence of the hold that ended, the fence that was published.
    ended: u8,
    told: u8,
    floor: u8,
    pub(super) children: u8,
    pub(super) kills: u8,
    pub(super) power_losses: u8,
    pub(super) prunes: u8,
    /// The largest fence that was ever handed out.
    newest: u8,
    pub(super) went_back: bool,
    pub(super) stale_write: bool,
    pub(super) touched_another: bool,
    pub(super) refused: bool,
}

impl State {
    pub(super) fn new(model: &Locking) -> Self {
        let process = Process {
            at: At::Idle,
            role: Role::Lock,
            rounds: model.rounds,
            hold: None,
            locked: false,
            commit: None,
            in_commit: false,
            seen: Record::default(),
            fence: 0,
            told: false,
            kept_hold: None,
            kept_commit: None,
        };
        Self {
            processes: vec![process; model.processes],
            hold_name: 0,
            commit_name: 0,
            record: Record::default(),
            before: Record::default(),
            durable: None,
            ended: 0,
            told: 0,
            floor: 0,
            children: model.children,
            kills: model.kills,
            power_losses: model.power_losses,
            prunes: model.prunes,
            newest: 0,
            went_back: false,
            stale_write: false,
            touched_another: false,
            refused: false,
        }
    }

    pub(super) fn count(&self, what: impl Fn(&Process) -> bool) -> usize {
        self.processes.iter().filter(|process| what(process)).count()
    }

    /// Whether the process can do its next step now: the kernel makes it wait for a lock.
    pub(super) fn can_step(&self, _: &Locking, index: usize) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::Idle => false,
            At::WaitHold => self.count(|other| other.locked && other.hold == process.hold) == 0,
            At::WaitCommit => {
                self.count(|other| other.in_commit && other.commit == process.commit) == 0
            }
            _ => true,
        }
    }

    pub(super) fn begin(&mut self, model: &Locking, index: usize, lock: bool) {
        let process = &mut self.processes[index];
        process.rounds -= 1;
        process.role = if lock { Role::Lock } else { Role::Write };
        process.fence = 0;
        let inverted = model.fault == Fault::CommitLockBeforeHold && !lock;
        process.at = if inverted { At::OpenCommit } else { At::OpenHold };
    }

    /// The holder gives a child its fence: the mark first.
    pub(super) fn start_child(&mut self, model: &Locking, index: usize) {
        self.children -= 1;
        if model.fault != Fault::ToldWithoutMark {
            self.told = self.processes[index].fence;
            self.processes[index].told = true;
        }
        let mut child = Process { at: At::OpenCommit, role: Role::Proven, ..self.processes[index] };
        (child.hold, child.locked, child.rounds) = (None, false, 0);
        (child.kept_hold, child.kept_commit) = (None, None);
        self.processes.push(child);
    }

    /// Whether the record names a hold that has not ended.
    fn is_held(&self) -> bool {
        self.record.held && self.ended != self.record.fence
    }

    pub(super) fn begin_prune(&mut self, index: usize) {
        self.prunes -= 1;
        self.processes[index].role = Role::Prune;
        self.processes[index].at = At::OpenCommit;
    }

    pub(super) fn kill(&mut self, index: usize) {
        self.kills -= 1;
        self.end(index);
        self.forget(index);
    }

    /// A new process: it knows of no hold and has nothing open.
    fn forget(&mut self, index: usize) {
        let process = &mut self.processes[index];
        (process.fence, process.kept_hold, process.kept_commit) = (0, None, None);
    }

    /// Everything that the process had open is closed; the kernel releases its locks.
    fn end(&mut self, index: usize) {
        let process = &mut self.processes[index];
        (process.hold, process.locked, process.commit, process.in_commit) =
            (None, false, None, false);
        (process.at, process.role, process.seen) = (At::Idle, Role::Lock, Record::default());
        process.told = false;
    }

    pub(super) fn lose_power(&mut self, kept: usize) {
        self.power_losses -= 1;
        for index in 0..self.processes.len() {
            self.end(index);
            self.forget(index);
        }
        self.record = match (kept, self.durable) {
            (0, synced) => synced.unwrap_or_default(),
            (1, _) => self.before,
            _ => self.record,
        };
        // Found under another boot: no lock in it is running, and `confirmed` does not count any
        // more.
        self.record.unbound = self.record != Record::default();
        self.record.confirmed = 0;
        (self.before, self.durable) = (self.record, Some(self.record));
    }

    fn write_record(&mut self, index: usize, record: Record) {
        // A process that has the commit file of a removed key open writes to an unlinked file.
        let process = &self.processes[index];
        if process.commit.is_none_or(|file| file == self.commit_name) {
            self.before = self.record;
            self.record = Record { unbound: false, ..record };
        }
    }

    fn leave_commit(&mut self, index: usize) {
        self.processes[index].commit = None;
        self.processes[index].in_commit = false;
    }

    /// A second release: the handle is gone, so there is nothing to do (G11).
    pub(super) fn release_again(&mut self, model: &Locking, index: usize) {
        let mine = std::mem::take(&mut self.processes[index].fence);
        if model.fault != Fault::ReleaseByName {
            return;
        }
        self.touched_another |= self.is_held() && self.record.fence != mine;
        self.record.held = false;
        for process in &mut self.processes {
            process.locked &= process.hold != Some(self.hold_name) || !process.has_hold();
        }
    }

    pub(super) fn step(&mut self, model: &Locking, index: usize) {
        let fault = model.fault;
        let process = self.processes[index];
        let mut next = process;
        next.at = match process.at {
            At::Idle => At::Idle,
            At::OpenHold => {
                next.hold = next.kept_hold.take().or(Some(self.hold_name));
                At::WaitHold
            }
            At::WaitHold => {
                next.locked = true;
                if fault == Fault::NoCheckOfName { At::ReadRecord } else { At::CheckHold }
            }
            At::CheckHold if process.hold == Some(self.hold_name) => At::ReadRecord,
            At::CheckHold => {
                (next.hold, next.locked) = (None, false);
                At::OpenHold
            }
            At::ReadRecord => {
                next.seen = self.record;
                match process.role {
                    // The inverted order: the commit lock is ours already.
                    Role::Write if process.in_commit => At::Publish,
                    Role::Lock if !self.is_held() => At::Draw,
                    Role::Lock if fault == Fault::NoCommitLockAfterDeath => At::Draw,
                    _ => At::OpenCommit,
                }
            }
            At::OpenCommit => {
                next.commit = next.kept_commit.take().or(Some(self.commit_name));
                next.seen = self.record; // Only the broken check before the lock uses it.
                At::WaitCommit
            }
            At::WaitCommit => {
                next.in_commit = true;
                At::CheckCommit
            }
            At::CheckCommit if process.commit == Some(self.commit_name) => At::UnderCommit,
            At::CheckCommit => {
                (next.commit, next.in_commit) = (None, false);
                At::OpenCommit
            }
            At::UnderCommit => return self.under_commit(fault, index),
            At::Draw => return self.draw(fault, index),
            At::SyncRecord => {
                if fault != Fault::FencesNotSynced {
                    self.durable = Some(self.record);
                }
                next.seen.confirmed = next.seen.ceiling;
                At::Grant
            }
            At::Grant => return self.grant(index),
            At::Holding => {
                next.role = Role::Release;
                let alone = !process.told || fault == Fault::ToldEndsWithoutCommitLock;
                if alone { At::End } else { At::OpenCommit }
            }
            At::End => {
                self.ended = process.fence;
                At::Unlock
            }
            At::Publish => {
                self.stale_write |= process.role == Role::Proven && process.fence < self.newest;
                At::Unlock
            }
            At::RaiseFloor => {
                if fault != Fault::NoFloor {
                    self.floor = self.floor.max(self.record.ceiling).max(self.record.fence);
                }
                At::UnlinkCommit
            }
            At::UnlinkCommit => {
                self.commit_name += 1;
                (self.before, self.record) = (self.record, Record::default());
                (self.ended, self.told) = (0, 0);
                At::UnlinkHold
            }
            At::UnlinkHold => {
                self.hold_name += 1;
                At::Unlock
            }
            At::Unlock => {
                let fence = if process.role == Role::Release { process.fence } else { 0 };
                self.end(index);
                self.processes[index].fence = fence;
                self.processes[index].kept_hold = process.hold;
                self.processes[index].kept_commit = process.commit;
                return;
            }
        };
        self.processes[index] = next;
    }

    /// The critical section: everything about the record is read again here.
    fn under_commit(&mut self, fault: Fault, index: usize) {
        let process = self.processes[index];
        let at = match process.role {
            Role::Lock => {
                self.processes[index].seen = self.record;
                At::Draw
            }
            Role::Write if !process.locked => At::OpenHold, // Only in the inverted order.
            Role::Write => {
                if self.is_held() {
                    self.write_record(index, Record { held: false, ..self.record });
                }
                At::Publish
            }
            Role::Proven => {
                let early = fault == Fault::CheckedBeforeCommitLock;
                let seen = if early { process.seen } else { self.record };
                let told = self.told == process.fence || fault == Fault::ToldWithoutMark;
                let held = seen.held && self.ended != seen.fence && told;
                let current = held && seen.fence == process.fence && !seen.unbound;
                self.refused |= !current;
                if current { At::Publish } else { At::Unlock }
            }
            Role::Release => {
                self.ended = process.fence;
                At::Unlock
            }
            Role::Prune => At::RaiseFloor,
        };
        self.processes[index].at = at;
    }

    /// `Seen::draw`: up to `confirmed` without a sync, beyond it a block is reserved first.
    fn draw(&mut self, fault: Fault, index: usize) {
        let mut seen = self.processes[index].seen;
        let newest = if seen.confirmed == 0 {
            seen.fence.max(seen.ceiling).max(self.floor)
        } else {
            seen.fence
        };
        let fence = newest + 1;
        self.processes[index].fence = fence;
        if fence <= seen.confirmed {
            self.processes[index].at = At::Grant;
            return;
        }
        seen.ceiling = fence + BLOCK;
        seen.confirmed = if fault == Fault::ConfirmedBeforeSync { seen.ceiling } else { 0 };
        seen.held &= !seen.unbound;
        self.write_record(index, seen);
        self.processes[index].seen = seen;
        self.processes[index].at = At::SyncRecord;
    }

    /// The record names the hold, the commit lock (if it was needed) is released.
    fn grant(&mut self, index: usize) {
        let process = self.processes[index];
        let granted = Record { fence: process.fence, held: true, ..process.seen };
        self.write_record(index, granted);
        self.went_back |= process.fence <= self.newest;
        self.newest = self.newest.max(process.fence);
        self.leave_commit(index);
        self.processes[index].seen = Record::default();
        self.processes[index].at = At::Holding;
    }
}
