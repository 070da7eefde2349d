//! Waiting for the hold of a target: one queue per target, at the server, for locks, leases and writes.
//!
//! # Invariants
//!
//! 1. A call that ends without the hold has left the queue, or has its session leave it.
//! 2. A wake-up is a hint. A waiter also looks again from time to time, as often as its session is renewed, and when
//!    what is in its way expires.
//! 3. A waiter whose session was lost joins the queue again with another one, at its end.
//! 4. A waiter outlives an outage of the server, as long as its session does.
//!
//! Crash: the ticket of a process that died leaves the queue with its session.

use std::time::Duration;

use tenure::status::Holder;
use tenure::store::{self, Watcher};
use tenure::{Error, ErrorKind, Fence, Result};

use crate::client::{Client, about};
use crate::engine::{Kind, SessionId, Taken, Ticket, Watched};
use crate::patience::Patience;
use crate::session::Use;

/// A call that does not wait opens no more sessions than this.
const SESSIONS_MAX: usize = 3;
/// An expired lease or session is looked at not before this.
const EXPIRY_CHECK: Duration = Duration::from_millis(5);
/// A waiter that cannot reach the server tries again after this.
const OUTAGE_CHECK: Duration = Duration::from_millis(100);
/// A take-over waits for a lock without a place in its queue, so it looks this often.
const TAKE_OVER_CHECK: Duration = Duration::from_millis(100);

/// A hold that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) fence: Fence,
    pub(crate) recovered_from: Option<Holder>,
    pub(crate) used: Use,
}

/// What a look at the queue has found.
enum Looked {
    Held(Fence, Option<Holder>),
    Busy(Option<Holder>),
}

impl Client {
    /// Takes the hold of a target, in the order of the queue.
    pub(crate) fn take(
        &self,
        name: &str,
        kind: Kind,
        holder: &Holder,
        patience: &Patience<'_>,
    ) -> Result<Granted> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let used = self.sessions.join().map_err(|error| about(error, name))?;
            let ticket = Ticket {
                id: store::new_token()?,
                session: used.session().id.clone(),
                kind,
                holder: holder.clone(),
                may_wait: patience.may_wait,
            };
            match self.wait_for_turn(name, &ticket, &used, patience) {
                Ok((fence, recovered_from)) => {
                    return Ok(Granted { ticket, fence, recovered_from, used });
                }
                Err(error) if error.kind() == ErrorKind::LeaseLost => {
                    used.session().set_lost();
                    if patience.is_over() && attempts >= SESSIONS_MAX {
                        return Err(about(error, name));
                    }
                }
                Err(error) => return Err(about(error, name)),
            }
        }
    }

    fn wait_for_turn(
        &self,
        name: &str,
        ticket: &Ticket,
        used: &Use,
        patience: &Patience<'_>,
    ) -> Result<(Fence, Option<Holder>)> {
        let mut watcher = None;
        let mut is_queued = false;
        let gave_up = loop {
            let looked = self.look(name, ticket, &mut watcher, patience);
            is_queued |= looked.is_ok();
            match looked {
                Ok(Looked::Held(fence, recovered_from)) => return Ok((fence, recovered_from)),
                Ok(Looked::Busy(holder)) if !patience.may_wait => {
                    return Err(self.busy(name, holder));
                }
                Ok(Looked::Busy(holder)) if patience.is_over() => break self.busy(name, holder),
                Ok(Looked::Busy(_)) => {}
                Err(error) if error.kind() != ErrorKind::Io || !is_queued || patience.is_over() => {
                    break error;
                }
                Err(_) => {
                    watcher = None;
                    patience.pause(OUTAGE_CHECK);
                }
            }
            if patience.is_cancelled() {
                break self.cancelled(name);
            }
            if used.session().is_lost() {
                break used.session().lost();
            }
        };
        self.leave(name, ticket, used);
        Err(gave_up)
    }

    /// Looks whether the turn has come, and if not, waits for a sign of it.
    fn look(
        &self,
        name: &str,
        ticket: &Ticket,
        watcher: &mut Option<Box<dyn Watcher>>,
        patience: &Patience<'_>,
    ) -> Result<Looked> {
        let (holder, expires_in) = match self.engine.take(name, ticket)? {
            Taken::Held { fence, recovered_from } => {
                return Ok(Looked::Held(fence, recovered_from));
            }
            Taken::Busy { holder, expires_in } => (holder, expires_in),
        };
        if patience.is_over() || patience.is_cancelled() {
            return Ok(Looked::Busy(holder));
        }
        if let Some(watcher) = watcher {
            let every = self.sessions.ttl() / 3;
            let sleep = expires_in.map_or(every, |left| left.clamp(EXPIRY_CHECK, every));
            patience.watch(watcher.as_mut(), sleep)?;
        } else {
            // From now on the turn is noticed, so the caller looks once more for one that came before.
            *watcher = Some(self.engine.watch(name, Watched::Turn(ticket))?);
        }
        Ok(Looked::Busy(holder))
    }

    /// Gives a ticket back, now or later.
    pub(crate) fn leave(&self, name: &str, ticket: &Ticket, used: &Use) {
        if self.engine.leave(name, ticket).is_err() {
            used.session().owe(name, ticket);
        }
    }

    /// Takes a lease, in the order of the queue. One that does not wait needs no session.
    pub(crate) fn take_lease(
        &self,
        name: &str,
        kind: Kind,
        holder: &Holder,
        patience: &Patience<'_>,
    ) -> Result<Fence> {
        let ticket = without_session(kind, holder)?;
        let taken = self.engine.take(name, &ticket).map_err(|error| about(error, name))?;
        match taken {
            Taken::Held { fence, .. } => Ok(fence),
            Taken::Busy { holder, .. } if patience.is_over() => Err(self.busy(name, holder)),
            Taken::Busy { .. } => self.take(name, kind, holder, patience).map(|taken| taken.fence),
        }
    }

    /// Takes a lease from its holder, and waits for a lock.
    pub(crate) fn take_lease_over(
        &self,
        name: &str,
        kind: Kind,
        holder: &Holder,
        event: &tenure::Value,
        patience: &Patience<'_>,
    ) -> Result<Fence> {
        loop {
            // Another one each time: one that was repeated after a lost reply is over when it was not granted.
            let ticket = without_session(kind, holder)?;
            let taken = self.engine.take_over(name, &ticket, event);
            match taken.map_err(|error| about(error, name))? {
                Taken::Held { fence, .. } => return Ok(fence),
                Taken::Busy { .. } if patience.is_cancelled() => return Err(self.cancelled(name)),
                Taken::Busy { holder, .. } if patience.is_over() => {
                    return Err(self.busy(name, holder));
                }
                Taken::Busy { .. } => patience.pause(TAKE_OVER_CHECK),
            }
        }
    }

    /// The error of a token that is not that of the lease.
    pub(crate) fn lease_lost(&self, name: &str) -> Error {
        let detail = "it was lost: this token no longer holds it";
        let holder = self.engine.hold(name).ok().and_then(|hold| hold.holder);
        self.error(ErrorKind::LeaseLost, "use the lease of", name, detail)
            .held_by(holder)
            .hint("stop writing; acquire it again if you still need it")
    }
}

fn without_session(kind: Kind, holder: &Holder) -> Result<Ticket> {
    let session = SessionId(String::new());
    let (id, holder) = (store::new_token()?, holder.clone());
    Ok(Ticket { id, session, kind, holder, may_wait: false })
}
