//! Who holds what, for people: a look that takes no lock, creates nothing and decides nothing.
//!
//! The record says who they said they are; the kernel (`/proc/locks`, on Linux) says who has the lock
//! and who waits. Where the two differ, the kernel is right.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::events;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::fs::{Access, side_dir_of};
use crate::holder::{HoldKind, Holder, command_of, label_of};
use crate::json;
use crate::json::Value;
use crate::options::Fence;
use crate::sys::disk;
use crate::sys::{self, Locks};

/// What a target is doing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// Nobody has it.
    Free,
    /// An exclusive lock, or a write in progress.
    Lock,
    /// Readers.
    Shared,
    /// A lease that runs.
    Lease,
    /// A lease that has run out, and that nobody has ended or acquired since.
    Expired,
    /// Its last holder died holding it; the next one gets it at once.
    Abandoned,
}

impl HoldState {
    /// The name in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Lock => "lock",
            Self::Shared => "shared",
            Self::Lease => "lease",
            Self::Expired => "expired",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether somebody has to wait for it.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Lock | Self::Shared | Self::Lease)
    }
}

/// A process that has a lock file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, empty if it cannot be read.
    pub command: String,
}

/// What can be seen of one target.
#[derive(Debug, Clone)]
pub struct Status {
    /// The resolved path.
    pub path: PathBuf,
    /// The directory that its lock is in.
    pub sidecars: PathBuf,
    /// What it is doing.
    pub state: HoldState,
    /// Who has it, or had it last and did not end it.
    pub holder: Option<Holder>,
    /// The newest fence that was given out; 0 for none.
    pub fence: Fence,
    /// What is left of a lease that runs.
    pub expires_in: Option<Duration>,
    /// The time to live of a lease.
    pub ttl: Option<Duration>,
    /// Processes that keep the lock: the holder, and children that inherited it.
    pub processes: Vec<Process>,
    /// Processes that wait for it.
    pub waiters: Vec<Process>,
    /// Somebody holds a lock file that is not there any more: others may hold the target too.
    pub compromised: bool,
}

impl Status {
    /// The fields for JSON output.
    pub fn to_json(&self) -> Value {
        let processes = |list: &[Process]| -> Value {
            list.iter().map(|p| json!({ "pid": p.pid, "command": p.command })).collect()
        };
        json!({
            "target": self.path.to_string_lossy(),
            "sidecars": self.sidecars.to_string_lossy(),
            "kind": self.state.name(),
            "holder": self.holder.as_ref().map(Holder::to_json),
            "fence": self.fence,
            "expires_in_ms": self.expires_in.map(milliseconds),
            "ttl_ms": self.ttl.map(milliseconds),
            "processes": processes(&self.processes),
            "waiters": processes(&self.waiters),
            "compromised": self.compromised,
        })
    }
}

impl Holder {
    /// The fields for JSON output.
    pub fn to_json(&self) -> Value {
        json!({
            "pid": self.pid, "host": self.host, "command": self.command, "label": self.label,
            "owner": self.owner, "fence": self.fence, "since_us": self.since_us,
            "kind": self.hold.name(), "pid_namespace": self.pid_namespace, "start": self.start,
        })
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the target `path` is doing.
pub fn status(path: impl AsRef<Path>) -> Result<Status> {
    look(&of_holder(Target::resolve(&disk(), path.as_ref())?)?, &Locks::now())
}

/// The recorded events of a target, oldest first: take-overs, recoveries, adopted and damaged data.
pub fn recorded_events(path: impl AsRef<Path>) -> Result<Vec<Value>> {
    Ok(events::all(&of_holder(Target::resolve(&disk(), path.as_ref())?)?))
}

/// The target with the sidecars that there are. In a directory that users share, one without a file may have
/// those of another user than the caller.
fn of_holder(target: Target) -> Result<Target> {
    let fs = target.fs.clone();
    if fs.stat(target.commit_file()).is_ok() || fs.stat(target.path()).is_ok() {
        return Ok(target);
    }
    let Some(rival) = target.rivals().ok().and_then(|rivals| rivals.first().copied()) else {
        return Ok(target);
    };
    let side = target.dir().join(side_dir_of(rival));
    Ok(Target::resolve_in(&fs, target.path(), &side)?.unwrap_or(target))
}

/// The same, of a target and of locks that were seen already.
pub(crate) fn look(target: &Target, locks: &Locks) -> Result<Status> {
    let record = target.sidecar("commit");
    let seen = match target.open(&record, Access::Read) {
        Ok(file) => Some(Seen::read(target, file.as_ref())?),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
        Err(err) => return Err(Error::io("open record", &record, err)),
    };
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

/// Weighs the record against what the kernel says.
fn judge(status: &mut Status, seen: Option<&Seen>, exclusive: Option<u32>, shared: Option<u32>) {
    let stranger = |pid, hold| Holder {
        pid,
        host: sys::host_name(),
        pid_namespace: sys::pid_namespace(),
        command: command_of(pid),
        label: label_of(pid),
        hold,
        ..Holder::default()
    };
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
            // Nobody visible has it: another PID namespace, a lock file of its own, or a death.
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
