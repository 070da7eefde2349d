//! A journal in the simulation: batches are whole, once, in order, and keep their numbers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Fs};
use tenure::{AppendOptions, Appended, Durability, Journal, Wait, WriteOptions};
use tenure_testkit::{CrashKind, Random, SimFs};

use super::batches::Batches;
use super::world::{Finding, Step};

/// The log is emptied when it is longer than this.
const FULL_LOG: usize = 1024 * 1024;

/// What must be true of it.
#[derive(Debug, Clone)]
pub(crate) struct JournalPart {
    path: &'static str,
    batches: Batches,
    /// The header that was acknowledged, and those that were tried since: a replacement that was begun
    /// can be finished by the next writer, and until then a power loss may take it back.
    headers: Vec<Option<u64>>,
    /// Another tool appends to it, and cuts it now and then.
    shared: bool,
}

impl JournalPart {
    pub(crate) fn new(path: &'static str) -> Self {
        Self { path, batches: Batches::default(), headers: vec![None], shared: false }
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
        self.batches.ask_nothing();
        if self.shared && random.chance(96) {
            return self.meddle(fs, random).map_err(|error| format!("{}: {error}", self.path));
        }
        let journal = self.open(fs).map_err(|error| self.failed(&error))?;
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
        done.map_err(|error| self.failed(&error))
    }

    /// A durable batch: the step that must always work.
    pub(crate) fn recover(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        self.batches.ask_nothing();
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

    /// A batch with an operation id. One that was not acknowledged is repeated before there is another,
    /// and now and then one that was: it is answered as it was, and nothing is done. Each time it is
    /// durable or not; who is told so by a durable call finds it after a power loss, whoever did it.
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

    /// A sync failed: what got no answer by now may be whole, and a power loss may leave a part of it.
    pub(crate) fn doubt(&mut self, again: bool) {
        self.batches.doubt(again);
    }

    /// Whether its last step asked for something again, and a sync has failed in this boot.
    pub(crate) fn asks_after_a_failure(&self) -> bool {
        self.batches.asks_after_a_failure()
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
        let done = journal.append(&lines, options).map_err(|error| self.failed(&error))?;
        self.batches.acknowledge(id, done.first);
        Ok(done)
    }

    /// A compaction without one of the batches; those of archives stay.
    fn drop_one(&mut self, journal: &Journal, random: &mut Random) -> Step {
        let Some((id, lines)) = self.batches.begin_drop(random) else { return Ok(()) };
        let others =
            |entry: &tenure::Entry| super::batches::parse(&entry.line).is_none_or(|of| of.0 != id);
        let done = journal.compact(&at_once(Durability::Durable), others);
        if done.map_err(|error| self.failed(&error))?.dropped == lines {
            self.batches.dropped(id);
        }
        Ok(())
    }

    /// Another tool appends a line, or cuts the journal because it has copied it (`copytruncate`).
    fn meddle(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> io::Result<()> {
        let Ok(file) = fs.open(Path::new(self.path), Access::Append) else { return Ok(()) };
        if random.coin() {
            // The simulated kill cuts a write anywhere, not between pages only: what it leaves in the middle of a line
            // cannot be told from lines of others if there is one behind it.
            if !self.batches.are_all_answered() {
                return Ok(());
            }
            let end = if random.chance(32) { "" } else { "\n" };
            let line = format!("F {}{end}", "y".repeat(random.index(24)));
            return file.append(line.as_bytes()).map(drop);
        }
        self.batches.cut();
        self.headers.push(None);
        file.set_len(0)
    }

    /// Looks at what a crash left.
    pub(crate) fn examine(&mut self, sim: &SimFs, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        if kind == CrashKind::Power {
            self.batches.lose_power();
        }
        let failed = |error: tenure::Error| format!("{}: a reader fails: {error}", self.path);
        let journal = self.open(fs).map_err(failed)?;
        let entries: tenure::Result<Vec<_>> = journal.read(0, None).map_err(failed)?.collect();
        let found = self.batches.judge(&entries.map_err(failed)?);
        let text = || sim.peek(self.path).unwrap_or_default().escape_ascii().to_string();
        found.map_err(|what| format!("{}: {what} in \"{}\"", self.path, text()))?;
        // That somebody has cut it is told as damage, rightly, until the next writer comes.
        if !journal.verify().map_err(failed)?.is_sound() && !self.shared {
            return Err(format!("{}: it does not verify", self.path));
        }
        self.examine_header(sim)
    }

    /// The header, as a plain reader sees it; a rotation that was cut may have left no file for now.
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

fn durability(durable: bool) -> Durability {
    if durable { Durability::Durable } else { Durability::NoSync }
}

fn at_once(durability: Durability) -> WriteOptions {
    WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() }
}
