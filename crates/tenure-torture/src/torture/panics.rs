//! A panic in the parent of a run. In the release build a panic ends the process at once, so the
//! panic hook has to clean up.
//!
//! # Invariants
//!
//! 1. A panic never looks like a verdict. The process ends with Rust's exit code for a panic, and
//!    leaves neither workers nor files.
//! 2. A panic in the final check is a finding: the checked files may have caused it. That thread
//!    stops, and the others print the verdict.

use std::any::Any;
use std::panic;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::groups;
use super::scratch::Scratch;

/// The name of the thread of the final check.
pub(super) const LAST_LOOK: &str = "last look";

/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// The panic message of the final check.
static TOLD: Mutex<Option<String>> = Mutex::new(None);

/// From now on a panic ends the run, which works in `scratch`.
pub(super) fn watch(scratch: &Path) {
    let (usual, scratch) = (panic::take_hook(), scratch.to_path_buf());
    panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some(LAST_LOOK) {
            let why = reason(info.payload());
            *TOLD.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            loop {
                std::thread::park();
            }
        }
        usual(info);
        groups::end_all();
        Scratch::remove(&scratch);
        std::process::exit(PANICKED);
    }));
}

/// Why the final check panicked, if it did.
pub(super) fn in_last_look() -> Option<String> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The message of a panic.
pub(super) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked".to_owned(), |text| format!("panicked: {text}"))
}
