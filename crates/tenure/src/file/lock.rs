//! The lock: one holder of a target among all threads and processes of this machine.
//!
//! It is the kernel's lock on a file that is never unlinked, truncated, renamed or stolen. The death
//! of the holder releases it, at once; there is nothing to clean up and nothing to break.

mod held;
mod try_fast;

use std::sync::Arc;

use self::held::Held;
pub(crate) use self::try_fast::try_lock_fast;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{take_commit, take_proven};
use crate::file::gate::Turn;
use crate::file::hold::{Hold, wait_for_lease};
use crate::file::journal::settle_for_hold;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::sweep;
use crate::file::target::{Opened, Target};
use crate::fs::{Mode, RawHandle};
use crate::holder::{Holder, HolderText};
use crate::options::{Fence, FileOptions, LockOptions};
use crate::store;
use crate::sys;
use crate::wait::{Deadline, Request, Wait};

/// Takes the lock of a target.
pub(crate) fn lock(target: &Target, options: &LockOptions) -> Result<FileGuard> {
    target.at_home(|target| {
        let FileOptions { lock_file, allow_network, .. } = &options.file;
        acquire(target.with(lock_file.as_deref(), *allow_network)?, options)
    })
}

fn acquire(target: Target, options: &LockOptions) -> Result<FileGuard> {
    if let Some(fence) = options.fence {
        return nested(&target, fence, options);
    }
    if options.reentrant {
        if options.owner.is_empty() {
            let detail = "a re-entrant lock needs an owner";
            return Err(Error::new(ErrorKind::Invalid, "lock", detail).at(target.path()));
        }
        // A shared hold serves no writer: other readers have it too.
        let serves = |held: &Arc<Held>| held.fence > 0 || options.mode == Mode::Shared;
        if let Some(held) = Held::of_owner(&target, &options.owner).filter(serves) {
            return Ok(FileGuard { held });
        }
    }
    let request = Request::new(options.wait, options.cancel.as_ref(), options.thread);
    let held = Arc::new(match options.mode {
        Mode::Shared => {
            let hold = take_shared(&target, request)?;
            Held::new(target, Some(hold), 0, None)
        }
        Mode::Exclusive => take_exclusive(target, options, request)?,
    });
    if options.reentrant {
        held.remember(&options.owner);
    }
    if let Some(limit) = &options.max_hold {
        held.watch(limit)?;
    }
    Ok(FileGuard { held })
}

/// A hold, the record, and the commit lock if the record was read under it.
pub(crate) struct Taken {
    pub(crate) hold: Hold,
    pub(crate) record: Opened,
    pub(crate) seen: Seen,
    pub(crate) commit: Option<Turn>,
}

/// Waits for the hold and for the end of a lease, and for writes that proved an earlier hold. Those are
/// over if that one ended properly; otherwise, or if `with_commit`, the commit lock is taken as well.
pub(crate) fn take(
    target: &Target,
    mode: Mode,
    with_commit: bool,
    request: Request<'_>,
) -> Result<Taken> {
    loop {
        let (hold, record, seen) = Hold::take(target, mode, request)?;
        settle_for_hold(target, &seen, request)?;
        if seen.record.state == State::Free && !with_commit {
            return Ok(Taken { hold, record, seen, commit: None });
        }
        let commit = take_commit(target, Mode::Exclusive, request)?;
        if record.handle.id().ok() != Some(commit.id()) {
            continue; // The record file was replaced in between.
        }
        let seen = Seen::read_at(target, record.handle.as_ref(), commit.born_us())?;
        let Some((holder, left)) = seen.running_lease() else {
            return Ok(Taken { hold, record, seen, commit: Some(commit) });
        };
        // Its holder renewed the expired lease before we could end it.
        drop((commit, hold));
        wait_for_lease(target, holder, left, request)?;
    }
}

/// Readers rely on no writer writing while they read. So the fence of a holder that died, and the token
/// of a lease that expired, end here.
fn take_shared(target: &Target, request: Request<'_>) -> Result<Hold> {
    let Taken { hold, record, mut seen, commit: _commit } =
        take(target, Mode::Shared, false, request)?;
    let file = record.handle.as_ref();
    match seen.record.state {
        State::Leased => seen.record.state = State::Free,
        // The next exclusive holder still learns who died; only the fence is not current now.
        State::Held if seen.bound => drop(seen.draw(target, file)?),
        State::Held | State::Free => return Ok(hold),
    }
    seen.write(target, file)?;
    Ok(hold)
}

/// Draws the fence and writes the record. Failure anywhere releases the lock and changes nothing.
fn take_exclusive(target: Target, options: &LockOptions, request: Request<'_>) -> Result<Held> {
    let Taken { hold, record, seen, commit: _commit } =
        take(&target, Mode::Exclusive, false, request)?;
    hold_under_new_fence(target, hold, record, seen, options)
}

fn hold_under_new_fence(
    target: Target,
    mut hold: Hold,
    record: Opened,
    mut seen: Seen,
    options: &LockOptions,
) -> Result<Held> {
    let died = seen.record.state == State::Held && !seen.record.left;
    let recovered_from = died.then(|| seen.record.holder());
    let file = record.handle.as_ref();
    let is_new = seen.record.seq == 0;
    let fence = seen.draw(&target, file)?;
    seen.record.state = State::Held;
    seen.record.left = false;
    seen.record.since_us = sys::wall_time_us();
    seen.record.holder = HolderText::this_process(&options.label, &options.owner);
    seen.write(&target, file)?;
    hold.drew(fence, record, false);
    if is_new {
        sweep::now_and_then(&target);
    }
    Ok(Held::new(target, Some(hold), fence, recovered_from))
}

/// A hold that a process above us has: checked, not taken.
fn nested(target: &Target, fence: Fence, options: &LockOptions) -> Result<FileGuard> {
    let request = Request::new(options.wait, options.cancel.as_ref(), options.thread);
    take_proven(target, fence, request)?;
    let held = Held::new(target.clone(), None, fence, None);
    Ok(FileGuard { held: Arc::new(held) })
}

/// A lock that is held, or a proof of one. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct FileGuard {
    held: Arc<Held>,
}

impl store::Held for FileGuard {
    fn publish_fence(&self) -> Fence {
        let _ = self.held.with_hold(|hold| hold.iter_mut().for_each(Hold::publish_fence));
        self.held.fence
    }

    fn recovered_from(&self) -> Option<&Holder> {
        self.held.recovered_from.as_ref()
    }

    fn unpublished_fence(&self) -> Fence {
        self.held.fence
    }

    fn is_nested(&self) -> bool {
        self.held.nested
    }

    fn verify(&self) -> Result<()> {
        self.held.check_not_ended()?;
        let own = self.held.with_hold(|hold| hold.as_ref().map(Hold::verify))?;
        own.unwrap_or_else(|| {
            let request = Request::until(Deadline::after(Wait::default()));
            take_proven(&self.held.target, self.held.fence, request).map(drop)
        })
    }

    fn release(self: Box<Self>) -> Result<()> {
        self.held.check_not_ended()?;
        Arc::into_inner(self.held).map_or(Ok(()), |held| held.end())
    }

    fn end(&self) -> Result<()> {
        self.held.check_not_ended()?;
        if Arc::strong_count(&self.held) > 1 { Ok(()) } else { self.held.end() }
    }

    fn descriptors(&self) -> Vec<RawHandle> {
        self.held.with_hold(|hold| hold.as_mut().map(Hold::raw)).ok().flatten().unwrap_or_default()
    }

    /// If no child kept it, the record is closed as well; else the lock and the record live on with them.
    fn leave_to_children(self: Box<Self>) -> Result<()> {
        let Some(held) = Arc::into_inner(self.held) else { return Ok(()) };
        let Some(hold) = held.with_hold(Option::take)? else { return Ok(()) };
        hold.leave_to_children()?;
        let request = Request::until(Deadline::after(Wait::No));
        match Hold::take(&held.target, Mode::Exclusive, request) {
            // Unless another holder has had it since, whose mark must stay.
            Ok((mut hold, record, seen)) if held.fence > 0 && seen.record.fence == held.fence => {
                hold.drew(held.fence, record, true);
                hold.release()
            }
            _ => Ok(()), // A grandchild keeps it, or the next holder was faster: theirs now.
        }
    }
}
