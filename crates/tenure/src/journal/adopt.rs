//! A journal that is not the one its sidecars describe: restored, replaced, cut, or new to tenure.
//!
//! # Invariants
//!
//! 1. (J8) The data wins: nothing in it is cut, replaced or replayed. All of it is numbered anew,
//!    above every number that is still known, and the index starts over in a new generation.
//! 2. (J7) Batches that live processes of this very log still wait for are appended behind it: whole,
//!    once, and with the numbers they were logged with. The head remembers those that cannot be read
//!    any more as lost, so that nobody takes them for done.

use serde_json::json;

use crate::error::Result;
use crate::events;
use crate::fs::{Access, FileId};
use crate::group;
use crate::random;
use crate::sys;

use super::bound;
use super::checkpoint::Span;
use super::entry::Logged;
use super::head::{ENTRIES_AT, Head};
use super::index::{Index, Title};
use super::layout::to_count_from;
use super::lines;
use super::open_files::clear_empty;
use super::plan;
use super::session::Session;
use super::settle::ATTEMPTS;
use super::view;
use super::wal::Reach;

impl Session {
    /// Whether an index has outlived the log: its numbers do not come again, and archives are found by it.
    pub(super) fn has_index(&self) -> Result<bool> {
        let index = Index::open(&self.target, &self.target.sidecar("index"), Access::Read)?;
        Ok(index.is_some())
    }

    /// Takes the journal as it is. `live`: the log is of this boot and its own, so that what is
    /// pending in it belongs to somebody who waits for it.
    pub(super) fn adopt(&mut self, live: bool, journal: FileId, file: FileId) -> Result<()> {
        let old = Index::open(&self.target, &self.target.sidecar("index"), Access::ReadWrite)?;
        let header = bound::header(self.journal.as_ref(), old.as_ref());
        let archive = old.as_ref().map_or(0, |old| to_count_from(old.title.archive)); // If the log that knew it is gone.
        let pending = if live { self.pending(Reach::Counted)? } else { Vec::new() };
        self.note_lost(&pending)?;
        let mut spans = self.append_pending(&pending, journal)?;
        let next_seq = self.next_seq_known(old.as_ref())?;
        let generation = random::number()?;
        clear_empty(&self.target);
        // One is left out: whoever repeats an operation waits for the number before the next one,
        // which must not be a lost one.
        let noted = group::reach(&self.target)?;
        let first_number = (self.head.next_number() + 1).max(sys::wall_time_us()).max(noted + 2);
        let mut lost = self.head.lost;
        if self.head.file != file {
            // Somebody may wait for a batch that was in the log whose place this one took.
            lost.since = first_number - 1;
        }
        self.head = Head {
            turn: self.head.turn,
            anchors: self.head.anchors,
            epoch: self.head.epoch,
            generation,
            file,
            journal,
            next_seq,
            first_number,
            archive: self.head.archive.max(archive),
            operations: self.head.operations,
            displaced: self.head.displaced.filter(|_| self.head.file == file),
            lost,
            room: self.wal_size()?.max(ENTRIES_AT),
            ..Head::default()
        };
        self.measure_between(header.len, &mut spans)?;
        let found = self.number_foreign(&mut spans);
        self.news.adopted += found;
        let detail = json!({ "lines": found, "bytes": self.size });
        let _ = events::record(&self.target, "journal_adopted", &detail);
        let open = lines::is_open_at(self.journal.as_ref(), self.size);
        self.head.open_tail = open.map_err(|err| self.journal_failed("read", err))?;
        self.sync_journal()?;
        // An empty journal needs no index, but its archives are found by one.
        if self.size > 0 || self.head.archive > 0 {
            let first_seq = spans.iter().filter_map(|span| span.seq).min();
            let first_seq = first_seq.unwrap_or(self.head.next_seq);
            let title = Title { header, first_seq, archive: self.head.archive, ..Title::default() };
            self.rebuild_index(title, &mut spans)?;
        }
        self.cut = false;
        self.begin_epoch(self.size)
    }

    /// Writes down which entries are lost: those that are counted and not among the pending ones that
    /// could be read. Whoever waits for them has to be told so, whatever becomes of what follows. After
    /// a restart nobody waits, and what the head counts may have been in the journal for long.
    fn note_lost(&mut self, pending: &[Logged]) -> Result<()> {
        let head = &mut self.head;
        let first = head.first_number + head.applied + pending.len() as u64;
        if first >= head.next_number() || head.boot != self.target.fs.boot_id() {
            return Ok(());
        }
        let seq = pending.last().map_or(head.pending_seq, |logged| logged.entry.next_seq());
        let detail = json!({ "batches": head.next_number() - first });
        head.lose(first, seq);
        if pending.is_empty() {
            // Until there is a new head, nobody logs a batch behind them. (As for batches to append.)
            head.journal = FileId::default();
        }
        let _ = events::record(&self.target, "batches_lost", &detail);
        self.store()
    }

    /// The largest number that is still known, plus one.
    fn next_seq_known(&self, index: Option<&Index>) -> Result<u64> {
        let another_boot = self.head.boot != self.target.fs.boot_id();
        let logged = view::next_seq_logged(&self.wal, &self.head, another_boot);
        let logged = logged.map_err(|err| self.wal_failed("read", err))?;
        view::next_seq_known(logged, index).map_err(|err| self.index_failed(err))
    }

    /// Appends batches that somebody waits for, in one piece. They keep their numbers.
    ///
    /// The head in the log goes on counting them until the new one is written, names no journal
    /// meanwhile, and says where they begin. So whoever fails or dies in here leaves them to the next
    /// one, which comes here again and looks from there on for what is in the journal already.
    fn append_pending(&mut self, pending: &[Logged], journal: FileId) -> Result<Vec<Span>> {
        self.count(pending);
        let ours: Vec<_> = pending.iter().filter(|logged| !logged.entry.is_foreign()).collect();
        let bytes: Vec<u8> = ours.iter().flat_map(|logged| &logged.payload).copied().collect();
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        self.section.verify()?;
        let was_here = self.head.journal == journal
            && (self.head.begun || ours.iter().any(|logged| logged.entry.is_direct()));
        let was_tried = self.head.journal == FileId::default();
        // In another file nothing is ours, however much its lines look like it.
        let mut from = self.size;
        if was_here || was_tried {
            from = self.behind_a_cut(self.head.journal_end, bytes.len());
        }
        self.cut = false; // From here on it is another cut.
        (self.head.journal, self.head.journal_end) = (FileId::default(), from);
        (self.head.begun, self.head.partial) = (true, 0);
        self.store()?;
        for _ in 0..ATTEMPTS {
            from = self.behind_a_cut(from, bytes.len());
            let region = self.journal.read_range(from, self.size);
            let region = region.map_err(|err| self.journal_failed("read", err))?;
            let (at, done) = plan::locate(&region, &bytes).unwrap_or((region.len(), 0));
            if done == bytes.len() {
                return self.spans_of(&ours, from + at as u64);
            }
            if done == 0 {
                self.close_line()?;
            }
            self.push(&bytes[done..])?;
        }
        Err(self.overtaken())
    }

    /// Where to look for `len` bytes that were appended at `from` or behind it. If somebody has cut the
    /// journal since, they are the last ones in it, or gone.
    fn behind_a_cut(&self, from: u64, len: usize) -> u64 {
        if self.cut || self.size < from { self.size.saturating_sub(len as u64) } else { from }
    }

    /// Batches that stand one behind the other.
    fn spans_of(&self, batches: &[&Logged], mut start: u64) -> Result<Vec<Span>> {
        let mut spans = Vec::with_capacity(batches.len());
        for logged in batches {
            spans.push(self.span_of(logged, start)?);
            start += logged.entry.span();
        }
        Ok(spans)
    }

    /// Everything that is not in `spans` is of others.
    fn measure_between(&self, header_len: u64, spans: &mut Vec<Span>) -> Result<()> {
        let ours = spans.clone();
        let mut start = header_len;
        for span in &ours {
            self.measure(start, span.start, spans)?;
            start = span.end;
        }
        self.measure(start, self.size, spans)
    }

    /// Writes a whole new index of the head's generation and puts it in place of the old one. A crash
    /// before the rename leaves the old one, after it one of a generation that no head knows yet: the
    /// journal is adopted again.
    pub(super) fn rebuild_index(&mut self, title: Title, spans: &mut [Span]) -> Result<()> {
        spans.sort_by_key(|span| span.seq);
        let (generation, journal) = (self.head.generation, self.head.journal);
        let title = Title { generation, journal, ..title };
        let records: Vec<_> = spans.iter().map(|span| span.record(self.head.epoch)).collect();
        let (temp, index) = self.new_index_file(title)?;
        index.append(0, &records).map_err(|err| self.index_failed(err))?;
        let path = self.target.sidecar("index");
        self.target.fs.rename(&temp, &path).map_err(|err| self.index_failed(err))?;
        let side = self.target.side();
        self.target.fs.sync_dir(side).map_err(|err| self.index_failed(err))?;
        self.head.index_len = records.len() as u64;
        Ok(())
    }
}
