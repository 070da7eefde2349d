//! Actions that one caller does for many. `tenure/_once.py` calls the function between `_ask` and the end of the turn.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::LockOptions;
use tenure::file::FileOptions;
use tenure::json;
use tenure_remote::Place;

use crate::argument::seconds;
use crate::error::{invalid, raise};
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::store::place_of;
use crate::value::{from_python, to_python};
use crate::waiting::{in_one_piece, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Once>()?;
    module.add_class::<Turn>()
}

/// The result of an action that is done once for many callers.
#[pyclass(frozen, name = "_Once", module = "tenure")]
#[derive(Debug)]
struct Once {
    inner: tenure::once::Once,
    ttl: Duration,
    numbers: Numbers,
    place: Place,
}

/// The right to do the action.
#[pyclass(frozen, name = "_Turn", module = "tenure")]
#[derive(Debug)]
struct Turn {
    /// `None` once it has ended.
    inner: Mutex<Option<tenure::once::Turn>>,
    ttl: Duration,
    numbers: Numbers,
}

/// The result if it is fresh, the number of the failure, or the turn.
type Answer<'py> = (Option<Bound<'py, PyAny>>, Option<i32>, Option<Turn>);

#[pymethods]
impl Once {
    #[new]
    #[pyo3(signature = (path, *, ttl, numbers = Numbers::Exact, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        path: PathArgument,
        ttl: &Bound<'_, PyAny>,
        numbers: Numbers,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (place, ttl) = (place_of(store)?, seconds(ttl, "ttl")?);
        let open = || tenure::once::Once::on(place.store().as_ref(), &path.0);
        Ok(Self { inner: without_lock(py, open)?, ttl, numbers, place })
    }

    /// The resolved path.
    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().into()
    }

    /// Asks for the result, or for the turn.
    #[pyo3(signature = (**options))]
    fn ask<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Answer<'py>> {
        let mut keywords = Keywords::new(py, options)?;
        let address = self.place.address(self.inner.lock().path());
        let fence = keywords.inherited().fence_of(&address).map_err(|error| raise(py, &error))?;
        let options = LockOptions {
            wait: keywords.wait()?,
            label: keywords.text("label")?,
            owner: keywords.text("owner")?,
            fence,
            file: FileOptions {
                allow_network: keywords.flag("allow_network")?,
                ..FileOptions::default()
            },
            ..LockOptions::default()
        };
        let cancel = keywords.cancel()?;
        keywords.finish()?;
        let once = self.inner.clone();
        let asked = in_one_piece(py, cancel, move |cancel, thread| {
            once.ask(&LockOptions { cancel: Some(cancel), thread: Some(thread), ..options })
        })?;
        Ok(match asked {
            tenure::once::Asked::Fresh(bytes) => (Some(self.parse(py, &bytes)?), None, None),
            tenure::once::Asked::Failed(code) => (None, Some(code), None),
            tenure::once::Asked::Turn(turn) => {
                let inner = Mutex::new(Some(turn));
                let turn = Turn { inner, ttl: self.ttl, numbers: self.numbers };
                (None, None, Some(turn))
            }
        })
    }
}

impl Once {
    /// No text is no result.
    fn parse<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if bytes.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        let value = json::parse(bytes).map_err(|_| {
            let detail = "it is not JSON; a command may have stored it";
            invalid(py, "read the result of", detail, Some(self.inner.path()))
        })?;
        to_python(py, &value, self.numbers)
    }
}

impl Turn {
    fn take(&self) -> Option<tenure::once::Turn> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn end<T: Send>(
        &self,
        py: Python<'_>,
        end: impl FnOnce(tenure::once::Turn) -> tenure::Result<T> + Send,
    ) -> PyResult<T> {
        let ended = || invalid(py, "end the turn", "it has ended", None);
        let turn = self.take().ok_or_else(ended)?;
        without_lock(py, || end(turn))
    }
}

#[pymethods]
impl Turn {
    /// A result as text, and as every caller gets it.
    fn render<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(String, Bound<'py, PyAny>)> {
        let value = from_python(value)?;
        Ok((value.to_string(), to_python(py, &value, self.numbers)?))
    }

    /// Stores the result for its time; `False` if it is too long for that.
    fn succeed(&self, py: Python<'_>, text: &str) -> PyResult<bool> {
        self.end(py, |turn| turn.succeed(text.as_bytes(), self.ttl))
    }

    /// Passes a failure on to those who wait.
    fn fail(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |turn| turn.fail(1))
    }

    /// Gives the turn to the next caller.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |turn| {
            drop(turn);
            Ok(())
        })
    }
}
