//! A document and a journal changed in one call.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::{AppendOptions, WriteOptions};

use crate::argument::callable;
use crate::callback::Callback;
use crate::document::{Document, Written, init};
use crate::journal::{Journal, batch, header};
use crate::keywords::Keywords;
use crate::report::Appended;
use crate::waiting::waiting;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(update_and_append, module)?)
}

/// Changes a document and appends a batch to a journal, both or (checks failing) neither.
///
/// Options: `init` (the document to start from where there is none), `json` (each line must be JSON), `header` (the
/// first line of a new journal), `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on
/// this target), `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`,
/// `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
#[pyfunction]
#[pyo3(signature = (document, function, journal, lines, **options))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn update_and_append(
    py: Python<'_>,
    document: &Document,
    function: Py<PyAny>,
    journal: &Journal,
    lines: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Written, Appended)> {
    callable(function.bind(py), "function")?;
    let mut keywords = Keywords::new(py, options)?;
    let init = init(&mut keywords)?;
    let json = keywords.flag("json")?;
    let header = header(&mut keywords)?;
    let write = keywords.write(&document.address())?;
    keywords.finish()?;
    let batch = batch(lines)?;
    let options = AppendOptions { write, json, header };
    let mut callback = Callback::new(&function, init.as_ref(), document.numbers, document.path());
    let done = waiting(py, options.write.wait, |wait| {
        let write = WriteOptions { wait, ..options.write.clone() };
        let options = AppendOptions { write, ..options.clone() };
        tenure::update_and_append(&document.inner, journal.core(), &batch, &options, |current| {
            callback.compute(current)
        })
    });
    let (written, appended) = callback.outcome(done)?;
    Ok((written.into(), appended.into()))
}
