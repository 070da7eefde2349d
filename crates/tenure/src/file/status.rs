//! Who holds what, for people. Takes no lock, creates nothing and decides nothing.
//!
//! The record says who the holder claims to be; the kernel (`/proc/locks`, on Linux) says which
//! process has the lock and which ones wait. Where the two differ, the kernel is right.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::file::events;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::holder::{HoldKind, Holder, command_of};
use crate::json::Value;
use crate::results::{HoldState, Process, Status};
use crate::sys::{self, Locks};

/// The state of a target.
pub(crate) fn status(target: &Target) -> Result<Status> {
    look(&*target.as_held()?, &Locks::now())
}

/// The recorded events of a target, oldest first: take-overs, recoveries, adopted and damaged data.
pub(crate) fn recorded_events(target: &Target) -> Result<Vec<Value>> {
    Ok(events::all(&*target.as_held()?))
}

/// The same, of a target and of locks that were seen already.
pub(crate) fn look(target: &Target, locks: &Locks) -> Result<Status> {
    let seen = Seen::peek(target)?.map(|(_, seen)| seen);
    let hold = target.hold_file();
    let id = target.fs.stat(hold).map(|found| found.id).ok();
    let kernel: Vec<_> = id.map(|id| locks.of(id, hold).collect()).unwrap_or_default();
    let named = |pids: &mut Vec<u32>| -> Vec<Process> {
        pids.sort_unstable();
        pids.dedup();
        pids.iter().map(|pid| Process { pid: *pid, command: command_of(*pid) }).collect()
    };
    let mut waiting: Vec<u32> =
        kernel.iter().filter(|lock| lock.waiting).map(|lock| lock.pid).collect();
    let granted: Vec<_> = kernel.iter().filter(|lock| !lock.waiting).collect();
    let mut keeping: Vec<u32> = if granted.is_empty() {
        Vec::new()
    } else {
        locks.opened(hold).filter(|pid| !waiting.contains(pid)).collect()
    };
    let removed = PathBuf::from(format!("{} (deleted)", hold.display()));
    let mut status = Status {
        path: target.path().to_path_buf(),
        sidecars: target.side().to_path_buf(),
        state: HoldState::Free,
        holder: None,
        fence: seen.as_ref().map_or(0, |seen| seen.record.fence),
        expires_in: None,
        ttl: None,
        processes: named(&mut keeping),
        waiters: named(&mut waiting),
        compromised: locks.opened(&removed).next().is_some(),
    };
    let exclusive = granted.iter().find(|lock| lock.exclusive).map(|lock| lock.pid);
    let shared = granted.iter().find(|lock| !lock.exclusive).map(|lock| lock.pid);
    judge(&mut status, seen.as_ref(), exclusive, shared);
    Ok(status)
}

/// Compares the record with what the kernel says.
fn judge(status: &mut Status, seen: Option<&Seen>, exclusive: Option<u32>, shared: Option<u32>) {
    let stranger = |pid, hold| Holder { hold, ..Holder::process(pid) };
    if let Some(seen) = seen.filter(|seen| seen.record.state == State::Leased) {
        status.ttl = Some(Duration::from_micros(seen.record.lease.ttl_us));
        if let Some((holder, left)) = seen.running_lease() {
            (status.state, status.expires_in) = (HoldState::Lease, Some(left));
            status.holder = Some(holder);
            return;
        }
    }
    let recorded = seen
        .filter(|seen| seen.bound && seen.record.state == State::Held)
        .map(|seen| seen.record.holder());
    let said = |pid: u32| {
        let same =
            |holder: &Holder| holder.pid == pid || holder.pid_namespace != sys::pid_namespace();
        recorded.clone().filter(same)
    };
    (status.state, status.holder) = match (exclusive, shared) {
        (Some(pid), _) => {
            let holder = said(pid).unwrap_or_else(|| stranger(pid, HoldKind::Lock));
            (HoldState::Lock, Some(holder))
        }
        (None, Some(pid)) => (HoldState::Shared, Some(stranger(pid, HoldKind::Shared))),
        (None, None) => match (recorded, seen.map(|seen| seen.record.state)) {
            // No visible process has it: another PID namespace, a lock file of its own, or a death.
            (Some(holder), _) if holder.seems_alive() == Some(false) => {
                // One that ended properly may have left the lock to children; they are gone now.
                if seen.is_some_and(|seen| seen.record.left) {
                    (HoldState::Free, None)
                } else {
                    (HoldState::Abandoned, Some(holder))
                }
            }
            (Some(holder), _) => (HoldState::Lock, Some(holder)),
            (None, Some(State::Leased)) => {
                (HoldState::Expired, seen.map(|seen| seen.record.holder()))
            }
            (None, _) => (HoldState::Free, None),
        },
    };
}
