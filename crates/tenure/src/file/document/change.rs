//! The document as callers use it: every call that changes it is [`Document::attempt`], then
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
//! A durable call that changes nothing still promises that the document is durable: a version that
//! is not known to be synced is published anew.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::memory::Memory;
use super::publish::{self, Way};
use super::read::{self, Content};
use super::restore;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{Commit, take_commit};
use crate::file::operations::{self, Done};
use crate::file::record::{Pending, Published, Synced};
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::file::{gate, sync};
use crate::fs::Mode;
use crate::json::Value;
use crate::options::{Durability, Version, WriteOptions};
use crate::results::{Snapshot, Written};
use crate::store::Compute;
use crate::wait::{Deadline, Request, Wait};

/// The leader of a shared sync first lets those write who already wait for the hold, for at most
/// this long: enough for some dozens of changes, and too short to be noticed. Few changes would
/// come in during the sync itself, since they slow each other down on the disk. The leader waits
/// for its turn among them, once, and holds no lock meanwhile.
const GATHER_PATIENCE: Duration = Duration::from_millis(20);
/// How long a call that is visible waits for the commit lock to finish its bookkeeping. It only ever
/// waits for short sections.
const NOTE_PATIENCE: Duration = Duration::from_secs(10);

/// A JSON document in a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    target: Target,
    memory: Memory,
}

/// A change that was made, or found to be none.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The critical section, which continues.
    pub(crate) commit: Commit,
    pub(crate) written: Written,
    /// What the document says now, if that is known as a value.
    now: Option<(Vec<u8>, Value)>,
    /// Freed after the locks are released: that takes as long as reading it.
    _before: Option<Value>,
}

impl Document {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, memory: Memory::default() }
    }

    fn path(&self) -> &Path {
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

    pub(crate) fn read(&self) -> Result<Option<Snapshot>> {
        read::snapshot(&*self.target.current()?)
    }

    pub(crate) fn restore(&self, options: &WriteOptions) -> Result<Written> {
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
            return self.change(&plain, &mut |_| Ok(None));
        }
        let version = restore::restore(&mut commit, base, options);
        let version = version.map_err(|error| self.after(options, error))?;
        self.finish(commit, options, Written { version, changed: true, replayed: false })
    }

    pub(crate) fn change(
        &self,
        options: &WriteOptions,
        compute: &mut Compute<'_>,
    ) -> Result<Written> {
        let deadline = Deadline::after(options.wait);
        self.target.at_home(|target| self.on(target).change_now(options, deadline, compute))
    }

    fn change_now(
        &self,
        options: &WriteOptions,
        deadline: Deadline,
        compute: &mut Compute<'_>,
    ) -> Result<Written> {
        let begin = |options: &WriteOptions| Ok((Commit::begin(&self.target, options)?, ()));
        let (attempt, ()) = self.attempts(options, deadline, begin, compute)?;
        let done = self.finish(attempt.commit, options, attempt.written);
        if let Some((bytes, value)) = attempt.now {
            self.memory.keep(bytes, value);
        }
        done
    }

    /// Attempts in critical sections that `begin` enters, until no other program replaces the file
    /// meanwhile. The section of the last attempt continues, with whatever was entered besides.
    pub(crate) fn attempts<T>(
        &self,
        options: &WriteOptions,
        deadline: Deadline,
        begin: impl Fn(&WriteOptions) -> Result<(Commit, T)>,
        compute: &mut Compute<'_>,
    ) -> Result<(Attempt, T)> {
        loop {
            let remaining = WriteOptions { wait: deadline.as_wait(), ..options.clone() };
            let (commit, besides) = begin(&remaining)?;
            if let Some(attempt) = self.attempt(commit, &remaining, compute)? {
                return Ok((attempt, besides));
            }
            if deadline.may_wait() && deadline.has_passed() {
                let detail = "another program keeps replacing it";
                return Err(Error::new(ErrorKind::Busy, "update", detail).at(self.path()));
            }
        }
    }

    /// One attempt; `None` if another program replaced the file meanwhile.
    fn attempt(
        &self,
        mut commit: Commit,
        options: &WriteOptions,
        compute: &mut Compute<'_>,
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
            // Done already: a repetition after another change must not undo that change.
            operations::remember(&self.target, id, Done::default())?;
        }
        let durable = options.durability == Durability::Durable;
        let is_sure = |found: &Content| !durable || publish::is_synced(&commit, found);
        let (bytes, value) = match (new, found) {
            (Some(new), _) => (new.bytes, Some(new.value)),
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
        let pending = operation.filter(|_| changed).map(|id| Pending { id, checksum: sum });
        publish::settle(&mut commit, found, pending)?;
        let way = Way { sync: durable, keep: true, new_mode: options.file.new_mode };
        let (content, before) = base.unzip();
        let published = publish::publish(&commit, content, &bytes, way);
        let Ok(Some(published)) = published else {
            let replaced = published.is_ok();
            let is_withdrawn = |error: &Error| error.is_committed() == Some(false);
            if pending.is_some() && published.as_ref().err().is_none_or(is_withdrawn) {
                // Nothing was published. Bytes like these from another program must not pass for it.
                commit.seen.record.pending = Pending::default();
                let withdrawn = commit.write_record();
                withdrawn.or_else(|error| if replaced { Err(error) } else { Ok(()) })?;
            }
            return published.map(|_| None).map_err(|error| self.after(options, error));
        };
        let remembered = match pending {
            Some(Pending { id, .. }) => operations::remember(&self.target, id, Done::default()),
            None => Ok(()),
        };
        let recorded = publish::record(&mut commit, sum, &published, remembered.is_ok());
        drop(published);
        let done = remembered.map_err(|error| error.committed(true)).and(recorded);
        let generation = done.map_err(|error| self.after(options, error))?;
        let version = Version(format!("{generation:x}-{:032x}", u128::from_be_bytes(sum)));
        let written = Written { version, changed, replayed };
        let (before, value) = if changed { (before, value) } else { (None, before) };
        let now = value.map(|value| (bytes, value));
        Ok(Some(Attempt { commit, written, now, _before: before }))
    }

    /// A journal is not replaced: its log would bring lines back. One whose file was removed is over.
    fn refuse_journal(&self, commit: &Commit) -> Result<()> {
        let record = &commit.seen.record;
        if !record.journal || record.published.generation != 0 {
            return Ok(());
        }
        let is_there = |path: &Path| self.target.fs.stat(path).is_ok();
        if !(is_there(self.path()) && is_there(&self.target.sidecar("log"))) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Invalid, "write document", "it is a journal");
        Err(error.at(self.path()).committed(false).hint("use another file for the document"))
    }

    /// What is on the disk, under the lock. After a power loss the last synced version is made the
    /// document first.
    fn current(
        &self,
        commit: &mut Commit,
        options: &WriteOptions,
    ) -> Result<Option<(Content, Value)>> {
        self.refuse_journal(commit)?;
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
            self.target.refuse_other_links(content.stat.links, ours, options.file.break_link)?;
        }
        Ok(found)
    }

    /// Remembers an operation published by a process that died before it did so itself. After the
    /// next change it could no longer be detected.
    fn finish_pending(
        commit: &mut Commit,
        found: Option<&Content>,
        operation: Option<u64>,
    ) -> Result<()> {
        let Pending { id, checksum } = commit.seen.record.pending;
        if id == 0 || found.is_none_or(|found| found.checksum != checksum) {
            return Ok(());
        }
        operations::remember_for_another(&commit.target, id, Done::default())
            .and_then(|()| publish::settle(commit, found, Some(Pending::default())))
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
            .hint("read it again, then repeat the change"))
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
            let visible = |error: Error| self.after(options, error.committed(true));
            durable.map_err(|error| if done.changed { visible(error) } else { error })?;
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
        let request = Request::after(Wait::For(NOTE_PATIENCE));
        // If this fails, a durable call that changes nothing is answered by the same failure.
        let _ = take_commit(target, Mode::Exclusive, request).and_then(|turn| {
            let mut seen = Seen::read_at(target, turn.handle().as_ref(), turn.born_us())?;
            let now = &mut seen.record.published;
            // A version that a change displaced before it died is the last synced one, and stays
            // that.
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
    let request = Request::after(Wait::For(NOTE_PATIENCE));
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
    /// The change had the hold for itself, and others may wait for it. A change that proved another
    /// process's hold would wait for that process.
    had_hold: bool,
}

impl sync::Shared for Names<'_> {
    fn gather(&self) {
        if self.had_hold {
            let request = Request::after(Wait::For(GATHER_PATIENCE));
            // Released at once. Without it fewer callers share the sync, that is all.
            let _ = gate::take(self.target, self.target.hold_file(), Mode::Exclusive, request);
        }
    }

    fn newest(&self) -> Result<u64> {
        Ok(read::peek(self.target)?.generation)
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
