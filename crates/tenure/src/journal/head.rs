//! The head of the log W: where the log stands, and which journal it belongs to.
//!
//! It is kept twice, for two kinds of crash. *Anchors* survive a power loss: one is written and synced
//! when an epoch or an intent begins. *Hints* follow every write and are never synced on purpose:
//! they are right as long as the machine runs, whatever processes die.
//!
//! # Invariants
//!
//! 1. (J1) Which slots are valid is said in `slots.rs`. There are two anchors and two hints; a write goes to the older of its kind, so a crash at any
//!    byte of it leaves the other. An anchor is synced before anything relies on it.
//! 2. It is written only under the commit lock.
//! 3. If the slot with the largest `turn` is of this boot, it counts. Otherwise the newest anchor
//!    does, and of it only what was true when it was written: the entries are read again.

#[cfg(test)]
mod tests;

use std::io;

use crate::checksum;
use crate::fs::{FileId, Handle};
use crate::record::MAJOR;

use super::layout::{Fill, Take};
use super::slots::{ANCHORS_AT, CHECKSUM_AT, HINTS_AT, MAGIC, Mark, SLOT_BYTES};

/// Entries start here, behind the slots.
pub(super) const ENTRIES_AT: u64 = 12288;
/// How many finished operations are remembered.
pub(super) const OPERATIONS: usize = 8;

/// A finished operation and the entries that it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) first: u64,
    pub(super) lines: u64,
}

/// A file that was the journal before: a rotated or compacted one. Whoever still has it open may
/// append to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Displaced {
    pub(super) file: FileId,
    /// What lies before this offset is in the journal already.
    pub(super) end: u64,
    /// The number of the archive; 0 for the one that a compaction displaced.
    pub(super) archive: u64,
}

/// A new file is about to become the journal. Written down and synced before the first rename, so
/// that the next critical section can finish what a crash interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Intent {
    pub(super) old: FileId,
    pub(super) new: FileId,
    /// The temporary names of the new journal and of its index.
    pub(super) journal_temp: u64,
    pub(super) index_temp: u64,
    /// Where the old file goes; 0: it is set aside as `displaced`.
    pub(super) archive: u64,
    /// The old file's length as far as it is in the new one, or indexed.
    pub(super) old_end: u64,
    pub(super) new_end: u64,
    pub(super) generation: u64,
    pub(super) index_len: u64,
    pub(super) next_seq: u64,
    /// An operation that is done when the new file is published.
    pub(super) operation: Operation,
}

/// Where entries are that bytes of others have overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Shift {
    pub(super) number: u64,
    pub(super) at: u64,
}

/// How far everything is durable, while the log was emptied without a sync since its last anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unanchored {
    /// Of the journal.
    pub(super) base: u64,
    /// Records of the index.
    pub(super) index_len: u64,
}

/// Numbers of entries that were counted, and could not be read when they were to be let in: a failed
/// sync, or somebody else, took them. A number never comes again, so whoever waits for one of these
/// finds it here, however long it waits. One range holds all losses: it may cover entries in between
/// that are fine, and never misses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lost {
    /// 0: there are none.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Numbers below this are of a log that is gone. What became of them is not known.
    pub(super) since: u64,
}

impl Lost {
    pub(super) fn has(&self, number: u64) -> bool {
        let in_range = self.first > 0 && (self.first..=self.last).contains(&number);
        in_range || number < self.since
    }

    fn add(&mut self, first: u64, last: u64) {
        self.first = if self.first == 0 { first } else { self.first.min(first) };
        self.last = self.last.max(last);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags of one slot")]
pub(super) struct Head {
    pub(super) turn: u64,
    /// How many anchors there were.
    pub(super) anchors: u64,
    pub(super) epoch: u64,
    /// Seeds the checksums of this epoch's entries.
    pub(super) salt: u64,
    /// The index that belongs to it has the same.
    pub(super) generation: u64,
    /// The log itself; a copy elsewhere does not match.
    pub(super) file: FileId,
    pub(super) journal: FileId,
    pub(super) boot: [u8; 16],
    /// Where the epoch's first entry is in the journal, its sequence number, its number.
    pub(super) base: u64,
    pub(super) base_seq: u64,
    pub(super) first_number: u64,
    /// Entries in the log, and where the next one goes.
    pub(super) entries: u64,
    pub(super) end: u64,
    /// Entries that are in the journal, and where the next one is in the log.
    pub(super) applied: u64,
    pub(super) applied_end: u64,
    /// The journal's length when `applied` entries are in it.
    pub(super) journal_end: u64,
    pub(super) next_seq: u64,
    /// Bytes of the next entry that are known to be in the journal (a full disk).
    pub(super) partial: u64,
    /// The log is filled with zeros up to here.
    pub(super) room: u64,
    /// Records of the index that are complete.
    pub(super) index_len: u64,
    /// The bytes right before `base`, to recognise another journal.
    pub(super) tail_sum: u64,
    /// The newest archive; 0 is none.
    pub(super) archive: u64,
    /// Bytes of others came first: from this entry on (0 is none), the log continues at that offset
    /// of the journal.
    pub(super) shift: Shift,
    /// Writing the next entries to the journal may have begun.
    pub(super) begun: bool,
    /// This anchor may not have been synced yet. The hint after its sync takes that back.
    pub(super) unsynced: bool,
    /// The names of journal and log are durable.
    pub(super) names_synced: bool,
    /// The journal ends in an unterminated line of somebody else; the next batch closes it.
    pub(super) open_tail: bool,
    /// An entry of this epoch has to survive a power loss.
    pub(super) promised: bool,
    pub(super) unanchored: Option<Unanchored>,
    pub(super) displaced: Option<Displaced>,
    pub(super) intent: Option<Intent>,
    pub(super) operations: [Operation; OPERATIONS],
    pub(super) lost: Lost,
    /// The sequence number of the first entry that is not in the journal; of no meaning if all are.
    pub(super) pending_seq: u64,
}

impl Head {
    /// It is of this boot from now on. In another boot a device may have another number: the journal and
    /// the log are these files, if their inodes are the same.
    pub(super) fn enter(&mut self, boot: [u8; 16], (journal, file): (FileId, FileId)) {
        let other = std::mem::replace(&mut self.boot, boot) != boot;
        let same = |known: FileId, found: FileId| other && found.ino == known.ino;
        let now = |known, found| if same(known, found) { found } else { known };
        (self.journal, self.file) = (now(self.journal, journal), now(self.file, file));
    }

    /// Writes the head as a hint. A crash of the process before it leaves the hint before.
    pub(super) fn store(&mut self, file: &dyn Handle) -> io::Result<Mark> {
        self.turn += 1;
        let slot = self.encode();
        file.write_all_at(&slot, HINTS_AT[usize::from(self.turn % 2 == 1)] as u64)?;
        Ok(Mark::of(&slot))
    }

    /// Writes the head as an anchor. A crash before it is synced leaves the anchor before, or this one.
    pub(super) fn anchor(&mut self, file: &dyn Handle) -> io::Result<()> {
        self.turn += 1;
        self.anchors += 1;
        self.unsynced = true;
        self.unanchored = None;
        file.write_all_at(&self.encode(), ANCHORS_AT[usize::from(self.anchors % 2 == 1)] as u64)
    }

    /// The number of the next entry.
    pub(super) fn next_number(&self) -> u64 {
        self.first_number + self.entries
    }

    pub(super) fn has_pending(&self) -> bool {
        self.applied < self.entries
    }

    /// Whether entry `number` is in the journal, if it is not lost.
    pub(super) fn has_applied(&self, number: u64) -> bool {
        self.first_number + self.applied > number
    }

    /// Gives up the entries that are counted from `number` on, whose lines begin at `seq`. What they
    /// were to do is not done, so it can be repeated. (A log of an older version does not say where
    /// they begin: then nothing is forgotten.)
    pub(super) fn lose(&mut self, number: u64, seq: u64) {
        self.lost.add(number, self.next_number() - 1);
        let was_lost = |operation: &Operation| seq > 0 && operation.first >= seq;
        for operation in self.operations.iter_mut().filter(|operation| was_lost(operation)) {
            *operation = Operation::default();
        }
    }

    pub(super) fn finished(&self, id: u64) -> Option<Operation> {
        self.operations.iter().copied().find(|operation| id != 0 && operation.id == id)
    }

    pub(super) fn remember(&mut self, operation: Operation) {
        if operation.id != 0 && self.finished(operation.id).is_none() {
            self.operations.rotate_left(1);
            self.operations[OPERATIONS - 1] = operation;
        }
    }

    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let mut fill = Fill::new(&mut slot);
        fill.raw(MAGIC);
        fill.u16(MAJOR);
        fill.u64(self.turn);
        fill.u64(self.anchors);
        fill.u64(self.epoch);
        fill.u64(self.salt);
        fill.u64(self.generation);
        put_id(&mut fill, self.file);
        put_id(&mut fill, self.journal);
        fill.raw(&self.boot);
        for number in [
            self.base,
            self.base_seq,
            self.first_number,
            self.entries,
            self.end,
            self.applied,
            self.applied_end,
            self.journal_end,
            self.next_seq,
            self.partial,
            self.room,
            self.index_len,
            self.tail_sum,
            self.archive,
            self.shift.number,
            self.shift.at,
        ] {
            fill.u64(number);
        }
        let flags = [
            self.begun,
            self.names_synced,
            self.displaced.is_some(),
            self.intent.is_some(),
            self.open_tail,
            self.unsynced,
            self.promised,
            self.unanchored.is_some(),
        ];
        fill.u64(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag)));
        let displaced = self.displaced.unwrap_or_default();
        put_id(&mut fill, displaced.file);
        fill.u64(displaced.end);
        fill.u64(displaced.archive);
        put_intent(&mut fill, &self.intent.unwrap_or_default());
        for operation in self.operations {
            put_operation(&mut fill, operation);
        }
        let unanchored = self.unanchored.unwrap_or_default();
        fill.u64(unanchored.base);
        fill.u64(unanchored.index_len);
        fill.u64(self.lost.first);
        fill.u64(self.lost.last);
        fill.u64(self.pending_seq);
        fill.u64(self.lost.since);
        let sum = checksum::of(&slot[..CHECKSUM_AT]);
        slot[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        debug_assert!(decode(&slot).is_none_or(|read| read == *self), "it can be read back");
        slot
    }
}

fn put_id(fill: &mut Fill<'_>, id: FileId) {
    fill.u64(id.dev);
    fill.u64(id.ino);
}

fn put_operation(fill: &mut Fill<'_>, operation: Operation) {
    fill.u64(operation.id);
    fill.u64(operation.first);
    fill.u64(operation.lines);
}

fn put_intent(fill: &mut Fill<'_>, intent: &Intent) {
    put_id(fill, intent.old);
    put_id(fill, intent.new);
    for number in [
        intent.journal_temp,
        intent.index_temp,
        intent.archive,
        intent.old_end,
        intent.new_end,
        intent.generation,
        intent.index_len,
        intent.next_seq,
    ] {
        fill.u64(number);
    }
    put_operation(fill, intent.operation);
}

fn take_id(take: &mut Take<'_>) -> FileId {
    FileId { dev: take.u64(), ino: take.u64() }
}

fn take_operation(take: &mut Take<'_>) -> Operation {
    Operation { id: take.u64(), first: take.count(), lines: take.count() }
}

fn take_intent(take: &mut Take<'_>) -> Intent {
    Intent {
        old: take_id(take),
        new: take_id(take),
        journal_temp: take.count(),
        index_temp: take.count(),
        archive: take.count(),
        old_end: take.count(),
        new_end: take.count(),
        generation: take.u64(),
        index_len: take.count(),
        next_seq: take.count(),
        operation: take_operation(take),
    }
}

/// `None` if it says what no tenure writes.
pub(super) fn decode(slot: &[u8]) -> Option<Head> {
    let mut take = Take::new(&slot[8..]);
    let mut head = Head {
        turn: take.count(),
        anchors: take.count(),
        epoch: take.count(),
        salt: take.u64(),
        generation: take.u64(),
        file: take_id(&mut take),
        journal: take_id(&mut take),
        boot: take.raw(),
        base: take.count(),
        base_seq: take.count(),
        first_number: take.count(),
        entries: take.count(),
        end: take.count(),
        applied: take.count(),
        applied_end: take.count(),
        journal_end: take.count(),
        next_seq: take.count(),
        partial: take.count(),
        room: take.count(),
        index_len: take.count(),
        tail_sum: take.u64(),
        archive: take.count(),
        shift: Shift { number: take.count(), at: take.count() },
        ..Head::default()
    };
    let flags = take.u64();
    let has = |bit: u32| flags >> bit & 1 == 1;
    (head.begun, head.names_synced, head.open_tail) = (has(0), has(1), has(4));
    (head.unsynced, head.promised) = (has(5), has(6));
    let displaced =
        Displaced { file: take_id(&mut take), end: take.count(), archive: take.count() };
    head.displaced = has(2).then_some(displaced);
    let intent = take_intent(&mut take);
    head.intent = has(3).then_some(intent);
    head.operations = std::array::from_fn(|_| take_operation(&mut take));
    let unanchored = Unanchored { base: take.count(), index_len: take.count() };
    head.unanchored = has(7).then_some(unanchored);
    (head.lost.first, head.lost.last) = (take.count(), take.count());
    (head.pending_seq, head.lost.since) = (take.count(), take.count());
    take.could_be().then_some(head)
}
