//! Entering the journal after a writer died or the power was lost: `recover.rs`.
//!
//! # Invariants
//!
//! 1. A batch is searched for before it is appended.
//! 2. After a restart only the chain counts, and the rest of the reserved block is skipped.

use super::Fault;
use super::state::{At, Cell, Entry, Known, Piece, Record, State, batch_of, entries};

impl State {
    pub(super) fn enter(&mut self, fault: Fault) -> At {
        let Some(known) = self.log().known else {
            return self.recover_restart(fault);
        };
        self.known = known;
        if self.journal.len() <= known.journal_end && known.pending == known.end {
            return At::Adopt;
        }
        // A batch that was logged and not counted.
        let uncounted = self.log().records.get(known.end).copied();
        let uncounted = uncounted.filter(|record| {
            matches!(record, Record::Batch(entry) if entry.seq == known.next)
                && fault != Fault::NotFinished
        });
        if uncounted.is_some() {
            self.known.pending = self.known.end;
            self.known.end += 1;
            self.known.next += 1;
        } else if known.pending == known.end {
            return At::Adopt;
        }
        self.then = At::Place;
        self.checkpoint(1, Vec::new())
    }

    /// Everything after `base` is checked.
    fn recover_restart(&mut self, fault: Fault) -> At {
        let log = self.log().clone();
        let chain: Vec<Entry> = entries(&log.records).collect();
        let next = chain.iter().map(|entry| entry.seq + 1).max().unwrap_or(0).max(log.next);
        self.known = Known { next, journal_end: log.base, ..Known::default() };
        if next < log.reserved && fault != Fault::NotSkipped {
            self.known.next = log.reserved;
            self.skipped = true;
        }
        let is_batch = |line: u8| log.records.iter().any(|record| batch_of(record) == Some(line));
        let (mut index, mut missing) = (log.index.clone(), Vec::new());
        for entry in &chain {
            if self.line_of(entry.start, entry.end) == Some(entry.line) {
                index.push(*entry);
            } else if is_batch(entry.line) {
                missing.push(*entry);
            } // Else its number is lost.
        }
        missing.retain(|entry| match self.find_after_restart(entry, log.base) {
            Some(start) => {
                index.push(Entry { start, end: start + 2, ..*entry });
                self.finished = true;
                false
            }
            None => true,
        });
        // The complete lines that are left belong to other tools.
        let known: Vec<Entry> = index.clone();
        let mut at = log.base;
        while at < self.journal.len() {
            if let Some(entry) = known.iter().find(|entry| entry.start == at) {
                at = entry.end;
                self.known.journal_end = self.known.journal_end.max(at);
                continue;
            }
            let until = known.iter().map(|entry| entry.start).filter(|start| *start > at).min();
            let until = until.unwrap_or(self.journal.len());
            let lines = self.lines(at, until, self.known.next);
            self.known.next += u8::try_from(lines.len()).expect("few lines");
            self.known.journal_end = lines
                .last()
                .map_or(self.known.journal_end, |line| line.end.max(self.known.journal_end));
            index.extend(lines);
            at = until;
        }
        let reserve = u8::from(log.reserved > 0);
        let start = self.journal.len();
        let missing = (start..).step_by(2).zip(missing);
        let missing =
            missing.map(|(start, entry)| Record::Batch(Entry { start, end: start + 2, ..entry }));
        let missing: Vec<Record> = missing.collect();
        self.then = if missing.is_empty() { At::Adopt } else { At::Place };
        self.begin_log(reserve, index, missing)
    }

    /// Where a batch is after a restart. A batch that lost bytes is written again in its place.
    fn find_after_restart(&mut self, entry: &Entry, base: usize) -> Option<usize> {
        if let Some(start) = self.find_whole(base, entry.line) {
            return Some(start);
        }
        let whole = [Cell::First(entry.line), Cell::Second(entry.line)];
        let there: Vec<Cell> =
            self.journal.iter().skip(entry.start).take(2).map(|piece| piece.cell).collect();
        let is_ours =
            there.iter().zip(whole).all(|(have, want)| *have == want || *have == Cell::Nul);
        if entry.start < base || there.is_empty() || !is_ours {
            return None;
        }
        self.journal.resize(
            self.journal.len().max(entry.start + 2),
            Piece { cell: Cell::Nul, durable: false },
        );
        for (piece, cell) in self.journal[entry.start..].iter_mut().zip(whole) {
            *piece = Piece { cell, durable: false };
        }
        Some(entry.start)
    }

    /// Places the batches that the new log begins with.
    pub(super) fn place(&mut self, fault: Fault) -> At {
        let pending: Vec<Entry> = entries(&self.log().records[self.known.pending..self.known.end])
            .filter(|entry| !self.placed.iter().any(|(placed, _)| placed.line == entry.line))
            .collect();
        let Some(entry) = pending.first().copied() else {
            self.finished = true;
            return At::CountAll;
        };
        if self.at == At::PlaceSecond {
            self.write(&[Cell::Second(entry.line)]);
            self.placed.push((entry, self.journal.len() - 2));
            return At::Place;
        }
        let from = self.known.journal_end;
        let look = fault != Fault::AppendedAgain;
        if let Some(start) = self.find_whole(from, entry.line).filter(|_| look) {
            self.placed.push((entry, start));
            return At::Place;
        }
        let torn = (from..self.journal.len())
            .rfind(|at| self.journal[*at].cell == Cell::First(entry.line));
        if let Some(torn) = torn.filter(|_| look) {
            if torn + 1 == self.journal.len() {
                // A fragment at the end is completed.
                self.write(&[Cell::Second(entry.line)]);
                self.placed.push((entry, torn));
                return At::Place;
            }
            // Another tool has written after it.
            self.journal[torn] = Piece { cell: Cell::Blank, durable: true };
        }
        self.begin_text(entry.line);
        At::PlaceSecond
    }
}
