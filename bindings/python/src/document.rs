//! The document: a JSON file, read without locks and changed under one.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tenure::embed;
use tenure::json::Rules;
use tenure::{Error, ErrorKind, Value, WriteOptions};
use tenure_remote::Place;

use crate::argument::{callable, text};
use crate::callback::Callback;
use crate::error::{invalid, raise};
use crate::keywords::{Keywords, version};
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::record::{record, show};
use crate::store::{Store, place_of};
use crate::value::{from_python, to_python};
use crate::waiting::{next_of, waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Document>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Written>()?;
    module.add_class::<Watch>()
}

/// A JSON document in a file, or in a store. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) inner: tenure::Document,
    pub(crate) numbers: Numbers,
    place: Place,
}

record! {
    /// What a change did.
    Written {
        /// The version that is there now.
        version: String,
        /// False if the content was that already.
        changed: bool,
        /// The operation id was known: it had been done before.
        replayed: bool,
    }
}

impl From<tenure::outcome::Written> for Written {
    fn from(written: tenure::outcome::Written) -> Self {
        let tenure::outcome::Written { version, changed, replayed } = written;
        Self { version: version.to_string(), changed, replayed }
    }
}

/// A document as it was at one moment.
#[pyclass(frozen, get_all, module = "tenure")]
#[derive(Debug)]
struct Snapshot {
    /// The document.
    value: Py<PyAny>,
    /// What the file says.
    bytes: Py<PyBytes>,
    /// Names this content: for `if_version` and `compare_and_set`.
    version: String,
    /// The file was cut by a power loss; this is its last synced version.
    repaired: bool,
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(value: Py<PyAny>, bytes: Py<PyBytes>, version: String, repaired: bool) -> Self {
        Self { value, bytes, version, repaired }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let version = self.version.as_str().into_pyobject(py)?.into_any().unbind();
        show(py, "Snapshot", &[("version", version), ("value", self.value.clone_ref(py))])
    }

    /// For `pickle` and `copy`.
    fn __getnewargs__(&self, py: Python<'_>) -> (Py<PyAny>, Py<PyBytes>, String, bool) {
        let (value, bytes) = (self.value.clone_ref(py), self.bytes.clone_ref(py));
        (value, bytes, self.version.clone(), self.repaired)
    }
}

impl Snapshot {
    fn of(
        py: Python<'_>,
        snapshot: &tenure::outcome::Snapshot,
        numbers: Numbers,
    ) -> PyResult<Self> {
        Ok(Self {
            value: to_python(py, &snapshot.value, numbers)?.unbind(),
            bytes: PyBytes::new(py, &snapshot.bytes).unbind(),
            version: snapshot.version.to_string(),
            repaired: snapshot.repaired,
        })
    }
}

impl Document {
    pub(crate) fn new(document: tenure::Document, numbers: Numbers, place: &Place) -> Self {
        Self { inner: document, numbers, place: place.clone() }
    }

    /// How it is named outside of its store.
    pub(crate) fn address(&self) -> Cow<'_, Path> {
        self.place.address(self.path())
    }

    pub(crate) fn path(&self) -> &Path {
        self.inner.path()
    }

    /// The options of a write that has no others.
    fn options(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<WriteOptions> {
        let mut keywords = Keywords::new(py, options)?;
        let write = keywords.write(&self.address())?;
        keywords.finish()?;
        Ok(write)
    }

    fn write(
        &self,
        py: Python<'_>,
        options: &WriteOptions,
        mut act: impl FnMut(
            &tenure::Document,
            &WriteOptions,
        ) -> tenure::Result<tenure::outcome::Written>
        + Send,
    ) -> PyResult<Written> {
        let document = &self.inner;
        let written = waiting(py, options.wait, |wait| {
            act(document, &WriteOptions { wait, ..options.clone() })
        })?;
        Ok(written.into())
    }
}

#[pymethods]
impl Document {
    #[new]
    #[pyo3(signature = (path, *, numbers = Numbers::Exact, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        path: PathArgument,
        numbers: Numbers,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        let document = without_lock(py, || place.document(&path.0))?;
        Ok(Self::new(document, numbers, &place))
    }

    /// The resolved path.
    #[getter(path)]
    fn path_text(&self) -> OsString {
        self.path().as_os_str().to_owned()
    }

    /// For `transaction`: its store, or `None` for a file.
    #[getter]
    fn _store(&self) -> Option<Store> {
        Store::of(&self.place)
    }

    /// The document as it is, or `None` if there is none. Takes no lock and creates nothing.
    fn read(&self, py: Python<'_>) -> PyResult<Option<Snapshot>> {
        let found = without_lock(py, || self.inner.read())?;
        found.map(|snapshot| Snapshot::of(py, &snapshot, self.numbers)).transpose()
    }

    /// The version of the document, or `None` if there is none.
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let found = without_lock(py, || self.inner.read())?;
        Ok(found.map(|snapshot| snapshot.version.to_string()))
    }

    /// Replaces the whole document.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id` (done once,
    /// however often it is called), `label` (shown to those who wait), `new_mode` (of a new file),
    /// `break_link`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (value, **options))]
    fn set(
        &self,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let options = self.options(value.py(), options)?;
        let value_of = from_python(value)?;
        self.write(value.py(), &options, |document, options| document.set(&value_of, options))
    }

    /// Calls `function` with the fresh document, under the lock, and writes what it returns, or what
    /// it made of its argument if it returns `None`. If it raises, nothing changes. It may be called
    /// again if a tool that does not use tenure replaced the file meanwhile. Where there is no document
    /// and no `init` it is called with `None`, and has to return one: else it is `NotFoundError`. A
    /// function that changes its argument and returns something else is an `InvalidError`: for a result
    /// use `transaction`.
    ///
    /// Options: `init` (the document to start from where there is none), `wait`,
    /// `fence`, `guard`, `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`,
    /// `allow_network`, `cancel`.
    #[pyo3(signature = (function, **options))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn update(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        callable(function.bind(py), "function")?;
        let mut keywords = Keywords::new(py, options)?;
        let init = init(&mut keywords)?;
        let options = keywords.write(&self.address())?;
        keywords.finish()?;
        let mut callback = Callback::new(&function, init.as_ref(), self.numbers, self.path());
        let done = self.write(py, &options, |document, options| {
            document.update(options, |current| callback.compute(current))
        });
        callback.outcome(done)
    }

    /// A change in place, with a result: `with document.transaction() as value: job = value["queue"].pop()`.
    ///
    /// The block has the lock and the fresh document, an object or an array. It is saved when the block
    /// ends, and stays as it was if the block raises. If a tool that does not use tenure replaced the file
    /// meanwhile, it is a `ConflictError`. It has no `op_id`: a repetition would run the block and save nothing.
    ///
    /// Options: `init` (the document to start from where there is none), `wait` (seconds, `None` for ever, or a
    /// text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and their
    /// fences), `if_version`, `no_sync`, `label`, `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`
    /// (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn transaction<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("tenure._transaction")?;
        module.getattr("Transaction")?.call((slf,), options)
    }

    /// The document as a mapping of its members: every call reads the file, or changes it under the lock.
    /// It has no `op_id`: that names one change, and this makes many.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn mapping<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("tenure._mapping")?;
        module.getattr("Mapping")?.call((slf,), options)
    }

    /// For `transaction`: refuses options that `update` does not have.
    #[pyo3(signature = (**options))]
    fn _check_update(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let mut keywords = Keywords::new(py, options)?;
        init(&mut keywords)?;
        keywords.write(&self.address())?;
        keywords.finish()
    }

    /// For the drop-ins: the same from text (or `None`) to text, which is stored as it is if it is JSON.
    #[pyo3(signature = (function, **options))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn _update_text(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let options = self.options(py, options)?;
        let mut raised = None;
        let done = self.write(py, &options, |document, options| {
            embed::update_text(document, options, |current| {
                let called = Python::attach(|py| function.call1(py, (current,))?.extract(py));
                called.map(Some).map_err(|error: PyErr| {
                    raised = Some(error);
                    Error::new(ErrorKind::Invalid, "update", "the function failed")
                })
            })
        });
        match raised {
            Some(raised) if done.is_err() => Err(raised),
            _ => done,
        }
    }

    /// Merges a patch (RFC 7396). `union`, `max`, `min`, `sum` and `last` are lists of JSON Pointers.
    ///
    /// Options: those, and `wait`, `fence`, `guard`, `if_version`, `no_sync`, `op_id`, `label`,
    /// `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`.
    #[pyo3(signature = (patch, **options))]
    fn merge(
        &self,
        patch: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let py = patch.py();
        let mut keywords = Keywords::new(py, options)?;
        let rules = rules(py, &mut keywords)?;
        let options = keywords.write(&self.address())?;
        keywords.finish()?;
        let value = from_python(patch)?;
        self.write(py, &options, |document, options| document.merge(&value, &rules, options))
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (operations, **options))]
    fn patch(
        &self,
        operations: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let options = self.options(operations.py(), options)?;
        let value = from_python(operations)?;
        self.write(operations.py(), &options, |document, options| document.patch(&value, options))
    }

    /// Replaces the document if it still has this version; `ConflictError` otherwise.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `no_sync`, `op_id`, `label`, `new_mode`, `break_link`,
    /// `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (version_is, value, **options))]
    fn compare_and_set(
        &self,
        version_is: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Written> {
        let py = value.py();
        let wanted = version(py, &text(version_is, "version_is")?)?;
        let options = self.options(py, options)?;
        let value = from_python(value)?;
        self.write(py, &options, |document, options| {
            document
                .set(&value, &WriteOptions { if_version: Some(wanted.clone()), ..options.clone() })
        })
    }

    /// Brings back the last good version of a document that cannot be parsed.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn restore(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Written> {
        let options = self.options(py, options)?;
        self.write(py, &options, tenure::Document::restore)
    }

    /// Changes that come after now, one snapshot each; quick ones may be passed over.
    fn watch(&self, py: Python<'_>) -> PyResult<Watch> {
        let watch = without_lock(py, || self.inner.watch())?;
        let (inner, closed) = (Mutex::new(Some(watch)), AtomicBool::new(false));
        Ok(Watch { inner, closed, numbers: self.numbers })
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Document path={:?}>", self.path().display())
    }
}

/// `init`: the document to start from where there is none.
pub(crate) fn init(keywords: &mut Keywords<'_>) -> PyResult<Option<Value>> {
    keywords.take("init", |given, _| from_python(given))
}

type AddRule = fn(Rules, &str) -> tenure::Result<Rules>;

fn rules(py: Python<'_>, keywords: &mut Keywords<'_>) -> PyResult<Rules> {
    let kinds: [(&str, AddRule); 5] = [
        ("union", Rules::union),
        ("max", Rules::max),
        ("min", Rules::min),
        ("sum", Rules::sum),
        ("last", Rules::last),
    ];
    let mut rules = Rules::new();
    for (name, add) in kinds {
        for pointer in keywords.texts(name)? {
            rules = add(rules, &pointer).map_err(|error| raise(py, &error))?;
        }
    }
    Ok(rules)
}

/// The changes of a document. Iterating waits for ever; `next(wait=...)` does not.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Watch {
    /// `None` while a thread waits with it, and once it was closed.
    inner: Mutex<Option<tenure::outcome::Watch>>,
    /// Set by `close`, also while a thread waits with it: that thread does not put it back.
    closed: AtomicBool,
    numbers: Numbers,
}

impl Watch {
    fn with_watch<T>(&self, act: impl FnOnce(&mut Option<tenure::outcome::Watch>) -> T) -> T {
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Watch {
    /// The document after its next change, or `None` when the wait is over.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn next(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Snapshot>> {
        let mut keywords = Keywords::new(py, options)?;
        let wait = keywords.wait_for_news(tenure::Wait::Forever)?;
        let (cancel, _) = keywords.cancel()?;
        keywords.finish()?;
        let Some(mut watch) = self.with_watch(Option::take) else {
            return Err(invalid(
                py,
                "watch",
                "it is closed, or another thread waits with it",
                None,
            ));
        };
        let found = next_of(py, wait, cancel.as_ref(), |wait| watch.next(wait));
        self.with_watch(|place| *place = (!self.closed.load(Ordering::SeqCst)).then_some(watch));
        found?.map(|snapshot| Snapshot::of(py, &snapshot, self.numbers)).transpose()
    }

    /// Ends the watch. A wait of another thread goes on, and is the last.
    fn close(&self) {
        drop(self.with_watch(|place| {
            self.closed.store(true, Ordering::SeqCst);
            place.take()
        }));
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Snapshot>> {
        self.next(py, None)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) {
        self.close();
    }
}
