//! Two slots in a file, written in turn.
//!
//! # Invariants
//!
//! 1. A slot is valid if and only if its checksum fits. Of two valid slots the one with the larger turn
//!    counts.
//! 2. A write goes to the slot that does not count. A crash before or inside it leaves the other slot.

use std::io;

use crate::checksum;
use crate::file::layout::{Fill, Layout, Take};
use crate::fs::Handle;

/// Where the two slots of a file are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubleSlot {
    first: u64,
    second: u64,
}

/// The turn comes before the body, the checksum behind it.
const TURN_BYTES: usize = 8;
const SUM_BYTES: usize = 8;

impl DoubleSlot {
    pub(crate) const fn at(first: u64, second: u64) -> Self {
        Self { first, second }
    }

    /// The newest valid body and its turn; `None` if neither slot is valid.
    pub(crate) fn load<T: Layout>(&self, file: &dyn Handle) -> io::Result<Option<(u64, T)>> {
        let len = TURN_BYTES + T::BYTES + SUM_BYTES;
        let mut bytes = vec![0; self.distance() + len];
        file.read_full_at(&mut bytes, self.first)?;
        loop {
            let slots = [&bytes[..len], &bytes[self.distance()..]];
            let newest = slots.into_iter().filter_map(decode).max_by_key(|(turn, _)| *turn);
            if newest.is_some() || bytes.iter().all(|byte| *byte == 0) {
                return Ok(newest);
            }
            // Two writes during one read can tear both slots. What is read twice is on the disk.
            let mut again = vec![0; bytes.len()];
            file.read_full_at(&mut again, self.first)?;
            if again == bytes {
                return Ok(None);
            }
            bytes = again;
        }
    }

    /// Writes `body` under `turn`, which is one more than the newest.
    pub(crate) fn store<T: Layout>(
        &self,
        file: &dyn Handle,
        turn: u64,
        body: &T,
    ) -> io::Result<()> {
        let mut bytes = vec![0; TURN_BYTES + T::BYTES + SUM_BYTES];
        let mut fill = Fill::new(&mut bytes);
        fill.u64(turn);
        body.put(&mut fill);
        let (said, sum) = bytes.split_at_mut(TURN_BYTES + T::BYTES);
        sum.copy_from_slice(&checksum::of(said).to_le_bytes());
        file.write_all_at(&bytes, if turn % 2 == 0 { self.first } else { self.second })
    }

    fn distance(&self) -> usize {
        usize::try_from(self.second - self.first).unwrap_or(0)
    }
}

fn decode<T: Layout>(bytes: &[u8]) -> Option<(u64, T)> {
    let (said, sum) = bytes.split_at(TURN_BYTES + T::BYTES);
    let fits = sum == checksum::of(said).to_le_bytes().as_slice();
    let mut take = Take::new(said);
    let turn = take.count();
    let body = T::take(&mut take);
    (fits && take.is_sane()).then_some((turn, body))
}
