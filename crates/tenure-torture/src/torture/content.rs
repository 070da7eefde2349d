//! Data that shows by itself whether it is whole: documents that count, and journal lines.
//!
//! # Invariants
//!
//! 1. Every document and every line carries a checksum of the rest of it, computed here and not by
//!    tenure. A mixture of two versions has no valid checksum.
//! 2. A document counts each worker's changes separately: `n` is always the sum of `by`.

use serde_json::{Map, Value, json};

/// A document in which all workers count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// All changes.
    pub(super) total: u64,
    /// The changes of each slot.
    pub(super) by: Vec<u64>,
}

impl Counts {
    /// Reads a document and checks it.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let wrong = || format!("a document no worker wrote: {}", shortened(&value.to_string()));
        let total = value["n"].as_u64().ok_or_else(wrong)?;
        let by = value["by"].as_array().ok_or_else(wrong)?;
        let by: Option<Vec<_>> = by.iter().map(Value::as_u64).collect();
        let counts = Self { total, by: by.ok_or_else(wrong)? };
        if counts.to_value() != *value || counts.by.iter().sum::<u64>() != total {
            return Err(wrong());
        }
        Ok(counts)
    }

    /// Reads the bytes of a file and checks them.
    pub(super) fn parse_bytes(bytes: &[u8]) -> Result<Self, String> {
        let value = serde_json::from_slice(bytes)
            .map_err(|err| format!("{err}: {}", shortened(&String::from_utf8_lossy(bytes))))?;
        Self::parse(&value)
    }

    /// One more change of `slot`.
    pub(super) fn add(&mut self, slot: usize) {
        if self.by.len() <= slot {
            self.by.resize(slot + 1, 0);
        }
        self.by[slot] += 1;
        self.total += 1;
    }

    /// The document. Its length varies, so that a shorter version written over a longer one shows.
    pub(super) fn to_value(&self) -> Value {
        let padding = "x".repeat(usize::try_from(self.total * 37 % 1500).unwrap_or(0));
        let sum = checksum(format!("{} {:?} {}", self.total, self.by, padding.len()).as_bytes());
        let mut fields = Map::new();
        fields.insert("n".to_owned(), json!(self.total));
        fields.insert("padding".to_owned(), json!(padding));
        fields.insert("by".to_owned(), json!(self.by));
        fields.insert("sum".to_owned(), json!(sum));
        Value::Object(fields)
    }
}

/// A line of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Line {
    /// The worker's place.
    pub(super) slot: usize,
    /// Which batch of that place.
    pub(super) batch: u64,
    /// Which part of the batch, from 1.
    pub(super) part: u64,
    /// How many parts the batch has.
    pub(super) of: u64,
    /// The fence it was written under; 0 for none.
    pub(super) fence: u64,
}

impl Line {
    /// The line as it is written.
    pub(super) fn to_text(self) -> String {
        let Self { slot, batch, part, of, fence } = self;
        // Lengths vary, so that one line written over another shows.
        let padding = "=".repeat(usize::try_from(batch % 23).unwrap_or(0));
        let text = format!("{slot} {batch} {part} {of} {fence} {padding}");
        format!("\"{text} {}\"", checksum(text.as_bytes()))
    }

    /// Reads a line and checks it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(bytes);
        let line = parse_line(&text).filter(|line| line.to_text() == text);
        line.ok_or_else(|| format!("a line that no worker wrote: {}", shortened(&text)))
    }
}

fn parse_line(text: &str) -> Option<Line> {
    let mut words = text.strip_prefix('"')?.split(' ');
    let slot = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse().ok();
    Some(Line { slot, batch: number()?, part: number()?, of: number()?, fence: number()? })
}

/// The lines of one batch.
pub(super) fn batch(slot: usize, batch: u64, of: u64, fence: u64) -> Vec<String> {
    (1..=of).map(|part| Line { slot, batch, part, of, fence }.to_text()).collect()
}

/// FNV-1a: good enough to detect torn data, and no code of tenure.
fn checksum(bytes: &[u8]) -> String {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str) -> String {
    let short: String = text.chars().take(120).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("`{}`{dots}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::{Counts, Line, batch};

    #[test]
    fn a_document_reads_back_and_a_mixture_does_not() {
        let mut counts = Counts::default();
        (0..40).for_each(|change| counts.add(change % 5));
        let text = counts.to_value().to_string();
        assert_eq!(Counts::parse_bytes(text.as_bytes()), Ok(counts.clone()));
        let mut later = counts.clone();
        later.add(0);
        let later = later.to_value().to_string();
        for cut in 1..text.len().min(later.len()) {
            let mixed = [&later.as_bytes()[..cut], &text.as_bytes()[cut..]].concat();
            let whole = mixed == text.as_bytes() || mixed == later.as_bytes();
            assert_eq!(Counts::parse_bytes(&mixed).is_ok(), whole, "{cut}");
            assert!(Counts::parse_bytes(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_line_reads_back_and_a_part_does_not() {
        for text in batch(3, 17, 2, 99) {
            let line = Line::parse(text.as_bytes()).expect("whole");
            assert_eq!((line.slot, line.batch, line.of, line.fence), (3, 17, 2, 99));
            for cut in 0..text.len() {
                assert!(Line::parse(&text.as_bytes()[..cut]).is_err(), "{cut}");
            }
        }
        assert!(Line::parse(b"").is_err());
    }
}
