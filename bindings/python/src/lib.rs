//! The native half of the Python package: the core's nouns and verbs as Python classes.
//!
//! # Invariants
//!
//! 1. Nothing waits, reads or writes while it holds the interpreter lock: every call into the core is
//!    made through `waiting`, which lets go of it.
//! 2. No mutex of ours is held while the interpreter lock is let go. `fork` happens under the
//!    interpreter lock, so a forked child never finds such a mutex locked.
//! 3. Every failure is a Python exception. A panic of the core becomes one too.

use pyo3::prelude::*;

mod argument;
mod blob;
mod callback;
mod collection;
mod document;
mod entries;
mod environment;
mod error;
mod journal;
mod keywords;
mod lease;
mod lock;
mod number;
mod once;
mod path;
mod queue;
mod record;
mod report;
mod store;
mod together;
mod value;
mod waiting;

#[pymodule]
fn _tenure(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CODES", error::codes(module.py())?)?;
    module.add_class::<waiting::Cancel>()?;
    lock::register(module)?;
    document::register(module)?;
    journal::register(module)?;
    lease::register(module)?;
    collection::register(module)?;
    blob::register(module)?;
    once::register(module)?;
    queue::register(module)?;
    store::register(module)?;
    together::register(module)
}
