//! One call of the file system interface, by name.

use std::path::Path;
use std::sync::Arc;

/// Which operation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Open,
    Create,
    Stat,
    Resolve,
    List,
    Read,
    Write,
    Append,
    SetLen,
    SetMode,
    Sync,
    SyncInOrder,
    SyncDir,
    Rename,
    RenameNew,
    Exchange,
    Link,
    Remove,
    CreateDir,
    TryLock,
    Lock,
    Unlock,
}

impl Verb {
    /// It changes the disk or what is durable: counted, and a place to crash.
    pub(crate) fn changes(self) -> bool {
        !matches!(
            self,
            Self::Open
                | Self::Stat
                | Self::Resolve
                | Self::List
                | Self::Read
                | Self::TryLock
                | Self::Lock
                | Self::Unlock
        )
    }

    /// It makes something durable.
    pub(crate) fn syncs(self) -> bool {
        matches!(self, Self::Sync | Self::SyncInOrder | Self::SyncDir)
    }

    /// It may need a new block of the disk.
    pub(crate) fn may_allocate(self) -> bool {
        self.changes() && !self.syncs() && !matches!(self, Self::Remove | Self::SetMode)
    }

    /// Worth a line in the history. Reads would push everything else out.
    pub(crate) fn is_told(self) -> bool {
        !matches!(self, Self::Stat | Self::Resolve | Self::List | Self::Read)
    }
}

/// An operation with what it works on.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) verb: Verb,
    pub(crate) path: Option<Arc<Path>>,
    pub(crate) other: Option<Arc<Path>>,
    /// Offset and length.
    pub(crate) range: Option<(u64, u64)>,
}

impl Step {
    pub(crate) fn new(verb: Verb, path: &Path) -> Self {
        // Steps that are not recorded are never printed, so they need no copy of the path.
        let path = verb.is_told().then(|| Arc::from(path));
        Self { verb, path, other: None, range: None }
    }

    pub(crate) fn of_handle(verb: Verb, path: &Arc<Path>) -> Self {
        Self { verb, path: Some(path.clone()), other: None, range: None }
    }

    pub(crate) fn to(self, other: &Path) -> Self {
        Self { other: Some(Arc::from(other)), ..self }
    }

    pub(crate) fn range(self, offset: u64, len: u64) -> Self {
        Self { range: Some((offset, len)), ..self }
    }
}
