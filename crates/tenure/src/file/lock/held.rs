//! A hold as all its guards share it.
//!
//! # Invariants
//!
//! 1. A forked child never locks the mutex of a hold that its parent took: a thread that the child does
//!    not have may have locked it. The child finds out that the hold is not its own, and its copies of
//!    the descriptors are closed with its memory of the guard.
//! 2. The hold is ended once: by the last guard, or by its [`MaxHold`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::error::{Error, ErrorKind, Result};
use crate::file::hold::{Hold, not_of_this_process};
use crate::file::max_hold::Watch;
use crate::file::target::Target;
use crate::holder::Holder;
use crate::options::{Fence, MaxHold};
use crate::process_local::ProcessLocal;
use crate::sys;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) target: Target,
    /// `None` for a nested hold, and once it was released.
    hold: Mutex<Option<Hold>>,
    pub(super) nested: bool,
    pub(super) fence: Fence,
    pub(super) recovered_from: Option<Holder>,
    /// Whose hold it is.
    process: u32,
    /// Set when a [`MaxHold`] ended it.
    ended: AtomicBool,
    watch: OnceLock<Watch>,
}

impl Held {
    pub(super) fn new(
        target: Target,
        hold: Option<Hold>,
        fence: Fence,
        recovered_from: Option<Holder>,
    ) -> Self {
        let (nested, hold) = (hold.is_none(), Mutex::new(hold));
        let (ended, watch) = (AtomicBool::new(false), OnceLock::new());
        let process = sys::process_number();
        Self { target, hold, nested, fence, recovered_from, process, ended, watch }
    }

    /// Has an overlong hold reported, or ended, by a thread that knows it only weakly.
    pub(super) fn watch(self: &Arc<Self>, limit: &MaxHold) -> Result<()> {
        let (held, limit_now) = (Arc::downgrade(self), limit.clone());
        let act = move || {
            let Some(held) = held.upgrade() else { return };
            if limit_now.end {
                held.ended.store(true, Ordering::SeqCst);
                let _ = held.end();
            }
            let path = held.target.path().to_path_buf();
            // The report may take its time; a release meanwhile must release.
            drop(held);
            (limit_now.report)(&path);
        };
        let watch = Watch::start(limit.after, act)
            .map_err(|err| Error::io("watch the hold of", self.target.path(), err))?;
        let _ = self.watch.set(watch);
        Ok(())
    }

    pub(super) fn check_not_ended(&self) -> Result<()> {
        if self.ended.load(Ordering::SeqCst) {
            let detail = "it lasted longer than its max_hold and was ended";
            return Err(Error::new(ErrorKind::Fenced, "hold", detail).at(self.target.path()));
        }
        Ok(())
    }

    /// Does something with the hold, unless this is a forked child (invariant 1). Of a nested hold the
    /// child is as much a part as its parent.
    pub(super) fn with_hold<T>(&self, act: impl FnOnce(&mut Option<Hold>) -> T) -> Result<T> {
        if self.process == sys::process_number() {
            return Ok(act(&mut self.hold.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        if self.nested { Ok(act(&mut None)) } else { Err(not_of_this_process(&self.target)) }
    }

    pub(super) fn end(&self) -> Result<()> {
        match self.with_hold(Option::take) {
            Ok(Some(hold)) => hold.release(),
            Ok(None) | Err(_) => Ok(()), // A forked child only closes its copy.
        }
    }

    /// The re-entrant hold of this owner.
    pub(super) fn of_owner(target: &Target, owner: &str) -> Option<Arc<Self>> {
        let owned = OWNED.here().lock().unwrap_or_else(PoisonError::into_inner);
        // One that its max_hold ended is held by nobody, however long its guard lives.
        let runs = |held: &Arc<Self>| !held.ended.load(Ordering::SeqCst);
        owned.get(&key_of(target, owner)).and_then(Weak::upgrade).filter(runs)
    }

    /// Lets this owner in again.
    pub(super) fn remember(self: &Arc<Self>, owner: &str) {
        let mut owned = OWNED.here().lock().unwrap_or_else(PoisonError::into_inner);
        owned.retain(|_, held| held.strong_count() > 0);
        owned.insert(key_of(&self.target, owner), Arc::downgrade(self));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Re-entrant holds by target, lock file and owner.
type Owned = HashMap<(PathBuf, Option<PathBuf>, String), Weak<Held>>;

/// The re-entrant holds of this process.
static OWNED: ProcessLocal<Mutex<Owned>> = ProcessLocal::new();

fn key_of(target: &Target, owner: &str) -> (PathBuf, Option<PathBuf>, String) {
    (target.path().to_path_buf(), target.lock_file().map(Path::to_path_buf), owner.to_owned())
}
