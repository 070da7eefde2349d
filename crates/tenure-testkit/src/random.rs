//! Random numbers that a seed repeats exactly: splitmix64.
//!
//! Every choice of a simulation comes from here, so that a failing seed is the whole bug report.

/// A small deterministic generator.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of this seed; neighbouring seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed.wrapping_add(0x5851_F42D_4C95_7F2D)) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number in `[0, end)`; 0 if `end` is 0. Slightly uneven for huge `end`, which no test minds.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// A number in `[0, end)`, for lengths and indexes; 0 if `end` is 0.
    pub fn index(&mut self, end: usize) -> usize {
        // The remainder is smaller than `end`, so it fits again.
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    /// True in `parts` of 256 cases.
    pub fn chance(&mut self, parts: u64) -> bool {
        self.below(256) < parts
    }

    /// True half of the time.
    pub fn coin(&mut self) -> bool {
        self.bits() & 1 == 1
    }
}

/// The finaliser of splitmix64: every input bit moves about half of the output bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
