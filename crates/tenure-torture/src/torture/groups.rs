//! The process groups of a run that are alive, for whoever has to end all of them at once.
//!
//! # Invariants
//!
//! 1. A group is taken off the list before its leader is reaped, so no signal reaches a process that got
//!    its number later.
//! 2. A child is started and put on the list in one step: whoever has the list in hand misses none.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Starts a child, the leader of a group.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    groups.push(Pid::from_child(&child));
    Ok(child)
}

/// Takes it off: it is going to be reaped.
pub(super) fn remove(child: &Child) {
    let pid = Pid::from_child(child);
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| *one != pid);
}

/// Kills all of them, and lets nobody start another one: this process is going to end. Whoever has the list in
/// hand may be the one that panicked: then they end by themselves, with their input.
pub(super) fn end_all() {
    let Ok(groups) = GROUPS.try_lock() else { return };
    for group in groups.iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::mem::forget(groups);
}
