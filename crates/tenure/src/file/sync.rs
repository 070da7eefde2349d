//! One sync for many: processes that finished a write wait together for a single sync.
//!
//! The first caller becomes the leader: it holds the generation's lock exclusively, syncs, writes
//! down how far that reached, and unlocks. The others wait for the same lock *shared*, so the
//! kernel wakes them all at once, also if the leader dies. Two lock files alternate: callers that
//! wake from one generation never block the next leader.
//!
//! Only a caller that knows of a leader waits shared: the note says that one has begun. The others queue for the
//! lead. Before a caller queues, it checks a few times whether there is a leader to follow by now: a queue is
//! served one by one.
//!
//! # Invariants
//!
//! 1. `synced >= n` means: a sync that began after write `n` was complete has succeeded.
//! 2. A failed sync reaches every caller that relied on it (G8, race 54): writes up to `doubt` that were not synced
//!    before are answered `not_durable`.
//! 3. A sync that failed, or whose leader died, is never repeated on that file: the next caller renews what is
//!    synced ([`Shared::renew`]).
//! 4. No caller depends on the life or the speed of the leader: one that waits too long renews on its own.
//! 5. Only the leader writes the note. The leader of generation `g` holds lock `g % 2`, and read `g` while it held it.
//!
//! # Crashes
//!
//! The start of a sync is noted before it (`began`), and the note of its success clears that. A
//! leader that finds `began` holds the lock of a leader that died: it renews. The note is page
//! cache only; after a restart it means nothing, and no caller waits.

use std::io;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::gate;
use crate::file::layout::layout;
use crate::file::slot::DoubleSlot;
use crate::file::target::Target;
use crate::fs::{Handle, Mode};
use crate::sys;
use crate::wait::{Deadline, Request, Wait};

/// A follower renews on its own after this long; a paused leader costs time, never an answer.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);
/// How often a caller that finds the lead taken checks whether that leader has begun, before it queues.
const CHECKS: u32 = 2;

/// What is synced together.
pub(crate) trait Shared {
    /// What the numbers count in: a note about another subject says nothing.
    fn subject(&self) -> u64 {
        0
    }

    /// The number of the newest complete write.
    fn newest(&self) -> Result<u64>;

    /// Makes all complete writes durable.
    fn sync(&self) -> io::Result<()>;

    /// Makes all complete writes durable without relying on an earlier sync.
    fn renew(&self) -> Result<()>;

    /// Whether a renewal by another process has made the caller's write durable.
    fn is_renewed(&self) -> Result<bool> {
        Ok(false)
    }

    /// Waits a moment for writes that are about to come, so that this sync serves them, too.
    fn gather(&self) {}

    /// Work that is best done once for all callers whose write was synced, or could not be, before
    /// they wake.
    fn finish(&self, reach: u64, synced: bool) {
        let _ = (reach, synced);
    }
}

layout! {
    /// The result of the last leader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct Note {
        part boot: [u8; 16],
        count generation: u64,
        bits subject: u64,
        count synced: u64,
        /// The write that the sync under way is for; 0 is none.
        count began: u64,
        /// Writes up to here relied on a sync that failed; 0 is none.
        count doubt: u64,
    }
}

/// The notes stay clear of byte 0, which is the lock.
const NOTES: DoubleSlot = DoubleSlot::at(64, 192);

/// The note as it concerns `subject`, and its turn.
fn read(target: &Target, file: &dyn Handle, subject: u64) -> Result<(u64, Note)> {
    let loaded = NOTES.load::<Note>(file);
    let loaded = loaded.map_err(Target::failed("read sync note of", target.path()))?;
    let (turn, note) = loaded.unwrap_or_default();
    let boot = target.fs.boot_id();
    if note.boot == boot && note.subject == subject {
        return Ok((turn, note));
    }
    Ok((turn, Note { boot, subject, generation: note.generation, ..Note::default() }))
}

fn write(target: &Target, file: &dyn Handle, turn: u64, note: &Note) -> Result<()> {
    let written = NOTES.store(file, turn, note);
    written.map_err(Target::failed("write sync note of", target.path()))
}

/// Waits until write number `mine` is durable. Returns how far the sync reached.
pub(crate) fn sync(target: &Target, mine: u64, shared: &impl Shared) -> Result<u64> {
    let lock_files = [target.sidecar("sync0"), target.sidecar("sync1")];
    let file = target.open_sidecar(&lock_files[0])?;
    let file = file.as_ref();
    let deadline = Deadline::after(Wait::For(FOLLOW_PATIENCE));
    // The note at the moment a shared lock was granted: if it has not changed since, its leader
    // died.
    let mut outlived = None;
    let mut checks = CHECKS;
    loop {
        let (turn, note) = read(target, file, shared.subject())?;
        if note.synced >= mine {
            return Ok(note.synced);
        }
        if note.doubt >= mine {
            return Err(not_durable(target));
        }
        if deadline.has_passed() {
            return shared.renew().map(|()| mine);
        }
        let lock_file = &lock_files[usize::from(note.generation % 2 == 1)];
        let led = note.began > 0 && outlived != Some(turn);
        let mode = if led { Mode::Shared } else { Mode::Exclusive };
        let at_once = !led && checks > 0;
        let patience = if at_once { Deadline::after(Wait::No) } else { deadline };
        match gate::take(target, lock_file, mode, Request::until(patience)) {
            // Granted when the leader is done or dead; either way the note is read again.
            Ok(_followed) if led => outlived = Some(turn),
            Ok(_leading) => {
                let (now, current) = read(target, file, shared.subject())?;
                if current.generation != note.generation {
                    continue; // Another leader was faster, and its note may answer this caller.
                }
                if shared.is_renewed()? {
                    return Ok(mine); // The note is about what took its place.
                }
                return lead(target, file, (now, current), mine, shared);
            }
            Err(error) if error.kind() == ErrorKind::Busy && at_once => {
                checks -= 1;
                std::thread::yield_now();
            }
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
    }
}

/// Syncs for all. The generation's lock is held.
fn lead(
    target: &Target,
    file: &dyn Handle,
    (turn, note): (u64, Note),
    mine: u64,
    shared: &impl Shared,
) -> Result<u64> {
    if note.synced >= mine {
        return Ok(note.synced);
    }
    let generation = note.generation + 1;
    if note.began > 0 || note.doubt > 0 {
        shared.renew()?;
        // What was renewed is another subject, or cannot be in doubt.
        let done = Note { generation, began: 0, doubt: 0, synced: mine, ..note };
        write(target, file, turn + 1, &done)?;
        return Ok(mine);
    }
    // A crash before this write: nothing was synced. After it: the next leader renews.
    write(target, file, turn + 1, &Note { began: mine, ..note })?;
    shared.gather();
    let reach = shared.newest()?.max(mine);
    match shared.sync() {
        Ok(()) => {
            shared.finish(reach, true);
            // If this fails, the next leader renews for nothing.
            let _ = write(target, file, turn + 2, &Note { generation, synced: reach, ..note });
            Ok(reach)
        }
        Err(err) if never_began(&err) => {
            write(target, file, turn + 2, &note)?;
            Err(Error::io("begin sync of", target.path(), err).committed(true))
        }
        Err(err) => {
            shared.finish(reach, false);
            let _ = write(target, file, turn + 2, &Note { generation, doubt: reach, ..note });
            Err(not_durable(target).caused_by(err))
        }
    }
}

/// Whether a sync did not even begin: its file could not be opened.
fn never_began(err: &io::Error) -> bool {
    let kind = matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    kind || sys::is_out_of_files(err)
}

/// The change is visible, and whether it survives a power loss is not known.
pub(crate) fn not_durable(target: &Target) -> Error {
    let detail = "the change is visible but may not survive a power loss";
    Error::new(ErrorKind::NotDurable, "sync", detail)
        .at(target.path())
        .committed(true)
        .hint("check the disk; the next durable call writes to a new file first")
}
