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
use crate::file::layout::{Fill, Layout, Take, newer_format};
use crate::file::marks::Mark;
use crate::file::slot::{DoubleSlot, Loaded};
use crate::file::target::Target;
use crate::fs::{FileId, Handle};
use crate::holder::{HoldKind, Holder, HolderText};

/// Byte 0 of the file is the lock (a mandatory range on Windows), so the slots stay clear of it, and of
/// each other's page. The marks are between them.
const SLOTS: DoubleSlot = DoubleSlot::at(SLOT_OFFSET, 8192);
const SLOT_OFFSET: u64 = 4096;
const SLOTS_BYTES: usize = 4096 + 1024;
/// Two more slots, each on a page of its own, for what was reserved.
const RESERVED: DoubleSlot = DoubleSlot::at(12288, 16384);
/// Room for the text of the holder.
const HOLDER_BYTES: usize = 752;
/// Not used, in the middle of a slot.
const FREE_BYTES: usize = 62;
/// Flags of a slot.
const SYNCED: u8 = 1;
const LEFT: u8 = 2;
const JOURNAL: u8 = 4;
const NOT_SYNCED: u8 = 8;
const NUMBERED: u8 = 16;

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

/// A lease as it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeaseTerms {
    /// Checksum of the token; the token itself is never written down.
    pub(crate) token: [u8; 16],
    pub(crate) ttl_us: u64,
    /// On the boot clock of `boot`.
    pub(crate) expires_us: u64,
}

/// What tenure last published as the document, or found in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// Grows with every change that tenure made.
    pub(crate) generation: u64,
    /// No larger generation was given out before. Not known of a record of another boot, or of one that
    /// was copied or restored.
    pub(crate) numbered: bool,
    pub(crate) checksum: [u8; 16],
    /// Of the very file: another program may write the same bytes, and not sync them. 0: there was no
    /// document.
    pub(crate) tag: u32,
    pub(crate) synced: Synced,
    /// The boot in which tenure published it or found it whole, if that is known. The record's own boot is
    /// no help: any lock renews that.
    pub(crate) boot: [u8; 16],
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
    /// There is a journal, whose log may hold batches that are not in it yet.
    pub(crate) journal: bool,
    /// So many versions of the document are kept besides `.good`.
    pub(crate) history: u16,
    pub(crate) since_us: u64,
    pub(crate) boot: [u8; 16],
    /// The commit file that this was written into; a copy elsewhere does not match.
    pub(crate) file: FileId,
    /// When that file was born: its number may have been given out again.
    pub(crate) file_born_us: u64,
    /// When this was written, on the wall clock. A file that changed later was written by another program:
    /// an older record was restored in place.
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

impl Layout for Record {
    const SLOT_MAGIC: Option<[u8; 6]> = Some(*b"tenure");
    const BYTES: usize = 1000;

    fn put(&self, fill: &mut Fill<'_>) {
        let published = &self.published;
        let synced = match published.synced {
            Synced::Unknown => 0,
            Synced::No => NOT_SYNCED,
            Synced::Yes => SYNCED,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let text = self.holder.as_bytes();
        let text = if text.len() <= HOLDER_BYTES { text } else { b"" };
        for count in [self.fence, self.ceiling, self.confirmed] {
            fill.count(count);
        }
        fill.raw(&[
            match self.state {
                State::Free => 0,
                State::Held => 1,
                State::Leased => 2,
            },
            synced
                | flag(self.left, LEFT)
                | flag(self.journal, JOURNAL)
                | flag(published.numbered, NUMBERED),
        ]);
        #[expect(clippy::cast_possible_truncation, reason = "it fits the slot")]
        fill.u16(text.len() as u16);
        fill.u32(published.tag);
        fill.u64(self.since_us);
        fill.raw(&self.boot);
        fill.u64(self.file.dev);
        fill.u64(self.file.ino);
        fill.raw(&self.lease.token);
        fill.u64(self.lease.ttl_us);
        fill.u64(self.lease.expires_us);
        fill.count(published.generation);
        fill.raw(&published.checksum);
        fill.u16(self.history);
        fill.raw(&[0; FREE_BYTES]);
        fill.u64(self.pending.0);
        fill.raw(&self.pending.1);
        fill.raw(&published.boot);
        fill.u64(self.file_born_us);
        fill.u64(self.written_us);
        fill.raw(text);
    }

    fn take(take: &mut Take<'_>) -> Self {
        // In the order of the slot.
        let (fence, ceiling, confirmed) = (take.count(), take.count(), take.count());
        let [state, flags] = take.raw();
        take.refuse_if(state > 2);
        let (text_len, tag) = (take.u16(), take.u32());
        let (since_us, boot) = (take.u64(), take.raw());
        let file = FileId { dev: take.u64(), ino: take.u64() };
        let lease = LeaseTerms { token: take.raw(), ttl_us: take.u64(), expires_us: take.u64() };
        let (generation, checksum) = (take.count(), take.raw());
        let history = take.u16();
        let _free: [u8; FREE_BYTES] = take.raw();
        let pending = (take.u64(), take.raw());
        let published_boot = take.raw();
        let (file_born_us, written_us) = (take.u64(), take.u64());
        let holder = HolderText::from(take.bytes(text_len.into()));
        let synced = match flags & (SYNCED | NOT_SYNCED) {
            SYNCED => Synced::Yes,
            NOT_SYNCED => Synced::No,
            _ => Synced::Unknown,
        };
        let numbered = flags & NUMBERED != 0;
        Self {
            seq: 0,
            fence,
            ceiling,
            // More than was reserved was not confirmed by tenure.
            confirmed: if confirmed <= ceiling { confirmed } else { 0 },
            state: [State::Free, State::Held, State::Leased][usize::from(state.min(2))],
            left: flags & LEFT != 0,
            journal: flags & JOURNAL != 0,
            history,
            since_us,
            boot,
            file,
            file_born_us,
            written_us,
            lease,
            published: Published {
                generation,
                numbered,
                checksum,
                tag,
                synced,
                boot: published_boot,
            },
            pending,
            holder,
            fence_published: false,
        }
    }
}

#[cfg(test)]
mod tests;
