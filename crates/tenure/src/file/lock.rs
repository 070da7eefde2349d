//! The lock: one holder of a target among all threads and processes of this machine.
//!
//! It is the kernel's lock on a file that is never unlinked, truncated, renamed or stolen. The death
//! of the holder releases it, at once; there is nothing to clean up and nothing to break.

mod held;
mod try_fast;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ThreadId;

use self::held::Held;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::take_commit;
use crate::file::events;
use crate::file::hold::{Hold, wait_for_lease};
use crate::file::journal::settle_for_hold;
use crate::file::max_hold::MaxHold;
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::sweep;
use crate::file::target::{Opened, Target};
use crate::fs::{Fs, Mode, RawHandle};
use crate::holder::{Holder, HolderText};
use crate::options::Fence;
use crate::sys;
use crate::sys::disk;
use crate::wait::{Cancel, Deadline, Request, Wait};

/// How a lock is taken. The default is exclusive and waits ten seconds.
#[derive(Debug, Clone)]
pub struct LockOptions {
    /// Shared holders exclude exclusive ones; they draw no fence and cannot write.
    pub mode: Mode,
    /// How long to wait.
    pub wait: Wait,
    /// What it is for, shown to those who wait.
    pub label: String,
    /// Who it is for. With `reentrant`, the same owner may take it again in this process.
    pub owner: String,
    /// Let the same `owner` in again while it holds the lock.
    pub reentrant: bool,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// Proof of a hold that the caller is part of (a command below `tenure run`): nothing is locked.
    pub fence: Option<Fence>,
    /// Lock exactly this file as well, to exclude others that lock it.
    pub lock_file: Option<PathBuf>,
    /// Work on a network file system although its locks cannot be trusted.
    pub allow_network: bool,
    /// Report, or end, a hold of ours that lasts too long.
    pub max_hold: Option<MaxHold>,
    /// The thread that this is done for, if it is not the calling one. A call that would wait for a
    /// lock of its own thread fails with `deadlock`; an event loop, which waits on other threads, says
    /// here whose lock it will be, and that this wait does not block it.
    pub thread: Option<ThreadId>,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Exclusive,
            wait: Wait::default(),
            label: String::new(),
            owner: String::new(),
            reentrant: false,
            cancel: None,
            fence: None,
            lock_file: None,
            allow_network: false,
            max_hold: None,
            thread: None,
        }
    }
}

/// Takes the exclusive lock on `path`, waiting up to ten seconds.
pub fn lock(path: impl AsRef<Path>) -> Result<LockGuard> {
    Lock::open(path)?.acquire(&LockOptions::default())
}

/// Takes the exclusive lock on `path` if nobody has it.
pub fn try_lock(path: impl AsRef<Path>) -> Result<LockGuard> {
    Lock::open(path)?.acquire(&LockOptions { wait: Wait::No, ..LockOptions::default() })
}

/// A target that can be locked. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Lock {
    target: Target,
}

impl Lock {
    /// The lock of a path, whether or not there is a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)? })
    }

    /// Whether the directory of the target was there when it was opened. A hold creates a missing one.
    pub fn has_directory(&self) -> bool {
        self.target.has_directory()
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// Takes the lock.
    pub fn acquire(&self, options: &LockOptions) -> Result<LockGuard> {
        self.target.at_home(|target| {
            acquire(target.with(options.lock_file.as_deref(), options.allow_network)?, options)
        })
    }
}

fn acquire(target: Target, options: &LockOptions) -> Result<LockGuard> {
    if let Some(fence) = options.fence {
        return nested(&target, fence, options);
    }
    if options.reentrant {
        if options.owner.is_empty() {
            let detail = "a re-entrant lock needs an owner";
            return Err(Error::new(ErrorKind::Invalid, "lock", detail).at(target.path()));
        }
        // A shared hold lets nobody in as a writer: other readers have it too.
        let serves = |held: &Arc<Held>| held.fence > 0 || options.mode == Mode::Shared;
        if let Some(held) = Held::of_owner(&target, &options.owner).filter(serves) {
            return Ok(LockGuard { held });
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
    Ok(LockGuard { held })
}
/// Readers rely on nobody writing while they read. So the fence of a holder that died, and the token
/// of a lease that expired, end here.
fn take_shared(target: &Target, request: Request<'_>) -> Result<Hold> {
    loop {
        let (hold, _, seen) = Hold::take(target, Mode::Shared, request)?;
        settle_for_hold(target, &seen, request)?;
        if seen.record.state == State::Free {
            return Ok(hold);
        }
        let commit = take_commit(target, Mode::Exclusive, request)?;
        let file = commit.handle().as_ref();
        let mut seen = Seen::read_at(target, file, commit.born_us())?;
        if let Some((holder, left)) = seen.running_lease() {
            // Its holder renewed the expired lease before we could end it.
            drop((commit, hold));
            wait_for_lease(target, holder, left, request)?;
            continue;
        }
        match seen.record.state {
            State::Leased => seen.record.state = State::Free,
            // The next exclusive holder is still told who died; only the fence is not current now.
            State::Held if seen.bound => {
                seen.draw(target, file)?;
            }
            State::Held | State::Free => return Ok(hold),
        }
        seen.write(target, file)?;
        return Ok(hold);
    }
}

/// Draws the fence and writes the record. Failure anywhere releases the lock and changes nothing.
fn take_exclusive(target: Target, options: &LockOptions, request: Request<'_>) -> Result<Held> {
    let (hold, record, seen, _commit) = loop {
        let (hold, record, seen) = Hold::take(&target, Mode::Exclusive, request)?;
        settle_for_hold(&target, &seen, request)?;
        if seen.record.state == State::Free {
            break (hold, record, seen, None);
        }
        // The predecessor did not end properly: a write that proved its hold may be in flight.
        let commit = take_commit(&target, Mode::Exclusive, request)?;
        if record.handle.id().ok() != Some(commit.id()) {
            continue; // Somebody replaced the record file in between.
        }
        let seen = Seen::read_at(&target, record.handle.as_ref(), commit.born_us())?;
        let Some((holder, left)) = seen.running_lease() else {
            break (hold, record, seen, Some(commit));
        };
        // Its holder renewed the expired lease before we could end it.
        drop((commit, hold));
        wait_for_lease(&target, holder, left, request)?;
    };
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
    if let Some(holder) = &recovered_from {
        // For people; the hold is granted without it.
        let _ = events::record(&target, "holder_died", &holder.to_json());
    }
    if is_new {
        sweep::now_and_then(&target);
    }
    Ok(Held::new(target, Some(hold), fence, recovered_from))
}

/// A hold that somebody above us has: checked, not taken.
fn nested(target: &Target, fence: Fence, options: &LockOptions) -> Result<LockGuard> {
    target.prepare()?;
    let request = Request::new(options.wait, options.cancel.as_ref(), options.thread);
    check_current(target, fence, request)?;
    let held = Held::new(target.clone(), None, fence, None);
    Ok(LockGuard { held: Arc::new(held) })
}

fn check_current(target: &Target, fence: Fence, request: Request<'_>) -> Result<()> {
    let turn = take_commit(target, Mode::Shared, request)?;
    target.confirm_owner(None)?;
    Seen::read_at(target, turn.handle().as_ref(), turn.born_us())?.check_fence(target, fence)
}

/// Proof that the lock is held. Dropping it releases the lock; [`Self::release`] also says whether
/// the hold was sound to its end.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    held: Arc<Held>,
}

impl LockGuard {
    /// The fence of this hold; 0 for a shared one. Pass it to writes of the same target.
    ///
    /// The first call notes that others may know it: from then on the release waits for their writes. A
    /// forked child cannot note it for its parent; a fence that only the child asked for is refused.
    pub fn fence(&self) -> Fence {
        let _ = self.held.with_hold(|hold| hold.iter_mut().for_each(Hold::publish_fence));
        self.held.fence
    }

    /// Who held it before and died without releasing: what it protects may be half done.
    pub fn recovered_from(&self) -> Option<&Holder> {
        self.held.recovered_from.as_ref()
    }

    /// The resolved path of the target.
    pub fn path(&self) -> &Path {
        self.held.target.path()
    }

    /// Whether it proves a hold of somebody above us, and locks nothing itself.
    pub fn is_nested(&self) -> bool {
        self.held.nested
    }

    /// Checks that nobody removed or replaced the lock file under the hold; of a nested hold, that its
    /// fence is still the current one.
    pub fn verify(&self) -> Result<()> {
        self.held.check_not_ended()?;
        let own = self.held.with_hold(|hold| hold.as_ref().map(Hold::verify))?;
        own.unwrap_or_else(|| {
            let request = Request::until(Deadline::after(Wait::default()));
            check_current(&self.held.target, self.held.fence, request)
        })
    }

    /// Releases the lock, once the last guard of a re-entrant owner is released. An error means that
    /// the hold was compromised, or that the record could not be written; it is released all the same.
    pub fn release(self) -> Result<()> {
        self.held.check_not_ended()?;
        Arc::into_inner(self.held).map_or(Ok(()), |held| held.end())
    }

    /// The descriptors that carry the lock, for a child process to inherit. None for a nested hold, nor
    /// in a forked child.
    pub fn raw(&self) -> Vec<RawHandle> {
        self.held.with_hold(|hold| hold.as_mut().map(Hold::raw)).ok().flatten().unwrap_or_default()
    }

    /// Ends our part of a hold that child processes inherited. If none of them kept it, the record is
    /// closed as well; else the lock and the record live on with them.
    pub fn leave_to_children(self) -> Result<()> {
        let Some(held) = Arc::into_inner(self.held) else { return Ok(()) };
        let Some(hold) = held.with_hold(Option::take)? else { return Ok(()) };
        hold.leave_to_children()?;
        let request = Request::until(Deadline::after(Wait::No));
        match Hold::take(&held.target, Mode::Exclusive, request) {
            // Unless somebody else has had it since, whose mark must stay.
            Ok((mut hold, record, seen)) if held.fence > 0 && seen.record.fence == held.fence => {
                hold.drew(held.fence, record, true);
                hold.release()
            }
            _ => Ok(()), // A grandchild keeps it, or the next holder was faster: theirs now.
        }
    }
}
