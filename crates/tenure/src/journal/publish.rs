//! Replacing the journal by a new file, in steps that a crash cannot leave half done.
//!
//! Order, and what a crash leaves in between: new journal and new index are written under temporary
//! names and synced (leftovers, removed by the next) -> the intent is written to the log's head and synced
//! (from here on every critical section first finishes it) -> the two journals swap their names in one
//! step -> the old one moves to its new name -> the directories are synced -> the index follows and its
//! directory is synced -> a head without the intent is written and synced.
//!
//! # Invariants
//!
//! 1. (J10) Every step looks at the files' identities first, so it can be done again.
//! 2. A file that somebody else put in the journal's place is never replaced: it is adopted. Nor is
//!    one in the archive's place: the archive takes the next number that is free.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::fs::{Access, FileId, Handle};
use crate::options::WriteOptions;
use crate::random;
use crate::target::Target;

use super::Journal;
use super::bound;
use super::entry::Kind;
use super::head::{Head, Intent, Operation};
use super::index::{Header, Index, Record, Title};
use super::late::{displaced_by, displaced_path, is_cut};
use super::session::{self, Section, Session};
use super::view;
use super::wal::Wal;

/// How often somebody may take the archive's name before the call gives up.
const ATTEMPTS: usize = 64;

/// The name of archive `number`.
pub(super) fn archive_path(target: &Target, number: u64) -> PathBuf {
    let mut name = target.path().as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The temporary names: of an index alone, and of a journal with its index. Only one change is ever
/// under way (the commit lock), so they can be the same each time, and a crash leaves no more than
/// these. An intent still says which it means.
pub(super) const INDEX_ALONE_TEMP: u64 = 1;
const JOURNAL_TEMP: u64 = 2;
const INDEX_TEMP: u64 = 3;

/// The temporary file with this number.
pub(super) fn temp_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("tmp.{number:016x}"))
}

/// The temporary name, after what a crash or an error left under it was removed. No intent means that
/// file any more: every critical section begins with finishing the intent.
pub(super) fn fresh_temp(target: &Target, number: u64) -> Result<PathBuf> {
    let path = temp_path(target, number);
    let removed = if_there(target.fs.remove(&path));
    removed.map_err(|err| Target::failed("remove", &path)(err).committed(false))?;
    Ok(path)
}

/// A file that is going to be the journal.
#[derive(Debug)]
pub(super) struct NewJournal {
    pub(super) file: Arc<dyn Handle>,
    temp: u64,
    pub(super) end: u64,
    buf: Vec<u8>,
}

/// Collected writes of this size.
const WRITE_BYTES: usize = 256 * 1024;

impl NewJournal {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buf.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        if self.buf.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let at = self.end - self.buf.len() as u64;
        self.file.write_all_at(&self.buf, at)?;
        self.buf.clear();
        Ok(())
    }
}

/// What a new file is, besides its bytes.
#[derive(Debug, Default)]
pub(super) struct Publication {
    pub(super) records: Vec<Record>,
    pub(super) header: Header,
    /// 0: the old file is set aside.
    pub(super) archive: u64,
    /// The first number that can be in the new file.
    pub(super) first_seq: u64,
    pub(super) next_seq: u64,
    pub(super) operation: Operation,
}

impl Journal {
    /// A critical section with everything settled, numbered, closed and nothing pending.
    pub(super) fn settled(&self, options: &WriteOptions) -> Result<Session> {
        let section = Section::Write(Box::new(Commit::begin(&self.target, options)?));
        let mut session = Session::enter(&self.files, section, options.new_mode)?;
        session.apply_pending()?;
        session.adopt_tail()?;
        session.close_tail()?;
        Ok(session)
    }
}

impl Session {
    /// Closes an unterminated line of somebody else.
    pub(super) fn close_tail(&mut self) -> Result<()> {
        if self.head.open_tail {
            self.log_direct(b"\n", Kind::Direct)?;
            self.news.closed_tail = true;
        }
        Ok(())
    }

    /// An empty file with the attributes of the journal, under a temporary name.
    pub(super) fn new_journal(&self) -> Result<NewJournal> {
        let temp = JOURNAL_TEMP;
        let path = fresh_temp(&self.target, temp)?;
        let failed = Target::failed;
        let file = self.target.fs.open(&path, Access::CreateNew(0o600));
        let file = file.map_err(failed("create", &path))?;
        file.copy_attributes(self.journal.as_ref()).map_err(failed("set attributes of", &path))?;
        Ok(NewJournal { file, temp, end: 0, buf: Vec::new() })
    }

    /// Makes `new` the journal. The log is empty and everything in the old file is indexed.
    pub(super) fn publish(&mut self, mut new: NewJournal, what: &Publication) -> Result<()> {
        let path = temp_path(&self.target, new.temp);
        let failed = Target::failed;
        new.flush().map_err(failed("write", &path))?;
        new.file.sync().map_err(failed("sync", &path))?;
        let id = new.file.stat().map_err(failed("look at", &path))?.id;
        let generation = random::number()?;
        let index_temp = self.write_new_index(what, id, generation)?;
        let side = self.target.side();
        self.target.fs.sync_dir(side).map_err(failed("sync directory", side))?;
        self.section.verify()?;
        // Read before the look at its length: damage in place goes along, and a cut that comes after this is found by it.
        let tail_sum = self.tail_sum(self.head.base)?;
        let (size, index) = (self.journal_size()?, self.matching_index()?);
        let longer = size > self.head.journal_end;
        if size < self.head.journal_end || (longer && self.is_another(index.as_ref())?) {
            return Err(self.was_cut());
        }
        self.head.tail_sum = tail_sum;
        self.head.intent = Some(Intent {
            old: self.head.journal,
            new: id,
            journal_temp: new.temp,
            index_temp,
            archive: what.archive,
            old_end: self.head.journal_end,
            new_end: new.end,
            generation,
            index_len: what.records.len() as u64,
            next_seq: what.next_seq,
            operation: what.operation,
        });
        // A crash before the end of this sync leaves the old journal, or finishes the new one.
        self.anchor().map_err(|error| self.unless_intended(error))?;
        let intended = |error: Error| error.committed(true);
        if finish(&self.target, &self.wal, &mut self.head).map_err(intended)? {
            return self.go_on_with_new().map_err(intended);
        }
        let differs = self.tail_sum(self.head.base)? != self.head.tail_sum;
        if differs || self.journal_size()? < self.head.journal_end {
            return Err(self.was_cut());
        }
        let gone = io::Error::other("somebody removed the new file on its way");
        Err(Error::io("replace", self.target.path(), gone).committed(false))
    }

    /// An error says nothing about what the log says: the next section does what is intended there.
    fn unless_intended(&self, error: Error) -> Error {
        let head = session::load_head(&self.target, &self.wal);
        let known = head.is_ok_and(|head| head.is_none_or(|head| head.intent.is_none()));
        if known { error } else { error.committed(true) }
    }

    fn go_on_with_new(&mut self) -> Result<()> {
        let path = self.target.path();
        let opened = self.target.fs.open(path, Access::Append);
        self.journal = opened.map_err(Target::failed("open", path))?;
        let found = self.journal.extent().map_err(|err| self.journal_failed("look at", err))?;
        self.size = found.size;
        self.orient(true, found)?;
        self.adopt_tail()?;
        self.adopt_late()
    }

    fn write_new_index(&self, what: &Publication, journal: FileId, generation: u64) -> Result<u64> {
        let path = fresh_temp(&self.target, INDEX_TEMP)?;
        let file = self.target.open_sidecar(&path)?;
        let archive = if what.archive > 0 { what.archive } else { self.head.archive };
        let (first_seq, header) = (what.first_seq, what.header);
        let title = Title { generation, journal, first_seq, header, archive };
        let index = Index::begin(file, title).map_err(|err| self.index_failed(err))?;
        index.append(0, &what.records).map_err(|err| self.index_failed(err))?;
        Ok(INDEX_TEMP)
    }
}

/// The first archive number from `number` on whose name is free. Files of others are not touched.
pub(super) fn free_archive(target: &Target, mut number: u64) -> u64 {
    while target.fs.stat(&archive_path(target, number)).is_ok() {
        number += 1;
    }
    number
}

/// Finishes the replacement that the head intends. `false` if there is none, or nothing is replaced.
pub(super) fn finish(target: &Target, wal: &Wal, head: &mut Head) -> Result<bool> {
    let Some(mut intent) = head.intent else { return Ok(false) };
    let failed = Target::failed;
    let path = target.path();
    // What was to be an archive is there no more if somebody has cut it: then the old file stays, and is adopted.
    let stays = intent.archive > 0 && is_cut(target, path, head, &intent)?;
    let mut swapped = if stays { Ok(false) } else { swap(target, &intent) };
    for _ in 0..ATTEMPTS {
        match &swapped {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists && intent.archive > 0 => {}
            _ => break,
        }
        // Somebody took the archive's name since it was chosen. The new number is durable before
        // the file has it: a crash in between finds the file where the intent says.
        intent.archive = free_archive(target, intent.archive + 1);
        head.intent = Some(intent);
        wal.anchor(head).map_err(failed("anchor", &target.sidecar("wal")))?;
        swapped = swap(target, &intent);
    }
    let swapped = swapped.map_err(failed("replace", path))?;
    if swapped {
        retitle(target, &intent)?;
        for dir in [target.side(), target.dir()] {
            // The index follows only a journal that stays: an old one without its index is adopted.
            target.fs.sync_dir(dir).map_err(failed("sync directory", dir))?;
        }
        move_index(target, &intent)?;
        // Before the head forgets the intent, the names must stay whatever happens.
        target.fs.sync_dir(target.side()).map_err(failed("sync directory", target.side()))?;
        begin_with(target, wal, head, &intent)?;
    }
    head.intent = None;
    // A crash before the end of this sync finds everything in place and comes here again.
    wal.anchor(head).map_err(failed("anchor", &target.sidecar("wal")))?;
    Ok(swapped)
}

/// Gives the new file the journal's name and the old one its own. `false` if the new file is gone, so
/// that the old one stays.
fn swap(target: &Target, intent: &Intent) -> io::Result<bool> {
    let (path, temp) = (target.path(), temp_path(target, intent.journal_temp));
    let home = displaced_path(target, intent.archive);
    let is = |path: &Path, id: FileId| match target.fs.stat(path) {
        Ok(found) => Ok(found.id.ino == id.ino),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err),
    };
    if is(path, intent.old)? {
        if !is(&temp, intent.new)? {
            return Ok(false);
        }
        match target.fs.exchange(&temp, path) {
            Err(err) if err.kind() == io::ErrorKind::Unsupported && intent.archive > 0 => {
                // A crash after the first rename leaves no journal; the next section goes on here.
                target.fs.rename_new(path, &home)?;
                if !is(&home, intent.old)? {
                    target.fs.rename_new(&home, path)?; // Theirs, put there after we looked.
                }
            }
            Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                if_there(target.fs.remove(&home))?;
                target.fs.link(path, &home)?;
                if is(&home, intent.old)? {
                    target.fs.rename(&temp, path)?;
                } else {
                    target.fs.remove(&home)?; // Theirs as well.
                }
            }
            swapped => swapped?,
        }
    }
    if is(path, intent.new)? && target.fs.stat(&temp).is_ok() && !is(&temp, intent.old)? {
        // Somebody put their file there after we looked, and it was swapped away: it goes back.
        target.fs.exchange(&temp, path)?;
    }
    if is(&temp, intent.new)? {
        // The journal's name is free, or somebody else took it in between: theirs is adopted then.
        match target.fs.rename_new(&temp, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => target.fs.remove(&temp)?,
            moved => moved?,
        }
    }
    if is(&temp, intent.old)? {
        if intent.archive > 0 {
            target.fs.rename_new(&temp, &home)?;
        } else {
            target.fs.rename(&temp, &home)?;
        }
    }
    // Neither the old file nor the new one, so this directory is a copy, made in the middle. What the
    // temporary name held there cannot be told: it is kept, before the name is used again.
    if_there(target.fs.rename(&temp, &target.sidecar("displaced")))?;
    Ok(true)
}

/// Lets the new index of a rotation name the archive that the old file went to. It has no records
/// yet, so it is written anew.
fn retitle(target: &Target, intent: &Intent) -> Result<()> {
    let path = temp_path(target, intent.index_temp);
    let found = Index::open(target, &path, Access::Read)?;
    let named = |index: &Index| intent.archive == 0 || index.title.archive == intent.archive;
    let Some(index) = found.filter(|index| !named(index)) else { return Ok(()) };
    let temp = fresh_temp(target, INDEX_ALONE_TEMP)?;
    let title = Title { archive: intent.archive, ..index.title };
    let failed = Target::failed;
    let new = Index::begin(target.open_sidecar(&temp)?, title).map_err(failed("write", &temp))?;
    new.file.sync().map_err(failed("sync", &temp))?;
    target.fs.rename(&temp, &path).map_err(failed("move index", &path))
}

/// The old index stays with an archive; the new one takes its name.
fn move_index(target: &Target, intent: &Intent) -> Result<()> {
    let (path, temp) = (target.sidecar("index"), temp_path(target, intent.index_temp));
    let failed = Target::failed;
    let Some(current) = Index::open(target, &path, Access::Read)? else {
        return if_there(target.fs.rename(&temp, &path)).map_err(failed("move index", &path));
    };
    if current.title.generation == intent.generation {
        return Ok(());
    }
    if intent.archive > 0 {
        let kept = target.sidecar(&format!("index.{}", intent.archive));
        if_there(target.fs.rename(&path, &kept)).map_err(failed("move index", &path))?;
    }
    if_there(target.fs.rename(&temp, &path)).map_err(failed("move index", &path))
}

/// That a file is not there is no failure of what needs it no more.
fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The head of the new file: an epoch behind what is in it. The log was empty when it was intended. If
/// somebody has removed or cut that file since, the head names none, and what is in its place is adopted: whoever goes on
/// orients itself first.
fn begin_with(target: &Target, wal: &Wal, head: &mut Head, intent: &Intent) -> Result<()> {
    head.next_seq = head.next_seq.max(intent.next_seq);
    head.remember(intent.operation);
    head.displaced = Some(displaced_by(target, head, intent)?);
    head.archive = if intent.archive > 0 { intent.archive } else { head.archive };
    let (path, failed) = (target.path(), Target::failed);
    let index = Index::open(target, &target.sidecar("index"), Access::Read)?;
    let index = index.filter(|index| index.title.generation == intent.generation);
    head.journal = FileId::default();
    let Some(file) = view::open_if_there(target, path)? else { return Ok(()) };
    if !bound::is_published(file.as_ref(), index.as_ref(), intent.new_end)
        .map_err(failed("read", path))?
    {
        return Ok(());
    }
    let tail_sum = session::tail_sum(file.as_ref(), intent.new_end);
    head.epoch += 1;
    head.salt = random::number()?;
    (head.generation, head.journal) = (intent.generation, intent.new);
    let found = file.id().and_then(|journal| Ok((journal, wal.file.id()?)));
    head.enter(target.fs.boot_id(), found.map_err(failed("look at", path))?);
    (head.base, head.base_seq) = (intent.new_end, head.next_seq);
    (head.journal_end, head.open_tail) = (intent.new_end, false);
    (head.index_len, head.tail_sum) = (intent.index_len, tail_sum.map_err(failed("read", path))?);
    Ok(())
}
