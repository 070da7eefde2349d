//! Operations that rewrite a journal: rotation, compaction, a header line, repair.

use std::path::Path;
use std::sync::Arc;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::events;
use crate::file::target::Target;
use crate::fs::{Access, Handle};
use crate::json;
use crate::printable::command;
use crate::results::{Appended, Compacted, Damage, Entry, Report, Rotated};

use super::archive::{Archive, archive_path, aside_path, index_path, replaced_path};
use super::batch::Lines;
use super::checkpoint::{INDEX_TEMP, remove_temps, temp_path};
use super::format::{HeaderLine, IndexId, Kind, Operation, Previous, RECORDS_AT, Range, Title};
use super::index::Index;
use super::lines::{self, Cut};
use super::read::Entries;
use super::replace::{NewJournal, free_archive};
use super::verify;
use super::view::{View, file_of};
use super::writer::Writer;

/// Moves the entries so far to an archive and starts an empty file.
pub(super) fn rotate(writer: &mut Writer) -> Result<Rotated> {
    close_tail(writer)?;
    let line = header_line(writer)?;
    if writer.state.journal_end == line.len() as u64 {
        return Ok(Rotated { archive: None, next: writer.state.seq });
    }
    let archive = free_archive(&writer.target, writer.log.header.previous.archive + 1)?;
    let mut new = NewJournal::create(writer, &line)?;
    new.archive = archive;
    writer.replace_by(new)?;
    let aside = aside_path(&writer.target, archive);
    let is_aside = writer.target.fs.stat(&aside).is_ok();
    let path = if is_aside { aside } else { archive_path(&writer.target, archive) };
    Ok(Rotated { archive: Some(path), next: writer.state.seq })
}

/// Rewrites the journal with the entries that `keep` accepts. They keep their numbers.
pub(super) fn compact(writer: &mut Writer, keep: impl FnMut(&Entry) -> bool) -> Result<Compacted> {
    close_tail(writer)?;
    let line = header_line(writer)?;
    let bytes_before = writer.state.journal_end;
    let (done, new) = rewrite(writer, &line, None, keep)?;
    writer.replace_by(new)?;
    let replaced = Some(replaced_path(&writer.target, writer.log.header.previous.ino));
    Ok(Compacted { bytes_before, replaced, ..done })
}

/// Appends the batch together with a header line that differs from the one in the file. `None` if
/// the file already has this header.
pub(super) fn stamp(writer: &mut Writer, header: &[u8], batch: &Lines) -> Result<Option<Appended>> {
    if memchr::memchr(b'\n', header).is_some() || lines::is_blank(header) {
        let detail = "the header is blank or contains a newline";
        return Err(Error::new(ErrorKind::Invalid, "append", detail).at(writer.target.path()));
    }
    writer.settle()?;
    if header_line(writer)?.split_last().is_some_and(|(_, line)| line == header) {
        return Ok(None);
    }
    close_tail(writer)?;
    let line = [header, b"\n"].concat();
    let seq = writer.state.seq;
    let (_, mut new) = rewrite(writer, &line, Some(batch), |_| true)?;
    new.operation = Operation { id: batch.operation, first: seq, lines: batch.count };
    writer.replace_by(new)?;
    Ok(Some(writer.news.appended(seq, batch.count)))
}

/// A new journal with `line`, the entries that `keep` accepts, and a batch.
fn rewrite(
    writer: &mut Writer,
    line: &[u8],
    batch: Option<&Lines>,
    mut keep: impl FnMut(&Entry) -> bool,
) -> Result<(Compacted, NewJournal)> {
    let mut new = NewJournal::create(writer, line)?;
    let mut done = Compacted::default();
    let view = View::of(&writer.target)?;
    new.first_seq = view.first;
    let (mut ranges, mut cut, mut expected) = (Vec::new(), Cut::default(), view.first);
    let mut entries = Entries::new(view, new.first_seq, None)?;
    loop {
        let entry = match entries.next_line() {
            Ok(None) => break,
            Ok(Some((seq, line))) => Entry { seq, line: line.to_vec() },
            // Lost numbers stay lost, and reported.
            Err(error) if error.gap().is_some() => {
                let (first, last) = error.gap().unwrap_or_default();
                ranges.extend(std::mem::take(&mut cut).finish());
                ranges.push(Range::without(Kind::Lost, first, last + 1));
                expected = last + 1;
                continue;
            }
            Err(error) => return Err(error.committed(false)),
        };
        if !keep(&entry) {
            done.dropped += 1;
            continue;
        }
        if entry.seq > expected {
            ranges.extend(std::mem::take(&mut cut).finish());
        }
        let text = [entry.line.as_slice(), b"\n"].concat();
        cut.add(new.end, entry.seq, &text);
        new.write(&text)?;
        expected = entry.seq + 1;
        done.kept += 1;
    }
    if let Some(batch) = batch {
        cut.add(new.end, new.seq, batch.text());
        new.write(batch.text())?;
        new.seq += batch.count;
    }
    ranges.extend(cut.finish());
    done.bytes_after = new.end;
    new.ranges = with_dropped(ranges, new.first_seq, new.seq);
    Ok((done, new))
}

/// `ranges`, and between them the numbers from `first` to `end` that were dropped.
fn with_dropped(ranges: Vec<Range>, first: u64, end: u64) -> Vec<Range> {
    let (mut all, mut expected) = (Vec::with_capacity(ranges.len()), first);
    for range in ranges {
        if expected < range.seq {
            all.push(Range::without(Kind::Dropped, expected, range.seq));
        }
        expected = range.next_seq();
        all.push(range);
    }
    if expected < end {
        all.push(Range::without(Kind::Dropped, expected, end));
    }
    all
}

/// Finishes all pending work, and closes an unterminated line of another tool, which becomes an
/// entry.
pub(super) fn close_tail(writer: &mut Writer) -> Result<()> {
    writer.settle()?;
    if writer.size > writer.state.journal_end {
        writer.push(b"")?; // Only the newline.
        writer.settle()?;
    }
    Ok(())
}

/// The header line with its newline; empty if there is none. A damaged one is not carried over into a new file.
fn header_line(writer: &Writer) -> Result<Vec<u8>> {
    let line = writer.log.header.line;
    let found = writer.read(0, line.len)?;
    if HeaderLine::of(&found) == line {
        return Ok(found);
    }
    let error = Error::new(ErrorKind::Damaged, "read", "the header line is not what was written");
    let path = writer.target.path();
    let accept = command("journal repair --accept", path);
    Err(error.at(path).hint(format!("restore it from a copy, or accept it with {accept}")))
}

/// Restores what the log still holds and, if asked to, accepts the rest of the damage as it is.
pub(super) fn repair(writer: &mut Writer, accept: bool) -> Result<Report> {
    if accept && !writer.has_index()? {
        // Where its entries were is not known any more.
        writer.adopt_file("its index was damaged", true)?;
    }
    close_tail(writer)?;
    remove_temps(&writer.target);
    let mut set_aside = write_back(writer)?;
    if accept {
        set_aside.extend(accept_damage(writer)?);
    }
    let quarantine = (!set_aside.is_empty()).then(|| writer.target.sidecar("damaged"));
    let report = verify::verify(&writer.target)?;
    let rolled_forward = writer.news.rolled_forward;
    Ok(Report { rolled_forward, set_aside, quarantine, ..report })
}

/// Rewrites batches whose bytes in the journal are not what was logged.
fn write_back(writer: &mut Writer) -> Result<Vec<Damage>> {
    let chain = writer.chain(RECORDS_AT, Some(writer.state.end))?;
    let mut set_aside = Vec::new();
    if chain.end != writer.state.end {
        writer.adopt_file("its log is damaged", true)?;
        return Ok(set_aside);
    }
    for batch in &chain.batches {
        let (start, text) = (batch.start, chain.text(batch));
        let end = start + text.len() as u64;
        let found = writer.read(start, end)?;
        // A record beyond the end of the journal is damage that verify reports: the journal must
        // not grow to there.
        if found != text && start <= writer.size {
            // In an append-only file the damage stays, and is reported.
            let Some(file) = writer.open_in_place()? else { continue };
            set_aside.push(keep_damage(writer, writer.target.path(), start, &found)?);
            let written = file.write_all_at(text, start);
            written.map_err(|err| writer.journal_failed("write", err))?;
        }
    }
    if !set_aside.is_empty() {
        writer.checkpoint(0, None)?;
    }
    Ok(set_aside)
}

/// Copies damaged bytes to the quarantine, synced, before anything is changed.
fn keep_damage(writer: &Writer, file: &Path, start: u64, found: &[u8]) -> Result<Damage> {
    let damaged = file.to_path_buf();
    writer.section.verify()?;
    let path = writer.target.sidecar("damaged");
    let failed = Target::failed;
    let file = writer.target.open_sidecar(&path)?;
    let at = file.extent().map_err(failed("look at", &path))?.size;
    file.write_all_at(found, at).map_err(failed("write", &path))?;
    file.sync().map_err(failed("sync", &path))?;
    let side = writer.target.side();
    writer.target.fs.sync_dir(side).map_err(failed("sync directory", side))?;
    let end = start + found.len() as u64;
    let detail = json!({ "start": start, "end": end, "kept_at": at });
    let _ = events::record(&writer.target, "damage_set_aside", &detail);
    Ok(Damage { file: damaged, start, end, why: "it was not what was written".to_owned() })
}

/// Accepts damaged ranges of the journal as they are: if the number of lines is unchanged they keep
/// their numbers, otherwise they get new ones. A crash before the new index has its name leaves the
/// damage; after it, it is accepted.
fn accept_damage(writer: &mut Writer) -> Result<Vec<Damage>> {
    writer.checkpoint(1, None)?;
    let (target, len) = (writer.target.clone(), writer.log.header.index.len);
    let mut set_aside = accept_archives(writer)?;
    let (journal, path) = (writer.journal.clone(), target.path());
    let line = accept_header(writer, (&journal, path), writer.log.header.line, &mut set_aside)?;
    writer.log.header.line = HeaderLine::of(&line);
    let Some(index) = Index::open(&target, &target.sidecar("index"), Access::Read)? else {
        return Ok(set_aside);
    };
    let is_other = index.title.generation != writer.log.header.index.generation;
    let records = index.all(len).map_err(Target::failed("read index of", path))?;
    let is_known = records.len() as u64 == len && records.iter().all(Option::is_some);
    let is_line = line.is_empty() || memchr::memchr(b'\n', &line) == Some(line.len() - 1);
    if !is_line || is_other || !is_known {
        // The content of the lost records is unknown: every line gets a new number.
        writer.adopt_file("its header or index was damaged", true)?;
        return Ok(set_aside);
    }
    let (mut ranges, mut renumber) = (Vec::new(), Vec::new());
    for range in records.into_iter().flatten() {
        let bytes = file_of(&target, Some(&journal), index.title.previous, &range)?;
        let accepted = accept_range(writer, (bytes, path), range, &mut set_aside)?;
        if range.kind == Kind::Here && !accepted.has_bytes() {
            renumber.push((range.start, range.end.min(writer.size)));
        }
        ranges.push(accepted);
    }
    if set_aside.is_empty() {
        return Ok(set_aside);
    }
    for (start, end) in renumber {
        let adopted = writer.measure(start, end, writer.state.seq)?;
        writer.state.seq = adopted.last().map_or(writer.state.seq, Range::next_seq);
        ranges.extend(adopted);
    }
    writer.journal.sync().map_err(|err| writer.journal_failed("sync", err))?;
    let generation = crate::random::number()?.max(1);
    let title = Title { generation, line: writer.log.header.line, ..index.title };
    writer.put_index(title, &ranges)?;
    writer.log.header.index = IndexId { generation, len: ranges.len() as u64 };
    writer.log.header.seq = writer.state.seq;
    writer.checkpoint(1, None)?;
    Ok(set_aside)
}

/// The header line of the journal or of an archive as it is now. A changed one is set aside first.
fn accept_header(
    writer: &Writer,
    (file, path): (&Arc<dyn Handle>, &Path),
    line: HeaderLine,
    aside: &mut Vec<Damage>,
) -> Result<Vec<u8>> {
    let found = file.read_range(0, line.len).map_err(Target::failed("read", path))?;
    if HeaderLine::of(&found) != line {
        aside.push(keep_damage(writer, path, 0, &found)?);
    }
    Ok(found)
}

/// The same for the archives. Lines whose count has changed lose their numbers, and stay in the
/// file. Each archive gets a new index, in the place of the old one: a crash leaves the one or the
/// other.
fn accept_archives(writer: &Writer) -> Result<Vec<Damage>> {
    let mut set_aside = Vec::new();
    let (mut number, mut next) = (writer.log.header.previous.archive, writer.first_number()?);
    loop {
        (number, next) = match Archive::open(&writer.target, number) {
            Ok(None) => return Ok(set_aside),
            Ok(Some(archive)) => {
                let before = (archive.before(number), archive.index.title.first_seq);
                accept_archive(writer, number, archive, next, &mut set_aside)?;
                before
            }
            Err(error) if error.kind() == ErrorKind::Damaged => {
                give_up_archive(writer, number, next)?
            }
            Err(error) => return Err(error),
        };
    }
}

/// Archive `number`; the entry after its last one is `next`.
fn accept_archive(
    writer: &Writer,
    number: u64,
    archive: Archive,
    next: u64,
    set_aside: &mut Vec<Damage>,
) -> Result<()> {
    let Archive { index, file, path, records: len } = archive;
    let Some(file) = file else { return Ok(()) };
    let found = set_aside.len();
    let line = accept_header(writer, (&file, &path), index.title.line, set_aside)?;
    let title = Title { line: HeaderLine::of(&line), ..index.title };
    let (mut ranges, mut expected) = (Vec::new(), title.first_seq);
    let records = index.all(len).map_err(Target::failed("read index of", &path))?;
    let is_whole = records.iter().all(Option::is_some);
    for range in records.into_iter().flatten() {
        if expected < range.seq {
            ranges.push(Range::without(Kind::Lost, expected, range.seq));
        }
        let bytes = file_of(&writer.target, Some(&file), title.previous, &range)?;
        ranges.push(accept_range(writer, (bytes, &path), range, set_aside)?);
        expected = range.next_seq();
    }
    if expected < next && !is_whole {
        ranges.push(Range::without(Kind::Lost, expected, next));
    }
    if set_aside.len() == found && is_whole {
        return Ok(());
    }
    file.sync().map_err(Target::failed("sync", &path))?;
    put_archive_index(writer, number, title, &ranges)
}

/// The index of archive `number` cannot be read: the numbers of its entries, up to `next`, are lost. Returns the next
/// older archive that can be read, and the first number of this one.
fn give_up_archive(writer: &Writer, number: u64, next: u64) -> Result<(u64, u64)> {
    let target = &writer.target;
    let (mut older, mut first_seq) = (0, 1);
    for before in (1..number).rev() {
        if let Ok(Some(archive)) = Archive::open(target, before) {
            let seq = archive.index.next_seq();
            (older, first_seq) = (before, seq.map_err(Target::failed("read", &archive.path))?);
            break;
        }
    }
    let previous = Previous { archive: older, ..Previous::default() };
    let generation = crate::random::number()?.max(1);
    let title = Title { generation, first_seq, previous, ..Title::default() };
    let lost = Range::without(Kind::Lost, first_seq.min(next), next);
    put_archive_index(writer, number, title, &[lost])?;
    Ok((older, first_seq))
}

fn put_archive_index(writer: &Writer, number: u64, title: Title, ranges: &[Range]) -> Result<()> {
    let target = &writer.target;
    writer.put_index(title, ranges)?;
    let (temp, kept) = (temp_path(target, INDEX_TEMP), index_path(target, number));
    target.fs.rename(&temp, &kept).map_err(Target::failed("name index", &kept))?;
    let side = target.side();
    target.fs.sync_dir(side).map_err(Target::failed("sync directory", side))
}

/// The range with its current checksum; if the number of its lines has changed, its numbers as
/// lost.
fn accept_range(
    writer: &Writer,
    (file, path): (Option<Arc<dyn Handle>>, &Path),
    range: Range,
    aside: &mut Vec<Damage>,
) -> Result<Range> {
    if !range.has_bytes() {
        return Ok(range);
    }
    let Some(file) = file else {
        return Ok(range.as_lost());
    };
    let found = file.read_range(range.start, range.end).map_err(Target::failed("read", path))?;
    let sum = checksum::of(&found);
    if sum == range.sum {
        return Ok(range);
    }
    aside.push(keep_damage(writer, path, range.start, &found)?);
    let whole = found.len() as u64 == range.end - range.start && found.ends_with(b"\n");
    if whole && lines::count(&found) == range.lines {
        return Ok(Range { sum, ..range });
    }
    Ok(range.as_lost())
}
