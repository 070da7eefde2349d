//! The store: where targets are that are no local files.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tenure_remote::Place;

use crate::error::argument;
use crate::waiting::without_lock;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Store>()
}

/// A store on PostgreSQL or etcd that several machines share. It is opened once, and passed as `store=`.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Store {
    place: Place,
}

impl Store {
    /// The store of a place, if it is one.
    pub(crate) fn of(place: &Place) -> Option<Self> {
        place.remote().map(|_| Self { place: place.clone() })
    }
}

#[pymethods]
impl Store {
    /// The store at a URL, `postgres://user:password@host/database` or `etcd://host:2379/prefix`. In one process the
    /// same URL is the same connection.
    #[staticmethod]
    fn open(url: &Bound<'_, PyAny>) -> PyResult<Self> {
        let url = url.cast::<PyString>().map_err(|_| wrong(url))?;
        Ok(Self { place: open(url)? })
    }

    /// Its URL, without the password.
    #[getter]
    fn name(&self) -> &str {
        self.place.name().unwrap_or_default()
    }

    /// The health of the server: a list of dicts with `what` was looked at, what was `found`, and the `problem` if it
    /// endangers a guarantee.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let Some(store) = self.place.remote() else { return Ok(Vec::new()) };
        let findings = without_lock(py, || store.check())?;
        let dict = |found: tenure_remote::engine::Finding| {
            let dict = PyDict::new(py);
            dict.set_item("what", found.what)?;
            dict.set_item("found", found.found)?;
            dict.set_item("problem", found.problem)?;
            Ok(dict)
        };
        findings.into_iter().map(dict).collect()
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Store {:?}>", self.name())
    }
}

fn open(url: &Bound<'_, PyString>) -> PyResult<Place> {
    let text = url.to_cow()?;
    without_lock(url.py(), || Place::open(&text))
}

/// The value is not quoted: it may contain a password.
fn wrong(given: &Bound<'_, PyAny>) -> PyErr {
    let message = "failed to read store: it must be a tenure.Store or the URL of one, a str";
    argument(given.py(), "read store", message)
}

/// The argument `store`.
pub(crate) fn place_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Place> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(Place::files()) };
    if let Ok(url) = given.cast::<PyString>() {
        return open(url);
    }
    let store = given.cast::<Store>().map_err(|_| wrong(given))?;
    Ok(store.get().place.clone())
}
