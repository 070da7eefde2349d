//! The live process groups of a run, so that all of them can be killed at once.
//!
//! # Invariants
//!
//! 1. A group is removed from the list before its leader is reaped, so no signal reaches a process
//!    that got its number later.
//! 2. A child is started and added to the list in one step, under its mutex: the list is never
//!    incomplete.

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

/// Removes it: it is about to be reaped.
pub(super) fn remove(child: &Child) {
    let pid = Pid::from_child(child);
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| *one != pid);
}

/// Kills all groups and keeps the list locked, so that no other child starts: this process is about
/// to end. If the mutex is taken, its owner may be the thread that panicked; then the children end
/// by themselves, with their input.
pub(super) fn end_all() {
    let Ok(groups) = GROUPS.try_lock() else { return };
    for group in groups.iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::mem::forget(groups);
}
