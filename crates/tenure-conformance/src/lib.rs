//! What every store of tenure has to do, as tests that know nothing but the nouns.
//!
//! A test of the suite gets a [`Subject`]: a store, a second handle to it, and what its engine can be made to do. It
//! calls locks, leases, documents, journals and collections, and of a store's own functions only the survey and the
//! status. What a store declares that it cannot do ([`Capabilities`](tenure::store::Capabilities)) must be refused as
//! `unsupported`.
//!
//! ```text
//! tenure_conformance::conformance!(|| Subject::new(store.clone(), store, "/"));
//! ```
//!
//! expands to one `#[test]` for each test. [`run`] runs a test by its name.
//!
//! # Invariants
//!
//! 1. A test ends: every wait in it has a deadline, and [`run`] gives up after [`LIMIT`].
//! 2. No test sleeps to let others come first. A test that has to see that a caller waits, waits for its answer for a
//!    moment and expects none; a store that is slow then passes, and a wrong one fails in most runs.
//! 3. A wrong store ([`Wrong`]) fails the test that is named after what it does wrong.

mod asking;
mod failure;
mod memory;
mod subject;
mod suite;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub use self::failure::{Failure, Outcome};
pub use self::memory::{MemoryStore, Wrong};
pub use self::subject::{BreakConnections, LoseEntries, LoseReply, Subject};
pub use self::suite::TESTS;

/// No test takes this long, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What a test needs besides a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Several threads, or time that passes.
    Threads,
    /// One thread, which never waits: such a test also runs on a simulated disk.
    Alone,
}

/// One test.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// The test itself.
    pub run: fn(&Subject) -> Outcome,
}

/// Runs the test with this name, on a thread of its own. A test that panics or does not end has failed.
pub fn run(name: &str, make: impl FnOnce() -> Subject + Send + 'static) -> Outcome {
    let test = TESTS.iter().find(|test| test.name == name);
    let test = test.ok_or_else(|| Failure::new(format!("no test is called `{name}`")))?;
    let (done, outcome) = mpsc::channel();
    let act = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| (test.run)(&make())));
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::new("it panicked")));
        let _ = done.send(outcome);
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(act);
    started.map_err(|err| Failure::new(format!("no thread: {err}")))?;
    let outcome = outcome.recv_timeout(LIMIT);
    outcome.unwrap_or_else(|_| Err(Failure::new(format!("it takes longer than {LIMIT:?}"))))
}
