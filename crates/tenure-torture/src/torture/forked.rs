//! A fork without exec, in the middle of a hold: what a runtime does that forks its workers.
//!
//! The child has a copy of everything, the guard of its parent's hold too. It lets go of that, as an exit handler
//! would, and ends at once. The hold is its parent's: nobody else may get in.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Forks; the child does `work` and ends, and nothing of its parent's runs in it afterwards.
pub(super) fn fork(work: impl FnOnce()) -> io::Result<()> {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child calls nothing but `work` and ends with `_exit`; that the library survives this beside
    // the threads of its parent, which the child does not have, is what is tried.
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
        // Somebody has to hear of its end, or it stays in the list of processes.
        child => {
            let hear = move || waitpid(child, WaitOptions::empty());
            std::thread::Builder::new().name("forked".into()).spawn(hear).map(drop)
        }
    }
}
