//! Several targets at once: all of them or none, with one deadline.
//!
//! # Invariants
//!
//! 1. Targets are taken in the order of their resolved names, and a target that is named twice is taken once. So two
//!    callers that want the same targets never wait for each other.
//! 2. If one cannot be had, those that this call took are released again. A lease that the caller had before, and that
//!    was only renewed, stays.
//! 3. When the leases are returned, all of them run: while the call waits for one, it renews those that it has.
//!
//! Crash: locks end with the process. Leases that were acquired already end at their expiry.

use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lock::{Lock, LockGuard};
use crate::options::{LeaseOptions, LockOptions};
use crate::results::Leased;
use crate::wait::{Deadline, Wait};

/// While it waits for the next lease, a call renews the others so often in their time to live.
const RENEWALS: u32 = 3;

impl Lock {
    /// Takes several locks, all or none, with one deadline. The guards are in the order of the resolved names; a target
    /// that is named twice is locked once.
    pub fn acquire_all(locks: &[Self], options: &LockOptions) -> Result<Vec<LockGuard>> {
        let mut wanted: Vec<&Self> = locks.iter().collect();
        wanted.sort_by(|one, other| one.path().cmp(other.path()));
        wanted.dedup_by(|one, other| one.path() == other.path());
        if let (Some(first), true, Some(_)) = (wanted.first(), wanted.len() > 1, options.fence) {
            let detail = "a fence belongs to one target, but several were named";
            let error = Error::new(ErrorKind::Invalid, "lock", detail).at(first.path());
            return Err(error.hint("acquire the lock with the fence on its own"));
        }
        let deadline = Deadline::after(options.wait);
        // An error drops the guards, which releases them.
        let take = |lock: &Self| {
            lock.acquire(&LockOptions { wait: deadline.as_wait(), ..options.clone() })
        };
        wanted.into_iter().map(take).collect()
    }
}

impl Lease {
    /// Acquires several leases, all or none, with one deadline and one token. They are in the order of the resolved
    /// names; a target that is named twice is leased once.
    pub fn acquire_all(leases: &[Self], options: &LeaseOptions) -> Result<Vec<(Self, Leased)>> {
        let mut wanted: Vec<&Self> = leases.iter().collect();
        wanted.sort_by(|one, other| one.path().cmp(other.path()));
        wanted.dedup_by(|one, other| one.path() == other.path());
        let (deadline, options) = (Deadline::after(options.wait), options.clone());
        let mut taking = Taking { options, taken: Vec::new(), renewed: Instant::now() };
        let taken = wanted.into_iter().try_for_each(|lease| taking.take(lease, deadline));
        match taken.and_then(|()| taking.renew_if_due()) {
            Ok(()) => Ok(taking.taken.into_iter().map(|one| (one.lease, one.leased)).collect()),
            Err(error) => {
                taking.release_new();
                Err(error)
            }
        }
    }
}

/// Leases on their way to be all that are wanted.
struct Taking {
    options: LeaseOptions,
    taken: Vec<Taken>,
    /// When all of them were last renewed.
    renewed: Instant,
}

struct Taken {
    lease: Lease,
    leased: Leased,
    /// The caller had it before.
    had: bool,
}

impl Taking {
    /// Acquires one more. Meanwhile the others are renewed.
    fn take(&mut self, lease: &Lease, deadline: Deadline) -> Result<()> {
        let before = self.options.token.as_ref().map(|_| lease.show()).transpose()?.flatten();
        let leased = loop {
            let slice = self.options.ttl / RENEWALS;
            self.options.wait = match deadline.as_wait() {
                Wait::For(left) if self.taken.is_empty() => Wait::For(left),
                Wait::For(left) => Wait::For(left.min(slice)),
                Wait::Forever if !self.taken.is_empty() => Wait::For(slice),
                wait => wait,
            };
            match lease.acquire(&self.options) {
                Err(error) if error.kind() == ErrorKind::Busy && !deadline.has_passed() => {
                    self.renew_if_due()?;
                }
                acquired => break acquired?,
            }
        };
        if self.taken.is_empty() {
            self.renewed = Instant::now();
            self.options.token = Some(leased.token.clone());
        }
        let had = before.is_some_and(|before| before.holder.fence == leased.fence);
        self.taken.push(Taken { lease: lease.clone(), leased, had });
        Ok(())
    }

    fn renew_if_due(&mut self) -> Result<()> {
        if self.renewed.elapsed() < self.options.ttl / RENEWALS {
            return Ok(());
        }
        self.renewed = Instant::now();
        for Taken { lease, leased, .. } in &mut self.taken {
            *leased = lease.renew(&leased.token, Some(self.options.ttl))?;
        }
        Ok(())
    }

    /// One that cannot be released ends at its expiry.
    fn release_new(self) {
        for Taken { lease, leased, .. } in self.taken.iter().filter(|taken| !taken.had) {
            let _ = lease.release(&leased.token);
        }
    }
}
