//! What the record says of the document: what was published last, and what before that.
//!
//! # Invariants
//!
//! 1. What stood before is told only if its slot is valid. It was true once, and says nothing of now:
//!    whoever relies on it has to know that the content it read is not there any more.

use std::io;

use super::slots::{load_slots, newest_first};
use super::{Loaded, Record, SLOTS_BYTES, array};
use crate::fs::Handle;

/// What tenure last published as the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// Grows with every change that tenure made.
    pub(crate) generation: u64,
    pub(crate) checksum: [u8; 16],
    /// Of the very file: somebody else may write the same bytes, and not sync them.
    pub(crate) tag: u32,
    /// Whether the content was synced before it was published.
    pub(crate) synced: bool,
    /// A sync of what is in the document's place has begun in this boot, and failed or died, and nothing was
    /// published since. What the kernel could not write counts as written since then: no other sync of that file
    /// can be believed, whatever else is written to it.
    pub(crate) failed: bool,
    /// The boot it was published in, if that is known. The record's own boot is no help: any lock renews
    /// that.
    pub(crate) boot: [u8; 16],
    /// Somebody of this boot has written down what was done: that stays so if it is not known when the content was
    /// published.
    pub(crate) settled: bool,
}

/// What both slots say of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Publications {
    pub(crate) last: Published,
    /// As the slot says that does not count any more.
    pub(crate) before: Option<Published>,
}

impl Published {
    /// The numbers of a boot start at the clock: those that a power loss may have taken back do not come
    /// again. Nor do those of a record that was copied or put back (its boot is not known): the notes of
    /// the shared sync may be newer, and tell of numbers that it has not `reach`ed.
    pub(crate) fn begin_above(&mut self, reach: u64) {
        self.generation = self.generation.max(crate::sys::wall_time_us()).max(reach);
    }

    /// Whether no power loss can have taken back what the record remembers as done.
    pub(crate) fn is_of(&self, boot: [u8; 16]) -> bool {
        self.boot == boot || self.settled
    }

    /// It may be of another boot, or of another file.
    pub(crate) fn doubt(&mut self) {
        (self.boot, self.settled) = (Default::default(), false);
    }

    /// As a valid slot says.
    pub(super) fn of(slot: &[u8]) -> Self {
        Self {
            generation: u64::from_le_bytes(array(slot, 120)),
            checksum: array(slot, 128),
            tag: u32::from_le_bytes(array(slot, 44)),
            synced: slot[41] & 1 == 1,
            failed: slot[41] & 8 == 8,
            settled: slot[41] & 16 == 16,
            boot: array(slot, 232),
        }
    }
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
