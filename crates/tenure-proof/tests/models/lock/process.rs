//! A process of the model: what it wants, what it has open, and which step comes next.

/// The record, as far as fences need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) fence: u8,
    pub(super) ceiling: u8,
    pub(super) confirmed: u8,
    pub(super) held: bool,
    /// Of an earlier boot: the next fence is raised above `ceiling` (R5).
    pub(super) unbound: bool,
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Idle,
    OpenHold,
    WaitHold,
    CheckHold,
    ReadRecord,
    OpenCommit,
    WaitCommit,
    CheckCommit,
    UnderCommit,
    Draw,
    SyncRecord,
    Grant,
    Holding,
    /// Ends a hold whose fence was not published, without the commit lock.
    End,
    Publish,
    RaiseFloor,
    UnlinkCommit,
    UnlinkHold,
    Unlock,
}

/// The reason why a process takes the commit lock, or all locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    Lock,
    Write,
    /// A child that writes with the fence of its parent.
    Proven,
    Release,
    Prune,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) at: At,
    pub(super) role: Role,
    pub(super) rounds: u8,
    /// The hold file that is open, and whether its lock is ours; the same for the commit file.
    pub(super) hold: Option<u8>,
    pub(super) locked: bool,
    pub(super) commit: Option<u8>,
    pub(super) in_commit: bool,
    pub(super) seen: Record,
    /// The fence of the present or last hold; 0 for none.
    pub(super) fence: u8,
    /// Whether a child got the fence.
    pub(super) told: bool,
    /// Files that stayed open from earlier turns, even if their names are gone.
    pub(super) kept_hold: Option<u8>,
    pub(super) kept_commit: Option<u8>,
}

impl Process {
    /// From the check of the name until the lock is released, or its file is gone for good.
    pub(super) fn has_hold(&self) -> bool {
        let waits = matches!(self.at, At::OpenHold | At::WaitHold | At::CheckHold);
        self.hold.is_some() && !waits && !(self.role == Role::Prune && self.at == At::Unlock)
    }
}
