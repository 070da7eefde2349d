//! Leases.

use napi::Env;
use napi_derive::napi;
use tenure::Result;
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::failure::to_js;
use crate::options::{LeaseOptions, Name, duration, milliseconds, number, path};
use crate::store::{Store, place};

/// A lease that we have.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Leased {
    /// Names the lease to `renew` and `release`.
    pub token: String,
    /// Proves the lease to writes.
    pub fence: f64,
    /// Who it is for.
    pub owner: String,
    /// How long it lasts without a renewal.
    pub ttl_ms: f64,
    /// What is left of it now.
    pub expires_in_ms: f64,
}

impl Leased {
    pub(crate) fn new(leased: tenure::outcome::Leased) -> Result<Self> {
        Ok(Self {
            fence: number(leased.fence)?,
            ttl_ms: milliseconds(leased.ttl),
            expires_in_ms: milliseconds(leased.expires_in),
            token: leased.token,
            owner: leased.owner,
        })
    }
}

/// One of several leases that we have.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub(crate) struct LeasedTarget {
    /// The resolved path.
    pub path: String,
    /// Its lease.
    pub leased: Leased,
}

/// Acquires the leases on several paths, all or none, with one token.
#[napi(catch_unwind)]
pub(crate) fn lease_all<'env>(
    env: &'env Env,
    call: Option<&Call>,
    names: Vec<Name>,
    store: Option<&Store>,
    options: LeaseOptions,
) -> napi::Result<Answer<'env, Vec<LeasedTarget>>> {
    let (place, options) = (place(store).clone(), options.read()?);
    let paths: Result<Vec<_>> = names.into_iter().map(path).collect();
    let paths = paths.map_err(to_js)?;
    answer(env, call, move |caller| {
        let leases: Result<Vec<_>> = paths.into_iter().map(|path| place.lease(path)).collect();
        let taken = tenure::Lease::acquire_all(&leases?, &caller.lease(options))?;
        let target = |(lease, leased): (tenure::Lease, _)| {
            let path = lease.path().to_string_lossy().into_owned();
            Ok(LeasedTarget { path, leased: Leased::new(leased)? })
        };
        taken.into_iter().map(target).collect()
    })
}

/// What every caller may know about a lease.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct LeaseInfo {
    /// It runs no more.
    pub expired: bool,
    /// Who has it.
    pub owner: String,
    /// Its fence.
    pub fence: f64,
    /// How long it lasts without a renewal.
    pub ttl_ms: f64,
    /// What is left.
    pub expires_in_ms: f64,
    /// Who acquired it, as JSON.
    pub holder: String,
}

impl LeaseInfo {
    fn new(info: &tenure::outcome::LeaseInfo) -> Result<Self> {
        Ok(Self {
            expired: info.expires_in.is_none(),
            owner: info.holder.owner.clone(),
            fence: number(info.holder.fence)?,
            ttl_ms: milliseconds(info.ttl),
            expires_in_ms: info.expires_in.map_or(0.0, milliseconds),
            holder: info.holder.to_json().to_string(),
        })
    }
}

/// A target that can be leased.
#[derive(Debug)]
#[napi]
pub struct Lease {
    inner: tenure::Lease,
    place: Place,
}

#[napi]
impl Lease {
    /// The lease of a path, whether or not there is a file.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| place(store).lease(path(name)?);
        Ok(Self { inner: open(name).map_err(to_js)?, place: place(store).clone() })
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Acquires it.
    #[napi(catch_unwind)]
    pub fn acquire<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: LeaseOptions,
    ) -> napi::Result<Answer<'env, Leased>> {
        let (lease, options) =
            (self.inner.clone(), options.read_with_token(&self.place.address(self.inner.path()))?);
        answer(env, call, move |caller| Leased::new(lease.acquire(&caller.lease(options))?))
    }

    /// Takes it from its holder.
    #[napi(catch_unwind)]
    pub fn take_over<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: LeaseOptions,
        reason: String,
    ) -> napi::Result<Answer<'env, Leased>> {
        let (lease, options) = (self.inner.clone(), options.read()?);
        answer(env, call, move |caller| {
            Leased::new(lease.take_over(&caller.lease(options), &reason)?)
        })
    }

    /// Extends it.
    #[napi(catch_unwind)]
    pub fn renew<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        token: String,
        ttl_ms: Option<f64>,
    ) -> napi::Result<Answer<'env, Leased>> {
        let lease = self.inner.clone();
        answer(env, call, move |_| {
            Leased::new(lease.renew(&token, ttl_ms.map(duration).transpose()?)?)
        })
    }

    /// Ends it.
    #[napi(catch_unwind)]
    pub fn release<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        token: String,
    ) -> napi::Result<Answer<'env, ()>> {
        let lease = self.inner.clone();
        answer(env, call, move |_| lease.release(&token))
    }

    /// Who has it; null if there is no lease.
    #[napi(catch_unwind)]
    pub fn show<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Option<LeaseInfo>>> {
        let lease = self.inner.clone();
        answer(env, call, move |_| lease.show()?.as_ref().map(LeaseInfo::new).transpose())
    }
}
