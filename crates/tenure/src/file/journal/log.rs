//! The log: batches that are not in the journal yet, and the positions of its ranges, until a
//! checkpoint.
//!
//! # Invariants
//!
//! 1. A log is one file from its first byte to its last. The next one is written beside it, synced,
//!    and takes its name; nothing in a log is ever overwritten, except its state and a record that
//!    does not count yet.
//! 2. Its records are a chain: each begins where the one before ends, and the first that is not valid ends
//!    it. A sync of the file covers every record before, so a power loss only shortens the chain.
//! 3. The state is right while the machine runs, whatever processes die. After a restart the chain alone
//!    counts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checksum;
use crate::error::Result;
use crate::file::layout::{Layout, Sealed, newer_format, open, seal};
use crate::file::target::Target;
use crate::fs::{Access, Handle, if_found};

use super::format::{
    BATCH_HEAD_BYTES, Batch, HEADER_BYTES, Header, Kind, LOG_MAGIC, Position, RECORD_BEGIN_BYTES,
    RECORDS_AT, Range, Record, Replace, STATE, State, begins_record, padded,
};
use super::lines::Cut;

/// The log is filled with zeros in steps of this size.
const ROOM_BYTES: u64 = 64 * 1024;

/// The turn of the state that a log begins with.
pub(super) const FIRST_TURN: u64 = 1;

/// An open log.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) file: Arc<dyn Handle>,
    pub(super) header: Header,
}

/// What is under the name of the log.
#[derive(Debug)]
pub(super) enum Found {
    Log(Log),
    /// There is none.
    Missing,
    /// It cannot be read as one.
    Garbage,
}

/// Where the log of `target` is.
pub(super) fn path_of(target: &Target) -> PathBuf {
    target.sidecar("log")
}

impl Log {
    pub(super) fn open(target: &Target, access: Access) -> Result<Found> {
        let path = path_of(target);
        let file = if_found(target.open(&path, access));
        let file = file.map_err(|err| target.cannot_open("open log", &path, err))?;
        let Some(file) = file else { return Ok(Found::Missing) };
        let mut bytes = [0; HEADER_BYTES];
        file.read_full_at(&mut bytes, 0).map_err(Target::failed("read log", &path))?;
        match open(&bytes, LOG_MAGIC, Header::take) {
            Sealed::Valid(header) => Ok(Found::Log(Self { file, header })),
            Sealed::Invalid => Ok(Found::Garbage),
            Sealed::Newer(major) => Err(newer_format(&path, major)),
        }
    }

    /// The state as a writer of this boot left it, and its turn. A state that no writer can have
    /// left is ignored.
    pub(super) fn state(&self, boot: [u8; 16]) -> io::Result<Option<(u64, State)>> {
        let state = STATE.load::<State>(self.file.as_ref())?;
        Ok(state.filter(|(_, state)| state.boot == boot && state.is_possible()))
    }

    /// Writes a new log into an empty file: its header, ranges, pending batches and an intent, in this order, and the
    /// state with which it begins.
    pub(super) fn begin(
        file: &Arc<dyn Handle>,
        header: &Header,
        state: &mut State,
        ranges: &[Range],
        batches: &[(Batch, &[u8])],
        replace: Option<Replace>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let end = |bytes: &Vec<u8>| RECORDS_AT + bytes.len() as u64;
        let add = |bytes: &mut Vec<u8>, record: Vec<u8>| {
            bytes.extend_from_slice(&record);
            bytes.resize(usize::try_from(padded(bytes.len())).unwrap_or(bytes.len()), 0);
        };
        for range in ranges {
            let record = Record::Range(*range).encode(header.salt, end(&bytes));
            add(&mut bytes, record);
        }
        state.pending_at = end(&bytes);
        for (batch, text) in batches {
            let mut record = [&[0; BATCH_HEAD_BYTES], *text].concat();
            batch.seal(&mut record, header.salt, end(&bytes));
            add(&mut bytes, record);
        }
        if let Some(replace) = replace {
            let record = Record::Replace(replace).encode(header.salt, end(&bytes));
            add(&mut bytes, record);
        }
        (state.end, state.room) = (end(&bytes), end(&bytes));
        let mut head = vec![0; usize::try_from(RECORDS_AT).unwrap_or(0)];
        seal(&mut head[..HEADER_BYTES], LOG_MAGIC, |fill| header.put(fill));
        file.write_all_at(&head, 0)?;
        file.write_all_at(&bytes, RECORDS_AT)?;
        STATE.store(file.as_ref(), FIRST_TURN, state)
    }

    /// Writes a record at the end. It counts when the state says so.
    pub(super) fn write(&self, state: &mut State, record: &Record) -> io::Result<()> {
        let bytes = record.encode(self.header.salt, state.end);
        self.write_bytes(state, &bytes)
    }

    /// Writes a batch at the end; `bytes` has [`BATCH_HEAD_BYTES`] in front of the text.
    pub(super) fn write_batch(
        &self,
        state: &mut State,
        batch: &Batch,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        batch.seal(bytes, self.header.salt, state.end);
        if batch.durable {
            self.make_room(state, bytes.len())?;
        }
        self.write_bytes(state, bytes)
    }

    fn write_bytes(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, state.end)?;
        state.end += padded(bytes.len());
        state.room = state.room.max(state.end);
        Ok(())
    }

    fn make_room(&self, state: &mut State, len: usize) -> io::Result<()> {
        let end = state.end + padded(len);
        if end > state.room {
            let until = end.next_multiple_of(ROOM_BYTES);
            let zeros = vec![0; usize::try_from(until - state.room).unwrap_or(0)];
            self.file.write_all_at(&zeros, state.room)?;
            state.room = until;
        }
        Ok(())
    }

    /// Whether the bytes at `at` begin like a record.
    pub(super) fn has_record(&self, at: u64) -> io::Result<bool> {
        let mut bytes = [0; RECORD_BEGIN_BYTES];
        self.file.read_full_at(&mut bytes, at)?;
        Ok(begins_record(&bytes))
    }

    /// Removes a record that does not count yet.
    pub(super) fn withdraw(&self, at: u64) -> io::Result<()> {
        self.file.write_all_at(&[0; BATCH_HEAD_BYTES], at)
    }

    /// The chain from `from` on: up to `end`, or as far as it is valid.
    pub(super) fn chain(&self, from: u64, end: Option<u64>) -> io::Result<Chain> {
        let until = end.unwrap_or(u64::MAX >> 1);
        let mut chain = Chain { bytes: self.file.read_range(from, until)?, ..Chain::default() };
        let mut at = 0;
        while let Some((record, len)) =
            Record::decode(&chain.bytes, at, self.header.salt, from + at as u64)
        {
            match record {
                Record::Batch(batch) => chain.batches.push(batch),
                Record::Range(range) => chain.ranges.push(range),
                Record::Replace(replace) => chain.replace = Some(replace),
                Record::Placed(position) => chain.place(position),
            }
            at += usize::try_from(padded(len)).unwrap_or(len);
        }
        chain.end = from + at as u64;
        Ok(chain)
    }
}

/// The bytes before `base` that are compared to recognise another journal.
const TAIL_BYTES: u64 = 256;

/// The checksum of the bytes of a journal right before `base`.
pub(super) fn tail_sum(journal: &dyn Handle, base: u64) -> io::Result<u64> {
    Ok(checksum::of(&journal.read_range(base.saturating_sub(TAIL_BYTES), base)?))
}

/// Whether the journal still ends, at `base`, as it did when the log began.
pub(super) fn has_base(journal: &dyn Handle, header: &Header) -> io::Result<bool> {
    Ok(tail_sum(journal, header.base)? == header.base_sum)
}

/// What the records of a log say.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The records as they were read; the text of a batch is in here.
    pub(super) bytes: Vec<u8>,
    pub(super) batches: Vec<Batch>,
    pub(super) ranges: Vec<Range>,
    pub(super) replace: Option<Replace>,
    /// Where the chain ends.
    pub(super) end: u64,
}

impl Chain {
    pub(super) fn text(&self, batch: &Batch) -> &[u8] {
        &self.bytes[batch.text.clone()]
    }

    /// The next entry, as far as the records say.
    pub(super) fn next_seq(&self, header: &Header) -> u64 {
        let batches = self.batches.iter().map(Batch::next_seq);
        let ranges = self.ranges.iter().map(Range::next_seq);
        batches.chain(ranges).fold(header.seq, u64::max)
    }

    fn place(&mut self, Position { number, start }: Position) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.number == number) {
            batch.start = start;
        }
    }

    /// Whether every record describes bytes that are in `journal`, and no replacement was under
    /// way. This shows that a copy of the log belongs to a copy of the journal.
    pub(super) fn describes(&self, header: &Header, journal: &Arc<dyn Handle>) -> io::Result<bool> {
        let mut fits = self.replace.is_none() && has_base(journal.as_ref(), header)?;
        for batch in &self.batches {
            let end = batch.start + batch.text.len() as u64;
            fits = fits && journal.read_range(batch.start, end)? == self.text(batch);
        }
        for range in &self.ranges {
            fits = fits && range.kind == Kind::Here && range.is_in(Some(journal))?;
        }
        Ok(fits)
    }

    /// The ranges of everything but the batches from number `pending` on, in the order of their entries.
    /// Batches that follow each other are one range.
    pub(super) fn placed(&self, pending: u64) -> Vec<Range> {
        let mut cut = Cut::default();
        for batch in self.batches.iter().filter(|batch| batch.number < pending) {
            cut.add(batch.start, batch.seq, self.text(batch));
        }
        let mut ranges = cut.finish();
        ranges.extend(&self.ranges);
        ranges.sort_by_key(|range| range.seq);
        ranges
    }
}
