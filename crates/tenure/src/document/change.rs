//! Changing a document: read, compute and publish in one critical section.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::compute::{Current, by_text, by_value};
use super::content::{Content, Snapshot, damaged, last_synced, read_parsed, snapshot};
use super::publish::{self, Displaced, Outcome, publish};
use super::restore;
use super::watch::Watch;
use crate::checksum;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Fs, disk};
use crate::group;
use crate::json::{self, PatchError, Rules};
use crate::options::{Durability, Version, WriteOptions};
use crate::record::Published;
use crate::seen::Seen;
use crate::target::Target;
use crate::wait::Deadline;

/// A JSON document in a file. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Document {
    target: Target,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The version that is there now.
    pub version: Version,
    /// False if the content was that already; then nothing was rewritten.
    pub changed: bool,
    /// The operation id was known: it had been done before.
    pub replayed: bool,
}

impl Document {
    /// The document at a path, whether or not there is a file yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)? })
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// Reads the document, or `None` if there is none. Takes no lock and creates nothing.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        snapshot(&self.target)
    }

    /// The version of the document, or `None` if there is none.
    pub fn version(&self) -> Result<Option<Version>> {
        Ok(self.read()?.map(|snapshot| snapshot.version))
    }

    /// Changes that come after now, one snapshot each; quick ones may be passed over.
    pub fn watch(&self) -> Result<Watch> {
        Watch::new(self.clone())
    }

    /// Replaces the whole document.
    pub fn set(&self, value: &Value, options: &WriteOptions) -> Result<Written> {
        self.update(options, |_| Ok(Some(value.clone())))
    }

    /// Computes a new document from the one on the disk, under the lock. `None` leaves it as it is;
    /// so does an error, which is passed on. The function runs again if somebody who does not use
    /// tenure replaced the file meanwhile.
    pub fn update(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&Value>) -> Result<Option<Value>>,
    ) -> Result<Written> {
        self.change(options, by_value(self.path(), compute))
    }

    /// Like [`Self::update`], from text to text, for a caller with a layout of its own: it is stored
    /// as given, to the byte, if it is JSON.
    pub fn update_text(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&str>) -> Result<Option<String>>,
    ) -> Result<Written> {
        self.change(options, by_text(self.path(), compute))
    }

    fn change(
        &self,
        options: &WriteOptions,
        mut compute: impl FnMut(Current<'_>) -> Result<Option<Vec<u8>>>,
    ) -> Result<Written> {
        let deadline = Deadline::after(options.wait);
        loop {
            let remaining = WriteOptions { wait: deadline.as_wait(), ..options.clone() };
            let commit = Commit::begin(&self.target, &remaining)?;
            if let Some((commit, written)) = self.attempt(commit, &remaining, &mut compute)? {
                return self.finish(commit, &remaining, written);
            }
            if deadline.may_wait() && deadline.has_passed() {
                let detail = "somebody who does not use tenure keeps replacing it";
                return Err(Error::new(ErrorKind::Busy, "update", detail).at(self.path()));
            }
        }
    }

    /// Merges a patch into the document (RFC 7396), with declared rules for single fields. A missing
    /// document is an empty object.
    pub fn merge(&self, patch: &Value, rules: &Rules, options: &WriteOptions) -> Result<Written> {
        let empty = Value::Object(serde_json::Map::new());
        self.update(options, |current| {
            json::merge(current.unwrap_or(&empty), patch, rules)
                .map(Some)
                .map_err(|why| Error::new(ErrorKind::Invalid, "merge into", why).at(self.path()))
        })
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is a conflict.
    pub fn patch(&self, operations: &Value, options: &WriteOptions) -> Result<Written> {
        self.update(options, |current| {
            let Some(current) = current else {
                let detail = "there is no document to patch";
                return Err(Error::new(ErrorKind::NotFound, "patch", detail).at(self.path()));
            };
            json::patch(current, operations).map(Some).map_err(|error| {
                match error {
                    PatchError::Invalid(why) => Error::new(ErrorKind::Invalid, "patch", why),
                    PatchError::TestFailed(why) => Error::new(ErrorKind::Conflict, "patch", why),
                }
                .at(self.path())
            })
        })
    }

    /// Replaces the document if it still has this version; `conflict` otherwise.
    pub fn compare_and_set(
        &self,
        version: &Version,
        value: &Value,
        options: &WriteOptions,
    ) -> Result<Written> {
        let if_version = Some(version.clone());
        self.set(value, &WriteOptions { if_version, ..options.clone() })
    }

    /// Brings back the last good version of a document that cannot be parsed. The damaged bytes are
    /// kept aside. A document that is fine is left alone.
    pub fn restore(&self, options: &WriteOptions) -> Result<Written> {
        let mut commit = Commit::begin(&self.target, options)?;
        let restored = restore::restore(&mut commit, options);
        let written = restored.map_err(|error| match error.is_committed() {
            Some(true) => self.visible(options, error),
            _ => error,
        })?;
        self.finish(commit, options, written)
    }

    /// One attempt in a critical section that goes on; `None` if a foreign replacement came in between.
    pub(crate) fn attempt(
        &self,
        mut commit: Commit,
        options: &WriteOptions,
        compute: &mut impl FnMut(Current<'_>) -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<(Commit, Written)>> {
        let base = self.current(&mut commit, options)?;
        let content = base.as_ref().map(|(content, _)| content);
        let operation = operation_of(options);
        Self::settle_pending(&mut commit, content, operation)?;
        if operation != 0 && commit.seen.record.has_done(operation) {
            return Ok(Some(unchanged(commit, content, true)));
        }
        self.check_version(&commit, content, options)?;
        let current = base.as_ref().map(|(content, value)| (content.bytes.as_slice(), value));
        let Some(bytes) = compute(current)? else {
            if operation != 0 {
                // Done is done: if it is repeated after somebody else's change, it must not undo that.
                commit.seen.record.remember(operation);
                commit.write_record()?;
            }
            return Ok(Some(unchanged(commit, content, false)));
        };
        if operation != 0 {
            // If we die after publishing, whoever repeats the operation finds that it is done.
            commit.seen.record.pending = (operation, checksum::wide(&bytes));
            commit.write_record()?;
        }
        let content = base.map(|(content, _)| content);
        let synced = publish::syncs(options, content.is_some(), &bytes);
        let visible = |error: Error| match error.is_committed() {
            Some(true) => self.visible(options, error),
            _ => error,
        };
        let outcome = publish(&mut commit, content, &bytes, Displaced::ToGood, options);
        if outcome.map_err(visible)? == Outcome::Replaced {
            return Ok(None);
        }
        let recorded = publish::record(&mut commit, &bytes, operation, Some(synced));
        let generation = recorded.map_err(visible)?;
        let sum = u128::from_be_bytes(checksum::wide(&bytes));
        let version = Version(format!("{generation:x}-{sum:032x}"));
        Ok(Some((commit, Written { version, changed: true, replayed: false })))
    }

    /// What is on the disk, under the lock. After a power loss the last synced version is put back
    /// first.
    fn current(
        &self,
        commit: &mut Commit,
        options: &WriteOptions,
    ) -> Result<Option<(Content, Value)>> {
        let found = read_parsed(&self.target);
        let published = commit.seen.record.published;
        let described =
            matches!(&found, Ok(Some((content, _))) if content.checksum == published.checksum);
        if !described && published.boot != self.target.fs.boot_id() {
            // A power loss may have taken back what the record remembers as done (race 51).
            commit.seen.record.operations = Default::default();
        }
        let found = match found {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let repaired = last_synced(&self.target, error)
                    .inspect_err(|_| restore::set_aside(&self.target))?;
                if repaired.is_some() {
                    // Whatever happens to the repair, the change itself has not begun.
                    restore::restore(commit, options).map_err(|error| error.committed(false))?;
                }
                read_parsed(&self.target)?
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
                links > 1 && links - publish::our_links(&self.target, content.stat.id) > 1;
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
    fn settle_pending(
        commit: &mut Commit,
        content: Option<&Content>,
        operation: u64,
    ) -> Result<()> {
        let (pending, sum) = commit.seen.record.pending;
        match content.filter(|content| pending != 0 && content.checksum == sum) {
            None => Ok(()),
            Some(content) => publish::clear_left_over(commit, Some(content)) // While the record tells what it is.
                .and_then(|()| publish::record(commit, &content.bytes, pending, None))
                .map(drop)
                .map_err(|error| error.committed(pending == operation)),
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

    /// Leaves the critical section; a durable call returns when its version is durable.
    pub(crate) fn finish(
        &self,
        commit: Commit,
        options: &WriteOptions,
        done: Written,
    ) -> Result<Written> {
        if options.durability == Durability::Durable {
            let durable = self.make_durable(commit);
            durable.map_err(|err| if done.changed { self.visible(options, err) } else { err })?;
        }
        Ok(done)
    }

    fn make_durable(&self, mut commit: Commit) -> Result<()> {
        let target = &self.target;
        if !commit.seen.record.published.synced {
            // Unchanged, but published without a sync (or by somebody else): sync what is there.
            let Some(content) = Content::read(target, target.path())? else { return Ok(()) };
            // The shared sync knows only of our own changes.
            let synced = content.handle.sync().and_then(|()| target.fs.sync_dir(target.dir()));
            synced.map_err(|err| group::not_durable(target).caused_by(err))?;
            if commit.seen.record.published.checksum == content.checksum {
                commit.seen.record.published.synced = true;
                commit.write_record()?;
            }
            return Ok(());
        }
        let generation = commit.seen.record.published.generation;
        drop(commit);
        group::sync(target, generation, self).map(drop)
    }

    /// An error that came after readers could see the change: whether the change survives a power loss
    /// is not known then, and a durable call must say that (G8).
    fn visible(&self, options: &WriteOptions, error: Error) -> Error {
        match options.durability {
            Durability::Durable if error.kind() != ErrorKind::NotDurable => {
                group::not_durable(&self.target).caused_by(error.into())
            }
            _ => error.committed(true),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

impl group::Shared for Document {
    fn newest(&self) -> Result<u64> {
        let path = self.target.sidecar("commit");
        let file = self.target.fs.open(&path, Access::Read);
        let file = file.map_err(Target::failed("open record", &path))?;
        Ok(Seen::read(&self.target, file.as_ref())?.record.published.generation)
    }

    fn sync(&self, _doubt: bool) -> std::io::Result<()> {
        // Names cannot be written again; a file system that failed to sync them fails from then on.
        self.target.fs.sync_dir(self.target.dir())
    }
}

/// A call that left the document as it was.
fn unchanged(mut commit: Commit, content: Option<&Content>, replayed: bool) -> (Commit, Written) {
    let published = &mut commit.seen.record.published;
    let version = match content {
        Some(content) => content.version(*published),
        None => Version(format!("{:x}-0", published.generation)),
    };
    // What somebody else wrote was not synced by us, whatever we synced before.
    published.synced &= content.is_some_and(|found| found.checksum == published.checksum);
    (commit, Written { version, changed: false, replayed })
}

fn operation_of(options: &WriteOptions) -> u64 {
    // 0 means none, so an id whose checksum is 0 becomes 1.
    options.operation.as_ref().map_or(0, |id| checksum::of(id.as_bytes()).max(1))
}

/// The error for bytes that are no document; kept here for the restore.
pub(super) fn cannot_restore(target: &Target) -> Error {
    damaged(target, "cannot be parsed")
}
