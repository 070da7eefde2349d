//! The lock, its guard, and who holds what.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tenure::embed;
use tenure::embed::Inherited;
use tenure::file::FileOptions;
use tenure::options::{MaxHold, Mode};
use tenure::{Fence, LockGuard, LockOptions, Wait};
use tenure_remote::Place;

use crate::argument::{callable, wrong_type};
use crate::error::{argument, invalid};
use crate::keywords::Keywords;
use crate::number::Numbers;
use crate::path::{PathArgument, path_of};
use crate::store::place_of;
use crate::value::to_python;
use crate::waiting::{in_one_piece, waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Guard>()?;
    module.add_class::<Lock>()?;
    module.add_function(wrap_pyfunction!(lock, module)?)?;
    module.add_function(wrap_pyfunction!(try_lock, module)?)?;
    module.add_function(wrap_pyfunction!(_lock_all, module)?)?;
    module.add_function(wrap_pyfunction!(_lock_now, module)?)?;
    module.add_function(wrap_pyfunction!(status, module)?)?;
    module.add_function(wrap_pyfunction!(status_below, module)?)
}

/// Takes the lock on `path`, exclusively unless `shared=True`.
///
/// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `shared`, `label` (shown to those
/// who wait), `owner`, `reentrant`, `slots` (at most so many holders at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds),
/// `on_max_hold` (called then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`,
/// `cancel` (a `tenure.Cancel`), `store` (a `tenure.Store` or its URL; `path` is a name there then).
#[pyfunction]
#[pyo3(signature = (path, **options))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn lock(
    py: Python<'_>,
    path: PathArgument,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Guard> {
    let mut keywords = Keywords::new(py, options)?;
    let (wait, place) = (keywords.wait()?, keywords.store()?);
    acquire(py, &place, || place.lock(&path.0), keywords, wait)
}

/// Takes the lock on `path` if it is free; `BusyError` otherwise.
///
/// Options: `shared`, `label` (shown to those who wait), `owner`, `reentrant`, `slots` (at most so many holders at
/// once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds), `on_max_hold` (called then),
/// `end_on_max_hold`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`), `store` (a
/// `tenure.Store` or its URL; `path` is a name there then).
#[pyfunction]
#[pyo3(signature = (path, **options))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn try_lock(
    py: Python<'_>,
    path: PathArgument,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Guard> {
    let mut keywords = Keywords::new(py, options)?;
    let place = keywords.store()?;
    acquire(py, &place, || place.lock(&path.0), keywords, Wait::No)
}

/// For `aio`: takes the lock if that neither waits nor syncs.
#[pyfunction]
#[pyo3(signature = (path, **options))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn _lock_now(
    py: Python<'_>,
    path: PathArgument,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<Guard>> {
    let mut keywords = Keywords::new(py, options)?;
    let place = keywords.store()?;
    acquire_now(py, &place, || place.lock(&path.0), keywords)
}

/// A target to be locked again and again: its path is resolved once, and its files stay open.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Lock {
    inner: tenure::Lock,
    place: Place,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (path, *, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn new(py: Python<'_>, path: PathArgument, store: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let place = place_of(store)?;
        Ok(Self { inner: without_lock(py, || place.lock(&path.0))?, place })
    }

    /// The resolved path.
    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().into()
    }

    /// Takes the lock, exclusively unless `shared=True`.
    ///
    /// Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `shared`, `label` (shown to those
    /// who wait), `owner`, `reentrant`, `slots` (at most so many holders at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds),
    /// `on_max_hold` (called then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`,
    /// `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn acquire(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Guard> {
        let mut keywords = Keywords::new(py, options)?;
        let wait = keywords.wait()?;
        acquire(py, &self.place, || Ok(self.inner.clone()), keywords, wait)
    }

    /// Takes the lock if it is free; `BusyError` otherwise.
    ///
    /// Options: `shared`, `label` (shown to those who wait), `owner`, `reentrant`, `slots` (at most so many holders
    /// at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds), `on_max_hold` (called
    /// then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (**options))]
    fn try_acquire(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Guard> {
        acquire(py, &self.place, || Ok(self.inner.clone()), Keywords::new(py, options)?, Wait::No)
    }

    /// For `aio`: takes the lock if that neither waits nor syncs.
    #[pyo3(signature = (**options))]
    fn _acquire_now(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Guard>> {
        acquire_now(py, &self.place, || Ok(self.inner.clone()), Keywords::new(py, options)?)
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Lock path={:?}>", self.inner.path().display())
    }
}

/// A lock that is asked for.
struct Asked {
    options: LockOptions,
    inherited: Inherited,
    /// Set when `max_hold` ended it.
    ended: Arc<AtomicBool>,
}

impl Asked {
    fn read(py: Python<'_>, mut keywords: Keywords<'_>, wait: Wait) -> PyResult<Self> {
        let fence = keywords.given_fence()?;
        let (cancel, thread) = keywords.cancel()?;
        let ended = Arc::new(AtomicBool::new(false));
        let options = LockOptions {
            mode: if keywords.flag("shared")? { Mode::Shared } else { Mode::Exclusive },
            wait,
            label: keywords.text("label")?,
            owner: keywords.text("owner")?,
            reentrant: keywords.flag("reentrant")?,
            slots: keywords.take("slots", slots)?,
            cancel,
            thread,
            fence,
            file: FileOptions {
                lock_file: keywords.path("lock_file")?,
                allow_network: keywords.flag("allow_network")?,
                ..FileOptions::default()
            },
            max_hold: max_hold(py, &mut keywords, &ended)?,
        };
        let inherited = keywords.inherited().clone();
        keywords.finish()?;
        Ok(Self { options, inherited, ended })
    }

    fn inherit(&mut self, place: &Place, lock: &tenure::Lock) -> tenure::Result<()> {
        if self.options.fence.is_none() {
            self.options.fence = self.inherited.fence_of(&place.address(lock.path()))?;
        }
        Ok(())
    }
}

/// Opens and takes a lock. The interpreter lock is given up once: a thread that does so beside a busy one
/// may have to wait for it until that thread's time slice is over.
fn acquire(
    py: Python<'_>,
    place: &Place,
    mut open: impl FnMut() -> tenure::Result<tenure::Lock> + Send,
    keywords: Keywords<'_>,
    wait: Wait,
) -> PyResult<Guard> {
    let mut asked = Asked::read(py, keywords, wait)?;
    // What others share, or watch, can end in ways that this guard does not know of.
    let alone = !asked.options.reentrant && asked.options.max_hold.is_none();
    if asked.options.slots.is_some() {
        let lock = without_lock(py, || {
            let lock = open()?;
            asked.inherit(place, &lock).map(|()| lock)
        })?;
        let guard = in_turn(py, asked.options, move |options| lock.acquire(options))?;
        return Ok(Guard::new(guard, asked.ended, alone));
    }
    let mut opened = None;
    let guard = waiting(py, wait, |wait| {
        let lock = opened.take().map_or_else(&mut open, Ok)?;
        asked.inherit(place, &lock)?;
        asked.options.wait = wait;
        let taken = lock.acquire(&asked.options);
        opened = Some(lock); // For the next piece of the wait.
        taken
    })?;
    Ok(Guard::new(guard, asked.ended, alone))
}

/// Takes what has its place in several queues at once, or in one with others behind it.
fn in_turn<T: Send + 'static>(
    py: Python<'_>,
    mut options: LockOptions,
    take: impl FnOnce(&LockOptions) -> tenure::Result<T> + Send + 'static,
) -> PyResult<T> {
    in_one_piece(py, (options.cancel.take(), options.thread), move |cancel, thread| {
        take(&LockOptions { cancel: Some(cancel), thread: Some(thread), ..options })
    })
}

fn slots(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u8> {
    given.extract().map_err(|_| wrong_type(given, name, "a whole number from 1 to 64"))
}

/// Takes the locks on several paths, all or none. Those that this program is held under already need no wait.
#[pyfunction]
#[pyo3(signature = (paths, **options))]
fn _lock_all(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Guard>> {
    let paths = paths_of(paths)?;
    let mut keywords = Keywords::new(py, options)?;
    let (wait, place) = (keywords.wait()?, keywords.store()?);
    let Asked { options, inherited, ended } = Asked::read(py, keywords, wait)?;
    if options.fence.is_some() || options.max_hold.is_some() || options.file.lock_file.is_some() {
        let detail = "fence, max_hold and lock_file are for one target, and several were named";
        return Err(argument(py, "lock", &format!("failed to lock: {detail}")));
    }
    let alone = !options.reentrant;
    let guards = in_turn(py, options, move |options| {
        let (mut free, mut guards) = (Vec::new(), Vec::new());
        for path in paths {
            let lock = place.lock(path)?;
            let fence = inherited.fence_of(&place.address(lock.path()))?;
            if fence.is_none() {
                free.push(lock);
            } else {
                guards.push(lock.acquire(&LockOptions { fence, ..options.clone() })?);
            }
        }
        guards.extend(tenure::Lock::acquire_all(&free, options)?);
        guards.sort_by(|one, other| one.path().cmp(other.path()));
        Ok(guards)
    })?;
    Ok(guards.into_iter().map(|guard| Guard::new(guard, ended.clone(), alone)).collect())
}

/// Several paths, at least one.
pub(crate) fn paths_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    let wrong = || wrong_type(given, "paths", "a list of at least one path");
    let one = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    let all = if one { Err(wrong()) } else { given.try_iter().map_err(|_| wrong()) };
    let paths: PyResult<Vec<_>> = all?.map(|path| path_of(&path?, "path")).collect();
    paths.and_then(|paths| if paths.is_empty() { Err(wrong()) } else { Ok(paths) })
}

/// The same on an event loop, or not at all.
fn acquire_now(
    py: Python<'_>,
    place: &Place,
    open: impl FnOnce() -> tenure::Result<tenure::Lock> + Send,
    mut keywords: Keywords<'_>,
) -> PyResult<Option<Guard>> {
    let wait = keywords.wait()?;
    let mut asked = Asked::read(py, keywords, wait)?;
    let guard = without_lock(py, || {
        let lock = open()?;
        asked.inherit(place, &lock)?;
        embed::try_lock_fast(&lock, &asked.options)
    })?;
    Ok(guard.map(|guard| Guard::new(guard, asked.ended, true)))
}

/// `max_hold` seconds, `on_max_hold` to be told, `end_on_max_hold` to end the hold, which `ended` tells.
fn max_hold(
    py: Python<'_>,
    keywords: &mut Keywords<'_>,
    ended: &Arc<AtomicBool>,
) -> PyResult<Option<MaxHold>> {
    let after = keywords.seconds("max_hold")?;
    let function = |given: &Bound<'_, PyAny>, name: &str| {
        callable(given, name).map(|()| given.clone().unbind())
    };
    let report = keywords.take("on_max_hold", function)?;
    let end = keywords.flag("end_on_max_hold")?;
    let Some(after) = after else {
        if report.is_some() || end {
            let detail = "on_max_hold and end_on_max_hold need max_hold";
            return Err(argument(py, "lock", &format!("failed to lock: {detail}")));
        }
        return Ok(None);
    };
    let over = ended.clone();
    let tell = move |path: &Path| {
        over.store(end, Ordering::SeqCst);
        let Some(report) = &report else { return };
        // An interpreter that is ending has no caller left to report to.
        Python::try_attach(|py| {
            if let Err(error) = report.call1(py, (path.as_os_str(),)) {
                error.write_unraisable(py, Some(report.bind(py)));
            }
        });
    };
    Ok(Some(MaxHold { after, end, report: Arc::new(tell) }))
}

/// What the target `path` is doing, as a dict with the fields of `tenure who --json`.
#[pyfunction]
#[pyo3(signature = (path, *, store = None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn status<'py>(
    py: Python<'py>,
    path: PathArgument,
    store: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let place = place_of(store)?;
    let status = without_lock(py, || place.target(&path.0)?.status())?;
    to_python(py, &status.to_json(), Numbers::Exact)
}

/// What every target below a directory is doing.
#[pyfunction]
#[pyo3(signature = (dir, *, store = None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
fn status_below<'py>(
    py: Python<'py>,
    dir: PathArgument,
    store: Option<&Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let place = place_of(store)?;
    let all = without_lock(py, || {
        let found = place.store().survey(&dir.0)?;
        // A directory that cannot be read is left out, a target is not.
        match found.unseen.into_iter().find(|unseen| !unseen.is_directory) {
            Some(unseen) => Err(unseen.error),
            None => Ok(found.targets),
        }
    })?;
    all.iter().map(|status| to_python(py, &status.to_json(), Numbers::Exact)).collect()
}

/// A lock that is held. Leaving its `with` block releases it; so does losing the last reference.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
pub(crate) struct Guard {
    /// `None` once it was released.
    hold: Mutex<Option<Arc<LockGuard>>>,
    path: PathBuf,
    fence: Fence,
    /// No other caller can write under it: it is not shared, and its fence is not known.
    alone: AtomicBool,
    recovered_from: Option<tenure::status::Holder>,
    /// The process that took it. A forked child has a copy of the guard and not the lock.
    pid: u32,
    /// Set when `max_hold` ended it.
    ended: Arc<AtomicBool>,
    /// It belongs to a hold of a parent process, whose other programs have it as well.
    nested: bool,
}

impl Guard {
    fn new(guard: LockGuard, ended: Arc<AtomicBool>, alone: bool) -> Self {
        Self {
            path: guard.path().to_path_buf(),
            fence: embed::unpublished_fence(&guard),
            alone: AtomicBool::new(alone),
            recovered_from: guard.recovered_from().cloned(),
            pid: std::process::id(),
            ended,
            nested: embed::is_nested(&guard),
            hold: Mutex::new(Some(Arc::new(guard))),
        }
    }

    fn with_hold<T>(&self, act: impl FnOnce(&mut Option<Arc<LockGuard>>) -> T) -> T {
        act(&mut self.hold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }
}

#[pymethods]
impl Guard {
    /// The fence of this hold; 0 for a shared one. Pass it to writes of the same target. Asking for it
    /// makes it known, which a forked child cannot do; a hold whose fence is not known ends faster. After
    /// the hold it is the same number, and writes with it are refused.
    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<Fence> {
        if !self.is_ours() {
            // It cannot be told, and a thread that was using it is not here to let go of it.
            return Ok(self.fence);
        }
        self.alone.store(false, Ordering::SeqCst);
        match self.with_hold(|guard| guard.clone()) {
            Some(guard) => without_lock(py, move || Ok(guard.publish_fence())),
            None => Ok(self.fence),
        }
    }

    /// The resolved path of the target.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into_os_string()
    }

    /// Who held it before and died without releasing: what it protects may be half done.
    #[getter]
    fn recovered_from<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let holder = self.recovered_from.as_ref();
        holder.map(|holder| to_python(py, &holder.to_json(), Numbers::Exact)).transpose()
    }

    /// Whether this process holds it: it was not released, `max_hold` has not ended it, and in a store it was renewed in
    /// time.
    #[getter]
    fn held(&self) -> bool {
        let is_lost =
            |guard: &Arc<LockGuard>| guard.loss().is_some_and(|loss| loss.wait(Duration::ZERO));
        let ended = self.ended.load(Ordering::SeqCst);
        self.is_ours()
            && !ended
            && self.with_hold(|guard| guard.clone()).is_some_and(|guard| !is_lost(&guard))
    }

    /// For the drop-ins: this is a hold from above, and keeps out none of those who have it as well.
    #[getter]
    fn _nested(&self) -> bool {
        self.nested
    }

    /// For `aio`: a release waits for no other caller, so that an event loop can do it by itself.
    #[getter]
    fn _ends_now(&self) -> bool {
        self.alone.load(Ordering::SeqCst)
    }

    /// Checks that the lock file was not removed or replaced during the hold.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let Some(guard) = self.with_hold(|guard| guard.clone()) else {
            return Err(invalid(py, "verify the hold of", "it was released", Some(&self.path)));
        };
        without_lock(py, move || guard.verify())
    }

    /// Releases the lock. Releasing it again does nothing, and so does a forked child's release.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let Some(guard) = self.with_hold(Option::take) else { return Ok(()) };
        // Another thread may be verifying it: then it is released behind that.
        without_lock(py, || embed::end(&guard))
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if !slf.get().held() {
            let path = &slf.get().path;
            let detail = "it was released, or its max_hold has ended it";
            return Err(invalid(slf.py(), "enter the hold of", detail, Some(path)));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.held() { "held" } else { "released" };
        format!("<tenure.Guard {state} path={:?}>", self.path.display())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(guard) = self.with_hold(Option::take) {
            let mut guard = Some(guard);
            // A release writes, and may wait for a write of another thread that needs the interpreter.
            Python::try_attach(|py| {
                let guard = guard.take();
                py.detach(|| drop(guard));
            });
        }
    }
}
