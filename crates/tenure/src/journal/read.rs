//! Reading entries by their sequence numbers, in memory that does not grow with the journal.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle};
use crate::target::Target;

use super::index::{Index, Segment};
use super::lines::{self, CHUNK_BYTES};
use super::publish;
use super::view::{Piece, View};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number: grows over the life of the journal, rotated files included.
    pub seq: u64,
    /// Its bytes, without the newline.
    pub line: Vec<u8>,
}

/// The entries of a journal from some number on, oldest first. Made by
/// [`Journal::read`](super::Journal::read); later appends are not part of it.
#[derive(Debug)]
pub struct Entries {
    target: Target,
    sources: VecDeque<Source>,
    scan: Option<Scan>,
    from: u64,
    left: u64,
}

/// Where entries come from, in the order of their numbers.
#[derive(Debug)]
enum Source {
    /// Records `at..len` of an index.
    Indexed {
        journal: Arc<dyn Handle>,
        index: Index,
        at: u64,
        len: u64,
    },
    Piece(Option<Arc<dyn Handle>>, Piece),
}

impl Entries {
    pub(super) fn new(view: &View, from: u64, limit: Option<u64>) -> Result<Self> {
        let mut sources = VecDeque::new();
        if let (Some((index, len)), Some(journal)) = (&view.index, &view.journal) {
            add_archives(view, index, from, &mut sources)?;
            let at = index.find(*len, from)?;
            let (index, journal) = (index.clone(), journal.clone());
            sources.push_back(Source::Indexed { journal, index, at, len: *len });
        }
        for piece in &view.pieces {
            sources.push_back(Source::Piece(view.journal.clone(), piece.clone()));
        }
        let left = limit.unwrap_or(u64::MAX);
        Ok(Self { target: view.target.clone(), sources, scan: None, from, left })
    }

    /// Opens the next stretch of entries; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        let Some(source) = self.sources.pop_front() else { return Ok(false) };
        self.scan = match source {
            Source::Piece(Some(journal), Piece::Range { start, end, seq }) => {
                Some(Scan::of_file(journal, start, end, seq))
            }
            Source::Piece(_, Piece::Logged { bytes, seq }) => Some(Scan::of_bytes(&bytes, seq)),
            Source::Piece(None, Piece::Range { .. }) => None,
            Source::Indexed { at, len, .. } if at >= len => None,
            Source::Indexed { journal, index, at, len } => {
                let record = index.record(at);
                let record = record.map_err(Target::failed("read index of", self.target.path()))?;
                let Some(record) = record else {
                    return Err(Index::damaged(at).at(self.target.path()));
                };
                let Segment { start, end, seq, .. } = record.segment;
                let mut scan = Scan::of_file(journal.clone(), start, end, seq);
                scan.must_end_at = Some(record.segment.next_seq());
                self.sources.push_front(Source::Indexed { journal, index, at: at + 1, len });
                Some(scan)
            }
        };
        Ok(true)
    }

    fn next_entry(&mut self) -> Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        loop {
            if let Some(scan) = &mut self.scan {
                let failed = Target::failed("read", self.target.path());
                if let Some(entry) = scan.next_from(self.from).map_err(failed)? {
                    self.left -= 1;
                    return Ok(Some(entry));
                }
                let (start, end) = (scan.start, scan.end);
                let damaged = scan.must_end_at.is_some_and(|seq| seq != scan.seq);
                self.scan = None;
                if damaged {
                    let detail = format!("bytes {start} to {end} do not have the lines they had");
                    return Err(Error::new(ErrorKind::Damaged, "read", detail)
                        .at(self.target.path())
                        .hint("verify the journal; restore that part from a copy"));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_entry().transpose();
        if matches!(next, Some(Err(_))) {
            // What comes after damage is not read as if nothing had happened.
            self.left = 0;
        }
        next
    }
}

/// Puts the archives that hold `from` and later entries in front. One that was removed ends the way.
fn add_archives(
    view: &View,
    index: &Index,
    from: u64,
    sources: &mut VecDeque<Source>,
) -> Result<()> {
    let target = &view.target;
    let mut title = index.title;
    while from < title.first_seq && title.archive > 0 {
        let archive = title.archive;
        let mut indexes = vec![target.sidecar(&format!("index.{archive}"))];
        let mut journals = vec![publish::archive_path(target, archive)];
        let intent = view.intent.filter(|intent| intent.archive == archive);
        if let Some(intent) = intent {
            // The rotation is not finished: the names from before.
            indexes.push(target.sidecar("index"));
            journals.push(publish::temp_path(target, intent.journal_temp));
        }
        let mut found = None;
        for path in &indexes {
            let index = Index::open(target, path, Access::Read)?;
            found = found.or(index.filter(|index| index.title.generation != title.generation));
        }
        // A file of somebody else may have the archive's name until the rotation takes another.
        let is_old = |journal: &Arc<dyn Handle>| match intent {
            Some(intent) => journal.id().is_ok_and(|id| id.ino == intent.old.ino),
            None => true,
        };
        let open = |path: &PathBuf| target.fs.open(path, Access::Read).ok().filter(is_old);
        let journal = journals.iter().find_map(open);
        let (Some(index), Some(journal)) = (found, journal) else { return Ok(()) };
        let len = index.capacity().map_err(Target::failed("read index of", target.path()))?;
        let at = index.find(len, from)?;
        title = index.title;
        sources.push_front(Source::Indexed { journal, index, at, len });
    }
    Ok(())
}

/// Lines of a stretch of bytes, a chunk at a time.
#[derive(Debug)]
pub(super) struct Scan {
    journal: Option<Arc<dyn Handle>>,
    start: u64,
    /// Where the next chunk is read.
    pos: u64,
    end: u64,
    buf: Vec<u8>,
    at: usize,
    seq: u64,
    must_end_at: Option<u64>,
}

impl Scan {
    pub(super) fn of_file(journal: Arc<dyn Handle>, start: u64, end: u64, seq: u64) -> Self {
        let journal = Some(journal);
        Self { journal, start, pos: start, end, buf: Vec::new(), at: 0, seq, must_end_at: None }
    }

    fn of_bytes(bytes: &[u8], seq: u64) -> Self {
        let buf = bytes.to_vec();
        Self { journal: None, start: 0, pos: 0, end: 0, buf, at: 0, seq, must_end_at: None }
    }

    /// The next entry with at least this number.
    pub(super) fn next_from(&mut self, from: u64) -> std::io::Result<Option<Entry>> {
        loop {
            let rest = &self.buf[self.at..];
            let line = if let Some(newline) = memchr::memchr(b'\n', rest) {
                self.at += newline + 1;
                &rest[..newline]
            } else if self.pos < self.end && self.refill()? {
                continue;
            } else if self.at < self.buf.len() {
                let start = self.at;
                self.at = self.buf.len();
                &self.buf[start..]
            } else {
                return Ok(None);
            };
            if lines::is_blank(line) {
                continue;
            }
            self.seq += 1;
            if self.seq > from {
                return Ok(Some(Entry { seq: self.seq - 1, line: line.to_vec() }));
            }
        }
    }

    /// Reads more behind the unfinished line.
    fn refill(&mut self) -> std::io::Result<bool> {
        let Some(journal) = &self.journal else { return Ok(false) };
        self.buf.drain(..self.at);
        self.at = 0;
        let until = self.end.min(self.pos + CHUNK_BYTES as u64);
        let kept = self.buf.len();
        let want = usize::try_from(until - self.pos).unwrap_or(CHUNK_BYTES);
        self.buf.resize(kept + want, 0);
        let read = journal.read_full_at(&mut self.buf[kept..], self.pos)?;
        self.buf.truncate(kept + read);
        self.pos += read as u64;
        if read < want {
            self.end = self.pos; // Somebody cut the file; what must be there is checked above.
        }
        Ok(read > 0)
    }
}
