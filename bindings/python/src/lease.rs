//! The lease: a hold that outlives its process.

use std::ffi::OsString;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::LeaseOptions;
use tenure::file::FileOptions;
use tenure_remote::Place;

use crate::argument::{seconds, text};
use crate::environment;
use crate::keywords::Keywords;
use crate::lock::paths_of;
use crate::number::Numbers;
use crate::path::PathArgument;
use crate::store::place_of;
use crate::value::to_python;
use crate::waiting::{in_one_piece, waiting, without_lock};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_lease_all, module)?)?;
    module.add_class::<Lease>()?;
    module.add_class::<Leased>()?;
    module.add_class::<LeaseInfo>()
}

/// A target that can be leased. Opening it touches nothing.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Lease {
    lease: tenure::Lease,
    place: Place,
}

/// A lease that we have. As a context manager it is released at the end of the block.
#[pyclass(frozen, module = "tenure")]
#[derive(Debug)]
struct Leased {
    lease: tenure::Lease,
    leased: tenure::outcome::Leased,
}

/// What every caller may know about a lease.
#[pyclass(frozen, get_all, module = "tenure")]
#[derive(Debug)]
struct LeaseInfo {
    /// Who has it, as they wrote it down themselves.
    holder: Py<PyAny>,
    /// How long it lasts without a renewal, in seconds.
    ttl: f64,
    /// What is left of it, in seconds; `None` if it has expired.
    expires_in: Option<f64>,
}

#[pymethods]
impl LeaseInfo {
    /// The label of its owner.
    #[getter]
    fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.holder.bind(py).get_item("owner")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let owner = self.owner(py)?.repr()?;
        Ok(format!("LeaseInfo(owner={owner}, ttl={}, expires_in={:?})", self.ttl, self.expires_in))
    }
}

impl Lease {
    fn options(keywords: &mut Keywords<'_>, ttl: &Bound<'_, PyAny>) -> PyResult<LeaseOptions> {
        let (cancel, _) = keywords.cancel()?;
        Ok(LeaseOptions {
            owner: keywords.text("owner")?,
            ttl: seconds(ttl, "ttl")?,
            wait: keywords.wait()?,
            cancel,
            token: keywords.take("token", text)?,
            label: keywords.text("label")?,
            file: FileOptions {
                allow_network: keywords.flag("allow_network")?,
                ..FileOptions::default()
            },
        })
    }

    fn leased(&self, leased: tenure::outcome::Leased) -> Leased {
        Leased { lease: self.lease.clone(), leased }
    }
}

#[pymethods]
impl Lease {
    #[new]
    #[pyo3(signature = (path, *, store = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn open(
        py: Python<'_>,
        path: PathArgument,
        store: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let place = place_of(store)?;
        Ok(Self { lease: without_lock(py, || place.lease(&path.0))?, place })
    }

    /// The resolved path.
    #[getter]
    fn path(&self) -> OsString {
        self.lease.path().as_os_str().to_owned()
    }

    /// Acquires the lease for `ttl` seconds. With the token of a lease that can still be renewed it
    /// is a renewal: the fence stays.
    ///
    /// Options: `owner`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `token`, `label`,
    /// `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (*, ttl, **options))]
    fn acquire(
        &self,
        py: Python<'_>,
        ttl: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Leased> {
        let mut keywords = Keywords::new(py, options)?;
        let mut options = Self::options(&mut keywords, ttl)?;
        keywords.finish()?;
        if options.token.is_none() {
            let inherited = environment::inherited();
            options.token =
                inherited.token_for(&self.place.address(self.lease.path())).map(str::to_owned);
        }
        let leased = waiting(py, options.wait, |wait| {
            self.lease.acquire(&LeaseOptions { wait, ..options.clone() })
        })?;
        Ok(self.leased(leased))
    }

    /// Takes the lease from its holder, for a reason that is recorded first.
    ///
    /// Options: `owner`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `token`, `label`,
    /// `allow_network`, `cancel` (a `tenure.Cancel`).
    #[pyo3(signature = (*, ttl, reason, **options))]
    fn take_over(
        &self,
        py: Python<'_>,
        ttl: &Bound<'_, PyAny>,
        reason: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Leased> {
        let mut keywords = Keywords::new(py, options)?;
        let options = Self::options(&mut keywords, ttl)?;
        let reason = text(reason, "reason")?;
        keywords.finish()?;
        let leased = waiting(py, options.wait, |wait| {
            self.lease.take_over(&LeaseOptions { wait, ..options.clone() }, &reason)
        })?;
        Ok(self.leased(leased))
    }

    /// Extends the lease by its time to live, or by a new one, from now. The fence stays.
    #[pyo3(signature = (token, *, ttl = None))]
    fn renew(
        &self,
        py: Python<'_>,
        token: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Leased> {
        let (token, ttl) = (text(token, "token")?, time_to_live(ttl)?);
        Ok(self.leased(without_lock(py, || self.lease.renew(&token, ttl))?))
    }

    /// Ends the lease.
    fn release(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<()> {
        let token = text(token, "token")?;
        without_lock(py, || self.lease.release(&token))
    }

    /// Who has the lease, running or expired; `None` if there is none.
    fn show(&self, py: Python<'_>) -> PyResult<Option<LeaseInfo>> {
        let Some(info) = without_lock(py, || self.lease.show())? else { return Ok(None) };
        Ok(Some(LeaseInfo {
            holder: to_python(py, &info.holder.to_json(), Numbers::Exact)?.unbind(),
            ttl: info.ttl.as_secs_f64(),
            expires_in: info.expires_in.map(|left| left.as_secs_f64()),
        }))
    }

    /// The recorded events of this target, oldest first: take-overs among them.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let events = without_lock(py, || self.lease.events())?;
        events.iter().map(|event| to_python(py, event, Numbers::Float)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<tenure.Lease path={:?}>", self.lease.path().display())
    }
}

/// Acquires the leases on several paths, all or none, with one token.
#[pyfunction]
#[pyo3(signature = (paths, *, ttl, **options))]
fn _lease_all(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    ttl: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Leased>> {
    let paths = paths_of(paths)?;
    let mut keywords = Keywords::new(py, options)?;
    let place = keywords.store()?;
    let mut options = Lease::options(&mut keywords, ttl)?;
    keywords.finish()?;
    let taken = in_one_piece(py, (options.cancel.take(), None), move |cancel, _| {
        let leases: Vec<_> =
            paths.into_iter().map(|path| place.lease(path)).collect::<tenure::Result<_>>()?;
        tenure::Lease::acquire_all(&leases, &LeaseOptions { cancel: Some(cancel), ..options })
    })?;
    Ok(taken.into_iter().map(|(lease, leased)| Leased { lease, leased }).collect())
}

/// `ttl` of a renewal: a new one, or none to keep the old one.
fn time_to_live(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    given.map(|given| seconds(given, "ttl")).transpose()
}

#[pymethods]
impl Leased {
    /// Names the lease to `renew` and `release`. Keep it secret.
    #[getter]
    fn token(&self) -> &str {
        &self.leased.token
    }

    /// Pass it to writes, which are refused once the lease is lost.
    #[getter]
    fn fence(&self) -> u64 {
        self.leased.fence
    }

    /// Who it is for.
    #[getter]
    fn owner(&self) -> &str {
        &self.leased.owner
    }

    /// How long it lasts without a renewal, in seconds.
    #[getter]
    fn ttl(&self) -> f64 {
        self.leased.ttl.as_secs_f64()
    }

    /// What was left of it when the call returned, in seconds.
    #[getter]
    fn expires_in(&self) -> f64 {
        self.leased.expires_in.as_secs_f64()
    }

    /// The resolved path.
    #[getter]
    fn path(&self) -> OsString {
        self.lease.path().as_os_str().to_owned()
    }

    /// Extends it from now on. The fence and the token stay.
    #[pyo3(signature = (*, ttl = None))]
    fn renew(&self, py: Python<'_>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let ttl = time_to_live(ttl)?;
        let leased = without_lock(py, || self.lease.renew(&self.leased.token, ttl))?;
        Ok(Self { lease: self.lease.clone(), leased })
    }

    /// Ends it. Ending one that is over already is `LeaseLostError`.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        without_lock(py, || self.lease.release(&self.leased.token))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release(py)
    }

    /// Without the token, which is a secret.
    fn __repr__(&self) -> String {
        let (owner, fence) = (&self.leased.owner, self.leased.fence);
        format!(
            "<tenure.Leased path={:?} owner={owner:?} fence={fence}>",
            self.lease.path().display()
        )
    }
}
