//! What a victim does, and what its files must then contain.
//!
//! Everything that is written follows from numbers, so that the checker can tell a whole document or
//! batch from a mixture without having seen it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::fs::Fs;
use tenure::{
    AcquireOptions, AppendOptions, Document, Error, ErrorKind, Journal, Lease, Lock, LockOptions,
    Result, Wait, WriteOptions, update_and_append,
};

use super::ack::Ack;

pub(super) const DOCUMENT: &str = "state.json";
pub(super) const JOURNAL: &str = "log.jsonl";
pub(super) const BOTH_DOCUMENT: &str = "both.json";
pub(super) const BOTH_JOURNAL: &str = "both.jsonl";
pub(super) const LOCK: &str = "turn";
pub(super) const LEASE: &str = "session";

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
}

impl Task {
    /// What every victim does unless told otherwise.
    pub const ALL: &[Self] = &[Self::Document, Self::Journal, Self::Both, Self::Lock, Self::Lease];
}

impl FromStr for Task {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "document" => Self::Document,
            "journal" => Self::Journal,
            "both" => Self::Both,
            "lock" => Self::Lock,
            "lease" => Self::Lease,
            "rotate" => Self::Rotate,
            "compact" => Self::Compact,
            _ => return Err(format!("`{name}` is no task")),
        })
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

/// The things of a directory, opened once.
struct Things {
    document: Document,
    journal: Journal,
    both: (Document, Journal),
    lock: Lock,
    lease: Lease,
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
        })
    }
}

/// Does the work; `acknowledge` is called after each durable call that returned.
pub fn work(fs: &Arc<dyn Fs>, work: &Work, acknowledge: &mut dyn FnMut(Ack)) -> Result<()> {
    let things = Things::open(fs, &work.dir)?;
    // A number for each step: no two batches of a writer have the same.
    let tasks = work.tasks.len() as u64;
    for round in 0..work.rounds {
        for (step, task) in (round * tasks..).zip(&work.tasks) {
            if let Some(ack) = perform(&things, *task, work.writer, step)? {
                acknowledge(ack);
            }
        }
    }
    Ok(())
}

fn perform(things: &Things, task: Task, writer: u64, step: u64) -> Result<Option<Ack>> {
    let durable = WriteOptions::default();
    Ok(Some(match task {
        Task::Document => {
            let mut number = 0;
            things.document.update(&durable, |current| {
                number = next_number(current)?;
                Ok(Some(document(number)))
            })?;
            Ack::Document(number)
        }
        Task::Journal => {
            let appended =
                things.journal.append(&batch(writer, step), &AppendOptions::default())?;
            Ack::Batch { writer, batch: step, first: appended.first }
        }
        Task::Both => {
            let number = count_both(&things.both, writer, step)?;
            Ack::Both { number, writer, step }
        }
        Task::Lock => {
            let guard = things.lock.acquire(&LockOptions::default())?;
            let fence = guard.fence();
            guard.release()?;
            Ack::Lock(fence)
        }
        Task::Lease => Ack::Lease(hold_lease(&things.lease, writer)?),
        Task::Rotate => {
            things.journal.rotate(&durable)?;
            return Ok(None);
        }
        Task::Compact => {
            things.journal.compact(&durable, |_| true)?;
            return Ok(None);
        }
    }))
}

fn count_both(both: &(Document, Journal), writer: u64, step: u64) -> Result<u64> {
    let operation = Some(format!("{writer}-{step}"));
    let write = WriteOptions { operation, ..WriteOptions::default() };
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

/// A victim that died may have left its lease, and nobody waits an hour for it.
fn hold_lease(lease: &Lease, writer: u64) -> Result<u64> {
    let options = AcquireOptions {
        owner: format!("victim {writer}"),
        ttl: Duration::from_secs(3600),
        ..AcquireOptions::default()
    };
    let at_once = AcquireOptions { wait: Wait::No, ..options.clone() };
    let held = match lease.acquire(&at_once) {
        Err(error) if error.kind() == ErrorKind::Busy => lease.take_over(&options, "next turn")?,
        held => held?,
    };
    // Another victim may have taken it over already, and then it is right to refuse these.
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

fn next_number(current: Option<&Value>) -> Result<u64> {
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
