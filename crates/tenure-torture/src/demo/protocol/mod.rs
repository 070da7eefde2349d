//! The protocols that race: five that were shipped (the crate `tenure-shipped` has them), and tenure.
//!
//! Returning `Ok` from [`Document::add`], or from [`Lock::leave`] after the work, is the promise that the
//! race holds a protocol to.

mod tenure;

use std::io;
use std::path::Path;

use tenure_shipped::documents::{Session, State};
use tenure_shipped::locks::{JournalLock, SessionLock, Unstamped};
use tenure_shipped::{Document, Lock};

/// A protocol, ready to use in one process.
pub(super) enum Opened {
    /// It keeps a document by itself.
    Document(Box<dyn Document>),
    /// It keeps others out while the caller changes the document.
    Lock(Box<dyn Lock>),
}

/// Every protocol that can race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// ECC GateGuard: re-read, merge, rename; no lock.
    MergeOnSave,
    /// CLI-Anything: lock the data file, empty it, write it again.
    TruncateInPlace,
    /// OpenClaw: create a lock file exclusively, remove that of a dead process.
    StaleTakeover,
    /// codegraph: rename a new lock file over that of a dead process, re-read the nonce.
    RenameNonce,
    /// codegraph: a lock file that is still empty belongs to process 0, which is dead.
    Unstamped,
    /// tenure: read, change and publish as one update.
    TenureDocument,
    /// tenure: a lock.
    TenureLock,
}

impl Protocol {
    const ALL: [Self; 7] = [
        Self::MergeOnSave,
        Self::TruncateInPlace,
        Self::StaleTakeover,
        Self::RenameNonce,
        Self::Unstamped,
        Self::TenureDocument,
        Self::TenureLock,
    ];

    /// The name on a worker's command line and in the JSON report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MergeOnSave => "merge-on-save",
            Self::TruncateInPlace => "truncate-in-place",
            Self::StaleTakeover => "stale-takeover",
            Self::RenameNonce => "rename-nonce",
            Self::Unstamped => "unstamped",
            Self::TenureDocument => "tenure-document",
            Self::TenureLock => "tenure-lock",
        }
    }

    /// The protocol of that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Whether it promises to keep others out, so that two holders can be counted.
    pub(super) fn is_lock(self) -> bool {
        match self {
            Self::MergeOnSave | Self::TruncateInPlace | Self::TenureDocument => false,
            Self::StaleTakeover | Self::RenameNonce | Self::Unstamped | Self::TenureLock => true,
        }
    }

    /// Gets it ready in this process, for the document in `directory`.
    pub(super) fn open(self, directory: &Path, seed: u64) -> io::Result<Opened> {
        use Opened::{Document, Lock};
        let journal = |unstamped| JournalLock::open(directory, seed, unstamped);
        Ok(match self {
            Self::MergeOnSave => Document(Box::new(State::open(directory, seed))),
            Self::TruncateInPlace => Document(Box::new(Session::open(directory))),
            Self::StaleTakeover => Lock(Box::new(SessionLock::open(directory)?)),
            Self::RenameNonce => Lock(Box::new(journal(Unstamped::Waits)?)),
            Self::Unstamped => Lock(Box::new(journal(Unstamped::IsDead)?)),
            Self::TenureDocument => Document(Box::new(tenure::Shared::open(directory)?)),
            Self::TenureLock => Lock(Box::new(tenure::Exclusive::open(directory)?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use tenure_shipped::state::{self, Content};

    use super::{Opened, Protocol};

    #[test]
    fn every_name_leads_back_to_its_protocol() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::parse(protocol.name()), Some(protocol));
        }
    }

    /// What breaks in a race is the protocol's answer to others, not a slip of this re-implementation.
    #[test]
    fn alone_every_protocol_keeps_its_promise() {
        for protocol in Protocol::ALL {
            let directory = Scratch::new().expect("a scratch directory");
            Content::Project.create(directory.path()).expect("a document");
            match protocol.open(directory.path(), 1).expect("open") {
                Opened::Document(mut document) => {
                    document.add("a").expect("added");
                    document.add("b").expect("added");
                    let after = state::read(&state::path(directory.path())).expect("readable");
                    assert_eq!(state::keys(&after).collect::<Vec<_>>(), ["a", "b"], "{protocol:?}");
                }
                Opened::Lock(mut lock) => {
                    lock.enter().expect("entered");
                    lock.leave().expect("left");
                    lock.enter().expect("entered again");
                    lock.leave().expect("left again");
                }
            }
        }
    }

    #[test]
    fn the_lock_files_of_dead_processes_are_taken_over_as_shipped() {
        let dead = "2147483646";
        let stamps = [
            (Protocol::StaleTakeover, format!("{{\"pid\": {dead}}}")),
            (Protocol::RenameNonce, format!("{dead}\n{dead}-0123456789abcdef\n")),
            (Protocol::Unstamped, String::new()),
        ];
        for (protocol, stamp) in stamps {
            let directory = Scratch::new().expect("a scratch directory");
            let lock_file = directory.path().join("state.json.lock");
            std::fs::write(&lock_file, stamp).expect("written");
            let Ok(Opened::Lock(mut lock)) = protocol.open(directory.path(), 1) else {
                panic!("{protocol:?} is a lock");
            };
            lock.enter().expect("taken over");
            lock.leave().expect("left");
            assert!(!lock_file.exists(), "{protocol:?}");
        }
    }
}
