//! What a reader sees: put together without a lock, creating nothing.
//!
//! # Invariants
//!
//! 1. (J9) The journal's length is read before the log's entries, so every byte of ours below it is in
//!    the log or settled. A batch that is not completely there is left out; after a power loss, and
//!    where bytes of others overtook it, it is served from the log, as the next writer will write it.
//! 2. If a checkpoint or a replacement happens meanwhile, the view is made again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, FileId, Handle};
use crate::target::Target;

use super::bound;
use super::entry::Logged;
use super::head::{ENTRIES_AT, Head, Intent};
use super::index::{Group, Index};
use super::late::displaced_path;
use super::layout::to_count_from;
use super::lines::{self, Count};
use super::plan::{self, Circumstances, Plan, Step};
use super::session;
use super::wal::{Reach, Wal};

/// How often a view is made again before the reader gives up.
pub(super) const ATTEMPTS: usize = 200;
/// How often a view that may only show a writer at work is made again, and after how long.
const DOUBTS_MAX: usize = 10;
const DOUBT: Duration = Duration::from_millis(1);

/// A stretch of entries with consecutive numbers.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// In the journal.
    Range { start: u64, end: u64, seq: u64 },
    /// Only in the log so far.
    Logged { bytes: Arc<[u8]>, seq: u64 },
}

impl Piece {
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Range { seq, .. } | Self::Logged { seq, .. } => *seq,
        }
    }
}

/// The journal at one moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) target: Target,
    /// `None`: there is no file, which is an empty journal.
    pub(super) journal: Option<Arc<dyn Handle>>,
    pub(super) size: u64,
    /// The index and how many of its records count.
    pub(super) index: Option<(Index, u64)>,
    /// What is not in the index, in the order of the numbers.
    pub(super) pieces: Vec<Piece>,
    /// The number that the next entry gets; 0 if no sidecars of this file say so.
    pub(super) next: u64,
    /// Log and head, if they belong to this journal.
    pub(super) log: Option<(Wal, Head)>,
    /// Log entries up to this number are in the index already.
    pub(super) covered: u64,
    /// Logged batches that the index and the settled part do not contain, and where they begin.
    pub(super) pending: Vec<Logged>,
    pub(super) plan: Plan,
    /// A replacement that is not finished: files may still have their names from before.
    pub(super) intent: Option<Intent>,
    mark: Mark,
}

/// What every checkpoint and every replacement changes.
type Mark = Option<(u64, u64, Option<u64>)>;

fn mark(head: Option<&Head>) -> Mark {
    head.map(|head| (head.epoch, head.generation, head.intent.map(|intent| intent.archive)))
}

/// How a view came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Sure,
    /// The sidecars do not fit the data; lines of others stand before a batch that is just being
    /// logged. Either is over in a moment if a writer is at work, and true if nobody is.
    Unsure,
}

impl View {
    pub(super) fn of(target: &Target) -> Result<Self> {
        let mut doubts = 0;
        for _ in 0..ATTEMPTS {
            let wal = open_if_there(target, &target.sidecar("wal"))?.map(|file| Wal { file });
            let head = load(target, wal.as_ref())?;
            let last = doubts == DOUBTS_MAX;
            let (view, verdict) = Self::assemble(target, wal.as_ref(), head.as_ref(), last)?;
            if !view.is_current(wal.as_ref())? {
                continue;
            }
            if verdict == Verdict::Sure || last {
                return Ok(view);
            }
            doubts += 1;
            wait_for_a_writer();
        }
        Err(busy(target))
    }

    /// Whether there was neither a checkpoint nor a replacement since, so that the log has its entries.
    pub(super) fn is_current(&self, wal: Option<&Wal>) -> Result<bool> {
        Ok(mark(load(&self.target, wal)?.as_ref()) == self.mark)
    }

    /// `last`: nobody is at work, so entries that do not count are those of a writer that died.
    fn assemble(
        target: &Target,
        wal: Option<&Wal>,
        head: Option<&Head>,
        last: bool,
    ) -> Result<(Self, Verdict)> {
        let intent = head.and_then(|head| head.intent);
        let mut journal = open_if_there(target, target.path())?;
        if let (None, Some(intent)) = (&journal, &intent) {
            // Between two renames, where names cannot be swapped: the old file has its new name.
            journal = open_if_there(target, &displaced_path(target, intent.archive))?;
        }
        let mut view = Self {
            target: target.clone(),
            journal: journal.clone(),
            size: 0,
            index: None,
            pieces: Vec::new(),
            next: 0,
            log: None,
            covered: 0,
            pending: Vec::new(),
            plan: Plan::default(),
            intent,
            mark: mark(head),
        };
        let Some(journal) = journal else { return Ok((view, Verdict::Sure)) };
        // Head, index, length, log, in this order: each is at least as new as the one before.
        let index = match head {
            Some(head) => find_index(target, head.generation, 0)?,
            None => None,
        };
        let newer = match (&index, head) {
            (Some(index), Some(head)) => index.group_behind(head.index_len, head.epoch),
            _ => Ok(None),
        };
        let newer = newer.map_err(Target::failed("read index of", target.path()))?;
        let found = journal.stat().map_err(Target::failed("look at", target.path()))?;
        session::require_file(target, found.kind)?;
        view.size = found.size;
        let (Some(wal), Some(head)) = (wal, head) else {
            view.add_unknown(journal.as_ref(), 1)?;
            return Ok((view, Verdict::Sure));
        };
        let another_boot = head.boot != target.fs.boot_id();
        // A device may get another number at the next boot; an inode does not.
        let same =
            |one: FileId, other: FileId| one == other || (another_boot && one.ino == other.ino);
        if let Some(intent) = intent.filter(|intent| same(intent.new, found.id)) {
            let index = find_index(target, intent.generation, intent.index_temp)?;
            let published = bound::is_published(journal.as_ref(), index.as_ref(), intent.new_end);
            if !published.map_err(Target::failed("read", target.path()))? {
                view.add_unknown(journal.as_ref(), intent.next_seq)?; // Somebody has cut it.
                return Ok((view, Verdict::Unsure));
            }
            view.index = index.map(|index| (index, intent.index_len));
            view.next = intent.next_seq;
            view.plan.tail = Some((intent.new_end, view.size)).filter(|(start, end)| start < end);
            view.add_tail(journal.as_ref(), intent.new_end, intent.next_seq)?;
            return Ok((view, Verdict::Sure));
        }
        let wal_id = wal.file.stat().map_err(Target::failed("look at", target.path()))?.id;
        if same(head.journal, found.id) && same(head.file, wal_id) {
            if let Some(verdict) = view.add_settled(wal, head, index, newer, last)? {
                return Ok((view, verdict));
            }
        }
        if head.journal == FileId::default() && head.begun && head.has_pending() && !another_boot {
            // An adoption is under way, or died: what it has appended so far is the next writer's to tell.
            view.size = view.size.min(head.journal_end);
        }
        let next_seq = next_seq_logged(wal, head, another_boot);
        let next_seq = next_seq.map_err(Target::failed("read log of", target.path()))?;
        view.add_unknown(journal.as_ref(), next_seq)?;
        Ok((view, Verdict::Unsure))
    }

    /// Adds index, settled part and pending entries. `None` if the sidecars do not fit the data.
    fn add_settled(
        &mut self,
        wal: &Wal,
        head: &Head,
        index: Option<Index>,
        newer: Option<Group>,
        last: bool,
    ) -> Result<Option<Verdict>> {
        let failed = Target::failed;
        let path = self.target.path().to_path_buf();
        let Some(journal) = self.journal.clone() else { return Ok(None) };
        if head.index_len > 0 && index.is_none() {
            return Ok(None);
        }
        let power_loss = head.boot != self.target.fs.boot_id();
        let (start, seq) = newer.map_or((head.base, head.base_seq), |g| (g.reach, g.next_seq));
        let (offset, number, settled) = if power_loss {
            (ENTRIES_AT, head.first_number, start)
        } else {
            (head.applied_end, head.first_number + head.applied, head.journal_end.max(start))
        };
        if self.size < settled {
            return Ok(None);
        }
        let tail_sum = session::tail_sum(journal.as_ref(), head.base);
        if power_loss && tail_sum.map_err(failed("read", &path))? != head.tail_sum {
            return Ok(None);
        }
        if !power_loss && self.size > settled {
            // Lines of others, or a batch on its way. Or it was cut, and these are others from the first byte on.
            let same = bound::is_described(journal.as_ref(), (wal, head), index.as_ref());
            if !same.map_err(failed("read", &path))? {
                return Ok(None);
            }
        }
        let len = newer.map_or(head.index_len, |group| group.len);
        self.index = index.map(|index| (index, len));
        if start < settled {
            self.pieces.push(Piece::Range { start, end: settled, seq });
        }
        let chain = wal.chain(head, offset, number, Reach::All);
        let mut pending = chain.map_err(failed("read log of", &path))?;
        self.covered = newer.map_or(0, |group| group.number);
        pending.retain(|logged| logged.entry.number > self.covered);
        let counts = |logged: &Logged| power_loss || logged.entry.number < head.next_number();
        if last {
            pending.retain(|logged| counts(logged) || logged.entry.is_direct());
        }
        let (partial, shift) = (head.partial, head.shift);
        let known = Circumstances { power_loss, begun: true, partial, shift };
        self.plan = plan::plan(journal.as_ref(), self.size, settled, &pending, known)
            .map_err(failed("read", &path))?;
        self.pending = pending;
        (self.next, self.log) = (head.next_seq, Some((wal.clone(), head.clone())));
        let next = newer.map_or(0, |group| group.next_seq).max(head.next_seq);
        let sure = self.plan.in_order || self.pending.iter().all(counts);
        self.add_planned(journal.as_ref(), power_loss, next)?;
        Ok(Some(if sure { Verdict::Sure } else { Verdict::Unsure }))
    }

    fn add_planned(&mut self, journal: &dyn Handle, power_loss: bool, next: u64) -> Result<()> {
        let hides_missing = self.plan.in_order && !power_loss;
        let mut next = self.pending.iter().map(|e| e.entry.next_seq()).max().unwrap_or(0).max(next);
        for step in self.plan.steps.clone() {
            match step {
                Step::Kept { index, start } => {
                    let entry = &self.pending[index].entry;
                    let (end, seq) = (start + entry.span(), entry.seq);
                    self.pieces.push(Piece::Range { start, end, seq });
                }
                // It is being written right now, or will be by the next writer.
                Step::Missing { .. } if hides_missing => return Ok(()),
                Step::Missing { index, .. } => {
                    let logged = &self.pending[index];
                    let bytes = logged.payload.as_slice().into();
                    self.pieces.push(Piece::Logged { bytes, seq: logged.entry.seq });
                }
                Step::Foreign { start, end } => {
                    self.pieces.push(Piece::Range { start, end, seq: next });
                    next += count(&self.target, journal, start, end)?;
                }
                Step::Torn { .. } => {}
            }
        }
        if let Some((start, _)) = self.plan.tail {
            self.add_tail(journal, start, next)?;
        }
        self.pieces.sort_by_key(Piece::seq);
        Ok(())
    }

    /// Adds all of a file that its sidecars do not describe, numbered as the writer will who adopts it.
    fn add_unknown(&mut self, journal: &dyn Handle, next_seq: u64) -> Result<()> {
        let index = Index::open(&self.target, &self.target.sidecar("index"), Access::Read)?;
        let known = next_seq_known(next_seq, index.as_ref());
        let known = known.map_err(Target::failed("read index of", self.target.path()))?;
        let start = bound::header(journal, index.as_ref()).len;
        self.add_tail(journal, start, known)
    }

    /// Adds lines of others at the end: complete ones only. The rest of a line that was numbered while
    /// it stood open belongs to that number.
    fn add_tail(&mut self, journal: &dyn Handle, mut start: u64, seq: u64) -> Result<()> {
        let path = self.target.path();
        let failed = |err| Target::failed("read", path)(err);
        let end = lines::last_line_end(journal, start, self.size).map_err(failed)?;
        if let Some(Piece::Range { end: settled, .. }) = self.pieces.last_mut() {
            let goes_on = *settled == start && start < end;
            if goes_on && lines::is_open_at(journal, start).map_err(failed)? {
                *settled = lines::line_end(journal, start, end).map_err(failed)?;
                start = *settled;
            }
        }
        if start < end {
            self.pieces.push(Piece::Range { start, end, seq });
        }
        Ok(())
    }
}

/// The largest number that the log knows, plus one. After a power loss the head is an older one: what was logged behind it
/// has numbers as well, wherever its lines are now.
pub(super) fn next_seq_logged(wal: &Wal, head: &Head, another_boot: bool) -> io::Result<u64> {
    let mut next = head.next_seq.max(1);
    if another_boot {
        let chain = wal.chain(head, ENTRIES_AT, head.first_number, Reach::All)?;
        next = chain.last().map_or(next, |last| next.max(last.entry.next_seq()));
    }
    Ok(next)
}

/// The largest number that is still known, plus one, where the log knows `next_seq`.
pub(super) fn next_seq_known(next_seq: u64, index: Option<&Index>) -> io::Result<u64> {
    let mut next = next_seq;
    if let Some(index) = index {
        // After a rotation it has no records yet, and the numbers before it are in the archive.
        next = next.max(to_count_from(index.title.first_seq));
        next = next.max(index.last_known()?);
    }
    Ok(next)
}

fn count(target: &Target, journal: &dyn Handle, start: u64, end: u64) -> Result<u64> {
    let count = Count::between(journal, start, end).map_err(Target::failed("read", target.path()));
    Ok(count?.entries())
}

#[expect(clippy::disallowed_methods, reason = "there may be nobody whose event would come")]
fn wait_for_a_writer() {
    std::thread::sleep(DOUBT);
}

/// The index of this generation, under its own name or still under the temporary one (0: none). Where it
/// comes from is looked at first: it moves the other way, and must not be missed in between.
fn find_index(target: &Target, generation: u64, temp: u64) -> Result<Option<Index>> {
    let temp = (temp > 0).then(|| super::publish::temp_path(target, temp));
    for path in temp.into_iter().chain([target.sidecar("index")]) {
        let index = Index::open(target, &path, Access::Read)?;
        if let Some(index) = index.filter(|index| index.title.generation == generation) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// A reader that has tried often enough gives up.
pub(super) fn busy(target: &Target) -> Error {
    let detail = "it is being rewritten all the time";
    Error::new(ErrorKind::Busy, "read", detail).at(target.path())
}

/// The head of the log as it is now.
/// Numbers that a replacement is going to give out are not free any more.
fn load(target: &Target, wal: Option<&Wal>) -> Result<Option<Head>> {
    let mut head = wal.map_or(Ok(None), |wal| session::load_head(target, wal))?;
    if let Some(head) = &mut head {
        let intended = head.intent.map_or(0, |intent| intent.next_seq);
        head.next_seq = head.next_seq.max(intended);
    }
    Ok(head)
}

pub(super) fn open_if_there(
    target: &Target,
    path: &std::path::Path,
) -> Result<Option<Arc<dyn Handle>>> {
    match target.fs.open(path, Access::Read) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(Target::failed("open", path)),
    }
}
