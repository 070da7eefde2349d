//! Taking a hold: at once, from the queue, or by joining it. Most tickets that ask are granted, so the first transaction
//! asks for no reasons; one that is refused needs a second one, which says why, and joins.
//!
//! # Invariants
//!
//! 1. The hold is granted if nothing has it and no ticket is older: the queue is empty, or the ticket is its first.
//! 2. A ticket that is asked for again gets the answer of the first time: its key `l`, or its place, is found.
//! 3. No attempt whose reply was lost takes effect after this returned: see the engine's invariant 5. If it returned an
//!    error, that is made sure when the ticket leaves or is released.
//!
//! Crash: the keys go with the etcd lease of the session. A lease of a user that was not used ends by itself.

use tenure::{Fence, Result};

use super::EtcdEngine;
use super::client::Failure;
use super::hold::busy_behind;
use super::keys::Keys;
use super::lease;
use super::record::Owner;
use super::txn::{Done, Kv, Txn, then, when};
use super::world::World;
use crate::engine::{Kind, Taken, Ticket};
use crate::session::locked;

/// The place in the queue may turn out to be another one: then it is tried again, so often.
const ATTEMPTS: usize = 5;

/// What a refused grant shows.
struct Refusal {
    /// The fence, if the ticket has the hold already.
    mine: Option<u64>,
    fence: u64,
    owner: Option<Kv>,
    alive: Option<Kv>,
    /// The first in the queue.
    first: Option<Kv>,
    /// The create revision of the ticket's place, if it waits.
    place: Option<u64>,
}

impl EtcdEngine {
    pub(super) fn take_turn(&self, name: &str, ticket: &Ticket) -> Result<Taken> {
        let step = "take";
        let world = self.settled_world()?;
        let lease = match ticket.kind {
            Kind::Lock => lease::number(&ticket.session)?,
            Kind::Lease { ttl, .. } => self.grant(step, ttl)?,
        };
        let taken = self.try_turn(step, name, ticket, lease, &world);
        if !matches!(taken, Ok(Taken::Held { .. })) && ticket.kind != Kind::Lock {
            self.drop_lease(lease);
        }
        taken
    }

    fn try_turn(
        &self,
        step: &'static str,
        name: &str,
        ticket: &Ticket,
        lease: u64,
        world: &World,
    ) -> Result<Taken> {
        let keys = self.layout.of(name);
        let owner = Owner::new(&ticket.id, &ticket.holder, ticket.kind, lease);
        let nonce = tenure::store::new_token()?;
        let mut place = locked(&self.here().places).get(&ticket.id).copied();
        let (mut lost, mut joins) = (false, false);
        let mut attempts = 0;
        let taken = loop {
            attempts += 1;
            let with_reasons = attempts > 1;
            let mut txn = self.grant_txn(&keys, ticket, &owner, lease, &nonce, (place, joins))?;
            if !with_reasons {
                txn.otherwise.clear();
            }
            let answered = match self.try_transact(step, &txn) {
                Ok(answered) => answered,
                Err(Failure::LeaseNotFound) => {
                    // Nothing of this ticket can take effect any more: it would need the lease.
                    locked(&self.here().places).remove(&ticket.id);
                    return Err(Failure::LeaseNotFound.error(step));
                }
                Err(failure) => {
                    locked(&self.here().doubtful).entry(ticket.id.clone()).or_default().push(nonce);
                    return Err(failure.error(step));
                }
            };
            lost |= answered.lost;
            let done = answered.done;
            if done.succeeded {
                break granted(world.number(done.revision), done.former(1).as_ref());
            }
            if !with_reasons {
                joins = place.is_none() && ticket.may_wait;
                continue;
            }
            let refusal = Refusal::read(&done);
            if let Some(revision) = refusal.mine {
                break granted(world.number(revision), None);
            }
            let is_first = match (&refusal.first, refusal.place) {
                (Some(first), Some(place)) => first.created == place,
                (first, _) => first.is_none(),
            };
            if refusal.place.is_none() && ticket.may_wait && !joins {
                (place, joins) = (None, true);
                continue;
            }
            if refusal.alive.is_some() || !is_first || attempts >= ATTEMPTS {
                if let Some(place) = refusal.place {
                    locked(&self.here().places).insert(ticket.id.clone(), place);
                }
                break self.busy(&refusal, world)?;
            }
            place = refusal.place;
        };
        if lost {
            self.forbid(step, &nonce)?;
        }
        if matches!(taken, Taken::Held { .. }) {
            locked(&self.here().places).remove(&ticket.id);
        }
        Ok(taken)
    }

    /// The transaction: grants the hold to a ticket without a place or with this one; else finds out why not, and joins the
    /// queue if that is wanted.
    fn grant_txn(
        &self,
        keys: &Keys,
        ticket: &Ticket,
        owner: &Owner,
        lease: u64,
        nonce: &str,
        (place, joins): (Option<u64>, bool),
    ) -> Result<Txn> {
        let (id, mine) = (ticket.id.as_bytes(), keys.place(&ticket.id));
        let record = owner.to_bytes();
        let forbidden = when::absent(&self.layout.receipt(nonce));
        let mut txn =
            Txn { compare: vec![forbidden.clone(), when::absent(&keys.alive)], ..Txn::default() };
        match place {
            None => txn.compare.push(when::empty(&keys.queue)),
            Some(place) => txn.compare.extend([
                when::created(&mine, place),
                when::none_created_before(&keys.queue, place),
            ]),
        }
        txn.then = vec![
            then::put(&keys.fence, b""),
            then::swap(&keys.owner, &record),
            then::lend(&keys.alive, id, lease),
        ];
        if place.is_some() && ticket.kind != Kind::Lock {
            txn.then.push(then::delete(&mine)); // A lease outlives the session of its place.
        }
        let mut join = Txn { otherwise: vec![then::look(&mine)], ..Txn::default() };
        if joins {
            join.compare = vec![forbidden, when::absent(&mine)];
            join.then = vec![then::lend(&mine, &record, lease::number(&ticket.session)?)];
        } else {
            join.then.clone_from(&join.otherwise);
        }
        let refused = Txn {
            compare: vec![when::value(&keys.alive, id)],
            then: vec![then::get(&keys.fence)],
            otherwise: vec![
                then::get(&keys.owner),
                then::get(&keys.alive),
                then::oldest(&keys.queue, 1),
                join.nested(),
                then::look(&keys.fence),
            ],
        };
        txn.otherwise = vec![refused.nested()];
        Ok(txn)
    }

    fn busy(&self, refusal: &Refusal, world: &World) -> Result<Taken> {
        let owner = refusal.owner.as_ref().filter(|_| refusal.alive.is_some());
        match owner.map(|owner| Owner::read(&owner.value)) {
            Some(owner) => self.busy_with(&owner, world.number(refusal.fence)),
            None => Ok(busy_behind(refusal.first.as_ref())),
        }
    }

    /// Makes sure that no attempt of a ticket whose call failed takes effect after the ticket is over.
    pub(super) fn forbid_doubtful(&self, step: &'static str, ticket: &Ticket) -> Result<()> {
        let Some(nonces) = locked(&self.here().doubtful).remove(&ticket.id) else { return Ok(()) };
        for (place, nonce) in nonces.iter().enumerate() {
            if let Err(error) = self.forbid(step, nonce) {
                let rest = nonces[place..].to_vec();
                locked(&self.here().doubtful).insert(ticket.id.clone(), rest);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes sure that an attempt whose reply was lost does nothing from now on.
    pub(super) fn forbid(&self, step: &'static str, id: &str) -> Result<bool> {
        let key = self.layout.receipt(id);
        let lease = self.receipts_lease();
        let txn = Txn {
            compare: vec![when::absent(&key)],
            then: vec![then::lend(&key, b"void", lease)],
            otherwise: Vec::new(),
        };
        match self.try_transact(step, &txn) {
            Err(Failure::LeaseNotFound) => {
                self.grant_receipts_lease(lease)?;
                Ok(self.transact(step, &txn)?.done.succeeded)
            }
            answered => Ok(answered.map_err(|failure| failure.error(step))?.done.succeeded),
        }
    }
}

impl Refusal {
    fn read(done: &Done) -> Self {
        let refused = done.nested(0);
        if refused.succeeded {
            let mine = refused.key(0).map(|fence| fence.written);
            return Self { mine, fence: 0, owner: None, alive: None, first: None, place: None };
        }
        let joined = refused.nested(3);
        let found = joined.key(0).map(|mine| mine.created);
        let place = if joined.wrote() { Some(done.revision) } else { found };
        Self {
            mine: None,
            fence: refused.key(4).map_or(0, |fence| fence.written),
            owner: refused.key(0),
            alive: refused.key(1),
            first: refused.key(2),
            place,
        }
    }
}

fn granted(fence: Fence, former: Option<&Kv>) -> Taken {
    let former = former.map(|former| Owner::read(&former.value));
    let died = former.filter(|former| former.lease.is_none());
    Taken::Held { fence, recovered_from: died.map(|died| died.holder) }
}
