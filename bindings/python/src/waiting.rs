//! Calling the core: without the interpreter lock, interruptible, and with panics caught.
//!
//! # Invariants
//!
//! 1. Python runs signal handlers in its main thread only, and only while that thread asks for it. So
//!    the main thread waits in short pieces and asks in between; other threads wait in one piece.
//!    A wait that cannot be cut into pieces is made by a thread of its own for the main thread, which
//!    asks meanwhile.
//! 2. A piece that ends leaves the parked kernel waiter behind (see the core's gate), so the place in
//!    the kernel's queue is kept from piece to piece.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tenure::{Error, ErrorKind, Result, Wait};

use crate::error::{panicked, raise};

/// How late Ctrl-C may come.
const PIECE: Duration = Duration::from_millis(50);

/// Ends waits from another thread. Once cancelled it stays cancelled.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Cancel {
    token: tenure::Cancel,
    /// The thread on whose behalf another one waits.
    thread: Option<ThreadId>,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self { token: tenure::Cancel::new(), thread: None }
    }

    /// For a wait that another thread makes on behalf of this one: an event loop's.
    #[staticmethod]
    fn _on_behalf() -> Self {
        Self { token: tenure::Cancel::new(), thread: Some(std::thread::current().id()) }
    }

    /// Makes every wait with this token end with `CancelledError`, now and later.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.token.cancel());
    }

    /// Whether `cancel` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl Cancel {
    pub(crate) fn token(&self) -> tenure::Cancel {
        self.token.clone()
    }

    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.thread
    }
}

/// Does something that does not wait for others.
pub(crate) fn without_lock<T: Send>(
    py: Python<'_>,
    act: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(act))) {
        Ok(done) => done.map_err(|error| raise(py, &error)),
        Err(panic) => Err(panicked(py, panic.as_ref())),
    }
}

/// Does something that may wait this long. `act` is called again with what is left of the wait.
pub(crate) fn waiting<T: Send>(
    py: Python<'_>,
    wait: Wait,
    mut act: impl FnMut(Wait) -> Result<T> + Send,
) -> PyResult<T> {
    let still_busy =
        |error: &Error| error.kind() == ErrorKind::Busy && error.is_committed() != Some(true);
    in_pieces(py, wait, false, |piece| match act(piece) {
        Err(error) if piece != wait && still_busy(&error) => Ok(Err(error)),
        done => done.map(Ok),
    })?
    .map_err(|error| raise(py, &error))
}

/// Waits for the next thing to come, piece by piece; `None` when the wait is over.
pub(crate) fn next_of<T: Send>(
    py: Python<'_>,
    wait: Wait,
    cancel: Option<&tenure::Cancel>,
    mut next: impl FnMut(Wait) -> Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    let cancelled = || {
        let detail = "the wait was cancelled";
        Error::new(ErrorKind::Cancelled, "wait for", detail)
    };
    let outcome = in_pieces(py, wait, cancel.is_some(), |piece| {
        if cancel.is_some_and(tenure::Cancel::is_cancelled) {
            return Err(cancelled());
        }
        Ok(next(piece)?.ok_or(()))
    })?;
    Ok(outcome.ok())
}

/// Calls `act` until it has something, fails, or the wait is over; then what it said last. A thread
/// other than the main one waits in pieces only if it `always` has to.
fn in_pieces<T: Send, W: Send>(
    py: Python<'_>,
    wait: Wait,
    always: bool,
    mut act: impl FnMut(Wait) -> Result<std::result::Result<T, W>> + Send,
) -> PyResult<std::result::Result<T, W>> {
    let end = match wait {
        Wait::No => return without_lock(py, || act(Wait::No)),
        Wait::For(time) => Instant::now().checked_add(time),
        Wait::Forever => None,
    };
    let mut pieces = true;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let last = left.is_some_and(|left| left <= PIECE);
        let piece = match left {
            Some(left) if last || !pieces => Wait::For(left),
            None if !pieces => Wait::Forever,
            _ => Wait::For(PIECE),
        };
        let outcome = without_lock(py, || act(piece))?;
        if outcome.is_ok() || last || !pieces {
            return Ok(outcome);
        }
        py.check_signals()?;
        pieces = always || is_main_thread(py)?;
    }
}

/// Does something that waits in one piece: its place in a queue would be lost with a piece, or what it saw when it
/// began. `act` is given what ends it, and the thread that it waits for.
pub(crate) fn in_one_piece<T: Send + 'static>(
    py: Python<'_>,
    (given, behalf): (Option<tenure::Cancel>, Option<ThreadId>),
    act: impl FnOnce(tenure::Cancel, ThreadId) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let thread = behalf.unwrap_or_else(|| thread::current().id());
    if !is_main_thread(py)? {
        return without_lock(py, || act(given.unwrap_or_default(), thread));
    }
    let (cancel, (sender, mut receiver)) = (tenure::Cancel::new(), sync_channel(1));
    let ends = cancel.clone();
    let wait = move || drop(sender.send(catch_unwind(AssertUnwindSafe(|| act(ends, thread)))));
    thread::Builder::new().name("tenure-wait".into()).spawn(wait)?;
    loop {
        let answers = &mut receiver;
        match py.detach(move || answers.recv_timeout(PIECE)) {
            Ok(Ok(done)) => return done.map_err(|error| raise(py, &error)),
            Ok(Err(panic)) => return Err(panicked(py, panic.as_ref())),
            Err(RecvTimeoutError::Disconnected) => return Err(panicked(py, &"no answer")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if given.as_ref().is_some_and(tenure::Cancel::is_cancelled) {
            cancel.cancel();
        }
        if let Err(raised) = py.check_signals() {
            cancel.cancel();
            // What it got all the same is dropped, which releases it.
            py.detach(move || drop(receiver.recv()));
            return Err(raised);
        }
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "get_ident")?.call0()?;
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    current.eq(main)
}
