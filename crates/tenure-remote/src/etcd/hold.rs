//! What becomes of a hold: the end of a lock, leaving the queue, take-over, renewal and end of a lease, and a look at it.
//!
//! # Invariants
//!
//! 1. Whatever changes a hold that was read compares the revisions of what was read: it happens once, or not at all.
//! 2. An orderly end deletes `o` together with `l`. If `l` goes alone, the holder died or the lease expired; `o` then says
//!    who it was, and the token of an expired lease still renews it until another caller gets the hold.
//!
//! Crash: each function is one transaction and leaves nothing half done. A lease of etcd that no key uses ends by itself.

use std::time::Duration;

use tenure::status::Holder;
use tenure::{Error, ErrorKind, Fence, Result, Value};

use super::EtcdEngine;
use super::keys::Keys;
use super::record::{Lease, Owner};
use super::txn::{Kv, Txn, then, when};
use super::world::World;
use crate::engine::{Hold, Kind, LeaseState, Taken, Ticket, with_former};
use crate::session::locked;

/// A change that others overtake is tried again, so often.
const ATTEMPTS: usize = 64;
/// So many events of a target are kept.
const EVENTS_MAX: usize = 256;

/// A hold as it was read.
pub(super) struct Found {
    /// The revision of the newest fence; 0 for none.
    pub(super) fence: u64,
    owner: Option<(Owner, u64)>,
    alive: Option<Kv>,
}

impl Found {
    pub(super) fn new(fence: Option<&Kv>, owner: Option<&Kv>, alive: Option<Kv>) -> Self {
        let owner = owner.map(|owner| (Owner::read(&owner.value), owner.written));
        Self { fence: fence.map_or(0, |fence| fence.written), owner, alive }
    }

    pub(super) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref().map(|(owner, _)| owner)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive.is_some()
    }

    /// A lease that has expired and was not acquired since.
    pub(super) fn is_expired(&self) -> bool {
        !self.is_alive() && self.owner().is_some_and(|owner| owner.lease.is_some())
    }

    /// Who has it now.
    pub(super) fn holder(&self, world: &World) -> Option<Holder> {
        let owner = self.owner().filter(|_| self.is_alive())?;
        Some(owner.holder_with(world.number(self.fence)))
    }

    /// Nothing of it has changed since it was read.
    fn unchanged(&self, keys: &Keys) -> Vec<serde_json::Value> {
        let owner = self.owner.as_ref().map_or(0, |(_, written)| *written);
        let alive = self.alive.as_ref().map_or(0, |alive| alive.written);
        vec![
            when::written(&keys.fence, self.fence),
            when::written(&keys.owner, owner),
            when::written(&keys.alive, alive),
        ]
    }

    /// The lease, if this is its token.
    fn lease_of(&self, token_sum: [u8; 16]) -> Option<(&Owner, Lease)> {
        let owner = self.owner()?;
        owner.lease.filter(|lease| lease.token_sum == token_sum).map(|lease| (owner, lease))
    }
}

/// The operations that read a [`Found`].
pub(super) fn finding(keys: &Keys) -> [serde_json::Value; 3] {
    [then::look(&keys.fence), then::get(&keys.owner), then::get(&keys.alive)]
}

/// The queue is in the way.
pub(super) fn busy_behind(first: Option<&Kv>) -> Taken {
    let holder = first.map(|first| Owner::read(&first.value).holder);
    Taken::Busy { holder, expires_in: None }
}

fn overtaken(step: &'static str) -> Error {
    Error::new(ErrorKind::Busy, step, "others keep changing the hold").committed(false)
}

impl EtcdEngine {
    /// This holder is in the way. A watch wakes the first in the queue when it goes.
    pub(super) fn busy_with(&self, owner: &Owner, fence: Fence) -> Result<Taken> {
        let expires_in = match owner.lease {
            Some(lease) => self.time_left(lease.id)?,
            None => None,
        };
        Ok(Taken::Busy { holder: Some(owner.holder_with(fence)), expires_in })
    }

    fn find(&self, step: &'static str, keys: &Keys) -> Result<Found> {
        let txn = Txn::reading(finding(keys).to_vec());
        let done = self.transact(step, &txn)?.done;
        Ok(Found::new(done.key(0).as_ref(), done.key(1).as_ref(), done.key(2)))
    }

    pub(super) fn release_lock(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool> {
        let step = "release";
        let (world, keys) = (self.world()?, self.layout.of(name));
        let Some(revision) = world.revision(fence) else { return Ok(false) };
        self.forbid_doubtful(step, ticket)?;
        let txn = Txn {
            compare: vec![
                when::written(&keys.fence, revision),
                when::value(&keys.alive, ticket.id.as_bytes()),
            ],
            then: vec![
                then::delete(&keys.alive),
                then::delete(&keys.owner),
                then::delete(&keys.place(&ticket.id)),
            ],
            otherwise: finding(&keys).to_vec(),
        };
        let answered = self.transact(step, &txn)?;
        let done = answered.done;
        if done.succeeded || !answered.lost {
            return Ok(done.succeeded);
        }
        // The reply to an earlier attempt was lost. A holder that died would have left its record.
        let found = Found::new(done.key(0).as_ref(), done.key(1).as_ref(), done.key(2));
        Ok(found.fence != revision || found.owner.is_none())
    }

    pub(super) fn leave_queue(&self, name: &str, ticket: &Ticket) -> Result<()> {
        let (step, keys) = ("leave the queue", self.layout.of(name));
        self.forbid_doubtful(step, ticket)?;
        let place = then::delete(&keys.place(&ticket.id));
        let txn = Txn {
            compare: vec![when::value(&keys.alive, ticket.id.as_bytes())],
            then: vec![then::delete(&keys.alive), then::delete(&keys.owner), place.clone()],
            otherwise: vec![place],
        };
        self.transact(step, &txn)?;
        locked(&self.here().places).remove(&ticket.id);
        Ok(())
    }

    pub(super) fn take_lease_over(
        &self,
        name: &str,
        ticket: &Ticket,
        event: &Value,
    ) -> Result<Taken> {
        let step = "take over";
        let (world, keys) = (self.settled_world()?, self.layout.of(name));
        let Kind::Lease { ttl, .. } = ticket.kind else {
            return Err(Error::new(ErrorKind::Invalid, step, "only a lease takes over"));
        };
        let mut lease = None;
        for _ in 0..ATTEMPTS {
            let found = self.find(step, &keys)?;
            let is_mine = |alive: &Kv| alive.value == ticket.id.as_bytes();
            if found.alive.as_ref().is_some_and(is_mine) {
                let fence = world.number(found.fence);
                return Ok(Taken::Held { fence, recovered_from: None });
            }
            if let Some(owner) = found.owner().filter(|owner| owner.lease.is_none()) {
                if found.is_alive() {
                    if let Some(lease) = lease {
                        self.drop_lease(lease);
                    }
                    return self.busy_with(owner, world.number(found.fence));
                }
            }
            let lease = match lease {
                Some(lease) => lease,
                None => *lease.insert(self.grant(step, ttl)?),
            };
            let former = found.owner().filter(|former| former.lease.is_some());
            let former = former.map(|former| former.holder_with(world.number(found.fence)));
            let event = with_former(event, former.as_ref()).to_string();
            let owner = Owner::new(&ticket.id, &ticket.holder, ticket.kind, lease);
            let txn = Txn {
                compare: found.unchanged(&keys),
                then: vec![
                    then::put(&keys.fence, b""),
                    then::put(&keys.owner, &owner.to_bytes()),
                    then::lend(&keys.alive, ticket.id.as_bytes(), lease),
                    then::put(&keys.event(&ticket.id), event.as_bytes()),
                ],
                otherwise: Vec::new(),
            };
            let done = self.transact(step, &txn)?.done;
            if done.succeeded {
                self.trim(&keys.events, EVENTS_MAX);
                let fence = world.number(done.revision);
                return Ok(Taken::Held { fence, recovered_from: None });
            }
        }
        Err(overtaken(step))
    }

    pub(super) fn extend_lease(
        &self,
        name: &str,
        token_sum: [u8; 16],
        ttl: Option<Duration>,
    ) -> Result<Option<Hold>> {
        let step = "renew the lease";
        let (world, keys) = (self.settled_world()?, self.layout.of(name));
        for _ in 0..ATTEMPTS {
            let found = self.find(step, &keys)?;
            let Some((owner, lease)) = found.lease_of(token_sum) else { return Ok(None) };
            let ttl = ttl.unwrap_or(lease.ttl);
            let mut owner = owner.clone();
            let is_same = ttl == lease.ttl && found.is_alive();
            if !(is_same && self.keep_alive(step, lease.id)?) {
                let id = self.grant(step, ttl)?;
                owner.lease = Some(Lease { id, ttl, token_sum });
                let txn = Txn {
                    compare: found.unchanged(&keys),
                    then: vec![
                        then::put(&keys.owner, &owner.to_bytes()),
                        then::lend(&keys.alive, owner.ticket.as_bytes(), id),
                    ],
                    otherwise: vec![then::get(&keys.owner)],
                };
                let done = self.transact(step, &txn)?.done;
                let written = done.key(0).map(|kv| Owner::read(&kv.value));
                let is_written = written.and_then(|written| written.lease);
                if !done.succeeded && is_written.is_none_or(|written| written.id != id) {
                    self.drop_lease(id);
                    continue;
                }
                if found.is_alive() {
                    self.drop_lease(lease.id);
                }
            }
            let holder = owner.holder_with(world.number(found.fence));
            let state = LeaseState { ttl, expires_in: Some(ttl), token_sum };
            return Ok(Some(Hold {
                fence: holder.fence,
                holder: Some(holder),
                lease: Some(state),
                ..Hold::default()
            }));
        }
        Err(overtaken(step))
    }

    pub(super) fn close_lease(&self, name: &str, token_sum: [u8; 16]) -> Result<bool> {
        let (step, keys) = ("end the lease", self.layout.of(name));
        for _ in 0..ATTEMPTS {
            let found = self.find(step, &keys)?;
            let Some((_, lease)) = found.lease_of(token_sum) else { return Ok(false) };
            let txn = Txn {
                compare: found.unchanged(&keys),
                then: vec![then::delete(&keys.alive), then::delete(&keys.owner)],
                otherwise: finding(&keys).to_vec(),
            };
            let answered = self.transact(step, &txn)?;
            let done = answered.done;
            let now = Found::new(done.key(0).as_ref(), done.key(1).as_ref(), done.key(2));
            let was_done = answered.lost && now.lease_of(token_sum).is_none();
            if done.succeeded || was_done {
                self.drop_lease(lease.id);
                return Ok(true);
            }
        }
        Err(overtaken(step))
    }

    pub(super) fn look_at_hold(&self, name: &str) -> Result<Hold> {
        let (world, keys) = (self.world()?, self.layout.of(name));
        let mut reads = finding(&keys).to_vec();
        reads.push(then::oldest(&keys.queue, 0));
        let done = self.transact("look at the hold of", &Txn::reading(reads))?.done;
        let found = Found::new(done.key(0).as_ref(), done.key(1).as_ref(), done.key(2));
        self.describe_hold(&found, &done.keys(3), &world)
    }

    pub(super) fn describe_hold(&self, found: &Found, queue: &[Kv], world: &World) -> Result<Hold> {
        let mut hold = Hold { fence: world.number(found.fence), ..Hold::default() };
        if let Some(owner) = found.owner() {
            hold.holder = Some(owner.holder_with(hold.fence));
            hold.abandoned = owner.lease.is_none() && !found.is_alive();
            if let Some(Lease { id, ttl, token_sum }) = owner.lease {
                let left = if found.is_alive() { self.time_left(id)? } else { None };
                let expires_in = left.map(|left| left.min(ttl));
                hold.lease = Some(LeaseState { ttl, expires_in, token_sum });
            }
        }
        let waiters = queue.iter().map(|place| Owner::read(&place.value));
        let is_other = |waiter: &Owner| {
            let alive = found.alive.as_ref();
            alive.is_none_or(|alive| alive.value != waiter.ticket.as_bytes())
        };
        hold.waiters = waiters.filter(is_other).map(|waiter| waiter.holder).collect();
        Ok(hold)
    }
}
