//! A journal in the simulation: batches are whole, once, in order, and keep their numbers; lines of
//! other tools are entries once, and the entries that a reader has seen are final.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Fs};
use tenure::options::Durability;
use tenure::outcome::{Appended, Entry};
use tenure::{AppendOptions, Journal, Wait, WriteOptions};
use tenure_testkit::{CrashKind, Random, SimFs};

use super::batches::{Batches, parse};
use super::foreign::ForeignLines;
use super::world::{Finding, Step};

/// The log is emptied when it is longer than this.
const FULL_LOG: usize = 1024 * 1024;

/// What must be true of it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug, Clone)]
pub(crate) struct JournalPart {
    path: &'static str,
    batches: Batches,
    /// The header that was acknowledged, and those that were attempted since: the next writer can
    /// finish a replacement that was begun, and until then a power loss may undo it.
    headers: Vec<Option<u64>>,
    /// Another tool appends to it, and cuts it now and then.
    shared: bool,
    foreign: ForeignLines,
    /// The entries that a reader has seen, by their numbers: the hash of the line.
    told: BTreeMap<u64, (u64, Fate)>,
    /// The power was lost, or another tool has cut the file: numbers may be missing, and that is
    /// reported.
    may_have_gaps: bool,
    /// The last write was acknowledged. A write that died may have adopted lines in a log with an
    /// unsynced name.
    settled: bool,
    /// An append without a sync died. Its part of the log may survive what was written over it,
    /// with the same number (a limit).
    stale: bool,
}

/// The possible fate of an entry that a reader has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    There,
    /// It was numbered in memory, since no log describes the file, or in a log whose name may not
    /// be durable: if the line is lost, its number is lost with it.
    Unlogged,
    /// Of a batch that a compaction has dropped, or attempted to.
    MayBeDropped,
    /// It was missing at a read, and never returns as another line.
    Gone,
}

/// What a reader gets.
#[derive(Debug, Default)]
struct Seen {
    entries: Vec<Entry>,
    gaps: Vec<(u64, u64)>,
}

impl Seen {
    fn of(journal: &Journal, from: u64, limit: Option<u64>) -> tenure::Result<Self> {
        let mut seen = Self::default();
        // From 0 on, a reader asks for the oldest entry, without a report of what is missing before
        // it.
        for entry in journal.read(from.max(1), limit)? {
            match entry {
                Err(error) => seen.gaps.push(error.gap().ok_or(error)?),
                Ok(entry) => seen.entries.push(entry),
            }
        }
        Ok(seen)
    }

    fn is_missed(&self, seq: u64) -> bool {
        self.gaps.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }
}

impl JournalPart {
    pub(crate) fn new(path: &'static str) -> Self {
        Self {
            path,
            batches: Batches::default(),
            headers: vec![None],
            shared: false,
            foreign: ForeignLines::default(),
            told: BTreeMap::new(),
            may_have_gaps: false,
            settled: true,
            stale: false,
        }
    }

    pub(crate) fn shared(path: &'static str) -> Self {
        Self { shared: true, ..Self::new(path) }
    }

    fn open(&self, fs: &Arc<dyn Fs>) -> tenure::Result<Journal> {
        Journal::open_on(fs, Path::new(self.path))
    }

    fn failed(&self, error: &tenure::Error) -> String {
        format!("{}: {error}", self.path)
    }

    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        if self.shared && random.chance(96) {
            return self.meddle(fs, random);
        }
        let journal = self.open(fs).map_err(|error| self.failed(&error))?;
        self.settled = false;
        let write = at_once(Durability::Durable);
        let done = match random.below(24) {
            0 => journal.rotate(&write).map(drop),
            1 => journal.repair(&write).map(drop),
            2 => journal.compact(&write, |_| true).map(drop),
            3 => return self.drop_one(&journal, random),
            4 => return self.stamp(&journal, random),
            5..8 => {
                let durable = random.coin();
                return self.append_once(&journal, random, durable);
            }
            some => return self.append(&journal, random, some % 4 != 3),
        };
        done.map_err(|error| self.failed(&error))?;
        self.acknowledged();
        Ok(())
    }

    fn acknowledged(&mut self) {
        self.settled = true;
        self.foreign.are_adopted();
    }

    /// A durable batch: the step that must always work.
    pub(crate) fn recover(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        self.settled = false;
        let journal = self.open(fs).map_err(|error| self.failed(&error))?;
        if random.coin() {
            return self.append_once(&journal, random, true);
        }
        self.append(&journal, random, true)
    }

    fn append(&mut self, journal: &Journal, random: &mut Random, durable: bool) -> Step {
        let (lines, longest) = (1 + random.below(3), if random.chance(8) { 2000 } else { 24 });
        // Now and then more than the log may hold before it is emptied, which then costs no sync.
        let pad = if !durable && random.chance(12) { FULL_LOG } else { random.index(longest) };
        let id = self.batches.begin(lines, pad, durable);
        let write = at_once(durability(durable));
        let options = AppendOptions { write, ..AppendOptions::default() };
        self.send(journal, id, &options).map(drop)
    }

    /// A batch with an operation id. If it was not acknowledged, it is repeated before there is
    /// another; now and then also if it was: it then gets the same answer, and nothing is done.
    /// Each time it is durable or not. After a durable call has returned, the batch survives a
    /// power loss, whichever call did it.
    fn append_once(&mut self, journal: &Journal, random: &mut Random, durable: bool) -> Step {
        let before = self.batches.to_repeat(random).cloned();
        let id = match &before {
            Some(before) => before.id,
            None => self.batches.begin_once(1 + random.below(3), random.index(24), durable),
        };
        if before.is_some() {
            self.batches.begin_again(id, durable);
        }
        let operation = Some(format!("batch {id}"));
        let write = WriteOptions { operation, ..at_once(durability(durable)) };
        let done = self.send(journal, id, &AppendOptions { write, ..AppendOptions::default() })?;
        if durable {
            self.batches.acknowledge_durably(id, done.first);
        }
        match before.and_then(|before| before.acked) {
            Some(first) if !done.replayed || done.first != first => {
                Err(format!("{}: batch {id} at {first} was repeated: {done:?}", self.path))
            }
            _ => Ok(()),
        }
    }

    /// A sync failed: a batch without an answer may be whole, and a power loss may leave a part of
    /// it.
    pub(crate) fn doubt(&mut self) {
        self.batches.doubt();
    }

    /// A batch with a new header, which is the first line from then on.
    fn stamp(&mut self, journal: &Journal, random: &mut Random) -> Step {
        let id = self.batches.begin(1 + random.below(3), random.index(24), true);
        self.headers.push(Some(id));
        let header = Some(format!("H {id}").into_bytes());
        let options = AppendOptions { write: at_once(Durability::Durable), header, json: false };
        self.send(journal, id, &options)?;
        self.headers = vec![Some(id)];
        Ok(())
    }

    fn send(
        &mut self,
        journal: &Journal,
        id: u64,
        options: &AppendOptions,
    ) -> Result<Appended, String> {
        let lines = self.batches.lines_of(id);
        let durable = options.write.durability == Durability::Durable;
        let stale = self.stale;
        self.stale |= !durable;
        let done = journal.append(&lines, options).map_err(|error| self.failed(&error))?;
        self.stale = stale && !durable;
        self.batches.acknowledge(id, done.first);
        if !done.replayed {
            self.acknowledged();
        }
        Ok(done)
    }

    /// A compaction without one of the batches; those of archives stay.
    fn drop_one(&mut self, journal: &Journal, random: &mut Random) -> Step {
        let Some((id, lines)) = self.batches.begin_drop(random) else { return Ok(()) };
        for (_, fate) in self.told.values_mut().filter(|(_, fate)| *fate != Fate::Gone) {
            *fate = Fate::MayBeDropped;
        }
        let others = |entry: &Entry| parse(&entry.line).is_none_or(|of| of.0 != id);
        let done = journal.compact(&at_once(Durability::Durable), others);
        if done.map_err(|error| self.failed(&error))?.dropped == lines {
            self.batches.dropped(id);
        }
        self.acknowledged();
        Ok(())
    }

    /// Another tool appends a line, also to a file that was rotated since it opened it, or cuts the
    /// journal after copying it (`copytruncate`).
    fn meddle(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        let path = self.path;
        let failed = |err: io::Error| format!("{path}: {err}");
        let Ok(file) = fs.open(Path::new(self.path), Access::Append) else { return Ok(()) };
        match random.below(8) {
            0 => {
                self.batches.cut();
                self.foreign.are_cut();
                self.may_have_gaps = true;
                self.told.retain(|_, (_, fate)| *fate != Fate::Unlogged);
                self.headers.push(None);
                file.set_len(0).map_err(failed)
            }
            1 | 2 => {
                let journal = self.open(fs).map_err(|error| self.failed(&error))?;
                self.settled = false;
                let rotated = journal.rotate(&at_once(Durability::Durable));
                rotated.map_err(|error| self.failed(&error))?;
                self.acknowledged();
                self.foreign.append_late(file.as_ref(), random).map_err(failed)
            }
            _ => self.foreign.append(file.as_ref(), random).map_err(failed),
        }
    }

    /// Checks what a crash left.
    pub(crate) fn examine(&mut self, sim: &SimFs, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        if kind == CrashKind::Power {
            self.batches.lose_power();
            if self.shared {
                self.batches.may_leave_lines();
            }
            self.foreign.lose_power();
            self.may_have_gaps = true;
            self.told.retain(|_, (_, fate)| *fate != Fate::Unlogged);
        }
        let (path, text) = (self.path, sim.peek(self.path).unwrap_or_default());
        let failed = |error: tenure::Error| format!("{path}: a reader fails: {error}");
        let journal = self.open(fs).map_err(failed)?;
        let seen = Seen::of(&journal, 0, None).map_err(failed)?;
        let pending =
            journal.read(u64::MAX, None).and_then(|entries| entries.pending()).map_err(failed)?;
        let found = self.batches.judge(&seen.entries);
        let found = found.and_then(|()| self.foreign.judge(&seen.entries, &pending));
        let report = journal.verify().map_err(failed)?;
        let logged = report.next > 0 && self.settled && !self.stale;
        let new = if logged { Fate::There } else { Fate::Unlogged };
        let found = found.and_then(|()| self.judge_told(&journal, &seen, (kind, new)));
        found.map_err(|what| format!("{path}: {what} in \"{}\"", text.escape_ascii()))?;
        // A cut by another tool is reported until a writer has adopted the rest.
        let is_cut = |why: &str| why == "lines that were written here are missing";
        if !report.damaged.iter().all(|damage| is_cut(&damage.why)) {
            return Err(format!("{path}: it does not verify"));
        }
        self.examine_header(sim)
    }

    /// What a reader has seen is final: the entry is there, or its number is reported.
    fn judge_told(
        &mut self,
        journal: &Journal,
        seen: &Seen,
        (kind, new): (CrashKind, Fate),
    ) -> Finding {
        if !seen.gaps.is_empty() && !self.may_have_gaps {
            return Err(format!("gaps {:?}", seen.gaps));
        }
        for entry in &seen.entries {
            let now = hash_of(&entry.line);
            let (before, fate) = self.told.entry(entry.seq).or_insert((now, new));
            if *before != now || seen.is_missed(entry.seq) {
                return Err(format!("number {} was seen before: {fate:?}", entry.seq));
            }
            // A power loss may undo an adoption; the next one is the same.
            if matches!(fate, Fate::Unlogged | Fate::Gone) {
                *fate = new;
            }
        }
        let is_there = |seq: u64| seen.entries.binary_search_by_key(&seq, |it| it.seq).is_ok();
        let mut newest_gone = None;
        for (seq, (_, fate)) in &mut self.told {
            if *fate == Fate::Gone || is_there(*seq) {
                continue;
            }
            let may_go = *fate == Fate::MayBeDropped || kind == CrashKind::Power;
            if !may_go && !seen.is_missed(*seq) {
                return Err(format!("entry {seq} was seen, and is gone without a report"));
            }
            if *fate != Fate::MayBeDropped {
                newest_gone = Some(*seq);
            }
            *fate = Fate::Gone;
        }
        // A follower that has seen it and resumes after it gets the report.
        let Some(gone) = newest_gone.filter(|gone| !seen.is_missed(*gone)) else { return Ok(()) };
        let resumed = Seen::of(journal, gone + 1, Some(1));
        let resumed = resumed.map_err(|error| format!("a follower fails: {error}"))?;
        if resumed.is_missed(gone + 1) || resumed.entries.is_empty() {
            return Ok(());
        }
        Err(format!("entry {gone} is gone, and a follower gets {:?} next", resumed.entries))
    }

    /// The header, as a plain reader sees it; an interrupted rotation may have left no file for
    /// now.
    fn examine_header(&self, sim: &SimFs) -> Finding {
        let Some(bytes) = sim.peek(self.path).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = std::str::from_utf8(first).unwrap_or_default();
        let found = first.strip_prefix("H ").and_then(|id| id.parse().ok());
        if self.headers.contains(&found) {
            return Ok(());
        }
        Err(format!("{}: of the headers {:?} `{first}` is there", self.path, self.headers))
    }
}

fn hash_of(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

fn durability(durable: bool) -> Durability {
    if durable { Durability::Durable } else { Durability::NoSync }
}

fn at_once(durability: Durability) -> WriteOptions {
    WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() }
}
