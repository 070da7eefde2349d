//! The short critical section of every write.
//!
//! # Invariants
//!
//! 1. A write without proof takes the hold first, then the commit lock. A write that proves the
//!    current hold by its fence takes only the commit lock, and the fence is checked under it.
//! 2. A guard on another target is checked under that target's commit lock, held shared until this
//!    commit is done; a take-over takes it exclusively, so it waits for us and we never finish after.
//! 3. Order: own hold, then commit locks by resolved path. The holder of a commit lock never waits
//!    for a hold, so no cycle can form.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::file::gate::{self, Turn};
use crate::file::hold::{Hold, check_named, check_owner, name_holder, wait_for_lease};
use crate::file::record::State;
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::file::{events, floor};
use crate::fs::{Mode, Stat};
use crate::options::{Fence, WriteOptions};
use crate::wait::{Request, Wait};

/// How long a check of the lock names stays valid. A check and a write cannot be one step, so some
/// moment is always unchecked; this is the limit of that moment for a write that has not waited. A
/// process that was paused in between finds the time expired, and checks again.
pub(crate) const NAME_CHECK_TTL: Duration = Duration::from_millis(1);

/// The critical section; dropping it ends it, commit lock first, hold last.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) target: Target,
    pub(crate) seen: Seen,
    /// The commit lock of the target itself.
    own: Turn,
    /// Shared commit locks of the guards.
    guards: Vec<(Target, Turn)>,
    hold: Option<Hold>,
    /// No lock was granted, and compared with its name, before this.
    since: Instant,
}

impl Commit {
    /// Enters the critical section of a write to `target`.
    pub(crate) fn begin(target: &Target, options: &WriteOptions) -> Result<Self> {
        let mut commits = Self::begin_all(&[(target, options.fence)], options)?;
        Ok(commits.remove(0))
    }

    /// Enters the critical sections of several writes at once, each with the fence of its own
    /// target if there is one. The guards belong to the first.
    pub(crate) fn begin_all(
        targets: &[(&Target, Option<Fence>)],
        options: &WriteOptions,
    ) -> Result<Vec<Self>> {
        let request = Request::new(options.wait, options.cancel.as_ref(), options.thread);
        let mut writes = Vec::with_capacity(targets.len());
        for (target, fence) in targets {
            let target =
                target.with(options.file.lock_file.as_deref(), options.file.allow_network)?;
            writes.push((target, *fence));
        }
        let mut guards: Vec<(Target, Fence)> = Vec::new();
        for guard in &options.guards {
            let other = Target::resolve(&writes[0].0.fs, &guard.target)?;
            match writes.iter_mut().find(|(target, _)| target.path() == other.path()) {
                Some((target, Some(fence))) if *fence != guard.fence => {
                    let detail = format!("fences {fence} and {} are not both current", guard.fence);
                    let error = Error::new(ErrorKind::Fenced, "write", detail);
                    return Err(error
                        .at(target.path())
                        .hint("pass the fence of the hold you have"));
                }
                Some((_, fence)) => *fence = Some(guard.fence),
                None => guards.push((other, guard.fence)),
            }
        }
        loop {
            let mut commits = Self::lock_in_order(&writes, &guards, request)?;
            let mut renewed = None;
            for (commit, (target, fence)) in commits.iter_mut().zip(&writes) {
                if let Some(fence) = fence {
                    commit.seen.check_fence(target, *fence)?;
                } else if let Some(lease) = commit.seen.running_lease() {
                    renewed = Some((target.clone(), lease));
                } else {
                    commit.end_abandoned_hold()?;
                }
            }
            let Some((target, (holder, left))) = renewed else { return Ok(commits) };
            // A lease runs, or an expired one was renewed while we came here.
            drop(commits);
            wait_for_lease(&target, holder, left, request)?;
        }
    }

    /// Takes the holds of the writes without proof, then every commit lock, each by resolved path.
    fn lock_in_order(
        writes: &[(Target, Option<Fence>)],
        guards: &[(Target, Fence)],
        request: Request<'_>,
    ) -> Result<Vec<Self>> {
        let since = Instant::now();
        let mut order: Vec<usize> = (0..writes.len()).collect();
        order.sort_by(|one, other| writes[*one].0.path().cmp(writes[*other].0.path()));
        let mut holds: Vec<Option<Hold>> = writes.iter().map(|_| None).collect();
        for index in &order {
            match &writes[*index] {
                (target, Some(_)) => target.prepare()?,
                (target, None) => {
                    // One lock file serves all of them.
                    let has_it = |path| holds.iter().flatten().any(|hold| hold.is_on(path));
                    let target = match target.lock_file() {
                        Some(path) if has_it(path) => &target.without_lock_file(),
                        _ => target,
                    };
                    holds[*index] = Some(Hold::lock(target, Mode::Exclusive, request)?);
                }
            }
        }
        let mut locks: Vec<(&Target, Mode, Option<Fence>)> = Vec::new();
        locks.extend(writes.iter().map(|(target, _)| (target, Mode::Exclusive, None)));
        locks.extend(guards.iter().map(|(target, fence)| (target, Mode::Shared, Some(*fence))));
        locks.sort_by(|one, other| one.0.path().cmp(other.0.path()));
        let mut own: Vec<Option<Turn>> = writes.iter().map(|_| None).collect();
        let mut guarding = Vec::new();
        for (target, mode, fence) in locks {
            let Some(fence) = fence else {
                let turn = take_commit(target, mode, request)?;
                let index = writes.iter().position(|(write, _)| write.path() == target.path());
                let index = index.unwrap_or_default();
                if holds[index].is_none() {
                    target.confirm_owner(None)?; // Otherwise the hold was.
                }
                own[index] = Some(turn);
                continue;
            };
            guarding.push((target.clone(), take_proven(target, fence, request)?));
        }
        let mut commits = Vec::with_capacity(writes.len());
        for (((target, _), own), hold) in writes.iter().zip(own).zip(holds) {
            let Some(own) = own else { continue };
            let seen = Seen::read_at(target, own.handle().as_ref(), own.born_us())?;
            let guards = std::mem::take(&mut guarding);
            commits.push(Self { target: target.clone(), seen, own, guards, hold, since });
        }
        Ok(commits)
    }

    /// We have the hold, so a record that still says otherwise is of a hold that died or a lease that
    /// expired: from now on its fence is refused.
    fn end_abandoned_hold(&mut self) -> Result<()> {
        if self.seen.record.state != State::Free {
            if self.seen.record.state == State::Held && !self.seen.record.left && self.seen.bound {
                let holder = self.seen.record.holder().to_json();
                let _ = events::record(&self.target, "holder_died", &holder); // For people.
            }
            self.seen.record.state = State::Free;
            self.seen.write(&self.target, self.own.handle().as_ref())?;
        }
        Ok(())
    }

    /// Whether this critical section itself holds the lock on `path`, not only a proof of it.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_on(path))
    }

    /// Before the lock files are removed: no later record in this directory starts at or below a fence
    /// that this one may have given out.
    pub(crate) fn raise_floor(&self) -> Result<()> {
        let fence = self.seen.highest_fence(&self.target, self.own.handle().as_ref())?;
        let request = Request::after(Wait::default());
        floor::raise(&self.target, fence, request).map(drop)
    }

    /// Before a new target gets its name. Locks of a user who may not write it are replaced by our own: like
    /// those of a removed key (C2) they are unlinked under both locks, above a raised floor, and the call
    /// starts over. A crash leaves them, or one of them, or none, and no target.
    pub(crate) fn claim_locks(&self, new: &Stat) -> Result<()> {
        let target = &self.target;
        if !target.has_locks_of_others(new) {
            return Ok(());
        }
        if self.hold.is_none() {
            let detail = "the lock belongs to a user who may not write the new file";
            return Err(Error::new(ErrorKind::Unsupported, "create", detail)
                .at(target.path())
                .hint("create it without the fence, or with a mode that lets that user write it"));
        }
        self.raise_floor()?;
        self.verify()?;
        for path in [target.commit_file(), target.hold_file()] {
            target.fs.remove(path).map_err(Target::failed("remove", path))?;
        }
        Err(target.moved())
    }

    /// Before what was published last is replaced in the record: whether an older record was restored.
    pub(crate) fn detect_rollback(&mut self) {
        self.seen.detect_rollback(self.own.handle().as_ref());
    }

    /// Writes the record back.
    pub(crate) fn write_record(&mut self) -> Result<()> {
        self.seen.write(&self.target, self.own.handle().as_ref())
    }

    /// Makes the record as it is durable.
    pub(crate) fn sync_record(&self) -> Result<()> {
        let path = self.target.commit_file();
        self.own.handle().sync().map_err(Target::failed("sync record", path))
    }

    /// The last check before a change becomes visible: every lock is still the one its name stands
    /// for. A replacement after this check is what G1 says cannot be covered.
    pub(crate) fn verify(&self) -> Result<()> {
        check_named(&self.target, self.target.commit_file(), &self.own)?;
        for (target, turn) in &self.guards {
            check_owner(target)?;
            check_named(target, target.commit_file(), turn)?;
        }
        self.hold.as_ref().map_or_else(|| check_owner(&self.target), Hold::verify)
    }

    /// The same for a write of a few microseconds: every grant has compared its lock with the name, and
    /// if that was just now, comparing again would say nothing new.
    pub(crate) fn verify_unless_recent(&self) -> Result<()> {
        if self.since.elapsed() < NAME_CHECK_TTL { Ok(()) } else { self.verify() }
    }
}

/// Takes the commit lock of a target whose hold is not taken, and reads the record under it.
pub(crate) fn take_record(
    target: &Target,
    mode: Mode,
    request: Request<'_>,
) -> Result<(Turn, Seen)> {
    target.prepare()?;
    let turn = take_commit(target, mode, request)?;
    target.confirm_owner(None)?;
    let seen = Seen::read_at(target, turn.handle().as_ref(), turn.born_us())?;
    Ok((turn, seen))
}

/// Checks that a hold of another process has this fence. While the lock is held, shared, that stays so.
pub(crate) fn take_proven(target: &Target, fence: Fence, request: Request<'_>) -> Result<Turn> {
    let (turn, seen) = take_record(target, Mode::Shared, request)?;
    seen.check_fence(target, fence)?;
    Ok(turn)
}

/// Takes a target's commit lock.
pub(crate) fn take_commit(target: &Target, mode: Mode, request: Request<'_>) -> Result<Turn> {
    let path = target.commit_file();
    gate::take(target, path, mode, request).map_err(|error| name_holder(target, path, error))
}
