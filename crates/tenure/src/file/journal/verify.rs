//! Verifying a journal: every numbered byte against its checksum, in the archives too.

use std::path::Path;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::file::target::Target;
use crate::fs::Handle;
use crate::results::{Damage, Report};

use super::archive::{Archive, archive_path};
use super::format::{HeaderLine, Kind, Previous, Range};
use super::index::Index;
use super::lines;
use super::view::{View, file_of};

impl Report {
    fn damage(&mut self, file: &Path, (start, end): (u64, u64), why: &str) {
        self.damaged.push(Damage { file: file.to_path_buf(), start, end, why: why.to_owned() });
    }

    /// Checks one range of the file at `path`.
    fn check(&mut self, range: &Range, file: Option<&Arc<dyn Handle>>, path: &Path) -> Result<()> {
        if !range.has_bytes() {
            let gap = (range.seq, range.next_seq().saturating_sub(1));
            match range.kind {
                Kind::Lost => self.lost.push(gap),
                Kind::Skipped => self.skipped.push(gap),
                Kind::Here | Kind::Late | Kind::Dropped => {}
            }
            return Ok(());
        }
        self.segments += 1;
        if !range.is_in(file).map_err(Target::failed("read", path))? {
            self.damage(path, (range.start, range.end), "the checksum differs");
        }
        Ok(())
    }

    fn check_header(&mut self, line: HeaderLine, file: &dyn Handle, path: &Path) -> Result<()> {
        if !line.is_in(file).map_err(Target::failed("read", path))? {
            self.damage(path, (0, line.len), "the header line differs");
        }
        Ok(())
    }

    /// Checks the first `len` records of an index and the bytes they describe. Returns how many
    /// entries there are, and how many of them other tools wrote.
    fn check_index(
        &mut self,
        target: &Target,
        (journal, path): (&Arc<dyn Handle>, &Path),
        previous: Previous,
        (index, len): (&Index, u64),
    ) -> Result<(u64, u64)> {
        let (mut entries, mut foreign) = (0, 0);
        let records = index.all(len).map_err(Target::failed("read index of", path))?;
        let found = records.len() as u64;
        for (at, record) in records.into_iter().enumerate() {
            let Some(range) = record else {
                self.damage(path, (0, 0), &format!("index record {at} is damaged"));
                continue;
            };
            let file = file_of(target, Some(journal), previous, &range)?;
            self.check(&range, file.as_ref(), path)?;
            if range.has_bytes() {
                (entries, foreign) = (entries + range.lines, foreign + range.foreign);
            }
        }
        if found < len {
            self.damage(path, (0, 0), &format!("index records {found} to {len} are missing"));
        }
        Ok((entries, foreign))
    }

    /// Checks archive `number` and those before it; the entry after the last one is `next`.
    fn check_archives(&mut self, target: &Target, mut number: u64, mut next: u64) -> Result<()> {
        while number > 0 {
            let archive = match Archive::open(target, number) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    let why = "its index cannot be read, nor what was before it";
                    self.damage(&archive_path(target, number), (0, 0), why);
                    return Ok(());
                }
                archive => archive?,
            };
            // An archive that was moved away is no damage: a reader reports the gap.
            let Some(archive) = archive else {
                self.lost.extend((next > 1).then(|| (1, next - 1)));
                return Ok(());
            };
            let (title, path) = (archive.index.title, &archive.path);
            if let Some(file) = &archive.file {
                self.check_header(title.line, file.as_ref(), path)?;
                let records = (&archive.index, archive.records);
                self.check_index(target, (file, path), title.previous, records)?;
                self.archives += 1;
            } else {
                self.lost.push((title.first_seq, next.saturating_sub(1)));
            }
            (number, next) = (archive.before(number), title.first_seq);
        }
        Ok(())
    }
}

pub(super) fn verify(target: &Target) -> Result<Report> {
    let view = View::of(target)?;
    let mut report = Report { bytes: view.size, pending: view.pending, ..Report::default() };
    report.unbound = view.unbound;
    let path = target.path();
    let Some(journal) = view.journal.clone() else { return Ok(report) };
    let failed = || Target::failed("read", path);
    if let Some(end) = view.cut {
        report.damage(path, (view.size, end), "lines that were written here are missing");
    }
    report.check_header(view.line, journal.as_ref(), path)?;
    if let Some((index, len)) = &view.index {
        let about = (&journal, path);
        let found = report.check_index(target, about, view.previous, (index, *len))?;
        (report.entries, report.foreign_entries) = found;
    }
    for piece in &view.pieces {
        if piece.text.is_none() {
            report.check(&piece.range, view.file_of(&piece.range)?.as_ref(), path)?;
        }
        if piece.range.has_bytes() {
            report.entries += piece.range.lines;
            report.foreign_entries += piece.range.foreign;
        }
    }
    let start = view.plain.map_or(view.known, |(start, _)| start);
    let end = lines::last_line_end(journal.as_ref(), start, view.size).map_err(failed())?;
    let complete = count(journal.as_ref(), start, end).map_err(failed())?;
    if view.plain.is_some() {
        (report.entries, report.foreign_entries) = (complete, complete);
    } else {
        report.next = view.until.max(1);
        report.unadopted = complete;
    }
    report.torn_tail = end < view.size;
    report.nul_bytes = nul_bytes(journal.as_ref(), view.size).map_err(failed())?;
    report.check_archives(target, view.previous.archive, view.first)?;
    Ok(report)
}

/// How many entries are in `[start, end)`, which ends after a newline.
fn count(file: &dyn Handle, start: u64, end: u64) -> std::io::Result<u64> {
    Ok(lines::measure(file, start, end, 1)?.iter().map(|range| range.lines).sum())
}

fn nul_bytes(file: &dyn Handle, size: u64) -> std::io::Result<u64> {
    let (mut at, mut nuls) = (0, 0);
    while at < size {
        let bytes = file.read_range(at, size.min(at + lines::CHUNK_BYTES as u64))?;
        if bytes.is_empty() {
            break;
        }
        nuls += memchr::memchr_iter(0, &bytes).count() as u64;
        at += bytes.len() as u64;
    }
    Ok(nuls)
}
