//! One process that keeps a journal open on a stage: what it does step by step, what others do in
//! between, and what a step that is refused leaves.

use rustix::io::Errno;
use tenure::Journal;

use crate::faulty_fs::{Change, Op, Verdict};
use crate::journal_stage::{Stage, Step};

pub(crate) const LOOKED: Step = (Op::StatHandle, "journal");
pub(crate) const LOCKED: Step = (Op::Lock, "commit");
pub(crate) const RECORDED: Step = (Op::Write, "commit");
/// The first step of a shared sync: the batch is logged, and waits.
pub(crate) const SYNC_BEGINS: Step = (Op::Open(Change::Write), "sync0");

/// Numbers in a slot of the log.
pub(crate) const END: usize = 128;
pub(crate) const APPLIED: usize = 136;
pub(crate) const JOURNAL_END: usize = 152;
pub(crate) const NEXT_SEQ: usize = 160;

/// The process, and its stage.
pub(crate) struct Watched {
    pub(crate) stage: Stage,
    pub(crate) journal: Journal,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::on(Stage::new())
    }

    /// Another process with the same journal.
    pub(crate) fn beside(&self) -> Self {
        Self::on(self.stage.beside())
    }

    fn on(stage: Stage) -> Self {
        Self { journal: stage.journal(), stage }
    }

    /// Refuses the `nth` such step from now, or from the cue before.
    pub(crate) fn refuse(&self, step: Step, nth: usize) {
        self.stage.at(step, nth, || Verdict::Fail(Errno::IO.into()));
    }

    /// Somebody else appends right before the `nth` such step from now, or from the cue before.
    pub(crate) fn foreign_at(&self, step: Step, nth: usize, text: &'static str) {
        let stage = self.stage.clone();
        self.stage.at(step, nth, move || {
            stage.foreign(text);
            Verdict::Go
        });
    }

    /// Numbers in the newest slot of the log.
    pub(crate) fn head<const N: usize>(&self, at: [usize; N]) -> [u64; N] {
        at.map(|at| self.stage.in_head(at))
    }
}
