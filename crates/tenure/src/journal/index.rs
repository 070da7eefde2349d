//! The index I: which sequence numbers are where in the journal, and the checksum of every range.
//!
//! # Invariants
//!
//! 1. (J4) A record is valid if and only if its checksum, seeded with the index's generation, fits.
//!    Records are in the order of their sequence numbers; their ranges may lie anywhere.
//! 2. (J5) The records of one checkpoint are a group; the last of them says how far the journal is
//!    covered (`reach`) and up to which log entry (`number`). A group counts once it is complete: the
//!    head says how many records count, and one group of the head's own epoch may follow, from a
//!    checkpoint that died before its new head.
//! 3. The journal was synced before a record about it was written. The index is synced before the log
//!    entries that it covers are overwritten.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, FileId, Handle};
use crate::record::MAJOR;
use crate::target::Target;

use super::layout::{Fill, Take, to_count_from};

const MAGIC: &[u8; 6] = b"tenidx";
pub(super) const INDEX_HEADER_BYTES: u64 = 128;
pub(super) const RECORD_BYTES: usize = 72;
const HEADER_LEN: usize = 128;
/// Records are read this many at a time.
const RECORDS_PER_READ: u64 = 64;

/// A header line, newline included; of length 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    pub(super) len: u64,
    /// 0: an index of an earlier version, which knows the length only.
    pub(super) sum: u64,
}

impl Header {
    pub(super) fn of(line: &[u8]) -> Self {
        if line.is_empty() {
            return Self::default();
        }
        Self { len: line.len() as u64, sum: checksum::of(line) }
    }
}

/// What the index says about itself; written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Title {
    pub(super) generation: u64,
    pub(super) journal: FileId,
    /// The first sequence number that can be in this file.
    pub(super) first_seq: u64,
    pub(super) header: Header,
    /// The archive with the entries before `first_seq`; 0 is none.
    pub(super) archive: u64,
}

/// One range of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) seq: u64,
    pub(super) lines: u32,
    /// How many of them others have written.
    pub(super) foreign: u32,
    pub(super) sum: u64,
}

impl Segment {
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + u64::from(self.lines)
    }
}

/// A record: a segment and its place in the checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub(super) segment: Segment,
    pub(super) epoch: u64,
    /// Set in the last record of a group.
    pub(super) reach: u64,
    pub(super) number: u64,
}

/// The end of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    /// How many records count with it.
    pub(super) len: u64,
    pub(super) reach: u64,
    pub(super) number: u64,
    pub(super) next_seq: u64,
}

/// An open index.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) file: Arc<dyn Handle>,
    pub(super) title: Title,
}

impl Index {
    /// Opens the index at `path`; `None` if there is none, or nothing that can be read as one.
    pub(super) fn open(target: &Target, path: &Path, access: Access) -> Result<Option<Self>> {
        let file = match target.fs.open(path, access) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Target::failed("open index", path))?,
        };
        let mut bytes = [0; HEADER_LEN];
        let read = file.read_full_at(&mut bytes, 0).map_err(Target::failed("read index", path))?;
        let major = u16::from_le_bytes([bytes[6], bytes[7]]);
        let fits = bytes[HEADER_LEN - 8..] == checksum::of(&bytes[..HEADER_LEN - 8]).to_le_bytes();
        if read < HEADER_LEN || !bytes.starts_with(MAGIC) || !fits {
            return Ok(None);
        }
        if major > MAJOR {
            let detail = format!("format version {major}, this tenure knows {MAJOR}");
            return Err(Error::new(ErrorKind::NewerFormat, "use", detail)
                .at(path)
                .hint("upgrade tenure; nothing was changed"));
        }
        let mut take = Take::new(&bytes[8..]);
        let (generation, journal) = (take.u64(), FileId { dev: take.u64(), ino: take.u64() });
        let (first_seq, len, archive) = (take.count(), take.count(), take.count());
        let header = Header { len, sum: take.u64() };
        let title = Title { generation, journal, first_seq, header, archive };
        Ok(take.could_be().then_some(Self { file, title }))
    }

    /// Reads record `at`; `None` if it is not valid.
    pub(super) fn record(&self, at: u64) -> io::Result<Option<Record>> {
        Ok(self.records(at, 1)?.first().copied().flatten())
    }

    /// Reads up to `max` records from `at` on, each valid or not.
    pub(super) fn records(&self, at: u64, max: u64) -> io::Result<Vec<Option<Record>>> {
        let start = offset_of(at);
        let end = offset_of(at + max.min(RECORDS_PER_READ));
        let bytes = self.file.read_range(start, end)?;
        let whole = bytes.chunks_exact(RECORD_BYTES);
        Ok(whole.map(|bytes| decode(bytes, self.title.generation)).collect())
    }

    /// The group behind the `len` records that count, from a checkpoint of `epoch` that died before
    /// its new head was written.
    pub(super) fn group_behind(&self, len: u64, epoch: u64) -> io::Result<Option<Group>> {
        let (mut at, mut next_seq) = (len, 0);
        loop {
            let batch = self.records(at, RECORDS_PER_READ)?;
            if batch.is_empty() {
                return Ok(None);
            }
            for record in batch {
                let Some(record) = record.filter(|record| record.epoch == epoch) else {
                    return Ok(None);
                };
                at += 1;
                next_seq = next_seq.max(record.segment.next_seq());
                if record.reach > 0 {
                    let Record { reach, number, .. } = record;
                    return Ok(Some(Group { len: at, reach, number, next_seq }));
                }
            }
        }
    }

    /// The first of `len` records that may hold `seq` or something after it.
    pub(super) fn find(&self, len: u64, seq: u64) -> Result<u64> {
        let (mut low, mut high, mut damaged) = (0, len, None);
        // By halves while they are many, the rest in one read.
        while high - low > RECORDS_PER_READ {
            let middle = low + (high - low) / 2;
            let record = self.record(middle).map_err(|err| self.unreadable(err))?;
            let Some(record) = record else { return Err(Self::damaged(middle)) };
            if record.segment.next_seq() <= seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let rest = self.records(low, high - low).map_err(|err| self.unreadable(err))?;
        for record in rest {
            match record {
                // It matters only if the number could be in it.
                None => damaged = damaged.or(Some(low)),
                Some(record) if record.segment.next_seq() <= seq => damaged = None,
                Some(record) if record.segment.seq <= seq => return Ok(low),
                Some(_) => break,
            }
            low += 1;
        }
        damaged.map_or(Ok(low), |at| Err(Self::damaged(at)))
    }

    /// Writes a group behind `len` records and syncs it.
    pub(super) fn append(&self, len: u64, records: &[Record]) -> io::Result<()> {
        self.write(len, records)?;
        self.sync()
    }

    /// Writes a group behind `len` records, and lets nothing stay behind it. A crash before the end of the
    /// next sync leaves the `len` records, or the whole group; both are right.
    pub(super) fn write(&self, len: u64, records: &[Record]) -> io::Result<()> {
        let mut bytes = vec![0; records.len() * RECORD_BYTES];
        for (record, bytes) in records.iter().zip(bytes.chunks_exact_mut(RECORD_BYTES)) {
            encode(record, bytes, self.title.generation);
        }
        self.file.write_all_at(&bytes, offset_of(len))?;
        self.cut(len + records.len() as u64)
    }

    /// Removes what is behind `len` records.
    pub(super) fn cut(&self, len: u64) -> io::Result<()> {
        if self.file.extent()?.size > offset_of(len) {
            self.file.set_len(offset_of(len))?;
        }
        Ok(())
    }

    /// Writes records again where they are, before a sync of them: somebody may have tried that, failed and died,
    /// and the kernel takes their pages for clean. They are few: what no anchor counts yet.
    pub(super) fn write_again(&self, from: u64, len: u64) -> io::Result<()> {
        if from >= len {
            return Ok(());
        }
        let bytes = self.file.read_range(offset_of(from), offset_of(len))?;
        self.file.write_all_at(&bytes, offset_of(from))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Fills a new file with a title; the caller syncs and publishes it.
    pub(super) fn begin(file: Arc<dyn Handle>, title: Title) -> io::Result<Self> {
        let mut bytes = [0; HEADER_LEN];
        let mut fill = Fill::new(&mut bytes);
        fill.raw(MAGIC);
        fill.u16(MAJOR);
        fill.u64(title.generation);
        fill.u64(title.journal.dev);
        fill.u64(title.journal.ino);
        fill.u64(title.first_seq);
        fill.u64(title.header.len);
        fill.u64(title.archive);
        fill.u64(title.header.sum);
        let sum = checksum::of(&bytes[..HEADER_LEN - 8]);
        bytes[HEADER_LEN - 8..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, 0)?;
        Ok(Self { file, title })
    }

    /// The number behind the last record that can be read. What a power loss has torn at the end is as much as was written
    /// without a sync; no more than a few thousand records are looked at.
    pub(super) fn last_known(&self) -> io::Result<u64> {
        let mut end = self.capacity()?;
        for _ in 0..RECORDS_PER_READ {
            let start = end.saturating_sub(RECORDS_PER_READ);
            let records = self.records(start, end - start)?;
            let known = records.iter().flatten().map(|record| record.segment.next_seq());
            if let Some(known) = known.map(to_count_from).max() {
                return Ok(known);
            }
            end = start;
        }
        Ok(0)
    }

    /// How many whole records the file has room for.
    pub(super) fn capacity(&self) -> io::Result<u64> {
        let size = self.file.stat()?.size;
        Ok(size.saturating_sub(INDEX_HEADER_BYTES) / RECORD_BYTES as u64)
    }

    fn unreadable(&self, err: io::Error) -> Error {
        Error::new(ErrorKind::Io, "read index", format!("generation {}", self.title.generation))
            .caused_by(err)
    }

    pub(super) fn damaged(at: u64) -> Error {
        Error::new(ErrorKind::Damaged, "read index", format!("record {at} is damaged"))
            .hint("verify the journal, then repair it")
    }
}

fn offset_of(at: u64) -> u64 {
    INDEX_HEADER_BYTES + at * RECORD_BYTES as u64
}

fn seeded(bytes: &[u8], generation: u64) -> u64 {
    let mut sum = checksum::Running::default();
    sum.update(&generation.to_le_bytes());
    sum.update(&bytes[..RECORD_BYTES - 8]);
    sum.finish()
}

fn encode(record: &Record, bytes: &mut [u8], generation: u64) {
    let mut fill = Fill::new(bytes);
    fill.u64(record.segment.start);
    fill.u64(record.segment.end);
    fill.u64(record.segment.seq);
    fill.u32(record.segment.lines);
    fill.u32(record.segment.foreign);
    fill.u64(record.segment.sum);
    fill.u64(record.epoch);
    fill.u64(record.reach);
    fill.u64(record.number);
    let sum = seeded(bytes, generation);
    bytes[RECORD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
}

fn decode(bytes: &[u8], generation: u64) -> Option<Record> {
    if bytes[RECORD_BYTES - 8..] != seeded(bytes, generation).to_le_bytes() {
        return None;
    }
    let mut take = Take::new(bytes);
    let segment = Segment {
        start: take.count(),
        end: take.count(),
        seq: take.count(),
        lines: take.u32(),
        foreign: take.u32(),
        sum: take.u64(),
    };
    let (epoch, reach, number) = (take.u64(), take.count(), take.count());
    take.could_be().then_some(Record { segment, epoch, reach, number })
}
