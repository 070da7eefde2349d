//! Memory for a process that lives for a millisecond.
//!
//! In such a short life the first touch of a page of memory costs more than anything that is done
//! with it. So the first thread gets its blocks one after the other from [`SIZE`] bytes, without
//! headers between them, and freed blocks are reused before new memory is touched. After that, and
//! for other threads, the system's allocator is used: a long-lived command wastes [`SIZE`] bytes
//! once and no more.
//!
//! # Invariants
//!
//! 1. Only the owner, the first thread that asked, changes the state, so no thread ever waits here.
//!    A block that another thread frees is not reused.
//! 2. No two living blocks overlap: a block is handed out, or in a list of free ones, or above `used`.
//! 3. A block belongs to the allocator whose memory it lies in, and goes back there.
//! 4. What the system's allocator hands out is counted, so that a filter can be bounded. The rest is at most
//!    [`SIZE`] bytes.
//! 5. Every block starts and ends at a multiple of [`STEP`], so a free one has room for the link of its list.

#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_cli::{memory_refused, memory_returned, memory_taken};

/// A document of a few hundred keys takes a quarter of a megabyte to change; peak memory stays small.
const SIZE: usize = 2 << 20;
/// The alignment of the memory, and the largest that is served from it.
const ALIGN: usize = 64;
/// Sizes are multiples of this.
const STEP: usize = 8;
/// There is a list of free blocks for every size up to this; larger ones are few.
const SMALL: usize = 512;
/// So many large free blocks are remembered.
const LARGE: usize = 8;

#[repr(align(64))]
struct Memory(UnsafeCell<[u8; SIZE]>);

/// The allocator.
pub(crate) struct Arena {
    /// The thread that is served from the memory, by the address of a variable of its own.
    owner: AtomicUsize,
    state: UnsafeCell<State>,
    memory: Memory,
}

/// What is free.
struct State {
    /// Everything from here on is free, and was never written to.
    used: usize,
    /// The first free block of each small size; in it the next one.
    small: [*mut u8; SMALL / STEP + 1],
    /// Large free blocks: where they start and how long they are.
    large: [(usize, usize); LARGE],
}

// SAFETY: the state is only reached by the owner (invariant 1), and the memory through blocks, which are
// handed out once each (invariant 2).
unsafe impl Sync for Arena {}

impl Arena {
    /// With nothing handed out, for a `static`. It takes no memory until it is used.
    #[expect(clippy::large_stack_arrays, reason = "a static is on no stack")]
    pub(crate) const fn new() -> Self {
        let state =
            State { used: 0, small: [null_mut(); SMALL / STEP + 1], large: [(0, 0); LARGE] };
        Self {
            owner: AtomicUsize::new(0),
            state: UnsafeCell::new(state),
            memory: Memory(UnsafeCell::new([0; SIZE])),
        }
    }

    /// Runs `act` on the state, if this thread may.
    fn as_owner<T>(&self, act: impl FnOnce(&mut State) -> T) -> Option<T> {
        thread_local!(static HERE: u8 = const { 0 });
        let here = HERE.with(|here| std::ptr::from_ref(here).addr());
        let owner = self.owner.load(Ordering::Relaxed);
        let first = || self.owner.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
        if owner != here && (owner != 0 || first().is_err()) {
            return None;
        }
        // SAFETY: this thread is the owner, and `act` does not come back here: it allocates nothing.
        Some(act(unsafe { &mut *self.state.get() }))
    }

    fn start(&self) -> *mut u8 {
        self.memory.0.get().cast()
    }

    /// The place of a block in the memory, if it lies there.
    fn place_of(&self, block: *mut u8) -> Option<usize> {
        let place = block.addr().wrapping_sub(self.start().addr());
        (place < SIZE).then_some(place)
    }

    /// A block from the memory, if there is one for this thread.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let (size, align) = (layout.size().checked_next_multiple_of(STEP)?, layout.align());
        if align > ALIGN {
            return None;
        }
        self.as_owner(|state| {
            let mut place = None;
            if size > SMALL {
                place = state.take_large(size, align);
            } else if align <= STEP {
                let first = state.small[size / STEP];
                if !first.is_null() {
                    // SAFETY: a free block of this list is ours, and begins with the link (invariant 5).
                    state.small[size / STEP] = unsafe { first.cast::<*mut u8>().read_unaligned() };
                    return Some(first);
                }
            }
            let place = place.or_else(|| state.take_new(size, align));
            // SAFETY: it is a place in the memory.
            place.map(|place| unsafe { self.start().add(place) })
        })?
    }

    /// Takes back a block of `size` bytes at `place`.
    fn take_back(&self, block: *mut u8, place: usize, size: usize) {
        self.as_owner(|state| {
            let size = size.next_multiple_of(STEP);
            if size > SMALL {
                state.keep_large(place, size);
            } else {
                // SAFETY: the block is no longer used, and it has room for the link (invariant 5).
                unsafe { block.cast::<*mut u8>().write_unaligned(state.small[size / STEP]) };
                state.small[size / STEP] = block;
            }
        });
    }
}

impl State {
    /// Bytes that were never handed out.
    fn take_new(&mut self, size: usize, align: usize) -> Option<usize> {
        let mask = align.max(STEP) - 1; // Not `next_multiple_of`, which divides: an alignment is a power of two.
        let start = (self.used + mask) & !mask;
        let end = start.checked_add(size).filter(|end| *end <= SIZE)?;
        self.used = end;
        Some(start)
    }

    /// The smallest large free block that has room; what is left of it stays free.
    fn take_large(&mut self, size: usize, align: usize) -> Option<usize> {
        let fits = |(start, len): &(usize, usize)| *len >= size && start & (align - 1) == 0;
        let found =
            self.large.iter_mut().filter(|block| fits(block)).min_by_key(|(_, len)| *len)?;
        let start = found.0;
        *found = (start + size, found.1 - size);
        Some(start)
    }

    /// Remembers a large free block, instead of the smallest that is known.
    fn keep_large(&mut self, place: usize, size: usize) {
        let smallest = self.large.iter_mut().min_by_key(|(_, len)| *len);
        if let Some(smaller) = smallest.filter(|(_, len)| *len < size) {
            *smaller = (place, size);
        }
    }
}

/// A block of the system's, which counts.
///
/// # Safety
///
/// As for [`GlobalAlloc::alloc`].
unsafe fn counted_alloc(layout: Layout) -> *mut u8 {
    memory_taken(layout.size());
    // SAFETY: the caller's promise is passed on.
    let block = unsafe { System.alloc(layout) };
    if block.is_null() {
        memory_returned(layout.size());
        memory_refused();
    }
    block
}

// SAFETY: blocks are disjoint (invariant 2), inside the memory, and aligned: the memory is aligned to
// `ALIGN`, and no more is served from it. Everything else is the system's allocator.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        self.take(layout).unwrap_or_else(|| unsafe { counted_alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(place) = self.place_of(block) {
            return self.take_back(block, place, layout.size());
        }
        memory_returned(layout.size());
        // SAFETY: it is not in our memory, so it is the system's (invariant 3).
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.place_of(block) else {
            memory_taken(size);
            // SAFETY: it is not in our memory, so it is the system's (invariant 3).
            let moved = unsafe { System.realloc(block, layout, size) };
            if moved.is_null() {
                memory_returned(size);
                memory_refused();
            } else {
                memory_returned(layout.size());
            }
            return moved;
        };
        let old = layout.size().next_multiple_of(STEP);
        let new = size.next_multiple_of(STEP);
        let grows = |state: &mut State| {
            let is_last = state.used == place + old && new >= old && place + new <= SIZE;
            if is_last {
                state.used = place + new;
            }
            is_last
        };
        if new == old || self.as_owner(grows).unwrap_or(false) {
            return block;
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: `size` is not zero, as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are as long as the smaller of the two, and different living blocks.
            unsafe { std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: the caller gives it up.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn used(arena: &Arena) -> usize {
        arena.as_owner(|state| state.used).unwrap()
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
    fn the_last_block_grows_in_place() {
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
    }

    #[test]
    fn what_was_freed_is_handed_out_before_anything_new() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        // SAFETY: every block is used within its size and freed once with its own layout.
        unsafe {
            let small = [arena.alloc(layout(20, 8)), arena.alloc(layout(24, 1))];
            let large = arena.alloc(layout(4000, 8));
            let last = arena.alloc(layout(8, 8));
            let before = used(arena);
            arena.dealloc(small[0], layout(20, 8));
            arena.dealloc(small[1], layout(24, 1));
            arena.dealloc(large, layout(4000, 8));
            assert_eq!(arena.alloc(layout(17, 4)), small[1]);
            assert_eq!(arena.alloc(layout(22, 1)), small[0]);
            assert_eq!(arena.alloc(layout(3000, 8)), large);
            assert_eq!(arena.alloc(layout(1000, 8)), large.add(3000), "what was left of it");
            assert_eq!(used(arena), before);
            assert_eq!(arena.alloc(layout(20, 8)).addr(), last.addr() + 8);
        }
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
            assert_eq!(arena.alloc(layout(SIZE, 1)), ours, "it is free again");
        }
    }

    #[test]
    fn other_threads_are_served_by_the_system_and_take_nothing_back() {
        static ARENA: Arena = Arena::new();
        let arena = &ARENA;
        // SAFETY: every block is used within its size and freed once with its own layout.
        unsafe {
            let ours = arena.alloc(layout(24, 8));
            let place = arena.place_of(ours).unwrap();
            let thread = std::thread::spawn(move || {
                let theirs = arena.alloc(layout(24, 8));
                assert!(!theirs.is_null() && arena.place_of(theirs).is_none());
                arena.dealloc(theirs, layout(24, 8));
                arena.dealloc(arena.start().add(place), layout(24, 8));
            });
            thread.join().unwrap();
            assert_ne!(arena.alloc(layout(24, 8)), ours);
        }
    }
}
