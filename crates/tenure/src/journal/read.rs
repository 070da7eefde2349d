//! Reading entries by their sequence numbers, in memory that does not grow with the journal.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle};
use crate::target::Target;

use super::index::{Index, Record, Segment};
use super::lines::{self, CHUNK_BYTES};
use super::publish;
use super::view::{Piece, View};

/// Records of the index are read this many at a time.
const RECORDS_AHEAD: u64 = 16;

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
    /// The room of the scan before.
    spare: Vec<u8>,
    from: u64,
    left: u64,
}

/// Where entries come from, in the order of their numbers.
#[derive(Debug)]
enum Source {
    Indexed(Indexed),
    Piece(Option<Arc<dyn Handle>>, Piece),
}

/// Records `at..len` of an index.
#[derive(Debug)]
struct Indexed {
    journal: Arc<dyn Handle>,
    index: Index,
    at: u64,
    len: u64,
    /// The records from `at` on that were read already.
    ahead: std::vec::IntoIter<Option<Record>>,
}

impl Indexed {
    fn new(journal: Arc<dyn Handle>, index: Index, at: u64, len: u64) -> Self {
        Self { journal, index, at, len, ahead: Vec::new().into_iter() }
    }

    /// The next record; `None` behind the last.
    fn next(&mut self, target: &Target) -> Result<Option<Record>> {
        if self.at >= self.len {
            return Ok(None);
        }
        if self.ahead.len() == 0 {
            let more = self.index.records(self.at, (self.len - self.at).min(RECORDS_AHEAD));
            let more = more.map_err(Target::failed("read index of", target.path()))?;
            self.ahead = more.into_iter();
        }
        let Some(record) = self.ahead.next().flatten() else {
            return Err(Index::damaged(self.at).at(target.path()));
        };
        self.at += 1;
        Ok(Some(record))
    }
}

impl Entries {
    pub(super) fn new(view: &View, from: u64, limit: Option<u64>) -> Result<Self> {
        let mut sources = VecDeque::new();
        if let (Some((index, len)), Some(journal)) = (&view.index, &view.journal) {
            add_archives(view, index, from, &mut sources)?;
            let at = index.find(*len, from)?;
            let (index, journal) = (index.clone(), journal.clone());
            sources.push_back(Source::Indexed(Indexed::new(journal, index, at, *len)));
        }
        for piece in &view.pieces {
            sources.push_back(Source::Piece(view.journal.clone(), piece.clone()));
        }
        let left = limit.unwrap_or(u64::MAX);
        Ok(Self { target: view.target.clone(), sources, scan: None, spare: Vec::new(), from, left })
    }

    /// Opens the next stretch of entries; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        let Some(source) = self.sources.pop_front() else { return Ok(false) };
        self.scan = match source {
            Source::Piece(Some(journal), Piece::Range { start, end, seq }) => {
                Some(Scan::of_file(journal, start, end, seq, std::mem::take(&mut self.spare)))
            }
            Source::Piece(_, Piece::Logged { bytes, seq }) => Some(Scan::of_bytes(&bytes, seq)),
            Source::Piece(None, Piece::Range { .. }) => None,
            Source::Indexed(mut indexed) => match indexed.next(&self.target)? {
                None => None,
                Some(record) => {
                    let Segment { start, end, seq, .. } = record.segment;
                    let (journal, spare) =
                        (indexed.journal.clone(), std::mem::take(&mut self.spare));
                    let mut scan = Scan::of_file(journal, start, end, seq, spare);
                    scan.must_end_at = Some(record.segment.next_seq());
                    self.sources.push_front(Source::Indexed(indexed));
                    Some(scan)
                }
            },
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
                self.spare = self.scan.take().map_or_else(Vec::new, |scan| scan.buf);
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
        // Nearly always the next line is in memory already.
        if let Some(scan) = self.scan.as_mut().filter(|_| self.left > 0) {
            if let Some(line) = scan.at_hand(self.from) {
                self.left -= 1;
                return Some(Ok(scan.entry(line)));
            }
        }
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
        sources.push_front(Source::Indexed(Indexed::new(journal, index, at, len)));
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
    /// What was read and not yet handed out is `buf[at..filled]`; the rest is room.
    buf: Vec<u8>,
    at: usize,
    filled: usize,
    seq: u64,
    must_end_at: Option<u64>,
}

impl Scan {
    /// `buf` is room that another scan has left.
    pub(super) fn of_file(
        journal: Arc<dyn Handle>,
        start: u64,
        end: u64,
        seq: u64,
        buf: Vec<u8>,
    ) -> Self {
        let (journal, pos, must_end_at) = (Some(journal), start, None);
        Self { journal, start, pos, end, buf, at: 0, filled: 0, seq, must_end_at }
    }

    fn of_bytes(bytes: &[u8], seq: u64) -> Self {
        let (buf, filled, must_end_at) = (bytes.to_vec(), bytes.len(), None);
        Self { journal: None, start: 0, pos: 0, end: 0, buf, at: 0, filled, seq, must_end_at }
    }

    /// The next entry with at least this number.
    pub(super) fn next_from(&mut self, from: u64) -> std::io::Result<Option<Entry>> {
        loop {
            if let Some(line) = self.at_hand(from) {
                return Ok(Some(self.entry(line)));
            }
            if self.pos < self.end && self.refill()? {
                continue;
            }
            // The last line may have no newline.
            let line = std::mem::replace(&mut self.at, self.filled)..self.filled;
            return Ok(self.counts(&line, from).then(|| self.entry(line)));
        }
    }

    /// Where in the buffer the same is, if it is in memory and has its newline. Not the entry itself:
    /// built here and moved to the caller, it would cost as much as finding it.
    #[inline]
    fn at_hand(&mut self, from: u64) -> Option<Range<usize>> {
        loop {
            let start = self.at;
            let end = start + memchr::memchr(b'\n', &self.buf[start..self.filled])?;
            self.at = end + 1;
            if self.counts(&(start..end), from) {
                return Some(start..end);
            }
        }
    }

    /// Numbers the line if it is an entry, and says whether it is wanted.
    #[inline]
    fn counts(&mut self, line: &Range<usize>, from: u64) -> bool {
        if lines::is_blank(&self.buf[line.clone()]) {
            return false;
        }
        self.seq += 1;
        self.seq > from
    }

    /// The entry that was numbered last.
    #[inline]
    fn entry(&self, line: Range<usize>) -> Entry {
        Entry { seq: self.seq - 1, line: self.buf[line].to_vec() }
    }

    /// Reads more behind the unfinished line.
    fn refill(&mut self) -> std::io::Result<bool> {
        let Some(journal) = &self.journal else { return Ok(false) };
        self.buf.copy_within(self.at..self.filled, 0);
        (self.at, self.filled) = (0, self.filled - self.at);
        let want = usize::try_from(self.end - self.pos).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        if self.buf.len() < self.filled + want {
            self.buf.resize((self.filled + want).max(self.buf.len() * 2), 0); // A long line.
        }
        let read =
            journal.read_full_at(&mut self.buf[self.filled..self.filled + want], self.pos)?;
        self.filled += read;
        self.pos += read as u64;
        if read < want {
            self.end = self.pos; // Somebody cut the file; what must be there is checked above.
        }
        Ok(read > 0)
    }
}
