//! Locks for event loops, and for guards of other languages.
//!
//! # Invariants
//!
//! 1. A lock that is taken at once made nobody wait: not for a holder, and not for the disk. Whatever
//!    needs more (a new target, fences to be reserved, a holder that died) is left to another thread.

use std::sync::Arc;

use super::{Lock, LockGuard, LockOptions, hold_under_new_fence};
use crate::error::{ErrorKind, Result};
use crate::file::hold::Hold;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::fs::{Handle, Mode};
use crate::options::Fence;
use crate::wait::{Request, Wait};

impl Lock {
    /// Takes the exclusive lock if that neither waits nor syncs, so that an event loop can do it itself.
    /// `None` leaves it to [`Self::acquire`], on another thread: somebody holds it, something has to be
    /// prepared first, or it is asked for in a way that is served only there. The options `wait` and
    /// `cancel` mean nothing here.
    pub fn try_lock_fast(&self, options: &LockOptions) -> Result<Option<LockGuard>> {
        let plain = options.mode == Mode::Exclusive
            && options.fence.is_none()
            && !options.reentrant
            && options.max_hold.is_none();
        // On a network file system every call waits for a server.
        if !plain || options.allow_network || !self.target.has_sidecars() {
            return Ok(None);
        }
        let target = self.target.current()?;
        let target = target.with(options.lock_file.as_deref(), options.allow_network)?;
        let request = Request::new(Wait::No, None, options.thread);
        let (hold, record, mut seen) = match Hold::take(&target, Mode::Exclusive, request) {
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(None),
            taken => taken?,
        };
        if !is_ready(&mut seen, record.handle.as_ref()) {
            return Ok(None);
        }
        let held = hold_under_new_fence(target, hold, record, seen, options)?;
        Ok(Some(LockGuard { held: Arc::new(held) }))
    }
}

/// The last hold ended well, no append may be pending, and the next fence is reserved.
fn is_ready(seen: &mut Seen, file: &dyn Handle) -> bool {
    seen.detect_rollback(file);
    let record = &seen.record;
    record.state == State::Free && !record.journal && record.fence < record.confirmed
}

impl LockGuard {
    /// As [`Self::release`], through a reference: for guards that other threads may be using. They find
    /// it released. Another guard of the same re-entrant owner keeps it.
    pub fn end(&self) -> Result<()> {
        self.held.check_not_ended()?;
        if Arc::strong_count(&self.held) > 1 { Ok(()) } else { self.held.end() }
    }

    /// The number that [`Self::fence`] tells, without telling it: a write under it is refused until that
    /// was called. For guards of other languages, which can be asked after the release.
    pub fn unpublished_fence(&self) -> Fence {
        self.held.fence
    }
}
