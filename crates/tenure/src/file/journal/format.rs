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
use crate::file::layout::{Fill, Take};
use crate::file::slot::{Body, DoubleSlot};
use crate::fs::FileId;

/// A range of a file with the entries in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The number of its first entry.
    pub(super) seq: u64,
    pub(super) lines: u64,
    /// How many of them other tools wrote.
    pub(super) foreign: u64,
    pub(super) sum: u64,
    pub(super) kind: Kind,
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

impl Range {
    pub(super) const BYTES: usize = 48;

    /// The number after its last entry.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + self.lines
    }

    /// Numbers without entries.
    pub(super) fn without(kind: Kind, seq: u64, until: u64) -> Self {
        Self { seq, lines: until - seq, kind, ..Self::default() }
    }

    /// Whether it has bytes.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(self.kind, Kind::Here | Kind::Late)
    }

    fn encode(&self, fill: &mut Fill<'_>) {
        let kind = match self.kind {
            Kind::Here => 0,
            Kind::Dropped => 1,
            Kind::Late => 2,
            Kind::Lost => 3,
            Kind::Skipped => 4,
        };
        fill.u64(self.start);
        fill.u64(self.end);
        fill.u64(self.seq);
        fill.u64(self.lines | kind << 60);
        fill.u64(self.foreign);
        fill.u64(self.sum);
    }

    fn decode(take: &mut Take<'_>) -> Option<Self> {
        let (start, end, seq) = (take.count(), take.count(), take.count());
        let lines = take.u64();
        let kind = match lines >> 60 {
            0 => Kind::Here,
            1 => Kind::Dropped,
            2 => Kind::Late,
            3 => Kind::Lost,
            4 => Kind::Skipped,
            _ => return None,
        };
        let lines = lines & (u64::MAX >> 4);
        let (foreign, sum) = (take.count(), take.u64());
        let sane = take.is_sane() && start <= end && lines <= 1 << 56;
        sane.then_some(Self { start, end, seq, lines, foreign, sum, kind })
    }
}

/// The part of a log that never changes: which files it belongs to, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    /// Of this log alone.
    pub(super) salt: u64,
    /// The log itself: a copy elsewhere does not match.
    pub(super) file: FileId,
    pub(super) journal: FileId,
    /// The journal is in the index up to here, and was synced.
    pub(super) base: u64,
    /// The checksum of the bytes right before `base`.
    pub(super) base_sum: u64,
    /// The next entry, and the next batch.
    pub(super) seq: u64,
    pub(super) number: u64,
    /// Batches below this number were in a log that is gone.
    pub(super) since: u64,
    /// Entries up to here may have been given out, whatever the log says after a power loss.
    pub(super) reserved: u64,
    pub(super) index: IndexId,
    pub(super) previous: Previous,
    pub(super) line: HeaderLine,
}

/// Which index, and how many of its records count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IndexId {
    pub(super) generation: u64,
    pub(super) len: u64,
}

/// The file that the journal replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Previous {
    /// The number of the newest archive; 0 is none.
    pub(super) archive: u64,
    /// The inode of the file that was replaced last; 0 is none.
    pub(super) ino: u64,
    /// It is the archive, and not a file set aside by a compaction or a new header.
    pub(super) is_archive: bool,
    /// Its lines are known up to here.
    pub(super) end: u64,
}

/// The first line of the file, if it is a header and not an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HeaderLine {
    /// With its newline; 0 is none.
    pub(super) len: u64,
    pub(super) sum: u64,
}

impl HeaderLine {
    /// Of a line with its newline; an empty one is none.
    pub(super) fn of(line: &[u8]) -> Self {
        if line.is_empty() {
            return Self::default();
        }
        Self { len: line.len() as u64, sum: checksum::of(line) }
    }

    fn encode(self, fill: &mut Fill<'_>) {
        fill.u64(self.len);
        fill.u64(self.sum);
    }

    fn decode(take: &mut Take<'_>) -> Self {
        Self { len: take.count(), sum: take.u64() }
    }
}

impl Previous {
    fn encode(self, fill: &mut Fill<'_>) {
        fill.u64(self.archive);
        fill.u64(self.ino);
        fill.u64(u64::from(self.is_archive));
        fill.u64(self.end);
    }

    fn decode(take: &mut Take<'_>) -> Self {
        let (archive, ino) = (take.count(), take.u64());
        Self { archive, ino, is_archive: take.u64() == 1, end: take.count() }
    }
}

fn encode_id(id: FileId, fill: &mut Fill<'_>) {
    fill.u64(id.dev);
    fill.u64(id.ino);
}

fn decode_id(take: &mut Take<'_>) -> FileId {
    FileId { dev: take.u64(), ino: take.u64() }
}

const LOG_MAGIC: [u8; 6] = *b"tenlog";
/// The header of a log, its checksum included.
pub(super) const HEADER_BYTES: usize = 256;
/// Where the records of a log begin.
pub(super) const RECORDS_AT: u64 = 4096;

/// What the first bytes of a file say.
#[derive(Debug)]
pub(super) enum Begin<T> {
    Valid(T),
    Invalid,
    /// A newer major version wrote it.
    Newer(u16),
}

/// Checks magic, version and checksum; the checksum is the last 8 bytes.
fn begin<T>(bytes: &[u8], magic: [u8; 6], decode: impl FnOnce(&mut Take<'_>) -> T) -> Begin<T> {
    let (said, sum) = bytes.split_at(bytes.len() - 8);
    if !said.starts_with(&magic) || sum != checksum::of(said).to_le_bytes().as_slice() {
        return Begin::Invalid;
    }
    let mut take = Take::new(&said[magic.len()..]);
    match take.u16() {
        crate::file::layout::MAJOR => {}
        newer if newer > crate::file::layout::MAJOR => return Begin::Newer(newer),
        _ => return Begin::Invalid,
    }
    let decoded = decode(&mut take);
    if take.is_sane() { Begin::Valid(decoded) } else { Begin::Invalid }
}

/// Writes magic, version and, in the last 8 bytes, the checksum.
fn seal(bytes: &mut [u8], magic: [u8; 6], encode: impl FnOnce(&mut Fill<'_>)) {
    let mut fill = Fill::new(bytes);
    fill.raw(&magic);
    fill.u16(crate::file::layout::MAJOR);
    encode(&mut fill);
    let (said, sum) = bytes.split_at_mut(bytes.len() - 8);
    sum.copy_from_slice(&checksum::of(said).to_le_bytes());
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        seal(&mut bytes, LOG_MAGIC, |fill| {
            fill.u64(self.salt);
            encode_id(self.file, fill);
            encode_id(self.journal, fill);
            fill.u64(self.base);
            fill.u64(self.base_sum);
            for count in [self.seq, self.number, self.since, self.reserved] {
                fill.u64(count);
            }
            fill.u64(self.index.generation);
            fill.u64(self.index.len);
            self.previous.encode(fill);
            self.line.encode(fill);
        });
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Begin<Self> {
        begin(bytes, LOG_MAGIC, |take| Self {
            salt: take.u64(),
            file: decode_id(take),
            journal: decode_id(take),
            base: take.count(),
            base_sum: take.u64(),
            seq: take.count(),
            number: take.count(),
            since: take.count(),
            reserved: take.count(),
            index: IndexId { generation: take.u64(), len: take.count() },
            previous: Previous::decode(take),
            line: HeaderLine::decode(take),
        })
    }
}

/// Where a log stands, as the last writer of this boot left it. It spares the next one to read all records;
/// after a restart it means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) boot: [u8; 16],
    /// Where the next record goes.
    pub(super) end: u64,
    /// The log is filled with zeros up to here, so that a sync seldom writes metadata.
    pub(super) room: u64,
    pub(super) number: u64,
    pub(super) seq: u64,
    /// Batches below this number are in the journal; the others are pending.
    pub(super) placed: u64,
    /// The first pending batch: its record, and its first entry.
    pub(super) pending_at: u64,
    pub(super) pending_seq: u64,
    /// Pending batches up to this number are durable, and being written to the journal; 0: none is.
    pub(super) applying: u64,
    /// How long the pending batches are in the journal.
    pub(super) pending_bytes: u64,
    /// The journal's lines are known up to here.
    pub(super) journal_end: u64,
    /// The lines of the file that the journal replaced are known up to here.
    pub(super) late_end: u64,
    /// The last batch that had an operation id.
    pub(super) operation: Operation,
    pub(super) flags: Flags,
}

/// An operation id and the entries it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) first: u64,
    pub(super) lines: u64,
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Flags {
    /// The names of log and journal were synced.
    pub(super) named: bool,
    /// A sync of the log failed.
    pub(super) log_doubt: bool,
    /// A sync of the journal has begun, and failed or its caller died.
    pub(super) journal_doubt: bool,
    /// The log ends with an intent to replace the journal.
    pub(super) replacing: bool,
    /// The log holds batches that must survive a power loss.
    pub(super) durable: bool,
}

impl State {
    /// Whether its numbers and places fit each other.
    pub(super) fn is_possible(&self) -> bool {
        let numbers = self.placed <= self.number && self.applying <= self.number;
        let places = RECORDS_AT <= self.end && self.end <= self.room && self.pending_at <= self.end;
        numbers && self.number > 0 && places
    }
}

pub(super) const STATE: DoubleSlot = DoubleSlot::at(512, 1024);

impl Body for State {
    const BYTES: usize = 144;

    fn encode(&self, fill: &mut Fill<'_>) {
        fill.raw(&self.boot);
        for count in [
            self.end,
            self.room,
            self.number,
            self.seq,
            self.placed,
            self.pending_at,
            self.pending_seq,
            self.applying,
            self.pending_bytes,
            self.journal_end,
            self.late_end,
        ] {
            fill.u64(count);
        }
        fill.u64(self.operation.id);
        fill.u64(self.operation.first);
        fill.u64(self.operation.lines);
        let Flags { named, log_doubt, journal_doubt, replacing, durable } = self.flags;
        let flags = [named, log_doubt, journal_doubt, replacing, durable];
        let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        fill.u64(bits);
    }

    fn decode(take: &mut Take<'_>) -> Self {
        let mut state = Self {
            boot: take.raw(),
            end: take.count(),
            room: take.count(),
            number: take.count(),
            seq: take.count(),
            placed: take.count(),
            pending_at: take.count(),
            pending_seq: take.count(),
            applying: take.count(),
            pending_bytes: take.count(),
            journal_end: take.count(),
            late_end: take.count(),
            operation: Operation { id: take.u64(), first: take.count(), lines: take.count() },
            flags: Flags::default(),
        };
        let bits = take.u64();
        let flag = |at: u32| bits >> at & 1 == 1;
        state.flags = Flags {
            named: flag(0),
            log_doubt: flag(1),
            journal_doubt: flag(2),
            replacing: flag(3),
            durable: flag(4),
        };
        state
    }
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Batch(Batch),
    /// Batches `first..=last` begin at `start` of the journal, one behind the other.
    Placed {
        first: u64,
        last: u64,
        start: u64,
    },
    /// A range that is not a batch of this log: adopted, late, lost, or placed before this log began.
    Range(Range),
    Replace(Replace),
}

/// A batch that is to be in the journal, or is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) seq: u64,
    /// Where it is in the journal unless a later record says otherwise.
    pub(super) start: u64,
    pub(super) operation: u64,
    pub(super) lines: u64,
    /// It is written to the journal only after the log was synced.
    pub(super) durable: bool,
    /// Its text, in the bytes of the log that were read.
    pub(super) text: Bytes<usize>,
    /// Where its record is in the log.
    pub(super) at: u64,
}

/// The intent to replace the journal by another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Replace {
    pub(super) old: FileId,
    pub(super) new: FileId,
    /// The archive that the old file becomes; 0: it is set aside.
    pub(super) archive: u64,
    pub(super) index: IndexId,
    /// The length of the new file, its header line, and its next entry.
    pub(super) end: u64,
    pub(super) line: HeaderLine,
    pub(super) seq: u64,
    pub(super) operation: Operation,
}

impl Replace {
    /// The header of the log that begins when this is done. The old file has `old_end` known bytes; it is now this
    /// archive, or set aside (0).
    pub(super) fn finished(&self, old: &Header, archive: u64, old_end: u64) -> Header {
        let newest = if archive > 0 { archive } else { old.previous.archive };
        let (ino, is_archive) = (self.old.ino, archive > 0);
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
const BATCH_BYTES: usize = 48;
/// What a batch needs in front of its text.
pub(super) const BATCH_HEAD_BYTES: usize = FRAME_BYTES + BATCH_BYTES;

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
        let mut fill = Fill::new(&mut bytes[FRAME_BYTES..]);
        for field in [self.number, self.seq, self.start, self.operation, self.lines] {
            fill.u64(field);
        }
        fill.u64(u64::from(self.durable));
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
        let (kind, len) = match self {
            Self::Batch(_) => (1, BATCH_BYTES),
            Self::Placed { .. } => (2, 24),
            Self::Range(_) => (3, Range::BYTES),
            Self::Replace(_) => (4, 144),
        };
        let mut bytes = vec![0; FRAME_BYTES + len];
        let mut fill = Fill::new(&mut bytes[FRAME_BYTES..]);
        match self {
            Self::Batch(_) => {}
            Self::Placed { first, last, start } => {
                for field in [first, last, start] {
                    fill.u64(*field);
                }
            }
            Self::Range(range) => range.encode(&mut fill),
            Self::Replace(replace) => replace.encode(&mut fill),
        }
        seal_record(&mut bytes, kind, salt, at);
        bytes
    }

    /// Reads the record at offset `at` of the log, which is `bytes[from..]`; `None` if there is none. Returns
    /// how long it is, too.
    pub(super) fn decode(bytes: &[u8], from: usize, salt: u64, at: u64) -> Option<(Self, usize)> {
        let rest = bytes.get(from..)?;
        let frame = rest.get(..FRAME_BYTES)?;
        let mut take = Take::new(frame);
        let (sum, magic, kind, len) = (take.u64(), take.u32(), take.u32(), take.u64());
        let len = usize::try_from(len).ok()?.checked_add(FRAME_BYTES)?;
        let whole = rest.get(..len).filter(|_| magic == RECORD_MAGIC)?;
        if checksum::seeded(&whole[8..], seed(salt, at)) != sum {
            return None;
        }
        let body = &whole[FRAME_BYTES..];
        let needs = match kind {
            1 => BATCH_BYTES,
            2 => 24,
            3 => Range::BYTES,
            _ => 144,
        };
        let mut take = Take::new(body.get(..needs)?);
        let record = match kind {
            1 => Self::Batch(Batch {
                number: take.count(),
                seq: take.count(),
                start: take.count(),
                operation: take.u64(),
                lines: take.count(),
                durable: take.u64() == 1,
                text: from + BATCH_HEAD_BYTES..from + len,
                at,
            }),
            2 => Self::Placed { first: take.count(), last: take.count(), start: take.count() },
            3 => Self::Range(Range::decode(&mut take)?),
            4 => Self::Replace(Replace::decode(&mut take)),
            _ => return None,
        };
        take.is_sane().then_some((record, len))
    }
}

impl Replace {
    fn encode(&self, fill: &mut Fill<'_>) {
        encode_id(self.old, fill);
        encode_id(self.new, fill);
        fill.u64(self.archive);
        fill.u64(self.index.generation);
        fill.u64(self.index.len);
        fill.u64(self.end);
        self.line.encode(fill);
        fill.u64(self.seq);
        fill.u64(self.operation.id);
        fill.u64(self.operation.first);
        fill.u64(self.operation.lines);
    }

    fn decode(take: &mut Take<'_>) -> Self {
        Self {
            old: decode_id(take),
            new: decode_id(take),
            archive: take.count(),
            index: IndexId { generation: take.u64(), len: take.count() },
            end: take.count(),
            line: HeaderLine::decode(take),
            seq: take.count(),
            operation: Operation { id: take.u64(), first: take.count(), lines: take.count() },
        }
    }
}

const INDEX_MAGIC: [u8; 6] = *b"tenidx";
/// The title of an index, its checksum included.
pub(super) const TITLE_BYTES: usize = 128;
/// A record of an index: a range and its checksum.
pub(super) const INDEX_RECORD_BYTES: usize = Range::BYTES + 8;

/// The beginning of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Title {
    pub(super) generation: u64,
    pub(super) journal: FileId,
    /// Entries below this number are in the archives.
    pub(super) first_seq: u64,
    pub(super) previous: Previous,
    pub(super) line: HeaderLine,
}

impl Title {
    pub(super) fn encode(&self) -> [u8; TITLE_BYTES] {
        let mut bytes = [0; TITLE_BYTES];
        seal(&mut bytes, INDEX_MAGIC, |fill| {
            fill.u64(self.generation);
            encode_id(self.journal, fill);
            fill.u64(self.first_seq);
            self.previous.encode(fill);
            self.line.encode(fill);
        });
        bytes
    }

    pub(super) fn decode(bytes: &[u8; TITLE_BYTES]) -> Begin<Self> {
        begin(bytes, INDEX_MAGIC, |take| Self {
            generation: take.u64(),
            journal: decode_id(take),
            first_seq: take.count(),
            previous: Previous::decode(take),
            line: HeaderLine::decode(take),
        })
    }
}

/// Record `at` of the index with this generation.
pub(super) fn encode_indexed(range: &Range, generation: u64, at: u64) -> [u8; INDEX_RECORD_BYTES] {
    let mut bytes = [0; INDEX_RECORD_BYTES];
    range.encode(&mut Fill::new(&mut bytes));
    let sum = checksum::seeded(&bytes[..Range::BYTES], seed(generation, at));
    bytes[Range::BYTES..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// `None` if the record is damaged.
pub(super) fn decode_indexed(bytes: &[u8], generation: u64, at: u64) -> Option<Range> {
    let (said, sum) = bytes.split_at(Range::BYTES);
    let fits = sum == checksum::seeded(said, seed(generation, at)).to_le_bytes().as_slice();
    if fits { Range::decode(&mut Take::new(said)) } else { None }
}
