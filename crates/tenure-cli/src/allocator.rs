//! Memory for a process that lives for a millisecond: the first [`SIZE`] bytes are handed out one after
//! the other and hardly ever taken back, since finding a use for them again takes longer than the rest
//! of most commands. After that the system's allocator does it, so a long-lived command wastes
//! [`SIZE`] bytes once and no more.
//!
//! # Invariants
//!
//! 1. No two living allocations overlap: `used` only grows past a block while that block is handed out,
//!    and only shrinks to the start of the last block, by whoever frees that block.
//! 2. A block belongs to the allocator whose memory it lies in, and goes back there.

#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A document of a few hundred keys takes half a megabyte to change; peak memory stays small.
const SIZE: usize = 2 << 20;
/// The alignment of the memory, and the largest that is served from it.
const ALIGN: usize = 64;

#[repr(align(64))]
struct Memory(UnsafeCell<[u8; SIZE]>);

/// The allocator.
pub(crate) struct Arena {
    /// Everything below is handed out.
    used: AtomicUsize,
    memory: Memory,
}

// SAFETY: the memory is only reached through blocks, which are handed out once each (invariant 1), and
// the orderings on `used` hand it from thread to thread.
unsafe impl Sync for Arena {}

impl Arena {
    /// With nothing handed out, for a `static`. It takes no memory until it is used.
    #[expect(clippy::large_stack_arrays, reason = "a static is on no stack")]
    pub(crate) const fn new() -> Self {
        Self { used: AtomicUsize::new(0), memory: Memory(UnsafeCell::new([0; SIZE])) }
    }

    /// The place of a block in the memory, if it lies there.
    fn place_of(&self, block: *mut u8) -> Option<usize> {
        let place = block.addr().wrapping_sub(self.memory.0.get().addr());
        (place < SIZE).then_some(place)
    }

    /// Takes the next free bytes: where they start.
    fn take(&self, layout: Layout) -> Option<usize> {
        if layout.align() > ALIGN {
            return None;
        }
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let start = used.next_multiple_of(layout.align());
            let end = start.checked_add(layout.size()).filter(|end| *end <= SIZE)?;
            match self.move_end(used, end) {
                Ok(_) => return Some(start),
                Err(now) => used = now,
            }
        }
    }

    /// Moves the end of what is handed out, if it is still where it was.
    fn move_end(&self, from: usize, to: usize) -> Result<usize, usize> {
        // Released by whoever gives a block back, acquired by whoever gets those bytes next.
        self.used.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
    }
}

// SAFETY: blocks are disjoint (invariant 1), inside the memory, and aligned: the memory is aligned to
// `ALIGN`, and no more is served from it. Everything else is the system's allocator.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            // SAFETY: `take` returns a place in the memory.
            Some(place) => unsafe { self.memory.0.get().cast::<u8>().add(place) },
            // SAFETY: the caller's promise is passed on.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.place_of(block) {
            Some(place) => {
                let _ = self.move_end(place + layout.size(), place);
            }
            // SAFETY: it is not in our memory, so it is the system's (invariant 2).
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.place_of(block) else {
            // SAFETY: it is not in our memory, so it is the system's (invariant 2).
            return unsafe { System.realloc(block, layout, size) };
        };
        let fits = place.checked_add(size).filter(|end| *end <= SIZE);
        if fits.is_some_and(|end| self.move_end(place + layout.size(), end).is_ok()) {
            return block;
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: `size` is not zero, as the caller promises.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both are as long as the smaller of the two, and different living blocks.
            unsafe { std::ptr::copy_nonoverlapping(block, new, layout.size().min(size)) };
            // SAFETY: the caller gives it up.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_are_aligned_and_do_not_overlap() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        let mut blocks = Vec::new();
        for (index, align) in [1, 2, 8, 64, 4, 16, 1, 32].into_iter().enumerate() {
            let size = 3 + 5 * index;
            // SAFETY: the size is not zero.
            let block = unsafe { arena.alloc(layout(size, align)) };
            assert_eq!(block.addr() % align, 0);
            assert!(arena.place_of(block).is_some());
            blocks.push(block.addr()..block.addr() + size);
        }
        for pair in blocks.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
    }

    #[test]
    fn the_last_block_grows_in_place_and_is_taken_back() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        // SAFETY: every block is used within its size and freed once with its own layout.
        unsafe {
            let first = arena.alloc(layout(10, 1));
            first.write_bytes(7, 10);
            let grown = arena.realloc(first, layout(10, 1), 100);
            assert_eq!((grown, grown.add(9).read()), (first, 7));
            let second = arena.alloc(layout(10, 1));
            let moved = arena.realloc(grown, layout(100, 1), 200);
            assert_ne!(moved, grown);
            assert_eq!(moved.add(9).read(), 7);
            arena.dealloc(moved, layout(200, 1));
            arena.dealloc(second, layout(10, 1));
        }
        assert_eq!(arena.used.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn what_does_not_fit_comes_from_the_system() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        for wanted in [layout(SIZE + 1, 1), layout(8, 4096)] {
            // SAFETY: every block is freed once with its own layout.
            unsafe {
                let block = arena.alloc(wanted);
                assert!(!block.is_null() && arena.place_of(block).is_none());
                let grown = arena.realloc(block, wanted, wanted.size() + 1);
                arena.dealloc(grown, layout(wanted.size() + 1, wanted.align()));
            }
        }
        // SAFETY: as above.
        unsafe {
            let ours = arena.alloc(layout(SIZE, 1));
            assert!(arena.place_of(ours).is_some());
            let theirs = arena.alloc(layout(1, 1));
            assert!(arena.place_of(theirs).is_none());
            let moved = arena.realloc(ours, layout(SIZE, 1), SIZE + 1);
            assert!(arena.place_of(moved).is_none());
            arena.dealloc(theirs, layout(1, 1));
            arena.dealloc(moved, layout(SIZE + 1, 1));
        }
        assert_eq!(arena.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_get_blocks_of_their_own() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        std::thread::scope(|scope| {
            for thread in 0_u8..4 {
                scope.spawn(move || {
                    for turn in 0..2000_usize {
                        let wanted = layout(1 + turn % 50, 8);
                        // SAFETY: every block is used within its size and freed once.
                        unsafe {
                            let block = arena.alloc(wanted);
                            block.write_bytes(thread, wanted.size());
                            std::thread::yield_now();
                            for at in 0..wanted.size() {
                                assert_eq!(block.add(at).read(), thread);
                            }
                            arena.dealloc(block, wanted);
                        }
                    }
                });
            }
        });
    }
}
