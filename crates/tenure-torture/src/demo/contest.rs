//! The five contests: what each system protects, how, and the load that shows its failure.

use super::protocol::Protocol;
use tenure_shipped::state::Content;

/// One system's protocol against tenure, under one load.
#[derive(Debug)]
pub(super) struct Contest {
    /// Whose protocol it is.
    pub(super) system: &'static str,
    /// Where the defect was discussed in public.
    pub(super) thread: &'static str,
    /// What it protects there.
    pub(super) protects: &'static str,
    /// The protocol in a few words.
    pub(super) how: &'static str,
    /// The protocol.
    pub(super) theirs: Protocol,
    /// What the document holds at the start.
    pub(super) content: Content,
    /// Whether processes are killed while they work.
    pub(super) kills: bool,
}

impl Contest {
    /// What does the same job in tenure.
    pub(super) fn ours(&self) -> Protocol {
        if self.theirs.is_lock() { Protocol::TenureLock } else { Protocol::TenureDocument }
    }

    /// What does the same job in tenure, in a few words.
    pub(super) fn ours_how(&self) -> &'static str {
        if self.theirs.is_lock() { "tenure lock" } else { "tenure document" }
    }
}

/// Every contest, in the order of the table.
pub(super) const CONTESTS: [Contest; 5] = [
    Contest {
        system: "ECC GateGuard",
        thread: "https://github.com/affaan-m/ECC/issues/1441",
        protects: "session state",
        how: "merge on save, no lock",
        theirs: Protocol::MergeOnSave,
        content: Content::KeysOnly,
        kills: true,
    },
    Contest {
        system: "CLI-Anything",
        thread: "https://github.com/HKUDS/CLI-Anything/pull/94",
        protects: "project file",
        how: "flock, truncate, write in place",
        theirs: Protocol::TruncateInPlace,
        content: Content::Project,
        kills: true,
    },
    Contest {
        system: "OpenClaw",
        thread: "https://github.com/openclaw/openclaw/issues/57019",
        protects: "session write lock",
        how: "lock file; dead pid: unlink+create",
        theirs: Protocol::StaleTakeover,
        content: Content::KeysOnly,
        kills: true,
    },
    Contest {
        system: "codegraph",
        thread: "https://github.com/optave/ops-codegraph-tool/pull/1002",
        protects: "journal lock",
        how: "lock file; dead pid: rename over it",
        theirs: Protocol::RenameNonce,
        content: Content::KeysOnly,
        kills: true,
    },
    Contest {
        system: "codegraph",
        thread: "https://github.com/optave/ops-codegraph-tool/pull/1002",
        protects: "journal lock, no kills",
        how: "lock file not stamped yet = dead",
        theirs: Protocol::Unstamped,
        content: Content::KeysOnly,
        kills: false,
    },
];
