//! The state of the model of an append without a sync: the logs and their names, the journal, the
//! writer, the reader.
//!
//! # Invariants
//!
//! 1. The journal only grows, except by a power loss.
//! 2. A record that counts, and a log that had the name, never change.

use super::{Fault, Unsynced};

/// How many numbers a checkpoint reserves beyond the requested ones: few, so that they run out.
const BLOCK: u8 = 1;
/// Lines of other tools have identities from here on.
const FOREIGN: u8 = 100;
/// Lines that are parts of others.
const GARBAGE: u8 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    First(u8),
    /// It ends the line.
    Second(u8),
    /// Closes a line that another tool, or a power loss, left unterminated.
    Newline,
    /// A torn part that was blanked.
    Blank,
    /// NULs in place of what a power loss removed.
    Nul,
}

/// A piece of the journal, and whether it is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Piece {
    pub(super) cell: Cell,
    pub(super) durable: bool,
}

/// A line with a number, in `start..end` of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) seq: u8,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: u8,
}

impl Entry {
    pub(super) fn is_foreign(&self) -> bool {
        (FOREIGN..GARBAGE).contains(&self.line)
    }

    pub(super) fn is_garbage(&self) -> bool {
        self.line >= GARBAGE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Record {
    Batch(Entry),
    /// This batch begins elsewhere.
    Placed {
        line: u8,
        start: usize,
    },
    Range(Entry),
}

/// The state slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// How many records count.
    pub(super) end: usize,
    /// From this record on, batches are pending: a new log after a crash begins with them.
    pub(super) pending: usize,
    pub(super) next: u8,
    pub(super) journal_end: usize,
    pub(super) named: bool,
}

/// A log: synced before it has a name, except the records that come later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub(super) base: usize,
    pub(super) next: u8,
    pub(super) reserved: u8,
    pub(super) index: Vec<Entry>,
    pub(super) records: Vec<Record>,
    /// How many of them were synced with it.
    pub(super) synced: usize,
    /// `None`: of another boot.
    pub(super) known: Option<Known>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    Idle,
    Enter,
    Adopt,
    LogRanges,
    MakeRoom,
    Log,
    Push,
    PushSecond,
    Count,
    CountAll,
    SyncJournal,
    Rename,
    SyncNames,
    Place,
    PlaceSecond,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) at: At,
    /// What follows the checkpoint.
    pub(super) then: At,
    /// The log under way, and the logs that had the name since the directory was synced; the last one has it.
    pub(super) new: Option<Log>,
    pub(super) names: Vec<Log>,
    pub(super) journal: Vec<Piece>,
    /// The state in the memory of the writer, the lines it is about to number, and the batches it has placed.
    pub(super) known: Known,
    pub(super) ranges: Vec<Entry>,
    pub(super) placed: Vec<(Entry, usize)>,
    pub(super) batches: u8,
    pub(super) foreign: u8,
    pub(super) kills: u8,
    pub(super) write_errors: u8,
    pub(super) power_losses: u8,
    /// The identities of the next lines.
    pub(super) line: u8,
    foreign_line: u8,
    /// The number and the line of each batch that was acknowledged.
    pub(super) acked: Vec<(u8, u8)>,
    failed: Option<u8>,
    seen: Vec<(u8, u8)>,
    pub(super) given_twice: bool,
    pub(super) damaged: bool,
    pub(super) came_back: bool,
    pub(super) skipped: bool,
    pub(super) finished: bool,
}

impl State {
    pub(super) fn new(model: Unsynced) -> Self {
        let known = Some(Known { next: 1, ..Known::default() });
        let (index, records) = (Vec::new(), Vec::new());
        let log = Log { base: 0, next: 1, reserved: 0, index, records, synced: 0, known };
        Self {
            at: At::Idle,
            then: At::Idle,
            new: None,
            names: vec![log],
            journal: Vec::new(),
            known: Known::default(),
            ranges: Vec::new(),
            placed: Vec::new(),
            batches: model.batches,
            foreign: model.foreign,
            kills: model.kills,
            write_errors: model.write_errors,
            power_losses: model.power_losses,
            line: 0,
            foreign_line: FOREIGN,
            acked: Vec::new(),
            failed: None,
            seen: Vec::new(),
            given_twice: false,
            damaged: false,
            came_back: false,
            skipped: false,
            finished: false,
        }
    }

    pub(super) fn log(&self) -> &Log {
        self.names.last().expect("a log has the name")
    }

    pub(super) fn log_mut(&mut self) -> &mut Log {
        self.names.last_mut().expect("a log has the name")
    }

    fn store(&mut self) {
        let known = self.known;
        self.log_mut().known = Some(known);
    }

    pub(super) fn is_inside_write(&self) -> bool {
        matches!(self.at, At::PushSecond | At::PlaceSecond)
    }

    pub(super) fn append_foreign(&mut self) {
        self.foreign -= 1;
        let line = self.foreign_line;
        self.foreign_line += 1;
        self.write(&[Cell::First(line), Cell::Second(line)]);
    }

    pub(super) fn write(&mut self, cells: &[Cell]) {
        self.journal.extend(cells.iter().map(|cell| Piece { cell: *cell, durable: false }));
    }

    /// Begins a text: after a newline, if the last line is unterminated. Returns where.
    pub(super) fn begin_text(&mut self, line: u8) -> usize {
        let open = self.journal.len() > self.known.journal_end
            && self.journal.last().is_some_and(|piece| !ends_line(piece.cell));
        if open {
            self.write(&[Cell::Newline]);
        }
        self.write(&[Cell::First(line)]);
        self.journal.len() - 1
    }

    pub(super) fn step(&mut self, fault: Fault) {
        self.at = match self.at {
            At::Idle => {
                self.batches -= 1;
                self.line += 1;
                At::Enter
            }
            At::Enter => self.enter(fault),
            At::Adopt => {
                let known = self.known;
                self.ranges = self.lines(known.journal_end, self.journal.len(), known.next);
                let until = self.ranges.last().map_or(0, |range| range.seq + 1);
                let count = until.saturating_sub(known.next);
                self.reserve(until, count, At::LogRanges, fault)
            }
            At::LogRanges => {
                self.log_ranges();
                At::MakeRoom
            }
            At::MakeRoom => self.reserve(self.known.next + 1, 1, At::Log, fault),
            At::Log => {
                let start = self.expected_start();
                let entry = Entry { seq: self.known.next, start, end: start + 2, line: self.line };
                let end = self.known.end;
                let records = &mut self.log_mut().records;
                records.truncate(end);
                records.push(Record::Batch(entry));
                if fault == Fault::CountedEarly {
                    self.count(&[(entry, start)], fault);
                }
                At::Push
            }
            At::Push => {
                self.begin_text(self.line);
                At::PushSecond
            }
            At::PushSecond => {
                self.write(&[Cell::Second(self.line)]);
                At::Count
            }
            At::Count if fault == Fault::CountedEarly => return self.end(),
            At::Count => {
                let end = self.log().records.len() - 1;
                let Some(Record::Batch(entry)) = self.log().records.get(end).copied() else {
                    unreachable!("it was logged last");
                };
                let start = self.journal.len() - 2;
                let start = self.find_whole(self.known.journal_end, entry.line).unwrap_or(start);
                self.placed = vec![(entry, start)];
                (self.known.pending, self.known.end) = (end, end + 1);
                self.known.next = entry.seq + 1;
                At::CountAll
            }
            At::CountAll => return self.count_all(fault),
            At::SyncJournal | At::Rename | At::SyncNames => self.step_checkpoint(fault),
            At::Place | At::PlaceSecond => self.place(fault),
        };
    }

    /// Where a text that is appended now would begin.
    fn expected_start(&self) -> usize {
        let is_open = self.journal.len() > self.known.journal_end;
        self.journal.len() + usize::from(is_open)
    }

    pub(super) fn fail_write(&mut self, fault: Fault) {
        self.write_errors -= 1;
        self.failed = Some(self.line);
        if fault != Fault::NotWithdrawn {
            self.log_mut().records.pop();
        }
        self.end();
    }

    /// The call is over, or its process.
    pub(super) fn end(&mut self) {
        (self.at, self.then, self.new) = (At::Idle, At::Idle, None);
        (self.known, self.ranges, self.placed) = (Known::default(), Vec::new(), Vec::new());
    }

    /// `reserve` and `make_room`: numbers below `until` are going to be given out.
    fn reserve(&mut self, until: u8, count: u8, then: At, fault: Fault) -> At {
        self.then = then;
        if until > self.log().reserved && fault != Fault::NotReserved {
            return self.checkpoint(count, Vec::new());
        }
        if count > 0 && !self.known.named && fault != Fault::NameNotSynced {
            return At::SyncNames;
        }
        then
    }

    /// A new log without the placed batches; pending ones stay in it.
    pub(super) fn checkpoint(&mut self, reserve: u8, ranges: Vec<Entry>) -> At {
        let old = self.log();
        let mut index = old.index.clone();
        index.extend(ranges);
        let records = &old.records[..self.known.end];
        let pending: Vec<Record> = records[self.known.pending..].to_vec();
        let is_pending = |line: u8| pending.iter().any(|record| batch_of(record) == Some(line));
        index.extend(entries(records).filter(|entry| !is_pending(entry.line)));
        self.begin_log(reserve, index, pending)
    }

    /// The new log: written and synced under a temporary name, after the journal.
    pub(super) fn begin_log(&mut self, reserve: u8, index: Vec<Entry>, records: Vec<Record>) -> At {
        let next = self.known.next;
        let reserves = reserve > 0 || next < self.log().reserved;
        let end = records.len();
        let pending = entries(&records).map(|entry| entry.line).collect::<Vec<u8>>();
        let base = index.iter().filter(|entry| !pending.contains(&entry.line));
        let base = base.map(|entry| entry.end).max().unwrap_or(0).max(self.log().base);
        let known = Known { end, pending: 0, named: false, ..self.known };
        self.new = Some(Log {
            base,
            next,
            reserved: if reserves { next + reserve + BLOCK } else { 0 },
            index,
            synced: end,
            records,
            known: Some(known),
        });
        At::SyncJournal
    }

    fn step_checkpoint(&mut self, fault: Fault) -> At {
        match self.at {
            At::SyncJournal => {
                if fault != Fault::JournalNotSynced {
                    self.journal.iter_mut().for_each(|piece| piece.durable = true);
                }
                At::Rename
            }
            At::Rename => {
                let new = self.new.take().expect("a new log");
                self.known = new.known.unwrap_or_default();
                self.names.push(new);
                if fault == Fault::NameNotSynced { self.then } else { At::SyncNames }
            }
            _ => {
                let named = self.names.len() - 1;
                self.names.drain(..named);
                self.known.named = true;
                self.store();
                self.then
            }
        }
    }

    fn log_ranges(&mut self) {
        let ranges = std::mem::take(&mut self.ranges);
        let Some(last) = ranges.last().copied() else { return };
        let end = self.known.end;
        let records = &mut self.log_mut().records;
        records.truncate(end);
        records.extend(ranges.into_iter().map(Record::Range));
        self.known.end = records.len();
        self.known.pending = self.known.end;
        (self.known.next, self.known.journal_end) = (last.seq + 1, last.end);
        self.store();
    }

    /// `count_placed`: batches are in the journal, and lines that other tools wrote between them
    /// are numbered after them. Those numbers are reserved first.
    fn count_all(&mut self, fault: Fault) {
        let found = self.between(&self.placed);
        let until = found.last().map_or(0, |range| range.seq + 1);
        let count = u8::try_from(found.len()).expect("few lines");
        self.at = self.reserve(until, count, At::CountAll, fault);
        if self.at != At::CountAll {
            return;
        }
        let placed = std::mem::take(&mut self.placed);
        self.count(&placed, fault);
        self.at = At::Adopt;
        if let Some((entry, _)) = placed.iter().find(|(entry, _)| entry.line == self.line) {
            self.acked.push((entry.seq, entry.line));
            self.end();
        }
    }

    /// The lines of other tools between the known end and the last of these batches.
    fn between(&self, placed: &[(Entry, usize)]) -> Vec<Entry> {
        let end = placed.iter().map(|(_, start)| start + 2).max().unwrap_or(0);
        let mut found = self.lines(self.known.journal_end, end, 0);
        found.retain(|range| !placed.iter().any(|(_, start)| *start == range.start));
        for (range, seq) in found.iter_mut().zip(self.known.next..) {
            range.seq = seq;
        }
        found
    }

    fn count(&mut self, placed: &[(Entry, usize)], fault: Fault) {
        let next = placed.iter().map(|(entry, _)| entry.seq + 1).max().unwrap_or(0);
        self.known.next = self.known.next.max(next);
        let found = self.between(placed);
        self.known.next += u8::try_from(found.len()).expect("few lines");
        let records = &mut self.log_mut().records;
        for (entry, start) in placed {
            if entry.start != *start && fault != Fault::NotPlaced {
                records.push(Record::Placed { line: entry.line, start: *start });
            }
        }
        records.extend(found.into_iter().map(Record::Range));
        self.known.end = records.len();
        self.known.pending = self.known.end;
        let end = placed.iter().map(|(_, start)| start + 2).max().unwrap_or(0);
        self.known.journal_end = self.known.journal_end.max(end);
        self.store();
    }

    /// The complete lines in `start..end` that are not blank, numbered from `seq` on.
    pub(super) fn lines(&self, start: usize, end: usize, seq: u8) -> Vec<Entry> {
        let mut found: Vec<Entry> = Vec::new();
        let mut begin = start;
        for at in start..end.min(self.journal.len()) {
            if ends_line(self.journal[at].cell) {
                let line = self.line_of(begin, at + 1);
                if let Some(line) = line {
                    let seq = found.last().map_or(seq, |last: &Entry| last.seq + 1);
                    found.push(Entry { seq, start: begin, end: at + 1, line });
                }
                begin = at + 1;
            }
        }
        found
    }

    /// What the line in `start..end` is; `None` if it is blank.
    pub(super) fn line_of(&self, start: usize, end: usize) -> Option<u8> {
        let cells: Vec<Cell> = self.journal.get(start..end)?.iter().map(|p| p.cell).collect();
        match cells[..] {
            [Cell::First(one), Cell::Second(other)] if one == other => Some(one),
            _ if cells.iter().all(|cell| !matches!(cell, Cell::First(_) | Cell::Second(_))) => None,
            _ => Some(GARBAGE + u8::try_from(start).expect("a short journal")),
        }
    }

    pub(super) fn find_whole(&self, from: usize, line: u8) -> Option<usize> {
        (from..self.journal.len()).find(|at| self.line_of(*at, at + 2) == Some(line))
    }

    /// What a reader gets, in the order of the numbers; a line that is damaged is 0.
    pub(super) fn view(&self) -> Vec<Entry> {
        let log = self.log();
        let there = |entry: &Entry| {
            let is_there = self.line_of(entry.start, entry.end) == Some(entry.line);
            Entry { line: if is_there { entry.line } else { 0 }, ..*entry }
        };
        let mut view: Vec<Entry> = log.index.iter().map(there).collect();
        let end = log.known.map_or(log.records.len(), |known| known.end);
        let pending = log.known.map_or(0, |known| known.pending);
        let records = &log.records[..end];
        let from_log = |entry: &Entry| {
            let mut pending = records[pending..].iter();
            pending.any(|record| batch_of(record) == Some(entry.line))
        };
        for entry in entries(records) {
            // Pending, or after a restart: a batch is read from the log, and an incomplete range is
            // lost.
            let found = if from_log(&entry) { entry } else { there(&entry) };
            if found.line != 0 || log.known.is_some() {
                view.push(found);
            }
        }
        view
    }

    /// A reader looks.
    pub(super) fn look(&mut self) {
        for entry in self.view() {
            self.damaged |= entry.line == 0;
            self.came_back |= Some(entry.line) == self.failed;
            match self.seen.iter().find(|(seq, _)| *seq == entry.seq) {
                Some((_, line)) => self.given_twice |= *line != entry.line && entry.line != 0,
                None => self.seen.push((entry.seq, entry.line)),
            }
        }
        self.seen.sort_unstable();
    }

    pub(super) fn is_single(&self) -> bool {
        let whole = |line: u8| {
            let starts = 0..self.journal.len();
            starts.filter(|at| self.line_of(*at, at + 2) == Some(line)).count()
        };
        (1..=self.line).all(|line| whole(line) <= 1)
    }

    pub(super) fn shows_acked(&self) -> bool {
        let view = self.view();
        let shown = |seq: u8, line: u8| view.iter().any(|it| (it.seq, it.line) == (seq, line));
        self.acked.iter().all(|(seq, line)| shown(*seq, *line))
    }

    /// What a power loss can leave.
    pub(super) fn losses(&self, mut found: impl FnMut(usize, usize, u32, bool)) {
        let dirty = self.journal.iter().enumerate().filter(|(_, piece)| !piece.durable);
        let dirty: u32 = dirty.map(|(at, _)| 1 << at).sum();
        for (name, log) in self.names.iter().enumerate() {
            for chain in log.synced..=log.records.len() {
                let mut kept = dirty;
                loop {
                    found(name, chain, kept, true);
                    found(name, chain, kept, false);
                    if kept == 0 {
                        break;
                    }
                    kept = (kept - 1) & dirty;
                }
            }
        }
    }

    pub(super) fn lose_power(&mut self, name: usize, chain: usize, kept: u32, cut: bool) {
        self.power_losses -= 1;
        let mut log = self.names[name].clone();
        log.records.truncate(chain);
        (log.synced, log.known) = (chain, None);
        for (at, piece) in self.journal.iter_mut().enumerate() {
            if !piece.durable && kept >> at & 1 == 0 {
                piece.cell = Cell::Nul;
            }
            piece.durable = true;
        }
        while cut && self.journal.last().is_some_and(|piece| piece.cell == Cell::Nul) {
            self.journal.pop();
        }
        // What no checkpoint has synced may be gone.
        let synced = &log.index;
        self.acked.retain(|(seq, line)| {
            synced.iter().any(|entry| (entry.seq, entry.line) == (*seq, *line))
        });
        self.names = vec![log];
        self.end();
    }
}

pub(super) fn ends_line(cell: Cell) -> bool {
    matches!(cell, Cell::Second(_) | Cell::Newline | Cell::Blank)
}

pub(super) fn batch_of(record: &Record) -> Option<u8> {
    match record {
        Record::Batch(entry) => Some(entry.line),
        _ => None,
    }
}

/// The lines that records are about, each where it is.
pub(super) fn entries(records: &[Record]) -> impl Iterator<Item = Entry> + '_ {
    let start_of = |line: u8| {
        records.iter().rev().find_map(move |record| match record {
            Record::Placed { line: placed, start } if *placed == line => Some(*start),
            _ => None,
        })
    };
    records.iter().filter_map(move |record| match record {
        Record::Batch(entry) => {
            let start = start_of(entry.line).unwrap_or(entry.start);
            Some(Entry { start, end: start + 2, ..*entry })
        }
        Record::Range(entry) => Some(*entry),
        Record::Placed { .. } => None,
    })
}
