//! Locks for event loops, and for guards of other languages.
//!
//! # Invariants
//!
//! 1. A lock that is taken at once made nobody wait: not for a holder, and not for the disk. Whatever
//!    needs more (a new target, fences to be reserved, a holder that died) is left to another thread.

use std::sync::Arc;

use super::{FileGuard, hold_under_new_fence};
use crate::error::{ErrorKind, Result};
use crate::file::hold::Hold;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::fs::{Handle, Mode};
use crate::options::{FileOptions, LockOptions};
use crate::wait::{Request, Wait};

/// Takes the exclusive lock if that neither waits nor syncs. `None` leaves it to [`super::lock`], on another thread.
pub(crate) fn try_lock_fast(target: &Target, options: &LockOptions) -> Result<Option<FileGuard>> {
    let plain = options.mode == Mode::Exclusive
        && options.fence.is_none()
        && !options.reentrant
        && options.max_hold.is_none();
    let FileOptions { lock_file, allow_network, .. } = &options.file;
    // On a network file system every call waits for a server.
    if !plain || *allow_network || !target.has_sidecars() {
        return Ok(None);
    }
    let target = target.current()?.with(lock_file.as_deref(), false)?;
    let request = Request::new(Wait::No, None, options.thread);
    let (hold, record, mut seen) = match Hold::take(&target, Mode::Exclusive, request) {
        Err(error) if error.kind() == ErrorKind::Busy => return Ok(None),
        taken => taken?,
    };
    if !is_ready(&mut seen, record.handle.as_ref()) {
        return Ok(None);
    }
    let held = hold_under_new_fence(target, hold, record, seen, options)?;
    Ok(Some(FileGuard { held: Arc::new(held) }))
}

/// The last hold ended well, no append may be pending, and the next fence is reserved.
fn is_ready(seen: &mut Seen, file: &dyn Handle) -> bool {
    seen.detect_rollback(file);
    let record = &seen.record;
    record.state == State::Free && !record.journal && record.fence < record.confirmed
}
