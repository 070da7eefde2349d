//! Work without a sync, and now and then with one.
//!
//! A power loss may undo what was not synced, and nothing that was. A document falls back to a
//! synced version. In a journal, batches that the log has before a durable batch are as durable as
//! that one; of later batches any part may be left, as plain lines without a writer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tenure::fs::Fs;
use tenure::options::Durability;
use tenure::outcome::Entry;
use tenure::{AppendOptions, Document, Journal, Result, Value, WriteOptions};

use super::ack::Ack;
use super::check::{at_least, entries};
use super::work::{batch, document, line_of, next_number, patient};

const DOCUMENT: &str = "loose.json";
const JOURNAL: &str = "loose.jsonl";

/// A document and a journal that are seldom synced.
pub(super) struct Loose {
    document: Document,
    journal: Journal,
}

impl Loose {
    pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let document = Document::open_on(fs, &dir.join(DOCUMENT))?;
        Ok(Self { document, journal: Journal::open_on(fs, &dir.join(JOURNAL))? })
    }

    /// Counts up; only a durable number is promised.
    pub(super) fn count(&self, writer: u64, round: u64) -> Result<Option<Ack>> {
        let (durable, options) = options(writer, round);
        let mut number = 0;
        self.document.update(&options, |current| {
            number = next_number(current)?;
            Ok(Some(document(number)))
        })?;
        Ok(durable.then_some(Ack::Loose(number)))
    }

    /// Appends a batch.
    pub(super) fn append(&self, writer: u64, step: u64, round: u64) -> Result<Ack> {
        let (durable, write) = options(writer, round);
        let options = AppendOptions { write, json: true, ..AppendOptions::default() };
        let first = self.journal.append(&batch(writer, step), &options)?.first;
        Ok(Ack::LooseBatch { writer, batch: step, first, durable })
    }
}

/// Each writer's rounds are durable at other times.
fn options(writer: u64, round: u64) -> (bool, WriteOptions) {
    let durable = (writer + round) % 3 == 2;
    let durability = if durable { Durability::Durable } else { Durability::NoSync };
    (durable, WriteOptions { durability, ..patient() })
}

/// What is still promised after a power loss: of the batches without a sync, those before a durable
/// one.
pub fn survivors(acks: &[Ack]) -> Vec<Ack> {
    let newest = newest_durable(acks);
    let stays = |ack: &&Ack| match ack {
        Ack::LooseBatch { first, durable, .. } => *durable || *first < newest,
        _ => true,
    };
    acks.iter().filter(stays).copied().collect()
}

fn newest_durable(acks: &[Ack]) -> u64 {
    let durable = |ack: &Ack| match ack {
        Ack::LooseBatch { first, durable: true, .. } => Some(*first),
        _ => None,
    };
    acks.iter().filter_map(durable).max().unwrap_or(0)
}

/// What the acknowledgements promise about both files.
#[derive(Debug, Default)]
pub(super) struct PromisedLoose {
    pub(super) number: u64,
    /// The first entry's number, by writer and batch.
    batches: BTreeMap<(u64, u64), u64>,
}

impl PromisedLoose {
    pub(super) fn of(acks: &[Ack]) -> Self {
        let mut promised = Self::default();
        for ack in survivors(acks) {
            match ack {
                Ack::Loose(number) => promised.number = number.max(promised.number),
                Ack::LooseBatch { writer, batch, first, .. } => {
                    promised.batches.insert((writer, batch), first);
                }
                _ => {}
            }
        }
        promised
    }

    /// The largest number that is promised to an entry.
    pub(super) fn newest(&self) -> u64 {
        self.batches.values().copied().max().unwrap_or(0)
    }

    pub(super) fn check(&self, fs: &Arc<dyn Fs>, dir: &Path) -> std::result::Result<(), String> {
        age_if_cut(&dir.join(DOCUMENT))?;
        let read = Document::open_on(fs, &dir.join(DOCUMENT)).and_then(|it| it.read());
        let read = read.map_err(|error| format!("{DOCUMENT}: {error}"))?;
        at_least(DOCUMENT, read.as_ref().map(|read| &read.value), self.number)?;
        self.check_batches(&entries(fs, dir, JOURNAL)?)
    }

    fn check_batches(&self, entries: &[Entry]) -> std::result::Result<(), String> {
        let mut seen = BTreeSet::new();
        for (at, entry) in entries.iter().enumerate() {
            let Ok((writer, number)) = line_of(&entry.line) else { continue };
            let Some(first) = self.batches.get(&(writer, number)) else { continue };
            if entry.seq != *first {
                continue;
            }
            let lines = batch(writer, number);
            let found = entries[at..].iter().take(lines.len()).map(|entry| entry.line.as_slice());
            if found.eq(lines.iter().map(String::as_bytes)) {
                seen.insert((writer, number));
            }
        }
        match self.batches.iter().find(|(of, _)| !seen.contains(of)) {
            None => Ok(()),
            Some((of, first)) => Err(format!("{JOURNAL}: batch {of:?} is not at {first}, or cut")),
        }
    }
}

/// The machine of a test has not really rebooted, so a document that the power loss cut looks as if
/// it was written since. Its time is set to what it would be.
fn age_if_cut(path: &Path) -> std::result::Result<(), String> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(()) };
    if serde_json::from_slice::<Value>(&bytes).is_ok() {
        return Ok(());
    }
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let aged = File::options().write(true).open(path).and_then(|it| it.set_modified(long_ago));
    aged.map_err(|err| format!("{DOCUMENT}: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch without a sync is promised if a durable one came after it, and only then.
    #[test]
    fn a_batch_before_a_durable_one_is_promised() {
        let len = batch(1, 0).len() as u64;
        let ack = |number: u64, durable| Ack::LooseBatch {
            writer: 1,
            batch: number,
            first: 1 + number * len,
            durable,
        };
        let acks = [ack(0, false), ack(1, true), ack(2, false)];
        assert_eq!(survivors(&acks), acks[..2]);
        let promised = PromisedLoose::of(&acks);
        let lines = (0..3).flat_map(|number| batch(1, number));
        let all: Vec<Entry> =
            (1..).zip(lines).map(|(seq, line)| Entry { seq, line: line.into_bytes() }).collect();
        let len = usize::try_from(len).expect("a few lines");
        assert_eq!(promised.check_batches(&all[..2 * len]), Ok(()), "the last may be gone");
        let first_gone = promised.check_batches(&all[len..]).unwrap_err();
        assert!(first_gone.contains("(1, 0)"), "{first_gone}");
        assert!(promised.check_batches(&all[1..]).is_err(), "the first one is cut");
        assert!(promised.check_batches(&all[..len]).is_err(), "the durable one is gone");
    }
}
