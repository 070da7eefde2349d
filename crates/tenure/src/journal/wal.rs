//! The log W: entries one after the other, from a fixed offset, overwritten after each checkpoint.
//!
//! # Invariants
//!
//! 1. (J3) The entries of an epoch are a chain: each starts where the one before ends and has the next
//!    number. The chain ends at the first entry that is not valid.
//! 2. An entry that counts is never overwritten before the journal and the index that contain it were
//!    synced.
//! 3. The log is filled with zeros ahead of its entries, so that a sync seldom has to write metadata.

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::sync::Arc;

use crate::fs::Handle;

use super::entry::{ENTRY_BYTES, Entry, Logged};
use super::head::Head;

/// The log grows by its own size, within these limits.
const GROWTH_BYTES: std::ops::RangeInclusive<u64> = 4096..=256 * 1024;
const ZEROS: [u8; 4096] = [0; 4096];

/// The open log.
#[derive(Debug, Clone)]
pub(super) struct Wal {
    pub(super) file: Arc<dyn Handle>,
}

/// How far a chain is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The entries that the head counts, and a direct one behind them: whoever wrote it may have died
    /// before it was counted, but after it went to the journal.
    Counted,
    /// Every valid entry: after a power loss, and for readers.
    All,
}

impl Wal {
    /// Reads the chain from entry `number` at `offset` on.
    pub(super) fn chain(
        &self,
        head: &Head,
        mut offset: u64,
        mut number: u64,
        reach: Reach,
    ) -> io::Result<Vec<Logged>> {
        let mut found = Vec::new();
        // The counted part in one read, each entry behind it on its own.
        let counted = self.file.read_range(offset, head.end.max(offset))?;
        let mut rest = counted.as_slice();
        loop {
            let beyond = number >= head.next_number();
            let logged = if let Some((logged, len)) = take_entry(rest, head, number) {
                rest = &rest[len..];
                logged
            } else {
                rest = &[];
                let Some(logged) = self.entry_at(head, offset, number)? else { return Ok(found) };
                logged
            };
            if beyond && reach == Reach::Counted && !logged.entry.is_direct() {
                return Ok(found);
            }
            offset += logged.entry.log_len();
            number += 1;
            found.push(logged);
        }
    }

    pub(super) fn entry_at(
        &self,
        head: &Head,
        offset: u64,
        number: u64,
    ) -> io::Result<Option<Logged>> {
        let mut header = [0; ENTRY_BYTES];
        if self.file.read_full_at(&mut header, offset)? < ENTRY_BYTES {
            return Ok(None);
        }
        let Some(entry) = Entry::peek(&header).filter(|entry| fits(entry, head, number)) else {
            return Ok(None);
        };
        if offset + entry.log_len() > self.file.extent()?.size {
            return Ok(None);
        }
        let bytes = self.file.read_range(offset, offset + entry.log_len())?;
        Ok(take_entry(&bytes, head, number).map(|(logged, _)| logged))
    }

    /// Writes one entry behind the last one. `bytes` is its payload behind [`ENTRY_BYTES`] free bytes.
    ///
    /// A crash before, during or after it leaves the entries before it; the entry itself counts only
    /// with the next head, or, if it is direct, once the journal has grown.
    pub(super) fn write(&self, head: &mut Head, entry: &Entry, bytes: &mut [u8]) -> io::Result<()> {
        entry.seal(bytes, head.salt);
        let end = head.end + bytes.len() as u64;
        self.grow(head, end)?;
        self.file.write_all_at(bytes, head.end)
    }

    /// Makes room with real zeros; a full disk is noticed here, before anything is promised.
    fn grow(&self, head: &mut Head, end: u64) -> io::Result<()> {
        while head.room < end {
            let step = head.room.clamp(*GROWTH_BYTES.start(), *GROWTH_BYTES.end());
            if end - head.room > step {
                // The entry itself fills this much.
                head.room = end;
                break;
            }
            let until = head.room + step;
            while head.room < until {
                let len = (until - head.room).min(ZEROS.len() as u64);
                #[expect(clippy::cast_possible_truncation, reason = "at most one page")]
                self.file.write_all_at(&ZEROS[..len as usize], head.room)?;
                head.room += len;
            }
        }
        Ok(())
    }

    /// Writes an anchor and makes it durable, with everything that is in the log. A crash before the
    /// end of the sync leaves the anchor before, or this one, which then counts only once it is synced.
    pub(super) fn anchor(&self, head: &mut Head) -> io::Result<()> {
        head.anchor(self.file.as_ref())?;
        self.settle_anchor(head)
    }

    /// Syncs the anchor that the head was read from, or written to.
    pub(super) fn settle_anchor(&self, head: &mut Head) -> io::Result<()> {
        let synced = self.file.sync();
        if synced.is_err() {
            let _ = self.rewrite(head); // It stays unsynced: whoever comes next does this again.
        }
        synced?;
        head.unsynced = false;
        let _ = head.store(self.file.as_ref()); // It only saves the next one a sync.
        Ok(())
    }

    /// Writes the entries again where they are: after a failed sync the kernel may believe that its
    /// pages are clean, and the next sync would succeed without writing them.
    pub(super) fn rewrite(&self, head: &Head) -> io::Result<()> {
        let bytes = self.file.read_range(0, head.end)?;
        self.file.write_all_at(&bytes, 0)
    }
}

/// The entry at the start of `bytes`, if it is the expected one and whole.
fn take_entry(bytes: &[u8], head: &Head, number: u64) -> Option<(Logged, usize)> {
    let entry = Entry::peek(bytes).filter(|entry| fits(entry, head, number))?;
    let len = usize::try_from(entry.log_len()).ok()?;
    let bytes = bytes.get(..len).filter(|bytes| Entry::is_sound(bytes, head.salt))?;
    Some((Logged { entry, payload: bytes[ENTRY_BYTES..].to_vec() }, len))
}

fn fits(entry: &Entry, head: &Head, number: u64) -> bool {
    entry.epoch == head.epoch && entry.number == number
}
