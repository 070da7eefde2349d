//! The four slots of a log, and which of them counts.
//!
//! # Invariants
//!
//! 1. (J1) A slot is valid if and only if its magic and major version are ours, its checksum fits, no
//!    number in it is one that nobody counts to, and its numbers add up.
//!    If the valid one with the largest `turn` is of this boot, it counts. Otherwise the newest valid
//!    anchor does.
//! 2. Every write of a slot has a larger `turn` than all before it. So if the slot that this process
//!    wrote last is still there, and no other has a larger one, nobody has written since.

#[cfg(test)]
mod tests;

use std::io;

use crate::checksum;
use crate::fs::Handle;
use crate::record::MAJOR;

use super::head::{ENTRIES_AT, Head, decode};
use super::layout::{Take, has_room};

pub(super) const SLOT_BYTES: usize = 1024;
pub(super) const CHECKSUM_AT: usize = SLOT_BYTES - 8;
pub(super) const MAGIC: &[u8; 6] = b"tenwal";
/// Anchors are on pages of their own: a page that is torn takes one of them at most.
pub(super) const ANCHORS_AT: [usize; 2] = [0, 4096];
pub(super) const HINTS_AT: [usize; 2] = [8192, 8192 + SLOT_BYTES];
const ALL_BYTES: usize = 8192 + 2 * SLOT_BYTES;

/// What reading the slots gave.
#[derive(Debug)]
pub(super) enum Loaded {
    Head(Box<Head>),
    /// Nothing was written yet.
    Empty,
    /// Something is there, but no slot is valid.
    Garbage,
    /// A newer major version wrote it.
    Newer(u16),
}

/// How a slot is recognised by the process that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    turn: u64,
    sum: u64,
}

impl Mark {
    pub(super) fn of(slot: &[u8]) -> Self {
        Self { turn: turn_of(slot), sum: Take::new(&slot[CHECKSUM_AT..]).u64() }
    }
}

/// The slots as they were at one moment.
pub(super) struct Slots {
    bytes: Vec<u8>,
}

impl Slots {
    /// `room` is what slots that were read before have left ([`Self::into_room`]), or empty.
    pub(super) fn read(file: &dyn Handle, room: Vec<u8>) -> io::Result<Self> {
        let mut bytes = room;
        bytes.resize(ALL_BYTES, 0);
        let read = file.read_full_at(&mut bytes, 0)?;
        bytes[read..].fill(0); // A log that is just being made.
        Ok(Self { bytes })
    }

    pub(super) fn into_room(self) -> Vec<u8> {
        self.bytes
    }

    fn all(&self) -> [&[u8]; 4] {
        let slot = |at: usize| &self.bytes[at..at + SLOT_BYTES];
        [slot(ANCHORS_AT[0]), slot(ANCHORS_AT[1]), slot(HINTS_AT[0]), slot(HINTS_AT[1])]
    }

    /// Whether the hint with this mark is there, and nobody has written a slot since.
    pub(super) fn end_with(&self, mark: Mark) -> bool {
        self.all()[2..].iter().any(|slot| Mark::of(slot) == mark)
            && self.all().iter().all(|slot| turn_of(slot) <= mark.turn)
    }

    /// The head that counts in this boot.
    pub(super) fn head(&self, boot: [u8; 16]) -> Loaded {
        let slots = self.all();
        if slots.iter().all(|slot| slot.iter().all(|byte| *byte == 0)) {
            return Loaded::Empty;
        }
        for slot in slots {
            let major = u16::from_le_bytes([slot[6], slot[7]]);
            if slot.starts_with(MAGIC) && major > MAJOR && checksum_fits(slot) {
                return Loaded::Newer(major);
            }
        }
        let newest = |slots: &[&[u8]]| {
            let valid = slots.iter().copied().filter(|slot| is_valid(slot));
            valid.filter_map(decode).filter(adds_up).max_by_key(|head| head.turn)
        };
        match newest(&slots) {
            Some(head) if !goes_on(&head) => Loaded::Garbage,
            Some(head) if head.boot == boot => Loaded::Head(Box::new(head)),
            Some(newer) => {
                newest(&slots[..2]).filter(goes_on).map_or(Loaded::Garbage, |mut head| {
                    // No number that a reader may have seen is given out again, if that can be told.
                    if newer.generation == head.generation {
                        head.next_seq = head.next_seq.max(newer.next_seq);
                    }
                    head.turn = newer.turn;
                    Loaded::Head(Box::new(head))
                })
            }
            None => Loaded::Garbage,
        }
    }
}

/// Whether what it says of the log can be so. The log begins behind the slots, and none of it is in the
/// journal that is not in the log.
fn adds_up(head: &Head) -> bool {
    head.first_number > 0
        && head.applied <= head.entries
        && (ENTRIES_AT..=head.end).contains(&head.applied_end)
}

/// Whether a next one can be written. Behind one that was planted at the end of all numbers it could not be read, so no
/// batch would be let in any more.
fn goes_on(head: &Head) -> bool {
    let Head { turn, anchors, epoch, first_number, next_seq, archive, .. } = *head;
    [turn, anchors, epoch, first_number, next_seq, archive].into_iter().all(has_room)
}

fn turn_of(slot: &[u8]) -> u64 {
    Take::new(&slot[8..]).u64()
}

pub(super) fn is_valid(slot: &[u8]) -> bool {
    let major = u16::from_le_bytes([slot[6], slot[7]]);
    slot.starts_with(MAGIC) && major == MAJOR && checksum_fits(slot)
}

fn checksum_fits(slot: &[u8]) -> bool {
    slot[CHECKSUM_AT..] == checksum::of(&slot[..CHECKSUM_AT]).to_le_bytes()
}
