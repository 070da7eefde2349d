//! Following a journal: entries as they appear, across rotations, resumed by their numbers.
//!
//! # Invariants
//!
//! 1. Each entry comes once and in the order of the numbers. An entry that cannot be read any more is reported
//!    ([`Error::gap`](crate::Error::gap)), and never skipped in silence.
//! 2. Lines of other tools come when they are adopted. A follower that may write adopts them itself, under the commit
//!    lock if that is free; one that may not leaves them to the next writer.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::target::Target;
use crate::sys::Watcher;
use crate::wait::{Deadline, Wait};

use super::files::OpenFiles;
use super::read::{Entries, Entry};
use super::recover::adopt;
use super::view::View;

/// A wake-up is a hint, and none may come (another file system): look this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The entries of a journal as they appear. Made by [`Journal::follow`](crate::Journal::follow).
#[derive(Debug)]
pub struct Follow {
    target: Target,
    files: Arc<OpenFiles>,
    next: u64,
    entries: Option<Entries>,
    watcher: Option<Watcher>,
    /// Adopting was refused; this is why.
    refused: Option<ErrorKind>,
}

impl Follow {
    pub(super) fn new(target: Target, files: Arc<OpenFiles>, from: u64) -> Self {
        Self { target, files, next: from, entries: None, watcher: None, refused: None }
    }

    fn read(&self, from: u64) -> Result<Entries> {
        Entries::new(View::of(&*self.target.current()?)?, from, None)
    }

    /// The number to resume from later.
    pub fn position(&self) -> u64 {
        self.next.max(1)
    }

    /// Whether lines of other tools wait for a writer, since this follower may not adopt them.
    pub fn is_waiting_for_writer(&self) -> Result<bool> {
        Ok(self.refused.is_some() && !self.read(u64::MAX)?.pending()?.is_empty())
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
                let path = self.target.path();
                watcher.wait(Some(sleep)).map_err(Target::failed("watch", path))?;
            } else {
                // From now on changes are noticed; what happened until now is looked at once more.
                self.watch()?;
            }
        }
    }

    /// The next entry that is there already.
    fn at_hand(&mut self) -> Result<Option<Entry>> {
        for _ in 0..2 {
            if self.entries.is_none() {
                self.adopt();
                self.entries = Some(self.read(self.next)?);
            }
            let next = self.entries.as_mut().and_then(Iterator::next).transpose();
            let entry = next.inspect_err(|error| self.pass(error))?;
            if let Some(entry) = entry {
                self.next = entry.seq + 1;
                return Ok(Some(entry));
            }
            self.entries = None;
        }
        Ok(None)
    }

    /// Goes on behind a gap that was reported; after any other error it looks again.
    fn pass(&mut self, error: &Error) {
        match error.gap() {
            Some((_, last)) => self.next = last + 1,
            None => self.entries = None,
        }
    }

    fn adopt(&mut self) {
        if self.refused.is_none() {
            if let Err(error) = adopt(&self.files, &self.target) {
                if error.kind() != ErrorKind::Busy {
                    self.refused = Some(error.kind());
                }
            }
        }
    }

    fn watch(&mut self) -> Result<()> {
        let target = self.target.current()?;
        self.watcher = Some(Watcher::new(&[target.dir(), target.side()]));
        Ok(())
    }
}
