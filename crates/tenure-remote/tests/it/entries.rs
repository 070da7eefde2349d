//! Journals of more than one page.

use std::sync::Arc;
use std::time::Duration;

use tenure::outcome::Entry;
use tenure::{AppendOptions, ErrorKind, Journal, Result, Wait};
use tenure_remote::RemoteStore;

use crate::memory_engine::{Memory, MemoryEngine};

const TTL: Duration = Duration::from_secs(10);

const ENTRIES: u64 = 2000;

fn journal(memory: &Arc<Memory>) -> Journal {
    let store = RemoteStore::with_ttl(Arc::new(MemoryEngine(memory.clone())), TTL);
    let journal = Journal::on(&store, "/log").expect("a journal");
    let lines: Vec<String> = (1..=ENTRIES).map(|number| format!("line {number}")).collect();
    journal.append(&lines, &AppendOptions::default()).expect("one batch");
    journal
}

fn numbers(entries: impl Iterator<Item = Result<Entry>>) -> Vec<u64> {
    entries.map(|entry| entry.expect("an entry").seq).collect()
}

#[test]
fn a_read_turns_pages() {
    let journal = journal(&Memory::new());
    for (from, limit) in [(0, None), (1, None), (700, None), (0, Some(900)), (1990, Some(900))] {
        let read = numbers(journal.read(from, limit).expect("a reader"));
        let first = from.max(1);
        let last = limit.map_or(ENTRIES, |limit| ENTRIES.min(first + limit - 1));
        assert_eq!(read, (first..=last).collect::<Vec<_>>(), "from {from}, {limit:?}");
    }
}

#[test]
fn a_page_of_long_lines_has_few_entries() {
    let memory = Memory::new();
    let store = RemoteStore::with_ttl(Arc::new(MemoryEngine(memory.clone())), TTL);
    let journal = Journal::on(&store, "/long").expect("a journal");
    let line = "x".repeat(1 << 20);
    for _ in 0..3 {
        journal.append(&vec![&line; 64], &AppendOptions::default()).expect("one batch");
    }
    let before = memory.requests();
    assert_eq!(numbers(journal.read(0, None).expect("a reader")).len(), 192);
    let requests = memory.requests() - before;
    assert!(requests > 20, "128 MiB behind the first page came with {requests} requests");
}

#[test]
fn entries_that_are_gone_are_reported_once_wherever_they_were() {
    let memory = Memory::new();
    let journal = journal(&memory);
    // Inside a page, and from the end of one to the middle of another.
    memory.remove_entries("/log", 10..=12);
    memory.remove_entries("/log", 60..=70);
    let wanted: Vec<u64> =
        (1..=ENTRIES).filter(|seq| !(10..=12).contains(seq) && !(60..=70).contains(seq)).collect();
    let (mut read, mut gaps) = (Vec::new(), Vec::new());
    for entry in journal.read(0, None).expect("a reader") {
        match entry {
            Ok(entry) => read.push(entry.seq),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                gaps.push(error.gap().expect("a gap"));
            }
        }
    }
    assert_eq!(read, wanted);
    assert_eq!(gaps, [(10, 12), (60, 70)]);
    let mut follow = journal.follow(5).expect("a follower");
    let mut followed = Vec::new();
    while let Some(next) = follow.next(Wait::No).transpose() {
        followed.push(next.map(|entry| entry.seq).map_err(|error| error.gap()));
        if followed.len() == 10 {
            break;
        }
    }
    let gap = Err(Some((10, 12)));
    assert_eq!(followed, [Ok(5), Ok(6), Ok(7), Ok(8), Ok(9), gap, Ok(13), Ok(14), Ok(15), Ok(16)]);
}
