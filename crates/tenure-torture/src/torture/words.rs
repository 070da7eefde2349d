//! What each shared word is for.

/// The largest number of processes.
const SLOTS: usize = 64;

/// How many keys of the collection all workers count in.
pub(super) const KEYS: usize = 8;

/// The flag of the process in `slot`, or of the child that it left the lock to.
pub(super) fn flag(slot: usize, child: bool) -> usize {
    if child { SLOTS + slot } else { slot }
}

/// All flags.
pub(super) fn flags() -> std::ops::Range<usize> {
    0..2 * SLOTS
}

/// The highest fence that was seen inside the lock.
pub(super) const FENCE: usize = 2 * SLOTS;
/// The highest total of the document that an update returned.
pub(super) const DOCUMENT: usize = FENCE + 1;
/// The highest number of the journal that an append returned.
pub(super) const JOURNAL: usize = FENCE + 2;

/// The highest total of a key in the collection that an update returned.
pub(super) fn key(key: usize) -> usize {
    FENCE + 3 + key % KEYS
}

/// What the process in `slot` is doing, and since when.
pub(super) fn busy(slot: usize) -> usize {
    FENCE + 3 + KEYS + slot
}
