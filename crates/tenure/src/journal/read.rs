//! Reading entries by their sequence numbers, in memory that does not grow with the journal.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle};
use crate::target::Target;

use super::bound;
use super::head::Intent;
use super::index::{Index, Record, Segment, Title};
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
    scan: Scan,
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
            let at = index.find(*len, from).map_err(|error| error.at(view.target.path()))?;
            let (index, journal) = (index.clone(), journal.clone());
            sources.push_back(Source::Indexed(Indexed::new(journal, index, at, *len)));
        }
        for piece in &view.pieces {
            sources.push_back(Source::Piece(view.journal.clone(), piece.clone()));
        }
        let left = limit.unwrap_or(u64::MAX);
        Ok(Self { target: view.target.clone(), sources, scan: Scan::default(), from, left })
    }

    /// The next entry without a copy of its own: its number, and its line, which is there until the next
    /// call. For those who look at each entry once and keep none.
    ///
    /// ```no_run
    /// # fn main() -> tenure::Result<()> {
    /// # let journal = tenure::Journal::open("log")?;
    /// let (mut entries, mut bytes) = (journal.read(1, None)?, 0);
    /// while let Some((_seq, line)) = entries.next_line()? {
    ///     bytes += line.len();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        Ok(self.find_next()?.map(|line| self.scan.numbered(line)))
    }

    /// Where in the scan the next entry is.
    #[inline]
    fn find_next(&mut self) -> Result<Option<Range<usize>>> {
        if self.left == 0 {
            return Ok(None);
        }
        // Nearly always the next line is in memory already.
        let line = match self.scan.at_hand(self.from) {
            Some(line) => line,
            None => match self.read_on() {
                Ok(Some(line)) => line,
                ended => {
                    // What comes after damage is not read as if nothing had happened.
                    self.left = 0;
                    return ended;
                }
            },
        };
        self.left -= 1;
        Ok(Some(line))
    }

    /// The same, where there may be more to read.
    #[cold]
    fn read_on(&mut self) -> Result<Option<Range<usize>>> {
        loop {
            let failed = Target::failed("read", self.target.path());
            if let Some(line) = self.scan.next_from(self.from).map_err(failed)? {
                return Ok(Some(line));
            }
            let Scan { start, end, seq, must_end_at, .. } = self.scan;
            if must_end_at.is_some_and(|must| must != seq) {
                let detail = format!("bytes {start} to {end} do not have the lines they had");
                return Err(Error::new(ErrorKind::Damaged, "read", detail)
                    .at(self.target.path())
                    .hint("verify the journal; restore that part from a copy"));
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    /// Opens the next stretch of entries; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        let Some(source) = self.sources.pop_front() else { return Ok(false) };
        match source {
            Source::Piece(Some(journal), Piece::Range { start, end, seq }) => {
                self.scan.begin(journal, start, end, seq);
            }
            Source::Piece(_, Piece::Logged { bytes, seq }) => self.scan.begin_at_hand(&bytes, seq),
            Source::Piece(None, Piece::Range { .. }) => {}
            Source::Indexed(mut indexed) => {
                if let Some(Record { segment, .. }) = indexed.next(&self.target)? {
                    let Segment { start, end, seq, .. } = segment;
                    self.scan.begin(indexed.journal.clone(), start, end, seq);
                    self.scan.must_end_at = Some(segment.next_seq());
                    self.sources.push_front(Source::Indexed(indexed));
                }
            }
        }
        Ok(true)
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let owned = |(seq, line): (u64, &[u8])| Entry { seq, line: line.to_vec() };
        self.next_line().map(|next| next.map(owned)).transpose()
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
        // A rotation that is not finished may have taken another number than the index says.
        let ours = |intent: &Intent| intent.archive > 0 && intent.generation == title.generation;
        let intent = view.intent.filter(ours);
        let archive = intent.map_or(title.archive, |intent| intent.archive);
        // If the rotation is not finished they may still have the names from before. Those come first: a
        // file that moves meanwhile must not be missed, and what has the old name then is another one.
        let (mut indexes, mut journals) = (Vec::new(), Vec::new());
        if let Some(intent) = intent {
            indexes.push(target.sidecar("index"));
            journals.push(publish::temp_path(target, intent.journal_temp));
        }
        indexes.push(target.sidecar(&format!("index.{archive}")));
        journals.push(publish::archive_path(target, archive));
        let mut found = None;
        for path in &indexes {
            let index = Index::open(target, path, Access::Read)?;
            found = index.filter(|index| index.title.generation != title.generation).or(found);
        }
        // A file of somebody else may have the archive's name until the rotation takes another.
        let is_old = |journal: &Arc<dyn Handle>| match intent {
            Some(intent) => journal.id().is_ok_and(|id| id.ino == intent.old.ino),
            None => true,
        };
        let open = |path: &PathBuf| target.fs.open(path, Access::Read).ok().filter(is_old);
        let journal = journals.iter().find_map(open);
        let (Some(index), Some(journal)) = (found, journal) else { return Ok(()) };
        check_archive(&index, journal.as_ref(), &publish::archive_path(target, archive))?;
        let len = index.capacity().map_err(Target::failed("read index of", target.path()))?;
        let at = index.find(len, from).map_err(|error| error.at(target.path()))?;
        // Each archive is younger than the one before it; who may write there can plant a circle.
        let older = index.title.archive < archive;
        title = if older { index.title } else { Title::default() };
        sources.push_front(Source::Indexed(Indexed::new(journal, index, at, len)));
    }
    Ok(())
}

/// An archive is read by its name, and programs that rotate use such names as well. If it is another file than it was (a
/// copy that was put back, or one of somebody else), it has to begin as it did.
fn check_archive(index: &Index, journal: &dyn Handle, path: &Path) -> Result<()> {
    let failed = |err| Target::failed("read", path)(err);
    if journal.id().map_err(failed)?.ino == index.title.journal.ino {
        return Ok(());
    }
    let records = index.records(0, RECORDS_AHEAD).map_err(failed)?;
    if bound::has_a_range(journal, &records).map_err(failed)? == Some(false) {
        let detail = "it is not the archive that it was";
        let error = Error::new(ErrorKind::Damaged, "read", detail).at(path);
        return Err(error.hint("put the archive back, or move this file away"));
    }
    Ok(())
}

/// Lines of a stretch of bytes, a chunk at a time; of one stretch after another, in the same room.
#[derive(Debug, Default)]
struct Scan {
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
    /// Goes on with a stretch of the file.
    fn begin(&mut self, journal: Arc<dyn Handle>, start: u64, end: u64, seq: u64) {
        let (journal, buf) = (Some(journal), std::mem::take(&mut self.buf));
        *self = Self { journal, start, pos: start, end, buf, seq, ..Self::default() };
    }

    /// Goes on with bytes that are in memory already.
    fn begin_at_hand(&mut self, bytes: &[u8], seq: u64) {
        *self = Self { buf: bytes.to_vec(), filled: bytes.len(), seq, ..Self::default() };
    }

    /// Where in the buffer the next entry is that has at least this number.
    fn next_from(&mut self, from: u64) -> std::io::Result<Option<Range<usize>>> {
        loop {
            if let Some(line) = self.at_hand(from) {
                return Ok(Some(line));
            }
            if self.pos < self.end && self.refill()? {
                continue;
            }
            // The last line may have no newline.
            let line = std::mem::replace(&mut self.at, self.filled)..self.filled;
            return Ok(self.counts(&line, from).then_some(line));
        }
    }

    /// The same, if it is in memory and has its newline. Only where it is: the entry itself, built here
    /// and moved to the caller, would cost as much as finding it.
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

    /// The line that was numbered last, and its number.
    #[inline]
    fn numbered(&self, line: Range<usize>) -> (u64, &[u8]) {
        (self.seq - 1, &self.buf[line])
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
        Ok(read > 0) // Somebody may have cut the file; what must be there is checked above.
    }
}
