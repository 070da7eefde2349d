//! The short critical section of every write.
//!
//! # Invariants
//!
//! 1. A write without proof takes the hold first, then the commit lock. A write that proves the
//!    current hold by its fence takes only the commit lock, and the fence is checked under it.
//! 2. A guard on another target is checked under that target's commit lock, held shared until this
//!    commit is done; a take-over takes it exclusively, so it waits for us and we never finish after.
//! 3. Order: own hold, then commit locks by resolved path. Whoever holds a commit lock never waits
//!    for a hold, so no cycle can form.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::fs::{Handle, Mode};
use crate::gate::{self, Turn};
use crate::hold::{Hold, Request, Seen, check_named, name_holder, wait_for_lease};
use crate::options::{Fence, WriteOptions};
use crate::record::State;
use crate::target::Target;
use crate::wait::Deadline;

/// The critical section; dropping it ends it, commit lock first, hold last.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) target: Target,
    pub(crate) seen: Seen,
    /// The commit lock of the target itself.
    own: Turn,
    own_path: PathBuf,
    /// Shared commit locks of the guards.
    guards: Vec<(Target, PathBuf, Turn)>,
    hold: Option<Hold>,
}

impl Commit {
    /// Enters the critical section of a write to `target`.
    pub(crate) fn begin(target: &Target, options: &WriteOptions) -> Result<Self> {
        let deadline = Deadline::after(options.wait);
        let request = Request { deadline, cancel: options.cancel.as_ref() };
        let target = target.with(options.lock_file.as_deref(), options.allow_network)?;
        let mut own_fence = options.fence;
        let mut guards: Vec<(Target, Fence)> = Vec::new();
        for guard in &options.guards {
            let other = Target::resolve(&target.fs, &guard.target)?;
            if other.path() == target.path() {
                own_fence = own_fence.or(Some(guard.fence));
            } else {
                guards.push((other, guard.fence));
            }
        }
        guards.sort_by(|one, other| one.0.path().cmp(other.0.path()));
        loop {
            let hold = match own_fence {
                Some(_) => {
                    target.prepare()?;
                    None
                }
                None => Some(Hold::take(&target, Mode::Exclusive, request)?.0),
            };
            let mut commit = Self::lock_in_order(&target, &guards, hold, request)?;
            if let Some(fence) = own_fence {
                commit.seen.check_fence(&commit.target, fence)?;
                return Ok(commit);
            }
            let Some((holder, left)) = commit.seen.running_lease() else {
                commit.end_abandoned_hold()?;
                return Ok(commit);
            };
            // An expired lease was renewed between our hold and our commit lock.
            drop(commit);
            wait_for_lease(&target, holder, left, request)?;
        }
    }

    fn lock_in_order(
        target: &Target,
        others: &[(Target, Fence)],
        hold: Option<Hold>,
        request: Request<'_>,
    ) -> Result<Self> {
        let own_path = target.sidecar("commit");
        let mut own = None;
        let mut guards = Vec::new();
        for (other, fence) in others {
            if own.is_none() && other.path() > target.path() {
                own = Some(take_commit(target, Mode::Exclusive, request)?);
            }
            other.prepare()?;
            let turn = take_commit(other, Mode::Shared, request)?;
            Seen::read(other, turn.handle().as_ref())?.check_fence(other, *fence)?;
            guards.push((other.clone(), other.sidecar("commit"), turn));
        }
        let own = match own {
            Some(own) => own,
            None => take_commit(target, Mode::Exclusive, request)?,
        };
        let seen = Seen::read(target, own.handle().as_ref())?;
        Ok(Self { target: target.clone(), seen, own, own_path, guards, hold })
    }

    /// We have the hold, so a record that still says otherwise is of a hold that died or a lease that
    /// expired: from now on its fence is refused.
    fn end_abandoned_hold(&mut self) -> Result<()> {
        if self.seen.record.state != State::Free {
            self.seen.record.state = State::Free;
            self.seen.write(&self.target, self.own.handle().as_ref())?;
        }
        Ok(())
    }

    /// The file with the record; the commit lock is on it.
    pub(crate) fn file(&self) -> &Arc<dyn Handle> {
        self.own.handle()
    }

    /// Writes the record back.
    pub(crate) fn write_record(&mut self) -> Result<()> {
        self.seen.write(&self.target, self.own.handle().as_ref())
    }

    /// The last check before a change becomes visible: every lock is still the one its name stands
    /// for. A replacement after this check is what G1 says cannot be covered.
    pub(crate) fn verify(&self) -> Result<()> {
        check_named(&self.target, &self.own_path, &self.own)?;
        for (target, path, turn) in &self.guards {
            check_named(target, path, turn)?;
        }
        self.hold.as_ref().map_or(Ok(()), Hold::verify)
    }
}

/// Takes a target's commit lock.
pub(crate) fn take_commit(target: &Target, mode: Mode, request: Request<'_>) -> Result<Turn> {
    let path = target.sidecar("commit");
    gate::take(target, &path, mode, request.deadline, request.cancel)
        .map_err(|error| name_holder(target, error))
}
