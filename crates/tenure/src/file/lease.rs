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
//! 4. The token renews as long as the record still names it: while nobody acquired or wrote since. A
//!    lease of another boot is renewed under a new fence. The token itself is never stored.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::take_commit;
use crate::file::events;
use crate::file::gate::Turn;
use crate::file::hold::{Hold, wait_for_lease};
use crate::file::journal::settle_for_hold;
use crate::file::record::{LeaseTerms, State};
use crate::file::seen::Seen;
use crate::file::sweep;
use crate::file::target::Target;
use crate::fs::{Access, Fs, Mode};
use crate::holder::{Holder, HolderText};
use crate::json;
use crate::json::Value;
use crate::options::Fence;
use crate::random;
use crate::sys;
use crate::sys::disk;
use crate::wait::{Cancel, Deadline, Request, Wait};

/// Longer than any task; a lease for ever is a stale lock by another name.
const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// How a lease is acquired.
#[derive(Debug, Clone, Default)]
pub struct AcquireOptions {
    /// Who it is for: a label, not a credential.
    pub owner: String,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// How long to wait for the present holder.
    pub wait: Wait,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// The token of an earlier acquire: renews that lease and keeps its fence, if it still can.
    pub token: Option<String>,
    /// What it is for.
    pub label: String,
    /// Work on a network file system although its locks cannot be trusted.
    pub allow_network: bool,
}

/// A lease that we have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// Names the lease to `renew` and `release`. Keep it secret.
    pub token: String,
    /// Proves the lease to writes.
    pub fence: Fence,
    /// Who it is for.
    pub owner: String,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What is left of it now.
    pub expires_in: Duration,
}

/// What anybody may know about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Who has it.
    pub holder: Holder,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What is left; `None` once it has expired.
    pub expires_in: Option<Duration>,
    token: [u8; 16],
}

impl LeaseInfo {
    /// Whether this token is that of the lease.
    pub fn is_of(&self, token: &str) -> bool {
        self.token == checksum::wide(token.as_bytes())
    }
}

/// A target that can be leased. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Lease {
    target: Target,
}

impl Lease {
    /// The lease of a path, whether or not there is a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)? })
    }

    /// Whether the directory of the target was there when it was opened. A lease creates a missing one.
    pub fn has_directory(&self) -> bool {
        self.target.has_directory()
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// Acquires the lease, waiting for locks and for the lease of another. With the token of a lease
    /// that can still be renewed it is a renewal: the fence stays.
    pub fn acquire(&self, options: &AcquireOptions) -> Result<Leased> {
        check_ttl(&self.target, options.ttl)?;
        self.target.at_home(|target| acquire(&target.with(None, options.allow_network)?, options))
    }

    /// Extends the lease by its time to live (or a new one), from now. The fence stays, unless the
    /// machine was started anew since.
    pub fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        if let Some(ttl) = ttl {
            check_ttl(&self.target, ttl)?;
        }
        check_token(&self.target, token)?;
        self.target.at_home(|target| renew(target, token, ttl, in_time()))
    }

    /// Ends the lease. Ending one that is over already is `lease_lost`, and changes nothing.
    pub fn release(&self, token: &str) -> Result<()> {
        check_token(&self.target, token)?;
        self.target.at_home(|target| {
            let (commit, mut seen) = find(target, token, in_time())?;
            seen.record.state = State::Free;
            seen.write(target, commit.handle().as_ref())
        })
    }

    /// Who has the lease, running or expired; `None` if nobody does. Takes no lock.
    pub fn show(&self) -> Result<Option<LeaseInfo>> {
        let target = self.target.current()?;
        let path = target.commit_file();
        let file = match target.open(path, Access::Read) {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Target::failed("open record", path))?,
        };
        let seen = Seen::read(&target, file.as_ref())?;
        Ok((seen.record.state == State::Leased).then(|| LeaseInfo {
            holder: seen.record.holder(),
            ttl: Duration::from_micros(seen.record.lease.ttl_us),
            expires_in: seen.running_lease().map(|(_, left)| left),
            token: seen.record.lease.token,
        }))
    }

    /// The recorded events of this target, oldest first: take-overs among them.
    pub fn events(&self) -> Vec<Value> {
        self.target.current().map_or_else(|_| Vec::new(), |target| events::all(&target))
    }

    /// Takes the lease from whoever has it, for a stated reason that is written down first. A lock
    /// is never taken over: its holder is alive.
    pub fn take_over(&self, options: &AcquireOptions, reason: &str) -> Result<Leased> {
        check_ttl(&self.target, options.ttl)?;
        if reason.trim().is_empty() {
            let detail = "a take-over needs a reason";
            return Err(Error::new(ErrorKind::Invalid, "take over", detail).at(self.path()));
        }
        self.target.at_home(|target| {
            take_over(&target.with(None, options.allow_network)?, options, reason)
        })
    }
}

fn acquire(target: &Target, options: &AcquireOptions) -> Result<Leased> {
    let request = Request::new(options.wait, options.cancel.as_ref(), None);
    if let Some(token) = &options.token {
        check_token(target, token)?;
        match renew(target, token, Some(options.ttl), request) {
            Err(error) if error.kind() == ErrorKind::LeaseLost => {}
            renewed => return renewed,
        }
    }
    loop {
        let (hold, _, seen) = Hold::take(target, Mode::Exclusive, request)?;
        settle_for_hold(target, &seen, request)?;
        let commit = take_commit(target, Mode::Exclusive, request)?;
        let seen = Seen::read_at(target, commit.handle().as_ref(), commit.born_us())?;
        let Some((holder, left)) = seen.running_lease() else {
            return grant(target, &commit, seen, options);
        };
        // An expired lease was renewed between the hold and the commit lock.
        drop((commit, hold));
        wait_for_lease(target, holder, left, request)?;
    }
}

fn take_over(target: &Target, options: &AcquireOptions, reason: &str) -> Result<Leased> {
    let request = Request::new(options.wait, options.cancel.as_ref(), None);
    // The kernel lock alone: the point is not to wait for the lease.
    let _hold = Hold::lock(target, Mode::Exclusive, request)?;
    let commit = take_commit(target, Mode::Exclusive, request)?;
    let seen = Seen::read_at(target, commit.handle().as_ref(), commit.born_us())?;
    let from = (seen.record.state == State::Leased).then(|| seen.record.holder().to_json());
    let detail = json!({ "reason": reason, "by": options.owner, "from": from });
    events::record(target, "take_over", &detail)?;
    grant(target, &commit, seen, options)
}

/// Writes a new lease into the record, under a new fence.
fn grant(
    target: &Target,
    commit: &Turn,
    mut seen: Seen,
    options: &AcquireOptions,
) -> Result<Leased> {
    let token = options.token.clone().map_or_else(random::token, Ok)?;
    let file = commit.handle().as_ref();
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

/// For calls that have no wait of their own: they only wait for writes in flight.
fn in_time() -> Request<'static> {
    Request::until(Deadline::after(Wait::default()))
}

fn renew(
    target: &Target,
    token: &str,
    ttl: Option<Duration>,
    request: Request<'_>,
) -> Result<Leased> {
    let (commit, mut seen) = find(target, token, request)?;
    let ttl = ttl.unwrap_or(Duration::from_micros(seen.record.lease.ttl_us));
    if seen.record.lease.expires_us == 0 {
        // It is of another boot, though somebody who failed since may have bound the record to this one. A
        // power loss may have taken back a later grant: the old fence must not be current again.
        seen.draw(target, commit.handle().as_ref())?;
    }
    seen.record.lease = terms(token, ttl);
    seen.write(target, commit.handle().as_ref())?;
    let (token, owner) = (token.to_owned(), seen.record.holder().owner);
    Ok(Leased { token, fence: seen.record.fence, owner, ttl, expires_in: ttl })
}

/// The record of the lease with this token, under the commit lock.
fn find(target: &Target, token: &str, request: Request<'_>) -> Result<(Turn, Seen)> {
    target.prepare()?;
    let commit = take_commit(target, Mode::Exclusive, request)?;
    target.confirm_owner(None)?;
    let seen = Seen::read_at(target, commit.handle().as_ref(), commit.born_us())?;
    let known = seen.record.lease.token == checksum::wide(token.as_bytes());
    // A restored copy may be of before somebody else's lease, which runs.
    if seen.record.state == State::Leased && known && (seen.bound || seen.rebooted) {
        return Ok((commit, seen));
    }
    let holder = (seen.record.state != State::Free && seen.bound).then(|| seen.record.holder());
    Err(Error::new(ErrorKind::LeaseLost, "find the lease of", "it is not this token's any more")
        .at(target.path())
        .held_by(holder)
        .hint("acquire it again before writing"))
}

fn terms(token: &str, ttl: Duration) -> LeaseTerms {
    let ttl_us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
    LeaseTerms {
        token: checksum::wide(token.as_bytes()),
        ttl_us,
        expires_us: sys::boot_time_us().saturating_add(ttl_us),
    }
}

fn check_ttl(target: &Target, ttl: Duration) -> Result<()> {
    if ttl.is_zero() || ttl > TTL_MAX {
        let detail = "the time to live must be above zero and at most a year";
        return Err(Error::new(ErrorKind::Invalid, "lease", detail).at(target.path()));
    }
    Ok(())
}

fn check_token(target: &Target, token: &str) -> Result<()> {
    if token.len() < 16 || token.len() > 256 {
        let detail = "a token has 16 to 256 characters; use the one that acquire printed";
        return Err(Error::new(ErrorKind::Invalid, "lease", detail).at(target.path()));
    }
    Ok(())
}
