//! From an error of the core to the Python exception of the same code.
//!
//! The classes are written in Python (`tenure/_errors.py`), since some of them have two bases: a `busy`
//! is a `TimeoutError` too.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tenure::{Error, ErrorKind};

use crate::number::Numbers;
use crate::value::to_python;

/// The codes of the core, in its order: Python checks that it has a class for each.
pub(crate) fn codes(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, ErrorKind::ALL.iter().map(|kind| kind.code()))
}

/// The exception for an error of the core.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("action", error.action())?;
    fields.set_item("path", error.path().map(Path::as_os_str))?;
    let holder = error.holder().filter(|holder| holder.pid != 0);
    let holder = holder.map(|holder| to_python(py, &holder.to_json(), Numbers::Exact)).transpose();
    fields.set_item("holder", holder.unwrap_or_default())?;
    fields.set_item("hint", error.next_step())?;
    fields.set_item("committed", error.is_committed())?;
    fields.set_item("errno", error.io_error().and_then(std::io::Error::raw_os_error))?;
    if let Some(gap) = error.gap() {
        fields.set_item("gap", gap)?;
    }
    exception(py, error.kind().code(), &error.to_string(), Some(&fields))
}

/// Whether it reports entries of a journal that cannot be read any more.
pub(crate) fn is_gap(py: Python<'_>, error: &PyErr) -> bool {
    static GAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = GAP.import(py, "tenure._errors", "JournalGapError");
    class.is_ok_and(|class| error.is_instance(py, class))
}

/// A panic of the core: a bug of ours, told as an exception.
pub(crate) fn panicked(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no words");
    let message = format!("tenure failed inside; this is a bug: {words}");
    exception(py, "internal", &message, None).unwrap_or_else(|failure| failure)
}

/// The input is wrong, and nothing was changed.
pub(crate) fn invalid(
    py: Python<'_>,
    action: &'static str,
    detail: impl Into<String>,
    path: Option<&Path>,
) -> PyErr {
    let error = Error::new(ErrorKind::Invalid, action, detail);
    raise(py, &path.into_iter().fold(error, Error::at))
}

/// An argument of a wrong type: the package's error, and a `TypeError` as Python people expect.
pub(crate) fn argument(py: Python<'_>, action: &str, message: &str) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let make = MAKE.import(py, "tenure._errors", "argument_error")?;
        Ok(PyErr::from_value(make.call1((action, message))?))
    };
    make().unwrap_or_else(|failure| failure)
}

/// The exception for a code.
pub(crate) fn exception(
    py: Python<'_>,
    code: &str,
    message: &str,
    fields: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "tenure._errors", "exception")?;
    Ok(PyErr::from_value(make.call((code, message), fields)?))
}
