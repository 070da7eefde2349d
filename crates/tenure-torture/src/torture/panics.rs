//! A panic in the parent of a run. In the build that ships it ends the process at once, so what is to be
//! done about it is done before that.
//!
//! # Invariants
//!
//! 1. It never looks like a verdict. The process ends with the code that Rust has for a panic, and leaves
//!    neither workers nor files.
//! 2. One in the last look is a finding: what it looks at may be what it panics on. That thread goes no
//!    further, and the verdict comes from the others.

use std::any::Any;
use std::panic;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::groups;
use super::scratch::Scratch;

/// The name of the thread that takes the last look.
pub(super) const LAST_LOOK: &str = "last look";

/// How a Rust program ends that panicked.
const PANICKED: i32 = 101;

/// What the last look said when it panicked.
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

/// Why the last look panicked, if it did.
pub(super) fn in_last_look() -> Option<String> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What a panic said.
pub(super) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked".to_owned(), |text| format!("panicked: {text}"))
}
