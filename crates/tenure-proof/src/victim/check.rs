//! What must be true after a crash, for every reader.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::outcome::Entry;
use tenure::{Document, Journal, Value, WriteOptions};

use super::ack::Ack;
use super::keys::PromisedKeys;
use super::loose::{PromisedLoose, survivors};
use super::stamp;
use super::work::{
    BOTH_DOCUMENT, BOTH_JOURNAL, DOCUMENT, JOURNAL, Task, Work, batch, both_line, line_of,
    number_of, work,
};

/// [`check_and_go_on`] with the common tasks, as the writer with the number `next`.
pub fn check(fs: &Arc<dyn Fs>, dir: &Path, acks: &[Ack], next: u64) -> Result<Vec<Ack>, String> {
    let tasks = Task::COMMON.to_vec();
    check_and_go_on(fs, acks, &Work { dir: dir.to_path_buf(), writer: next, tasks, rounds: 2 })
}

/// Checks a directory after a crash, before which `acks` were given; returns the first problem.
///
/// If power was lost, `fs` must have another boot than the victims'. Then a new writer does `next`,
/// and everything is checked again. Its tasks are those of the victims, so that it removes what
/// they left. Returns what it acknowledged.
pub fn check_and_go_on(fs: &Arc<dyn Fs>, acks: &[Ack], next: &Work) -> Result<Vec<Ack>, String> {
    let dir = &*next.dir;
    let promised = Promised::of(acks);
    promised.check_as_plain_reader(dir).map_err(|why| format!("a plain reader: {why}"))?;
    promised.check_as_reader(fs, dir).map_err(|why| format!("a reader: {why}"))?;
    let mut new = Vec::new();
    let done = work(fs, next, &mut |ack| new.push(ack));
    done.map_err(|error| format!("the next writer: {error}"))?;
    new.iter().try_for_each(|ack| promised.check_growth(*ack))?;
    // A replacement removes the leftovers of an earlier one.
    let journal = Journal::open_on(fs, &dir.join(JOURNAL));
    let compacted = journal.and_then(|found| found.compact(&WriteOptions::default(), |_| true));
    compacted.map_err(|error| format!("the next compaction: {error}"))?;
    let after = Promised::of(&[&survivors(acks)[..], &new].concat());
    after.check_as_plain_reader(dir).map_err(|why| format!("a plain reader, later: {why}"))?;
    after.check_as_reader(fs, dir).map_err(|why| format!("a reader, later: {why}"))?;
    no_temporary_file(dir)?;
    Ok(new)
}

/// What the acknowledgements promise.
#[derive(Debug, Default)]
struct Promised {
    document: u64,
    both: u64,
    /// The lines of `both.jsonl`.
    both_lines: BTreeSet<String>,
    lock: u64,
    lease: u64,
    key_fence: u64,
    batches: Batches,
    archive: u64,
    stamped: Batches,
    keys: PromisedKeys,
    loose: PromisedLoose,
}

impl Promised {
    fn of(acks: &[Ack]) -> Self {
        let mut promised = Self { loose: PromisedLoose::of(acks), ..Self::default() };
        for ack in acks {
            match *ack {
                Ack::Document(number) => promised.document = promised.document.max(number),
                Ack::Both { number, writer, step } => {
                    promised.both = promised.both.max(number);
                    promised.both_lines.insert(both_line(writer, step));
                }
                Ack::Lock(fence) => promised.lock = promised.lock.max(fence),
                Ack::Lease(fence) => promised.lease = promised.lease.max(fence),
                Ack::Batch { writer, batch, first } => {
                    promised.batches.0.insert((writer, batch), first);
                }
                Ack::Archive(number) => promised.archive = promised.archive.max(number),
                Ack::Stamp { writer, batch, first } => {
                    promised.stamped.0.insert((writer, batch), first);
                }
                Ack::KeyFence(fence) => promised.key_fence = promised.key_fence.max(fence),
                Ack::Key { .. } | Ack::Gone { .. } | Ack::Pruned { .. } => promised.keys.add(*ack),
                Ack::Loose(_) | Ack::LooseBatch { .. } => {}
            }
        }
        promised
    }

    /// Numbers and fences after the crash are above all from before it (G4, G6).
    fn check_growth(&self, ack: Ack) -> Result<(), String> {
        let (new, old) = match ack {
            Ack::Document(number) => (number, self.document),
            Ack::Both { number, .. } => (number, self.both),
            Ack::Lock(fence) => (fence, self.lock),
            Ack::Lease(fence) => (fence, self.lease),
            Ack::Batch { first, .. } => (first, self.batches.newest()),
            Ack::Archive(number) => (number, self.archive),
            Ack::Stamp { first, .. } => (first, self.stamped.newest()),
            Ack::KeyFence(fence) => (fence, self.key_fence),
            Ack::Loose(number) => (number, self.loose.number),
            Ack::LooseBatch { first, .. } => (first, self.loose.newest()),
            // Each writer has its own keys.
            Ack::Key { .. } | Ack::Gone { .. } | Ack::Pruned { .. } => return Ok(()),
        };
        if new > old { Ok(()) } else { Err(format!("`{ack}` is not above {old}")) }
    }

    /// Documents are whole for a plain reader, too (G5). Each line of a journal is whole, or awaits
    /// its repair: NULs, or the end of the file without a newline (G7).
    fn check_as_plain_reader(&self, dir: &Path) -> Result<(), String> {
        for (name, promised) in [(DOCUMENT, self.document), (BOTH_DOCUMENT, self.both)] {
            let value = match std::fs::read(dir.join(name)) {
                Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
                Err(err) => return Err(format!("{name}: {err}")),
                Ok(bytes) => {
                    let parsed = serde_json::from_slice::<Value>(&bytes);
                    Some(parsed.map_err(|err| format!("{name}: {} bytes: {err}", bytes.len()))?)
                }
            };
            at_least(name, value.as_ref(), promised)?;
        }
        let bytes = std::fs::read(dir.join(JOURNAL)).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            if !line.contains(&0) && !line.is_empty() {
                line_of(line).map_err(|why| format!("{JOURNAL}: {why}"))?;
            }
        }
        Ok(())
    }

    fn check_as_reader(&self, fs: &Arc<dyn Fs>, dir: &Path) -> Result<(), String> {
        for (name, promised) in [(DOCUMENT, self.document), (BOTH_DOCUMENT, self.both)] {
            let document = Document::open_on(fs, &dir.join(name));
            let read = document.and_then(|document| document.read());
            let read = read.map_err(|error| format!("{name}: {error}"))?;
            at_least(name, read.as_ref().map(|read| &read.value), promised)?;
        }
        self.batches.check(JOURNAL, &entries(fs, dir, JOURNAL)?)?;
        let archive = format!("{JOURNAL}.{}", self.archive);
        if self.archive > 0 && !dir.join(&archive).exists() {
            return Err(format!("{archive}: it is gone"));
        }
        stamp::check(&self.stamped, fs, dir)?;
        self.keys.check(fs, dir)?;
        self.loose.check(fs, dir)?;
        // The document comes first: a crash may leave it changed without its line, never the reverse.
        let found = entries(fs, dir, BOTH_JOURNAL)?;
        let found: BTreeSet<&[u8]> = found.iter().map(|entry| entry.line.as_slice()).collect();
        match self.both_lines.iter().find(|line| !found.contains(line.as_bytes())) {
            None => Ok(()),
            Some(line) => Err(format!("{BOTH_JOURNAL}: acknowledged {line} is gone")),
        }
    }
}

/// The batches that are promised to be in a journal: the first entry's number, by writer and batch.
#[derive(Debug, Default)]
pub(super) struct Batches(BTreeMap<(u64, u64), u64>);

impl Batches {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest number that is promised.
    fn newest(&self) -> u64 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// Every batch is whole, in order and there once; acknowledged ones are at their acknowledged
    /// numbers (G7, G8).
    pub(super) fn check(&self, name: &str, entries: &[Entry]) -> Result<(), String> {
        let mut missing: BTreeSet<(u64, u64)> = self.0.keys().copied().collect();
        let mut seen = BTreeSet::new();
        let mut rest = entries;
        while let Some(entry) = rest.first() {
            let (writer, number) = line_of(&entry.line).map_err(|why| format!("{name}: {why}"))?;
            let lines = batch(writer, number);
            let found = rest.iter().take(lines.len()).map(|entry| entry.line.as_slice());
            if !found.eq(lines.iter().map(String::as_bytes)) {
                return Err(format!("{name}: batch {writer} {number} is not whole"));
            }
            if !seen.insert((writer, number)) {
                return Err(format!("{name}: batch {writer} {number} is there twice"));
            }
            missing.remove(&(writer, number));
            let promised = self.0.get(&(writer, number));
            if promised.is_some_and(|first| *first != entry.seq) {
                let found = entry.seq;
                return Err(format!("{name}: batch {writer} {number} is at {found} now"));
            }
            rest = &rest[lines.len()..];
        }
        match missing.first() {
            None => Ok(()),
            Some((writer, number)) => {
                Err(format!("{name}: acknowledged batch {writer} {number} is gone"))
            }
        }
    }
}

pub(super) fn at_least(name: &str, value: Option<&Value>, promised: u64) -> Result<(), String> {
    let Some(value) = value else {
        return if promised == 0 { Ok(()) } else { Err(format!("{name}: {promised} is gone")) };
    };
    match number_of(value) {
        None => Err(format!("{name}: it is a mixture of versions")),
        Some(number) if number < promised => {
            Err(format!("{name}: {number} is there, {promised} was acknowledged"))
        }
        Some(_) => Ok(()),
    }
}

/// All entries of a sound journal; a missing journal has none.
pub(super) fn entries(fs: &Arc<dyn Fs>, dir: &Path, name: &str) -> Result<Vec<Entry>, String> {
    let failed = |error: tenure::Error| format!("{name}: {error}");
    let journal = Journal::open_on(fs, &dir.join(name)).map_err(failed)?;
    let report = journal.verify().map_err(failed)?;
    if !report.is_sound() {
        return Err(format!("{name}: {report:?}"));
    }
    let entries: Result<Vec<Entry>, _> = journal.read(1, None).map_err(failed)?.collect();
    let entries = entries.map_err(failed)?;
    match entries.windows(2).find(|pair| pair[0].seq >= pair[1].seq) {
        Some(pair) => Err(format!("{name}: {} comes after {}", pair[1].seq, pair[0].seq)),
        None => Ok(entries),
    }
}

/// A crash leaves no temporary file for good (G10): the writers after it have removed them.
fn no_temporary_file(dir: &Path) -> Result<(), String> {
    let names = std::fs::read_dir(dir.join(".tenure")).map_err(|err| err.to_string())?;
    let mut names = names.flatten().map(|entry| entry.file_name());
    match names.find(|name| name.to_str().is_some_and(|name| name.contains(".tmp."))) {
        None => Ok(()),
        Some(name) => Err(format!("{} is left over", name.display())),
    }
}
