//! Who is inside the critical section, as the processes themselves announce it. No lock is involved.
//!
//! # Invariants
//!
//! 1. A process raises its flag after it was told that it holds the lock, and lowers it before it lets
//!    go. So a flag that is up belongs to a holder, or to one that was killed while it was.
//! 2. It raises its own flag and then looks at all others: of two holders one sees the other.
//! 3. A flag names the incarnation of its process. The parent knows which of them it has killed, and
//!    when; one that was seen inside before that was alive.

use std::sync::atomic::Ordering::SeqCst;

use super::memory::Memory;
use super::{clock, words};

/// Kinds of flags, in the low bits.
const EXCLUSIVE: u64 = 1;
const SHARED: u64 = 2;
const CHILD: u64 = 4;
const BITS: u32 = 3;

/// One incarnation: a worker from its start to its end, or a child that it left the lock to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incarnation {
    pub(super) generation: u64,
    pub(super) child: bool,
}

impl Incarnation {
    /// The process that a flag belongs to.
    pub(super) fn of_flag(flag: u64) -> Self {
        Self { generation: flag >> BITS, child: flag & CHILD != 0 }
    }

    fn flag(self, shared: bool) -> u64 {
        let child = if self.child { CHILD } else { 0 };
        self.generation << BITS | child | if shared { SHARED } else { EXCLUSIVE }
    }
}

/// A second one inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    /// Where the flag is.
    pub(super) place: usize,
    pub(super) flag: u64,
    /// It was up before this moment.
    pub(super) at: u64,
}

/// A flag that is up until it is dropped. A killed process leaves it up.
#[derive(Debug)]
pub(super) struct Flag {
    memory: Memory,
    place: usize,
}

impl Flag {
    /// Raises the flag of `who`, the process in `slot`, and tells who else is inside.
    pub(super) fn raise(
        memory: Memory,
        slot: usize,
        who: Incarnation,
        shared: bool,
    ) -> (Self, Vec<Overlap>) {
        let place = words::flag(slot, who.child);
        memory.word(place).store(who.flag(shared), SeqCst);
        let others = words::flags().filter(|other| *other != place);
        let overlaps = others.filter_map(|other| {
            let flag = memory.word(other).load(SeqCst);
            let both_read = shared && flag & SHARED != 0;
            // A worker and the child that it has just left the lock to hold it together.
            let family = Incarnation::of_flag(flag).generation == who.generation;
            let overlap = Overlap { place: other, flag, at: clock::now() };
            (flag != 0 && !both_read && !family).then_some(overlap)
        });
        let overlaps = overlaps.collect();
        (Self { memory, place }, overlaps)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.memory.word(self.place).store(0, SeqCst);
    }
}

/// Takes down the flag of a dead process, unless another one is up there by now.
pub(super) fn take_down(memory: Memory, overlap: Overlap) {
    let _ = memory.word(overlap.place).compare_exchange(overlap.flag, 0, SeqCst, SeqCst);
}
