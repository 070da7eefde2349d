//! One sync for many: processes that finished a write wait together for a single sync.
//!
//! The first to come becomes the leader: it holds the generation's lock exclusively, syncs, writes
//! down how far that reached, and unlocks. Everybody else waits for the same lock *shared*, so the
//! kernel wakes them all at once, and wakes them too if the leader dies. Two lock files alternate:
//! those who wake from one generation never stand in the way of the next leader.
//!
//! Waiting shared is for those who know of a leader: its note says that it has begun. Everybody else queues for
//! the lead. Otherwise many who come together each hold the lock shared for a moment, and each finds it taken by
//! the others: nobody leads. But a queue is served one by one, and a leader begins a moment after it has the
//! lock. So before anybody queues it looks a few times whether there is a leader to follow by now.
//!
//! # Invariants
//!
//! 1. `synced >= n` in the note means: a sync that began after write `n` was complete has succeeded,
//!    and no sync before it had failed unnoticed.
//! 2. A failed sync reaches everybody who relied on it (G8, race 54): whoever's sync failed notes the
//!    range, and nobody in that range is told anything but `not_durable`.
//! 3. Nobody depends on the leader's life or speed: who waits too long syncs on its own.
//! 4. There is one leader at a time, and only a leader writes the note.
//!
//! # Why they hold
//!
//! 1 and 2, if the leader dies: after a failed sync the kernel takes the lost pages for clean, so the
//! next sync may succeed without them. That a sync begins is therefore noted *before* it (`began`), and
//! the same write that notes its success takes that back. A leader that finds `began` does not know how
//! that sync ended. It tells its caller so, who writes everything again before it syncs (a log), or relies
//! on the file system, which after a failed sync of names fails every later one, too (a directory: the
//! journal of ext4, XFS and btrfs is aborted for good).
//!
//! 2, for one who syncs on its own because the leader is slow: it is not the leader, so it must not
//! touch the note. There is a second one, written under the commit lock: how many are at that (its
//! `began`), and what failed. Every answer looks at both, and while somebody is at it, or has died in
//! it, every leader is in doubt. A leader that began before reports the same failure, too: its
//! descriptor is older. Whoever syncs inside a critical section ([`sync_in_section`]) does the same.
//!
//! 4: the leader of generation `g` holds lock `g % 2`, and read `g` from the note while holding it. The
//! note goes from `g` to `g + 1` by that leader only, after its sync. A note that a kill has torn leaves the one
//! before it, which says `began` or nothing. If neither can be read, that names no generation, so it elects nobody:
//! it is written anew by somebody who holds *both* locks. A failure may have stood in it: all so far counts as failed.
//!
//! A sync that cannot even begin (no descriptor left, no access) is its caller's error and says nothing
//! about anybody's bytes: the note is left as it was.

mod notes;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use crate::commit::take_commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Mode};
use crate::gate;
use crate::target::Target;
use crate::wait::{Deadline, Request, Wait};

pub(crate) use self::notes::Part;
use self::notes::{Found, LATE_OFFSETS, NOTE_OFFSETS, Note, read, write};

/// A follower syncs on its own after this long; a paused leader costs time, never an answer.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);
/// How often somebody who finds the lead taken looks whether that leader has begun by now, before it
/// queues for the lead itself.
const GLANCES: u32 = 2;
/// Noting a failure waits this long: it is only ever waited for short sections.
const NOTE_PATIENCE: Duration = Duration::from_secs(10);
/// `ENFILE` and `EMFILE`, the same on every Unix.
const NO_DESCRIPTOR: [i32; 2] = [23, 24];

/// What is synced together.
pub(crate) trait Shared {
    /// The number of the newest complete write. Numbers grow over the life of the target.
    fn newest(&self) -> Result<u64>;

    /// Makes all complete writes durable. `doubt`: an earlier sync may have failed without a word, so
    /// what is to be durable has to be written again.
    fn sync(&self, doubt: bool) -> io::Result<()>;

    /// Lets those write first who are about to, so that this sync serves them, too. Short: everybody
    /// waits for the leader.
    fn gather(&self) {}

    /// What is best done once for everybody whose write is durable now, before they are woken.
    fn finish(&self, reach: u64) {
        let _ = reach;
    }
}

/// Waits until write number `mine` is durable. Returns how far the sync reached.
pub(crate) fn sync(target: &Target, mine: u64, shared: &impl Shared) -> Result<u64> {
    let lock_files = [target.sidecar("sync0"), target.sidecar("sync1")];
    let file = target.open_sidecar(&lock_files[0])?;
    let file = file.as_ref();
    let deadline = Deadline::after(Wait::For(FOLLOW_PATIENCE));
    // The note that stood when a shared lock was granted: if it still does, its leader has died.
    let mut outlived = None;
    let mut glances = GLANCES;
    loop {
        let notes = read(target, file)?;
        if let Some(answer) = notes.answer(target, mine) {
            return answer;
        }
        if deadline.has_passed() {
            return sync_alone(target, file, mine, shared);
        }
        let Found::Note(note) = notes.leader else {
            write_anew(target, file, mine, shared, deadline)?;
            continue;
        };
        let lock_file = &lock_files[usize::from(note.generation % 2 == 1)];
        let led = note.began > 0 && outlived != Some(note.turn);
        let mode = if led { Mode::Shared } else { Mode::Exclusive };
        let at_once = !led && glances > 0;
        let patience = if at_once { Deadline::after(Wait::No) } else { deadline };
        match gate::take(target, lock_file, mode, Request::until(patience)) {
            // Granted when the leader is done or dead; either way the note is read again.
            Ok(_followed) if led => outlived = Some(note.turn),
            Ok(leading) => match read(target, file)?.leader {
                Found::Note(current) if current.generation == note.generation => {
                    let (reach, doubt) = lead(target, file, current, mine, shared)?;
                    drop(leading); // Nobody waits for the rest.
                    end_doubt(target, file, doubt);
                    return Ok(reach);
                }
                _ => {} // That generation is over; look again.
            },
            Err(error) if error.kind() == ErrorKind::Busy && at_once => {
                glances -= 1;
                std::thread::yield_now();
            }
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
    }
}

/// The largest number of which something is noted in this boot. Whoever is about to give out that one, or a
/// smaller one, counts by a file that was put back: what is noted is about other writes.
pub(crate) fn reach(target: &Target) -> Result<u64> {
    let path = target.sidecar("sync0");
    match target.fs.open(&path, Access::Read) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(0),
        opened => {
            let file = opened.map_err(Target::failed("open", &path))?;
            Ok(read(target, file.as_ref())?.reach())
        }
    }
}

/// Whether the notes say that write `mine` is durable.
pub(crate) fn has_synced(target: &Target, mine: u64) -> Result<bool> {
    let file = target.open_sidecar(&target.sidecar("sync0"))?;
    let answer = read(target, file.as_ref())?.answer(target, mine);
    Ok(answer.is_some_and(|answer| answer.is_ok()))
}

/// Syncs for everybody. The generation's lock is held. Returns how far that reached, and the second note as it was.
fn lead(
    target: &Target,
    file: &dyn Handle,
    current: Note,
    mine: u64,
    shared: &impl Shared,
) -> Result<(u64, Note)> {
    let boot = target.fs.boot_id();
    // A crash before this write: nothing was synced. After it: the next leader is in doubt.
    let current = Note { boot, ..current };
    let mut next = Note { began: mine.max(current.began), ..current };
    write(target, file, NOTE_OFFSETS, &mut next)?;
    shared.gather();
    let reach = shared.newest()?.max(mine);
    // Read after our own file was opened: a sync that begins later and fails is reported to us, too.
    let late = read(target, file)?.late;
    let done = shared.sync(current.began > 0 || late.is_in_doubt(Part::Log));
    (next.generation, next.began) = (current.generation.wrapping_add(1), 0);
    match done {
        Ok(()) => {
            shared.finish(reach);
            next.synced = reach;
            // If this fails, the next leader is in doubt for nothing.
            let _ = write(target, file, NOTE_OFFSETS, &mut next);
            Ok((reach, late))
        }
        Err(err) if never_began(&err) => {
            (next.generation, next.began) = (current.generation, current.began);
            write(target, file, NOTE_OFFSETS, &mut next)?;
            Err(Error::io("begin sync of", target.path(), err).committed(true))
        }
        Err(err) => {
            next.add_failed(current.synced.saturating_add(1), reach);
            next.began = reach; // The next leader cannot rely on these pages.
            let _ = write(target, file, NOTE_OFFSETS, &mut next);
            Err(not_durable(target).caused_by(err))
        }
    }
}

/// A leader that was in doubt by a sync inside a section has written everything again, and synced it. If nobody has
/// written the second note since it was `late`, nobody has begun such a sync since.
fn end_doubt(target: &Target, file: &dyn Handle, late: Note) {
    if late.has_begun(Part::Log) {
        let over = |now: &mut Note| {
            if now.turn == late.turn {
                now.end(Part::Log);
            }
        };
        // If this fails, the next leader is in doubt for nothing.
        let _ = note_late(target, file, over);
    }
}

/// Syncs without leading: the leader is slow.
fn sync_alone(target: &Target, file: &dyn Handle, mine: u64, shared: &impl Shared) -> Result<u64> {
    let newest = shared.newest()?.max(mine);
    // A crash after this: every later leader of this boot is in doubt.
    note_late(target, file, |late| late.began += 1)?;
    // Nothing is known of the syncs of others, so this one relies on none of them.
    let done = shared.sync(true);
    let ended = |late: &mut Note| late.began = late.began.saturating_sub(1);
    let err = match done {
        Ok(()) => {
            let _ = note_late(target, file, ended); // If this fails, leaders are in doubt for nothing.
            return Ok(mine);
        }
        Err(err) if never_began(&err) => {
            let _ = note_late(target, file, ended);
            return Err(Error::io("begin sync of", target.path(), err).committed(true));
        }
        Err(err) => err,
    };
    let from = match read(target, file)?.leader {
        Found::Note(note) => note.synced.saturating_add(1),
        Found::Unreadable { .. } => 1,
    };
    // It stays begun: the next leader cannot rely on these pages.
    let noted = note_late(target, file, |late| late.add_failed(from.min(mine), newest));
    let error = not_durable(target).caused_by(err);
    Err(match noted {
        Ok(()) => error,
        Err(_) => {
            error.hint("others could not be told; every write of the last seconds is in doubt")
        }
    })
}

/// Syncs for somebody who has the commit lock: what others wait for, or what they go on from. `write_again` is for
/// what a failed sync may have left: pages that the kernel takes for clean; of all, or of what is behind the durable
/// part.
///
/// That it begins is noted first, in the second note. A crash before that: nothing was synced. After it, and if the
/// pages can not be written again: every later sync of that part in this boot is in doubt, until one has succeeded.
pub(crate) fn sync_in_section(
    target: &Target,
    part: Part,
    sync: impl FnOnce() -> io::Result<()>,
    write_again: impl Fn(bool) -> io::Result<()>,
) -> Result<io::Result<()>> {
    let file = target.open_sidecar(&target.sidecar("sync0"))?;
    let file = file.as_ref();
    let notes = read(target, file)?;
    // Only the log is synced outside of sections as well.
    let led = !matches!(notes.leader, Found::Note(note) if note.began == 0);
    let parts = part.with_others();
    let begun = parts.iter().any(|part| notes.late.is_in_doubt(*part));
    let doubt = begun || (part == Part::Log && led);
    let all = part == Part::Repaired || notes.late.has_begun(Part::Repaired);
    change_late(target, file, |late| late.begin(part))?;
    let ready = if doubt { write_again(all) } else { Ok(()) };
    let done = ready.and_then(|()| sync());
    if done.is_ok() || write_again(all).is_ok() {
        // If this fails, the next one is in doubt for nothing.
        let over = |late: &mut Note| parts.iter().for_each(|part| late.end(*part));
        let _ = change_late(target, file, over);
    }
    Ok(done)
}

/// Changes the second note, which takes the commit lock.
fn note_late(target: &Target, file: &dyn Handle, change: impl FnOnce(&mut Note)) -> Result<()> {
    let deadline = Deadline::after(Wait::For(NOTE_PATIENCE));
    let request = Request::until(deadline);
    let turn = take_commit(target, Mode::Exclusive, request);
    let _turn = turn.map_err(|error| error.committed(true))?;
    change_late(target, file, change)
}

/// Changes the second note; the caller has the commit lock. It has another turn then, also if it says the same: a sync
/// began again, and whoever saw the note before must know.
fn change_late(target: &Target, file: &dyn Handle, change: impl FnOnce(&mut Note)) -> Result<()> {
    let mut late = Note { boot: target.fs.boot_id(), ..read(target, file)?.late };
    change(&mut late);
    write(target, file, LATE_OFFSETS, &mut late)
}

/// Replaces a note that cannot be read. Whoever holds both locks is the only one who could lead.
fn write_anew(
    target: &Target,
    file: &dyn Handle,
    mine: u64,
    shared: &impl Shared,
    deadline: Deadline,
) -> Result<()> {
    let mut locks = Vec::new();
    for suffix in ["sync0", "sync1"] {
        match gate::take(target, &target.sidecar(suffix), Mode::Exclusive, Request::until(deadline))
        {
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(()),
            taken => locks.push(taken?),
        }
    }
    let Found::Unreadable { this_boot } = read(target, file)?.leader else { return Ok(()) };
    let mut note = Note { boot: target.fs.boot_id(), ..Note::default() };
    if this_boot {
        note.add_failed(1, shared.newest()?.max(mine));
    }
    write(target, file, NOTE_OFFSETS, &mut note)
}

/// Whether a sync did not even begin. What syncs never answers with these; what opens does, and who waits for a lock.
fn never_began(err: &io::Error) -> bool {
    let own = err.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    own.is_some_and(|error| error.kind() == ErrorKind::Busy)
        || matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || err.raw_os_error().is_some_and(|number| NO_DESCRIPTOR.contains(&number))
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
