//! The first steps of the process on Linux, in place of Rust's own.
//!
//! A command lives for less than a millisecond. What Rust does at the start of any program (it reads the map
//! of its memory to find its stack, and sets up a second one to report an overflow of the first) is a tenth of
//! that. So the C library calls us directly, and what a command does need of it is done here.
//!
//! # Invariants
//!
//! 1. Standard input, output and error are open. Else the first file that we open would get the number of
//!    one of them, and a message would be written into a document.
//! 2. A reader that went away is an error of the write, not the end of the process (`SIGPIPE`).
//! 3. A panic ends the process with the code that Rust has for it.
#![expect(unsafe_code, reason = "the C library calls it with raw arguments")]

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// How a Rust program ends that panicked.
const PANICKED: i32 = 101;

/// What the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    keep_standard_streams();
    // SAFETY: nothing is called by the signal, it is ignored.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: these are the arguments of `main`: so many strings, which live as long as the process.
    let words = (0..count).map(|index| unsafe { CStr::from_ptr(*words.add(index)) });
    let words: Vec<OsString> =
        words.map(|word| OsStr::from_bytes(word.to_bytes()).into()).collect();
    tenure_cli::this_is_the_first_thread();
    let ended = std::panic::catch_unwind(|| tenure_cli::run(&words));
    std::process::exit(ended.map_or(PANICKED, i32::from))
}

/// Opens `/dev/null` for every standard stream that is closed.
fn keep_standard_streams() {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: it is an array of three, and the call does not wait.
    let found = unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) };
    if found == 0 {
        return;
    }
    for stream in streams {
        // If that fails, each descriptor is checked on its own.
        let closed = if found > 0 {
            stream.revents & libc::POLLNVAL != 0
        } else {
            // SAFETY: the call takes numbers only.
            let flags = unsafe { libc::fcntl(stream.fd, libc::F_GETFD) };
            flags == -1
        };
        if closed && stream.fd == 1 {
            tenure_cli::note_closed_stdout();
        }
        // The lowest free number is given out, and all below are open.
        // SAFETY: the path is a string that ends with a zero.
        if closed && unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } != stream.fd {
            std::process::abort();
        }
    }
}
