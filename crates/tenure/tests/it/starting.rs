//! Children of this process on their way. Until a child is another program it has a copy of every
//! descriptor that we have, and with it of every lock: what we only close meanwhile is not free yet.

use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Whoever starts a child writes.
static STARTING: RwLock<()> = RwLock::new(());

/// No child is on its way for as long as this lives. Its owner starts none either, or waits for itself.
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
