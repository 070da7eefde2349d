//! The journal: whole batches, numbers, followers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::outcome::Entry;
use tenure::{AppendOptions, ErrorKind, Journal, Result, Wait};

use crate::asking::{PATIENCE, all, append, at_once, growing, lines, locked, patient, together};
use crate::failure::{Failure, Outcome, ensure, equal};
use crate::subject::Subject;

const THREADS: usize = 4;
const ROUNDS: usize = 10;
const BATCH: usize = 5;

fn batch(writer: usize, round: usize) -> Vec<String> {
    (0..BATCH).map(|line| format!("{writer} {round} {line}")).collect()
}

/// Fails unless these are whole batches, each in its order and with consecutive numbers.
fn whole(entries: &[Entry]) -> Outcome {
    growing("numbers", &entries.iter().map(|entry| entry.seq).collect::<Vec<_>>())?;
    equal!(entries.len() % BATCH, 0, "entries of a part of a batch");
    for part in entries.chunks(BATCH) {
        let line = |entry: &Entry| String::from_utf8_lossy(&entry.line).into_owned();
        let first = line(&part[0]);
        let stem = first.strip_suffix(" 0").unwrap_or_default();
        for (at, entry) in part.iter().enumerate() {
            equal!(line(entry), format!("{stem} {at}"), "a line of a batch");
            equal!(entry.seq, part[0].seq + at as u64, "a number in a batch");
        }
    }
    Ok(())
}

pub(super) fn batches_are_whole_and_numbered(subject: &Subject) -> Outcome {
    let answers = Mutex::new(BTreeMap::new());
    together(THREADS, |writer| {
        let journal = subject.journal(writer, "log")?;
        let mut before = 0;
        for round in 0..ROUNDS {
            let durable = round % 5 == 0;
            let options = if durable { AppendOptions::default() } else { append(patient()) };
            let appended = journal.append(&batch(writer, round), &options)?;
            equal!(appended.last + 1 - appended.first, BATCH as u64, "numbers of a batch");
            ensure!(appended.first > before, "a later batch has smaller numbers");
            before = appended.last;
            locked(&answers).insert(appended.first, format!("{writer} {round} 0"));
        }
        Ok(())
    })?;
    let entries = all(&subject.journal(1, "log")?)?;
    equal!(entries.len(), THREADS * ROUNDS * BATCH, "entries");
    whole(&entries)?;
    for first in entries.chunks(BATCH).map(|part| &part[0]) {
        let said = locked(&answers).get(&first.seq).cloned().unwrap_or_default();
        equal!(String::from_utf8_lossy(&first.line), said, "the batch with number {}", first.seq);
    }
    Ok(())
}

pub(super) fn a_reader_sees_whole_batches(subject: &Subject) -> Outcome {
    let done = AtomicUsize::new(0);
    let writers = 2;
    together(writers + 1, |number| {
        let journal = subject.journal(number, "log")?;
        if number < writers {
            let written = (0..ROUNDS).try_for_each(|round| {
                journal.append(&batch(number, round), &append(patient())).map(drop)
            });
            done.fetch_add(1, Ordering::SeqCst);
            return Ok(written?);
        }
        while done.load(Ordering::SeqCst) < writers {
            whole(&all(&journal)?)?;
        }
        Ok(())
    })
}

pub(super) fn a_read_begins_and_ends_where_it_is_asked_to(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    ensure!(all(&journal)?.is_empty(), "a journal without entries has some");
    for round in 0..3 {
        journal.append(&batch(0, round), &append(at_once()))?;
    }
    let every = all(&journal)?;
    let other = subject.journal(1, "log")?;
    let read = |from, limit| other.read(from, limit)?.collect::<Result<Vec<_>>>();
    for (at, entry) in every.iter().enumerate() {
        equal!(read(entry.seq, None)?, every[at..], "entries from {}", entry.seq);
        equal!(read(entry.seq, Some(2))?, every[at..every.len().min(at + 2)], "two entries");
    }
    equal!(read(0, Some(7))?, every[..7], "the oldest seven");
    equal!(read(0, Some(0))?, [], "no entries");
    let end = every.last().map_or(0, |last| last.seq + 1);
    equal!(read(end, None)?, [], "entries behind the last");
    let mut entries = other.read(every[0].seq, Some(1))?;
    let first = entries.next_line()?.map(|(seq, line)| (seq, line.to_vec()));
    equal!(first, Some((every[0].seq, every[0].line.clone())), "the next line");
    ensure!(entries.next_line()?.is_none(), "more lines than the limit");
    ensure!(
        other.read(u64::MAX, None).and_then(|entries| entries.pending())?.is_empty(),
        "lines without a number"
    );
    Ok(())
}

pub(super) fn lines_survive_byte_for_byte(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    let long = vec![b'x'; 70_000];
    let batch: [&[u8]; 6] =
        [b"{\"a\": 1.0}", b"\xff\xfe not UTF-8", b" \tspaces \r", b"a\0b", &long, b"-"];
    journal.append(&batch, &append(at_once()))?;
    let found: Vec<_> =
        all(&subject.journal(1, "log")?)?.into_iter().map(|entry| entry.line).collect();
    equal!(found, batch, "the lines");
    Ok(())
}

pub(super) fn a_follower_sees_each_entry_once_and_in_order(subject: &Subject) -> Outcome {
    let wanted = 2 * ROUNDS * BATCH;
    let followed = Mutex::new(Vec::new());
    together(3, |number| {
        let journal = subject.journal(number, "log")?;
        if number < 2 {
            let write = |round| journal.append(&batch(number, round), &append(patient())).map(drop);
            return Ok((0..ROUNDS).try_for_each(write)?);
        }
        let mut follow = journal.follow(1)?;
        while locked(&followed).len() < wanted {
            let next = follow.next(Wait::For(PATIENCE))?;
            let next = next.ok_or_else(|| Failure::new("a follower misses entries"))?;
            equal!(follow.position(), next.seq + 1, "the position of a follower");
            locked(&followed).push(next);
        }
        ensure!(follow.next(Wait::No)?.is_none(), "a follower sees more than was written");
        ensure!(!follow.is_waiting_for_writer()?, "a follower waits for a writer");
        Ok(())
    })?;
    let followed = locked(&followed);
    whole(&followed)?;
    equal!(*followed, all(&subject.journal(0, "log")?)?, "what was followed");
    Ok(())
}

pub(super) fn a_follower_resumes_by_number(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    journal.append(&["a", "b", "c"], &append(patient()))?;
    let mut follow = journal.follow(0)?;
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.extend(follow.next(Wait::No)?);
    }
    let position = follow.position();
    drop(follow);
    journal.append(&["d"], &append(patient()))?;
    let mut follow = subject.journal(1, "log")?.follow(position)?;
    together(2, |number| {
        if number == 0 {
            subject.journal(0, "log")?.append(&["e"], &append(patient()))?;
        }
        Ok(())
    })?;
    while let Some(next) = follow.next(Wait::No)? {
        seen.push(next);
    }
    equal!(seen, all(&journal)?, "what was followed in two parts");
    // A number that is not there yet is waited for.
    let future = follow.position() + 1;
    let mut ahead = journal.follow(future)?;
    ensure!(ahead.next(Wait::No)?.is_none(), "a follower sees the future");
    journal.append(&["f", "g"], &append(patient()))?;
    let next = ahead.next(Wait::For(PATIENCE))?;
    equal!(next.map(|entry| entry.line), Some(b"g".to_vec()), "the entry that was waited for");
    equal!(lines(&journal)?, ["a", "b", "c", "d", "e", "f", "g"], "lines");
    Ok(())
}

pub(super) fn lost_entries_are_reported_once(subject: &Subject) -> Outcome {
    let Some(lose) = &subject.lose_entries else { return Ok(()) };
    let journal = subject.journal(0, "log")?;
    let old = journal.append(&["a", "b", "c"], &append(patient()))?;
    lose(journal.path(), old.last)?;
    let new = journal.append(&["d", "e"], &append(patient()))?;
    ensure!(new.first > old.last, "numbers were given out twice");
    let other = subject.journal(1, "log")?;
    for from in [old.first, old.last] {
        gap_then(&other, from, (from, old.last), new.first)?;
    }
    let mut follow = other.follow(old.first)?;
    let Err(error) = follow.next(Wait::No) else {
        return Err(Failure::new("a follower skips entries in silence"));
    };
    equal!(error.gap(), Some((old.first, old.last)), "the gap of a follower");
    for seq in new.first..=new.last {
        let next = follow.next(Wait::No)?;
        equal!(next.map(|entry| entry.seq), Some(seq), "an entry behind a gap");
    }
    ensure!(follow.next(Wait::No)?.is_none(), "a follower sees more than was written");
    // Who asks for the oldest that is there has lost nothing.
    equal!(lines(&other)?, ["d", "e"], "lines");
    equal!(other.read(new.first, None)?.count(), 2, "entries behind the gap");
    Ok(())
}

fn gap_then(journal: &Journal, from: u64, gap: (u64, u64), next: u64) -> Outcome {
    let mut entries = journal.read(from, None)?;
    match entries.next() {
        Some(Err(error)) => {
            equal!(error.gap(), Some(gap), "the gap");
            equal!(error.kind(), ErrorKind::Damaged, "the kind of a gap");
        }
        found => return Err(Failure::new(format!("entries are skipped in silence: {found:?}"))),
    }
    let numbers: Result<Vec<u64>> = entries.map(|entry| entry.map(|entry| entry.seq)).collect();
    equal!(numbers?, [next, next + 1], "the entries behind the gap");
    Ok(())
}
