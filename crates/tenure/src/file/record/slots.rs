//! The two slots of a record: which of them counts, and when there is none.
//!
//! # Invariants
//!
//! 1. Of two valid slots the one with the larger `seq` counts; what is valid, the record says (R1).
//! 2. That neither is valid is believed when the same bytes were read twice.

use std::io;

use crate::checksum;
use crate::file::layout::{MAJOR, array};
use crate::fs::Handle;

/// Byte 0 of the file is the lock (a mandatory range on Windows), so the slots stay clear of it, and
/// of each other's page.
pub(super) const SLOT_OFFSET: u64 = 4096;
pub(super) const SLOT_STRIDE: usize = 4096;
pub(super) const SLOT_BYTES: usize = 1024;
pub(super) const SLOTS_BYTES: usize = SLOT_STRIDE + SLOT_BYTES;
pub(super) const CHECKSUM_OFFSET: usize = SLOT_BYTES - 8;
pub(super) const MAGIC: &[u8; 6] = b"tenure";

/// What reading the slots gave.
#[derive(Debug)]
pub(crate) enum Loaded<Newest> {
    /// The newest valid record.
    Record(Newest),
    /// Nothing was written yet.
    Empty,
    /// Something is there, but no slot is valid.
    Garbage,
    /// A newer major version wrote it.
    Newer(u16),
}

impl<Newest> Loaded<Newest> {
    /// Neither slot is valid.
    pub(super) fn none_in(bytes: &[u8; SLOTS_BYTES]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) { Self::Empty } else { Self::Garbage }
    }
}

/// Reads both slots, and what `choose` finds in them.
pub(super) fn load_slots<T>(
    file: &dyn Handle,
    choose: impl Fn(&[u8; SLOTS_BYTES]) -> Loaded<T>,
) -> io::Result<Loaded<T>> {
    let mut bytes = [0; SLOTS_BYTES];
    let mut length = file.read_full_at(&mut bytes, SLOT_OFFSET)?;
    loop {
        let loaded = choose(&bytes);
        if !matches!(loaded, Loaded::Garbage) {
            return Ok(loaded);
        }
        // Two writes during one read can tear both slots. What is there twice is there.
        let mut again = [0; SLOTS_BYTES];
        let length_again = file.read_full_at(&mut again, SLOT_OFFSET)?;
        if (length_again, again) == (length, bytes) {
            return Ok(loaded);
        }
        (length, bytes) = (length_again, again);
    }
}

/// The number that a slot claims to have.
pub(super) fn seq_of(slot: &[u8]) -> u64 {
    u64::from_le_bytes(array(slot, 8))
}

/// The slots, the newer one first; `Err` is the major version of a newer format.
pub(super) fn newest_first(bytes: &[u8; SLOTS_BYTES]) -> Result<[&[u8]; 2], u16> {
    let slots = [&bytes[..SLOT_BYTES], &bytes[SLOT_STRIDE..]];
    let slots = if seq_of(slots[0]) > seq_of(slots[1]) { slots } else { [slots[1], slots[0]] };
    for slot in slots {
        let major = u16::from_le_bytes([slot[6], slot[7]]);
        if slot.starts_with(MAGIC) && major > MAJOR && checksum_fits(slot) {
            return Err(major);
        }
    }
    Ok(slots)
}

pub(super) fn checksum_fits(slot: &[u8]) -> bool {
    u64::from_le_bytes(array(slot, CHECKSUM_OFFSET)) == checksum::of(&slot[..CHECKSUM_OFFSET])
}
