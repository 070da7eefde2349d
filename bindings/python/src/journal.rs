//! The journal: lines appended in whole batches, numbered, read without locks.

use std::borrow::Cow;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};
use tenure::{AppendOptions, WriteOptions};
use tenure_remote::Place;

use crate::argument::{callable, whole, wrong_type};
use crate::entries::{Entries, Entry, Follow};
use crate::error::invalid;
use crate::keywords::Keywords;
use crate::path::PathArgument;
use crate::report::{Appended, Compacted, Damage, Report, Rotated};
use crate::store::place_of;
use crate::value::from_python;
use crate::waiting::{waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Journal>()?;
    module.add_class::<Entry>()?;
    module.add_class::<Entries>()?;
    module.add_class::<Follow>()?;
    module.add_class::<Appended>()?;
    module.add_class::<Rotated>()?;
    module.add_class::<Compacted>()?;
    module.add_class::<Damage>()?;
    module.add_class::<Report>()
}

/// A file of lines that many processes append to. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Journal {
    journal: tenure::Journal,
    place: Place,
}

/// Lines as Python gives them: one, or any number of them. A text alone is one line, not its letters.
pub(crate) fn batch(lines: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    let single = lines.is_instance_of::<PyString>()
        || lines.is_instance_of::<PyBytes>()
        || lines.is_instance_of::<PyByteArray>();
    if single {
        return Ok(vec![bytes_of(lines, "lines")?]);
    }
    let wrong = |_| wrong_type(lines, "lines", "a line or a list of lines, each a str or bytes");
    lines.try_iter().map_err(wrong)?.map(|line| bytes_of(&line?, "a line")).collect()
}

/// Values, each for one line of JSON: one, or any number of them.
fn values(given: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    let line = |value: &Bound<'_, PyAny>| Ok(from_python(value)?.to_string().into_bytes());
    let single = given.is_instance_of::<PyDict>() || given.is_instance_of::<PyString>();
    match given.try_iter() {
        Ok(all) if !single => all.map(|value| line(&value?)).collect(),
        _ => Ok(vec![line(given)?]),
    }
}

fn bytes_of(line: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
    if let Ok(text) = line.cast::<PyString>() {
        return match text.to_cow() {
            Ok(text) => Ok(text.as_bytes().to_vec()),
            Err(_) => {
                Err(invalid(line.py(), "append", "a line has surrogates, which are no text", None))
            }
        };
    }
    if let Ok(bytes) = line.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(bytes) = line.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    Err(wrong_type(line, name, "a str or bytes"))
}

/// Begins with the oldest entry that is there.
const OLDEST: u64 = 0;

/// `on_gap`: a function, if it is given.
fn checked(py: Python<'_>, on_gap: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    if let Some(function) = &on_gap {
        callable(function.bind(py), "on_gap")?;
    }
    Ok(on_gap)
}

/// `header`: the first line of the file.
pub(crate) fn header(keywords: &mut Keywords<'_>) -> PyResult<Option<Vec<u8>>> {
    keywords.take("header", bytes_of)
}

impl Journal {
    pub(crate) fn new(journal: tenure::Journal, place: &Place) -> Self {
        Self { journal, place: place.clone() }
    }

    /// How it is named outside of its store.
    fn address(&self) -> Cow<'_, Path> {
        self.place.address(self.path())
    }

    pub(crate) fn core(&self) -> &tenure::Journal {
        &self.journal
    }

    fn path(&self) -> &Path {
        self.journal.path()
    }

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

    fn append_batch(
        &self,
        py: Python<'_>,
        lines: &[Vec<u8>],
        json: bool,
        mut keywords: Keywords<'_>,
    ) -> PyResult<Appended> {
        let header = header(&mut keywords)?;
        let write = keywords.write(&self.address())?;
        keywords.finish()?;
        let options = AppendOptions { write, json, header };
        let appended = waiting(py, options.write.wait, |wait| {
            let write = WriteOptions { wait, ..options.write.clone() };
            self.journal.append(lines, &AppendOptions { write, ..options.clone() })
        })?;
        Ok(appended.into())
    }

    fn write<T: Send>(
        &self,
        py: Python<'_>,
        options: &WriteOptions,
        act: impl Fn(&tenure::Journal, &WriteOptions) -> tenure::Result<T> + Send + Sync,
    ) -> PyResult<T> {
        let journal = &self.journal;
        waiting(py, options.wait, |wait| act(journal, &WriteOptions { wait, ..options.clone() }))
    }
}

#[pymethods]
impl Journal {
    #[new]
    #[pyo3(signature = (path, *, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        path: PathArgument,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        Ok(Self::new(without_lock(py, || place.journal(&path.0))?, &place))
    }

    /// The resolved path.
    #[getter(path)]
    fn path_text(&self) -> OsString {
        self.path().as_os_str().to_owned()
    }

    /// Appends a line, or any number of lines as one batch: readers see all of them or none, with nothing in between.
    ///
    /// Options: `json` (each line must be JSON), `header` (the first line of a new file), `wait`, `fence`,
    /// `guard`, `if_version`, `no_sync`, `op_id` (done once, however often it is called), `label`,
    /// `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`.
    #[pyo3(signature = (lines, **options))]
    fn append(
        &self,
        lines: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Appended> {
        let mut keywords = Keywords::new(lines.py(), options)?;
        let json = keywords.flag("json")?;
        self.append_batch(lines.py(), &batch(lines)?, json, keywords)
    }

    /// Appends a value, or any number of values as one batch, each as one line of JSON.
    ///
    /// Options: `header` (the first line of a new file), `wait` (seconds, `None` for ever, or a text like
    /// `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and their fences),
    /// `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`
    /// (a `tenure.Cancel`).
    #[pyo3(signature = (values, **options))]
    fn append_json(
        &self,
        values: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Appended> {
        let keywords = Keywords::new(values.py(), options)?;
        self.append_batch(values.py(), &self::values(values)?, true, keywords)
    }

    /// The entries with number `from_` and above, at most `limit` of them. Takes no lock. Without a number they
    /// begin with the oldest that is there. Entries that are gone raise `JournalGapError`, and the next call goes on
    /// behind them; with `on_gap` that is called instead.
    #[pyo3(signature = (from_ = None, limit = None, *, on_gap = None))]
    fn read(
        &self,
        py: Python<'_>,
        from_: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
        on_gap: Option<Py<PyAny>>,
    ) -> PyResult<Entries> {
        let from_ = from_.map_or(Ok(OLDEST), |from| whole(from, "from_"))?;
        let limit = limit.map(|limit| whole(limit, "limit")).transpose()?;
        let on_gap = checked(py, on_gap)?;
        let entries = without_lock(py, || self.journal.read(from_, limit))?;
        Ok(Entries::new(entries, on_gap))
    }

    /// Entries as they appear, from number `from_` on. For that and `on_gap` see `read`.
    #[pyo3(signature = (from_ = None, *, on_gap = None))]
    fn follow(
        &self,
        py: Python<'_>,
        from_: Option<&Bound<'_, PyAny>>,
        on_gap: Option<Py<PyAny>>,
    ) -> PyResult<Follow> {
        let from_ = from_.map_or(Ok(OLDEST), |from| whole(from, "from_"))?;
        let on_gap = checked(py, on_gap)?;
        let follow = without_lock(py, || self.journal.follow(from_))?;
        Ok(Follow::new(follow, on_gap))
    }

    /// Lines of other tools that have no number yet, an unterminated one included. The next write adopts them.
    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let lines = without_lock(py, || {
            self.journal.read(u64::MAX, None).and_then(|entries| entries.pending())
        })?;
        Ok(lines.iter().map(|line| PyBytes::new(py, line)).collect())
    }

    /// Checks every byte against what was written, in the archives too. Takes no lock.
    fn verify(&self, py: Python<'_>) -> PyResult<Report> {
        Ok(without_lock(py, || self.journal.verify())?.into())
    }

    /// Finishes what crashes have left, writes back what the log still holds of damaged batches, and verifies.
    /// With `accept=True` it takes the rest of the damage as it is.
    ///
    /// Options: `accept`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this
    /// target), `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`,
    /// `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn repair(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Report> {
        let mut keywords = Keywords::new(py, options)?;
        let accept = keywords.flag("accept")?;
        let options = keywords.write(&self.address())?;
        keywords.finish()?;
        let repair = if accept { tenure::Journal::accept } else { tenure::Journal::repair };
        Ok(self.write(py, &options, repair)?.into())
    }

    /// Moves the entries so far to a file of their own and starts an empty one.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn rotate(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Rotated> {
        let options = self.options(py, options)?;
        let rotated = self.write(py, &options, tenure::Journal::rotate)?;
        Ok(Rotated { archive: rotated.archive.map(Into::into), next: rotated.next })
    }

    /// Writes the journal anew with the entries that `keep` wants. They keep their numbers. If it
    /// raises, nothing changes.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
    /// `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
    /// `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (keep, **options))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn compact(
        &self,
        py: Python<'_>,
        keep: Py<PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Compacted> {
        callable(keep.bind(py), "keep")?;
        let options = self.options(py, options)?;
        let wanted = |entry: &tenure::outcome::Entry| {
            let entry = Entry::from(entry.clone());
            let answer = Python::attach(|py| keep.bind(py).call1((entry,))?.is_truthy());
            // The core has no way to stop here but the one of a crash, for which it is made.
            answer.unwrap_or_else(|raised| resume_unwind(Box::new(raised)))
        };
        let done = waiting(py, options.wait, |wait| {
            let options = WriteOptions { wait, ..options.clone() };
            let compact = AssertUnwindSafe(|| self.journal.compact(&options, wanted));
            match catch_unwind(compact) {
                Ok(done) => done.map(Ok),
                Err(stopped) => match stopped.downcast::<PyErr>() {
                    Ok(raised) => Ok(Err(*raised)),
                    Err(panic) => resume_unwind(panic),
                },
            }
        })??;
        let tenure::outcome::Compacted { kept, dropped, bytes_before, bytes_after, replaced } =
            done;
        let replaced = replaced.map(Into::into);
        Ok(Compacted { kept, dropped, bytes_before, bytes_after, replaced })
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Journal path={:?}>", self.path().display())
    }
}
