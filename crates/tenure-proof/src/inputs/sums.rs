//! The structures of a file below `.tenure/` that have checksums (docs/FORMAT.md), and the checksums.
//!
//! Written from the format, not from the code that reads it: if the two part, nothing is believed any
//! more, and the count of believed inputs tells.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

const SLOT: usize = 1024;
const MARK: usize = 24;
const NOTE: usize = 72;
const ENTRY: usize = 64;
const INDEX_TITLE: usize = 128;
const INDEX_RECORD: usize = 72;
const ENTRIES_AT: usize = 12288;
/// Where a slot of the log has the salt of its entries.
const SALT_AT: usize = 32;

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A record, or the floor of a directory: slots, and marks between them.
    Record,
    /// A log: slots, and entries behind them.
    Log,
    /// An index: a title, and records behind it.
    Index,
    /// The notes of the shared sync.
    Notes,
    /// Nothing has a checksum.
    Plain,
}

/// What is summed besides the structure itself.
#[derive(Debug, Clone, Copy)]
enum Seed {
    /// Before it.
    Before(Option<u64>),
    /// The place of a mark, behind it.
    Place(u8),
    /// The sum of an entry stands in its header, before the payload.
    Entry(u64),
}

/// One structure.
#[derive(Debug)]
struct Structure {
    range: Range<usize>,
    seed: Seed,
}

impl Structure {
    fn at(at: usize, len: usize) -> Self {
        Self { range: at..at + len, seed: Seed::Before(None) }
    }

    /// Where its checksum stands, in it.
    fn sum_at(&self) -> usize {
        match self.seed {
            Seed::Entry(_) => ENTRY - 8,
            _ => self.range.len() - 8,
        }
    }

    fn sum(&self, bytes: &[u8]) -> u64 {
        let own = &bytes[self.range.clone()];
        let body = &own[..self.sum_at()];
        match self.seed {
            Seed::Before(None) => xxh3_64(body),
            Seed::Before(Some(seed)) => xxh3_64(&[&seed.to_le_bytes(), body].concat()),
            Seed::Place(place) => xxh3_64(&[body, &[place]].concat()),
            Seed::Entry(salt) => xxh3_64(&[&salt.to_le_bytes(), body, &own[ENTRY..]].concat()),
        }
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
        Layout::Log => &[0, 4096, 8192, 9216],
        Layout::Notes => &[64, 192, 320, 448],
        Layout::Index | Layout::Plain => &[],
    }
}

/// The number of the newest of the first two slots.
pub(super) fn newest(layout: Layout, bytes: &[u8]) -> u64 {
    let at = if layout == Layout::Notes { 16 } else { 8 };
    slots(layout).iter().take(2).map(|slot| number(bytes, slot + at)).max().unwrap_or(0)
}

/// Where the structures of a file are, and whether each has been written.
pub fn structures(layout: Layout, bytes: &[u8]) -> Vec<(Range<usize>, bool)> {
    let is_written = |range: &Range<usize>| bytes[range.clone()].iter().any(|byte| *byte != 0);
    places(layout, bytes).into_iter().map(|range| (range.clone(), is_written(&range))).collect()
}

/// The structures that lie whole inside the file; those that depend on others come behind them.
fn all(layout: Layout, bytes: &[u8]) -> Vec<Structure> {
    let mut found: Vec<Structure> = match layout {
        Layout::Record => {
            let marks = [(0, 5120), (24, 5144)]
                .map(|(place, at)| Structure { range: at..at + MARK, seed: Seed::Place(place) });
            let slots = slots(layout).iter().map(|at| Structure::at(*at, SLOT));
            slots.chain(marks).collect()
        }
        Layout::Log => {
            let slots = slots(layout).iter().map(|at| Structure::at(*at, SLOT));
            slots.chain(entries(bytes)).collect()
        }
        Layout::Index => {
            let seed = Seed::Before(Some(number(bytes, 8)));
            let records = (INDEX_TITLE..bytes.len()).step_by(INDEX_RECORD);
            let records = records.map(|at| Structure { range: at..at + INDEX_RECORD, seed });
            std::iter::once(Structure::at(0, INDEX_TITLE)).chain(records).collect()
        }
        Layout::Notes => slots(layout).iter().map(|at| Structure::at(*at, NOTE)).collect(),
        Layout::Plain => Vec::new(),
    };
    found.retain(|structure| structure.range.end <= bytes.len());
    found
}

/// The entries of a log, one behind the other as their lengths say, with the salt of its newest slot.
fn entries(bytes: &[u8]) -> Vec<Structure> {
    let newest = slots(Layout::Log).iter().copied().max_by_key(|at| number(bytes, at + 8));
    let salt = number(bytes, newest.unwrap_or(0) + SALT_AT);
    let mut found = Vec::new();
    let mut at = ENTRIES_AT;
    while bytes.get(at..at + 4) == Some(b"TJE1") {
        let payload = usize::try_from(number(bytes, at + 36) & 0xffff_ffff).unwrap_or(usize::MAX);
        let end = at.saturating_add(ENTRY).saturating_add(payload);
        if end > bytes.len() {
            break;
        }
        found.push(Structure { range: at..end, seed: Seed::Entry(salt) });
        at = end;
    }
    found
}

/// Where the structures of the file are: what a short edit should hit.
pub(super) fn places(layout: Layout, bytes: &[u8]) -> Vec<Range<usize>> {
    all(layout, bytes).into_iter().map(|structure| structure.range).collect()
}

/// Gives every structure that is not empty the checksum that fits it.
pub fn mend(layout: Layout, bytes: &mut [u8]) {
    for structure in all(layout, bytes) {
        if bytes[structure.range.clone()].iter().all(|byte| *byte == 0) {
            continue;
        }
        let sum = structure.sum(bytes);
        let at = structure.range.start + structure.sum_at();
        bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The largest number that a record or a note claims where it counts something. What the other files of
/// a journal claim is tried, however far it goes.
pub(super) fn largest_claim(layout: Layout, bytes: &[u8]) -> u64 {
    let counters: &[Range<usize>] = match layout {
        // Seq, fence, ceiling, confirmed, generation.
        Layout::Record => &[8..40, 120..128],
        Layout::Notes => &[16..32, 32..64],
        Layout::Log | Layout::Index | Layout::Plain => &[],
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
            let mut mended = bytes[1..].to_vec();
            mend(layout, &mut mended);
            assert!(mended == bytes[1..], "{seed}: other checksums than tenure wrote");
            for place in places(layout, &mended) {
                let mut wrong = mended.clone();
                wrong[place.start + 8] ^= 1;
                mend(layout, &mut wrong);
                assert!(wrong != mended, "{seed}: {place:?} is not looked at");
            }
        }
    }
}
