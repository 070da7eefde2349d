//! The collection: a directory of documents or journals by key.

use std::ffi::OsString;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::{CollectionKind, Prune, WriteOptions};

use crate::document::Document;
use crate::journal::Journal;
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::record::record;
use crate::waiting::{waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Collection>()?;
    module.add_class::<Pruned>()?;
    module.add_class::<Split>()
}

/// A directory with one document or journal per key. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Collection {
    collection: tenure::Collection,
    numbers: Numbers,
}

record! {
    /// What a prune removed.
    Pruned {
        /// Keys that are gone (or would be).
        removed: Vec<String>,
        /// Keys that were due but are held, leased, or were changed just now.
        skipped: Vec<String>,
        /// How many keys remain.
        remaining: usize,
    }
}

record! {
    /// What a split did.
    Split {
        /// Keys that were written.
        created: Vec<String>,
        /// Keys that were there with the same content already.
        present: Vec<String>,
        /// Keys that were there with other content; they were left as they are.
        differing: Vec<String>,
    }
}

impl Collection {
    fn options(&self, keywords: &mut Keywords<'_>) -> PyResult<WriteOptions> {
        keywords.write(self.collection.path())
    }
}

#[pymethods]
impl Collection {
    #[new]
    #[pyo3(signature = (dir, kind = "documents", *, numbers = Numbers::Exact))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(py: Python<'_>, dir: PathArgument, kind: &str, numbers: Numbers) -> PyResult<Self> {
        let kind = match kind {
            "documents" => CollectionKind::Documents,
            "journals" => CollectionKind::Journals,
            _ => return Err(PyValueError::new_err("kind is \"documents\" or \"journals\"")),
        };
        let collection = without_lock(py, || tenure::Collection::open(&dir.0, kind))?;
        Ok(Self { collection, numbers })
    }

    /// The resolved directory.
    #[getter]
    fn path(&self) -> OsString {
        self.collection.path().as_os_str().to_owned()
    }

    /// The file of a key.
    fn path_of(&self, py: Python<'_>, key: &str) -> PyResult<OsString> {
        Ok(without_lock(py, || self.collection.path_of(key))?.into_os_string())
    }

    /// The document of a key.
    fn document(&self, py: Python<'_>, key: &str) -> PyResult<Document> {
        let document = without_lock(py, || self.collection.document(key))?;
        Ok(Document::new(document, self.numbers))
    }

    /// The journal of a key.
    fn journal(&self, py: Python<'_>, key: &str) -> PyResult<Journal> {
        Ok(Journal::new(without_lock(py, || self.collection.journal(key))?))
    }

    /// The keys that have a file, in no order.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        without_lock(py, || self.collection.keys())
    }

    /// Removes what is due, each key under its own lock; a key that somebody holds is skipped.
    #[pyo3(signature = (**options))]
    fn prune(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pruned> {
        let mut keywords = Keywords::new(py, options)?;
        let prune = Prune {
            max_age: keywords.seconds("max_age")?,
            max_count: keywords.take("max_count")?,
            keep: keywords.take("keep")?.unwrap_or_default(),
            dry_run: keywords.flag("dry_run")?,
        };
        let options = self.options(&mut keywords)?;
        keywords.finish()?;
        let tenure::Pruned { removed, skipped, remaining } =
            without_lock(py, || self.collection.prune(&prune, &options))?;
        Ok(Pruned { removed, skipped, remaining })
    }

    /// Removes one key with everything that belongs to it. `False` if there was none.
    #[pyo3(signature = (key, **options))]
    fn remove(
        &self,
        py: Python<'_>,
        key: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        let mut keywords = Keywords::new(py, options)?;
        let options = self.options(&mut keywords)?;
        keywords.finish()?;
        waiting(py, options.wait, |wait| {
            self.collection.remove(key, &WriteOptions { wait, ..options.clone() })
        })
    }

    /// Writes every member of the JSON object in `index` as a document of its own into `dir`.
    #[staticmethod]
    #[pyo3(signature = (index, dir, **options))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn split(
        py: Python<'_>,
        index: PathArgument,
        dir: PathArgument,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Split> {
        let mut keywords = Keywords::new(py, options)?;
        let options = keywords.write(&index.0)?;
        keywords.finish()?;
        let tenure::Split { created, present, differing } = waiting(py, options.wait, |wait| {
            let options = WriteOptions { wait, ..options.clone() };
            tenure::Collection::split(&index.0, &dir.0, &options)
        })?;
        Ok(Split { created, present, differing })
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Collection path={:?}>", self.collection.path().display())
    }
}
