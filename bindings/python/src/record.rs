//! What calls return: plain values with names, comparable, printable, and fit for `pickle`.

/// Defines a class of read-only fields. What stands in brackets goes to its constructor.
macro_rules! record {
    (
        $(#[$about:meta])*
        $name:ident $([$($lint:tt)+])? { $($(#[$field_about:meta])* $field:ident: $type:ty),+ $(,)? }
    ) => {
        $(#[$about])*
        #[pyo3::pyclass(frozen, eq, get_all, from_py_object, module = "tenure")]
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name { $($(#[$field_about])* pub(crate) $field: $type),+ }

        #[pyo3::pymethods]
        impl $name {
            #[new]
            $(#[$($lint)+])?
            fn new($($field: $type),+) -> Self {
                Self { $($field),+ }
            }

            fn __repr__(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<String> {
                let fields: Vec<(&str, pyo3::Py<pyo3::PyAny>)> = vec![$((
                    stringify!($field),
                    pyo3::IntoPyObjectExt::into_py_any(self.$field.clone(), py)?,
                )),+];
                $crate::record::show(py, stringify!($name), &fields)
            }

            /// For `pickle` and `copy`.
            fn __getnewargs__<'py>(
                &self,
                py: pyo3::Python<'py>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyTuple>> {
                let fields: Vec<pyo3::Py<pyo3::PyAny>> =
                    vec![$(pyo3::IntoPyObjectExt::into_py_any(self.$field.clone(), py)?),+];
                pyo3::types::PyTuple::new(py, fields)
            }
        }
    };
}

pub(crate) use record;

use pyo3::prelude::*;

/// `Name(field=value, ...)`.
pub(crate) fn show(py: Python<'_>, name: &str, fields: &[(&str, Py<PyAny>)]) -> PyResult<String> {
    let mut parts = Vec::with_capacity(fields.len());
    for (field, value) in fields {
        parts.push(format!("{field}={}", value.bind(py).repr()?));
    }
    Ok(format!("{name}({})", parts.join(", ")))
}
