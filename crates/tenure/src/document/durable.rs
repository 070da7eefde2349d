//! What follows a change: its name reaches the disk, with one sync for everybody who waits.
//!
//! # Invariants
//!
//! 1. A durable call returns when its version is on the disk, content and name. Where that cannot be
//!    said, it says so (G8).
//! 2. A file whose sync failed is never believed again: it is published anew. Which file that was is not asked. It may
//!    have been touched or written to since, and to publish another one anew is never wrong.
//! 3. The leader of a group lets those write first who wait for the hold already. It waits for its turn
//!    among them, once, and no longer than [`TURN_PATIENCE`]; then it syncs, whatever has come.
//!
//! # Why the leader waits
//!
//! Few changes came in during a sync, however many waited: with 32 processes there were two syncs for
//! three changes. Most likely they get into each other's way: a change has its content written while the
//! disk is flushing its cache, and its part of the transaction waits for the one that is being committed.
//! Behind its turn the leader finds everybody's changes made, and nobody in the way.
//!
//! It waits for nobody's answer, and nobody depends on it while it waits: it holds no hold and no
//! commit lock, and the wait ends by itself. Whoever holds the lock for long (a command under it) delays
//! the syncs that began to wait before, each once, by that patience. A write that proves a hold does not
//! wait for the hold.

use std::io;
use std::time::Duration;

use super::change::{Document, Written};
use super::content::{Content, peek};
use super::keep::Displaced;
use super::left_over;
use super::publish::{self, Outcome, publish};
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Handle, Mode};
use crate::gate;
use crate::group;
use crate::options::{Durability, WriteOptions};
use crate::target::Target;
use crate::wait::{Deadline, Request, Wait};

/// Enough for some dozens of changes, and less than anybody notices.
const TURN_PATIENCE: Duration = Duration::from_millis(20);

impl Document {
    /// Leaves the critical section; a durable call returns when its version is durable.
    pub(crate) fn finish(
        &self,
        commit: Commit,
        options: &WriteOptions,
        done: Written,
    ) -> Result<Written> {
        if options.durability == Durability::Durable {
            let durable = self.make_durable(commit, options);
            durable.map_err(|err| if done.changed { self.visible(options, err) } else { err })?;
        }
        Ok(done)
    }

    fn make_durable(&self, mut commit: Commit, options: &WriteOptions) -> Result<()> {
        let target = &self.target;
        let synced = commit.seen.record.published.synced && !commit.found_other;
        if !synced && !self.sync_as_it_is(&mut commit, options)? {
            return Ok(());
        }
        let generation = commit.seen.record.published.generation;
        let names = Names { target, had_hold: commit.holds(target.hold_file()) };
        drop(commit);
        group::sync(target, generation, &names).map(drop)
    }

    /// Unchanged, but published without a sync (or by somebody else): syncs what is there. Whether it had to
    /// be published anew, and its name is still to be synced.
    fn sync_as_it_is(&self, commit: &mut Commit, options: &WriteOptions) -> Result<bool> {
        let target = &self.target;
        let Some(content) = Content::read(target, target.path())? else { return Ok(false) };
        if commit.seen.record.published.failed {
            // Somebody may be writing it: half of that is not made the document.
            content.parse(target)?;
            Self::settle_found(commit, Some(&content))?;
            let (bytes, checksum) = (content.bytes.clone(), content.checksum);
            let visible = |error: Error| match error.is_committed() {
                Some(true) => self.visible(options, error),
                _ => error,
            };
            let outcome = publish(commit, Some(content), &bytes, Displaced::ToGood, 0, options);
            let Outcome::Published(published) = outcome.map_err(visible)? else {
                return Err(group::not_durable(target));
            };
            let file = (checksum, published.tag);
            let recorded = publish::record(commit, file, 0, Some(published.synced));
            drop(published.displaced);
            return recorded.map(|_| true).map_err(visible);
        }
        left_over::clear(commit, Some(&content))?; // While the record tells what it is.
        let synced = sync_found(commit, &content, Handle::sync)?;
        synced.map_err(|err| group::not_durable(target).caused_by(err))?;
        Ok(false)
    }

    /// An error that came after readers could see the change: whether the change survives a power loss
    /// is not known then, and a durable call must say that (G8).
    pub(super) fn visible(&self, options: &WriteOptions, error: Error) -> Error {
        match options.durability {
            Durability::Durable if error.kind() != ErrorKind::NotDurable => {
                group::not_durable(&self.target).caused_by(error.into())
            }
            _ => error.committed(true),
        }
    }
}

/// Whether a change syncs its content before it is published. Without a version before it there is
/// nothing that a power loss could fall back to, so the first one is always synced. So is a bare
/// number, the only document that still is one when it was cut; and everything where the exchange of a
/// file that was never synced may be kept by half: the old version loses its name, and the new one gets none.
/// And so is what displaces a version whose sync failed, or was begun by somebody who died: that one is
/// not synced again, so it cannot be kept to fall back to, and may be newer than the one that is.
pub(super) fn syncs(
    commit: &Commit,
    base: Option<&Content>,
    bytes: &[u8],
    options: &WriteOptions,
) -> bool {
    options.durability == Durability::Durable
        || base.is_none()
        || commit.seen.record.published.failed
        || is_number(bytes)
        || !commit.target.orders_names()
}

/// The only document that still is one when it was cut.
pub(super) fn is_number(bytes: &[u8]) -> bool {
    let mut text = bytes.iter().skip_while(|byte| byte.is_ascii_whitespace());
    text.next().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

/// Syncs a file that somebody else wrote, or that was published without a sync: the shared sync knows only of
/// our own durable changes. It counts as failed from before the sync until it has succeeded, so that whoever
/// dies in between leaves it to be published anew. `sync` is of the content, or of everything.
///
/// If it fails, what is in the file may be lost. So the names come first: what the file has displaced is on the disk
/// under its own, and a version that was only synced in order is there with this one.
pub(super) fn sync_found(
    commit: &mut Commit,
    found: &Content,
    sync: fn(&(dyn Handle + 'static)) -> io::Result<()>,
) -> Result<io::Result<()>> {
    let published = &mut commit.seen.record.published;
    (published.checksum, published.tag) = (found.checksum, publish::tag_of(&found.stat));
    (published.synced, published.failed) = (false, true);
    commit.write_record()?;
    let target = &commit.target;
    let synced = (target.fs.sync_dir(target.side()))
        .and_then(|()| sync(found.handle.as_ref()))
        .and_then(|()| target.fs.sync_dir(target.dir()));
    if synced.is_ok() {
        let published = &mut commit.seen.record.published;
        (published.synced, published.failed) = (true, false);
        commit.write_record()?;
    }
    Ok(synced)
}

/// The name of a document, which one sync of its directory makes durable. Its copies are in another one: where
/// names keep their order, they are durable with it; elsewhere `.good` may be older after a power loss, or gone,
/// and no acknowledged version depends on it.
struct Names<'a> {
    target: &'a Target,
    /// The change had the hold for itself, and others may wait for it. A change that proved somebody's
    /// hold would wait for that.
    had_hold: bool,
}

impl group::Shared for Names<'_> {
    fn gather(&self) {
        if self.had_hold {
            let request = Request::until(Deadline::after(Wait::For(TURN_PATIENCE)));
            // Given back at once. Without it fewer share the sync, that is all.
            let _ = gate::take(self.target, self.target.hold_file(), Mode::Exclusive, request);
        }
    }

    fn newest(&self) -> Result<u64> {
        Ok(peek(self.target)?.last.generation)
    }

    fn sync(&self, _doubt: bool) -> io::Result<()> {
        // Names cannot be written again; a file system that failed to sync them fails from then on.
        self.target.fs.sync_dir(self.target.dir())
    }
}
