//! Verifying a journal: every byte that tenure wrote or numbered, against its checksum.

use std::path::PathBuf;
use std::sync::Arc;

use crate::checksum;
use crate::error::Result;
use crate::fs::{Access, Handle};
use crate::target::Target;

use super::entry::Logged;
use super::head::ENTRIES_AT;
use super::index::Index;
use super::lines::{CHUNK_BYTES, Count};
use super::plan::Step;
use super::view::{self, ATTEMPTS, Piece, View};
use super::wal::{Reach, Wal};

/// A range of the journal that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// What is wrong.
    pub why: String,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Entries in the file now.
    pub entries: u64,
    /// How many of them others have written, as far as that is known.
    pub foreign_entries: u64,
    /// Ranges that have a checksum in the index.
    pub segments: u64,
    /// The file's length.
    pub bytes: u64,
    /// The number that the next entry gets; 0 if tenure has not written to it yet.
    pub next: u64,
    /// What is not as it was.
    pub damaged: Vec<Damage>,
    /// The file ends in an unterminated line of somebody else.
    pub torn_tail: bool,
    /// NULs in lines that others or unsynced batches had left before a power loss: lost, not altered.
    pub nul_bytes: u64,
    /// Logged batches that are not in the file yet; the next write finishes them.
    pub pending: u64,
    /// Batches that a repair has finished.
    pub rolled_forward: u64,
    /// The sidecars do not belong to this file (restored, replaced); the next write adopts it.
    pub unbound: bool,
    /// Ranges that a repair has set aside.
    pub set_aside: Vec<Damage>,
    /// Where their bytes are now, one range behind the other.
    pub quarantine: Option<PathBuf>,
}

impl Report {
    /// Nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty()
    }

    fn damage(&mut self, start: u64, end: u64, why: &str) {
        self.damaged.push(Damage { start, end, why: why.to_owned() });
    }
}

/// A log that does not fit: of another file, or this one was cut, and lines that were written are
/// gone.
fn check_unbound(report: &mut Report, target: &Target, journal: &dyn Handle) -> Result<()> {
    let Ok(file) = target.fs.open(&target.sidecar("wal"), Access::Read) else { return Ok(()) };
    report.unbound = true;
    let Some(head) = super::session::load_head(target, &Wal { file })? else { return Ok(()) };
    // After a power loss lines that were not synced may be missing rightly.
    let same_boot = head.boot == target.fs.boot_id();
    let id = journal.id().map_err(Target::failed("look at", target.path()))?;
    if same_boot && head.journal == id && head.journal_end > report.bytes {
        report.damage(report.bytes, head.journal_end, "lines that were written here are missing");
    }
    Ok(())
}

pub(super) fn verify(target: &Target) -> Result<Report> {
    let (view, mut report) = compare_log(target)?;
    let Some(journal) = view.journal.clone() else { return Ok(report) };
    let failed = Target::failed;
    if let Some((index, len)) = &view.index {
        let of_log = std::mem::take(&mut report.damaged);
        check_index(&mut report, target, &journal, index, *len)?;
        report.damaged.extend(of_log);
    }
    report.next = view.next;
    let unbound = view.next == 0;
    if unbound {
        check_unbound(&mut report, target, journal.as_ref())?;
    }
    for piece in &view.pieces {
        if let Piece::Range { start, end, .. } = *piece {
            let count =
                count(journal.as_ref(), start, end).map_err(failed("read", target.path()))?;
            report.entries += count.0.entries();
            report.nul_bytes += count.1;
        }
    }
    if let Some((start, end)) = view.plan.tail {
        let count = count(journal.as_ref(), start, end).map_err(failed("read", target.path()))?.0;
        report.foreign_entries += count.closed;
        report.torn_tail = count.is_open();
    } else if unbound {
        report.foreign_entries = report.entries;
        let open = super::lines::is_open_at(journal.as_ref(), view.size);
        report.torn_tail = open.map_err(failed("read", target.path()))?;
    } else if let Some((_, head)) = &view.log {
        report.torn_tail = head.open_tail;
    }
    Ok(report)
}

/// The journal at one moment, with the log's part compared. A log that was emptied after the view was
/// made has other entries and looks damaged, so that is looked at again.
fn compare_log(target: &Target) -> Result<(View, Report)> {
    for _ in 0..ATTEMPTS {
        let view = View::of(target)?;
        let mut report = Report { bytes: view.size, ..Report::default() };
        check_log(&mut report, &view)?;
        let wal = view.log.as_ref().map(|(wal, _)| wal);
        if report.is_sound() || view.is_current(wal)? {
            return Ok((view, report));
        }
    }
    Err(view::busy(target))
}

fn check_index(
    report: &mut Report,
    target: &Target,
    journal: &Arc<dyn Handle>,
    index: &Index,
    len: u64,
) -> Result<()> {
    let (mut at, mut chunks) = (0, Chunks::default());
    while at < len {
        let records = index.records(at, len - at);
        let records = records.map_err(Target::failed("read index of", target.path()))?;
        if records.is_empty() {
            report.damage(0, 0, &format!("index records {at} to {len} are missing"));
            return Ok(());
        }
        for record in records {
            let Some(record) = record else {
                report.damage(0, 0, &format!("index record {at} is damaged"));
                at += 1;
                continue;
            };
            at += 1;
            let segment = record.segment;
            report.segments += 1;
            report.entries += u64::from(segment.lines);
            report.foreign_entries += u64::from(segment.foreign);
            let sum = chunks.sum(journal.as_ref(), segment.start, segment.end);
            let sum = sum.map_err(Target::failed("read", target.path()))?;
            if sum != Some(segment.sum) {
                report.damage(segment.start, segment.end, "the checksum differs");
            }
        }
    }
    Ok(())
}

/// The part that is in the log, but not in the index yet.
fn check_log(report: &mut Report, view: &View) -> Result<()> {
    let (Some((wal, head)), Some(journal)) = (&view.log, &view.journal) else { return Ok(()) };
    let failed = Target::failed;
    let path = view.target.path();
    for step in &view.plan.steps {
        match *step {
            Step::Missing { .. } => report.pending += 1,
            Step::Kept { index, .. } => report.foreign_entries += foreign_in(&view.pending[index]),
            Step::Foreign { start, end } => {
                let count = count(journal.as_ref(), start, end).map_err(failed("read", path))?.0;
                report.foreign_entries += count.entries();
            }
            Step::Torn { .. } => {}
        }
    }
    if head.boot != view.target.fs.boot_id() {
        return Ok(()); // The view was planned from the first entry on: all of it was compared.
    }
    let chain = wal.chain(head, ENTRIES_AT, head.first_number, Reach::Counted);
    let chain = chain.map_err(failed("read log of", path))?;
    if (chain.len() as u64) < head.entries {
        report.damage(head.base, head.journal_end, "the log of this part is damaged");
    }
    let mut pos = head.base;
    let applied = usize::try_from(head.applied).unwrap_or(usize::MAX);
    for logged in chain.iter().take(applied) {
        let end = pos + logged.entry.span();
        if !is_as_logged(journal.as_ref(), logged, pos).map_err(failed("read", path))? {
            report.damage(pos, end, "it differs from what was logged");
        }
        if logged.entry.number > view.covered {
            report.foreign_entries += foreign_in(logged);
        }
        pos = end;
    }
    Ok(())
}

/// How many lines of others an entry stands for.
fn foreign_in(logged: &Logged) -> u64 {
    if logged.entry.is_foreign() { logged.entry.lines.into() } else { 0 }
}

/// Whether the journal has from `start` on what was logged.
pub(super) fn is_as_logged(
    journal: &dyn Handle,
    logged: &Logged,
    start: u64,
) -> std::io::Result<bool> {
    let bytes = journal.read_range(start, start + logged.entry.span())?;
    Ok(if logged.entry.is_foreign() {
        checksum::of(&bytes) == logged.foreign_sum()
    } else {
        bytes == logged.payload
    })
}

/// The checksum of a range; `None` if the file is shorter.
pub(super) fn sum(journal: &dyn Handle, start: u64, end: u64) -> std::io::Result<Option<u64>> {
    Chunks::default().sum(journal, start, end)
}

/// Reads ranges a chunk at a time, all into the same room.
#[derive(Debug, Default)]
struct Chunks {
    room: Vec<u8>,
}

impl Chunks {
    /// Hands out the chunks of a range; returns how far the file went.
    fn each(
        &mut self,
        journal: &dyn Handle,
        start: u64,
        end: u64,
        mut use_chunk: impl FnMut(&[u8]),
    ) -> std::io::Result<u64> {
        self.room.resize(CHUNK_BYTES, 0);
        let mut at = start;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let read = journal.read_full_at(&mut self.room[..want], at)?;
            if read == 0 {
                break;
            }
            use_chunk(&self.room[..read]);
            at += read as u64;
        }
        Ok(at)
    }

    fn sum(&mut self, journal: &dyn Handle, start: u64, end: u64) -> std::io::Result<Option<u64>> {
        let mut sum = checksum::Running::default();
        let reached = self.each(journal, start, end, |bytes| sum.update(bytes))?;
        Ok((reached >= end).then(|| sum.finish()))
    }
}

/// Entries in a range, and how many NULs there are in it.
fn count(journal: &dyn Handle, start: u64, end: u64) -> std::io::Result<(Count, u64)> {
    let (mut count, mut nuls) = (Count::default(), 0);
    Chunks::default().each(journal, start, end, |bytes| {
        count.feed(bytes);
        nuls += memchr::memchr_iter(0, bytes).count() as u64;
    })?;
    Ok((count, nuls))
}
