//! Reading entries by their numbers, in memory that does not grow with the journal. What is read is checked.

use std::collections::VecDeque;
use std::ops::Range as Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::target::Target;
use crate::fs::Handle;
use crate::printable::command;

use super::archive::{Archive, archive_path};
use super::format::{Kind, Previous, Range};
use super::index::{Index, damaged};
use super::lines::{self, RANGE_BYTES};
use super::view::{View, file_of};

/// Records of the index are read this many at a time.
const RECORDS_AHEAD: u64 = 64;

/// The entries of a journal from some number on, oldest first.
#[derive(Debug)]
pub(crate) struct Entries {
    target: Target,
    sources: VecDeque<Source>,
    /// Lines that have no number: their file, and where they are.
    tail: Option<(Arc<dyn Handle>, Bytes<u64>)>,
    /// The range that is being read: its lines are `buf[at..]`.
    buf: Vec<u8>,
    at: usize,
    /// The number of the next line in it.
    seq: u64,
    /// The next number that the caller gets.
    from: u64,
    /// The caller wants the oldest existing entry: missing entries before it are not reported.
    oldest: bool,
    until: u64,
    left: u64,
}

/// Where entries come from, in the order of their numbers.
#[derive(Debug)]
enum Source {
    /// Records of an index, and the files that they describe.
    Index(Indexed),
    /// A range of the file at this path.
    Range(Range, Option<Arc<dyn Handle>>, PathBuf),
    /// The same, with its text.
    Text(Range, Vec<u8>),
    /// Lines without a log, from an offset on.
    Plain { file: Arc<dyn Handle>, at: u64, end: u64, seq: u64 },
    /// Numbers up to this one are in a file that is missing.
    Missing { until: u64, path: PathBuf },
}

#[derive(Debug)]
struct Indexed {
    journal: Option<Arc<dyn Handle>>,
    path: PathBuf,
    previous: Previous,
    index: Index,
    at: u64,
    len: u64,
    ahead: VecDeque<Option<Range>>,
}

impl Indexed {
    /// The first `len` records of the index of the file at `path`, from entry `from` on.
    fn new(
        target: &Target,
        (journal, path): (Option<Arc<dyn Handle>>, PathBuf),
        previous: Previous,
        (index, len): (Index, u64),
        from: u64,
    ) -> Result<Self> {
        let at = index.find(target, len, from, &path)?;
        Ok(Self { journal, path, previous, index, at, len, ahead: VecDeque::new() })
    }

    fn next(&mut self, target: &Target) -> Result<Option<Range>> {
        if self.at >= self.len {
            return Ok(None);
        }
        if self.ahead.is_empty() {
            let more = self.index.records(self.at, (self.len - self.at).min(RECORDS_AHEAD));
            self.ahead = more.map_err(Target::failed("read index of", &self.path))?.into();
        }
        let range = self.ahead.pop_front().flatten();
        let range = range.ok_or_else(|| damaged(target, self.at, &self.path))?;
        self.at += 1;
        Ok(Some(range))
    }
}

impl Entries {
    pub(super) fn new(view: View, from: u64, limit: Option<u64>) -> Result<Self> {
        let target = view.target.clone();
        let mut sources = VecDeque::new();
        add_archives(&view, from, &mut sources)?;
        let path = target.path().to_path_buf();
        let mut tail = view.journal.clone().map(|file| (file, view.known..view.size));
        if let Some(index) = view.index.clone() {
            let file = (view.journal.clone(), path);
            let indexed = Indexed::new(&target, file, view.previous, index, from)?;
            sources.push_back(Source::Index(indexed));
        }
        match (view.plain, view.journal.clone()) {
            (Some((at, seq)), Some(file)) => {
                let end = lines::last_line_end(file.as_ref(), at, view.size);
                let end = end.map_err(Target::failed("read", target.path()))?;
                tail = Some((file.clone(), end..view.size));
                sources.push_back(Source::Plain { file, at, end, seq });
            }
            (Some((_, until)), None) => {
                sources.push_back(Source::Missing { until, path: target.path().to_path_buf() });
            }
            (None, _) => {}
        }
        let (journal, previous) = (view.journal.clone(), view.previous);
        for piece in view.pieces.into_iter().filter(|piece| piece.range.seq < view.until) {
            if let Some(text) = piece.text {
                sources.push_back(Source::Text(piece.range, text));
                continue;
            }
            let file = file_of(&target, journal.as_ref(), previous, &piece.range)?;
            sources.push_back(Source::Range(piece.range, file, target.path().to_path_buf()));
        }
        let (left, until) = (limit.unwrap_or(u64::MAX), view.until);
        let (from, oldest) = (from.max(1), from == 0);
        let (buf, at, seq) = (Vec::new(), 0, 0);
        Ok(Self { target, sources, tail, buf, at, seq, from, oldest, until, left })
    }

    pub(crate) fn pending(&self) -> Result<Vec<Vec<u8>>> {
        let Some((file, at)) = &self.tail else { return Ok(Vec::new()) };
        let bytes = file.read_range(at.start, at.end);
        let bytes = bytes.map_err(Target::failed("read", self.target.path()))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !lines::is_blank(line));
        Ok(lines.map(<[u8]>::to_vec).collect())
    }

    /// The next entry without copying it: its number, and its line, which is valid until the next
    /// call.
    pub(crate) fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        Ok(self.find_next()?.map(|line| (self.seq - 1, &self.buf[line])))
    }

    fn find_next(&mut self) -> Result<Option<Bytes<usize>>> {
        while self.left > 0 {
            while self.at < self.buf.len() {
                let start = self.at;
                let end =
                    memchr::memchr(b'\n', &self.buf[start..]).map_or(self.buf.len(), |n| start + n);
                self.at = end + 1;
                if lines::is_blank(&self.buf[start..end]) {
                    continue;
                }
                self.seq += 1;
                if self.seq > self.from {
                    self.from = self.seq;
                    self.oldest = false;
                    self.left -= 1;
                    return Ok(Some(start..end));
                }
            }
            match self.load() {
                Ok(true) => {}
                Ok(false) => self.left = 0,
                Err(error) if self.oldest && error.gap().is_some() => {}
                Err(error) => {
                    if error.gap().is_none() {
                        self.left = 0; // What comes behind damage is not read as if nothing had happened.
                    }
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Reads the next range; `false` at the end.
    fn load(&mut self) -> Result<bool> {
        (self.buf, self.at) = (std::mem::take(&mut self.buf), 0);
        self.buf.clear();
        let Some(source) = self.sources.pop_front() else { return Ok(false) };
        match source {
            Source::Index(mut indexed) => {
                let Some(range) = indexed.next(&self.target)? else { return Ok(true) };
                let file =
                    file_of(&self.target, indexed.journal.as_ref(), indexed.previous, &range)?;
                let path = indexed.path.clone();
                self.sources.push_front(Source::Index(indexed));
                self.read_range(range, file, path)?;
            }
            Source::Range(range, file, path) => self.read_range(range, file, path)?,
            Source::Text(range, text) => {
                if range.next_seq() > self.from {
                    (self.buf, self.seq) = (text, range.seq);
                    self.skip_to(range.seq, None)?;
                }
            }
            Source::Plain { file, at, end, seq } if at < end => {
                let read = read_lines(file.as_ref(), at, end, &mut self.buf);
                let next = read.map_err(Target::failed("read", self.target.path()))?;
                self.seq = seq;
                let seq = seq + lines::count(&self.buf);
                self.sources.push_front(Source::Plain { file, at: next, end, seq });
                self.skip_to(self.seq, None)?;
            }
            // Entries before it are gone, even if nothing replaced them.
            Source::Plain { seq, .. } => self.skip_to(seq, None)?,
            Source::Missing { until, path } => self.skip_to(until, Some(&path))?,
        }
        Ok(true)
    }

    fn read_range(
        &mut self,
        range: Range,
        file: Option<Arc<dyn Handle>>,
        path: PathBuf,
    ) -> Result<()> {
        if range.next_seq() <= self.from || range.seq >= self.until {
            return Ok(());
        }
        match range.kind {
            Kind::Lost => return self.skip_to(range.next_seq(), None),
            // A caller that resumes inside had entries with these numbers.
            Kind::Skipped if range.seq < self.from => return self.skip_to(range.next_seq(), None),
            Kind::Skipped | Kind::Dropped => {
                let gap = self.skip_to(range.seq, None);
                self.from = range.next_seq();
                return gap;
            }
            Kind::Here | Kind::Late => {}
        }
        if range.seq > self.from {
            let until = range.seq;
            self.sources.push_front(Source::Range(range, file, path));
            return self.skip_to(until, None);
        }
        let Some(file) = file else {
            return self.skip_to(range.next_seq(), Some(&path)); // Its archive is not there.
        };
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let size = file.extent().map_err(Target::failed("look at", &path))?.size;
        let fits = range.end <= size;
        if fits {
            self.buf.resize(len, 0);
            let read = file.read_full_at(&mut self.buf, range.start);
            read.map_err(Target::failed("read", &path))?;
        }
        if !fits || checksum::of(&self.buf) != range.sum {
            self.buf.clear();
            let Range { start, end, seq, .. } = range;
            let last = range.next_seq().saturating_sub(1);
            let detail = format!(
                "bytes {start} to {end} (entries {seq} to {last}) are not what was written"
            );
            let accept = command("journal repair --accept", self.target.path());
            let hint = format!("restore that part from a copy, or accept it with {accept}");
            return Err(Error::new(ErrorKind::Damaged, "read", detail).at(&path).hint(hint));
        }
        self.seq = range.seq;
        Ok(())
    }

    /// Continues at number `until`, and reports the entries before it.
    fn skip_to(&mut self, until: u64, archive: Option<&Path>) -> Result<()> {
        if until <= self.from {
            return Ok(());
        }
        let (first, last) = (self.from, until - 1);
        self.from = until;
        let why = match archive {
            Some(path) => format!("{} is not there", path.display()),
            None => "they were cut off, replaced, or lost with the power".to_owned(),
        };
        let detail = format!("entries {first} to {last} are gone: {why}");
        let error = Error::new(ErrorKind::Damaged, "read", detail).at(self.target.path());
        Err(error.hint(format!("read from {until} on, or restore them")).missing(first, last))
    }
}

/// Reads whole lines from `at` on, at least one, into `buf`. Returns where the next one begins.
fn read_lines(file: &dyn Handle, at: u64, end: u64, buf: &mut Vec<u8>) -> std::io::Result<u64> {
    let mut want = RANGE_BYTES;
    loop {
        *buf = file.read_range(at, end.min(at + want))?;
        let newline = memchr::memrchr(b'\n', buf);
        if let Some(newline) = newline {
            buf.truncate(newline + 1);
        }
        if newline.is_some() || at + want >= end {
            return Ok(if buf.is_empty() { end } else { at + buf.len() as u64 });
        }
        want *= 2;
    }
}

/// Adds the archives that hold `from` and later entries in front. Missing archives are reported.
fn add_archives(view: &View, from: u64, sources: &mut VecDeque<Source>) -> Result<()> {
    let target = &view.target;
    let (mut number, mut first) = (view.previous.archive, view.first);
    while from < first && number > 0 {
        let Some(archive) = Archive::open(target, number)? else {
            let path = archive_path(target, number);
            sources.push_front(Source::Missing { until: first, path });
            return Ok(());
        };
        number = archive.before(number);
        let Archive { path, file, index, records: len } = archive;
        let until = std::mem::replace(&mut first, index.title.first_seq);
        if file.is_none() {
            sources.push_front(Source::Missing { until, path });
            continue;
        }
        let previous = index.title.previous;
        let indexed = Indexed::new(target, (file, path), previous, (index, len), from)?;
        sources.push_front(Source::Index(indexed));
    }
    Ok(())
}
