//! What those who sync together leave for each other: how far the last sync reached, and what failed.
//!
//! # Invariants
//!
//! 1. A note counts if its checksum fits. A write goes to the older of two, so one that a kill has torn
//!    leaves the one before it.
//! 2. Everything but `turn` and `generation` is of one boot, and means nothing in another.

use crate::checksum;
use crate::error::Result;
use crate::fs::Handle;
use crate::target::Target;

use super::not_durable;

/// The notes stay clear of byte 0, which is the lock. Of the leader's there are two, written in turn:
/// one that a kill has torn leaves the one before it.
pub(super) const NOTE_OFFSETS: [u64; 2] = [64, 192];
pub(super) const LATE_OFFSETS: [u64; 2] = [320, 448];
pub(super) const NOTE_BYTES: usize = 64;
/// All of them are read at once.
const NOTES_AT: u64 = NOTE_OFFSETS[0];
const NOTES_BYTES: usize = 512;
/// Nobody counts this far. A log that goes on above what a note says must have room to count.
const COUNT_MAX: u64 = 1 << 55;

/// What the last leader found out. Only page cache: after a reboot it means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) boot: [u8; 16],
    /// Of two notes the later counts.
    pub(super) turn: u64,
    pub(super) generation: u64,
    /// How far the last sync reached. In the second note: the [`Part`]s that somebody syncs inside a critical
    /// section, or died in that.
    pub(super) synced: u64,
    pub(super) failed_from: u64,
    pub(super) failed_to: u64,
    /// A write that the sync is for that is under way, or whose leader died in it; 0 is none. In the second
    /// note: how many sync on their own, or died in that.
    pub(super) began: u64,
}

/// What is synced inside a critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of a journal, with the entries that others wait for.
    Log = 1,
    /// The journal itself, behind what is durable.
    Lines = 2,
    /// Lines of the journal that a repair has written over, wherever they are.
    Repaired = 4,
}

impl Part {
    /// All that lies in the same file, and is synced with it.
    pub(super) fn with_others(self) -> &'static [Self] {
        match self {
            Self::Log => &[Self::Log],
            Self::Lines | Self::Repaired => &[Self::Lines, Self::Repaired],
        }
    }
}

/// The notes as they were at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notes {
    pub(super) leader: Found,
    /// Of those who sync on their own.
    pub(super) late: Note,
}

/// What reading a note gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Note(Note),
    /// Not a note; whether the outcome of a sync of this boot may have stood there.
    Unreadable {
        this_boot: bool,
    },
}

impl Notes {
    /// What they say about write `mine`.
    pub(super) fn answer(&self, target: &Target, mine: u64) -> Option<Result<u64>> {
        let Found::Note(note) = self.leader else { return None };
        if note.has_failed(mine) || self.late.has_failed(mine) {
            return Some(Err(not_durable(target)));
        }
        (note.synced >= mine).then_some(Ok(note.synced))
    }

    /// The largest number that they speak of.
    pub(super) fn reach(&self) -> u64 {
        let leader = if let Found::Note(note) = self.leader { note } else { Note::default() };
        let ends = [leader.synced, leader.failed_to, leader.began, self.late.failed_to];
        ends.into_iter().max().unwrap_or(0)
    }
}

impl Note {
    /// Of the second note: whether somebody's sync of this part is under way, or has died.
    pub(super) fn is_in_doubt(&self, part: Part) -> bool {
        self.has_begun(part) || (part == Part::Log && self.began > 0)
    }

    pub(super) fn has_begun(&self, part: Part) -> bool {
        self.synced & part as u64 != 0
    }

    pub(super) fn begin(&mut self, part: Part) {
        self.synced |= part as u64;
    }

    pub(super) fn end(&mut self, part: Part) {
        self.synced &= !(part as u64);
    }

    /// One range holds all failures: it may cover writes in between that are fine, never miss one.
    pub(super) fn add_failed(&mut self, from: u64, to: u64) {
        self.failed_from = if self.failed_from == 0 { from } else { self.failed_from.min(from) };
        self.failed_to = self.failed_to.max(to);
    }

    pub(super) fn has_failed(&self, number: u64) -> bool {
        self.failed_from > 0 && (self.failed_from..=self.failed_to).contains(&number)
    }
}

pub(super) fn read(target: &Target, file: &dyn Handle) -> Result<Notes> {
    let boot = target.fs.boot_id();
    let read = || -> Result<[u8; NOTES_BYTES]> {
        let mut bytes = [0; NOTES_BYTES];
        let read = file.read_full_at(&mut bytes, NOTES_AT);
        read.map_err(Target::failed("read sync note of", target.path()))?;
        Ok(bytes)
    };
    let mut bytes = read()?;
    loop {
        let leader = newest(&bytes, NOTE_OFFSETS, boot);
        let late = newest(&bytes, LATE_OFFSETS, boot);
        if let (Found::Note(_), Found::Note(late)) = (leader, late) {
            return Ok(Notes { leader, late });
        }
        // Notes can be read while they are written. What is there twice is there.
        let again = read()?;
        if again == bytes {
            // Of one that a kill has torn: who wrote it had begun, and that is all it can say.
            let torn = Note { began: 1, ..Note::default() };
            let late = if let Found::Note(late) = late { late } else { torn };
            return Ok(Notes { leader, late });
        }
        bytes = again;
    }
}

/// The later of two notes.
fn newest(bytes: &[u8; NOTES_BYTES], offsets: [u64; 2], boot: [u8; 16]) -> Found {
    let notes = offsets.map(|offset| {
        let at = usize::try_from(offset - NOTES_AT).unwrap_or(0);
        &bytes[at..at + NOTE_BYTES + 8]
    });
    if let Some(note) = notes.into_iter().filter_map(decode).max_by_key(|note| note.turn) {
        // A note of another boot says nothing but how far generations and turns were.
        let Note { turn, generation, .. } = note;
        let old = Note { turn, generation, ..Note::default() };
        return Found::Note(if note.boot == boot { note } else { old });
    }
    if notes.iter().any(|note| note.iter().all(|byte| *byte == 0)) {
        // The outcome of the first sync is the second note: no sync has ended yet.
        return Found::Note(Note::default());
    }
    // In every boot, too, the outcome of the first sync is the second note.
    Found::Unreadable { this_boot: notes.iter().all(|note| note.starts_with(&boot)) }
}

fn decode(bytes: &[u8]) -> Option<Note> {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    // Of what nobody counts to there is no next one.
    let could_be = (16..NOTE_BYTES).step_by(8).all(|at| number(at) <= COUNT_MAX);
    (could_be && number(NOTE_BYTES) == checksum::of(&bytes[..NOTE_BYTES])).then(|| Note {
        boot: std::array::from_fn(|index| bytes[index]),
        turn: number(16),
        generation: number(24),
        synced: number(32),
        failed_from: number(40),
        failed_to: number(48),
        began: number(56),
    })
}

/// Writes a note over the older of two. A crash in it leaves the newer one.
pub(super) fn write(
    target: &Target,
    file: &dyn Handle,
    offsets: [u64; 2],
    note: &mut Note,
) -> Result<()> {
    note.turn += 1;
    let mut bytes = [0; NOTE_BYTES + 8];
    bytes[..16].copy_from_slice(&note.boot);
    // Above a planted number nothing can be noted: then everybody syncs, and no note is one that cannot be read.
    let ends = [note.synced, note.failed_from, note.failed_to, note.began];
    let ends = ends.map(|number| number.min(COUNT_MAX));
    let numbers = [note.turn, note.generation].into_iter().chain(ends);
    for (index, number) in numbers.enumerate() {
        bytes[16 + index * 8..24 + index * 8].copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum::of(&bytes[..NOTE_BYTES]);
    bytes[NOTE_BYTES..].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&bytes, offsets[usize::from(note.turn % 2 == 1)])
        .map_err(Target::failed("write sync note of", target.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_a_note_that_counts_further_than_anybody_is_none() {
        let note = |synced: u64| {
            let mut bytes = [0; NOTE_BYTES + 8];
            bytes[32..40].copy_from_slice(&synced.to_le_bytes());
            let sum = checksum::of(&bytes[..NOTE_BYTES]);
            bytes[NOTE_BYTES..].copy_from_slice(&sum.to_le_bytes());
            decode(&bytes).map(|note| note.synced)
        };
        assert_eq!(note(COUNT_MAX), Some(COUNT_MAX));
        assert_eq!(note(COUNT_MAX + 1), None);
    }
}
