//! Counts in documents of a collection, and creates and removes some of its own.

use std::io;

use serde_json::json;

use super::{attempt, document};
use crate::torture::finding::Thing;
use crate::torture::subject::{Answer, path_of};
use crate::torture::word::{Own, Word};
use crate::torture::words;
use crate::torture::worker::Worker;

/// The collection.
pub(in crate::torture) const DIRECTORY: &str = "collection";

/// A key that all workers count in.
pub(in crate::torture) fn shared_key(key: usize) -> String {
    format!("shared-{key}")
}

/// A key of one worker's own.
pub(in crate::torture) fn own_key(slot: usize, number: u64) -> String {
    format!("own-{slot}-{number}")
}

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let dir = worker.path(DIRECTORY);
    let key = usize::try_from(worker.dice.between(0, words::KEYS as u64)).unwrap_or(0);
    let (path, word) = (path_of(&dir, &shared_key(key)), words::key(key));
    match worker.dice.between(0, 100) {
        0..15 => document::read_plainly(worker, Thing::Collection, &path, word),
        15..25 => document::read(worker, Thing::Collection, &path, word),
        25..26 => {
            attempt!(worker.subject.prune(&dir));
            Ok(Ok(()))
        }
        26..45 => own(worker),
        _ => {
            let total = attempt!(document::count(worker, Thing::Collection, &path, word)?);
            worker.say(&Word::KeyCounted { key, total })?;
            Ok(Ok(()))
        }
    }
}

/// Creates a document and usually removes it again.
fn own(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let dir = worker.path(DIRECTORY);
    let number = worker.number();
    let key = own_key(worker.task.slot, number);
    let value = json!({ "number": number });
    attempt!(worker.subject.update(&path_of(&dir, &key), false, &mut |_| value.clone()));
    worker.say(&Word::Own { number, state: Own::Made })?;
    if !worker.one_in(30) {
        worker.say(&Word::Own { number, state: Own::Removing })?;
        attempt!(worker.subject.remove(&dir, &key));
        worker.say(&Word::Own { number, state: Own::Removed })?;
    }
    Ok(Ok(()))
}
