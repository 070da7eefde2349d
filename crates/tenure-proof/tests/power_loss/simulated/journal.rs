//! A journal in the simulation: batches are whole, once, in order, and keep their numbers.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::{AppendOptions, Durability, Journal, Wait, WriteOptions};
use tenure_testkit::{CrashKind, Random};

use super::world::{Finding, Step};

/// The log is emptied when it is longer than this.
const FULL_LOG: usize = 1024 * 1024;

/// A batch that a call tried to append.
#[derive(Debug, Clone)]
struct Tried {
    id: u64,
    lines: u64,
    durable: bool,
    /// The first number, once acknowledged.
    acked: Option<u64>,
}

/// What must be true of it.
#[derive(Debug, Clone)]
pub(crate) struct JournalPart {
    path: &'static str,
    tried: Vec<Tried>,
    next_id: u64,
}

impl JournalPart {
    pub(crate) fn new(path: &'static str) -> Self {
        Self { path, tried: Vec::new(), next_id: 0 }
    }

    fn open(&self, fs: &Arc<dyn Fs>) -> tenure::Result<Journal> {
        Journal::open_on(fs, Path::new(self.path))
    }

    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        let failed = |error: tenure::Error| format!("{}: {error}", self.path);
        let journal = self.open(fs).map_err(failed)?;
        let write = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
        match random.below(16) {
            0 => journal.rotate(&write).map(drop).map_err(failed),
            1 => journal.repair(&write).map(drop).map_err(failed),
            2 => journal.compact(&write, |_| true).map(drop).map_err(failed),
            some => self.append(&journal, random, some % 4 != 3),
        }
    }

    /// A durable batch: the step that must always work.
    pub(crate) fn recover(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        let journal = self.open(fs).map_err(|error| format!("{}: {error}", self.path))?;
        self.append(&journal, random, true)
    }

    fn append(&mut self, journal: &Journal, random: &mut Random, durable: bool) -> Step {
        let (id, lines) = (self.next_id, 1 + random.below(3));
        self.next_id += 1;
        let longest = if random.chance(8) { 2000 } else { 24 };
        // Now and then more than the log may hold before it is emptied, which then costs no sync.
        let pad = if !durable && random.chance(12) { FULL_LOG } else { random.index(longest) };
        let batch: Vec<String> =
            (0..lines).map(|at| format!("B {id} {at} {lines} {}", "x".repeat(pad))).collect();
        self.tried.push(Tried { id, lines, durable, acked: None });
        let durability = if durable { Durability::Durable } else { Durability::NoSync };
        let write = WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
        let options = AppendOptions { write, ..AppendOptions::default() };
        let done = journal.append(&batch, &options);
        let done = done.map_err(|error| format!("{}: {error}", self.path))?;
        if let Some(tried) = self.tried.last_mut() {
            tried.acked = Some(done.first);
        }
        Ok(())
    }

    /// Looks at what a crash left.
    pub(crate) fn examine(&mut self, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        if kind == CrashKind::Power {
            // It may have kept any part of a batch without a sync. Nothing is promised about those.
            self.tried.retain(|tried| tried.durable);
        }
        let found = |error: tenure::Error| format!("{}: a reader fails: {error}", self.path);
        let journal = self.open(fs).map_err(found)?;
        let mut lines: Vec<(u64, u64, u64)> = Vec::new();
        let mut last = 0;
        for entry in journal.read(0, None).map_err(found)? {
            let entry = entry.map_err(found)?;
            if entry.seq <= last {
                return Err(format!("{}: number {} after {last}", self.path, entry.seq));
            }
            last = entry.seq;
            // Lines that a power loss cut out of a batch without a sync are nobody's.
            lines.extend(parse(&entry.line).map(|(id, at)| (entry.seq, id, at)));
        }
        for tried in &self.tried {
            let mine: Vec<_> = lines.iter().filter(|(_, id, _)| *id == tried.id).collect();
            let whole = mine.len() as u64 == tried.lines
                && mine
                    .iter()
                    .enumerate()
                    .all(|(at, line)| line.2 == at as u64 && line.0 == mine[0].0 + at as u64);
            let right = match tried.acked {
                Some(first) => whole && mine[0].0 == first,
                None => whole || mine.is_empty(),
            };
            if !right {
                return Err(format!("{}: {tried:?}, there is {mine:?}", self.path));
            }
        }
        if !journal.verify().map_err(found)?.is_sound() {
            return Err(format!("{}: it does not verify", self.path));
        }
        Ok(())
    }
}

/// The batch and the place in it, if the line is whole.
fn parse(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.strip_prefix("B ")?.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (id, at, _lines): (u64, u64, u64) = (number()?, number()?, number()?);
    Some((id, at))
}
