//! What the model of an append knows: processes, the log and its pages, the notes, the journal.

/// A log entry in the page cache, and what the disk has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Page {
    Dirty,
    Durable,
    /// A sync failed: the kernel believes it to be clean, the disk does not have it.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Idle,
    WaitLog,
    Recover,
    Log,
    Count,
    Open,
    ReadNote,
    TryLead,
    ReadAgain,
    MarkBegan,
    LookForOthers,
    WaitMark,
    Mark,
    WaitRewrite,
    Rewrite,
    SyncBegin,
    SyncEnd,
    WaitMend,
    Mend,
    WaitUnmark,
    Unmark,
    WaitLate,
    NoteLate,
    NoteFailure,
    NoteSuccess,
    Follow,
    WaitApply,
    BeginApply,
    Apply,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) at: At,
    pub(super) batches: u8,
    pub(super) in_commit: bool,
    /// The number of our batch, from 1.
    pub(super) mine: usize,
    /// The generation that we lead, or wait for.
    pub(super) generation: u8,
    pub(super) leads: bool,
    /// We sync for ourselves, out of patience.
    pub(super) alone: bool,
    /// An earlier sync may have failed without a word.
    pub(super) doubt: bool,
    /// How far our sync is to reach, as it was known before it.
    pub(super) reach: usize,
    /// How many entries were written when the sync began.
    pub(super) covered: usize,
    /// Failed syncs that our open file has reported, or that came before it was opened.
    pub(super) reported: u8,
    pub(super) failed: bool,
}

pub(super) const IDLE: Process = Process {
    at: At::Idle,
    batches: 0,
    in_commit: false,
    mine: 0,
    generation: 0,
    leads: false,
    alone: false,
    doubt: false,
    reach: 0,
    covered: 0,
    reported: 0,
    failed: false,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) generation: u8,
    pub(super) synced: usize,
    pub(super) failed_from: usize,
    pub(super) failed_to: usize,
    /// A sync is under way, or its leader died in it, or it failed.
    pub(super) began: bool,
}

impl Note {
    pub(super) fn add_failed(&mut self, from: usize, to: usize) {
        self.failed_from = if self.failed_from == 0 { from } else { self.failed_from.min(from) };
        self.failed_to = self.failed_to.max(to);
    }

    pub(super) fn has_failed(&self, mine: usize) -> bool {
        self.failed_from > 0 && (self.failed_from..=self.failed_to).contains(&mine)
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    pub(super) log: Vec<Page>,
    pub(super) counted: usize,
    /// Lines of the journal, in the page cache only.
    pub(super) lines: usize,
    pub(super) begun: bool,
    pub(super) note: Note,
    /// Failures of those who synced for themselves.
    pub(super) late: Note,
    /// How many sync for themselves, or died in that.
    pub(super) marks: u8,
    /// A recovery has written a batch to the journal whose sync had failed.
    pub(super) applied_lost: bool,
    pub(super) failures: u8,
    pub(super) kills: u8,
    pub(super) sync_errors: u8,
    pub(super) power_losses: u8,
    /// One bit per acknowledged batch.
    pub(super) acked: u8,
    pub(super) lost: bool,
    pub(super) torn: bool,
    pub(super) served: bool,
    pub(super) rolled_forward: bool,
}
