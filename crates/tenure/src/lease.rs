//! The lease: a hold that outlives its process, until it is released, expires, or is taken over.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::fs::Fs;
use crate::json::Value;
use crate::options::LeaseOptions;
use crate::results::{LeaseInfo, Leased};
use crate::store::{Store, Target};

/// Longer than any task. A lease without end would be a stale lock.
const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A target that can be leased. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Lease {
    target: Arc<dyn Target>,
    ttl_min: Duration,
}

impl Lease {
    /// The lease of a path, whether or not there is a file. Acquiring it creates a missing directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The lease with this name in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        let ttl_min = store.capabilities().ttl_min;
        Ok(Self { target: store.open(name.as_ref())?, ttl_min })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Self::on(&FileStore::on(fs), path)
    }

    pub(crate) fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Acquires the lease, waiting for locks and for the lease of another holder. With the token of
    /// a lease that can still be renewed it is a renewal: the fence stays.
    pub fn acquire(&self, options: &LeaseOptions) -> Result<Leased> {
        self.check_ttl(options.ttl)?;
        options.token.iter().try_for_each(|token| self.check_token(token))?;
        self.target.acquire(options)
    }

    /// Extends the lease by its time to live (or a new one), from now. The fence stays, unless the
    /// machine was restarted since.
    pub fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        ttl.map_or(Ok(()), |ttl| self.check_ttl(ttl))?;
        self.check_token(token)?;
        self.target.renew(token, ttl)
    }

    /// Ends the lease. If it is already over, the call returns `lease_lost` and changes nothing.
    pub fn release(&self, token: &str) -> Result<()> {
        self.check_token(token)?;
        self.target.release(token)
    }

    /// The lease and its holder, running or expired; `None` if there is none. Takes no lock.
    pub fn show(&self) -> Result<Option<LeaseInfo>> {
        self.target.lease()
    }

    /// The recorded events of this target, oldest first: take-overs among them.
    pub fn events(&self) -> Result<Vec<Value>> {
        self.target.events()
    }

    /// Takes the lease from its holder, for a stated reason that is recorded first. A lock
    /// is never taken over: its holder is alive.
    pub fn take_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased> {
        self.check_ttl(options.ttl)?;
        options.token.as_ref().map_or(Ok(()), |token| self.check_token(token))?;
        if reason.trim().is_empty() {
            let detail = "a take-over needs a reason";
            return Err(Error::new(ErrorKind::Invalid, "take over", detail).at(self.path()));
        }
        self.target.take_over(options, reason)
    }

    fn check_ttl(&self, ttl: Duration) -> Result<()> {
        if ttl.is_zero() || ttl > TTL_MAX {
            let detail = "the time to live must be above zero and at most a year";
            return Err(Error::new(ErrorKind::Invalid, "lease", detail).at(self.path()));
        }
        if ttl < self.ttl_min {
            let detail = format!("this store has no lease shorter than {:?}", self.ttl_min);
            return Err(Error::new(ErrorKind::Unsupported, "lease", detail).at(self.path()));
        }
        Ok(())
    }

    fn check_token(&self, token: &str) -> Result<()> {
        if token.len() < 16 || token.len() > 256 {
            let detail = "a token has 16 to 256 characters; use the one that acquire printed";
            return Err(Error::new(ErrorKind::Invalid, "lease", detail).at(self.path()));
        }
        Ok(())
    }
}
