//! Journals: batches under ordered keys, and a head with the next number.
//!
//! A batch is one key, however many lines it has, so that neither the 128 operations of a transaction nor the price of a
//! key matter. Its lines are separated by newlines; the number of the first one is in the key.
//!
//! # Invariants
//!
//! 1. An append writes the batch and the head in one transaction, which compares the head that the numbers come from.
//! 2. Numbers that cannot be read are a gap: keys that were deleted by hand, or numbers skipped because a snapshot was
//!    restored. A gap before the first entry of a page is named; one behind it is a jump of the numbers.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tenure::Result;

use super::EtcdEngine;
use super::keys::Keys;
use super::record::Head;
use super::txn::{Kv, Txn, then};
use super::world::World;
use crate::engine::Page;
use crate::session::locked;

/// So many journals' heads are remembered.
const HEADS_MAX: usize = 4096;
/// The first page of a read has so many batches. The next ones have more, as long as they are small.
const BATCHES_MIN: usize = 16;
const BATCHES_MAX: usize = 512;
/// A page of this many bytes is large.
const PAGE_BYTES: usize = 1 << 20;

/// An append waits so long for the one before it in its process.
const TURN: Duration = Duration::from_millis(100);

/// A head as it was seen, with its revision.
pub(super) type Seen = Option<(Head, u64)>;

/// How far journals are, as this process last saw it.
#[derive(Debug, Default)]
pub(super) struct Heads {
    seen: Mutex<HashMap<String, Arc<Appends>>>,
}

/// The appends of this process to one journal. They go one after the other: at once they would only overtake each other,
/// which they do if one of them gets no answer.
#[derive(Debug, Default)]
pub(super) struct Appends {
    pub(super) seen: Mutex<Seen>,
    is_busy: Mutex<bool>,
    ended: Condvar,
}

/// The turn of an append.
pub(super) struct Turn<'a>(Option<&'a Appends>);

impl Appends {
    pub(super) fn turn(&self) -> Turn<'_> {
        let wait = self.ended.wait_timeout_while(locked(&self.is_busy), TURN, |is_busy| *is_busy);
        let (mut is_busy, _) = wait.unwrap_or_else(PoisonError::into_inner);
        Turn((!std::mem::replace(&mut *is_busy, true)).then_some(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(appends) = self.0 {
            *locked(&appends.is_busy) = false;
            appends.ended.notify_one();
        }
    }
}

impl Heads {
    pub(super) fn of(&self, name: &str) -> Arc<Appends> {
        let mut seen = locked(&self.seen);
        if seen.len() >= HEADS_MAX && !seen.contains_key(name) {
            seen.clear();
        }
        seen.entry(name.to_owned()).or_default().clone()
    }
}

/// The head that a key shows. One that is not there has no revision.
pub(super) fn seen_head(kv: Option<&Kv>) -> (Head, u64) {
    kv.map_or_else(Default::default, |kv| (Head::read(&kv.value), kv.written))
}

/// The number of the next line.
pub(super) fn next_number(head: Head, world: &World) -> u64 {
    if head.epoch < world.epoch || head.next == 0 { world.first_number() } else { head.next }
}

impl EtcdEngine {
    pub(super) fn read_head(&self, step: &'static str, keys: &Keys) -> Result<(Head, u64)> {
        let txn = Txn::reading(vec![then::get(&keys.head)]);
        Ok(seen_head(self.transact(step, &txn)?.done.key(0).as_ref()))
    }

    pub(super) fn read_entries(&self, name: &str, from: u64, limit: usize) -> Result<Page> {
        let (step, keys) = ("read the journal", self.layout.of(name));
        let mut page = Page::default();
        // The batch that has `from` begins there or before.
        let mut start = [&keys.batch(from), &b"\0"[..]].concat();
        let before = (keys.entries.0.clone(), start.clone());
        let mut batches = BATCHES_MIN;
        let mut is_first = true;
        while page.entries.len() < limit {
            let rest = (start.clone(), keys.entries.1.clone());
            let last = if is_first { then::last(&before) } else { then::look(&keys.head) };
            let reads = vec![then::get(&keys.head), last, then::range(&rest, batches)];
            let done = self.transact(step, &Txn::reading(reads))?.done;
            let (head, _) = seen_head(done.key(0).as_ref());
            let mut found = if is_first { done.keys(1) } else { Vec::new() };
            found.extend(done.keys(2));
            let bytes: usize = found.iter().map(|kv| kv.value.len()).sum();
            for kv in &found {
                if !add(&mut page, &keys, kv, from, limit) {
                    return Ok(page);
                }
            }
            if !done.has_more(2) {
                let is_lost = page.entries.is_empty() && from > 0 && head.next > from;
                if is_lost && page.gap.is_none() {
                    page.gap = Some((from, head.next - 1));
                }
                break;
            }
            if let Some(last) = found.last() {
                start = [&last.key, &b"\0"[..]].concat();
            }
            batches = if bytes < PAGE_BYTES { BATCHES_MAX.min(batches * 4) } else { BATCHES_MIN };
            is_first = false;
        }
        Ok(page)
    }
}

/// Adds the lines of a batch; `false` if the page ends before its end.
fn add(page: &mut Page, keys: &Keys, kv: &Kv, from: u64, limit: usize) -> bool {
    let Some(first) = keys.number_of(&kv.key) else { return true };
    if page.entries.is_empty() && from > 0 && first > from {
        page.gap = Some((from, first - 1));
    }
    for (number, line) in (first..).zip(kv.value.split(|byte| *byte == b'\n')) {
        if number < from {
            continue;
        }
        if page.entries.len() == limit {
            return false;
        }
        page.entries.push((number, line.to_vec()));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::keys::Layout;
    use super::*;

    fn batch(keys: &Keys, first: u64, text: &str) -> Kv {
        let value = text.as_bytes().to_vec();
        Kv { key: keys.batch(first), value, created: 1, written: 1 }
    }

    #[test]
    fn a_page_begins_in_a_batch_and_ends_at_its_limit() {
        let keys = Layout::new("p").of("/log");
        let mut page = Page::default();
        assert!(add(&mut page, &keys, &batch(&keys, 4, "d\ne\nf"), 5, 9));
        assert!(add(&mut page, &keys, &batch(&keys, 9, "i"), 5, 9));
        let numbers: Vec<_> = page.entries.iter().map(|(number, _)| *number).collect();
        assert_eq!((numbers, page.gap), (vec![5, 6, 9], None));
        let mut page = Page::default();
        assert!(!add(&mut page, &keys, &batch(&keys, 9, "i\nj"), 7, 1));
        assert_eq!((page.entries, page.gap), (vec![(9, b"i".to_vec())], Some((7, 8))));
    }
}
