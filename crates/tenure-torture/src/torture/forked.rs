//! A fork without exec in the middle of a hold, as in a runtime that forks its workers.
//!
//! The child has a copy of everything, including the guard of its parent's hold. It drops that, as
//! an exit handler would, and ends at once. The parent still holds the lock: no other process may
//! get it.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Forks; the child does `work` and ends. No other code of its parent runs in it.
pub(super) fn fork(work: impl FnOnce()) -> io::Result<()> {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child calls nothing but `work` and ends with `_exit`. The child lacks its
    // parent's threads; that the library survives this is what is tested.
    let child = unsafe { libc::fork() };
    match Pid::from_raw(child) {
        _ if child < 0 => Err(io::Error::last_os_error()),
        None => {
            work();
            #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
            // SAFETY: ends the process; nothing runs afterwards.
            unsafe {
                libc::_exit(0)
            }
        }
        // It must be waited for, or it stays a zombie.
        child => {
            let hear = move || waitpid(child, WaitOptions::empty());
            std::thread::Builder::new().name("forked".into()).spawn(hear).map(drop)
        }
    }
}
