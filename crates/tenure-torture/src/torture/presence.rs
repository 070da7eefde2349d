//! Who is inside the critical section, as the processes themselves announce it. No lock is
//! involved.
//!
//! # Invariants
//!
//! 1. A process raises its flag after it got the lock, and lowers it before it releases the lock.
//!    So a raised flag belongs to a holder, or to a process that was killed while it was one.
//! 2. It raises its own flag and then reads all others: of two holders at least one sees the other.
//! 3. A flag names the incarnation of its process. The parent knows which incarnations it has
//!    killed, and when; a process that was seen inside before that was alive.
//! 4. A flag names the hold as well. A worker that leaves its hold to a child lowers its flag after
//!    the child may have raised its own, so the child may find that one flag, and no other. If the
//!    parent enters again, or finds the child inside, the lock was given twice.

use std::sync::atomic::Ordering::SeqCst;

use super::memory::Memory;
use super::{clock, words};

/// Kinds of flags, in the low bits.
const EXCLUSIVE: u64 = 1;
const SHARED: u64 = 2;
const CHILD: u64 = 4;
const KIND_BITS: u32 = 3;
/// The number of the hold comes next. It wraps around long after all children of the first hold are
/// gone.
const HOLD_BITS: u32 = 24;

/// A holder: a worker, from its start to its end, under one hold, or the child that it left that
/// hold to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) generation: u64,
    /// Which hold of this generation.
    pub(super) hold: u64,
    pub(super) child: bool,
}

impl Holder {
    /// The owner of a flag.
    pub(super) fn of_flag(flag: u64) -> Self {
        Self {
            generation: flag >> (KIND_BITS + HOLD_BITS),
            hold: flag >> KIND_BITS & ((1 << HOLD_BITS) - 1),
            child: flag & CHILD != 0,
        }
    }

    fn flag(self, shared: bool) -> u64 {
        let child = if self.child { CHILD } else { 0 };
        let hold = self.hold & ((1 << HOLD_BITS) - 1);
        let kind = child | if shared { SHARED } else { EXCLUSIVE };
        self.generation << (KIND_BITS + HOLD_BITS) | hold << KIND_BITS | kind
    }

    /// Whether `flag` is the parent's, not lowered yet, of the hold that was left to this child.
    fn is_left_by(self, flag: u64) -> bool {
        let parent = Self { child: false, ..self };
        self.child && flag == parent.flag(false)
    }
}

/// A second holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    /// Where the flag is.
    pub(super) place: usize,
    pub(super) flag: u64,
    /// It was raised before this moment.
    pub(super) at: u64,
}

/// A flag that is raised until it is dropped. A killed process leaves it raised.
#[derive(Debug)]
pub(super) struct Flag {
    memory: Memory,
    place: usize,
}

impl Flag {
    /// Raises the flag of `who`, the process in `slot`, and returns which others are inside.
    pub(super) fn raise(
        memory: Memory,
        slot: usize,
        who: Holder,
        shared: bool,
    ) -> (Self, Vec<Overlap>) {
        let place = words::flag(slot, who.child);
        memory.word(place).store(who.flag(shared), SeqCst);
        let others = words::flags().filter(|other| *other != place);
        let overlaps = others.filter_map(|other| {
            let flag = memory.word(other).load(SeqCst);
            let both_read = shared && flag & SHARED != 0;
            let overlap = Overlap { place: other, flag, at: clock::now() };
            (flag != 0 && !both_read && !who.is_left_by(flag)).then_some(overlap)
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

/// Lowers the flag of a dead process, unless another one is raised there by now.
pub(super) fn take_down(memory: Memory, overlap: Overlap) {
    let _ = memory.word(overlap.place).compare_exchange(overlap.flag, 0, SeqCst, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::{Flag, Holder};
    use crate::torture::memory::Memory;

    const SLOT: usize = 3;

    fn worker(hold: u64) -> Holder {
        Holder { generation: 5, hold, child: false }
    }

    fn child(hold: u64) -> Holder {
        Holder { child: true, ..worker(hold) }
    }

    fn memory() -> (tempfile::TempDir, Memory) {
        let dir = tempfile::tempdir().expect("a directory");
        let memory = Memory::create(&dir.path().join("words")).expect("words");
        (dir, memory)
    }

    /// Raises a flag and returns the holders it found.
    fn enter(memory: Memory, slot: usize, who: Holder, shared: bool) -> (Flag, Vec<Holder>) {
        let (flag, overlaps) = Flag::raise(memory, slot, who, shared);
        (flag, overlaps.iter().map(|overlap| Holder::of_flag(overlap.flag)).collect())
    }

    #[test]
    fn a_child_may_find_its_parent_on_the_way_out() {
        let (_dir, memory) = memory();
        let (parent, seen) = enter(memory, SLOT, worker(7), false);
        assert_eq!(seen, []);
        let (_child, seen) = enter(memory, SLOT, child(7), false);
        assert_eq!(seen, []);
        drop(parent);
        let other = Holder { generation: 6, hold: 7, child: false };
        assert_eq!(enter(memory, 0, other, false).1, [child(7)]);
    }

    #[test]
    fn a_parent_that_comes_in_beside_its_child_is_seen() {
        let (_dir, memory) = memory();
        let (inside, _) = enter(memory, SLOT, child(7), false);
        for shared in [false, true] {
            assert_eq!(enter(memory, SLOT, worker(8), shared).1, [child(7)]);
        }
        drop(inside);
        assert_eq!(enter(memory, SLOT, worker(9), false).1, []);
    }

    #[test]
    fn a_child_that_comes_late_sees_its_parent_inside_again() {
        let (_dir, memory) = memory();
        for shared in [false, true] {
            let (_again, _) = enter(memory, SLOT, worker(8), shared);
            assert_eq!(enter(memory, SLOT, child(7), false).1, [worker(8)]);
        }
    }

    #[test]
    fn readers_are_inside_together_and_flags_say_whose_they_are() {
        let (_dir, memory) = memory();
        let (_one, _) = enter(memory, SLOT, worker(1), true);
        let other = Holder { generation: 6, hold: 1, child: false };
        assert_eq!(enter(memory, 4, other, true).1, []);
        assert_eq!(enter(memory, 4, other, false).1, [worker(1)]);
        for who in [worker(0), child(1 << 20), Holder { generation: 1 << 30, ..child(2) }] {
            assert_eq!(Holder::of_flag(who.flag(false)), who);
        }
    }
}
