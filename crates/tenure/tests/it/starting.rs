//! Child processes that are starting. Until a child has called `exec` it has a copy of every
//! descriptor of ours, and so of every lock: a lock that we only close meanwhile is not free yet.

use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A thread that starts a child takes this for writing.
static STARTING: RwLock<()> = RwLock::new(());

/// No child is starting while this lives. Its owner must not start one either, or it waits for
/// itself.
pub(crate) fn nobody_starts() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// For those who fork: the child is gone when `forks` returns.
pub(crate) fn alone<T>(forks: impl FnOnce() -> T) -> T {
    let _mine = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    forks()
}

/// Starts a program; it is that program when this returns.
pub(crate) fn start(command: &mut Command) -> std::io::Result<Child> {
    alone(|| command.spawn())
}

/// Runs a program to its end.
pub(crate) fn output_of(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    start(command)?.wait_with_output()
}
