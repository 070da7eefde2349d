//! Two marks beside the record: whose fence was published, and whose hold has ended.
//!
//! # Invariants
//!
//! 1. A mark names a fence and counts only for a record with that fence. So the holder may set it
//!    without reading the record first: a mark of a holder that lost the hold without noticing says
//!    nothing about another hold. At worst it overwrites the other holder's mark, and that holder
//!    then seems to have died.
//! 2. A fence proves nothing before its mark `Published` is set. So a hold whose fence was never
//!    published has no writes of other processes in flight, and ends without the commit lock.
//! 3. A mark with a larger fence than the record shows that the newest record is gone. Every fence
//!    that was given out has one of the two marks, so damage to a single slot takes no fence back.
//! 4. `Ended` is set only by the holder, and if the fence was published, under the commit lock: a caller
//!    that reads that a hold has ended knows that no write which proved it is in flight.
//!
//! A mark torn by a crash counts as none: a fence that is refused, a holder that seems to have died.

use std::io;

use crate::checksum;
use crate::fs::Handle;
use crate::options::Fence;
use crate::sys;

/// The page of the commit file that begins with the first slot, and where the marks are on it.
const PAGE_AT: u64 = 4096;
const MARKS_OFFSET: usize = 1024;
const MARK_BYTES: usize = 24;

/// One of the two marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Ended,
    Published,
}

impl Mark {
    /// Where it is, from the first slot on.
    const fn offset(self) -> usize {
        match self {
            Self::Ended => MARKS_OFFSET,
            Self::Published => MARKS_OFFSET + MARK_BYTES,
        }
    }

    /// Sets it for the hold with this fence. A crash before leaves it as it was; in the middle, none.
    pub(crate) fn set(self, file: &dyn Handle, fence: Fence) -> io::Result<()> {
        let mark = self.encode(fence, sys::wall_time_us());
        file.write_all_at(&mark, PAGE_AT + self.offset() as u64)
    }

    /// The fence that it is set for, and when that was done (wall clock, microseconds), in the bytes
    /// from the first slot on.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<(Fence, u64)> {
        let mark = bytes.get(self.offset()..self.offset() + MARK_BYTES)?;
        let number = |at: usize| mark.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
        let (fence, set_us) = (number(0)?, number(8)?);
        (mark == self.encode(fence, set_us)).then_some((fence, set_us))
    }

    fn encode(self, fence: Fence, set_us: u64) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&fence.to_le_bytes());
        mark[8..16].copy_from_slice(&set_us.to_le_bytes());
        // The place is part of the sum: one mark is never taken for the other.
        mark[16] = self.offset().to_le_bytes()[0];
        let sum = checksum::of(&mark[..17]);
        mark[16..].copy_from_slice(&sum.to_le_bytes());
        mark
    }
}

#[cfg(test)]
mod tests;
