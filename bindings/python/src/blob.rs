//! Files that are not JSON.

use std::ffi::OsString;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tenure::WriteOptions;
use tenure::options::Durability;
use tenure_remote::Place;

use crate::argument::wrong_type;
use crate::document::Written;
use crate::error::argument;
use crate::keywords::Keywords;
use crate::path::PathArgument;
use crate::store::place_of;
use crate::waiting::{waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Blob>()?;
    module.add_class::<Content>()
}

/// A file with any content, with the versions, guards and history of a document. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Blob {
    inner: tenure::blob::Blob,
    place: Place,
}

/// The content of a file at one moment.
#[pyclass(frozen, get_all, module = "tenure")]
#[derive(Debug)]
struct Content {
    /// What the file has in it.
    bytes: Py<PyBytes>,
    /// Names this content: for `if_version`.
    version: String,
}

impl Blob {
    fn write(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
        mut act: impl FnMut(&WriteOptions) -> tenure::Result<tenure::outcome::Written> + Send,
    ) -> PyResult<Written> {
        let mut keywords = Keywords::new(py, options)?;
        let options = keywords.write(&self.place.address(self.inner.path()))?;
        keywords.finish()?;
        if options.durability == Durability::NoSync {
            let detail = "failed to write: bytes of any kind are always synced; leave no_sync out";
            return Err(argument(py, "write", detail));
        }
        let act = |wait| act(&WriteOptions { wait, ..options.clone() });
        Ok(waiting(py, options.wait, act)?.into())
    }
}

#[pymethods]
impl Blob {
    #[new]
    #[pyo3(signature = (path, *, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        path: PathArgument,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        let open = || tenure::blob::Blob::on(place.store().as_ref(), &path.0);
        Ok(Self { inner: without_lock(py, open)?, place })
    }

    /// The resolved path.
    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().into()
    }

    /// The content, or `None` if there is no file. Takes no lock.
    fn get(&self, py: Python<'_>) -> PyResult<Option<Content>> {
        let found = without_lock(py, || self.inner.read())?;
        Ok(found.map(|found| Content {
            bytes: PyBytes::new(py, &found.bytes).unbind(),
            version: found.version.to_string(),
        }))
    }

    /// Its version, or `None` if there is no file.
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let found = without_lock(py, || self.inner.read())?;
        Ok(found.map(|found| found.version.to_string()))
    }

    /// Replaces the whole content. It is always synced.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (content, **options))]
    fn put(
        &self,
        py: Python<'_>,
        content: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let bytes = bytes_of(content)?;
        self.write(py, options, |options| self.inner.put(&bytes, options))
    }

    /// Publishes the content from before the last change. A second undo redoes.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn undo(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Written> {
        self.write(py, options, |options| self.inner.undo(options))
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Blob path={:?}>", self.inner.path().display())
    }
}

#[pymethods]
impl Content {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let length = self.bytes.bind(py).len()?;
        Ok(format!("<tenure.Content version={:?} of {length} bytes>", self.version))
    }
}

/// Text is written as UTF-8.
fn bytes_of(content: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let text = content.cast::<PyString>().ok().and_then(|text| text.to_cow().ok());
    let text = text.map(|text| text.into_owned().into_bytes());
    let bytes = || content.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().to_vec());
    text.or_else(bytes).ok_or_else(|| wrong_type(content, "content", "a str or bytes"))
}
