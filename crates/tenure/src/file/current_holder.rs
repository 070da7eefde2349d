//! Who has a lock now whose recorded holder is gone: for people, never for a decision.
//!
//! A command that inherited the lock of `tenure run` keeps it when tenure itself is killed, and the
//! record names the dead one for as long as that lasts.

use crate::file::target::Target;
use crate::holder::{HoldKind, Holder};
use crate::sys;

/// Whom to name for a lock of which the record says `recorded`, and what to say besides.
pub(crate) fn name(target: &Target, recorded: Holder) -> (Holder, Option<String>) {
    // A number that another process has by now is told by its start. What cannot be told is believed.
    if recorded.hold != HoldKind::Lock || recorded.seems_alive() != Some(false) {
        return (recorded, None);
    }
    let files = [Some(target.hold_file()), target.lock_file()];
    let mut keepers: Vec<Holder> =
        files.into_iter().flatten().flat_map(sys::lock_keepers).map(Holder::process).collect();
    // The command itself is older than what it has started; we are turned away, whatever we inherited.
    keepers.sort_by_key(|keeper| (keeper.pid == std::process::id(), keeper.start, keeper.pid));
    let Some(keeper) = keepers.into_iter().next() else {
        let note = format!("pid {} is gone; one that it started may still have it", recorded.pid);
        return (recorded, Some(note));
    };
    let note = format!("pid {} that took it is gone", recorded.pid);
    let Holder { pid, start, pid_namespace, host, command, .. } = keeper;
    (Holder { pid, start, pid_namespace, host, command, ..recorded }, Some(note))
}
