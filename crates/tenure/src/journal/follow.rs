//! Following a journal: entries as they appear, across rotations, resumed by their numbers.

use std::time::Duration;

use crate::error::Result;
use crate::sys::Watcher;
use crate::target::Target;
use crate::wait::{Deadline, Wait};

use super::Journal;
use super::read::{Entries, Entry};

/// A wake-up is a hint, and none may come (another file system, no watches left): look this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The entries of a journal as they appear. Made by [`Journal::follow`].
#[derive(Debug)]
pub struct Follow {
    journal: Journal,
    next: u64,
    entries: Option<Entries>,
    watcher: Option<Watcher>,
}

impl Follow {
    pub(super) fn new(journal: Journal, from: u64) -> Self {
        Self { journal, next: from, entries: None, watcher: None }
    }

    /// The number to resume from later.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next entry; `None` if there is none after this wait.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Entry>> {
        let deadline = Deadline::after(wait);
        loop {
            if let Some(entry) = self.at_hand()? {
                return Ok(Some(entry));
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let sleep = deadline.remaining().map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY));
            if let Some(watcher) = &self.watcher {
                let path = self.journal.path();
                watcher.wait(Some(sleep)).map_err(Target::failed("watch", path))?;
            } else {
                // From now on changes are noticed; what happened until now is looked for once more.
                self.watch()?;
            }
        }
    }

    /// The next entry that is there already.
    fn at_hand(&mut self) -> Result<Option<Entry>> {
        for _ in 0..2 {
            if self.entries.is_none() {
                self.entries = Some(self.journal.read(self.next, None)?);
            }
            let entry = self.entries.as_mut().and_then(Iterator::next).transpose()?;
            if let Some(entry) = entry {
                self.next = entry.seq + 1;
                return Ok(Some(entry));
            }
            self.entries = None;
        }
        Ok(None)
    }

    fn watch(&mut self) -> Result<()> {
        let target = &self.journal.target;
        let watcher = Watcher::new(&[target.dir(), target.side()]);
        self.watcher = Some(watcher.map_err(Target::failed("watch", target.dir()))?);
        Ok(())
    }
}
