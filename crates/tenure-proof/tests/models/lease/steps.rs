//! The calls on a lease, cut where others can intervene.

use super::{Fault, Leasing};

/// How long a lease lasts, in ticks of the boot clock.
const TTL: i8 = 2;

/// The expiry of a lease whose clock is gone; one that runs, or ran in this boot, ends later.
const NEVER: i8 = 0;

/// The record, as far as a lease needs it. The token stands for the fence it was granted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    fence: u8,
    leased: bool,
    token: u8,
    expires: i8,
    boot: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    Acquire,
    Renew,
    Release,
    TakeOver,
    /// A write that proves the lease by its fence.
    Proven,
    /// A write that proves nothing.
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Idle,
    WaitHold,
    FirstLook,
    WaitCommit,
    UnderCommit,
    NoteEvent,
    /// Reserves fences, the first time in a boot: writes the record as it was, bound to this boot.
    Reserve,
    Grant,
    Publish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) at: At,
    role: Role,
    has_hold: bool,
    has_commit: bool,
    /// Token and fence of the newest lease it got; 0 for none. It survives a restart, in a file.
    token: u8,
    pub(super) fence: u8,
}

/// The truth, independent of the record: the lease that was granted last and has not been ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Truth {
    fence: u8,
    ends: i8,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    pub(super) record: Record,
    pub(super) durable: Record,
    pub(super) now: i8,
    boot: u8,
    pub(super) wall_offset: i8,
    truth: Option<Truth>,
    /// The largest fence that was handed out.
    newest: u8,
    pub(super) calls: u8,
    pub(super) ticks: u8,
    pub(super) jumps: u8,
    pub(super) kills: u8,
    pub(super) reboots: u8,
    pub(super) events: u8,
    pub(super) takeovers: u8,
    pub(super) stale_write: bool,
    pub(super) theft: bool,
    pub(super) late_write: bool,
    pub(super) ended_another: bool,
    pub(super) refused: bool,
    pub(super) revived: bool,
    pub(super) redrawn: bool,
    pub(super) stepped_back: bool,
}

impl State {
    pub(super) fn new(model: &Leasing) -> Self {
        let process = Process {
            at: At::Idle,
            role: Role::Acquire,
            has_hold: false,
            has_commit: false,
            token: 0,
            fence: 0,
        };
        Self {
            processes: vec![process; model.processes],
            record: Record::default(),
            durable: Record::default(),
            now: 0,
            boot: 1,
            wall_offset: 0,
            truth: None,
            newest: 0,
            calls: model.calls,
            ticks: model.ticks,
            jumps: model.jumps,
            kills: model.kills,
            reboots: model.reboots,
            events: 0,
            takeovers: 0,
            stale_write: false,
            theft: false,
            late_write: false,
            ended_another: false,
            refused: false,
            revived: false,
            redrawn: false,
            stepped_back: false,
        }
    }

    pub(super) fn can_step(&self, index: usize) -> bool {
        match self.processes[index].at {
            At::Idle => false,
            At::WaitHold => !self.processes.iter().any(|process| process.has_hold),
            At::WaitCommit => !self.processes.iter().any(|process| process.has_commit),
            _ => true,
        }
    }

    pub(super) fn begin(&mut self, index: usize, role: Role, fault: Fault) {
        self.calls -= 1;
        let process = &mut self.processes[index];
        process.role = role;
        process.at = match role {
            Role::Acquire | Role::TakeOver | Role::Plain => At::WaitHold,
            Role::Renew | Role::Release | Role::Proven => At::WaitCommit,
        };
        debug_assert!(fault != Fault::None || process.fence <= self.newest);
    }

    /// The call is over, or the process is dead: its locks are free, its token is known.
    pub(super) fn end(&mut self, index: usize) {
        let process = &mut self.processes[index];
        (process.at, process.role) = (At::Idle, Role::Acquire);
        (process.has_hold, process.has_commit) = (false, false);
    }

    pub(super) fn reboot(&mut self, newest: bool) {
        self.reboots -= 1;
        for index in 0..self.processes.len() {
            self.end(index);
        }
        if !newest {
            self.record = self.durable;
        }
        self.durable = self.record;
        (self.now, self.boot, self.truth) = (0, self.boot + 1, None);
    }

    fn clock(&self, fault: Fault) -> i8 {
        if fault == Fault::WallClock { self.now + self.wall_offset } else { self.now }
    }

    fn is_bound(&self, fault: Fault) -> bool {
        self.record.boot == self.boot || fault == Fault::BootIgnored
    }

    /// `Seen::running_lease`.
    fn lease_runs(&self, fault: Fault) -> bool {
        self.record.leased && self.is_bound(fault) && self.record.expires > self.clock(fault)
    }

    fn truly_runs(&self) -> bool {
        self.truth.is_some_and(|truth| truth.ends > self.now)
    }

    fn write(&mut self, record: Record) {
        self.record = Record { boot: self.boot, ..record };
    }

    pub(super) fn step(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        let at = match process.at {
            At::Idle => At::Idle,
            At::WaitHold => {
                self.processes[index].has_hold = true;
                match process.role {
                    Role::TakeOver if fault == Fault::TakeOverWithoutCommitLock => At::NoteEvent,
                    Role::Acquire => At::FirstLook,
                    _ => At::WaitCommit,
                }
            }
            At::FirstLook if self.lease_runs(fault) => return self.end(index),
            At::FirstLook => At::WaitCommit,
            At::WaitCommit => {
                self.processes[index].has_commit = true;
                At::UnderCommit
            }
            At::UnderCommit => return self.under_commit(index, fault),
            At::NoteEvent => {
                self.events += 1;
                if fault == Fault::EventAfterEffect {
                    return self.end(index);
                }
                self.next_of_draw()
            }
            At::Reserve => {
                // Whatever its clock was, it does not run on ours.
                self.write(Record { expires: NEVER, ..self.record });
                At::Grant
            }
            At::Grant if process.role == Role::Renew => {
                self.redraw(index, fault);
                return self.end(index);
            }
            At::Grant => {
                self.grant(index, fault);
                if fault == Fault::EventAfterEffect && process.role == Role::TakeOver {
                    At::NoteEvent
                } else {
                    return self.end(index);
                }
            }
            At::Publish => {
                self.publish(process);
                return self.end(index);
            }
        };
        self.processes[index].at = at;
    }

    /// What is done under the commit lock, on a record that was read under it.
    fn under_commit(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        let second_look = fault != Fault::NoSecondLook;
        let at = match process.role {
            Role::Acquire | Role::Plain if second_look && self.lease_runs(fault) => {
                self.stepped_back |= process.role == Role::Acquire;
                return self.end(index);
            }
            Role::Acquire => self.next_of_draw(),
            Role::TakeOver if fault == Fault::EventAfterEffect => self.next_of_draw(),
            Role::TakeOver => At::NoteEvent,
            Role::Plain => {
                self.theft |= self.truly_runs();
                if self.record.leased {
                    self.truth = None;
                    self.write(Record { leased: false, ..self.record });
                }
                At::Publish
            }
            Role::Renew if !self.finds(process, fault == Fault::RenewByName) => {
                return self.end(index);
            }
            Role::Renew if self.is_of_another_boot(fault) => self.next_of_draw(),
            Role::Renew => {
                self.renew(process, fault);
                return self.end(index);
            }
            Role::Release => {
                self.release(process, fault);
                return self.end(index);
            }
            Role::Proven => {
                let in_time = self.lease_runs(fault)
                    || (fault == Fault::ExpiryNotChecked && self.record.leased);
                if process.fence != self.record.fence || !in_time {
                    self.refused = true;
                    return self.end(index);
                }
                self.late_write |= !self.truly_runs();
                At::Publish
            }
        };
        self.processes[index].at = at;
    }

    /// `grant`: a new fence, written into the record.
    fn grant(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        if process.role == Role::TakeOver {
            self.takeovers += 1;
        } else {
            self.theft |= self.truly_runs();
        }
        self.newest += 1;
        let (fence, expires) = (self.newest, self.clock(fault) + TTL);
        self.write(Record { fence, leased: true, token: fence, expires, boot: self.boot });
        self.truth = Some(Truth { fence, ends: self.now + TTL });
        (self.processes[index].token, self.processes[index].fence) = (fence, fence);
    }

    /// `Seen::draw`: the first process that draws in a boot reserves.
    fn next_of_draw(&self) -> At {
        if self.record.boot == self.boot { At::Grant } else { At::Reserve }
    }

    /// `find`: the record still names the token, in this boot or an earlier one.
    fn finds(&self, process: Process, by_name: bool) -> bool {
        self.record.leased && (by_name || self.record.token == process.token)
    }

    /// Whether a power loss may have lost a later grant: a process that died while it drew may have
    /// bound the record to this boot, but the lease has not run in it.
    fn is_of_another_boot(&self, fault: Fault) -> bool {
        match fault {
            Fault::RenewAcrossBoots | Fault::RenewByName => false,
            Fault::BoundByTheDead => self.record.boot != self.boot,
            _ => self.record.boot != self.boot || self.record.expires == NEVER,
        }
    }

    /// In its boot a lease keeps its fence.
    fn renew(&mut self, process: Process, fault: Fault) {
        self.revived |= !self.truly_runs();
        let expires = self.clock(fault) + TTL;
        // By name, the caller takes its own fence for the current one.
        let fence = if fault == Fault::RenewByName { process.fence } else { self.record.fence };
        self.write(Record { fence, expires, ..self.record });
        self.truth = Some(Truth { fence, ends: self.now + TTL });
    }

    /// A lease of another boot continues, under a new fence.
    fn redraw(&mut self, index: usize, fault: Fault) {
        self.redrawn = true;
        self.newest += 1;
        let (fence, expires) = (self.newest, self.clock(fault) + TTL);
        self.write(Record { fence, expires, ..self.record });
        self.truth = Some(Truth { fence, ends: self.now + TTL });
        self.processes[index].fence = fence;
    }

    fn release(&mut self, process: Process, fault: Fault) {
        if !self.finds(process, fault == Fault::ReleaseByName) {
            return;
        }
        let another = self.truth.is_some_and(|truth| truth.fence != process.fence);
        self.ended_another |= another;
        self.truth = None;
        self.write(Record { leased: false, ..self.record });
    }

    /// The write becomes visible. Its lease may have expired meanwhile, but no other process may
    /// have acquired it.
    fn publish(&mut self, process: Process) {
        if process.role != Role::Proven {
            return;
        }
        let current = self.truth.is_some_and(|truth| truth.fence == process.fence);
        self.stale_write |= !current || process.fence < self.newest;
    }
}
