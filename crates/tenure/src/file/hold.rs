//! The hold of a target: its holder, and its fence.
//!
//! # Invariants
//!
//! 1. An exclusive hold is the kernel lock on the hold file while no lease is running. A lease is a
//!    record that outlives its process; a caller that gets the kernel lock checks for one and steps back.
//! 2. Every exclusive hold draws a fence above all earlier ones of the target (G4).
//! 3. When a hold is granted, no write that proved an earlier hold is in flight: the record says
//!    `Free` only if its last hold ended under the commit lock, or its fence was never published;
//!    otherwise the new holder takes the commit lock before it changes the record.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::gate::{self, Turn};
use crate::file::marks::Mark;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::target::{Opened, Target};
use crate::fs::{Handle, Mode, RawHandle};
use crate::holder::{HoldKind, Holder};
use crate::options::Fence;
use crate::printable::command;
use crate::sys::{self, Watcher};
use crate::wait::{Cancel, Request, Wait};

/// Between the checks of a sleeper whose wait can be cancelled but not woken.
const CANCEL_CHECK: Duration = Duration::from_millis(20);
/// How late a sleeper may notice that a lease expired while the machine was asleep.
const ASLEEP_CHECK: Duration = Duration::from_secs(5);
/// How long a release waits for writes in flight before it leaves the record as it is.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// An exclusive or shared kernel lock on the hold file.
#[derive(Debug)]
pub(crate) struct Hold {
    target: Target,
    turn: Turn,
    /// The `--lock-file`, held as well: processes that lock it and processes that do not are both
    /// excluded.
    also: Option<(PathBuf, Turn)>,
    drawn: Option<Drawn>,
}

/// The fence of a hold, and the record that says so.
#[derive(Debug)]
struct Drawn {
    fence: Fence,
    record: Opened,
    /// Whether other processes may know the fence, and write under it.
    published: bool,
}

impl Hold {
    /// Waits for the hold, and for the end of a lease. Returns the record file and what it says, too.
    pub(crate) fn take(
        target: &Target,
        mode: Mode,
        request: Request<'_>,
    ) -> Result<(Self, Opened, Seen)> {
        loop {
            let hold = Self::lock(target, mode, request)?;
            let (record, seen) = Seen::open(target)?;
            let Some((holder, left)) = seen.running_lease() else {
                return Ok((hold, record, seen));
            };
            drop(hold);
            wait_for_lease(target, holder, left, request)?;
        }
    }

    /// Waits for the kernel lock alone. The caller looks for a running lease afterwards.
    pub(crate) fn lock(target: &Target, mode: Mode, request: Request<'_>) -> Result<Self> {
        target.prepare()?;
        let take = |path: &Path| {
            gate::take(target, path, mode, request).map_err(|err| name_holder(target, path, err))
        };
        let turn = take(target.hold_file())?;
        target.confirm_owner(Some(turn.handle().as_ref()))?;
        let also = match target.lock_file() {
            Some(path) => Some((path.to_path_buf(), take(path)?)),
            None => None,
        };
        Ok(Self { target: target.clone(), turn, also, drawn: None })
    }

    /// Whether it holds the lock on this file.
    pub(crate) fn is_on(&self, path: &Path) -> bool {
        self.target.hold_file() == path || self.also.as_ref().is_some_and(|(also, _)| also == path)
    }

    /// The descriptors that carry the hold, for child processes.
    pub(crate) fn raw(&mut self) -> Vec<RawHandle> {
        let also = self.also.as_mut().and_then(|(_, turn)| turn.raw());
        self.turn.raw().into_iter().chain(also).collect()
    }

    /// Detects that the lock file was removed or replaced under the hold (G1).
    pub(crate) fn verify(&self) -> Result<()> {
        check_owner(&self.target)?;
        check_named(&self.target, self.target.hold_file(), &self.turn)?;
        self.also.as_ref().map_or(Ok(()), |(path, turn)| check_named(&self.target, path, turn))
    }

    /// It has this fence now, as the record says. `published`: others may know that.
    pub(crate) fn drew(&mut self, fence: Fence, record: Opened, published: bool) {
        self.drawn = Some(Drawn { fence, record, published });
    }

    /// Makes the fence known: from now on it proves the hold, and the end of the hold waits for writes
    /// under it. If that cannot be noted, the fence is refused, which is safe.
    pub(crate) fn publish_fence(&mut self) {
        if let Some(drawn) = self.drawn.as_mut().filter(|drawn| !drawn.published) {
            drawn.published = true;
            let _ = Mark::Published.set(drawn.record.handle.as_ref(), drawn.fence);
        }
    }

    /// Closes our copy of a lock that child processes inherited. The record says so first: for the
    /// next holder this hold ended properly.
    pub(crate) fn leave_to_children(self) -> Result<()> {
        let mut ended = self.verify();
        if let Some(drawn) = self.drawn.as_ref().filter(|_| ended.is_ok()) {
            ended = self.under_commit(|commit| {
                let file = commit.handle().as_ref();
                let mut seen = Seen::read_at(&self.target, file, commit.born_us())?;
                if seen.record.fence == drawn.fence && seen.record.state == State::Held {
                    seen.record.left = true;
                    seen.write(&self.target, file)?;
                }
                Ok(())
            });
        }
        // Whatever happened: unlocking would take it from the children.
        self.turn.leave_to_children();
        if let Some((_, turn)) = self.also {
            turn.leave_to_children();
        }
        ended
    }

    /// Ends the hold: the record first, the lock last. The error is of the record or of the check; the
    /// lock is released in any case.
    pub(crate) fn release(mut self) -> Result<()> {
        self.verify()?;
        let Some(Drawn { fence, record, published }) = self.drawn.take() else { return Ok(()) };
        // A crash before the mark: the next holder learns that we died. After it: we ended
        // properly.
        let end = |file: &dyn Handle| {
            let ended = Mark::Ended.set(file, fence);
            ended.map_err(Target::failed("write record", self.target.commit_file()))
        };
        let Opened { handle, home } = record;
        if !published {
            end(handle.as_ref())?;
            home.keep(handle);
            return Ok(());
        }
        let file = handle.id().ok();
        home.keep(handle); // The commit lock is on the same file, and need not open it.
        self.under_commit(|commit| match file {
            Some(file) if file == commit.id() => end(commit.handle().as_ref()),
            _ => Ok(()), // It was replaced, and the new record knows nothing of this hold.
        })
    }

    /// Waits until writes that proved the hold have ended. If one of them hangs, the record stays as it is, and
    /// the next holder waits for that write instead (invariant 3).
    fn under_commit(&self, act: impl FnOnce(&Turn) -> Result<()>) -> Result<()> {
        let request = Request::after(Wait::For(RELEASE_PATIENCE));
        let path = self.target.commit_file();
        gate::take(&self.target, path, Mode::Exclusive, request).map_or(Ok(()), |turn| act(&turn))
    }
}

/// In a shared directory: the file did not get another owner, and so another lock, during the hold.
pub(crate) fn check_owner(target: &Target) -> Result<()> {
    let Some(user) = target.other_owner() else { return Ok(()) };
    let detail = format!("the file now belongs to user {user}, who uses another lock file");
    Err(compromised(target, &detail).hint("stop writing, and take the lock again"))
}

/// Compares a lock that is held with the name it was opened by.
pub(crate) fn check_named(target: &Target, path: &Path, turn: &Turn) -> Result<()> {
    let named = gate::named(target, path)?;
    if !turn.is_ours() {
        return Err(not_of_this_process(target));
    }
    if named.is_some_and(|found| found.id == turn.id()) {
        return Ok(());
    }
    let detail = "its lock file was removed or replaced during the hold, so others may hold it too";
    Err(compromised(target, detail).hint("stop writing, and find out who cleans up lock files"))
}

/// The error for a forked child that uses a hold of its parent.
pub(crate) fn not_of_this_process(target: &Target) -> Error {
    let hint = "stop writing; the child can take the lock itself once its parent has released it";
    compromised(target, "a forked child does not hold what its parent locked").hint(hint)
}

fn compromised(target: &Target, detail: &str) -> Error {
    Error::new(ErrorKind::Compromised, "verify the hold of", detail).at(target.path())
}

/// Adds the holder of the lock `path` to a `busy`. The record names the holder of the hold; the
/// holder of any other lock is known only to the kernel. The caller itself may have the hold.
pub(crate) fn name_holder(target: &Target, path: &Path, error: Error) -> Error {
    if error.kind() != ErrorKind::Busy {
        return error;
    }
    if path != target.hold_file() {
        return busy(target, kernel_holder(target, path));
    }
    let recorded = Seen::peek(target)
        .ok()
        .flatten()
        .filter(|(_, seen)| seen.bound && seen.record.state != State::Free)
        .map(|(_, seen)| seen.record.holder());
    let Some(recorded) = recorded else { return busy(target, kernel_holder(target, path)) };
    let (holder, note) = current_holder(target, recorded);
    let error = busy(target, Some(holder));
    match note {
        Some(note) => {
            let hint = format!("{note}; {}", error.next_step().unwrap_or_default());
            error.hint(hint)
        }
        None => error,
    }
}

/// The holder to name for a lock whose record says `recorded`, and what to say besides: for people,
/// never for a decision. A command that inherited the lock of `tenure run` keeps it when tenure
/// itself is killed, and the record then names the dead process.
fn current_holder(target: &Target, recorded: Holder) -> (Holder, Option<String>) {
    // A process number that was reused is detected by its start time. If that is unknown, the
    // record is believed.
    if recorded.hold != HoldKind::Lock || recorded.seems_alive() != Some(false) {
        return (recorded, None);
    }
    let files = [Some(target.hold_file()), target.lock_file()];
    let mut keepers: Vec<Holder> =
        files.into_iter().flatten().flat_map(sys::lock_keepers).map(Holder::process).collect();
    // The command itself is older than what it has started; we are refused, whatever we inherited.
    keepers.sort_by_key(|keeper| (keeper.pid == std::process::id(), keeper.start, keeper.pid));
    let Some(keeper) = keepers.into_iter().next() else {
        let note = format!("pid {} is gone; one that it started may still have it", recorded.pid);
        return (recorded, Some(note));
    };
    let note = format!("pid {} that took it is gone", recorded.pid);
    let Holder { pid, start, pid_namespace, host, command, .. } = keeper;
    (Holder { pid, start, pid_namespace, host, command, ..recorded }, Some(note))
}

/// A write in progress, or a foreign tool, leaves no record.
fn kernel_holder(target: &Target, path: &Path) -> Option<Holder> {
    let file = target.fs.stat(path).ok()?.id;
    sys::lock_holder(file).map(Holder::process)
}

/// The `busy` error of a target.
pub(crate) fn busy(target: &Target, holder: Option<Holder>) -> Error {
    let look = command("who", target.path());
    let hint = match holder.as_ref().map(|holder| holder.hold) {
        Some(HoldKind::Lease) => {
            format!("wait for its expiry, or take it over with a reason; {look} shows it")
        }
        _ => format!("wait longer, or see {look}"),
    };
    Error::new(ErrorKind::Busy, "lock", "")
        .at(target.path())
        .held_by(Some(holder.unwrap_or_default()))
        .hint(hint)
}

/// Sleeps until the lease may be over: its expiry, a change of its record, or the caller's
/// deadline.
pub(crate) fn wait_for_lease(
    target: &Target,
    holder: Holder,
    left: Duration,
    request: Request<'_>,
) -> Result<()> {
    let path = target.commit_file();
    let watcher = Watcher::new(&[path]);
    // A change between the read and the watch would be missed, so check once more.
    let file = target.open_sidecar(path)?;
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
        // A timer does not advance while the machine is asleep; the lease does.
        let mut sleep = Duration::from_micros(left_us).min(ASLEEP_CHECK);
        if let Some(remaining) = request.deadline.remaining() {
            sleep = sleep.min(remaining);
        }
        if request.cancel.is_some() {
            sleep = sleep.min(CANCEL_CHECK);
        }
        if watcher.wait(sleep).map_err(Target::failed("watch", path))? {
            return Ok(());
        }
    }
}
