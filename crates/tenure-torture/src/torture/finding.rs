//! What can be found, and where.

use tenure_cli::{LoadArg, ThingArg};

/// What is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Lock,
    Lease,
    Document,
    Journal,
    Collection,
    /// A user's own program.
    Command,
    /// The operations of a history.
    History,
    /// Other tools that append to a journal.
    Foreign,
    /// A second user.
    Users,
    /// A full disk.
    Full,
    /// A journal that cannot be replaced.
    Stuck,
}

impl Thing {
    /// What is tortured by default.
    pub(super) const ALL: [Self; 5] =
        [Self::Lock, Self::Lease, Self::Document, Self::Journal, Self::Collection];

    const NAMED: [Self; 11] = [
        Self::Lock,
        Self::Lease,
        Self::Document,
        Self::Journal,
        Self::Collection,
        Self::Command,
        Self::History,
        Self::Foreign,
        Self::Users,
        Self::Full,
        Self::Stuck,
    ];

    /// Its name, in tables and on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Lease => "lease",
            Self::Document => "doc",
            Self::Journal => "journal",
            Self::Collection => "collection",
            Self::Command => "command",
            Self::History => "history",
            Self::Foreign => "foreign",
            Self::Users => "users",
            Self::Full => "full",
            Self::Stuck => "stuck",
        }
    }

    /// The thing of that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|thing| thing.name() == name)
    }
}

impl From<ThingArg> for Thing {
    fn from(thing: ThingArg) -> Self {
        match thing {
            ThingArg::Lock => Self::Lock,
            ThingArg::Lease => Self::Lease,
            ThingArg::Document => Self::Document,
            ThingArg::Journal => Self::Journal,
            ThingArg::Collection => Self::Collection,
        }
    }
}

impl From<LoadArg> for Thing {
    fn from(load: LoadArg) -> Self {
        match load {
            LoadArg::Foreign => Self::Foreign,
            LoadArg::Users => Self::Users,
            LoadArg::Full => Self::Full,
            LoadArg::Stuck => Self::Stuck,
        }
    }
}

/// What must never happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    TwoHolders,
    Fence,
    Lost,
    Twice,
    Torn,
    Stale,
    Renumbered,
    Corrupt,
    LeftOver,
    /// No order of the operations explains the answers.
    Order,
    Stuck,
    Failed,
}

impl Fault {
    const ALL: [Self; 12] = [
        Self::TwoHolders,
        Self::Fence,
        Self::Lost,
        Self::Twice,
        Self::Torn,
        Self::Stale,
        Self::Renumbered,
        Self::Corrupt,
        Self::LeftOver,
        Self::Order,
        Self::Stuck,
        Self::Failed,
    ];

    /// A stable word for programs.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::TwoHolders => "two_holders",
            Self::Fence => "fence",
            Self::Lost => "lost_update",
            Self::Twice => "done_twice",
            Self::Torn => "torn_read",
            Self::Stale => "stale_read",
            Self::Renumbered => "renumbered",
            Self::Corrupt => "corrupt_file",
            Self::LeftOver => "left_over",
            Self::Order => "not_linearizable",
            Self::Stuck => "stuck",
            Self::Failed => "failed",
        }
    }

    /// The name for people, as counted in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TwoHolders => "two holders at once",
            Self::Fence => "fence that did not grow",
            Self::Lost => "lost update",
            Self::Twice => "operation done twice",
            Self::Torn => "torn read",
            Self::Stale => "stale read",
            Self::Renumbered => "number that changed",
            Self::Corrupt => "corrupt file",
            Self::LeftOver => "file left over",
            Self::Order => "history that no order explains",
            Self::Stuck => "standstill",
            Self::Failed => "unexpected failure",
        }
    }

    /// The fault of that code.
    pub(super) fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.code() == code)
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) thing: Thing,
    pub(super) fault: Fault,
    /// What exactly.
    pub(super) detail: String,
}

impl Finding {
    /// Found `fault` on `thing`.
    pub(super) fn new(thing: Thing, fault: Fault, detail: impl Into<String>) -> Self {
        Self { thing, fault, detail: detail.into() }
    }
}
