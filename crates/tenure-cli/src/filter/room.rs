//! Room for filters that recurse deeply or compute large values, and an end to it.
//!
//! The jq engine recurses on the stack of its thread, and its values take what memory there is. Both are
//! bounded: a filter that needs more ends the process with the error of a failed filter (exit code 1), as
//! an `error("...")` in it does. Nothing was changed then: a change is published after its filter has
//! ended, and the kernel releases the locks.
//!
//! # Invariants
//!
//! 1. An overflow of the stack is found by the page fault, on a second stack. Any other fault is a defect
//!    of tenure and ends the process as it always does.
//! 2. The report of a filter that is ended allocates nothing and takes no lock.
//! 3. Only a panic of the engine is reported as a failed filter.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::failure::Result;

/// A filter may recurse deeply; its values may nest deeply before they are refused.
const STACK_BYTES: usize = 1 << 28;
/// What a filter may take while it runs, above what was in use when it began.
const MEMORY_BYTES: usize = 1 << 30;

/// Why a filter was ended.
const TOO_DEEP: &str = "it recurses too deeply: it needs more than 256 MB of stack";
const TOO_LARGE: &str = "its values are too large: it needs more than 1 GB of memory";
const CRASHED: &str = "it crashed";

/// How a report begins and ends, for people and for programs. A test compares both with the error of any
/// other failed filter.
const LINE: [&str; 3] = ["tenure: failed to run the filter: ", "; ", "\n"];
const OBJECT: [&str; 3] = [
    "{\"code\":\"filter\",\"message\":\"failed to run the filter: ",
    "\",\"action\":\"run the filter\",\"path\":null,\"holder\":null,\"expires_in_ms\":null,\"hint\":\"",
    "\",\"committed\":null,\"exit\":1}\n",
];

/// Whether the report is an object.
static JSON: AtomicBool = AtomicBool::new(false);
/// Bytes that the system's allocator has handed out.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// As many may be; no limit while no filter runs.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// Whether this thread is in the jq engine.
    static ENGINE_RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `act` on a stack that a deeply recursive filter does not exhaust. Memory is used as needed.
pub(crate) fn with_room<T: Send>(json: bool, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    JSON.store(json, Ordering::Relaxed);
    report_panics_of_the_engine();
    if !main_stack_can_grow() {
        return on_a_thread(act);
    }
    stack::watch();
    act()
}

/// A panic of the engine is the error of a failed filter, in a build that unwinds and in one that aborts. Any other panic
/// is a defect of tenure, and reported as Rust does: it may have come in the middle of a change.
fn report_panics_of_the_engine() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if ENGINE_RUNS.get() {
                end(CRASHED);
            }
            report(panic);
        }));
    });
}

/// While this lives, a filter runs, and memory is bounded.
#[derive(Debug)]
pub(super) struct Bounded;

impl Bounded {
    pub(super) fn begin() -> Self {
        let limit = IN_USE.load(Ordering::Relaxed).saturating_add(MEMORY_BYTES);
        LIMIT.store(limit, Ordering::Relaxed);
        ENGINE_RUNS.set(true);
        Self
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        ENGINE_RUNS.set(false);
        LIMIT.store(usize::MAX, Ordering::Relaxed);
    }
}

/// The allocator is about to hand out `bytes` more. Does not return if that is too much for a filter.
pub fn memory_taken(bytes: usize) {
    let before = IN_USE.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) > LIMIT.load(Ordering::Relaxed) {
        end(TOO_LARGE);
    }
}

/// The allocator got `bytes` back.
pub fn memory_returned(bytes: usize) {
    IN_USE.fetch_sub(bytes, Ordering::Relaxed);
}

/// The system has no more memory. Does not return if a filter runs.
pub fn memory_refused() {
    if LIMIT.load(Ordering::Relaxed) != usize::MAX {
        end(TOO_LARGE);
    }
}

/// The report of a filter that was ended, in `room`; returns its length.
fn report(why: &str, json: bool, room: &mut [u8; 1024]) -> usize {
    let hint = super::HINT;
    let [begin, middle, finish] = if json { OBJECT } else { LINE };
    let line = [begin, why, middle, hint, finish];
    let object = [begin, why, "; ", hint, middle, hint, finish];
    let parts = if json { &object[..] } else { &line[..] };
    let mut end = 0;
    for byte in parts.iter().flat_map(|part| part.bytes()).take(room.len()) {
        room[end] = byte;
        end += 1;
    }
    end
}

#[cfg(unix)]
fn end(why: &str) -> ! {
    stack::end(why)
}

#[cfg(not(unix))]
fn end(why: &str) -> ! {
    use std::io::Write;
    let mut room = [0; 1024];
    let length = report(why, JSON.load(Ordering::Relaxed), &mut room);
    let _ = std::io::stderr().write_all(&room[..length]);
    std::process::exit(1)
}

/// The stack of a process's first thread grows as it is used, up to a limit that the process may change:
/// that costs two system calls, where a thread costs thirty and a second heap. The kernel leaves at least
/// 128 MB of room below it, and nearly always gigabytes.
#[cfg(target_os = "linux")]
fn main_stack_can_grow() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !ON_FIRST_THREAD.load(Ordering::Relaxed) {
        return false;
    }
    let bytes = STACK_BYTES as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Stack);
    let wanted = Rlimit { current: Some(bytes), maximum };
    current == Some(bytes)
        || (maximum.is_none_or(|most| most >= bytes) && setrlimit(Resource::Stack, wanted).is_ok())
}

/// Elsewhere it has its final size from the start.
#[cfg(not(target_os = "linux"))]
fn main_stack_can_grow() -> bool {
    false
}

/// Whether filters run on the first thread of the process. Tests run them on others.
static ON_FIRST_THREAD: AtomicBool = AtomicBool::new(false);

/// Says that the calling thread is the first of the process, and the one that runs the command.
pub fn this_is_the_first_thread() {
    ON_FIRST_THREAD.store(true, Ordering::Relaxed);
}

fn on_a_thread<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let act = || {
        stack::watch();
        act()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("filter".into()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, act) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(err) => Err(super::failed(&format!("no thread for it: {err}"))),
        }
    })
}

/// The overflow of a stack, as the kernel reports it.
#[cfg(unix)]
mod stack {
    #![expect(unsafe_code, reason = "a signal handler, and its stack")]

    use std::cell::UnsafeCell;
    use std::ptr::{from_ref, null_mut};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{JSON, STACK_BYTES, TOO_DEEP, report};

    /// The handler's own stack: the one that overflowed has no room for it.
    #[repr(align(64))]
    struct Second(UnsafeCell<[u8; 64 * 1024]>);

    // SAFETY: only the kernel writes to it, for one handler that does not return to where it was called.
    unsafe impl Sync for Second {}

    static SECOND: Second = Second(UnsafeCell::new([0; 64 * 1024]));
    /// Where the stack was when it was watched.
    static TOP: AtomicUsize = AtomicUsize::new(0);
    /// The fault may be this far below the last byte: a guard page, or what one frame skips.
    const BEYOND: usize = 1 << 20;

    /// From now on an overflow of this thread's stack is the error of a filter.
    pub(super) fn watch() {
        let here = 0_u8;
        TOP.store(from_ref(&here).addr(), Ordering::Relaxed);
        let second = libc::stack_t {
            ss_sp: SECOND.0.get().cast(),
            ss_flags: 0,
            ss_size: size_of::<Second>(),
        };
        // SAFETY: the memory is static, and nothing else uses it.
        if unsafe { libc::sigaltstack(&raw const second, null_mut()) } != 0 {
            return; // An overflow ends the process as before.
        }
        // SAFETY: all of its fields may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = faulted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in FAULTS {
            // SAFETY: the handler only calls what a handler may.
            unsafe { libc::sigaction(*signal, &raw const action, null_mut()) };
        }
    }

    /// How a page that must not be touched is reported.
    #[cfg(target_os = "linux")]
    const FAULTS: &[i32] = &[libc::SIGSEGV];
    #[cfg(not(target_os = "linux"))]
    const FAULTS: &[i32] = &[libc::SIGSEGV, libc::SIGBUS];

    extern "C" fn faulted(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel gives it to a handler with SA_SIGINFO.
        let at = unsafe { (*info).si_addr() }.addr();
        let top = TOP.load(Ordering::Relaxed);
        if (top.saturating_sub(STACK_BYTES + BEYOND)..top).contains(&at) {
            end(TOO_DEEP);
        }
        // SAFETY: the call takes numbers only. The instruction is repeated, and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }

    /// Writes the report and ends the process. A handler may do this: no allocation, no lock.
    pub(super) fn end(why: &str) -> ! {
        let mut room = [0; 1024];
        let length = report(why, JSON.load(Ordering::Relaxed), &mut room);
        // SAFETY: it is so many bytes.
        unsafe { libc::write(2, room.as_ptr().cast(), length) };
        // SAFETY: nothing runs after it.
        unsafe { libc::_exit(1) }
    }
}

#[cfg(not(unix))]
mod stack {
    pub(super) fn watch() {}
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A panic during the publication may have changed something.
    #[test]
    fn only_a_panic_of_the_engine_is_a_failed_filter() {
        const WHERE: &str = "TENURE_TEST_PANIC_IN";
        if let Ok(place) = std::env::var(WHERE) {
            let _ended = with_room(false, || -> Result<()> {
                let _bounded = (place == "engine").then(Bounded::begin);
                panic!("on purpose");
            });
            std::process::exit(0); // The panic was taken for something else.
        }
        for (place, code, said) in [("engine", 1, "it crashed"), ("publication", 101, "on purpose")]
        {
            let ran = Command::new(std::env::current_exe().unwrap())
                .args(["only_a_panic_of_the_engine_is_a_failed_filter", "--nocapture"])
                .env(WHERE, place)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(code), "{place}: {stderr}");
            assert!(stderr.contains(said), "{place}: {stderr}");
            assert_eq!(stderr.contains("nothing was changed"), place == "engine", "{stderr}");
        }
    }

    #[test]
    fn an_ended_filter_reports_as_any_failed_one() {
        for why in [TOO_DEEP, TOO_LARGE, CRASHED] {
            let failure = crate::filter::failed(why);
            let mut room = [0; 1024];
            let length = report(why, false, &mut room);
            let expected = format!("tenure: {}\n", failure.message().unwrap());
            assert_eq!(String::from_utf8_lossy(&room[..length]), expected);
            let length = report(why, true, &mut room);
            let expected = format!("{}\n", failure.to_json(failure.exit()));
            assert_eq!(String::from_utf8_lossy(&room[..length]), expected);
        }
    }
}
