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

/// Whether this process runs this test alone, as one must that looks at what the process has. If not, the
/// test is run in such a process and has to pass there.
pub(crate) fn is_by_itself(test: &str) -> bool {
    const ALONE: &str = "TENURE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let ran = output_of(command.args(["--exact", test, "--nocapture"]).env(ALONE, "1")).unwrap();
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&ran.stdout), said(&ran.stderr));
    assert!(ran.status.success() && out.contains(" 1 passed"), "{out}{err}");
    false
}
