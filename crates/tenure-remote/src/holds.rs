//! Locks that this process holds, and proofs of holds of others.
//!
//! # Invariants
//!
//! 1. A lock is released once: by its last guard, by its limit, or with its session. A release that the server could
//!    not be asked for is left to the session.
//! 2. A guard never says that a lock is held after its session was lost, the server was found to have forgotten it in a
//!    failover, or its limit has ended it.
//! 3. A forked child never releases a lock of its parent, and touches none of its mutexes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tenure::options::MaxHold;
use tenure::status::Holder;
use tenure::store::{Held, Loss};
use tenure::{Error, ErrorKind, Fence, LockOptions, Result};

use crate::client::{Client, about};
use crate::engine::{Kind, Ticket};
use crate::patience::Patience;
use crate::queue::Granted;
use crate::session::{Fate, Session, Use, locked};

/// A lock that this process holds, as all its guards share it.
#[derive(Debug)]
pub(crate) struct LockHold {
    client: Arc<Client>,
    name: String,
    ticket: Ticket,
    fence: Fence,
    recovered_from: Option<Holder>,
    session: Arc<Session>,
    process: u32,
    thread: ThreadId,
    /// Who may take it again.
    reentrant_owner: Option<String>,
    fate: Arc<Fate>,
    state: Mutex<Shared>,
    /// It ended: wakes the thread of its limit.
    ended: Condvar,
}

#[derive(Debug)]
struct Shared {
    /// Keeps the session alive; `None` once the hold has ended.
    used: Option<Use>,
    guards: usize,
}

impl Client {
    /// Takes the lock of a target.
    pub(crate) fn lock(self: &Arc<Self>, name: &str, options: &LockOptions) -> Result<Guard> {
        let patience = Patience::new(options.wait, options.cancel.as_ref(), options.thread);
        if options.reentrant {
            if options.owner.is_empty() {
                let detail = "a re-entrant lock needs an owner";
                return Err(self.error(ErrorKind::Invalid, "lock", name, detail));
            }
            if let Some(guard) = self.take_again(name, &options.owner) {
                return Ok(guard);
            }
        }
        self.refuse_deadlock(&[name], &patience)?;
        let holder = Holder::this_process(&options.label, &options.owner);
        let granted = self.take(name, Kind::Lock, &holder, &patience)?;
        let Granted { ticket, fence, recovered_from, used } = granted;
        let fate = Arc::new(Fate::new(name, fence));
        used.session().watch_over(&fate);
        let hold = Arc::new(LockHold {
            client: self.clone(),
            name: name.to_owned(),
            ticket,
            fence,
            recovered_from,
            session: used.session().clone(),
            process: std::process::id(),
            thread: options.thread.unwrap_or_else(|| thread::current().id()),
            reentrant_owner: options.reentrant.then(|| options.owner.clone()),
            fate,
            state: Mutex::new(Shared { used: Some(used), guards: 1 }),
            ended: Condvar::new(),
        });
        locked(self.locks.here()).insert(name.to_owned(), Arc::downgrade(&hold));
        let guard = Guard { hold, is_over: AtomicBool::new(false) };
        if let Some(limit) = &options.max_hold {
            guard.hold.limit(limit)?;
        }
        Ok(guard)
    }

    /// The lock of this name that this process holds.
    fn held_here(&self, name: &str) -> Option<Arc<LockHold>> {
        let hold = locked(self.locks.here()).get(name)?.upgrade()?;
        Some(hold).filter(|hold| hold.check_not_lost().is_ok())
    }

    /// One more guard of a lock whose owner may take it again.
    fn take_again(&self, name: &str, owner: &str) -> Option<Guard> {
        let hold = self.held_here(name)?;
        if hold.reentrant_owner.as_deref() != Some(owner) {
            return None;
        }
        let mut state = locked(&hold.state);
        state.used.as_ref()?;
        state.guards += 1;
        drop(state);
        Some(Guard { hold, is_over: AtomicBool::new(false) })
    }

    /// A thread that would wait for a lock of its own would never get it.
    pub(crate) fn refuse_deadlock(&self, names: &[&str], patience: &Patience<'_>) -> Result<()> {
        let Some(thread) = patience.thread.filter(|_| patience.may_wait) else { return Ok(()) };
        for name in names {
            if self.held_here(name).is_some_and(|hold| hold.thread == thread) {
                let detail = "this thread holds it already";
                let error = self.error(ErrorKind::Deadlock, "lock", name, detail);
                return Err(error.hint("release it first, or pass its fence").committed(false));
            }
        }
        Ok(())
    }
}

impl LockHold {
    /// Ends the hold, once. The first call learns what the server says.
    fn end(self: &Arc<Self>) -> Result<()> {
        let Some(used) = locked(&self.state).used.take() else { return Ok(()) };
        self.ended.notify_all();
        let mut locks = locked(self.client.locks.here());
        if locks.get(&self.name).is_some_and(|known| known.as_ptr() == Arc::as_ptr(self)) {
            locks.remove(&self.name);
        }
        drop(locks);
        self.check_not_lost()?;
        self.fate.released.store(true, Ordering::SeqCst);
        match self.client.engine.release(&self.name, &self.ticket, self.fence) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.lost("the lock was lost before")),
            Err(error) => {
                used.session().owe(&self.name, &self.ticket);
                Err(about(error, &self.name))
            }
        }
    }

    /// As far as this process knows.
    fn check_not_lost(&self) -> Result<()> {
        if self.session.is_lost() {
            return Err(about(self.session.lost(), &self.name));
        }
        if self.fate.forgotten.load(Ordering::SeqCst) {
            return Err(self.lost("the server forgot the lock in a failover"));
        }
        Ok(())
    }

    fn lost(&self, detail: &str) -> Error {
        let error = self.client.error(ErrorKind::LeaseLost, "hold", &self.name, detail);
        error.hint("stop: another caller may have it; acquire it again")
    }

    fn check_not_overlong(&self) -> Result<()> {
        if !self.fate.overlong.load(Ordering::SeqCst) {
            return Ok(());
        }
        let detail = "it lasted longer than its max_hold and was ended";
        Err(self.client.error(ErrorKind::Fenced, "hold", &self.name, detail))
    }

    /// Reports, or ends, the hold if it lasts too long. The thread ends with the hold.
    fn limit(self: &Arc<Self>, limit: &MaxHold) -> Result<()> {
        let (hold, limit) = (self.clone(), limit.clone());
        let until = Instant::now().checked_add(limit.after);
        let watch = move || {
            let mut state = locked(&hold.state);
            while state.used.is_some() {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    drop(state);
                    if limit.end {
                        hold.fate.overlong.store(true, Ordering::SeqCst);
                        let _ = hold.end(); // The guards say what became of it.
                        hold.session.wake();
                    }
                    return (limit.report)(Path::new(&hold.name));
                }
                let woken = hold.ended.wait_timeout(state, left.unwrap_or(Duration::MAX));
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        let started = thread::Builder::new().name("tenure-max-hold".to_owned()).spawn(watch);
        started.map(drop).map_err(|err| {
            let detail = "the system cannot start a thread for max_hold";
            self.client.error(ErrorKind::Io, "lock", &self.name, detail).caused_by(err)
        })
    }
}

/// A guard of a lock.
#[derive(Debug)]
pub(crate) struct Guard {
    hold: Arc<LockHold>,
    /// This guard was released.
    is_over: AtomicBool,
}

impl Guard {
    fn is_ours(&self) -> bool {
        self.hold.process == std::process::id()
    }
}

impl Held for Guard {
    fn publish_fence(&self) -> Fence {
        self.hold.fence
    }

    fn unpublished_fence(&self) -> Fence {
        self.hold.fence
    }

    fn recovered_from(&self) -> Option<&Holder> {
        self.hold.recovered_from.as_ref()
    }

    fn is_nested(&self) -> bool {
        false
    }

    fn verify(&self) -> Result<()> {
        let hold = &self.hold;
        hold.check_not_overlong()?;
        if self.is_over.load(Ordering::SeqCst) {
            let error = hold.client.error(ErrorKind::Fenced, "hold", &hold.name, "it was released");
            return Err(error);
        }
        if self.is_ours() {
            hold.check_not_lost()?;
        }
        hold.client.check_fence(&hold.name, hold.fence)
    }

    fn release(self: Box<Self>) -> Result<()> {
        self.end()
    }

    fn end(&self) -> Result<()> {
        if !self.is_ours() {
            return Ok(()); // Invariant 3.
        }
        self.hold.check_not_overlong()?;
        if self.is_over.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let mut state = locked(&self.hold.state);
        state.guards -= 1;
        let is_last = state.guards == 0;
        drop(state);
        if is_last { self.hold.end() } else { Ok(()) }
    }

    fn loss(&self) -> Option<Arc<dyn Loss>> {
        let (session, fate) = (self.hold.session.clone(), self.hold.fate.clone());
        self.is_ours().then(|| Arc::new(HoldLoss { session, fate }) as Arc<dyn Loss>)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The loss of a lock: with its session, in a failover, or by its limit.
#[derive(Debug)]
struct HoldLoss {
    session: Arc<Session>,
    fate: Arc<Fate>,
}

impl Loss for HoldLoss {
    fn wait(&self, time: Duration) -> bool {
        let fate = &self.fate;
        self.session.wait_lost(time, |session_is_lost| {
            let is_lost = session_is_lost || fate.forgotten.load(Ordering::SeqCst);
            fate.overlong.load(Ordering::SeqCst)
                || (is_lost && !fate.released.load(Ordering::SeqCst))
        })
    }
}

/// The proof of a hold that another process, or another guard, has.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) client: Arc<Client>,
    pub(crate) name: String,
    pub(crate) fence: Fence,
}

impl Held for Proof {
    fn publish_fence(&self) -> Fence {
        self.fence
    }

    fn unpublished_fence(&self) -> Fence {
        self.fence
    }

    fn recovered_from(&self) -> Option<&Holder> {
        None
    }

    fn is_nested(&self) -> bool {
        true
    }

    fn verify(&self) -> Result<()> {
        self.client.check_fence(&self.name, self.fence)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn end(&self) -> Result<()> {
        Ok(())
    }
}
