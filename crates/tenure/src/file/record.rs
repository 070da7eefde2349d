//! The record of a target: its fence, who holds it, its lease, and what its document was last.
//!
//! It lives in the commit file, in two slots of which the newer valid one counts, so that a crash at
//! any byte of a write leaves the other slot (see docs/FORMAT.md, R1-R4).
//!
//! # Invariants
//!
//! 1. A slot is valid if and only if its magic and major version are ours and its checksum fits. Of
//!    two valid slots the one with the larger `seq` counts. A write goes to the other slot.
//! 2. It is written only by somebody who holds the hold exclusively while the state is `Free`, or who
//!    holds the commit lock exclusively.
//! 3. `fence <= confirmed`, and `confirmed` was synced, name included, before it was written; so a
//!    record that a power loss took back still has a `ceiling` above every fence ever handed out. A copy
//!    of it is kept apart, where nothing is written without a sync: a power loss can tear both slots.
//! 4. It informs and fences; it never decides who holds a lock. The kernel does.

mod published;
mod slots;

use std::io;

use crate::checksum;
use crate::file::layout::{MAJOR, array};
use crate::file::marks::Mark;
use crate::fs::{FileId, Handle};
use crate::holder::{HoldKind, Holder, HolderText};

pub(crate) use self::published::{Published, Synced};
pub(crate) use self::slots::Loaded;
use self::slots::{
    CHECKSUM_OFFSET, MAGIC, SLOT_BYTES, SLOT_OFFSET, SLOT_STRIDE, SLOTS_BYTES, checksum_fits,
    load_slots, newest_first, seq_of,
};

/// Two more slots, each on a page of its own, for what was reserved.
const RESERVED_OFFSETS: [u64; 2] = [12288, 16384];
const HOLDER_OFFSET: usize = 264;
/// Larger numbers were not written by us; a thousand years of microseconds are far below.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// What the last hold is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// It ended properly.
    #[default]
    Free,
    /// A lock: held for as long as the kernel says so.
    Held,
    /// A lease: held until it expires.
    Leased,
}

/// A lease as it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeaseTerms {
    /// Checksum of the token; the token itself is never written down.
    pub(crate) token: [u8; 16],
    pub(crate) ttl_us: u64,
    /// On the boot clock of `boot`.
    pub(crate) expires_us: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    /// Of the current hold, or of the last one.
    pub(crate) fence: u64,
    /// Reserved: after a power loss the next fence is above this.
    pub(crate) ceiling: u64,
    /// The part of `ceiling` that is known to be durable.
    pub(crate) confirmed: u64,
    pub(crate) state: State,
    /// The holder ended its part properly and left the lock to its children.
    pub(crate) left: bool,
    /// There is a journal, whose log may hold batches on their way to it.
    pub(crate) journal: bool,
    /// So many versions of the document are kept besides `.good`.
    pub(crate) history: u16,
    pub(crate) since_us: u64,
    pub(crate) boot: [u8; 16],
    /// The commit file that this was written into; a copy elsewhere does not match.
    pub(crate) file: FileId,
    /// When that file was born: its number may have been given out again.
    pub(crate) file_born_us: u64,
    /// When this was written, on the wall clock. A file that changed later was written by somebody
    /// else: an older record was put back in place.
    pub(crate) written_us: u64,
    pub(crate) lease: LeaseTerms,
    pub(crate) published: Published,
    /// The id of an operation that is about to publish content with this checksum: done if that is
    /// there, and not remembered yet. 0 is none.
    pub(crate) pending: (u64, [u8; 16]),
    pub(crate) holder: HolderText,
    /// Whether this fence was given out: its mark says so, not the slot.
    pub(crate) fence_published: bool,
}

impl Record {
    /// Reads the newest valid slot.
    pub(crate) fn load(file: &dyn Handle) -> io::Result<Loaded<Box<Self>>> {
        load_slots(file, Self::choose)
    }

    fn choose(bytes: &[u8; SLOTS_BYTES]) -> Loaded<Box<Self>> {
        let slots = match newest_first(bytes) {
            Ok(slots) => slots,
            Err(major) => return Loaded::Newer(major),
        };
        let Some(mut record) = slots.into_iter().find_map(Self::decode) else {
            return Loaded::none_in(bytes);
        };
        // The other slot has the record before this one. If it has not, it may have had a newer one.
        if seq_of(slots[1]).checked_add(1) != Some(record.seq) {
            record.confirmed = 0;
        }
        for mark in [Mark::Ended, Mark::Published] {
            let Some((fence, set_us)) = mark.read(bytes) else { continue };
            match mark {
                _ if fence > record.fence => record.confirmed = 0, // A newer record is gone.
                _ if fence < record.fence => {}
                Mark::Published => record.fence_published = true,
                Mark::Ended if record.state == State::Held => record.state = State::Free,
                Mark::Ended => {}
            }
            record.written_us = record.written_us.max(set_us);
        }
        Loaded::Record(Box::new(record))
    }

    /// Writes the record into the slot that does not count now. A crash before or during it leaves
    /// the other slot; after it, this one counts.
    pub(crate) fn store(&mut self, file: &dyn Handle) -> io::Result<()> {
        let generation = self.published.generation;
        let ends = [self.seq + 1, self.fence, self.ceiling, self.confirmed, generation];
        if ends.iter().any(|number| *number > NUMBER_MAX) {
            // It could not be read back, and the record before it would count again.
            let why = "its numbers are at their end, which nobody has counted to";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.seq += 1;
        let slot = self.encode();
        let offset = SLOT_OFFSET + (self.seq % 2) * SLOT_STRIDE as u64;
        let stored = file.write_all_at(&slot, offset);
        if stored.is_err() {
            self.seq -= 1; // The slot may be torn; the next try overwrites it, not the good one.
        }
        stored
    }

    /// The largest ceiling that was reserved here, whatever became of the slots.
    pub(crate) fn reserved(file: &dyn Handle) -> io::Result<u64> {
        let ceilings = Self::reservations(file)?;
        Ok(ceilings.into_iter().flatten().max().unwrap_or(0))
    }

    /// Writes the ceiling down apart, over the smaller of the two before; the caller syncs it before
    /// the next. A crash before or during it leaves the larger one.
    pub(crate) fn reserve(&self, file: &dyn Handle) -> io::Result<()> {
        let [one, other] = Self::reservations(file)?;
        let smaller = usize::from(other < one);
        file.write_all_at(&self.encode(), RESERVED_OFFSETS[smaller])
    }

    fn reservations(file: &dyn Handle) -> io::Result<[Option<u64>; 2]> {
        let mut ceilings = [None; 2];
        for (ceiling, offset) in ceilings.iter_mut().zip(RESERVED_OFFSETS) {
            let mut slot = [0; SLOT_BYTES];
            file.read_full_at(&mut slot, offset)?;
            *ceiling = Self::decode(&slot).map(|record| record.ceiling);
        }
        Ok(ceilings)
    }

    /// Reserves the room for both slots, so that a full disk is noticed now and not at the release.
    pub(crate) fn reserve_room(file: &dyn Handle) -> io::Result<()> {
        file.write_all_at(&[0; SLOTS_BYTES], SLOT_OFFSET)
    }

    /// The holder with what the record knows about the hold.
    pub(crate) fn holder(&self) -> Holder {
        let hold = match self.state {
            State::Free => HoldKind::Unknown,
            State::Held => HoldKind::Lock,
            State::Leased => HoldKind::Lease,
        };
        Holder { fence: self.fence, since_us: self.since_us, hold, ..self.holder.read() }
    }

    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let mut put = |offset: usize, bytes: &[u8]| {
            slot[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        let state = match self.state {
            State::Free => 0,
            State::Held => 1,
            State::Leased => 2,
        };
        let text = self.holder.as_bytes();
        let text = if text.len() <= CHECKSUM_OFFSET - HOLDER_OFFSET { text } else { b"" };
        #[expect(clippy::cast_possible_truncation, reason = "it fits the slot")]
        let text_len = text.len() as u16;
        put(0, MAGIC);
        put(6, &MAJOR.to_le_bytes());
        put(8, &self.seq.to_le_bytes());
        put(16, &self.fence.to_le_bytes());
        put(24, &self.ceiling.to_le_bytes());
        put(32, &self.confirmed.to_le_bytes());
        put(
            40,
            &[
                state,
                self.published.flags() | u8::from(self.left) << 1 | u8::from(self.journal) << 2,
            ],
        );
        put(42, &text_len.to_le_bytes());
        put(44, &self.published.tag.to_le_bytes());
        put(48, &self.since_us.to_le_bytes());
        put(56, &self.boot);
        put(72, &self.file.dev.to_le_bytes());
        put(80, &self.file.ino.to_le_bytes());
        put(88, &self.lease.token);
        put(104, &self.lease.ttl_us.to_le_bytes());
        put(112, &self.lease.expires_us.to_le_bytes());
        put(120, &self.published.generation.to_le_bytes());
        put(128, &self.published.checksum);
        put(144, &self.history.to_le_bytes());
        put(208, &self.pending.0.to_le_bytes());
        put(216, &self.pending.1);
        put(232, &self.published.boot);
        put(248, &self.file_born_us.to_le_bytes());
        put(256, &self.written_us.to_le_bytes());
        put(HOLDER_OFFSET, text);
        let sum = checksum::of(&slot[..CHECKSUM_OFFSET]);
        slot[CHECKSUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
        debug_assert!(Self::decode(&slot).is_some(), "what is written can be read back");
        slot
    }

    /// The text of a valid slot.
    fn text_in(slot: &[u8]) -> Option<&[u8]> {
        let number = |offset: usize| u64::from_le_bytes(array(slot, offset));
        let major = u16::from_le_bytes(array(slot, 6));
        if !slot.starts_with(MAGIC) || major != MAJOR || !checksum_fits(slot) || slot[40] > 2 {
            return None;
        }
        // Seq, fence, ceiling, confirmed, generation: nobody counts this far, and they must not wrap.
        if [8, 16, 24, 32, 120].iter().any(|offset| number(*offset) > NUMBER_MAX) {
            return None;
        }
        let length = usize::from(u16::from_le_bytes(array(slot, 42)));
        slot.get(HOLDER_OFFSET..HOLDER_OFFSET + length)
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let number = |offset: usize| u64::from_le_bytes(array(slot, offset));
        let text = Self::text_in(slot)?;
        let state = match slot[40] {
            0 => State::Free,
            1 => State::Held,
            _ => State::Leased,
        };
        Some(Self {
            seq: number(8),
            fence: number(16),
            ceiling: number(24),
            // More than was reserved was not confirmed by tenure.
            confirmed: if number(32) <= number(24) { number(32) } else { 0 },
            state,
            left: slot[41] & 2 == 2,
            journal: slot[41] & 4 == 4,
            history: u16::from_le_bytes(array(slot, 144)),
            since_us: number(48),
            boot: array(slot, 56),
            file: FileId { dev: number(72), ino: number(80) },
            file_born_us: number(248),
            written_us: number(256),
            lease: LeaseTerms {
                token: array(slot, 88),
                ttl_us: number(104),
                expires_us: number(112),
            },
            published: Published::of(slot),
            pending: (number(208), array(slot, 216)),
            holder: HolderText::from(text),
            fence_published: false,
        })
    }
}

/// What both slots say of the document. The version before was true once, and says nothing of now: a caller that
/// relies on it has to know that the content it read is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Publications {
    pub(crate) last: Published,
    /// As the slot says that does not count any more.
    pub(crate) before: Option<Published>,
}

impl Publications {
    /// Reads the record for nothing else; `Err` inside is the major version of a newer format.
    pub(crate) fn load(file: &dyn Handle) -> io::Result<Result<Self, u16>> {
        Ok(match load_slots(file, Self::choose)? {
            Loaded::Record(found) => Ok(found),
            Loaded::Empty | Loaded::Garbage => Ok(Self::default()),
            Loaded::Newer(major) => Err(major),
        })
    }

    fn choose(bytes: &[u8; SLOTS_BYTES]) -> Loaded<Self> {
        let slots = match newest_first(bytes) {
            Ok(slots) => slots,
            Err(major) => return Loaded::Newer(major),
        };
        let mut said =
            slots.into_iter().filter(|slot| Record::text_in(slot).is_some()).map(Published::of);
        match said.next() {
            Some(last) => Loaded::Record(Self { last, before: said.find(|older| *older != last) }),
            None => Loaded::none_in(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            seq: 7,
            fence: 11,
            ceiling: 1035,
            confirmed: 1035,
            state: State::Leased,
            left: true,
            journal: true,
            history: 9,
            since_us: 1_700_000_000_000_000,
            boot: [3; 16],
            file: FileId { dev: 5, ino: 9 },
            file_born_us: 12,
            written_us: 13,
            lease: LeaseTerms { token: [8; 16], ttl_us: 60_000_000, expires_us: 99 },
            published: Published {
                generation: 4,
                checksum: [6; 16],
                tag: 7,
                synced: Synced::Yes,
                numbered: true,
                boot: [1; 16],
            },
            pending: (9, [2; 16]),
            holder: HolderText::this_process("a \"b\"", ""),
            fence_published: false,
        }
    }

    #[test]
    fn r1_a_record_reads_back_as_it_was_written() {
        for flags in 0..24 {
            let [left, journal, numbered] = [1, 2, 4].map(|flag| flags & flag != 0);
            let synced = [Synced::Unknown, Synced::No, Synced::Yes][flags / 8];
            let published = Published { numbered, synced, ..sample().published };
            // Of every length, which stands right behind the flags.
            let holder = HolderText::this_process(&"x".repeat(flags), "");
            let record = Record { left, journal, published, holder, ..sample() };
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn r1_any_flipped_bit_makes_a_slot_invalid() {
        let slot = sample().encode();
        for bit in 0..slot.len() * 8 {
            let mut flipped = slot;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn an_overlong_holder_still_fits_the_slot() {
        let long = "\u{1F600}\"\\".repeat(400);
        let record = Record { holder: HolderText::this_process(&long, &long), ..sample() };
        let read = Record::decode(&record.encode()).map(|record| record.holder());
        assert_eq!(read.map(|holder| holder.pid), Some(std::process::id()));
    }
}
