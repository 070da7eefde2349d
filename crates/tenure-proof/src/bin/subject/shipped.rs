//! A process that takes the lock of a tool that shipped, and uses it as that tool does.
//!
//! It prints `mine` or `busy`. With the lock it executes each line of its input, and reports when
//! it is done. It ends with its input, and leaves the lock behind.

use std::io;
use std::path::Path;

use rustix::process::{Pid, WaitOptions, waitpid};
use tenure_shipped::Lock;
use tenure_shipped::locks::SessionLock;

/// The session lock of the state in `directory`.
pub(crate) fn session_lock(directory: &str) -> io::Result<()> {
    let mut lock = SessionLock::open(Path::new(directory))?;
    if lock.enter().is_err() {
        println!("busy");
        return Ok(());
    }
    println!("mine");
    for line in io::stdin().lines() {
        match line?.as_str() {
            "fork" => fork(&mut lock)?,
            other => return Err(io::Error::other(format!("failed to understand `{other}`"))),
        }
        println!("done");
    }
    Ok(())
}

/// A child that ends at once and runs the exit handler it has from its parent, which releases the
/// lock.
fn fork(lock: &mut SessionLock) -> io::Result<()> {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: there is one thread; the child removes a file and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(lock.leave().is_err());
        #[expect(unsafe_code, reason = "nothing else of the parent in the child")]
        // SAFETY: ends the process; nothing runs afterwards.
        unsafe {
            libc::_exit(code)
        }
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    waitpid(Pid::from_raw(child), WaitOptions::empty())?;
    Ok(())
}
