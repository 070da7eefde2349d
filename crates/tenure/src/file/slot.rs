//! Two slots in a file, written in turn.
//!
//! A slot is `[magic, major version,] turn, body, checksum`.
//!
//! # Invariants
//!
//! 1. A slot is valid if and only if its magic, version and checksum fit and no count in it is absurd. Of
//!    two valid slots the one with the larger turn counts.
//! 2. A write goes to the slot that does not count. A crash before or inside it leaves the other slot.
//! 3. That both slots are invalid is believed only after the same bytes were read twice: two writes
//!    during one read can tear both.

use std::io;

use crate::checksum;
use crate::file::layout::{Fill, Layout, MAJOR, Take};
use crate::fs::Handle;

/// Where the two slots of a file are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubleSlot {
    first: u64,
    second: u64,
}

/// What reading both slots gave.
#[derive(Debug)]
pub(crate) enum Loaded<T> {
    /// The newest valid body, its turn, and the turn that the older slot claims to have.
    Valid { turn: u64, body: T, older: u64 },
    /// Nothing was written yet.
    Empty,
    /// Something is there, but no slot is valid.
    Garbage,
    /// A newer major version wrote it.
    Newer(u16),
}

/// No slot is longer.
const SLOT_BYTES_MAX: usize = 1024;
const MAGIC_BYTES: usize = 8;
const TURN_BYTES: usize = 8;
const SUM_BYTES: usize = 8;

impl DoubleSlot {
    pub(crate) const fn at(first: u64, second: u64) -> Self {
        Self { first, second }
    }

    /// The newest valid body and its turn; `None` if neither slot is valid.
    pub(crate) fn load<T: Layout>(&self, file: &dyn Handle) -> io::Result<Option<(u64, T)>> {
        let mut bytes = vec![0; self.distance() + slot_bytes::<T>()];
        Ok(match self.read(file, &mut bytes)? {
            Loaded::Valid { turn, body, .. } => Some((turn, body)),
            Loaded::Empty | Loaded::Garbage | Loaded::Newer(_) => None,
        })
    }

    /// Reads both slots, and what is between them, into `bytes`, which are zeros.
    pub(crate) fn read<T: Layout>(
        &self,
        file: &dyn Handle,
        bytes: &mut [u8],
    ) -> io::Result<Loaded<T>> {
        file.read_full_at(bytes, self.first)?;
        loop {
            let loaded = self.choose(bytes);
            if !matches!(loaded, Loaded::Garbage) {
                return Ok(loaded);
            }
            let mut again = vec![0; bytes.len()];
            file.read_full_at(&mut again, self.first)?;
            if again == bytes {
                return Ok(loaded);
            }
            bytes.copy_from_slice(&again);
        }
    }

    fn choose<T: Layout>(&self, bytes: &[u8]) -> Loaded<T> {
        let [one, other] = [&bytes[..slot_bytes::<T>()], &bytes[self.distance()..]];
        let is_newer = turn_of::<T>(one) > turn_of::<T>(other);
        let slots = if is_newer { [one, other] } else { [other, one] };
        if let Some(major) = slots.into_iter().find_map(newer_major::<T>) {
            return Loaded::Newer(major);
        }
        let older = turn_of::<T>(slots[1]);
        match slots.into_iter().find_map(decode) {
            Some((turn, body)) => Loaded::Valid { turn, body, older },
            None if bytes.iter().all(|byte| *byte == 0) => Loaded::Empty,
            None => Loaded::Garbage,
        }
    }

    /// Writes `body` under `turn`, which is one more than the newest. A body that could not be read
    /// back is refused: the previous one would count again.
    pub(crate) fn store<T: Layout>(
        &self,
        file: &dyn Handle,
        turn: u64,
        body: &T,
    ) -> io::Result<()> {
        let mut slot = [0; SLOT_BYTES_MAX];
        let slot = &mut slot[..slot_bytes::<T>()];
        let mut fill = Fill::new(slot);
        if let Some(magic) = T::SLOT_MAGIC {
            fill.raw(&magic);
            fill.u16(MAJOR);
        }
        fill.count(turn);
        body.put(&mut fill);
        if !fill.is_sane() {
            let why = "a number in it is at its end";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let (said, sum) = slot.split_at_mut(slot.len() - SUM_BYTES);
        sum.copy_from_slice(&checksum::of(said).to_le_bytes());
        file.write_all_at(slot, if turn % 2 == 0 { self.first } else { self.second })
    }

    fn distance(&self) -> usize {
        usize::try_from(self.second - self.first).unwrap_or(0)
    }
}

const fn magic_bytes<T: Layout>() -> usize {
    if T::SLOT_MAGIC.is_some() { MAGIC_BYTES } else { 0 }
}

const fn slot_bytes<T: Layout>() -> usize {
    magic_bytes::<T>() + TURN_BYTES + T::BYTES + SUM_BYTES
}

fn turn_of<T: Layout>(slot: &[u8]) -> u64 {
    Take::new(&slot[magic_bytes::<T>()..]).u64()
}

/// The major version of a newer format.
fn newer_major<T: Layout>(slot: &[u8]) -> Option<u16> {
    let magic = T::SLOT_MAGIC?;
    let major = Take::new(&slot[magic.len()..]).u16();
    (slot.starts_with(&magic) && major > MAJOR && sum_fits(slot)).then_some(major)
}

fn decode<T: Layout>(slot: &[u8]) -> Option<(u64, T)> {
    let mut take = Take::new(&slot[..slot.len() - SUM_BYTES]);
    if let Some(magic) = T::SLOT_MAGIC {
        let is_ours = take.raw() == magic && take.u16() == MAJOR;
        take.refuse_if(!is_ours);
    }
    let turn = take.count();
    if !take.is_sane() || !sum_fits(slot) {
        return None;
    }
    let body = T::take(&mut take);
    take.is_sane().then_some((turn, body))
}

fn sum_fits(slot: &[u8]) -> bool {
    let (said, sum) = slot.split_at(slot.len() - SUM_BYTES);
    sum == checksum::of(said).to_le_bytes().as_slice()
}
