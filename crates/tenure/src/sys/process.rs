//! This process: who it is for others, and its forks, noticed without a system call.
//!
//! Two things must be known on every path that locks: whether this is a forked child, which must not
//! act on its parent's locks, and whether this process has forked since it opened a file, because the
//! child has a copy of that open file and a lock on it would outlive us there.
//!
//! The C library calls us at every `fork`. A child made by the bare system call is not noticed;
//! such a child must not use a library that its parent used.
#![expect(unsafe_code, reason = "pthread_atfork is a raw call")]

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How many forks are between the first process that asked and this one.
static DEPTH: AtomicU32 = AtomicU32::new(0);
/// How many forks this process has made or been made by.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether the C library reports forks to us; decided once, since everything is compared by it.
static WATCHED: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> std::ffi::c_int;
}

extern "C" fn in_parent() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    DEPTH.fetch_add(1, Ordering::SeqCst);
}

/// Identifies this process among all that can see a copy of its memory.
pub(crate) fn process_number() -> u32 {
    if is_watched() { DEPTH.load(Ordering::SeqCst) } else { std::process::id() }
}

/// Changes with every fork of this process; `None` where forks are not noticed.
pub(crate) fn forks() -> Option<u32> {
    is_watched().then(|| FORKS.load(Ordering::SeqCst))
}

fn is_watched() -> bool {
    // Not a `OnceLock`: a fork in the middle of this would lock it for ever in the child.
    // Registering twice only counts twice.
    if WATCHED.load(Ordering::SeqCst) == UNDECIDED {
        // SAFETY: the handlers only add to atomics, which is allowed in a forked child; they live as
        // long as the code does.
        let failed = unsafe { pthread_atfork(None, Some(in_parent), Some(in_child)) } != 0;
        let found = if failed { NO } else { YES };
        let _ = WATCHED.compare_exchange(UNDECIDED, found, Ordering::SeqCst, Ordering::SeqCst);
    }
    WATCHED.load(Ordering::SeqCst) == YES
}

/// Whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The path with exactly these bytes: any bytes name a file.
#[expect(clippy::unnecessary_wraps, reason = "not every system has a path for any bytes")]
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<std::path::PathBuf> {
    Some(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into())
}

/// The name of this machine, for people.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The PID namespace: a pid means something only inside it. 0 where there is none.
pub(crate) fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// When the process started, in the kernel's own unit; for display and comparison only.
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may contain spaces and parentheses; the fields start after the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether no process has this number any more, or only a dead one that its parent has not waited for. For
/// display only.
pub(crate) fn is_gone(pid: u32) -> bool {
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let Some(number) = number else { return true };
    // Processes of other users may be hidden from us; the kernel still says whether they exist.
    if rustix::process::test_kill_process(number) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    // With more threads than one, only the first of them has ended.
    fields.next() == Some("Z") && fields.nth(16).is_none_or(|threads| threads == "1")
}

#[cfg(test)]
mod tests;
