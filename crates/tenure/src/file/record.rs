//! The record of a target: its fence, who holds it, its lease, and what its document was last.
//!
//! It lives in the commit file, in two slots of which the newer valid one counts, so that a crash at
//! any byte of a write leaves the other slot (see docs/FORMAT.md, R1-R4).
//!
//! # Invariants
//!
//! 1. A slot is valid if and only if its magic and major version are ours and its checksum fits. Of
//!    two valid slots the one with the larger `seq` counts. A write goes to the other slot.
//! 2. It is written only by the holder of the exclusive hold while the state is `Free`, or by the
//!    holder of the exclusive commit lock.
//! 3. `fence <= confirmed`, and `confirmed` was synced, name included, before it was written; so a
//!    record that a power loss took back still has a `ceiling` above every fence ever handed out. A copy
//!    of it is kept apart, where nothing is written without a sync: a power loss can tear both slots.
//! 4. It informs and fences; it never decides who holds a lock. The kernel does.

use std::io;
use std::path::Path;

use crate::error::Result;
use crate::file::layout::{Fill, Layout, Magic, Take, layout, newer_format};
use crate::file::marks::Mark;
use crate::file::slot::{DoubleSlot, Loaded};
use crate::file::target::Target;
use crate::fs::{FileId, Handle};
use crate::holder::{HoldKind, Holder, HolderText};

/// Byte 0 of the file is the lock (a mandatory range on Windows), so the slots stay clear of it, and of
/// each other's page. The marks are between them.
const SLOTS: DoubleSlot = DoubleSlot::at(SLOT_OFFSET, 8192).with_magic(MAGIC);
const SLOT_OFFSET: u64 = 4096;
const SLOTS_BYTES: usize = 4096 + 1024;
/// Two more slots, each on a page of its own, for what was reserved.
const RESERVED: DoubleSlot = DoubleSlot::at(12288, 16384).with_magic(MAGIC);
const MAGIC: Magic = *b"tenure";
/// Room for the text of the holder: the rest of a slot of 1,024 bytes.
const HOLDER_BYTES: usize = 760;

/// The state of the last hold.
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

impl Layout for State {
    const BYTES: usize = 8;

    fn put(&self, fill: &mut Fill<'_>) {
        fill.u64(*self as u64);
    }

    fn take(take: &mut Take<'_>) -> Self {
        take.one_of(&[Self::Free, Self::Held, Self::Leased])
    }
}

layout! {
    /// A lease as it is on disk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct LeaseTerms {
        /// Checksum of the token; the token itself is never written down.
        pub(crate) part token: [u8; 16],
        pub(crate) bits ttl_us: u64,
        /// On the boot clock of `boot`.
        pub(crate) bits expires_us: u64,
    }
}

layout! {
    /// What tenure last published as the document, or found in its place.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Published {
        /// Grows with every change that tenure made.
        pub(crate) count generation: u64,
        /// No larger generation was given out before. Not known of a record of another boot, or of one that
        /// was copied or restored.
        pub(crate) flag numbered: bool,
        pub(crate) part checksum: [u8; 16],
        /// Of the very file: another program may write the same bytes, and not sync them. 0: there was no
        /// document.
        pub(crate) bits tag: u64,
        pub(crate) part synced: Synced,
        /// The boot in which tenure published it or found it whole, if that is known. The record's own boot is
        /// no help: any lock renews that.
        pub(crate) part boot: [u8; 16],
    }
}

layout! {
    /// An operation that is about to publish content with this checksum: done if that is there, and not remembered
    /// yet.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Pending {
        /// 0 is none.
        pub(crate) bits id: u64,
        pub(crate) part checksum: [u8; 16],
    }
}

/// Whether the content of a version was synced before it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Synced {
    /// Another program wrote it, its process died, or a sync of its name failed.
    #[default]
    Unknown,
    /// Published without a sync: the last synced version is kept as `.good`.
    No,
    /// It is on the disk before its name is.
    Yes,
}

impl Layout for Synced {
    const BYTES: usize = 8;

    fn put(&self, fill: &mut Fill<'_>) {
        fill.u64(*self as u64);
    }

    fn take(take: &mut Take<'_>) -> Self {
        take.one_of(&[Self::Unknown, Self::No, Self::Yes])
    }
}

impl Published {
    /// The number of the next change. The numbers of a boot, and those that follow a copied record, start at
    /// the clock: those that a power loss may have taken back do not come again.
    pub(crate) fn next_generation(&self, clock_us: u64) -> u64 {
        let newest = if self.numbered { 0 } else { clock_us };
        self.generation.max(newest) + 1
    }

    /// It may be of another boot, or of another file.
    pub(crate) fn doubt(&mut self) {
        (self.boot, self.numbered) = (Default::default(), false);
    }
}

layout! {
    /// One record.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub(crate) struct Record {
        pub(crate) memory seq: u64,
        /// Of the current hold, or of the last one.
        pub(crate) count fence: u64,
        /// Reserved: after a power loss the next fence is above this.
        pub(crate) count ceiling: u64,
        /// The part of `ceiling` that is known to be durable.
        pub(crate) count confirmed: u64,
        pub(crate) part state: State,
        /// The holder ended its part properly and left the lock to its children.
        pub(crate) flag left: bool,
        /// There is a journal, whose log may hold batches that are not in it yet.
        pub(crate) flag journal: bool,
        /// So many versions of the document are kept besides `.good`.
        pub(crate) bits history: u64,
        pub(crate) bits since_us: u64,
        pub(crate) part boot: [u8; 16],
        /// The commit file that this was written into; a copy elsewhere does not match.
        pub(crate) part file: FileId,
        /// When that file was born: its number may have been given out again.
        pub(crate) bits file_born_us: u64,
        /// When this was written, on the wall clock. A file that changed later was written by another program:
        /// an older record was restored in place.
        pub(crate) bits written_us: u64,
        pub(crate) part lease: LeaseTerms,
        pub(crate) part published: Published,
        pub(crate) part pending: Pending,
        pub(crate) part holder: HolderText,
        /// Whether this fence was given out: its mark says so, not the slot.
        pub(crate) memory fence_published: bool,
    }
}

impl Layout for HolderText {
    const BYTES: usize = 8 + HOLDER_BYTES;

    fn put(&self, fill: &mut Fill<'_>) {
        let text = self.as_bytes();
        let text = if text.len() <= HOLDER_BYTES { text } else { b"" };
        fill.u64(text.len() as u64);
        fill.raw(text);
        fill.raw(&[0; HOLDER_BYTES][text.len()..]);
    }

    fn take(take: &mut Take<'_>) -> Self {
        let len = take.u64();
        let room = take.bytes(HOLDER_BYTES);
        let text = usize::try_from(len).ok().and_then(|len| room.get(..len));
        take.refuse_if(text.is_none());
        Self::from(text.unwrap_or_default())
    }
}

impl Record {
    /// The newest valid record in the file at `path`, an empty one if there is none; and whether that is
    /// because no slot could be read.
    pub(crate) fn load(file: &dyn Handle, path: &Path) -> Result<(Self, bool)> {
        let mut bytes = [0; SLOTS_BYTES];
        let loaded = SLOTS.read(file, &mut bytes).map_err(Target::failed("read record", path))?;
        match loaded {
            Loaded::Valid { turn, body, older } => {
                Ok((Self::with_marks(body, turn, older, &bytes), false))
            }
            Loaded::Empty => Ok((Self::default(), false)),
            // Garbage needs no recovery: the fence starts above the clock, and the data is adopted.
            Loaded::Garbage => Ok((Self::default(), true)),
            Loaded::Newer(major) => Err(newer_format(path, major)),
        }
    }

    fn with_marks(mut self, seq: u64, older: u64, bytes: &[u8]) -> Self {
        self.seq = seq;
        // More than was reserved was not confirmed by tenure.
        if self.confirmed > self.ceiling {
            self.confirmed = 0;
        }
        // The other slot should have the record before this one. If not, it may have had a newer
        // one.
        if older.checked_add(1) != Some(seq) {
            self.confirmed = 0;
        }
        for mark in [Mark::Ended, Mark::Published] {
            let Some((fence, set_us)) = mark.read(bytes) else { continue };
            match mark {
                _ if fence > self.fence => self.confirmed = 0, // A newer record is gone.
                _ if fence < self.fence => {}
                Mark::Published => self.fence_published = true,
                Mark::Ended if self.state == State::Held => self.state = State::Free,
                Mark::Ended => {}
            }
            self.written_us = self.written_us.max(set_us);
        }
        self
    }

    /// Writes the record into the slot that does not count now. A crash before or during it leaves the
    /// other slot; after it, this one counts. If it fails, the next try overwrites the same slot.
    pub(crate) fn store(&mut self, file: &dyn Handle) -> io::Result<()> {
        SLOTS.store(file, self.seq + 1, self)?;
        self.seq += 1;
        Ok(())
    }

    /// The largest ceiling that was reserved here, whatever became of the slots.
    pub(crate) fn reserved(file: &dyn Handle) -> io::Result<u64> {
        Ok(RESERVED.load(file)?.map_or(0, |(_, record): (_, Self)| record.ceiling))
    }

    /// Writes the ceiling down apart; the caller syncs it before the next. A crash before or during it
    /// leaves the one before.
    pub(crate) fn reserve(&self, file: &dyn Handle) -> io::Result<()> {
        // The first one is in the first slot.
        let turn = RESERVED.load(file)?.map_or(1, |(turn, _): (_, Self)| turn);
        RESERVED.store(file, turn + 1, self)
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
}

#[cfg(test)]
mod tests;
