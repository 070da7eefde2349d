//! The critical section of a journal: the commit lock, the open files, and the head as it is now.
//!
//! # Invariants
//!
//! 1. Entering leaves a journal that agrees with its log: either nothing was wrong (the usual case,
//!    decided by one read of the head and one look at the file), or it was settled or adopted.
//! 2. Entries that wait for their sync stay pending; nothing of a durable batch reaches the journal
//!    before the batch is durable in the log.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::commit::{Commit, LOOK_LASTS, take_commit};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Extent, FileId, Handle, Kind, Mode};
use crate::gate::Turn;
use crate::group::{self, Part};
use crate::hold::check_named;
use crate::random;
use crate::record::MAJOR;
use crate::sys;
use crate::target::Target;
use crate::wait::Request;

use super::entry::Logged;
use super::head::{ENTRIES_AT, Head, Lost};
use super::index::{Group, Index};
use super::open_files::{OpenFiles, OpenLog};
use super::slots::{Loaded, Slots};
use super::wal::{Reach, Wal};

/// The bytes before an epoch that are compared to recognise another journal.
const TAIL_BYTES: u64 = 256;

/// What keeps others out.
#[derive(Debug)]
pub(super) enum Section {
    /// A write: fence and guards were checked.
    Write(Box<Commit>),
    /// Finishing what earlier writes have logged needs no proof of its own.
    Finish(Finish),
}

/// A section that only finishes.
#[derive(Debug)]
pub(super) struct Finish {
    target: Target,
    turn: Turn,
    since: Instant,
}

impl Section {
    /// Takes the commit lock of `target`, to finish what earlier writes have logged.
    pub(super) fn finish(target: &Target, request: Request<'_>) -> Result<Self> {
        let since = Instant::now();
        let turn = take_commit(target, Mode::Exclusive, request)?;
        Ok(Self::Finish(Finish { target: target.clone(), turn, since }))
    }

    /// Whether both the journal and its log are there; a hold must not create them.
    pub(super) fn has_journal(&self) -> bool {
        let target = self.target();
        let there = |path: &std::path::Path| target.fs.stat(path).is_ok();
        there(target.path()) && there(&target.sidecar("wal"))
    }

    fn target(&self) -> Target {
        match self {
            Self::Write(commit) => commit.target.clone(),
            Self::Finish(finish) => finish.target.clone(),
        }
    }

    /// The commit lock, if it is known which file that is.
    fn lock(&self) -> Option<FileId> {
        match self {
            Self::Write(commit) => commit.seen.bound.then_some(commit.seen.record.file),
            Self::Finish(finish) => Some(finish.turn.id()),
        }
    }

    /// The last check before a batch becomes visible that was logged a moment ago. Whatever waits longer
    /// (a sync, a lock) between the grants and the write makes it look again.
    pub(super) fn verify_batch(&self) -> Result<()> {
        match self {
            Self::Write(commit) => commit.verify_unless_just_looked(),
            Self::Finish(finish) if finish.since.elapsed() < LOOK_LASTS => Ok(()),
            Self::Finish(_) => self.verify(),
        }
    }

    /// The last check before a change becomes visible.
    pub(super) fn verify(&self) -> Result<()> {
        match self {
            Self::Write(commit) => commit.verify(),
            Self::Finish(Finish { target, turn, .. }) => {
                check_named(target, target.commit_file(), turn)
            }
        }
    }
}

/// What happened on the way, for the caller to know.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct News {
    /// Lines of others that were found and numbered.
    pub(super) adopted: u64,
    /// An unterminated line of somebody else was closed.
    pub(super) closed_tail: bool,
    /// Batches that a crash had left out of the journal.
    pub(super) rolled_forward: u64,
}

/// A journal in the hands of its one writer.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) section: Section,
    pub(super) target: Target,
    files: Arc<OpenFiles>,
    pub(super) wal: Wal,
    pub(super) journal: Arc<dyn Handle>,
    pub(super) head: Head,
    /// The journal's length as it was seen last.
    pub(super) size: u64,
    /// It was shorter than it must have been, so somebody has cut it: offsets mean nothing any more.
    pub(super) cut: bool,
    pub(super) news: News,
}

impl Session {
    pub(super) fn enter(files: &Arc<OpenFiles>, section: Section, new_mode: u32) -> Result<Self> {
        let target = section.target();
        let OpenLog { file, head: kept, room } = files.open_log(&target, section.lock())?;
        let wal = Wal { file };
        let slots = read_slots(&target, &wal, room)?;
        let loaded = match kept {
            Some(written) if slots.end_with(written.mark) => Some(written.head),
            _ => head_in(&target, &slots)?,
        };
        files.keep_room(slots.into_room());
        let known = loaded.is_some();
        if !known {
            clear_slots(&target, &wal)?;
        }
        let mut head = loaded.unwrap_or_default();
        if head.unsynced {
            // Its sync may have failed: another one proves nothing for pages that were written before that.
            let synced = wal.rewrite(&head).and_then(|()| wal.settle_anchor(&mut head));
            synced.map_err(Target::failed("sync", &target.sidecar("wal")))?;
        }
        let replaced = head.intent.is_some() && super::publish::finish(&target, &wal, &mut head)?;
        let (journal, found) = files.open_journal(&target, new_mode)?;
        let (files, size, news) = (files.clone(), found.size, News::default());
        let mut session =
            Self { section, target, files, wal, journal, head, size, cut: false, news };
        session.orient(known, found)?;
        if replaced {
            session.adopt_late()?;
        }
        Ok(session)
    }

    /// Decides what state the journal is in, and brings it in order.
    pub(super) fn orient(&mut self, known: bool, found: Extent) -> Result<()> {
        let wal_id = self.wal.file.id().map_err(|err| self.wal_failed("look at", err))?;
        if !known && found.size == 0 && !self.has_index()? {
            return self.start_fresh(found.id, wal_id);
        }
        let same_boot = self.head.boot == self.target.fs.boot_id();
        // A device may get another number at the next boot; an inode does not.
        let same =
            |one: FileId, other: FileId| one == other || (!same_boot && one.ino == other.ino);
        let own_log = known && same(self.head.file, wal_id);
        if !own_log || !same(self.head.journal, found.id) {
            return self.adopt(own_log && same_boot, found.id, wal_id);
        }
        if !same_boot {
            (self.head.file, self.head.journal) = (wal_id, found.id);
            return self.recover_power_loss();
        }
        if found.size == self.head.journal_end && !self.head.begun {
            return Ok(());
        }
        if found.size < self.head.journal_end {
            return self.adopt(true, found.id, wal_id);
        }
        self.recover_crash()
    }

    fn start_fresh(&mut self, journal: FileId, file: FileId) -> Result<()> {
        super::open_files::clear_empty(&self.target);
        // Numbers of a log that was deleted must not come again while its sync notes live.
        let first_number = sys::wall_time_us().max(group::reach(&self.target)? + 2);
        self.head = Head {
            epoch: 1,
            salt: random::number()?,
            generation: random::number()?,
            file,
            journal,
            boot: self.target.fs.boot_id(),
            base_seq: 1,
            next_seq: 1,
            first_number,
            lost: Lost { since: first_number - 1, ..Lost::default() }, // As in an adoption.
            end: ENTRIES_AT,
            applied_end: ENTRIES_AT,
            room: ENTRIES_AT,
            tail_sum: crate::checksum::of(b""),
            ..Head::default()
        };
        // Not synced: the first durable entry syncs it too, and before that there is nothing to lose.
        let anchored = self.head.anchor(self.wal.file.as_ref());
        self.head.unsynced = false;
        anchored.map_err(|err| self.wal_failed("write", err))
    }

    /// The machine restarted: the anchor and the entries are what was synced, the rest is looked for.
    ///
    /// The head keeps its old boot until a new epoch begins: dying in here leaves a power loss to
    /// recover from, and nothing is logged behind entries of which some may be lost.
    fn recover_power_loss(&mut self) -> Result<()> {
        let index = self.matching_index()?;
        if self.head.index_len > 0 && index.is_none() {
            return self.adopt(false, self.head.journal, self.head.file);
        }
        let newer = self.group_behind(index.as_ref())?;
        if let Some(index) = &index {
            // Records that were never synced do not count, and must not be found there later.
            let len = newer.map_or(self.head.index_len, |group| group.len);
            index.cut(len).map_err(|err| self.index_failed(err))?;
        }
        let settled = newer.map_or(self.head.base, |group| group.reach);
        if self.size < settled || self.tail_sum(self.head.base)? != self.head.tail_sum {
            return self.adopt(false, self.head.journal, self.head.file);
        }
        let room = self.wal_size()?.max(ENTRIES_AT);
        let head = &mut self.head;
        (head.entries, head.end, head.applied) = (0, ENTRIES_AT, 0);
        (head.applied_end, head.journal_end) = (ENTRIES_AT, head.base);
        (head.begun, head.partial) = (true, 0);
        head.names_synced = false; // The journal may have been made again since.
        head.room = room;
        let pending = self.pending(Reach::All)?;
        self.settle(pending, newer, true)
    }

    /// A process died in the middle, or somebody else has appended.
    pub(super) fn recover_crash(&mut self) -> Result<()> {
        let index = self.matching_index()?;
        let without_index = self.head.index_len > 0 && index.is_none();
        if without_index || self.is_another(index.as_ref())? {
            return self.adopt(true, self.head.journal, self.head.file);
        }
        let newer = self.group_behind(index.as_ref())?;
        let pending = self.pending(Reach::Counted)?;
        if (pending.len() as u64) < self.head.entries - self.head.applied {
            // The log itself is damaged. What can be read of it is let in.
            return self.adopt(true, self.head.journal, self.head.file);
        }
        self.settle(pending, newer, false)
    }

    /// The entries that are not in the journal yet, as far as the head knows.
    pub(super) fn pending(&self, reach: Reach) -> Result<Vec<Logged>> {
        let number = self.head.first_number + self.head.applied;
        let chain = self.wal.chain(&self.head, self.head.applied_end, number, reach);
        chain.map_err(|err| self.wal_failed("read", err))
    }

    pub(super) fn group_behind(&self, index: Option<&Index>) -> Result<Option<Group>> {
        let Some(index) = index else { return Ok(None) };
        index
            .group_behind(self.head.index_len, self.head.epoch)
            .map_err(|err| self.index_failed(err))
    }

    /// The index that belongs to the head.
    pub(super) fn matching_index(&self) -> Result<Option<Index>> {
        let index = Index::open(&self.target, &self.target.sidecar("index"), Access::ReadWrite)?;
        Ok(index.filter(|index| index.title.generation == self.head.generation))
    }

    /// The checksum of the bytes right before `base`.
    pub(super) fn tail_sum(&self, base: u64) -> Result<u64> {
        tail_sum(self.journal.as_ref(), base).map_err(|err| self.journal_failed("read", err))
    }

    pub(super) fn store(&mut self) -> Result<()> {
        let stored = self.head.store(self.wal.file.as_ref());
        let mark = stored.map_err(|err| self.wal_failed("write", err))?;
        self.files.keep(&self.wal.file, &self.head, mark);
        Ok(())
    }

    pub(super) fn wal_size(&self) -> Result<u64> {
        let found = self.wal.file.extent();
        Ok(found.map_err(|err| self.wal_failed("look at", err))?.size)
    }

    /// Makes the log durable, with the entries that others wait for.
    pub(super) fn sync_wal(&self) -> Result<()> {
        let (sync, write_again) = (|| self.wal.file.sync(), |_| self.wal.rewrite(&self.head));
        let synced = group::sync_in_section(&self.target, Part::Log, sync, write_again);
        let synced = synced.map_err(|error| error.committed(false))?;
        synced.map_err(|err| self.wal_failed("sync", err))
    }

    /// Writes the head down so that it survives a power loss. What it stands on is made durable first:
    /// what a light checkpoint left out, and the name of the journal. A head that outlives the journal
    /// would know the operations of batches that are gone, and take their repetition for done.
    pub(super) fn anchor(&mut self) -> Result<()> {
        if let Some(durable) = self.head.unanchored {
            self.sync_journal()?;
            if let Some(index) = self.matching_index()? {
                let again = index.write_again(durable.index_len, self.head.index_len);
                again.and_then(|()| index.sync()).map_err(|err| self.index_failed(err))?;
            }
        }
        self.sync_names()?;
        self.wal.anchor(&mut self.head).map_err(|err| self.wal_failed("anchor", err))
    }

    /// Makes the names of journal and log durable, once: that they exist proves nothing, since their
    /// maker may have died before it synced them. Before this a power loss could keep a part of a
    /// batch in the journal and lose the log that completes it. The caller writes the head down next.
    pub(super) fn sync_names(&mut self) -> Result<()> {
        if self.head.names_synced {
            return Ok(());
        }
        for dir in [self.target.side(), self.target.dir()] {
            let synced = self.target.fs.sync_dir(dir);
            synced.map_err(Target::failed("sync directory", dir))?;
        }
        self.head.names_synced = true;
        Ok(())
    }

    pub(super) fn wal_failed(&self, action: &'static str, err: io::Error) -> Error {
        Error::io(action, &self.target.sidecar("wal"), err).committed(false)
    }

    pub(super) fn index_failed(&self, err: io::Error) -> Error {
        Error::io("use index", &self.target.sidecar("index"), err).committed(false)
    }

    pub(super) fn journal_failed(&self, action: &'static str, err: io::Error) -> Error {
        Error::io(action, self.target.path(), err).committed(false)
    }
}

/// The checksum of the bytes right before `base`.
pub(super) fn tail_sum(journal: &dyn Handle, base: u64) -> io::Result<u64> {
    let bytes = journal.read_range(base.saturating_sub(TAIL_BYTES), base)?;
    Ok(crate::checksum::of(&bytes))
}

/// Reads the head of `wal`; `None` if there is nothing that can be read as one.
pub(super) fn load_head(target: &Target, wal: &Wal) -> Result<Option<Head>> {
    head_in(target, &read_slots(target, wal, Vec::new())?)
}

fn read_slots(target: &Target, wal: &Wal, room: Vec<u8>) -> Result<Slots> {
    let slots = Slots::read(wal.file.as_ref(), room);
    slots.map_err(|err| Error::io("read", &target.sidecar("wal"), err))
}

fn head_in(target: &Target, slots: &Slots) -> Result<Option<Head>> {
    match slots.head(target.fs.boot_id()) {
        Loaded::Head(head) => Ok(Some(*head)),
        Loaded::Empty | Loaded::Garbage => Ok(None),
        Loaded::Newer(major) => {
            let detail = format!("format version {major}, this tenure knows {MAJOR}");
            Err(Error::new(ErrorKind::NewerFormat, "use", detail)
                .at(&target.sidecar("wal"))
                .hint("upgrade tenure; nothing was changed"))
        }
    }
}

/// Slots of which none counts must not count later, when new ones have smaller turns.
fn clear_slots(target: &Target, wal: &Wal) -> Result<()> {
    let path = target.sidecar("wal");
    if wal.file.stat().map_err(Target::failed("look at", &path))?.size == 0 {
        return Ok(());
    }
    let zeros = vec![0; usize::try_from(ENTRIES_AT).unwrap_or(0)];
    wal.file.write_all_at(&zeros, 0).map_err(Target::failed("write", &path))
}

/// A journal is a regular file.
pub(super) fn require_file(target: &Target, kind: Kind) -> Result<()> {
    if kind == Kind::File {
        return Ok(());
    }
    let detail = "it is not a regular file";
    let error = Error::new(ErrorKind::Invalid, "use as a journal", detail).at(target.path());
    Err(error.hint("name a file"))
}
