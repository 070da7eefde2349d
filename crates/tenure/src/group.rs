//! One sync for many: processes that finished a write wait together for a single sync.
//!
//! The first to come becomes the leader: it holds the generation's lock exclusively, syncs, writes
//! down how far that reached, and unlocks. Everybody else waits for the same lock *shared*, so the
//! kernel wakes them all at once, and wakes them too if the leader dies. Two lock files alternate:
//! those who wake from one generation never stand in the way of the next leader.
//!
//! # Invariants
//!
//! 1. `synced >= n` in the note means: a sync that began after write `n` was complete has succeeded.
//! 2. A failed sync reaches everybody who relied on it (G8, race 54): the leader notes the failed
//!    range before it unlocks, and nobody in that range is told anything but `not_durable`.
//! 3. Nobody depends on the leader's life or speed: who waits too long syncs on its own.

use std::time::Duration;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Handle, Mode};
use crate::gate;
use crate::target::Target;
use crate::wait::{Deadline, Request, Wait};

/// A follower syncs on its own after this long; a paused leader costs time, never an answer.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);
/// The note stays clear of byte 0, which is the lock.
const NOTE_OFFSET: u64 = 64;
const NOTE_BYTES: usize = 56;

/// What the last leader found out. Only page cache: after a reboot it means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Note {
    boot: [u8; 16],
    generation: u64,
    synced: u64,
    failed_from: u64,
    failed_to: u64,
}

/// Waits until write number `mine` is durable. `newest` tells the number of the newest complete
/// write; `sync` makes all complete writes durable. Numbers grow over the life of the target. Returns
/// how far the sync reached.
pub(crate) fn sync(
    target: &Target,
    mine: u64,
    mut newest: impl FnMut() -> Result<u64>,
    mut sync: impl FnMut() -> std::io::Result<()>,
) -> Result<u64> {
    let lock_files = [target.sidecar("sync0"), target.sidecar("sync1")];
    let file = target.open_sidecar(&lock_files[0])?;
    let deadline = Deadline::after(Wait::For(FOLLOW_PATIENCE));
    loop {
        let note = read(target, file.as_ref())?;
        if let Some(answer) = note.answers(target, mine) {
            return answer;
        }
        if deadline.has_passed() {
            return match sync() {
                Ok(()) => Ok(mine),
                Err(err) => Err(not_durable(target).caused_by(err)),
            };
        }
        let lock_file = &lock_files[usize::from(note.generation % 2 == 1)];
        let now = Deadline::after(Wait::No);
        match gate::take(target, lock_file, Mode::Exclusive, Request::until(now)) {
            Ok(_leading) => {
                let current = read(target, file.as_ref())?;
                if current.generation != note.generation {
                    continue; // That generation is over; look again.
                }
                let reach = newest()?.max(mine);
                let done = sync();
                let mut next = Note { generation: current.generation.wrapping_add(1), ..current };
                next.boot = target.fs.boot_id();
                if done.is_ok() {
                    next.synced = reach;
                } else {
                    next.add_failed(current.synced.saturating_add(1), reach);
                }
                let noted = write(target, file.as_ref(), next);
                if done.is_err() {
                    noted?; // Those who relied on it must not be left to believe in a later sync.
                }
                return match done {
                    Ok(()) => Ok(reach),
                    Err(err) => Err(not_durable(target).caused_by(err)),
                };
            }
            Err(error) if error.kind() == ErrorKind::Busy => {
                // Granted when the leader is done or dead; either way the note is read again.
                match gate::take(target, lock_file, Mode::Shared, Request::until(deadline)) {
                    Err(error) if error.kind() != ErrorKind::Busy => return Err(error),
                    _ => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}

impl Note {
    /// One range holds all failures: it may cover writes in between that are fine, never miss one.
    fn add_failed(&mut self, from: u64, to: u64) {
        self.failed_from = if self.failed_from == 0 { from } else { self.failed_from.min(from) };
        self.failed_to = self.failed_to.max(to);
    }

    fn answers(&self, target: &Target, mine: u64) -> Option<Result<u64>> {
        if (self.failed_from..=self.failed_to).contains(&mine) && self.failed_from > 0 {
            return Some(Err(not_durable(target)));
        }
        (self.synced >= mine).then_some(Ok(self.synced))
    }
}

/// The change is visible, and whether it survives a power loss is not known.
pub(crate) fn not_durable(target: &Target) -> Error {
    Error::new(
        ErrorKind::NotDurable,
        "sync",
        "the change is visible but may not survive a power loss",
    )
    .at(target.path())
    .committed(true)
    .hint("check the disk; a failed sync is not mended by repeating it")
}

fn read(target: &Target, file: &dyn Handle) -> Result<Note> {
    let mut bytes = [0; NOTE_BYTES + 8];
    file.read_full_at(&mut bytes, NOTE_OFFSET)
        .map_err(Target::failed("read sync note of", target.path()))?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    let mut note = Note {
        boot: std::array::from_fn(|index| bytes[index]),
        generation: number(16),
        synced: number(24),
        failed_from: number(32),
        failed_to: number(40),
    };
    // A note that is being written right now, or of another boot, says nothing yet.
    if number(NOTE_BYTES) != checksum::of(&bytes[..NOTE_BYTES]) || note.boot != target.fs.boot_id()
    {
        note = Note { generation: note.generation, ..Note::default() };
    }
    Ok(note)
}

fn write(target: &Target, file: &dyn Handle, note: Note) -> Result<()> {
    let mut bytes = [0; NOTE_BYTES + 8];
    bytes[..16].copy_from_slice(&note.boot);
    for (index, number) in
        [note.generation, note.synced, note.failed_from, note.failed_to].into_iter().enumerate()
    {
        bytes[16 + index * 8..24 + index * 8].copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum::of(&bytes[..NOTE_BYTES]);
    bytes[NOTE_BYTES..].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&bytes, NOTE_OFFSET)
        .map_err(Target::failed("write sync note of", target.path()))
}
