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
    /// The content part of the version: the other part follows a moment after a change is visible.
    seen: Option<String>,
}

impl Watch {
    pub(super) fn new(document: Document) -> Result<Self> {
        // Before the first read, since a change in between must wake us.
        let watcher = watcher_of(document.target())?;
        let seen = document.version()?.as_ref().map(content_of);
        Ok(Self { document, watcher, seen })
    }

    /// The document after its next change, or `None` when the wait is over. A deleted document is
    /// waited for until it is there again; one that is being rewritten by others until it is whole.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Snapshot>> {
        let deadline = Deadline::after(wait);
        loop {
            match self.document.read() {
                Ok(Some(snapshot)) if self.seen != Some(content_of(&snapshot.version)) => {
                    self.seen = Some(content_of(&snapshot.version));
                    return Ok(Some(snapshot));
                }
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                _ => {}
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let target = self.document.target();
            let woken = self.watcher.wait(deadline.remaining());
            if woken.map_err(Target::failed("watch", target.dir()))? {
                // The directory may have been replaced, and nothing would wake us any more.
                self.watcher = watcher_of(target)?;
            }
        }
    }
}

/// Watches the directory, since the file is replaced. A directory that is not there cannot wake us.
fn watcher_of(target: &Target) -> Result<Watcher> {
    let dir = target.dir();
    target.fs.stat(dir).map_err(Target::failed("watch", dir))?;
    Watcher::new(&[dir]).map_err(Target::failed("watch", dir))
}

fn content_of(version: &Version) -> String {
    version.0.rsplit('-').next().unwrap_or_default().to_owned()
}
