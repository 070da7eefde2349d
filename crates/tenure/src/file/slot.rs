//! Two slots in a file, written in turn.
//!
//! A slot is `[magic, major version,] turn, body, checksum`.
//!
//! # Invariants
//!
//! 1. A slot is valid if and only if its magic, version and checksum fit and no count in it is absurd. Of
//!    two valid slots the one with the larger turn counts. One of a newer version counts as valid, and is refused.
//! 2. A write goes to the slot that does not count. A crash before or inside it leaves the other slot.
//! 3. That both slots are invalid is believed only after the same bytes were read twice: two writes
//!    during one read can tear both.

use std::io;

use crate::file::layout::{Layout, Magic, Sealed, Take, open, seal, sealing_bytes};
use crate::fs::Handle;

/// Where the two slots of a file are, and what each begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubleSlot {
    first: u64,
    second: u64,
    magic: Option<Magic>,
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
const TURN_BYTES: usize = 8;

impl DoubleSlot {
    pub(crate) const fn at(first: u64, second: u64) -> Self {
        Self { first, second, magic: None }
    }

    pub(crate) const fn with_magic(self, magic: Magic) -> Self {
        Self { magic: Some(magic), ..self }
    }

    /// The newest valid body and its turn; `None` if neither slot is valid.
    pub(crate) fn load<T: Layout>(&self, file: &dyn Handle) -> io::Result<Option<(u64, T)>> {
        let mut bytes = vec![0; self.distance() + self.slot_bytes::<T>()];
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
        let [one, other] = [&bytes[..self.slot_bytes::<T>()], &bytes[self.distance()..]];
        let is_newer = turn_of::<T>(one) > turn_of::<T>(other);
        let [newer, older] = if is_newer { [one, other] } else { [other, one] };
        for slot in [newer, older] {
            match open(slot, self.magic, |take| (take.count(), T::take(take))) {
                Sealed::Valid((turn, body)) => {
                    return Loaded::Valid { turn, body, older: turn_of::<T>(older) };
                }
                Sealed::Newer(major) => return Loaded::Newer(major),
                Sealed::Invalid => {}
            }
        }
        if bytes.iter().all(|byte| *byte == 0) { Loaded::Empty } else { Loaded::Garbage }
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
        let slot = &mut slot[..self.slot_bytes::<T>()];
        let is_sane = seal(slot, self.magic, |fill| {
            fill.count(turn);
            body.put(fill);
        });
        if !is_sane {
            let why = "a number in it is at its end";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        file.write_all_at(slot, if turn % 2 == 0 { self.first } else { self.second })
    }

    fn distance(&self) -> usize {
        usize::try_from(self.second - self.first).unwrap_or(0)
    }

    fn slot_bytes<T: Layout>(&self) -> usize {
        TURN_BYTES + T::BYTES + sealing_bytes(self.magic)
    }
}

/// The turn that a slot claims to have, whether or not it is valid.
fn turn_of<T: Layout>(slot: &[u8]) -> u64 {
    let at = slot.len() - T::BYTES - TURN_BYTES - sealing_bytes(None);
    Take::new(&slot[at..]).u64()
}
