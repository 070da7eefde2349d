//! What each shared word is for.

/// More processes than that are never started.
const SLOTS: usize = 64;

/// How many keys of the collection everybody counts in.
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
/// The highest count of the document that anybody was told.
pub(super) const DOCUMENT: usize = FENCE + 1;
/// The highest number of the journal that anybody was told.
pub(super) const JOURNAL: usize = FENCE + 2;

/// The highest count of a key in the collection that anybody was told.
pub(super) fn key(key: usize) -> usize {
    FENCE + 3 + key % KEYS
}

/// What the process in `slot` is at, and since when.
pub(super) fn busy(slot: usize) -> usize {
    FENCE + 3 + KEYS + slot
}
