//! Two marks beside the record: whose fence was told, and whose hold has ended.
//!
//! # Invariants
//!
//! 1. A mark names a fence and counts only for a record with that fence. So the holder may set it
//!    without reading the record first: from somebody who lost the hold without noticing, it says
//!    nothing about the hold of another. At worst it hides that one's mark, who then seems to have died.
//! 2. A fence proves nothing before its mark `Told` is set. So a hold whose fence was never told has
//!    no write of others in flight, and ends without the commit lock.
//! 3. `Ended` is set only by the holder, and if the fence was told, under the commit lock: whoever
//!    reads that a hold has ended knows that no write which proved it is in flight.
//!
//! A mark torn by a crash counts as none: a fence that is refused, a holder that seems to have died.

use std::io;

use crate::checksum;
use crate::fs::Handle;
use crate::options::Fence;
use crate::record::SLOT_OFFSET;

/// Behind the first slot, on its page.
pub(crate) const MARKS_OFFSET: usize = 1024;
const MARK_BYTES: usize = 16;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Ended,
    Told,
}

impl Mark {
    /// Where it is, from the first slot on.
    const fn offset(self) -> usize {
        match self {
            Self::Ended => MARKS_OFFSET,
            Self::Told => MARKS_OFFSET + MARK_BYTES,
        }
    }

    /// Sets it for the hold with this fence. A crash before leaves it as it was; in the middle, none.
    pub(crate) fn set(self, file: &dyn Handle, fence: Fence) -> io::Result<()> {
        file.write_all_at(&self.encode(fence), SLOT_OFFSET + self.offset() as u64)
    }

    /// Whether it is set for this fence, in the bytes from the first slot on.
    pub(crate) fn is_set(self, bytes: &[u8], fence: Fence) -> bool {
        let mark = bytes.get(self.offset()..self.offset() + MARK_BYTES);
        mark.is_some_and(|mark| mark == self.encode(fence))
    }

    fn encode(self, fence: Fence) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&fence.to_le_bytes());
        // The place is part of the sum: one mark is never taken for the other.
        mark[8] = self.offset().to_le_bytes()[0];
        let sum = checksum::of(&mark[..9]);
        mark[8..].copy_from_slice(&sum.to_le_bytes());
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_for_its_own_fence_and_place_only() {
        let mut bytes = [0; MARKS_OFFSET + 2 * MARK_BYTES];
        let at = Mark::Ended.offset();
        bytes[at..at + MARK_BYTES].copy_from_slice(&Mark::Ended.encode(7));
        assert!(Mark::Ended.is_set(&bytes, 7));
        assert!(!Mark::Ended.is_set(&bytes, 8));
        assert!(!Mark::Told.is_set(&bytes, 7));
        bytes.copy_within(at..at + MARK_BYTES, Mark::Told.offset());
        assert!(!Mark::Told.is_set(&bytes, 7), "moved");
        for bit in 0..MARK_BYTES * 8 {
            let mut flipped = bytes;
            flipped[at + bit / 8] ^= 1 << (bit % 8);
            assert!(!Mark::Ended.is_set(&flipped, 7), "bit {bit}");
        }
    }

    #[test]
    fn where_nothing_was_written_no_mark_is_set() {
        assert!(!Mark::Ended.is_set(&[0; 2048], 0));
        assert!(!Mark::Told.is_set(&[], 1));
    }
}
