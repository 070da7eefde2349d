//! The hold of a target: who has it, and under which fence.
//!
//! # Invariants
//!
//! 1. An exclusive hold is the kernel lock on the hold file while no lease is running. A lease is a
//!    record that outlives its process; whoever gets the kernel lock checks for one and steps back.
//! 2. Every exclusive hold draws a fence above all earlier ones of the target (G4).
//! 3. When a hold is granted, no write that proved an earlier hold is in flight: the record says
//!    `Free` only if its last hold ended under the commit lock, and otherwise the new holder takes
//!    the commit lock before it changes the record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::error::{Error, ErrorKind, Result};
use crate::events;
use crate::fs::{Access, Handle, Mode};
use crate::gate::{self, Turn};
use crate::holder::{HoldKind, Holder};
use crate::options::Fence;
use crate::record::{Loaded, MAJOR, Record, State};
use crate::sys::{self, Watcher};
use crate::target::Target;
use crate::wait::{Cancel, Deadline, Wait, pause};

/// How many fences one sync reserves.
const FENCES_PER_SYNC: u64 = 1024;
/// A record whose file changed this long after the record was written was put back by somebody. Being
/// wrong (a slow write, a changed mode) costs one sync.
const PUT_BACK_AFTER_US: u64 = 500_000;
/// Between the checks of a sleeper whose wait can be cancelled but not woken.
const CANCEL_CHECK: Duration = Duration::from_millis(20);
/// Between the checks of a sleeper that the system cannot wake.
const UNWATCHED_CHECK: Duration = Duration::from_millis(50);
/// How late a sleeper may notice that a lease ran out while the machine was asleep.
const ASLEEP_CHECK: Duration = Duration::from_secs(5);
/// How long a release waits for writes in flight before it leaves the record as it is.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// The record as it was read, and whether it belongs to this boot and this very file.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    /// False after a reboot, a restore or a copy: no lock or lease in it is running, and the next
    /// fence is raised above everything known.
    pub(crate) bound: bool,
    /// No slot could be read. Whoever writes the record next notes it; a reader creates nothing.
    unreadable: bool,
}

impl Seen {
    /// Reads the record of `target` from its commit file.
    pub(crate) fn read(target: &Target, file: &dyn Handle) -> Result<Self> {
        let path = || target.sidecar("commit");
        let loaded = Record::load(file).map_err(|err| Error::io("read record", &path(), err))?;
        let unreadable = matches!(loaded, Loaded::Garbage);
        let mut record = match loaded {
            Loaded::Record(record) => *record,
            // Nothing of garbage is needed: the fence starts above the clock, the data is adopted.
            Loaded::Empty | Loaded::Garbage => Record::default(),
            Loaded::Newer(major) => return Err(newer_format(&path(), major)),
        };
        let id = file.id().map_err(|err| Error::io("look at record", &path(), err))?;
        let times = file.times();
        // Where the birth is not known, the inode number has to do.
        let same_birth =
            record.file_born_us == times.born_us || record.file_born_us == 0 || times.born_us == 0;
        let bound = (record.boot, record.file) == (target.fs.boot_id(), id) && same_birth;
        if times.changed_us > record.written_us.saturating_add(PUT_BACK_AFTER_US) {
            record.confirmed = 0; // Fences above it may have been given out: start above the clock.
        }
        if !bound {
            record.confirmed = 0;
            // It was on another clock; writing it back under ours must not make it run again.
            record.lease.expires_us = 0;
        }
        Ok(Self { record, bound, unreadable })
    }

    /// Writes the record back, bound to this boot and file.
    pub(crate) fn write(&mut self, target: &Target, file: &dyn Handle) -> Result<()> {
        let path = target.sidecar("commit");
        self.record.boot = target.fs.boot_id();
        self.record.file = file.id().map_err(Target::failed("look at record", &path))?;
        self.record.file_born_us = file.times().born_us;
        self.record.written_us = sys::wall_time_us();
        self.bound = true;
        if std::mem::take(&mut self.unreadable) {
            let _ = events::record(target, "record_unreadable", &json!({}));
        }
        if self.record.seq == 0 {
            Record::reserve_room(file).map_err(Target::failed("reserve record", &path))?;
        }
        self.record.store(file).map_err(Target::failed("write record", &path))
    }

    /// The lease that is running now, as its holder and what is left of it.
    pub(crate) fn running_lease(&self) -> Option<(Holder, Duration)> {
        if self.record.state != State::Leased || !self.bound {
            return None;
        }
        let left =
            self.record.lease.expires_us.checked_sub(sys::boot_time_us()).filter(|l| *l > 0)?;
        Some((self.record.holder(), Duration::from_micros(left)))
    }

    /// Whether `fence` is the hold that may write now.
    pub(crate) fn check_fence(&self, target: &Target, fence: Fence) -> Result<()> {
        let current = self.record.fence;
        let refuse = |kind, detail: String, hint: &str| {
            Err(Error::new(kind, "write", detail).at(target.path()).hint(hint))
        };
        if fence > current {
            return refuse(
                ErrorKind::Fenced,
                format!("no hold with fence {fence} was ever given out (the newest is {current})"),
                "pass the fence that acquire, run or hold returned",
            );
        }
        if fence < current {
            let error = refuse(
                ErrorKind::Fenced,
                format!("fence {fence} is not current, a newer hold has {current}"),
                "stop: somebody else has taken over",
            );
            let holder = (self.record.state != State::Free).then(|| self.record.holder());
            return error.map_err(|error: Error| error.held_by(holder));
        }
        match self.record.state {
            State::Held if self.bound => Ok(()),
            State::Leased if self.running_lease().is_some() => Ok(()),
            State::Leased => refuse(
                ErrorKind::LeaseLost,
                format!("the lease with fence {fence} has expired"),
                "renew it with its token, or acquire it again",
            ),
            State::Free | State::Held => refuse(
                ErrorKind::Fenced,
                format!("the hold with fence {fence} has ended"),
                "acquire it again",
            ),
        }
    }

    /// Draws the next fence (G4). The caller may write the record.
    ///
    /// Fences up to `confirmed` were reserved durably. A crash before the sync leaves the old
    /// `confirmed`, so the next one reserves again; a crash after it only skips numbers.
    pub(crate) fn draw(&mut self, target: &Target, file: &dyn Handle) -> Result<Fence> {
        let record = &mut self.record;
        let mut newest = record.fence;
        if record.confirmed == 0 {
            let floor = read_floor(target)?;
            newest = newest.max(record.ceiling).max(floor).max(sys::wall_time_us());
        }
        let fence = newest + 1;
        if fence > record.confirmed {
            record.ceiling = fence + FENCES_PER_SYNC;
            record.confirmed = 0;
            if !self.bound && record.state == State::Held {
                record.state = State::Free; // Its holder died with its boot; a crash here keeps it so.
            }
            self.write(target, file)?;
            let path = target.sidecar("commit");
            file.sync().map_err(Target::failed("sync fences in", &path))?;
            for dir in [target.side(), target.dir()] {
                // That the names exist does not make them durable: their maker may have died.
                target.fs.sync_dir(dir).map_err(Target::failed("sync directory", dir))?;
            }
            self.record.confirmed = self.record.ceiling;
        }
        self.record.fence = fence;
        Ok(fence)
    }
}

/// The fence floor of a directory: pruned targets of it had fences up to here.
pub(crate) fn read_floor(target: &Target) -> Result<u64> {
    let path = target.side().join("floor");
    let file = match target.fs.open(&path, Access::Read) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(Target::failed("open fence floor", &path))?,
    };
    let loaded = Record::load(file.as_ref()).map_err(Target::failed("read fence floor", &path))?;
    match loaded {
        Loaded::Record(record) => Ok(record.ceiling),
        Loaded::Empty | Loaded::Garbage => Ok(0),
        Loaded::Newer(major) => Err(newer_format(&path, major)),
    }
}

/// The refusal of R3.
pub(crate) fn newer_format(path: &Path, major: u16) -> Error {
    let detail = format!("format version {major}, this tenure knows {MAJOR}");
    Error::new(ErrorKind::NewerFormat, "use", detail)
        .at(path)
        .hint("upgrade tenure; nothing was changed")
}

/// What somebody who wants the hold says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) deadline: Deadline,
    pub(crate) cancel: Option<&'a Cancel>,
}

/// An exclusive or shared kernel lock on the hold file, with no lease running.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) target: Target,
    pub(crate) turn: Turn,
    path: std::path::PathBuf,
}

impl Hold {
    /// Waits for the hold. Returns the commit file and the record in it as well.
    pub(crate) fn take(
        target: &Target,
        mode: Mode,
        request: Request<'_>,
    ) -> Result<(Self, Arc<dyn Handle>, Seen)> {
        target.prepare()?;
        let path = target.hold_file();
        loop {
            let turn = gate::take(target, &path, mode, request.deadline, request.cancel)
                .map_err(|error| name_holder(target, error))?;
            let file = target.open_sidecar(&target.sidecar("commit"))?;
            let seen = Seen::read(target, file.as_ref())?;
            let Some((holder, left)) = seen.running_lease() else {
                return Ok((Self { target: target.clone(), turn, path }, file, seen));
            };
            drop(turn);
            wait_for_lease(target, holder, left, request)?;
        }
    }

    /// Whether it is the lock on this file.
    pub(crate) fn is_on(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Detects that the lock file was removed or replaced under the hold (G1).
    pub(crate) fn verify(&self) -> Result<()> {
        check_named(&self.target, &self.path, &self.turn)
    }

    /// Closes our copy of a lock that child processes inherited. The record says so first: whoever
    /// gets the lock next inherits it from a hold that ended well.
    pub(crate) fn leave_to_children(self, fence: Fence) -> Result<()> {
        let mut ended = self.verify();
        if ended.is_ok() && fence > 0 {
            ended = self.change_record(fence, |record| record.left = true);
        }
        // Whatever happened: unlocking would take it from the children.
        self.turn.leave_to_children();
        ended
    }

    /// Ends a hold that drew `fence`: the record first, the lock last. The error is of the record or
    /// of the check; the lock is released in any case.
    pub(crate) fn release(self, fence: Fence) -> Result<()> {
        let verified = self.verify();
        if verified.is_ok() {
            self.change_record(fence, |record| record.state = State::Free)?;
        }
        verified
    }

    /// Changes the record of the hold `fence`, if it is the current one. Writes that proved it end
    /// first; if one of them hangs, the record stays as it is, and the next holder waits for that
    /// write instead (invariant 3).
    fn change_record(&self, fence: Fence, change: impl FnOnce(&mut Record)) -> Result<()> {
        let path = self.target.sidecar("commit");
        let deadline = Deadline::after(Wait::For(RELEASE_PATIENCE));
        let Ok(commit) = gate::take(&self.target, &path, Mode::Exclusive, deadline, None) else {
            return Ok(());
        };
        let file = commit.handle().as_ref();
        let mut seen = Seen::read(&self.target, file)?;
        if seen.record.fence == fence && seen.record.state == State::Held {
            change(&mut seen.record);
            seen.write(&self.target, file)?;
        }
        Ok(())
    }
}

/// Compares a lock that is held with the name it was opened by.
pub(crate) fn check_named(target: &Target, path: &Path, turn: &Turn) -> Result<()> {
    let named = match target.fs.stat(path) {
        Ok(found) => (found.links > 0).then_some(found.id),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
        Err(err) => return Err(Error::io("look at lock file", path, err)),
    };
    if named == Some(turn.id()) && turn.is_ours() {
        return Ok(());
    }
    let detail = if turn.is_ours() {
        "its lock file was removed or replaced during the hold, so others may hold it too"
    } else {
        "a forked child does not hold what its parent locked"
    };
    Err(Error::new(ErrorKind::Compromised, "verify the hold of", detail)
        .at(target.path())
        .hint("stop writing, and find out who cleans up lock files"))
}

/// Adds who is in the way to a `busy`, and names the target instead of its lock file.
pub(crate) fn name_holder(target: &Target, error: Error) -> Error {
    if error.kind() != ErrorKind::Busy {
        return error;
    }
    let seen = target
        .fs
        .open(&target.sidecar("commit"), Access::Read)
        .ok()
        .and_then(|file| Seen::read(target, file.as_ref()).ok());
    let holder = seen
        .filter(|seen| seen.bound && seen.record.state != State::Free)
        .map(|seen| seen.record.holder());
    busy(target, holder)
}

/// The `busy` error of a target.
pub(crate) fn busy(target: &Target, holder: Option<Holder>) -> Error {
    let hint = match holder.as_ref().map(|holder| holder.hold) {
        Some(HoldKind::Lease) => "wait for its expiry, or take it over with a reason",
        _ => "wait longer, or look with `tenure who`",
    };
    Error::new(ErrorKind::Busy, "lock", "")
        .at(target.path())
        .held_by(Some(holder.unwrap_or_default()))
        .hint(hint)
}

/// Sleeps until the lease can be over: its expiry, a change of its record, or the caller's deadline.
pub(crate) fn wait_for_lease(
    target: &Target,
    holder: Holder,
    left: Duration,
    request: Request<'_>,
) -> Result<()> {
    let path = target.sidecar("commit");
    // There may be more waiters than watches; those without one look now and then.
    let watcher = Watcher::new(&[&path]).ok();
    // A change between the read and the watch would be slept through, so look once more.
    let file = target.open_sidecar(&path)?;
    if Seen::read(target, file.as_ref())?.running_lease().is_none() {
        return Ok(());
    }
    let ends_us =
        sys::boot_time_us().saturating_add(u64::try_from(left.as_micros()).unwrap_or(u64::MAX));
    loop {
        if request.cancel.is_some_and(Cancel::is_cancelled) {
            let detail = "the wait was cancelled";
            return Err(Error::new(ErrorKind::Cancelled, "wait for", detail).at(target.path()));
        }
        if request.deadline.has_passed() {
            return Err(busy(target, Some(holder)));
        }
        let left_us = ends_us.saturating_sub(sys::boot_time_us());
        if left_us == 0 {
            return Ok(());
        }
        // A timer stands still while the machine is asleep; the lease does not.
        let mut sleep = Duration::from_micros(left_us).min(ASLEEP_CHECK);
        if let Some(remaining) = request.deadline.remaining() {
            sleep = sleep.min(remaining);
        }
        if request.cancel.is_some() {
            sleep = sleep.min(CANCEL_CHECK);
        }
        if let Some(watcher) = &watcher {
            if watcher.wait(Some(sleep)).map_err(Target::failed("watch", &path))? {
                return Ok(());
            }
        } else {
            pause(sleep.min(UNWATCHED_CHECK));
            let file = target.open_sidecar(&path)?;
            if Seen::read(target, file.as_ref())?.running_lease().is_none() {
                return Ok(());
            }
        }
    }
}
