//! The lock: one holder of a target among all threads and processes of this machine.
//!
//! It is the kernel's lock on a file that is never unlinked, truncated, renamed or stolen. The death
//! of the holder releases it, at once; there is nothing to clean up and nothing to break.
//!
//! # Invariants
//!
//! 1. A forked child never locks the mutex of a hold that its parent took: a thread that the child does
//!    not have may have locked it. The child finds out that the hold is not its own, and its copies of
//!    the descriptors are closed with its memory of the guard.
//! 2. The hold is ended once: by the last guard, or by its [`MaxHold`].
//! 3. A lock that is taken fast made its caller wait for nothing: not for a holder, and not for the
//!    disk. Whatever needs more (a new target, a reservation of fences, a holder that died) is left
//!    to another thread.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{take_commit, take_proven};
use crate::file::events;
use crate::file::gate::Turn;
use crate::file::hold::{Hold, not_of_this_process, wait_for_lease};
use crate::file::journal::settle_for_hold;
use crate::file::max_hold::Watch;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::sweep;
use crate::file::target::{Opened, Target};
use crate::fs::{Handle, Mode, RawHandle};
use crate::holder::{Holder, HolderText};
use crate::options::{Fence, FileOptions, LockOptions, MaxHold};
use crate::process_local::ProcessLocal;
use crate::store;
use crate::sys;
use crate::wait::{Request, Wait};

/// Takes the lock of a target.
pub(crate) fn lock(target: &Target, options: &LockOptions) -> Result<FileGuard> {
    target.at_home(|target| {
        let FileOptions { lock_file, allow_network, .. } = &options.file;
        acquire(target.with(lock_file.as_deref(), *allow_network)?, options)
    })
}

/// Takes the exclusive lock if that neither waits nor syncs. `None` leaves it to [`lock`], on another thread.
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

/// The last hold ended properly, no append may be pending, and the next fence is reserved.
fn is_ready(seen: &mut Seen, file: &dyn Handle) -> bool {
    seen.detect_rollback(file);
    let record = &seen.record;
    record.state == State::Free && !record.journal && record.fence < record.confirmed
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
        // A shared hold admits no writer: other readers have it too.
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
        Mode::Exclusive => {
            let Taken { hold, record, seen, commit: _commit } =
                take(&target, Mode::Exclusive, false, request)?;
            hold_under_new_fence(target, hold, record, seen, options)?
        }
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
    if let Some(holder) = &recovered_from {
        // For people; the hold is granted without it.
        let _ = events::record(&target, "holder_died", &holder.to_json());
    }
    if is_new {
        sweep::now_and_then(&target);
    }
    Ok(Held::new(target, Some(hold), fence, recovered_from))
}

/// A hold of a parent process: checked, not taken.
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

    fn is_nested(&self) -> bool {
        self.held.nested
    }

    fn verify(&self) -> Result<()> {
        self.held.check_not_ended()?;
        let own = self.held.with_hold(|hold| hold.as_ref().map(Hold::verify))?;
        own.unwrap_or_else(|| {
            let request = Request::after(Wait::default());
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

    fn unpublished_fence(&self) -> Fence {
        self.held.fence
    }

    fn descriptors(&self) -> Vec<RawHandle> {
        self.held.with_hold(|hold| hold.as_mut().map(Hold::raw)).ok().flatten().unwrap_or_default()
    }

    /// If no child kept it, the record is closed as well; otherwise the lock and the record stay
    /// with them.
    fn leave_to_children(self: Box<Self>) -> Result<()> {
        let Some(held) = Arc::into_inner(self.held) else { return Ok(()) };
        let Some(hold) = held.with_hold(Option::take)? else { return Ok(()) };
        hold.leave_to_children()?;
        let request = Request::after(Wait::No);
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

/// A hold as all its guards share it.
#[derive(Debug)]
struct Held {
    target: Target,
    /// `None` for a nested hold, and once it was released.
    hold: Mutex<Option<Hold>>,
    nested: bool,
    fence: Fence,
    recovered_from: Option<Holder>,
    /// The process that owns the hold.
    process: u32,
    /// Set when a [`MaxHold`] ended it.
    ended: AtomicBool,
    watch: OnceLock<Watch>,
}

impl Held {
    fn new(
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
    fn watch(self: &Arc<Self>, limit: &MaxHold) -> Result<()> {
        let (held, limit_now) = (Arc::downgrade(self), limit.clone());
        let act = move || {
            let Some(held) = held.upgrade() else { return };
            if limit_now.end {
                held.ended.store(true, Ordering::SeqCst);
                let _ = held.end();
            }
            let path = held.target.path().to_path_buf();
            // The report may take long; a release meanwhile must not wait for it.
            drop(held);
            (limit_now.report)(&path);
        };
        let watch = Watch::start(limit.after, act)
            .map_err(|err| Error::io("watch the hold of", self.target.path(), err))?;
        let _ = self.watch.set(watch);
        Ok(())
    }

    fn check_not_ended(&self) -> Result<()> {
        if self.ended.load(Ordering::SeqCst) {
            let detail = "it lasted longer than its max_hold and was ended";
            return Err(Error::new(ErrorKind::Fenced, "hold", detail).at(self.target.path()));
        }
        Ok(())
    }

    /// Runs something on the hold, unless this is a forked child (invariant 1). A nested hold
    /// belongs to the child as much as to its parent.
    fn with_hold<T>(&self, act: impl FnOnce(&mut Option<Hold>) -> T) -> Result<T> {
        if self.process == sys::process_number() {
            return Ok(act(&mut self.hold.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        if self.nested { Ok(act(&mut None)) } else { Err(not_of_this_process(&self.target)) }
    }

    fn end(&self) -> Result<()> {
        match self.with_hold(Option::take) {
            Ok(Some(hold)) => hold.release(),
            Ok(None) | Err(_) => Ok(()), // A forked child only closes its copy.
        }
    }

    /// The re-entrant hold of this owner.
    fn of_owner(target: &Target, owner: &str) -> Option<Arc<Self>> {
        let owned = OWNED.here().lock().unwrap_or_else(PoisonError::into_inner);
        // One that its max_hold ended is free, however long its guard lives.
        let runs = |held: &Arc<Self>| !held.ended.load(Ordering::SeqCst);
        owned.get(&key_of(target, owner)).and_then(Weak::upgrade).filter(runs)
    }

    /// This owner may take it again.
    fn remember(self: &Arc<Self>, owner: &str) {
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
