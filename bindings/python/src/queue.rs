//! The queue: tasks that each go to one worker at a time.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::file::FileOptions;
use tenure::options::Durability;
use tenure::queue::{AddOptions, ClaimOptions, FailOptions};
use tenure::{Error, ErrorKind, Value, Wait, WriteOptions};

use crate::argument::{seconds, text, whole, wrong_type};
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::record::record;
use crate::store::place_of;
use crate::value::{from_python, to_python};
use crate::waiting::{in_one_piece, waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Queue>()?;
    module.add_class::<Added>()?;
    module.add_class::<Claimed>()?;
    module.add_class::<Task>()
}

/// Tasks for many workers. Each runs at least once and is completed exactly once. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Queue {
    inner: tenure::queue::Queue,
    numbers: Numbers,
}

record! {
    /// A task that was added.
    Added {
        /// Its id. Ids that the queue gives sort by time.
        id: String,
        /// False if there was a task with this id.
        new: bool,
    }
}

/// A task that the caller has claimed.
#[pyclass(frozen, get_all, module = "tenure")]
#[derive(Debug)]
struct Claimed {
    /// Its id.
    id: String,
    /// What was added.
    task: Py<PyAny>,
    /// The document of the task: with the fence, it guards other writes.
    target: OsString,
    /// Names the claim to `done`, `fail` and `renew`. Keep it secret.
    token: String,
    /// Pass it to writes as a guard with `target`: they are refused once the claim is lost.
    fence: u64,
    /// Which attempt it is, from 1 on.
    attempt: u64,
    /// How long the claim lasts without a renewal, in seconds.
    ttl: f64,
}

#[pymethods]
impl Claimed {
    /// Without the token, which is a secret.
    fn __repr__(&self) -> String {
        let Self { id, fence, attempt, .. } = self;
        format!("<tenure.Claimed id={id:?} fence={fence} attempt={attempt}>")
    }
}

/// A task as it is now.
#[pyclass(frozen, get_all, module = "tenure")]
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "as it is named in the queue")]
struct Task {
    /// Its id.
    id: String,
    /// What was added.
    task: Py<PyAny>,
    /// `open`, `delayed`, `claimed`, `done`, `set_aside` or `damaged`.
    state: &'static str,
    /// How often it was claimed.
    attempts: u64,
    /// When it was added, in microseconds of the wall clock.
    added_us: u64,
    /// The last worker that claimed it.
    owner: Option<String>,
    /// What is left of its claim, or of its delay, in seconds.
    left: Option<f64>,
    /// Why it failed last.
    reason: Option<String>,
}

#[pymethods]
impl Task {
    fn __repr__(&self) -> String {
        let Self { id, state, attempts, .. } = self;
        format!("<tenure.Task id={id:?} state={state:?} attempts={attempts}>")
    }
}

/// How the documents of tasks are written.
fn writing(keywords: &mut Keywords<'_>) -> PyResult<WriteOptions> {
    let no_sync = keywords.flag("no_sync")?;
    let (cancel, thread) = keywords.cancel()?;
    Ok(WriteOptions {
        wait: keywords.wait()?,
        cancel,
        thread,
        durability: if no_sync { Durability::NoSync } else { Durability::Durable },
        label: keywords.text("label")?,
        file: FileOptions {
            allow_network: keywords.flag("allow_network")?,
            ..FileOptions::default()
        },
        ..WriteOptions::default()
    })
}

/// The names of a claim.
fn claim(id: &Bound<'_, PyAny>, token: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    Ok((text(id, "id")?, text(token, "token")?))
}

fn callable(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    if given.is_callable() {
        Ok(given.clone().unbind())
    } else {
        Err(wrong_type(given, name, "a function"))
    }
}

/// Whether the function takes the task.
fn is_accepted(
    py: Python<'_>,
    function: &Py<PyAny>,
    task: &Value,
    numbers: Numbers,
) -> PyResult<bool> {
    function.bind(py).call1((to_python(py, task, numbers)?,))?.is_truthy()
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (dir, *, numbers = Numbers::Exact, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        dir: PathArgument,
        numbers: Numbers,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        let inner = without_lock(py, || tenure::queue::Queue::on(&place.store(), &dir.0))?;
        Ok(Self { inner, numbers })
    }

    /// The resolved directory.
    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().into()
    }

    /// Adds a task. With an `id` it is idempotent; after `max_attempts` that failed or expired it is set aside.
    ///
    /// More options: `wait`, `no_sync`, `label`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (task, **options))]
    fn add(
        &self,
        py: Python<'_>,
        task: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Added> {
        let task = from_python(task)?;
        let mut keywords = Keywords::new(py, options)?;
        let options = AddOptions {
            id: keywords.take("id", text)?,
            max_attempts: keywords.take("max_attempts", whole)?,
            write: writing(&mut keywords)?,
        };
        keywords.finish()?;
        let added = waiting(py, options.write.wait, |wait| {
            let write = WriteOptions { wait, ..options.write.clone() };
            self.inner.add(&task, &AddOptions { write, ..options.clone() })
        })?;
        Ok(Added { id: added.id, new: added.new })
    }

    /// Claims the oldest open task for `ttl` seconds; `None` if there is none before the wait is over.
    ///
    /// Options: `owner`, `wait` (default 0), `accepts` (a function that says of an open task whether to claim it; no lock
    /// is held meanwhile), `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (*, ttl, **options))]
    fn next(
        &self,
        py: Python<'_>,
        ttl: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Claimed>> {
        let mut keywords = Keywords::new(py, options)?;
        let options = ClaimOptions {
            owner: keywords.text("owner")?,
            ttl: seconds(ttl, "ttl")?,
            wait: keywords.wait_for_news(Wait::No)?,
            cancel: None,
        };
        let cancel = keywords.cancel()?;
        let accepts = keywords.take("accepts", callable)?;
        keywords.finish()?;
        let (queue, numbers) = (self.inner.clone(), self.numbers);
        let raised = Arc::new(Mutex::new(None));
        let failure = Arc::clone(&raised);
        let claimed = in_one_piece(py, cancel, move |cancel, _| {
            let accepts = |_: &str, task: &Value| {
                let Some(function) = &accepts else { return Ok(true) };
                Python::attach(|py| is_accepted(py, function, task, numbers)).map_err(|error| {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Error::new(ErrorKind::Invalid, "claim", "the function failed").at(queue.path())
                })
            };
            queue.next(&ClaimOptions { cancel: Some(cancel), ..options }, accepts)
        });
        if let Some(error) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let Some(claimed) = claimed? else { return Ok(None) };
        Ok(Some(Claimed {
            task: to_python(py, &claimed.task, self.numbers)?.unbind(),
            target: claimed.target.into(),
            ttl: claimed.ttl.as_secs_f64(),
            id: claimed.id,
            token: claimed.token,
            fence: claimed.fence,
            attempt: claimed.attempt,
        }))
    }

    /// Completes a task; `False` if this claim had completed it before.
    fn done(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (id, token) = claim(id, token)?;
        without_lock(py, || self.inner.done(&id, &token))
    }

    /// Returns a task to the queue, or sets it aside; says which: `open`, `delayed` or `set_aside`.
    ///
    /// Options: `delay` (seconds), `max_attempts`, `reason`.
    #[pyo3(signature = (id, token, **options))]
    fn fail(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<&'static str> {
        let (id, token) = claim(id, token)?;
        let mut keywords = Keywords::new(py, options)?;
        let options = FailOptions {
            delay: keywords.seconds("delay")?.unwrap_or_default(),
            max_attempts: keywords.take("max_attempts", whole)?,
            reason: keywords.take("reason", text)?,
        };
        keywords.finish()?;
        Ok(without_lock(py, || self.inner.fail(&id, &token, &options))?.name())
    }

    /// Extends a claim by its time to live, or by a new one, from now; how many seconds it has.
    #[pyo3(signature = (id, token, *, ttl = None))]
    fn renew(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        let (id, token) = claim(id, token)?;
        let ttl = ttl.map(|given| seconds(given, "ttl")).transpose()?;
        Ok(without_lock(py, || self.inner.renew(&id, &token, ttl))?.expires_in.as_secs_f64())
    }

    /// Every task, the oldest first.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<Task>> {
        let task = |task: tenure::queue::Task| {
            Ok(Task {
                task: to_python(py, &task.task, self.numbers)?.unbind(),
                state: task.state.name(),
                attempts: task.attempts,
                added_us: task.added_us,
                left: task.left.map(|left| left.as_secs_f64()),
                id: task.id,
                owner: task.owner,
                reason: task.reason,
            })
        };
        without_lock(py, || self.inner.list())?.into_iter().map(task).collect()
    }

    /// Removes tasks that are done or set aside, and were added longer ago than `max_age` (default 0); their ids.
    ///
    /// More options: `wait`, `no_sync`, `label`, `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn prune(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
        let mut keywords = Keywords::new(py, options)?;
        let age = keywords.seconds("max_age")?.unwrap_or(Duration::ZERO);
        let options = writing(&mut keywords)?;
        keywords.finish()?;
        without_lock(py, || self.inner.prune(age, &options))
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Queue path={:?}>", self.inner.path().display())
    }
}
