//! Room for filters that recurse deeply.

use crate::failure::Result;

/// A filter may recurse deeply; its values may nest deeply before they are refused.
const STACK_BYTES: usize = 1 << 28;

/// Runs `act` on a stack that a deeply recursive filter does not exhaust. Memory is used as needed.
pub(crate) fn with_room<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if main_stack_can_grow() {
        // A panic is the filter's, as on a thread: nothing that it broke is used again.
        let act = std::panic::AssertUnwindSafe(act);
        return std::panic::catch_unwind(act).unwrap_or_else(|_| Err(super::failed("it crashed")));
    }
    on_a_thread(act)
}

/// The stack of a process's first thread grows as it is used, up to a limit that the process may raise:
/// that costs two system calls, where a thread costs thirty and a second heap. The kernel leaves at least
/// 128 MB of room below it, and nearly always gigabytes.
#[cfg(target_os = "linux")]
fn main_stack_can_grow() -> bool {
    use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
    if rustix::thread::gettid() != getpid() {
        return false;
    }
    let Rlimit { current, maximum } = getrlimit(Resource::Stack);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= STACK_BYTES as u64);
    let wanted = Rlimit { current: Some(STACK_BYTES as u64), maximum };
    enough(current) || (enough(maximum) && setrlimit(Resource::Stack, wanted).is_ok())
}

/// Elsewhere it has its final size from the start.
#[cfg(not(target_os = "linux"))]
fn main_stack_can_grow() -> bool {
    false
}

fn on_a_thread<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("filter".into()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, act) {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(super::failed("it crashed"))),
            Err(err) => Err(super::failed(&format!("no thread for it: {err}"))),
        }
    })
}
