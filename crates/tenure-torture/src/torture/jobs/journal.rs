//! Appends batches to a journal, and reads its end: through tenure and as a plain file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use super::attempt;
use super::document::DURABLE;
use crate::torture::content::{self, Line};
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::subject::Answer;
use crate::torture::word::Word;
use crate::torture::words;
use crate::torture::worker::Worker;

/// The journal.
pub(in crate::torture) const FILE: &str = "journal.jsonl";

/// How much of the end a plain reader reads.
const TAIL: u64 = 4096;
/// How many entries before the last known one a reader looks at.
const BACK: u64 = 6;

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let path = worker.path(FILE);
    match worker.dice.between(0, 2000) {
        0 => Ok(worker.subject.rotate(&path)),
        // Everything is kept, so that every entry can be checked at the end.
        1 => Ok(worker.subject.compact(&path)),
        2..300 => read_plainly(worker, &path),
        300..600 => read(worker, &path),
        _ => append(worker, &path),
    }
}

fn append(worker: &mut Worker<'_>, path: &Path) -> io::Result<Answer<()>> {
    let before = worker.memory.word(words::JOURNAL).load(SeqCst);
    let (batch, of) = (worker.number(), worker.dice.between(1, 4));
    let lines = content::batch(worker.task.slot, batch, of, 0);
    let durable = worker.one_in(DURABLE);
    let first = attempt!(worker.subject.append(path, &lines, durable, None));
    if let Some(first) = first {
        worker.memory.word(words::JOURNAL).fetch_max(first + of - 1, SeqCst);
        if first <= before {
            let detail = format!("an append returned entry {first} after entry {before} was known");
            worker.found(Finding::new(Thing::Journal, Fault::Lost, detail))?;
        }
    }
    worker.say(&Word::Appended { batch, first: first.unwrap_or(0) })?;
    Ok(Ok(()))
}

/// A reader through tenure sees whole batches only, and every entry that was acknowledged before.
fn read(worker: &Worker<'_>, path: &Path) -> io::Result<Answer<()>> {
    let before = worker.memory.word(words::JOURNAL).load(SeqCst);
    let entries = attempt!(worker.subject.entries(path, before.saturating_sub(BACK).max(1)));
    let last = entries.last().map_or(0, |(number, _)| *number);
    if last < before {
        let detail = format!("a read ended at {last} after entry {before} was known");
        worker.found(Finding::new(Thing::Journal, Fault::Stale, detail))?;
    }
    let mut end = None;
    for (number, bytes) in &entries {
        match Line::parse(bytes) {
            Err(detail) => {
                let detail = format!("entry {number}: {detail}");
                worker.found(Finding::new(Thing::Journal, Fault::Torn, detail))?;
            }
            Ok(line) => end = Some(line),
        }
    }
    if let Some(line) = end.filter(|line| line.part != line.of) {
        let detail = format!("a read ended inside a batch: {line:?}");
        worker.found(Finding::new(Thing::Journal, Fault::Torn, detail))?;
    }
    worker.say(&Word::Read { thing: Thing::Journal })?;
    Ok(Ok(()))
}

/// A plain reader may see the beginning of a write; its complete lines must be lines of workers.
fn read_plainly(worker: &Worker<'_>, path: &Path) -> io::Result<Answer<()>> {
    let mut bytes = Vec::new();
    let mut cut = false;
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        file => {
            let mut file = file?;
            let length = file.metadata()?.len();
            cut = length > TAIL;
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            file.read_to_end(&mut bytes)?;
        }
    }
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    lines.pop(); // What comes after the last newline is not complete.
    for line in lines.into_iter().skip(usize::from(cut)) {
        if let Err(detail) = Line::parse(line) {
            worker.found(Finding::new(Thing::Journal, Fault::Torn, detail))?;
        }
    }
    worker.say(&Word::Read { thing: Thing::Journal })?;
    Ok(Ok(()))
}
