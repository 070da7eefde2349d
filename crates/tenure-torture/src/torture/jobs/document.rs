//! Counts in a document, and reads it: through tenure and as a plain file.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use super::attempt;
use crate::torture::content::Counts;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::subject::Answer;
use crate::torture::word::Word;
use crate::torture::words;
use crate::torture::worker::Worker;

/// The document.
pub(in crate::torture) const FILE: &str = "doc.json";

/// One in this many changes is durable: durable changes are slow, and share syncs.
pub(super) const DURABLE: u64 = 40;

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let path = worker.path(FILE);
    match worker.dice.between(0, 10) {
        0 | 1 => read_plainly(worker, Thing::Document, &path, words::DOCUMENT),
        2 => read(worker, Thing::Document, &path, words::DOCUMENT),
        _ => {
            let total = attempt!(count(worker, Thing::Document, &path, words::DOCUMENT)?);
            worker.say(&Word::Counted { total })?;
            Ok(Ok(()))
        }
    }
}

/// Adds one for this worker and returns the new total. Every total that was returned before this
/// call began is smaller.
pub(super) fn count(
    worker: &mut Worker<'_>,
    thing: Thing,
    path: &Path,
    word: usize,
) -> io::Result<Answer<u64>> {
    let (slot, durable) = (worker.task.slot, worker.one_in(DURABLE));
    let before = worker.memory.word(word).load(SeqCst);
    let mut total = 0;
    let mut wrong = None;
    let answer = worker.subject.update(path, durable, &mut |current| {
        let counts = current.map_or_else(|| Ok(Counts::default()), Counts::parse);
        let mut counts = counts.unwrap_or_else(|detail| {
            wrong = Some(detail);
            Counts::default()
        });
        counts.add(slot);
        total = counts.total;
        counts.to_value()
    });
    if let Some(detail) = wrong {
        worker.found(Finding::new(thing, Fault::Corrupt, detail))?;
    }
    attempt!(answer);
    worker.memory.word(word).fetch_max(total, SeqCst);
    if total <= before {
        let detail = format!("an update returned {total} after another had returned {before}");
        worker.found(Finding::new(thing, Fault::Lost, detail))?;
    }
    Ok(Ok(total))
}

/// Reads through tenure: the content is whole, and no older than any total returned before.
pub(super) fn read(
    worker: &Worker<'_>,
    thing: Thing,
    path: &Path,
    word: usize,
) -> io::Result<Answer<()>> {
    let before = worker.memory.word(word).load(SeqCst);
    let found = attempt!(worker.subject.read(path));
    let counts = found.map_or_else(|| Ok(Counts::default()), |found| Counts::parse(&found.value));
    judge(worker, thing, counts, before)
}

/// Reads the plain file, as `cat` does.
pub(super) fn read_plainly(
    worker: &Worker<'_>,
    thing: Thing,
    path: &Path,
    word: usize,
) -> io::Result<Answer<()>> {
    let before = worker.memory.word(word).load(SeqCst);
    let counts = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::default()),
        bytes => Counts::parse_bytes(&bytes?),
    };
    judge(worker, thing, counts, before)
}

fn judge(
    worker: &Worker<'_>,
    thing: Thing,
    counts: Result<Counts, String>,
    before: u64,
) -> io::Result<Answer<()>> {
    match counts {
        Err(detail) => worker.found(Finding::new(thing, Fault::Torn, detail))?,
        Ok(counts) if counts.total < before => {
            let detail = format!("a read gave {} after {before} was known", counts.total);
            worker.found(Finding::new(thing, Fault::Stale, detail))?;
        }
        Ok(_) => worker.say(&Word::Read { thing })?,
    }
    Ok(Ok(()))
}
