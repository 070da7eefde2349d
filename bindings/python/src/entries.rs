//! The entries of a journal: read as they are, or followed as they come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::{invalid, is_gap, raise};
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::value::to_python;
use crate::waiting::{next_of, without_lock};

/// One line of a journal.
#[pyclass(frozen, eq, hash, module = "tenure")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    seq: u64,
    line: Vec<u8>,
}

impl From<tenure::outcome::Entry> for Entry {
    fn from(entry: tenure::outcome::Entry) -> Self {
        Self { seq: entry.seq, line: entry.line }
    }
}

#[pymethods]
impl Entry {
    #[new]
    fn new(seq: u64, line: Vec<u8>) -> Self {
        Self { seq, line }
    }

    /// Its number: grows over the life of the journal.
    #[getter]
    fn seq(&self) -> u64 {
        self.seq
    }

    /// Its bytes, without the newline.
    #[getter]
    fn line<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.line)
    }

    /// Its text. Bytes that are not UTF-8 are replaced.
    #[getter]
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.line).into_owned()
    }

    /// Its value, read as JSON.
    #[pyo3(signature = (*, numbers = Numbers::Exact))]
    fn json<'py>(&self, py: Python<'py>, numbers: Numbers) -> PyResult<Bound<'py, PyAny>> {
        let value = tenure::json::parse(&self.line).map_err(|error| raise(py, &error))?;
        to_python(py, &value, numbers)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Entry(seq={}, line={})", self.seq, self.line(py).repr()?))
    }

    /// For `pickle` and `copy`.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> (u64, Bound<'py, PyBytes>) {
        (self.seq, self.line(py))
    }
}

/// What is called for entries that cannot be read any more, if the caller wants that.
type OnGap = Option<Py<PyAny>>;

/// What `next` gives. Gaps before that go to `on_gap`, if there is one.
fn behind_gaps<T>(
    py: Python<'_>,
    on_gap: &OnGap,
    mut next: impl FnMut() -> PyResult<T>,
) -> PyResult<T> {
    loop {
        match (next(), on_gap) {
            (Err(error), Some(on_gap)) if is_gap(py, &error) => {
                on_gap.call1(py, (error.into_value(py),))?;
            }
            (next, _) => return next,
        }
    }
}

/// The entries of a journal, oldest first; later appends are not part of it.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Entries {
    /// `None` while another thread reads.
    entries: Mutex<Option<tenure::outcome::Entries>>,
    on_gap: OnGap,
}

impl Entries {
    pub(crate) fn new(entries: tenure::outcome::Entries, on_gap: OnGap) -> Self {
        Self { entries: Mutex::new(Some(entries)), on_gap }
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Entry>> {
        let place = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut entries) = place().take() else {
            return Err(invalid(py, "read entries", "another thread reads them", None));
        };
        let next = without_lock(py, || entries.next().transpose());
        *place() = Some(entries);
        Ok(next?.map(Into::into))
    }
}

#[pymethods]
impl Entries {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Entry>> {
        behind_gaps(py, &self.on_gap, || self.next(py))
    }
}

/// The entries of a journal as they appear. Iterating waits for ever; `next(wait=...)` does not.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Follow {
    /// `None` while a thread waits with it, and once it was closed.
    inner: Mutex<Option<tenure::outcome::Follow>>,
    /// Set by `close`, also while a thread waits with it: that thread does not put it back.
    closed: AtomicBool,
    on_gap: OnGap,
}

impl Follow {
    pub(crate) fn new(follow: tenure::outcome::Follow, on_gap: OnGap) -> Self {
        Self { inner: Mutex::new(Some(follow)), closed: AtomicBool::new(false), on_gap }
    }

    fn with_follow<T>(&self, act: impl FnOnce(&mut Option<tenure::outcome::Follow>) -> T) -> T {
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn closed(py: Python<'_>) -> PyErr {
    invalid(py, "follow", "it is closed, or another thread waits with it", None)
}

#[pymethods]
impl Follow {
    /// The number to resume from later.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.with_follow(|follow| follow.as_ref().map(tenure::outcome::Follow::position))
            .ok_or_else(|| closed(py))
    }

    /// The next entry, or `None` when the wait is over.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn next(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Entry>> {
        let mut keywords = Keywords::new(py, options)?;
        let wait = keywords.wait_for_news(tenure::Wait::Forever)?;
        let (cancel, _) = keywords.cancel()?;
        keywords.finish()?;
        let next = || {
            let mut follow = self.with_follow(Option::take).ok_or_else(|| closed(py))?;
            let found = next_of(py, wait, cancel.as_ref(), |wait| follow.next(wait));
            let is_open = !self.closed.load(Ordering::SeqCst);
            self.with_follow(|place| *place = is_open.then_some(follow));
            found
        };
        Ok(behind_gaps(py, &self.on_gap, next)?.map(Into::into))
    }

    /// Ends it. A wait of another thread goes on, and is the last.
    fn close(&self) {
        drop(self.with_follow(|place| {
            self.closed.store(true, Ordering::SeqCst);
            place.take()
        }));
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Entry>> {
        self.next(py, None)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) {
        self.close();
    }
}
