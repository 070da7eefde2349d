//! The collection: a directory of documents or journals by key.

use std::ffi::OsString;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::WriteOptions;
use tenure::options::{CollectionKind, Prune};
use tenure_remote::Place;

use crate::argument::{one_of, text, whole};
use crate::document::Document;
use crate::journal::Journal;
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::record::record;
use crate::store::place_of;
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
    inner: tenure::Collection,
    numbers: Numbers,
    place: Place,
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

/// What a collection is of.
struct Kind(CollectionKind);

impl<'py> FromPyObject<'_, 'py> for Kind {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let choices =
            [("documents", CollectionKind::Documents), ("journals", CollectionKind::Journals)];
        one_of(&object, "kind", &choices).map(Self)
    }
}

/// How many keys are kept: more than the memory can name is all of them.
fn count(given: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    Ok(usize::try_from(whole(given, name)?).unwrap_or(usize::MAX))
}

impl Collection {
    fn options(&self, keywords: &mut Keywords<'_>) -> PyResult<WriteOptions> {
        keywords.write(&self.place.address(self.inner.path()))
    }
}

#[pymethods]
impl Collection {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    #[pyo3(signature = (dir, kind = Kind(CollectionKind::Documents), *, numbers = Numbers::Exact, store = None))]
    fn open(
        py: Python<'_>,
        dir: PathArgument,
        kind: Kind,
        numbers: Numbers,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        let collection = without_lock(py, || place.collection(&dir.0, kind.0))?;
        Ok(Self { inner: collection, numbers, place })
    }

    /// The resolved directory.
    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().as_os_str().to_owned()
    }

    /// The file of a key.
    fn path_of(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<OsString> {
        let key = text(key, "key")?;
        Ok(without_lock(py, || self.inner.path_of(&key))?.into_os_string())
    }

    /// The document of a key.
    fn document(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Document> {
        let key = text(key, "key")?;
        let document = without_lock(py, || self.inner.document(&key))?;
        Ok(Document::new(document, self.numbers, &self.place))
    }

    /// The journal of a key.
    fn journal(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Journal> {
        let key = text(key, "key")?;
        Ok(Journal::new(without_lock(py, || self.inner.journal(&key))?, &self.place))
    }

    /// The keys that have a file, in no order.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        without_lock(py, || self.inner.keys())
    }

    /// Removes what is due, each key under its own lock; a key that is held is skipped.
    ///
    /// Options: `max_age` (seconds, or a text like `"30d"`), `max_count`, `keep` (keys), `dry_run`, `wait`
    /// (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of
    /// other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`,
    /// `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn prune(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pruned> {
        let mut keywords = Keywords::new(py, options)?;
        let prune = Prune {
            max_age: keywords.seconds("max_age")?,
            max_count: keywords.take("max_count", count)?,
            keep: keywords.texts("keep")?,
            dry_run: keywords.flag("dry_run")?,
        };
        let options = self.options(&mut keywords)?;
        keywords.finish()?;
        let tenure::outcome::Pruned { removed, skipped, remaining } =
            without_lock(py, || self.inner.prune(&prune, &options))?;
        Ok(Pruned { removed, skipped, remaining })
    }

    /// Removes one key with everything that belongs to it. `False` if there was none.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (key, **options))]
    fn remove(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        let key = text(key, "key")?;
        let mut keywords = Keywords::new(py, options)?;
        let options = self.options(&mut keywords)?;
        keywords.finish()?;
        waiting(py, options.wait, |wait| {
            self.inner.remove(&key, &WriteOptions { wait, ..options.clone() })
        })
    }

    /// Writes every member of the JSON object in `index` as a document of its own into `dir`.
    ///
    /// Options: `store` (a `tenure.Store` or its URL; both paths are names there then), `wait` (seconds, `None` for
    /// ever, or a text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and
    /// their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`,
    /// `allow_network`, `cancel` (a `tenure.Cancel`).
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
        let place = keywords.store()?;
        let resolved = without_lock(py, || place.lock(&index.0))?;
        let options = keywords.write(&place.address(resolved.path()))?;
        keywords.finish()?;
        let tenure::outcome::Split { created, present, differing } =
            waiting(py, options.wait, |wait| {
                let options = WriteOptions { wait, ..options.clone() };
                tenure::Collection::split_on(&place.store(), &index.0, &dir.0, &options)
            })?;
        Ok(Split { created, present, differing })
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Collection path={:?}>", self.inner.path().display())
    }
}
