//! What the record says of the document: what was published last, and what before that.
//!
//! # Invariants
//!
//! 1. What stood before is told only if its slot is valid. It was true once, and says nothing of now:
//!    whoever relies on it has to know that the content it read is not there any more.

use std::io;

use super::{Loaded, Record, SLOT_BYTES, SLOT_STRIDE};
use crate::fs::Handle;

/// What tenure last published as the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// Grows with every change that tenure made.
    pub(crate) generation: u64,
    pub(crate) checksum: [u8; 16],
    /// Whether the content was synced before it was published.
    pub(crate) synced: bool,
    /// The boot it was published in. The record's own boot is no help: any lock renews that.
    pub(crate) boot: [u8; 16],
}

/// What both slots say of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Publications {
    pub(crate) last: Published,
    /// As the slot says that does not count any more.
    pub(crate) before: Option<Published>,
}

impl Publications {
    /// Reads the record for nothing else; `Err` inside is the major version of a newer format.
    pub(crate) fn load(file: &dyn Handle) -> io::Result<Result<Self, u16>> {
        let (loaded, slots) = Record::load_slots(file)?;
        let last = match loaded {
            Loaded::Record(record) => record.published,
            Loaded::Empty | Loaded::Garbage => Published::default(),
            Loaded::Newer(major) => return Ok(Err(major)),
        };
        let slots = [&slots[..SLOT_BYTES], &slots[SLOT_STRIDE..]];
        let mut said = slots.into_iter().filter_map(Record::decode).map(|record| record.published);
        let before = said.find(|published| *published != last);
        Ok(Ok(Self { last, before }))
    }
}
