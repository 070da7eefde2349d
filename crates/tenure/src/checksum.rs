//! The one checksum of everything tenure writes: XXH3.

use xxhash_rust::xxh3;

/// The checksum of a record or a batch.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    xxh3::xxh3_64(bytes)
}

/// A checksum wide enough to identify the bytes themselves: names, tokens, document versions.
pub(crate) fn wide(bytes: &[u8]) -> [u8; 16] {
    xxh3::xxh3_128(bytes).to_be_bytes()
}

/// A checksum over pieces that are not in memory together.
#[derive(Default)]
pub(crate) struct Running {
    state: xxh3::Xxh3,
}

impl Running {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.state.digest()
    }
}

/// The checksum of a record that counts only where it was written: the seed is not in it.
pub(crate) fn seeded(bytes: &[u8], seed: u64) -> u64 {
    xxh3::xxh3_64_with_seed(bytes, seed)
}
