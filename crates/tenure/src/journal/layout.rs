//! Fixed-size records on disk: fields one after the other, little endian.

/// Fills a record from its first byte on.
#[derive(Debug)]
pub(super) struct Fill<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Fill<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn raw(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }
}

/// Nobody counts this far, not even microseconds. What says that it does was not written by tenure, and
/// would wrap.
const COUNT_MAX: u64 = 1 << 56;

/// A number that is counted on from, as a file says that nobody vouches for. What is not far from the end of all
/// numbers was planted, and there would be no next one.
pub(super) fn to_count_from(number: u64) -> u64 {
    if number > COUNT_MAX / 2 { 0 } else { number }
}

/// Whether there is room to count on from here. A note may speak of half as many as there are (`group/notes.rs`), and
/// numbers go on above that.
pub(super) fn has_room(number: u64) -> bool {
    number <= COUNT_MAX / 4 * 3
}

/// Reads a record from its first byte on. The caller has checked its length.
#[derive(Debug)]
pub(super) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
    absurd: bool,
}

impl<'a> Take<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, absurd: false }
    }

    /// A number that is counted on with, or a place in a file.
    pub(super) fn count(&mut self) -> u64 {
        let count = self.u64();
        self.absurd |= count > COUNT_MAX;
        count
    }

    /// Whether every count so far is one that tenure can have written.
    pub(super) fn could_be(&self) -> bool {
        !self.absurd
    }

    pub(super) fn raw<const N: usize>(&mut self) -> [u8; N] {
        let start = self.at;
        self.at += N;
        std::array::from_fn(|index| self.bytes[start + index])
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.raw())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.raw())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.raw())
    }
}
