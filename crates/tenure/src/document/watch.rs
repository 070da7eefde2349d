//! Waiting for a document to change.

use super::change::Document;
use super::content::Snapshot;
use crate::error::{ErrorKind, Result};
use crate::options::Version;
use crate::sys::Watcher;
use crate::target::Target;
use crate::wait::{Deadline, Wait};

/// Follows the changes of a document. A wake-up is a hint, the version decides.
#[derive(Debug)]
pub struct Watch {
    document: Document,
    watcher: Watcher,
    seen: Option<Version>,
}

impl Watch {
    pub(super) fn new(document: Document) -> Result<Self> {
        let target = document.target();
        // The directory, since the file is replaced; and before the first read, since a change in
        // between must wake us.
        let watcher =
            Watcher::new(&[target.dir()]).map_err(Target::failed("watch", target.dir()))?;
        let seen = document.version()?;
        Ok(Self { document, watcher, seen })
    }

    /// The document after its next change, or `None` when the wait is over. A deleted document is
    /// waited for until it is there again; one that is being rewritten by others until it is whole.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Snapshot>> {
        let deadline = Deadline::after(wait);
        loop {
            match self.document.read() {
                Ok(Some(snapshot)) if self.seen.as_ref() != Some(&snapshot.version) => {
                    self.seen = Some(snapshot.version.clone());
                    return Ok(Some(snapshot));
                }
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                _ => {}
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let dir = self.document.target().dir();
            self.watcher.wait(deadline.remaining()).map_err(Target::failed("watch", dir))?;
        }
    }
}
