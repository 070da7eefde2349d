//! What to do about an error of the operating system, for those that people meet.
//!
//! # Invariants
//!
//! 1. It is true at any step, whether the change was made or not: nothing here says to repeat the call.

use std::io;

use crate::sys;

/// The next step, if there is one to suggest.
pub(crate) fn about(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::StorageFull => "make room on its disk",
        io::ErrorKind::QuotaExceeded => {
            "its owner's quota is used up: make room, or have it raised"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "it is mounted read-only: mount it for writing, or keep the file elsewhere"
        }
        io::ErrorKind::PermissionDenied => {
            "run it as a user with access, or change the permissions"
        }
        io::ErrorKind::NotFound => "check the name, and that its directory is there",
        io::ErrorKind::NotADirectory => "a part of the path is no directory: name another one",
        io::ErrorKind::IsADirectory => "it is a directory: name a file",
        io::ErrorKind::FileTooLarge => {
            "it may not grow further here: raise the limit, or rotate it"
        }
        _ if sys::is_too_long(error) => "use a shorter name",
        _ if sys::is_out_of_files(error) => {
            "too many files are open: close some, or raise the limit (ulimit -n)"
        }
        _ if sys::is_hardware(error) => "check the disk, and what the kernel says about it (dmesg)",
        _ => return None,
    })
}
