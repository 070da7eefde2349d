//! A document as people use it: every call that changes it is [`Document::attempt`], then
//! [`Document::finish`].
//!
//! An attempt is one critical section: it reads what is there, computes, and publishes (see `publish` for
//! the steps and what a crash leaves). `finish` ends the section and makes a durable call durable:
//!
//! 1. The directory is synced, in one sync for all callers that wait for it ([`sync::sync`]). A crash
//!    before leaves the change visible and not acknowledged.
//! 2. An operation id is kept and synced. A power loss before may forget the id of this call, which has
//!    not returned.
//!
//! A durable call that changes nothing answers for what is there: a version that is not known to be
//! synced is published anew.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::compute::{Current, New, by_text, by_value};
use super::memory::Memory;
use super::publish::{self, Way};
use super::read::{self, Content, Snapshot, Watch};
use super::restore;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{Commit, take_commit};
use crate::file::operations::{self, Done};
use crate::file::record::{Published, Synced};
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::file::{gate, sync};
use crate::fs::{Fs, Mode};
use crate::json::{self, Object, PatchError, Rules, Value};
use crate::options::{Durability, Version, WriteOptions};
use crate::sys::disk;
use crate::wait::{Deadline, Request, Wait};

/// The leader of a shared sync lets those write first who wait for the hold already, this long at most:
/// enough for some dozens of changes, and too short to be noticed. Few changes would come in during the
/// sync itself, since they get into each other's way on the disk. It waits for its turn among them, once,
/// and holds no lock meanwhile.
const GATHER_PATIENCE: Duration = Duration::from_millis(20);
/// How long a call that is visible waits for the commit lock to finish its bookkeeping. It only ever
/// waits for short sections.
const NOTE_PATIENCE: Duration = Duration::from_secs(10);

/// A JSON document in a file. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Document {
    target: Target,
    memory: Memory,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The version that is there now.
    pub version: Version,
    /// False if the content was that already.
    pub changed: bool,
    /// The operation id was known: it had been done before.
    pub replayed: bool,
}

/// A change that was made, or found to be none.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The critical section, which goes on.
    pub(crate) commit: Commit,
    pub(crate) written: Written,
    /// What the document says now, if that is known as a value.
    now: Option<(Vec<u8>, Value)>,
    /// Freed after the locks are released: that takes as long as reading it.
    _before: Option<Value>,
}

impl Document {
    /// The document at a path, whether or not there is a file yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)?, memory: Memory::default() })
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The same document, with the sidecars of its owner.
    pub(crate) fn on(&self, target: &Target) -> Cow<'_, Self> {
        if std::ptr::eq(target, &raw const self.target) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { target: target.clone(), memory: self.memory.clone() })
    }

    /// Reads the document, or `None` if there is none. Takes no lock and creates nothing.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        read::snapshot(&*self.target.current()?)
    }

    /// The version of the document, or `None` if there is none.
    pub fn version(&self) -> Result<Option<Version>> {
        Ok(self.read()?.map(|snapshot| snapshot.version))
    }

    /// Changes that come after now, one snapshot each; quick ones may be passed over.
    pub fn watch(&self) -> Result<Watch> {
        Watch::new(&self.target)
    }

    /// Replaces the whole document.
    pub fn set(
        &self,
        value: &(impl Clone + Into<Value>),
        options: &WriteOptions,
    ) -> Result<Written> {
        let value = Value::from(value);
        self.update(options, |_| Ok(Some(value.clone())))
    }

    /// Computes a new document from the one on the disk, under the lock. `None` leaves it as it is;
    /// so does an error, which is passed on. The function runs again if another program replaced the
    /// file meanwhile.
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

    /// Merges a patch into the document (RFC 7396), with declared rules for single fields. A missing
    /// document is an empty object.
    pub fn merge(
        &self,
        patch: &(impl Clone + Into<Value>),
        rules: &Rules,
        options: &WriteOptions,
    ) -> Result<Written> {
        let (patch, empty) = (Value::from(patch), Value::Object(Object::new()));
        self.update(options, |current| {
            // An empty object is what a missing document counts as; a patch may be anything then.
            let replaced = current.and_then(|current| json::replaced_kind(current, &patch, rules));
            if let Some(detail) = replaced {
                return Err(Error::new(ErrorKind::Conflict, "merge into", detail)
                    .at(self.path())
                    .hint(
                        "nothing was changed; fix the patch, or say that this is meant: --replace",
                    ));
            }
            json::merge(current.unwrap_or(&empty), &patch, rules).map(Some).map_err(|why| {
                Error::new(ErrorKind::Invalid, "merge into", why)
                    .at(self.path())
                    .hint("nothing was changed; fix the patch or its rules")
            })
        })
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is a conflict.
    pub fn patch(
        &self,
        operations: &(impl Clone + Into<Value>),
        options: &WriteOptions,
    ) -> Result<Written> {
        let operations = Value::from(operations);
        self.update(options, |current| {
            let Some(current) = current else {
                let detail = "there is no document to patch";
                return Err(Error::new(ErrorKind::NotFound, "patch", detail)
                    .at(self.path())
                    .hint("check the name, or create it with `doc set`"));
            };
            json::patch(current, &operations).map(Some).map_err(|error| {
                match error {
                    PatchError::Invalid(why) => Error::new(ErrorKind::Invalid, "patch", why),
                    PatchError::TestFailed(why) => Error::new(ErrorKind::Conflict, "patch", why),
                }
                .at(self.path())
                .hint("nothing was changed; read the document again and fix the patch")
            })
        })
    }

    /// Replaces the document if it still has this version; `conflict` otherwise.
    pub fn compare_and_set(
        &self,
        version: &Version,
        value: &(impl Clone + Into<Value>),
        options: &WriteOptions,
    ) -> Result<Written> {
        let if_version = Some(version.clone());
        self.set(value, &WriteOptions { if_version, ..options.clone() })
    }

    /// Brings back the last good version of a document that cannot be parsed. The damaged bytes are
    /// kept aside, and operation ids are forgotten. A document that is fine is left alone. Without a
    /// good version it is `damaged`, without a document `not_found`.
    pub fn restore(&self, options: &WriteOptions) -> Result<Written> {
        self.target.at_home(|target| self.on(target).restore_now(options))
    }

    fn restore_now(&self, options: &WriteOptions) -> Result<Written> {
        restore::refuse_nothing(&self.target)?;
        let mut commit = Commit::begin(&self.target, options)?;
        let base = Content::read(&self.target, self.path())?;
        let is_fine = |base: &Content| base.parse(&self.target).is_ok();
        if base.as_ref().is_some_and(is_fine) {
            drop((commit, base));
            let plain = WriteOptions { operation: None, if_version: None, ..options.clone() };
            return self.change(&plain, |_| Ok(None));
        }
        let version = restore::restore(&mut commit, base, options);
        let version = version.map_err(|error| self.after(options, error))?;
        self.finish(commit, options, Written { version, changed: true, replayed: false })
    }

    fn change(
        &self,
        options: &WriteOptions,
        mut compute: impl FnMut(Current<'_>) -> Result<Option<New>>,
    ) -> Result<Written> {
        let deadline = Deadline::after(options.wait);
        self.target.at_home(|target| self.on(target).change_now(options, deadline, &mut compute))
    }

    fn change_now(
        &self,
        options: &WriteOptions,
        deadline: Deadline,
        compute: &mut impl FnMut(Current<'_>) -> Result<Option<New>>,
    ) -> Result<Written> {
        loop {
            let remaining = WriteOptions { wait: deadline.as_wait(), ..options.clone() };
            let commit = Commit::begin(&self.target, &remaining)?;
            if let Some(attempt) = self.attempt(commit, &remaining, compute)? {
                let done = self.finish(attempt.commit, &remaining, attempt.written);
                if let Some((bytes, value)) = attempt.now {
                    self.memory.keep(bytes, value);
                }
                return done;
            }
            if deadline.may_wait() && deadline.has_passed() {
                let detail = "another program keeps replacing it";
                return Err(Error::new(ErrorKind::Busy, "update", detail).at(self.path()));
            }
        }
    }

    /// One attempt in a critical section that goes on; `None` if another program replaced the file
    /// meanwhile.
    pub(crate) fn attempt(
        &self,
        mut commit: Commit,
        options: &WriteOptions,
        compute: &mut impl FnMut(Current<'_>) -> Result<Option<New>>,
    ) -> Result<Option<Attempt>> {
        let base = self.current(&mut commit, options)?;
        let found = base.as_ref().map(|(content, _)| content);
        if let Some(found) = found {
            commit.target.follow(&found.stat);
        }
        let operation = options.operation.as_deref().map(operations::id_of);
        Self::finish_pending(&mut commit, found, operation)?;
        let replayed = match operation {
            Some(id) => operations::find(&self.target, id)?.is_some(),
            None => false,
        };
        let mut new = None;
        if !replayed {
            self.check_version(&commit, found, options)?;
            new = compute(base.as_ref().map(|(content, value)| (content.bytes.as_slice(), value)))?;
        }
        let changed = new.is_some();
        if let Some(id) = operation.filter(|_| !changed) {
            // Done is done: if it is repeated after another change, it must not undo that.
            operations::remember(&self.target, id, Done::default())?;
        }
        let durable = options.durability == Durability::Durable;
        let is_sure = |found: &Content| !durable || publish::is_synced(&commit, found);
        let (bytes, value) = match (new, found) {
            (Some(new), _) => (new.bytes, new.value),
            // A durable call that changes nothing: the same content as a new file.
            (None, Some(found)) if !is_sure(found) => (found.bytes.clone(), None),
            (None, _) => {
                if found.is_some() {
                    publish::clear(&commit, found)?;
                } else {
                    publish::settle(&mut commit, None, None)?;
                }
                return Ok(Some(unchanged(commit, base, replayed)));
            }
        };
        let sum = checksum::wide(&bytes);
        // If we die after publishing, the next caller finds that the operation is done.
        let pending = operation.filter(|_| changed).map(|id| (id, sum));
        publish::settle(&mut commit, found, pending)?;
        let way = Way { sync: durable, keep: true, new_mode: options.new_mode };
        let (content, before) = base.unzip();
        let published = publish::publish(&commit, content, &bytes, way);
        let Ok(Some(published)) = published else {
            let replaced = published.is_ok();
            let is_withdrawn = |error: &Error| error.is_committed() == Some(false);
            if pending.is_some() && published.as_ref().err().is_none_or(is_withdrawn) {
                // Nothing was published. Bytes like these from another program must not pass for it.
                commit.seen.record.pending = (0, [0; 16]);
                let withdrawn = commit.write_record();
                withdrawn.or_else(|error| if replaced { Err(error) } else { Ok(()) })?;
            }
            return published.map(|_| None).map_err(|error| self.after(options, error));
        };
        let remembered = match pending {
            Some((id, _)) => operations::remember(&self.target, id, Done::default()),
            None => Ok(()),
        };
        let recorded = publish::record(&mut commit, sum, &published, remembered.is_ok());
        drop(published);
        let told = remembered.map_err(|error| error.committed(true)).and(recorded);
        let generation = told.map_err(|error| self.after(options, error))?;
        let version = Version(format!("{generation:x}-{:032x}", u128::from_be_bytes(sum)));
        let written = Written { version, changed, replayed };
        let (before, value) = if changed { (before, value) } else { (None, before) };
        let now = value.map(|value| (bytes, value));
        Ok(Some(Attempt { commit, written, now, _before: before }))
    }

    /// What is on the disk, under the lock. After a power loss the last synced version is made the
    /// document first.
    fn current(
        &self,
        commit: &mut Commit,
        options: &WriteOptions,
    ) -> Result<Option<(Content, Value)>> {
        let found = match read::read_parsed(&self.target, &self.memory) {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let repairable = read::last_synced(&self.target, error);
                repairable.inspect_err(|_| restore::met(&self.target))?;
                let base = Content::read(&self.target, self.path())?;
                // Whatever happens to the repair, the change itself has not begun.
                let repaired = restore::restore(commit, base, options);
                repaired.map_err(|error| error.committed(false))?;
                read::read_parsed(&self.target, &self.memory)?
            }
            found => found?,
        };
        if let Some((content, _)) = &found {
            // A crash where names cannot be exchanged, or are given by links, leaves second names of ours.
            let ours = || {
                let names = [self.target.document_temp(), self.target.sidecar("good")];
                let is_ours = |path: &&std::path::PathBuf| {
                    self.target.fs.stat(path).is_ok_and(|found| found.id == content.stat.id)
                };
                names.iter().filter(is_ours).count() as u64
            };
            self.target.refuse_other_links(content.stat.links, ours, options.break_link)?;
        }
        Ok(found)
    }

    /// An operation that was published by a process that died before it was remembered. The next call
    /// does that, since after the next change it could not be told any more.
    fn finish_pending(
        commit: &mut Commit,
        found: Option<&Content>,
        operation: Option<u64>,
    ) -> Result<()> {
        let (id, sum) = commit.seen.record.pending;
        if id == 0 || found.is_none_or(|found| found.checksum != sum) {
            return Ok(());
        }
        operations::remember(&commit.target, id, Done::default())
            .and_then(|()| publish::settle(commit, found, Some((0, [0; 16]))))
            .map_err(|error| error.committed(operation == Some(id)))
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
        // A reader between the publication and its record saw this content under the number before.
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

    /// Leaves the critical section; a durable call returns when its version is durable, and its
    /// operation id.
    pub(crate) fn finish(
        &self,
        commit: Commit,
        options: &WriteOptions,
        done: Written,
    ) -> Result<Written> {
        if options.durability == Durability::Durable {
            let published = commit.seen.record.published;
            let target = commit.target.clone();
            let had_hold = commit.holds(target.hold_file());
            drop(commit);
            let durable = sync(&target, published, had_hold)
                .and_then(|()| keep(&target, options.operation.as_deref()));
            let told = |error: Error| self.after(options, error.committed(true));
            durable.map_err(|error| if done.changed { told(error) } else { error })?;
        }
        Ok(done)
    }

    /// An error that came after readers could see the change: whether the change survives a power loss
    /// is not known then, and a durable call must say that (G8).
    fn after(&self, options: &WriteOptions, error: Error) -> Error {
        match (error.is_committed(), options.durability) {
            (Some(true), Durability::Durable) if error.kind() != ErrorKind::NotDurable => {
                sync::not_durable(&self.target).caused_by(error.into())
            }
            _ => error,
        }
    }
}

/// A call that left the document as it was.
fn unchanged(commit: Commit, base: Option<(Content, Value)>, replayed: bool) -> Attempt {
    let published = commit.seen.record.published;
    let version = match &base {
        Some((content, _)) => content.version(published),
        None => Version(format!("{:x}-0", published.generation)),
    };
    let now = base.map(|(content, value)| (content.bytes, value));
    Attempt { commit, written: Written { version, changed: false, replayed }, now, _before: None }
}

/// Makes the name of the published version durable, in one sync for all callers that wait. If that
/// fails, the version is in doubt, and the next durable call publishes it anew.
fn sync(target: &Target, published: Published, had_hold: bool) -> Result<()> {
    if published.tag == 0 {
        return Ok(()); // There is no document.
    }
    let synced = sync::sync(target, published.generation, &Names { target, had_hold });
    if synced.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotDurable) {
        let request = Request::until(Deadline::after(Wait::For(NOTE_PATIENCE)));
        // If this fails, a durable call that changes nothing is answered by the same failure.
        let _ = take_commit(target, Mode::Exclusive, request).and_then(|turn| {
            let mut seen = Seen::read_at(target, turn.handle().as_ref(), turn.born_us())?;
            let now = &mut seen.record.published;
            // One that a change has displaced and died is the last synced version, and stays that.
            if now.generation == published.generation && publish::is_in_place(target, *now) {
                now.synced = Synced::Unknown;
                seen.write(target, turn.handle().as_ref())?;
            }
            Ok(())
        });
    }
    synced.map(drop)
}

/// Makes an operation id durable, after its effect is.
fn keep(target: &Target, operation: Option<&str>) -> Result<()> {
    let Some(operation) = operation else { return Ok(()) };
    let request = Request::until(Deadline::after(Wait::For(NOTE_PATIENCE)));
    let turn = take_commit(target, Mode::Exclusive, request);
    let turn = turn.map_err(|error| error.committed(true))?;
    let kept = operations::keep(target, operations::id_of(operation));
    drop(turn);
    kept.map_err(|error| error.committed(true))?.sync()
}

/// The name of a document, which one sync of its directory makes durable. `.good` is in another directory:
/// where names keep their order it is durable with it; elsewhere no acknowledged version depends on it.
struct Names<'a> {
    target: &'a Target,
    /// The change had the hold for itself, and others may wait for it. A change that proved another's
    /// hold would wait for that.
    had_hold: bool,
}

impl sync::Shared for Names<'_> {
    fn gather(&self) {
        if self.had_hold {
            let request = Request::until(Deadline::after(Wait::For(GATHER_PATIENCE)));
            // Given back at once. Without it fewer share the sync, that is all.
            let _ = gate::take(self.target, self.target.hold_file(), Mode::Exclusive, request);
        }
    }

    fn newest(&self) -> Result<u64> {
        Ok(read::peek(self.target)?.last.generation)
    }

    fn sync(&self) -> io::Result<()> {
        self.target.fs.sync_dir(self.target.dir())
    }

    fn renew(&self) -> Result<()> {
        // Names cannot be written again; a file system that failed to sync them fails from then on.
        let dir = self.target.dir();
        self.sync().map_err(Target::failed("sync directory", dir))
    }
}
