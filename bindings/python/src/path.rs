//! Paths as Python gives them: `str`, `bytes`, or anything with `__fspath__`.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A path argument. Names that are not UTF-8 arrive as bytes or as surrogates; both are kept.
#[derive(Debug, Clone)]
pub(crate) struct PathArgument(pub(crate) PathBuf);

impl<'py> FromPyObject<'_, 'py> for PathArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let object = object.to_owned();
        let plain = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
        let path = if plain { object } else { from_protocol(&object)? };
        match path.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self(from_bytes(bytes)?)),
            Err(_) => Ok(Self(path.extract::<OsString>()?.into())),
        }
    }
}

fn from_protocol<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !object.hasattr("__fspath__")? {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a path is a str, bytes or os.PathLike object, not {kind}"
        )));
    }
    object.call_method0("__fspath__")
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have no paths of bytes")]
fn from_bytes(bytes: &Bound<'_, PyBytes>) -> PyResult<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::OsStr::from_bytes(bytes.as_bytes()).into())
}

#[cfg(not(unix))]
fn from_bytes(bytes: &Bound<'_, PyBytes>) -> PyResult<PathBuf> {
    let text = std::str::from_utf8(bytes.as_bytes())?;
    Ok(text.into())
}
