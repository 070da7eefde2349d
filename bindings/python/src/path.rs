//! Paths as Python gives them: `str`, `bytes`, or anything with `__fspath__`.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::argument::wrong_type;

/// A path argument. Names that are not UTF-8 arrive as bytes or as surrogates; both are kept.
#[derive(Debug, Clone)]
pub(crate) struct PathArgument(pub(crate) PathBuf);

impl<'py> FromPyObject<'_, 'py> for PathArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        path_of(&object, "path").map(Self)
    }
}

/// The path in an argument of this name.
pub(crate) fn path_of(given: &Bound<'_, PyAny>, name: &str) -> PyResult<PathBuf> {
    let plain = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    let path = if plain { given.clone() } else { from_protocol(given, name)? };
    match path.cast::<PyBytes>() {
        Ok(bytes) => from_bytes(bytes),
        Err(_) => Ok(path.extract::<OsString>()?.into()),
    }
}

fn from_protocol<'py>(given: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if !given.hasattr("__fspath__")? {
        return Err(wrong_type(given, name, "a str, bytes or os.PathLike object"));
    }
    given.call_method0("__fspath__")
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
