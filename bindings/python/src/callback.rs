//! A Python function that computes the new document, called under the core's lock.

use std::path::Path;

use pyo3::prelude::*;
use tenure::{Error, ErrorKind, Result, Value};

use crate::error::raise;
use crate::number::Numbers;
use crate::value::{from_python, keep_digits, to_python};

/// What is called, and what it raised.
pub(crate) struct Callback<'a> {
    function: &'a Py<PyAny>,
    /// What it is given where there is no document yet.
    init: Option<&'a Value>,
    numbers: Numbers,
    path: &'a Path,
    raised: Option<PyErr>,
}

impl<'a> Callback<'a> {
    pub(crate) fn new(
        function: &'a Py<PyAny>,
        init: Option<&'a Value>,
        numbers: Numbers,
        path: &'a Path,
    ) -> Self {
        Self { function, init, numbers, path, raised: None }
    }

    /// The new document.
    pub(crate) fn compute(&mut self, current: Option<&Value>) -> Result<Option<Value>> {
        self.raised = None;
        Python::attach(|py| self.call(py, current)).map(Some).map_err(|error| {
            self.raised = Some(error);
            Error::new(ErrorKind::Invalid, "update", "the function failed").at(self.path)
        })
    }

    fn call(&self, py: Python<'_>, current: Option<&Value>) -> PyResult<Value> {
        let value = current.or(self.init);
        let given = value.map(|value| to_python(py, value, self.numbers)).transpose()?;
        let returned = self.function.bind(py).call1((&given,))?;
        // A function that returns nothing has changed what it was given.
        let result = if returned.is_none() { given.clone() } else { Some(returned) };
        let Some(result) = result else { return Err(self.missing(py)) };
        let mut new = from_python(&result)?;
        if let (Some(given), Some(value)) = (&given, value)
            && !given.is(&result)
            && self.is_ambiguous(value, given, &new)
        {
            return Err(self.ambiguous(py));
        }
        if let Some(old) = current {
            keep_digits(old, &mut new, self.numbers);
        }
        Ok(new)
    }

    /// Whether the function has changed what it was given, and returned something else: one of them is
    /// not meant to be the document.
    fn is_ambiguous(&self, value: &Value, given: &Bound<'_, PyAny>, returned: &Value) -> bool {
        match from_python(given) {
            Ok(mut changed) => {
                keep_digits(value, &mut changed, self.numbers);
                let mut returned = returned.clone();
                keep_digits(value, &mut returned, self.numbers);
                changed != *value && changed != returned
            }
            Err(_) => true, // Something that is no JSON was put into it.
        }
    }

    fn ambiguous(&self, py: Python<'_>) -> PyErr {
        let detail = "the function changed its argument and returned something else";
        let error = Error::new(ErrorKind::Invalid, "update", detail).at(self.path);
        let hint = "return nothing to keep the changes, or a new document without changing the old one; \
                    for a result use `with document.transaction() as value:`";
        raise(py, &error.committed(false).hint(hint))
    }

    fn missing(&self, py: Python<'_>) -> PyErr {
        let detail = "there is no document, and the function returned none";
        let error = Error::new(ErrorKind::NotFound, "update", detail).at(self.path);
        raise(py, &error.committed(false).hint("give it an init to start from"))
    }

    /// The outcome of the call around it: what the function raised comes before what the core says
    /// about that.
    pub(crate) fn outcome<T>(self, done: PyResult<T>) -> PyResult<T> {
        match self.raised {
            Some(raised) if done.is_err() => Err(raised),
            _ => done,
        }
    }
}
