//! The structures of a file below `.tenure/` that have checksums (docs/FORMAT.md), and the
//! checksums.
//!
//! # Invariants
//!
//! 1. This is written from the format, not from the code that reads it: if the two differ, nothing
//!    is accepted any more, and the count of accepted inputs shows it.
//! 2. Structures whose checksum depends on another one come after it.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SLOT: usize = 1024;
const MARK: usize = 24;
const NOTE: usize = 72;
const LOG_HEADER: usize = 256;
const STATE: usize = 176;
const RECORDS_AT: usize = 4096;
/// Checksum, magic, kind and length of a record of the log.
const FRAME: usize = 24;
const INDEX_TITLE: usize = 128;
const INDEX_RECORD: usize = 64;
const OPERATION: usize = 32;

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A record, or the floor of a directory: slots, and marks between them.
    Record,
    /// A log: its header, two states, and then records.
    Log,
    /// An index: a title, and then records.
    Index,
    /// The notes of the shared sync.
    Notes,
    /// Operation ids.
    Operations,
    /// Nothing has a checksum.
    Plain,
}

/// Where a checksum is, and what is summed besides the structure itself.
#[derive(Debug, Clone, Copy)]
enum Sum {
    /// The last 8 bytes.
    Last,
    /// The last 8 bytes, with a seed.
    LastSeeded(u64),
    /// The place of a mark, behind it.
    Mark(u8),
    /// The first 8 bytes, with a seed.
    First(u64),
    /// The last 4 bytes, for every boot.
    Kept,
}

/// One structure.
#[derive(Debug)]
struct Structure {
    range: Range<usize>,
    sum: Sum,
}

impl Structure {
    fn at(at: usize, len: usize) -> Self {
        Self { range: at..at + len, sum: Sum::Last }
    }

    /// Sets its valid checksum.
    fn fit(&self, bytes: &mut [u8]) {
        let own = &mut bytes[self.range.clone()];
        let (body, last) = own.split_at(own.len() - 8);
        let sum = match self.sum {
            Sum::Last => xxh3_64(body),
            Sum::LastSeeded(seed) => xxh3_64_with_seed(body, seed),
            Sum::Mark(place) => xxh3_64(&[body, &[place]].concat()),
            Sum::First(seed) => {
                let sum = xxh3_64_with_seed(&own[8..], seed);
                own[..8].copy_from_slice(&sum.to_le_bytes());
                return;
            }
            Sum::Kept => {
                let sum = xxh3_64(&[body, &[0; 16]].concat()).to_le_bytes();
                let sum = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]).max(1);
                u64::from_le_bytes(
                    [&last[..4], &sum.to_le_bytes()].concat().try_into().unwrap_or_default(),
                )
            }
        };
        let at = own.len() - 8;
        own[at..].copy_from_slice(&sum.to_le_bytes());
    }
}

pub(super) fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    u64::from_le_bytes(number)
}

/// Where the slots of `layout` are.
pub(super) fn slots(layout: Layout) -> &'static [usize] {
    match layout {
        Layout::Record => &[4096, 8192, 12288, 16384],
        Layout::Log => &[512, 1024],
        Layout::Notes => &[64, 192],
        Layout::Index | Layout::Operations | Layout::Plain => &[],
    }
}

/// The number of the newest of the first two slots.
pub(super) fn newest(layout: Layout, bytes: &[u8]) -> u64 {
    let at = if layout == Layout::Record { 8 } else { 0 };
    slots(layout).iter().take(2).map(|slot| number(bytes, slot + at)).max().unwrap_or(0)
}

/// Where the structures of a file are, and whether each has been written.
pub fn structures(layout: Layout, bytes: &[u8]) -> Vec<(Range<usize>, bool)> {
    let is_written = |range: &Range<usize>| bytes[range.clone()].iter().any(|byte| *byte != 0);
    places(layout, bytes).into_iter().map(|range| (range.clone(), is_written(&range))).collect()
}

/// The structures that lie whole inside the file.
fn all(layout: Layout, bytes: &[u8]) -> Vec<Structure> {
    let mut found: Vec<Structure> = match layout {
        Layout::Record => {
            let marks = [(0, 5120), (24, 5144)]
                .map(|(place, at)| Structure { range: at..at + MARK, sum: Sum::Mark(place) });
            let slots = slots(layout).iter().map(|at| Structure::at(*at, SLOT));
            slots.chain(marks).collect()
        }
        Layout::Log => {
            let states = slots(layout).iter().map(|at| Structure::at(*at, STATE));
            let header = std::iter::once(Structure::at(0, LOG_HEADER));
            header.chain(states).chain(log_records(bytes)).collect()
        }
        Layout::Index => {
            let generation = number(bytes, 8);
            let records = (INDEX_TITLE..bytes.len()).step_by(INDEX_RECORD).zip(0_u64..);
            let records = records.map(|(at, place)| {
                let sum = Sum::LastSeeded(generation.wrapping_add(place));
                Structure { range: at..at + INDEX_RECORD, sum }
            });
            std::iter::once(Structure::at(0, INDEX_TITLE)).chain(records).collect()
        }
        Layout::Notes => slots(layout).iter().map(|at| Structure::at(*at, NOTE)).collect(),
        Layout::Operations => {
            let slots = (RECORDS_AT..bytes.len()).step_by(OPERATION);
            let slots = slots.map(|at| Structure { range: at..at + OPERATION, sum: Sum::Kept });
            let is_used = |slot: &Structure| number(bytes, slot.range.start) != 0;
            slots.filter(is_used).collect()
        }
        Layout::Plain => Vec::new(),
    };
    found.retain(|structure| structure.range.end <= bytes.len());
    found
}

/// The records of a log, one after the other according to their lengths.
fn log_records(bytes: &[u8]) -> Vec<Structure> {
    let salt = number(bytes, 8);
    let mut found = Vec::new();
    let mut at = RECORDS_AT;
    while bytes.get(at + 8..at + 12) == Some(b"TJR2") {
        let len = usize::try_from(number(bytes, at + 16)).unwrap_or(usize::MAX);
        let end = at.saturating_add(FRAME).saturating_add(len);
        if end > bytes.len() {
            break;
        }
        found.push(Structure { range: at..end, sum: Sum::First(salt.wrapping_add(at as u64)) });
        at = end.next_multiple_of(8);
    }
    found
}

/// The kinds of the records of a log: 1 Batch, 2 Placed, 3 Range, 4 Replace.
pub(super) fn kinds(bytes: &[u8]) -> Vec<u8> {
    log_records(bytes).iter().map(|record| bytes[record.range.start + 12]).collect()
}

/// Where the structures of the file are: the targets of short edits.
pub(super) fn places(layout: Layout, bytes: &[u8]) -> Vec<Range<usize>> {
    all(layout, bytes).into_iter().map(|structure| structure.range).collect()
}

/// Sets the valid checksum of every structure that is not empty.
pub fn reseal(layout: Layout, bytes: &mut [u8]) {
    for structure in all(layout, bytes) {
        if bytes[structure.range.clone()].iter().all(|byte| *byte == 0) {
            continue;
        }
        structure.fit(bytes);
    }
}

/// The largest count in a record or a note. The other files of a journal are tested with counts of
/// any size.
pub(super) fn largest_claim(layout: Layout, bytes: &[u8]) -> u64 {
    let counters: &[Range<usize>] = match layout {
        // Seq, fence, ceiling, confirmed, generation.
        Layout::Record => &[8..40, 160..168],
        Layout::Notes => &[0..8, 24..32, 40..64],
        Layout::Log | Layout::Index | Layout::Operations | Layout::Plain => &[],
    };
    let fields = slots(layout).iter().flat_map(|slot| {
        let fields = counters.iter().flat_map(|range| range.clone().step_by(8));
        fields.map(move |field| number(bytes, slot + field))
    });
    fields.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every structure of a real file has the checksum that is computed here.
    #[test]
    fn the_sums_are_those_of_real_files() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let seeds = [
            ("record/real_published", Layout::Record),
            ("record/real_leased", Layout::Record),
            ("floor/real", Layout::Record),
            ("journal/real_log", Layout::Log),
            ("journal/real_index", Layout::Index),
            ("sync/real", Layout::Notes),
        ];
        for (seed, layout) in seeds {
            let bytes = std::fs::read(corpus.join(seed)).expect("a seed");
            let mut resealed = bytes[1..].to_vec();
            reseal(layout, &mut resealed);
            assert!(resealed == bytes[1..], "{seed}: other checksums than tenure wrote");
            for place in places(layout, &resealed) {
                let mut wrong = resealed.clone();
                wrong[place.start + 8] ^= 1;
                reseal(layout, &mut wrong);
                assert!(wrong != resealed, "{seed}: {place:?} is not looked at");
            }
        }
    }
}
