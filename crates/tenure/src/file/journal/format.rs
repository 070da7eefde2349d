//! The bytes of the log and of the index (docs/FORMAT.md, "The journal").
//!
//! # Invariants
//!
//! 1. A record of the log is valid if and only if its checksum fits. The seed is the log's salt and the
//!    record's offset, neither of which is in it: a payload that looks like a record is not one, and no
//!    record of another log counts.
//! 2. A record of the index is valid if and only if its checksum, seeded with the generation of the index
//!    and its place, fits.

use std::ops::Range as Bytes;

use crate::checksum;
use crate::file::layout::{Fill, Layout, Magic, Take, layout};
use crate::file::slot::DoubleSlot;
use crate::fs::FileId;

layout! {
    /// A range of a file with the entries in it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Range {
        pub(super) count start: u64,
        pub(super) count end: u64,
        /// The number of its first entry.
        pub(super) count seq: u64,
        pub(super) count lines: u64,
        /// How many of them other tools wrote.
        pub(super) count foreign: u64,
        pub(super) bits sum: u64,
        pub(super) part kind: Kind,
    }
}

/// Where the bytes of a range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// In the journal.
    #[default]
    Here,
    /// Nowhere: a compaction dropped these entries.
    Dropped,
    /// In the file that the journal replaced: appended there after the replacement.
    Late,
    /// Nowhere: these numbers were given out, and their entries are gone.
    Lost,
    /// Nowhere: these numbers were reserved, and a power loss may have taken entries that had them.
    Skipped,
}

impl Layout for Kind {
    const BYTES: usize = 8;

    fn put(&self, fill: &mut Fill<'_>) {
        fill.u64(*self as u64);
    }

    fn take(take: &mut Take<'_>) -> Self {
        take.one_of(&[Self::Here, Self::Dropped, Self::Late, Self::Lost, Self::Skipped])
    }
}

impl Range {
    /// The number after its last entry.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + self.lines
    }

    /// Numbers without entries.
    pub(super) fn without(kind: Kind, seq: u64, until: u64) -> Self {
        Self { seq, lines: until - seq, kind, ..Self::default() }
    }

    /// Its numbers, without its entries.
    pub(super) fn as_lost(&self) -> Self {
        Self::without(Kind::Lost, self.seq, self.next_seq())
    }

    /// Whether it has bytes.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(self.kind, Kind::Here | Kind::Late)
    }

    /// Record `at` of the index with this generation.
    pub(super) fn encode_indexed(&self, generation: u64, at: u64) -> [u8; INDEX_RECORD_BYTES] {
        let mut bytes = [0; INDEX_RECORD_BYTES];
        self.put(&mut Fill::new(&mut bytes));
        let sum = checksum::seeded(&bytes[..Self::BYTES], seed(generation, at));
        bytes[Self::BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if the record is damaged.
    pub(super) fn decode_indexed(bytes: &[u8], generation: u64, at: u64) -> Option<Self> {
        let (said, sum) = bytes.split_at(Self::BYTES);
        let fits = sum == checksum::seeded(said, seed(generation, at)).to_le_bytes().as_slice();
        let mut take = Take::new(said);
        let range = <Self as Layout>::take(&mut take);
        (fits && take.is_sane() && range.start <= range.end).then_some(range)
    }
}

layout! {
    /// The part of a log that never changes: which files it belongs to, and where it begins.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Header {
        /// Of this log alone.
        pub(super) bits salt: u64,
        /// The log itself: a copy elsewhere does not match.
        pub(super) part file: FileId,
        pub(super) part journal: FileId,
        /// The journal is in the index up to here, and was synced.
        pub(super) count base: u64,
        /// The checksum of the bytes right before `base`.
        pub(super) bits base_sum: u64,
        /// The next entry, and the next batch.
        pub(super) count seq: u64,
        pub(super) count number: u64,
        /// Batches below this number were in a log that is gone.
        pub(super) count since: u64,
        /// Entries up to here may have been given out, whatever the log says after a power loss.
        pub(super) count reserved: u64,
        pub(super) part index: IndexId,
        pub(super) part previous: Previous,
        pub(super) part line: HeaderLine,
    }
}

layout! {
    /// Which index, and how many of its records count.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct IndexId {
        pub(super) bits generation: u64,
        pub(super) count len: u64,
    }
}

layout! {
    /// The file that the journal replaced.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Previous {
        /// The number of the newest archive; 0 is none.
        pub(super) count archive: u64,
        /// The inode of the file that was replaced last; 0 is none.
        pub(super) bits ino: u64,
        /// It is the archive, and not a file set aside by a compaction or a new header.
        pub(super) flag is_archive: bool,
        /// Its lines are known up to here.
        pub(super) count end: u64,
    }
}

layout! {
    /// The first line of the file, if it is a header and not an entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct HeaderLine {
        /// With its newline; 0 is none.
        pub(super) count len: u64,
        pub(super) bits sum: u64,
    }
}

impl HeaderLine {
    /// Of a line with its newline; an empty one is none.
    pub(super) fn of(line: &[u8]) -> Self {
        if line.is_empty() {
            return Self::default();
        }
        Self { len: line.len() as u64, sum: checksum::of(line) }
    }
}

/// The header of a log, its checksum included.
pub(super) const HEADER_BYTES: usize = 256;
/// Where the records of a log begin.
pub(super) const RECORDS_AT: u64 = 4096;
/// The title of an index, its checksum included.
pub(super) const TITLE_BYTES: usize = 128;
/// A record of an index: a range and its checksum.
pub(super) const INDEX_RECORD_BYTES: usize = Range::BYTES + 8;

/// What a log and an index begin with.
pub(super) const LOG_MAGIC: Option<Magic> = Some(*b"tenlog");
pub(super) const INDEX_MAGIC: Option<Magic> = Some(*b"tenidx");

layout! {
    /// The position of a log, as the last writer of this boot left it. It saves the next writer
    /// from reading all records; after a restart it means nothing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct State {
        pub(super) part boot: [u8; 16],
        /// Where the next record goes.
        pub(super) count end: u64,
        /// The log is filled with zeros up to here, so that a sync seldom writes metadata.
        pub(super) count room: u64,
        pub(super) count number: u64,
        pub(super) count seq: u64,
        /// Batches below this number are in the journal; the others are pending.
        pub(super) count placed: u64,
        /// Where the record of the first pending batch is.
        pub(super) count pending_at: u64,
        /// Pending batches up to this number are durable, and being written to the journal; 0: none is.
        pub(super) count applying: u64,
        /// How long the pending batches are in the journal.
        pub(super) count pending_bytes: u64,
        /// The journal's lines are known up to here.
        pub(super) count journal_end: u64,
        /// The lines of the file that the journal replaced are known up to here.
        pub(super) count late_end: u64,
        /// The last batch that had an operation id.
        pub(super) part operation: Operation,
        pub(super) part flags: Flags,
    }
}

layout! {
    /// An operation id and its entries.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Operation {
        pub(super) bits id: u64,
        pub(super) count first: u64,
        pub(super) count lines: u64,
    }
}

layout! {
    /// What is under way.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Flags {
        /// The names of log and journal were synced.
        pub(super) flag named: bool,
        /// A sync of the log failed.
        pub(super) flag log_doubt: bool,
        /// A sync of the journal has begun, and failed or its caller died.
        pub(super) flag journal_doubt: bool,
        /// A new journal is being written, or the log ends with the intent to replace the journal by it.
        pub(super) flag replacing: bool,
        /// The log holds batches that must survive a power loss.
        pub(super) flag durable: bool,
    }
}

impl State {
    /// Whether its numbers and places fit each other.
    pub(super) fn is_possible(&self) -> bool {
        let numbers = self.placed <= self.number && self.applying <= self.number;
        let places = RECORDS_AT <= self.end && self.end <= self.room && self.pending_at <= self.end;
        numbers && self.number > 0 && places
    }
}

/// Each slot is within one sector.
pub(super) const STATE: DoubleSlot = DoubleSlot::at(512, 1024);

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Batch(Batch),
    Placed(Position),
    /// A range that is not a batch of this log: adopted, late, lost, or placed before this log began.
    Range(Range),
    Replace(Replace),
}

layout! {
    /// A batch that is to be in the journal, or is. Its text follows it in the log.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub(super) struct Batch {
        pub(super) count number: u64,
        pub(super) count seq: u64,
        /// Where it is in the journal unless a later record says otherwise.
        pub(super) count start: u64,
        pub(super) bits operation: u64,
        pub(super) count lines: u64,
        /// It is written to the journal only after the log was synced.
        pub(super) flag durable: bool,
        /// Its text, in the bytes of the log that were read.
        pub(super) memory text: Bytes<usize>,
        /// Where its record is in the log.
        pub(super) memory at: u64,
    }
}

layout! {
    /// The batch with this number begins at `start` of the journal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Position {
        pub(super) count number: u64,
        pub(super) count start: u64,
    }
}

layout! {
    /// The intent to replace the journal by another file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Replace {
        pub(super) part old: FileId,
        pub(super) part new: FileId,
        /// The archive that the old file becomes; 0: it is set aside.
        pub(super) count archive: u64,
        pub(super) part index: IndexId,
        /// The length of the new file, its header line, and its next entry.
        pub(super) count end: u64,
        pub(super) part line: HeaderLine,
        pub(super) count seq: u64,
        pub(super) part operation: Operation,
    }
}

impl Replace {
    /// The header of the log that begins when this is done. The old file has `old_end` known bytes.
    pub(super) fn finished(&self, old: &Header, old_end: u64) -> Header {
        let (ino, is_archive) = (self.old.ino, self.archive > 0);
        let newest = if is_archive { self.archive } else { old.previous.archive };
        Header {
            journal: self.new,
            base: self.end,
            seq: self.seq,
            index: self.index,
            line: self.line,
            previous: Previous { archive: newest, ino, is_archive, end: old_end },
            ..*old
        }
    }
}

/// Checksum, magic, kind, length of the rest.
const FRAME_BYTES: usize = 24;
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"TJR2");
/// How much of a record shows that it is one.
pub(super) const RECORD_BEGIN_BYTES: usize = 12;
/// What a batch needs in front of its text.
pub(super) const BATCH_HEAD_BYTES: usize = FRAME_BYTES + Batch::BYTES;

/// Whether `bytes` begin like a record: the magic is behind the checksum.
pub(super) fn begins_record(bytes: &[u8]) -> bool {
    bytes.get(8..).is_some_and(|rest| rest.starts_with(&RECORD_MAGIC.to_le_bytes()))
}

fn seed(salt: u64, at: u64) -> u64 {
    salt.wrapping_add(at)
}

/// The length of a record with padding, so that the next one is aligned.
pub(super) fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(8)
}

/// Fills the frame of `bytes`, a whole record for offset `at` of the log.
fn seal_record(bytes: &mut [u8], kind: u32, salt: u64, at: u64) {
    let len = (bytes.len() - FRAME_BYTES) as u64;
    let mut fill = Fill::new(&mut bytes[8..]);
    fill.u32(RECORD_MAGIC);
    fill.u32(kind);
    fill.u64(len);
    let sum = checksum::seeded(&bytes[8..], seed(salt, at));
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}

impl Batch {
    /// Fills the first [`BATCH_HEAD_BYTES`] of `bytes`; the text is behind them.
    pub(super) fn seal(&self, bytes: &mut [u8], salt: u64, at: u64) {
        self.put(&mut Fill::new(&mut bytes[FRAME_BYTES..]));
        seal_record(bytes, 1, salt, at);
    }

    /// The number after its last entry.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + self.lines
    }
}

impl Record {
    /// The record for offset `at`; a batch is sealed with its text ([`Batch::seal`]).
    pub(super) fn encode(&self, salt: u64, at: u64) -> Vec<u8> {
        fn whole<T: Layout>(kind: u32, body: &T, salt: u64, at: u64) -> Vec<u8> {
            let mut bytes = vec![0; FRAME_BYTES + T::BYTES];
            body.put(&mut Fill::new(&mut bytes[FRAME_BYTES..]));
            seal_record(&mut bytes, kind, salt, at);
            bytes
        }
        match self {
            Self::Batch(batch) => whole(1, batch, salt, at),
            Self::Placed(position) => whole(2, position, salt, at),
            Self::Range(range) => whole(3, range, salt, at),
            Self::Replace(replace) => whole(4, replace, salt, at),
        }
    }

    /// Reads the record at offset `at` of the log, which is `bytes[from..]`; `None` if there is none. Returns
    /// how long it is, too.
    pub(super) fn decode(bytes: &[u8], from: usize, salt: u64, at: u64) -> Option<(Self, usize)> {
        fn body<T: Layout>(bytes: &[u8]) -> Option<T> {
            let mut take = Take::new(bytes.get(..T::BYTES)?);
            let value = T::take(&mut take);
            take.is_sane().then_some(value)
        }
        let rest = bytes.get(from..)?;
        let mut take = Take::new(rest.get(..FRAME_BYTES)?);
        let (sum, magic, kind, len) = (take.u64(), take.u32(), take.u32(), take.u64());
        let len = usize::try_from(len).ok()?.checked_add(FRAME_BYTES)?;
        let whole = rest.get(..len).filter(|_| magic == RECORD_MAGIC)?;
        if checksum::seeded(&whole[8..], seed(salt, at)) != sum {
            return None;
        }
        let said = &whole[FRAME_BYTES..];
        let record = match kind {
            1 => {
                let text = from + BATCH_HEAD_BYTES..from + len;
                Self::Batch(Batch { text, at, ..body(said)? })
            }
            2 => Self::Placed(body(said)?),
            3 => Self::Range(body::<Range>(said).filter(|range| range.start <= range.end)?),
            4 => Self::Replace(body(said)?),
            _ => return None,
        };
        Some((record, len))
    }
}

layout! {
    /// The beginning of an index.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(super) struct Title {
        pub(super) bits generation: u64,
        /// Entries below this number are in the archives.
        pub(super) count first_seq: u64,
        pub(super) part previous: Previous,
        pub(super) part line: HeaderLine,
    }
}
