//! The steps of an append, and what a failed sync, a death and a power loss leave.

use std::ops::RangeInclusive;

use super::state::{At, IDLE, Note, Page, Process, State};
use super::{Appending, Fault};

impl State {
    pub(super) fn new(model: &Appending) -> Self {
        Self {
            processes: vec![Process { batches: model.batches, ..IDLE }; model.processes],
            log: Vec::new(),
            counted: 0,
            lines: 0,
            begun: false,
            note: Note::default(),
            late: Note::default(),
            marks: 0,
            applied_lost: false,
            failures: 0,
            kills: model.kills,
            sync_errors: model.sync_errors,
            power_losses: model.power_losses,
            acked: 0,
            lost: false,
            torn: false,
            served: false,
            rolled_forward: false,
        }
    }

    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn can_step(&self, index: usize) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::Idle => false,
            At::WaitLog
            | At::WaitMark
            | At::WaitRewrite
            | At::WaitMend
            | At::WaitUnmark
            | At::WaitLate
            | At::WaitApply => !self.processes.iter().any(|other| other.in_commit),
            At::Follow => !self.is_led(process.generation),
            _ => true,
        }
    }

    /// Who may give up waiting: a follower whose leader is slow, and a leader that
    /// would let others in.
    pub(super) fn may_lose_patience(&self, index: usize) -> bool {
        let process = &self.processes[index];
        match process.at {
            At::Follow => true,
            At::WaitApply => process.leads && !self.can_step(index),
            _ => false,
        }
    }

    pub(super) fn lose_patience(&mut self, index: usize) {
        let newest = self.counted;
        let process = &mut self.processes[index];
        if process.at == At::WaitApply {
            process.at = At::NoteSuccess; // Each of the others finds out, and does it.
            return;
        }
        // Nothing is known of the syncs of others, so this one relies on none of them.
        (process.alone, process.at) = (true, At::WaitMark);
        process.reach = newest.max(process.mine);
    }

    /// Whether somebody holds the lock of this generation: two files alternate.
    fn is_led(&self, generation: u8) -> bool {
        let same = |other: &Process| other.leads && other.generation % 2 == generation % 2;
        self.processes.iter().any(same)
    }

    pub(super) fn end(&mut self, index: usize) {
        let batches = self.processes[index].batches;
        self.processes[index] = Process { batches, ..IDLE };
    }

    /// How many entries of the log a power loss can leave: the chain ends at the first hole.
    pub(super) fn log_can_keep(&self) -> RangeInclusive<usize> {
        let run = |pages: &[Page]| {
            self.log.iter().position(|page| !pages.contains(page)).unwrap_or(self.log.len())
        };
        run(&[Page::Durable])..=run(&[Page::Durable, Page::Dirty])
    }

    /// The machine restarts and recovers: the log is rolled forward, the rest is what is in the journal.
    pub(super) fn lose_power(&mut self, log: usize, lines: usize) {
        self.power_losses -= 1;
        let survives = |batch: usize| batch < log || lines >= 2 * (batch + 1);
        self.lost |= (0..8).any(|batch| self.acked >> batch & 1 == 1 && !survives(batch));
        self.torn |= lines % 2 == 1 && lines / 2 >= log && !self.applied_lost;
        let batches = log.max(lines / 2);
        self.rolled_forward |= (0..log).any(|batch| self.acked >> batch & 1 == 0);
        for index in 0..self.processes.len() {
            self.end(index);
        }
        self.log = vec![Page::Durable; batches];
        (self.counted, self.lines, self.begun) = (batches, 2 * batches, false);
        (self.note, self.late) = (Note::default(), Note::default());
        (self.marks, self.failures, self.applied_lost) = (0, 0, false);
    }

    pub(super) fn fail_sync(&mut self, index: usize, fault: Fault) {
        self.sync_errors -= 1;
        self.failures += 1;
        let covered = self.processes[index].covered;
        for page in &mut self.log[..covered] {
            if *page == Page::Dirty {
                *page = Page::Lost;
            }
        }
        self.report_failure(index, fault);
    }

    /// `write_again`: the pages are dirty once more, so the next sync means what it says.
    fn write_again(&mut self) {
        self.log.iter_mut().filter(|page| **page == Page::Lost).for_each(|page| {
            *page = Page::Dirty;
        });
    }

    /// The pages are written again, then the note; the batch is answered `not_durable`.
    fn report_failure(&mut self, index: usize, fault: Fault) {
        let process = &mut self.processes[index];
        process.reported = self.failures;
        process.failed = true;
        process.at = At::WaitMend;
        if fault == Fault::FailureForgotten {
            self.note.began = false;
            self.end(index);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per step, in the order of the protocol")]
    pub(super) fn step(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        let mut next = process;
        next.at = match process.at {
            At::Idle => At::Idle,
            At::WaitLog => {
                next.in_commit = true;
                if self.begun { At::Recover } else { At::Log }
            }
            At::Recover => {
                // A process died while it wrote to the journal: the log is synced, then the rest follows;
                // also what an earlier sync has lost without this one noticing.
                self.applied_lost |= self.log.contains(&Page::Lost);
                self.log.iter_mut().filter(|page| **page == Page::Dirty).for_each(|page| {
                    *page = Page::Durable;
                });
                (self.lines, self.begun) = (2 * self.counted, false);
                At::Log
            }
            At::Log => {
                self.log.truncate(self.counted);
                self.log.push(Page::Dirty);
                At::Count
            }
            At::Count => {
                self.counted += 1;
                (next.mine, next.in_commit) = (self.counted, false);
                match fault {
                    Fault::AckBeforeSync => {
                        self.acked |= 1 << (next.mine - 1);
                        At::Open
                    }
                    Fault::JournalFirst => {
                        next.reach = next.mine;
                        At::WaitApply
                    }
                    _ => At::Open,
                }
            }
            At::Open => {
                next.reported = self.failures; // What failed before is not told to a file opened now.
                At::ReadNote
            }
            At::ReadNote => return self.read_note(index, fault),
            At::TryLead if self.is_led(process.generation) => At::Follow,
            At::TryLead => {
                next.leads = true;
                At::ReadAgain
            }
            At::ReadAgain if self.note.generation != process.generation => {
                next.leads = false;
                At::ReadNote
            }
            At::ReadAgain => At::MarkBegan,
            At::MarkBegan => {
                next.doubt = self.note.began;
                self.note.began = true;
                // Two steps of the code: what is marked shows to nobody before our end.
                next.reach = self.counted.max(process.mine);
                At::LookForOthers
            }
            At::LookForOthers => {
                let doubt = (process.doubt || self.marks > 0) && fault != Fault::NoDoubt;
                next.doubt = false;
                if doubt { At::WaitRewrite } else { At::SyncBegin }
            }
            At::WaitMark => {
                next.in_commit = true;
                At::Mark
            }
            At::Mark => {
                self.marks += u8::from(fault != Fault::Unmarked);
                next.in_commit = false;
                if fault == Fault::NoDoubt { At::SyncBegin } else { At::WaitRewrite }
            }
            At::WaitRewrite => {
                next.in_commit = true;
                At::Rewrite
            }
            At::Rewrite => {
                self.write_again();
                next.in_commit = false;
                At::SyncBegin
            }
            At::SyncBegin => {
                next.covered = self.log.len();
                At::SyncEnd
            }
            At::SyncEnd if process.reported < self.failures => {
                return self.report_failure(index, fault);
            }
            At::SyncEnd => {
                for page in &mut self.log[..process.covered] {
                    if *page == Page::Dirty {
                        *page = Page::Durable;
                    }
                }
                if process.alone {
                    next.reach = process.mine;
                    At::WaitUnmark
                } else {
                    At::WaitApply // For everybody, before it wakes them.
                }
            }
            At::WaitUnmark => {
                next.in_commit = true;
                At::Unmark
            }
            At::Unmark => {
                self.marks -= u8::from(fault != Fault::Unmarked);
                next.in_commit = false;
                At::WaitApply
            }
            At::WaitMend => {
                next.in_commit = true;
                At::Mend
            }
            At::Mend => {
                self.write_again();
                next.in_commit = false;
                if process.alone { At::WaitLate } else { At::NoteFailure }
            }
            At::WaitLate => {
                next.in_commit = true;
                At::NoteLate
            }
            At::NoteLate => {
                // What came after our sync had begun is told by the mark, which stays.
                self.late.add_failed(process.mine.min(self.note.synced + 1), process.reach);
                next.in_commit = false;
                return self.answer_failure(index, next, fault);
            }
            At::NoteFailure => {
                // `began` stays: the next leader cannot rely on these pages.
                self.note.add_failed(self.note.synced + 1, process.reach);
                self.note.generation += 1;
                next.leads = false;
                return self.answer_failure(index, next, fault);
            }
            At::NoteSuccess => {
                let late = fault == Fault::ReachReadAfterSync;
                let reach = if late { self.counted } else { process.reach };
                self.note.synced = reach;
                self.note.generation += 1;
                self.note.began = false;
                (next.leads, next.reach) = (false, reach);
                At::WaitApply
            }
            At::Follow if fault == Fault::BelievesLeader => {
                next.reach = process.mine;
                At::WaitApply
            }
            At::Follow => At::ReadNote,
            At::WaitApply => {
                next.in_commit = true;
                if self.begun { At::Apply } else { At::BeginApply }
            }
            At::BeginApply if self.lines >= 2 * process.reach => return self.finish(index, fault),
            At::BeginApply => {
                self.begun = true;
                At::Apply
            }
            At::Apply if self.lines >= 2 * process.reach => {
                self.begun = false;
                return self.finish(index, fault);
            }
            At::Apply => {
                self.lines += 1;
                At::Apply
            }
        };
        self.processes[index] = next;
    }

    /// `Note::answers`.
    fn read_note(&mut self, index: usize, fault: Fault) {
        let (note, mut next) = (self.note, self.processes[index]);
        if note.has_failed(next.mine) || self.late.has_failed(next.mine) {
            next.failed = true;
            return self.answer_failure(index, next, fault);
        }
        if note.synced >= next.mine {
            self.served = true;
            if !self.begun && self.lines >= 2 * next.mine {
                // The head says that the leader has let it in: no lock is needed.
                self.acked |= 1 << (next.mine - 1);
                return self.end(index);
            }
            (next.reach, next.at) = (note.synced, At::WaitApply);
        } else {
            (next.generation, next.at) = (note.generation, At::TryLead);
        }
        self.processes[index] = next;
    }

    /// `not_durable`: the batch is in the log, and nobody was promised anything.
    fn answer_failure(&mut self, index: usize, next: Process, fault: Fault) {
        self.processes[index] = next;
        if fault == Fault::AppliedUnsynced {
            (self.processes[index].reach, self.processes[index].at) = (next.mine, At::WaitApply);
        } else {
            self.end(index);
        }
    }

    fn finish(&mut self, index: usize, fault: Fault) {
        let process = self.processes[index];
        if fault == Fault::JournalFirst && process.generation == 0 && process.covered == 0 {
            // Now the sync, after the journal.
            self.processes[index].in_commit = false;
            self.processes[index].at = At::ReadNote;
            return;
        }
        if process.leads {
            self.processes[index].in_commit = false;
            self.processes[index].at = At::NoteSuccess;
            return;
        }
        if !process.failed {
            self.acked |= 1 << (process.mine - 1);
        }
        self.end(index);
    }
}
