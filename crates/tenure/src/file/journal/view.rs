//! The journal as a reader sees it: without a lock, and without writing anything.
//!
//! # Invariants
//!
//! 1. A log is read through one descriptor, and nothing in it that counts is overwritten. Together
//!    with the index and the file that it names, it is a state that the journal had.
//! 2. Readers number nothing. A line that is not adopted is pending, and has no number. The one exception is a file
//!    that no log describes: its complete lines have the numbers that the next writer will give them.
//! 3. After a restart, and before a writer came, batches are read from the log, which is durable, and not from the
//!    journal, which may have lost them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::target::Target;
use crate::fs::{Access, Handle, if_found};
use crate::printable::command;

use super::archive::{index_path, open_if_there, previous_paths};
use super::checkpoint;
use super::files::{has_inode, open_by_inode};
use super::format::{Batch, Header, HeaderLine, Kind, Previous, RECORDS_AT, Range, Replace};
use super::index::Index;
use super::lines::Cut;
use super::log::{Chain, Found, Log, has_base, path_of};
use super::replace::old_paths;

/// How often a view is taken again while writers replace the files.
const ATTEMPTS: usize = 100;

/// The journal at one moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) target: Target,
    pub(super) journal: Option<Arc<dyn Handle>>,
    pub(super) size: u64,
    /// The index, and how many of its records count.
    pub(super) index: Option<(Index, u64)>,
    /// The ranges after the index, in the order of the numbers.
    pub(super) pieces: Vec<Piece>,
    /// Lines without a log: they begin here, with this number.
    pub(super) plain: Option<(u64, u64)>,
    pub(super) line: HeaderLine,
    pub(super) previous: Previous,
    /// Entries below this number are in the archives, or gone.
    pub(super) first: u64,
    /// The next entry to be read has a smaller number than this.
    pub(super) until: u64,
    /// The journal's lines are known up to here.
    pub(super) known: u64,
    /// Logged batches that are not in the journal.
    pub(super) pending: u64,
    /// There is a log, and it does not describe this file.
    pub(super) unbound: bool,
    /// It is the log's file, and lines up to here are missing.
    pub(super) cut: Option<u64>,
}

/// A range, and its text if it is read from the log.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) range: Range,
    pub(super) text: Option<Vec<u8>>,
}

impl View {
    pub(super) fn of(target: &Target) -> Result<Self> {
        for attempt in 1..=ATTEMPTS {
            // Numbers that no log has given out are those of the next writer, as long as it has not begun: the lines
            // are looked at first, and the log once more.
            match Log::open(target, Access::Read)? {
                Found::Log(log) => match Self::with_log(target, &log, attempt == ATTEMPTS)? {
                    Some(view) if view.plain.is_none() || is_current(target, &log)? => {
                        return Ok(view);
                    }
                    _ => {}
                },
                found => {
                    let view = Self::without_log(target, matches!(found, Found::Garbage))?;
                    if !matches!(Log::open(target, Access::Read)?, Found::Log(_)) {
                        return Ok(view);
                    }
                }
            }
        }
        let detail = "writers keep replacing its files";
        Err(Error::new(ErrorKind::Busy, "read", detail).at(target.path()).hint("try again"))
    }

    /// The file alone. An index that outlived its log says which numbers were given out, and knows the archives.
    fn without_log(target: &Target, is_garbage: bool) -> Result<Self> {
        let Some(index) = Index::open(target, &target.sidecar("index"), Access::Read)? else {
            let view = Self::plain(target, 1, HeaderLine::default())?;
            return Ok(Self { unbound: is_garbage, ..view });
        };
        let next = index.next_seq().map_err(Target::failed("read index of", target.path()))?;
        let view = Self::plain(target, next, index.title.line)?;
        Ok(Self { previous: index.title.previous, ..view })
    }

    /// A file that no log describes. Its lines begin with number `first`, behind the header line if that is still there.
    fn plain(target: &Target, first: u64, line: HeaderLine) -> Result<Self> {
        let mut view = Self::empty(target, open_if_there(target, target.path())?)?;
        let is_there = view.journal.as_ref().map(|file| line.is_in(file.as_ref())).transpose();
        if is_there.map_err(Target::failed("read", target.path()))? == Some(true) {
            view.line = line;
        }
        view.plain = Some((view.line.len, first));
        (view.first, view.until, view.unbound) = (first, u64::MAX, true);
        Ok(view)
    }

    fn empty(target: &Target, journal: Option<Arc<dyn Handle>>) -> Result<Self> {
        let size = journal.as_ref().map_or(Ok(0), |file| file.extent().map(|found| found.size));
        Ok(Self {
            target: target.clone(),
            journal,
            size: size.map_err(Target::failed("look at", target.path()))?,
            index: None,
            pieces: Vec::new(),
            plain: None,
            line: HeaderLine::default(),
            previous: Previous::default(),
            first: 1,
            until: 1,
            known: 0,
            pending: 0,
            unbound: false,
            cut: None,
        })
    }

    /// `None` if a writer replaced the files meanwhile.
    fn with_log(target: &Target, log: &Log, is_last: bool) -> Result<Option<Self>> {
        let path = path_of(target);
        let failed = Target::failed;
        let mut header = log.header;
        let own = log.file.id().map_err(failed("look at", &path))?.ino == header.file.ino;
        let state = log.state(target.fs.boot_id()).map_err(failed("read", &path))?;
        let mut state = state.filter(|_| own).map(|(_, state)| state);
        let chain = log.chain(RECORDS_AT, state.map(|state| state.end));
        let mut chain = chain.map_err(failed("read", &path))?;
        if state.is_some_and(|state| state.end != chain.end) {
            let detail = "its log is damaged";
            let error = Error::new(ErrorKind::Damaged, "read", detail).at(target.path());
            let repair = command("journal repair", target.path());
            return Err(error.hint(format!("{repair} gives its lines new numbers")));
        }
        let replace = chain.replace.filter(|replace| replace.archive == 0);
        let is_new = |replace: Replace| has_inode(target, target.path(), replace.new.ino);
        let is_new = replace.map_or(Ok(false), is_new)?;
        if let Some(replace) = replace.filter(|_| is_new) {
            // The new journal has its name, and the rest of the replacement changes no entry.
            let old_end = state.map_or(header.base, |state| state.journal_end);
            header = replace.finished(&header, old_end);
            chain = Chain { replace: chain.replace, ..Chain::default() };
            if let Some(state) = &mut state {
                (state.seq, state.journal_end) = (state.seq.max(header.seq), header.base);
            }
        }
        let copied = if own { None } else { open_if_there(target, target.path())? };
        let is_copy = match &copied {
            Some(file) => chain.describes(&header, file).map_err(failed("read", &path))?,
            None => false,
        };
        let (journal, index) = find_files(target, &header, &chain)?;
        let journal = if is_copy { copied } else { journal };
        let without_index = index.is_none() && header.index.len > 0;
        if (journal.is_none() || without_index) && !is_current(target, log)? {
            return Ok(None);
        }
        let mut view = Self::empty(target, journal)?;
        let seq = state.map_or_else(|| chain.next_seq(&header), |state| state.seq);
        let known = state.map_or(header.base, |state| state.journal_end);
        let is_new = chain.replace.is_some() && header.journal != log.header.journal;
        let is_cut =
            view.size < known || (state.is_none() && !is_new && !view.has_base(&header)?);
        if view.journal.is_none() || !(own || is_copy) || is_cut {
            // The numbers that the next writer gives. Before a replacement every number is durable.
            let exact = (own && state.is_some()) || is_new;
            let next = if exact { seq } else { seq.max(header.reserved) };
            let cut = state.filter(|_| is_cut && own && view.journal.is_some()).map(|_| known);
            let plain = Self::plain(target, next, header.line)?;
            return Ok(Some(Self { previous: header.previous, cut, ..plain }));
        }
        if without_index && !is_last {
            return Ok(None); // A replacement may have moved it between two looks.
        }
        if without_index {
            return Err(super::index::damaged(target, 0, target.path()));
        }
        view.first = index.as_ref().map_or(header.seq, |index| index.title.first_seq);
        view.index = index.map(|index| (index, header.index.len));
        (view.line, view.previous, view.known) = (header.line, header.previous, known);
        view.until = seq;
        if let Some(state) = state {
            view.pending = state.number - state.placed;
            let ranges = chain.placed(state.placed);
            view.pieces = ranges.into_iter().map(|range| Piece { range, text: None }).collect();
            let pending = chain.batches.iter().filter(|batch| batch.number >= state.placed);
            for batch in pending.clone().filter(|batch| batch.number <= state.applying) {
                // It is durable, and a writer is writing it to the journal, or died doing so.
                view.add_text(batch, chain.text(batch));
            }
            let hidden =
                pending.filter(|batch| batch.number > state.applying).map(|batch| batch.seq);
            view.until = hidden.min().unwrap_or(seq);
            view.pieces.sort_by_key(|piece| piece.range.seq);
        } else {
            view.after_restart(&header, &chain)?;
        }
        Ok(Some(view))
    }

    /// What a writer would find and restore.
    fn after_restart(&mut self, header: &Header, chain: &Chain) -> Result<()> {
        for batch in &chain.batches {
            let (start, text) = (batch.start, chain.text(batch));
            let end = start + text.len() as u64;
            let there = self.journal.as_ref().map(|file| file.read_range(start, end)).transpose();
            let there = there.map_err(Target::failed("read", self.target.path()))?;
            // Where the power loss took it, other tools may have written since.
            if there.is_some_and(|there| there == text) {
                self.known = self.known.max(end);
            }
            self.add_text(batch, text);
        }
        for range in &chain.ranges {
            let file = self.file_of(range)?;
            let is_whole = range.is_in(file.as_ref());
            let is_whole = is_whole.map_err(Target::failed("read", self.target.path()))?;
            let range = if is_whole { *range } else { range.as_lost() };
            if range.kind != Kind::Late {
                self.known = self.known.max(range.end);
            }
            self.pieces.push(Piece { range, text: None });
        }
        if self.until < header.reserved {
            let range = Range::without(Kind::Skipped, self.until, header.reserved);
            self.pieces.push(Piece { range, text: None });
            self.until = header.reserved;
        }
        self.pieces.sort_by_key(|piece| piece.range.seq);
        Ok(())
    }

    fn has_base(&self, header: &Header) -> Result<bool> {
        let Some(journal) = &self.journal else { return Ok(false) };
        has_base(journal.as_ref(), header).map_err(Target::failed("read", self.target.path()))
    }

    /// A batch that is read from the log.
    fn add_text(&mut self, batch: &Batch, text: &[u8]) {
        let mut cut = Cut::default();
        cut.add(batch.start, batch.seq, text);
        for range in cut.finish() {
            let at = |offset: u64| usize::try_from(offset - batch.start).unwrap_or(0);
            let text = text[at(range.start)..at(range.end)].to_vec();
            self.pieces.push(Piece { range, text: Some(text) });
        }
    }

    /// The file that has the bytes of `range`.
    pub(super) fn file_of(&self, range: &Range) -> Result<Option<Arc<dyn Handle>>> {
        file_of(&self.target, self.journal.as_ref(), self.previous, range)
    }
}

/// The file that has the bytes of `range`, of a journal that replaced `previous`.
pub(super) fn file_of(
    target: &Target,
    journal: Option<&Arc<dyn Handle>>,
    previous: Previous,
    range: &Range,
) -> Result<Option<Arc<dyn Handle>>> {
    if range.kind != Kind::Late {
        return Ok(journal.cloned());
    }
    open_by_inode(target, previous.ino, &previous_paths(target, previous))
}

/// A journal and its index, each if it is there.
type Files = (Option<Arc<dyn Handle>>, Option<Index>);

/// The journal that a log names, and its index, wherever an unfinished replacement has left them.
fn find_files(target: &Target, header: &Header, chain: &Chain) -> Result<Files> {
    let mut paths = vec![target.path().to_path_buf()];
    let temp = checkpoint::temp_path(target, checkpoint::INDEX_TEMP);
    let mut indexes = vec![target.sidecar("index"), temp];
    if let Some(replace) = &chain.replace {
        paths = old_paths(target, replace);
        indexes.push(index_path(target, replace.archive));
        indexes.push(checkpoint::temp_path(target, checkpoint::NEXT_INDEX_TEMP));
    }
    let journal = open_by_inode(target, header.journal.ino, &paths)?;
    let mut found = None;
    for path in indexes.iter().filter(|_| header.index.len > 0) {
        let index = Index::open(target, path, Access::Read)?;
        found = index.filter(|index| index.title.generation == header.index.generation);
        if found.is_some() {
            break;
        }
    }
    Ok((journal, found))
}

fn is_current(target: &Target, log: &Log) -> Result<bool> {
    let path = path_of(target);
    let own = log.file.id().map_err(Target::failed("look at", &path))?;
    has_inode(target, &path, own.ino)
}

/// Whether logged batches are not yet in the journal, which exists.
pub(super) fn has_pending(target: &Target) -> Result<bool> {
    let Found::Log(log) = Log::open(target, Access::Read)? else { return Ok(false) };
    let state = log.state(target.fs.boot_id()).map_err(Target::failed("read", &path_of(target)))?;
    let waits = state.is_none_or(|(_, state)| state.placed < state.number || state.applying > 0);
    if !waits {
        return Ok(false);
    }
    let found = if_found(target.fs.stat(target.path()));
    Ok(found.map_err(Target::failed("look at", target.path()))?.is_some())
}

/// Whether the journal, or the file that it replaced, is longer than the log knows.
pub(super) fn has_unadopted(target: &Target) -> Result<bool> {
    let Found::Log(log) = Log::open(target, Access::Read)? else { return Ok(false) };
    let state = log.state(target.fs.boot_id()).map_err(Target::failed("read", &path_of(target)))?;
    let Some((_, state)) = state else { return Ok(true) };
    let previous = log.header.previous;
    let is_late = |path: &PathBuf| {
        let found = target.fs.extent(path);
        found.is_ok_and(|found| found.id.ino == previous.ino && found.size > state.late_end)
    };
    let size = target.fs.extent(target.path()).map_or(0, |found| found.size);
    let mut paths = previous_paths(target, previous).into_iter().filter(|_| previous.ino != 0);
    Ok(paths.any(|path| is_late(&path)) || size != state.journal_end)
}
