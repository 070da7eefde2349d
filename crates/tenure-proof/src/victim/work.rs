//! What a victim does, and what its files must then contain.
//!
//! All content is computed from numbers, so the checker can distinguish a whole document or batch
//! from a mixture without having seen it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tenure::fs::Fs;
use tenure::{
    AppendOptions, Document, Error, ErrorKind, Journal, Lease, LeaseOptions, Lock, LockOptions,
    Result, Value, Wait, WriteOptions, json, update_and_append,
};

use super::ack::Ack;
use super::keys::Keys;
use super::loose::Loose;
use super::stamp;

pub(super) const DOCUMENT: &str = "state.json";
pub(super) const JOURNAL: &str = "log.jsonl";
pub(super) const BOTH_DOCUMENT: &str = "both.json";
pub(super) const BOTH_JOURNAL: &str = "both.jsonl";
pub(super) const LOCK: &str = "turn";
pub(super) const LEASE: &str = "session";

/// Longer than any of this takes, however busy the machine is.
pub(super) const PATIENCE: Wait = Wait::For(Duration::from_secs(100));

/// A durable write that waits for its turn.
pub(super) fn patient() -> WriteOptions {
    WriteOptions { wait: PATIENCE, ..WriteOptions::default() }
}

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Counts up in a document.
    Document,
    /// Appends batches to a journal.
    Journal,
    /// Counts up in a document and appends a line to a journal, in one call.
    Both,
    /// Takes a lock.
    Lock,
    /// Takes a lease, renews and releases it.
    Lease,
    /// Rotates the journal.
    Rotate,
    /// Compacts the journal, keeping everything.
    Compact,
    /// Appends a batch with a new header.
    Stamp,
    /// Sets a key of a collection.
    Key,
    /// Sets keys and removes them.
    Remove,
    /// Sets a key and prunes its collection.
    Prune,
    /// Counts up in a document, mostly without a sync.
    LooseDocument,
    /// Appends batches to a journal, mostly without a sync.
    LooseJournal,
}

/// Every task, by its name on the command line.
const NAMES: [(&str, Task); 13] = [
    ("document", Task::Document),
    ("journal", Task::Journal),
    ("both", Task::Both),
    ("lock", Task::Lock),
    ("lease", Task::Lease),
    ("rotate", Task::Rotate),
    ("compact", Task::Compact),
    ("stamp", Task::Stamp),
    ("key", Task::Key),
    ("remove", Task::Remove),
    ("prune", Task::Prune),
    ("loose-document", Task::LooseDocument),
    ("loose-journal", Task::LooseJournal),
];

impl Task {
    /// What every victim does by default.
    pub const COMMON: &[Self] =
        &[Self::Document, Self::Journal, Self::Both, Self::Lock, Self::Lease];

    /// The other tasks.
    pub const RARE: &[Self] = &[
        Self::LooseDocument,
        Self::LooseJournal,
        Self::Key,
        Self::Remove,
        Self::Stamp,
        Self::Prune,
        Self::Rotate,
        Self::Compact,
    ];

    /// All tasks; the common ones come twice as often.
    pub fn all() -> Vec<Self> {
        let (one, other) = Self::RARE.split_at(Self::RARE.len() / 2);
        [Self::COMMON, one, Self::COMMON, other].concat()
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, task)| *task).ok_or_else(|| format!("`{name}` is no task"))
    }
}

/// One victim's work.
#[derive(Debug, Clone)]
pub struct Work {
    /// Where its files are.
    pub dir: PathBuf,
    /// Its number; no two victims of one directory have the same.
    pub writer: u64,
    /// What it does, in turn.
    pub tasks: Vec<Task>,
    /// How often it does all of them.
    pub rounds: u64,
}

/// The handles of a directory, opened once.
struct Things {
    document: Document,
    journal: Journal,
    both: (Document, Journal),
    lock: Lock,
    lease: Lease,
    stamped: Journal,
    keys: Keys,
    loose: Loose,
}

impl Things {
    fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let document = |name: &str| Document::open_on(fs, &dir.join(name));
        let journal = |name: &str| Journal::open_on(fs, &dir.join(name));
        Ok(Self {
            document: document(DOCUMENT)?,
            journal: journal(JOURNAL)?,
            both: (document(BOTH_DOCUMENT)?, journal(BOTH_JOURNAL)?),
            lock: Lock::open_on(fs, &dir.join(LOCK))?,
            lease: Lease::open_on(fs, &dir.join(LEASE))?,
            stamped: stamp::open(fs, dir)?,
            keys: Keys::open(fs, dir)?,
            loose: Loose::open(fs, dir)?,
        })
    }
}

/// Does the work; `acknowledge` is called after each call that returned, with what it promises.
pub fn work(fs: &Arc<dyn Fs>, work: &Work, acknowledge: &mut dyn FnMut(Ack)) -> Result<()> {
    let things = Things::open(fs, &work.dir)?;
    // A number for each step: no two batches of a writer have the same.
    let tasks = work.tasks.len() as u64;
    for round in 0..work.rounds {
        for (step, task) in (round * tasks..).zip(&work.tasks) {
            let turn = Turn { writer: work.writer, step, round };
            things.perform(*task, turn)?.into_iter().for_each(&mut *acknowledge);
        }
    }
    Ok(())
}

/// The writer and its step.
#[derive(Debug, Clone, Copy)]
struct Turn {
    writer: u64,
    step: u64,
    round: u64,
}

impl Things {
    fn perform(&self, task: Task, turn: Turn) -> Result<Vec<Ack>> {
        let Turn { writer, step, round } = turn;
        let durable = patient();
        Ok(match task {
            Task::Document => {
                let mut number = 0;
                self.document.update(&durable, |current| {
                    number = next_number(current)?;
                    Ok(Some(document(number)))
                })?;
                vec![Ack::Document(number)]
            }
            Task::Journal => {
                let options = AppendOptions { write: durable, ..AppendOptions::default() };
                let appended = self.journal.append(&batch(writer, step), &options)?;
                vec![Ack::Batch { writer, batch: step, first: appended.first }]
            }
            Task::Both => {
                let number = count_both(&self.both, writer, step)?;
                vec![Ack::Both { number, writer, step }]
            }
            Task::Lock => {
                let guard =
                    self.lock.acquire(&LockOptions { wait: PATIENCE, ..LockOptions::default() })?;
                let fence = guard.publish_fence();
                guard.release()?;
                vec![Ack::Lock(fence)]
            }
            Task::Lease => vec![Ack::Lease(hold_lease(&self.lease, writer)?)],
            Task::Rotate => {
                let archive = self.journal.rotate(&durable)?.archive;
                let number = archive.and_then(|path| path.extension()?.to_str()?.parse().ok());
                number.map(Ack::Archive).into_iter().collect()
            }
            Task::Compact => {
                self.journal.compact(&durable, |_| true)?;
                Vec::new()
            }
            Task::Stamp => vec![stamp::stamp(&self.stamped, writer, step)?],
            Task::Key => vec![self.keys.set(writer, step)?],
            Task::Remove => self.keys.remove(writer, step)?.to_vec(),
            Task::Prune => self.keys.prune(writer, step)?,
            Task::LooseDocument => self.loose.count(writer, round)?.into_iter().collect(),
            Task::LooseJournal => vec![self.loose.append(writer, step, round)?],
        })
    }
}

fn count_both(both: &(Document, Journal), writer: u64, step: u64) -> Result<u64> {
    let operation = Some(format!("{writer}-{step}"));
    let write = WriteOptions { operation, ..patient() };
    let options = AppendOptions { write, json: true, ..AppendOptions::default() };
    let mut number = 0;
    update_and_append(&both.0, &both.1, &[both_line(writer, step)], &options, |current| {
        number = next_number(current)?;
        Ok(Some(document(number)))
    })?;
    Ok(number)
}

/// What a change of `both.json` adds to `both.jsonl`.
pub(super) fn both_line(writer: u64, step: u64) -> String {
    json!({ "writer": writer, "step": step }).to_string()
}

/// A victim that died may have left its lease; the next one does not wait an hour for it.
fn hold_lease(lease: &Lease, writer: u64) -> Result<u64> {
    let options = LeaseOptions {
        owner: format!("victim {writer}"),
        ttl: Duration::from_secs(3600),
        wait: PATIENCE,
        ..LeaseOptions::default()
    };
    let at_once = LeaseOptions { wait: Wait::No, ..options.clone() };
    let held = match lease.acquire(&at_once) {
        Err(error) if error.kind() == ErrorKind::Busy => lease.take_over(&options, "next turn")?,
        held => held?,
    };
    // Another victim may have taken it over already; then these calls are rightly refused.
    let lost = |error: &Error| matches!(error.kind(), ErrorKind::LeaseLost | ErrorKind::Fenced);
    match lease.renew(&held.token, None).and_then(|_| lease.release(&held.token)) {
        Err(error) if !lost(&error) => Err(error),
        _ => Ok(held.fence),
    }
}

/// The document with this number.
pub(super) fn document(number: u64) -> Value {
    // Every eighth is longer than a page, and no two neighbours have the same length.
    let length = number * 37 % 200 + if number % 8 == 7 { 5000 } else { 0 };
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
    let pad: String = (0..length).map(|_| letter).collect();
    json!({ "number": number, "pad": pad })
}

pub(super) fn next_number(current: Option<&Value>) -> Result<u64> {
    let Some(current) = current else { return Ok(1) };
    match number_of(current) {
        Some(number) => Ok(number + 1),
        None => Err(Error::new(ErrorKind::Damaged, "count", "it is no document of a victim")),
    }
}

/// The number of a document, if it is exactly the document with that number.
pub(super) fn number_of(value: &Value) -> Option<u64> {
    let number = value["number"].as_u64()?;
    (document(number) == *value).then_some(number)
}

/// The lines of a batch.
pub(super) fn batch(writer: u64, batch: u64) -> Vec<String> {
    let lines = 1 + (writer * 7 + batch * 3) % 4;
    let length = (writer * 31 + batch * 17) % 90 + if batch % 6 == 5 { 3000 } else { 0 };
    let pad: String = (0..length).map(|_| 'p').collect();
    let line = |line: u64| json!({ "writer": writer, "batch": batch, "line": line, "pad": pad });
    (0..lines).map(|number| line(number).to_string()).collect()
}

/// Which batch a line belongs to; it must match byte for byte.
pub(super) fn line_of(line: &[u8]) -> std::result::Result<(u64, u64), String> {
    let value: Option<Value> = serde_json::from_slice(line).ok();
    let number = |name: &str| value.as_ref().and_then(|value| value[name].as_u64());
    let found = number("writer").zip(number("batch"));
    let known = |&(writer, number): &(u64, u64)| {
        batch(writer, number).iter().any(|known| known.as_bytes() == line)
    };
    found.filter(known).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
        format!("a line of no writer: {shown}")
    })
}
