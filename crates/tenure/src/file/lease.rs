//! The lease: a hold that outlives its process, until it is released, expires, or is taken over.
//!
//! # Invariants
//!
//! 1. There is one valid fence at a time. A lease excludes locks, other leases and unproven writes
//!    while it runs; its holder's writes pass by the fence.
//! 2. Time is the boot clock of the host: it counts sleep and ignores changes of the wall clock. A
//!    lease of another boot has expired.
//! 3. Whatever ends a lease changes the record under the commit lock, taken exclusively. So when that
//!    call returns, no write under the old fence is in flight, and none passes afterwards.
//! 4. The token renews as long as the record still names it: while there was no other acquire or write since. A
//!    lease of another boot is renewed under a new fence. The token itself is never stored.

use std::time::Duration;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::{take_commit, take_record};
use crate::file::events;
use crate::file::gate::Turn;
use crate::file::hold::Hold;
use crate::file::lock;
use crate::file::record::{LeaseTerms, State};
use crate::file::seen::Seen;
use crate::file::sweep;
use crate::file::target::Target;
use crate::fs::{Handle, Mode};
use crate::holder::HolderText;
use crate::json;
use crate::options::LeaseOptions;
use crate::random;
use crate::results::{LeaseInfo, Leased};
use crate::sys;
use crate::wait::{Request, Wait};

/// Takes the lease, or renews the one that the token names.
pub(crate) fn acquire(target: &Target, options: &LeaseOptions) -> Result<Leased> {
    target.at_home(|target| acquire_now(&target.with(None, options.file.allow_network)?, options))
}

/// Extends the lease by its time to live, or a new one.
pub(crate) fn renew(target: &Target, token: &str, ttl: Option<Duration>) -> Result<Leased> {
    // It has no wait of its own, and only waits for writes in flight.
    target.at_home(|target| renew_now(target, token, ttl, Request::after(Wait::default())))
}

/// Ends the lease.
pub(crate) fn release(target: &Target, token: &str) -> Result<()> {
    target.at_home(|target| {
        let (commit, mut seen) = find(target, token, Request::after(Wait::default()))?;
        seen.record.state = State::Free;
        seen.write(target, commit.handle().as_ref())
    })
}

/// The lease, running or expired; `None` if there is none. Takes no lock. A lease that the caller
/// may not read is an error.
pub(crate) fn show(target: &Target) -> Result<Option<LeaseInfo>> {
    let seen = Seen::peek(&*target.as_held()?)?.map(|(_, seen)| seen);
    let leased = seen.filter(|seen| seen.record.state == State::Leased);
    Ok(leased.map(|seen| LeaseInfo {
        holder: seen.record.holder(),
        ttl: Duration::from_micros(seen.record.lease.ttl_us),
        expires_in: seen.running_lease().map(|(_, left)| left),
        token_sum: seen.record.lease.token,
    }))
}

/// Takes the lease from its holder. A lock is never taken over: its holder is alive.
pub(crate) fn take_over(target: &Target, options: &LeaseOptions, reason: &str) -> Result<Leased> {
    target.at_home(|target| {
        take_over_now(&target.with(None, options.file.allow_network)?, options, reason)
    })
}

fn acquire_now(target: &Target, options: &LeaseOptions) -> Result<Leased> {
    let request = Request::new(options.wait, options.cancel.as_ref(), None);
    if let Some(token) = &options.token {
        match renew_now(target, token, Some(options.ttl), request) {
            Err(error) if error.kind() == ErrorKind::LeaseLost => {}
            renewed => return renewed,
        }
    }
    let taken = lock::take(target, Mode::Exclusive, true, request)?;
    grant(target, taken.record.handle.as_ref(), taken.seen, options)
}

fn take_over_now(target: &Target, options: &LeaseOptions, reason: &str) -> Result<Leased> {
    let request = Request::new(options.wait, options.cancel.as_ref(), None);
    // The kernel lock alone: the point is not to wait for the lease.
    let _hold = Hold::lock(target, Mode::Exclusive, request)?;
    let commit = take_commit(target, Mode::Exclusive, request)?;
    let seen = Seen::read_at(target, commit.handle().as_ref(), commit.born_us())?;
    let from = (seen.record.state == State::Leased).then(|| seen.record.holder().to_json());
    let detail = json!({ "reason": reason, "by": options.owner, "from": from });
    events::record(target, "take_over", &detail)?;
    grant(target, commit.handle().as_ref(), seen, options)
}

/// Writes a new lease into the record, under a new fence.
fn grant(
    target: &Target,
    file: &dyn Handle,
    mut seen: Seen,
    options: &LeaseOptions,
) -> Result<Leased> {
    let token = options.token.clone().map_or_else(random::token, Ok)?;
    let is_new = seen.record.seq == 0;
    let fence = seen.draw(target, file)?;
    seen.record.state = State::Leased;
    seen.record.since_us = sys::wall_time_us();
    seen.record.holder = HolderText::this_process(&options.label, &options.owner);
    seen.record.lease = terms(&token, options.ttl);
    seen.write(target, file)?;
    if is_new {
        sweep::now_and_then(target);
    }
    let (ttl, owner) = (options.ttl, options.owner.clone());
    Ok(Leased { token, fence, owner, ttl, expires_in: ttl })
}

fn renew_now(
    target: &Target,
    token: &str,
    ttl: Option<Duration>,
    request: Request<'_>,
) -> Result<Leased> {
    let (commit, mut seen) = find(target, token, request)?;
    let ttl = ttl.unwrap_or(Duration::from_micros(seen.record.lease.ttl_us));
    if seen.record.lease.expires_us == 0 {
        // It is of another boot, though a caller that failed since may have bound the record to
        // this one. A power loss may have taken back a later grant: the old fence must not become
        // current again.
        seen.draw(target, commit.handle().as_ref())?;
    }
    seen.record.lease = terms(token, ttl);
    seen.write(target, commit.handle().as_ref())?;
    let (token, owner) = (token.to_owned(), seen.record.holder().owner);
    Ok(Leased { token, fence: seen.record.fence, owner, ttl, expires_in: ttl })
}

/// The record of the lease with this token, under the commit lock.
fn find(target: &Target, token: &str, request: Request<'_>) -> Result<(Turn, Seen)> {
    let (commit, seen) = take_record(target, Mode::Exclusive, request)?;
    let known = seen.record.lease.token == checksum::wide(token.as_bytes());
    // A restored copy may be older than another owner's running lease.
    if seen.record.state == State::Leased && known && (seen.bound || seen.rebooted) {
        return Ok((commit, seen));
    }
    let holder = (seen.record.state != State::Free && seen.bound).then(|| seen.record.holder());
    let detail = "it was lost: this token no longer holds it";
    Err(Error::new(ErrorKind::LeaseLost, "use the lease of", detail)
        .at(target.path())
        .held_by(holder)
        .hint("stop writing; acquire it again if you still need it"))
}

fn terms(token: &str, ttl: Duration) -> LeaseTerms {
    let ttl_us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
    LeaseTerms {
        token: checksum::wide(token.as_bytes()),
        ttl_us,
        expires_us: sys::boot_time_us().saturating_add(ttl_us),
    }
}
