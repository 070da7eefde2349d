//! One handle to a store: the engine, the session of this process, its locks, and the words of its errors.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tenure::status::Holder;
use tenure::store::ProcessLocal;
use tenure::{Error, ErrorKind, Fence, Result};

use crate::engine::{Engine, Hold};
use crate::holds::LockHold;
use crate::session::Sessions;

/// A handle. Clones of a store share one.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) sessions: Sessions,
    /// The locks that this process holds, by name: for re-entrant owners, and for threads that would wait for
    /// themselves.
    pub(crate) locks: ProcessLocal<Mutex<HashMap<String, Weak<LockHold>>>>,
}

impl Client {
    pub(crate) fn new(engine: Arc<dyn Engine>, ttl: Duration) -> Self {
        let sessions = Sessions::new(engine.clone(), ttl);
        Self { engine, sessions, locks: ProcessLocal::new() }
    }

    /// An error about a target.
    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        action: &'static str,
        name: &str,
        detail: &str,
    ) -> Error {
        let detail = format!("{detail} (store {})", self.engine.name());
        Error::new(kind, action, detail).at(Path::new(name))
    }

    /// A target is held by another caller.
    pub(crate) fn busy(&self, name: &str, holder: Option<Holder>) -> Error {
        let step =
            format!("wait longer, or see who holds it in {}: `tenure who`", self.engine.name());
        Error::new(ErrorKind::Busy, "lock", "")
            .at(Path::new(name))
            .held_by(Some(holder.unwrap_or_default()))
            .hint(step)
            .committed(false)
    }

    /// The wait was cancelled.
    pub(crate) fn cancelled(&self, name: &str) -> Error {
        let error = self.error(ErrorKind::Cancelled, "wait for", name, "the wait was cancelled");
        error.committed(false)
    }

    /// A proof that is not valid.
    pub(crate) fn refused(&self, name: &str, fence: Fence, hold: &Hold, expired: bool) -> Error {
        let (kind, detail, step) = if expired {
            let detail = format!("the lease with fence {fence} has expired");
            (ErrorKind::LeaseLost, detail, "renew it with its token, or acquire it again")
        } else if fence > hold.fence {
            let detail = match hold.fence {
                0 => "it was never held".to_owned(),
                newest => {
                    format!(
                        "no hold with fence {fence} was ever given out (the newest is {newest})"
                    )
                }
            };
            (
                ErrorKind::Fenced,
                detail,
                "check its name, and the fence that acquire, run or hold returned",
            )
        } else if fence < hold.fence {
            let detail = format!("fence {fence} is not current, a newer hold has {}", hold.fence);
            (ErrorKind::Fenced, detail, "stop: another holder has taken over")
        } else {
            let detail = format!("the hold with fence {fence} has ended");
            (ErrorKind::Fenced, detail, "acquire it again")
        };
        let holder = hold.holder.clone().filter(|_| fence < hold.fence);
        self.error(kind, "write", name, &detail).held_by(holder).hint(step).committed(false)
    }

    /// Fails unless this fence is that of the current hold.
    pub(crate) fn check_fence(&self, name: &str, fence: Fence) -> Result<()> {
        let hold = self.engine.hold(name).map_err(|error| about(error, name))?;
        let is_held = hold.holder.is_some() && !hold.abandoned;
        let has_expired = hold.lease.as_ref().is_some_and(|lease| lease.expires_in.is_none());
        if hold.fence == fence && is_held && !has_expired {
            return Ok(());
        }
        Err(self.refused(name, fence, &hold, hold.fence == fence && has_expired))
    }
}

/// An error of the engine, which may not know the target.
pub(crate) fn about(error: Error, name: &str) -> Error {
    if error.path().is_some() { error } else { error.at(Path::new(name)) }
}
