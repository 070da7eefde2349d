//! One attempt at a change: what is on the disk, what becomes of it, and its publication, all in one
//! critical section.

use serde_json::Value;

use super::change::{Document, Written};
use super::compute::{Current, New};
use super::content::{Content, last_synced, read_parsed};
use super::durable::sync_found;
use super::keep::Displaced;
use super::publish::{self, Outcome, publish};
use super::{left_over, operations, restore};
use crate::checksum;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Handle;
use crate::group;
use crate::options::{Durability, Version, WriteOptions};
use crate::record::Published;
use crate::target::Target;

/// A change that was made, or found to be none.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The critical section, which goes on.
    pub(crate) commit: Commit,
    pub(crate) written: Written,
    /// What the document says now, if that is known as a value.
    pub(super) now: Option<(Vec<u8>, Value)>,
    /// Freed after the locks are released: that takes as long as reading it.
    _before: Option<Value>,
}

impl Document {
    /// One attempt in a critical section that goes on; `None` if a foreign replacement came in between.
    pub(crate) fn attempt(
        &self,
        mut commit: Commit,
        options: &WriteOptions,
        compute: &mut impl FnMut(Current<'_>) -> Result<Option<New>>,
    ) -> Result<Option<Attempt>> {
        let base = self.current(&mut commit, options)?;
        let content = base.as_ref().map(|(content, _)| content);
        let operation = operation_of(options);
        Self::settle_pending(&mut commit, content, operation)?;
        if operation != 0 && commit.seen.record.has_done(operation) {
            return Ok(Some(unchanged(commit, base, true)));
        }
        self.check_version(&commit, content, options)?;
        let current = base.as_ref().map(|(content, value)| (content.bytes.as_slice(), value));
        let Some(New { bytes, value }) = compute(current)? else {
            if operation != 0 {
                // Done is done: if it is repeated after somebody else's change, it must not undo that.
                commit.seen.record.remember(operation);
                commit.write_record()?;
                self.attach_to(content, &mut commit, options)?;
            }
            return Ok(Some(unchanged(commit, base, false)));
        };
        Self::settle_found(&mut commit, content)?;
        let sum = checksum::wide(&bytes);
        if operation != 0 {
            // If we die after publishing, whoever repeats the operation finds that it is done.
            commit.seen.record.pending = (operation, sum);
            commit.write_record()?;
        }
        let (content, before) = base.unzip();
        let visible = |error: Error| match error.is_committed() {
            Some(true) => self.visible(options, error),
            _ => error,
        };
        let was = content.as_ref().map(|content| content.stat);
        let outcome = publish(&mut commit, content, &bytes, Displaced::ToGood, operation, options);
        let Ok(Outcome::Published(published)) = outcome else {
            let replaced = outcome.is_ok();
            if operation != 0 && (replaced || publish::is_still(&self.target, was.as_ref())) {
                // Nothing was published. Bytes like these that somebody else writes must not pass for it.
                commit.seen.record.pending = (0, [0; 16]);
                let withdrawn = commit.write_record();
                withdrawn.or_else(|error| if replaced { Err(error) } else { Ok(()) })?;
            }
            return outcome.map(|_| None).map_err(visible);
        };
        let file = (sum, published.tag);
        let recorded = publish::record(&mut commit, file, operation, Some(published.synced));
        drop(published.displaced);
        let generation = recorded.map_err(visible)?;
        let version = Version(format!("{generation:x}-{:032x}", u128::from_be_bytes(sum)));
        let written = Written { version, changed: true, replayed: false };
        let now = value.map(|value| (bytes, value));
        Ok(Some(Attempt { commit, written, now, _before: before }))
    }

    /// An operation that changed nothing is attached to the version that it found.
    fn attach_to(
        &self,
        found: Option<&Content>,
        commit: &mut Commit,
        options: &WriteOptions,
    ) -> Result<()> {
        let Some(found) = found else { return Ok(()) };
        let file = found.handle.as_ref();
        let attached = operations::attach(file, found.checksum, &commit.seen.record.operations);
        let published = commit.seen.record.published;
        // A file whose sync failed is not synced again: it is published anew, with what the record remembers.
        if !attached || published.failed || options.durability == Durability::NoSync {
            return Ok(());
        }
        left_over::clear(commit, Some(found))?; // While the record tells what it is.
        // What is attached as well: no other sync is for that.
        let synced = sync_found(commit, found, Handle::sync_all)?;
        synced.map_err(|err| group::not_durable(&self.target).caused_by(err))
    }

    /// What is on the disk, under the lock. After a power loss the last synced version is put back
    /// first.
    fn current(
        &self,
        commit: &mut Commit,
        options: &WriteOptions,
    ) -> Result<Option<(Content, Value)>> {
        // A record that was put back does not know of operations that the file does.
        commit.look_for_put_back();
        let found = read_parsed(&self.target, &self.memory);
        let content = found.as_ref().ok().and_then(Option::as_ref).map(|(content, _)| content);
        operations::reconcile(commit, content, options.operation.is_some());
        let found = match found {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let repaired = last_synced(&self.target, error)
                    .inspect_err(|_| restore::set_aside(&self.target))?;
                if repaired.is_some() {
                    // Whatever happens to the repair, the change itself has not begun.
                    restore::restore(commit, options).map_err(|error| error.committed(false))?;
                }
                read_parsed(&self.target, &self.memory)?
            }
            found => found?,
        };
        if let Some((content, _)) = &found {
            let mut links = content.stat.links;
            if links > 1 {
                // By its path, which is never answered from a cache: a FUSE server that cannot refuse
                // to replace a name has just given it a second one for a moment.
                let found = self.target.fs.stat(self.path());
                links = found.map_err(Target::failed("look at document", self.path()))?.links;
            }
            let foreign =
                links > 1 && links - left_over::our_links(&self.target, content.stat.id) > 1;
            if foreign && !options.break_link {
                let detail = format!("it has {links} hard links");
                return Err(Error::new(ErrorKind::Unsupported, "write document", detail)
                    .at(self.path())
                    .hint("two names are two locks: remove the others, or use --break-link"));
            }
        }
        Ok(found)
    }

    /// An operation that was published by somebody who died before writing that down. Whoever comes
    /// next writes it down, since after the next change nobody can tell any more.
    pub(super) fn settle_pending(
        commit: &mut Commit,
        content: Option<&Content>,
        operation: u64,
    ) -> Result<()> {
        let (pending, sum) = commit.seen.record.pending;
        match content.filter(|content| pending != 0 && content.checksum == sum) {
            None => Ok(()),
            Some(content) => settle(commit, content, pending)
                .map_err(|error| error.committed(pending == operation)),
        }
    }

    /// A version that the record does not know: another tool wrote it, or a change of ours that died. It is
    /// written down before the next temporary file is made. Otherwise whoever finds that one after our death
    /// cannot tell it from a displaced version that nobody has read, and keeps it.
    pub(super) fn settle_found(commit: &mut Commit, content: Option<&Content>) -> Result<()> {
        let known = commit.seen.record.published;
        match content.filter(|content| !publish::is_published(content, known)) {
            None => Ok(()),
            Some(content) => settle(commit, content, 0).map_err(|error| error.committed(false)),
        }
    }

    fn check_version(
        &self,
        commit: &Commit,
        content: Option<&Content>,
        options: &WriteOptions,
    ) -> Result<()> {
        let Some(wanted) = &options.if_version else { return Ok(()) };
        let published = commit.seen.record.published;
        let found = content.map(|content| content.version(published));
        if found.as_ref() == Some(wanted) {
            return Ok(());
        }
        // Whoever read between the publication and its record saw this content under the number before.
        let early = Published { generation: published.generation.saturating_sub(1), ..published };
        let just_published = content.filter(|content| content.checksum == published.checksum);
        if just_published.is_some_and(|content| content.version(early) == *wanted) {
            return Ok(());
        }
        let detail = found.map_or_else(
            || "there is no document".to_owned(),
            |found| format!("it has version {found}, not {wanted}"),
        );
        Err(Error::new(ErrorKind::Conflict, "write document", detail)
            .at(self.path())
            .hint("read it again and decide anew"))
    }
}

/// Writes down what is published without our knowledge, by `operation` or by none that is known.
fn settle(commit: &mut Commit, found: &Content, operation: u64) -> Result<()> {
    left_over::clear(commit, Some(found))?; // While the record tells what it is.
    let file = (found.checksum, publish::tag_of(&found.stat));
    publish::record(commit, file, operation, None).map(drop)
}

/// A call that left the document as it was.
fn unchanged(mut commit: Commit, base: Option<(Content, Value)>, replayed: bool) -> Attempt {
    let published = commit.seen.record.published;
    let version = match &base {
        Some((content, _)) => content.version(published),
        None => Version(format!("{:x}-0", published.generation)),
    };
    // What somebody else wrote was not synced by us, whatever we synced before.
    commit.found_other =
        base.as_ref().is_none_or(|(found, _)| !publish::is_published(found, published));
    let now = base.map(|(content, value)| (content.bytes, value));
    Attempt { commit, written: Written { version, changed: false, replayed }, now, _before: None }
}

fn operation_of(options: &WriteOptions) -> u64 {
    // 0 means none, so an id whose checksum is 0 becomes 1.
    options.operation.as_ref().map_or(0, |id| checksum::of(id.as_bytes()).max(1))
}
