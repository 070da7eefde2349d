//! The session of this process with a server: what its locks and its waiting tickets last as long as.
//!
//! One session serves every lock and wait of a store in a process. It is opened by the first of them, renewed by a
//! thread of its own at a third of its time to live, and closed when it was not used for a while.
//!
//! # Invariants
//!
//! 1. A session is lost when the server says so, or when the last renewal that succeeded was *sent* longer ago than
//!    the time to live. The server counts from a later moment, so this process knows it first. The clock counts the
//!    sleep of the machine.
//! 2. A session that was lost stays lost: it is never renewed again.
//! 3. A forked child has no session of its parent, and neither renews nor ends it.
//! 4. A lock that is older than a failover of the server is looked for there once: the server may know the session and
//!    not the lock, which was granted later.
//! 5. A lock whose release failed is given back by the thread, or expires with the session: it is not renewed for the
//!    sake of such a lock.
//!
//! Crash: the server ends the session after its time to live.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tenure::store::{ProcessLocal, boot_time};
use tenure::{Error, ErrorKind, Fence, Result};

use crate::engine::{Engine, SessionId, Ticket};

/// How long the end of a process waits for its session to be closed.
const CLOSE_TIME: Duration = Duration::from_millis(200);

/// The sessions with one server: the current one of each process.
pub(crate) struct Sessions {
    engine: Arc<dyn Engine>,
    ttl: Duration,
    current: ProcessLocal<Mutex<Option<Arc<Session>>>>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) fn new(engine: Arc<dyn Engine>, ttl: Duration) -> Self {
        Self { engine, ttl, current: ProcessLocal::new() }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Uses the session of this process. Opens one if there is none, or if the last one was lost.
    pub(crate) fn join(&self) -> Result<Use> {
        let mut current = locked(self.current.here());
        if let Some(used) = current.as_ref().and_then(Session::join) {
            return Ok(used);
        }
        let began = boot_time();
        let id = self.engine.open_session(self.ttl)?;
        let session = Arc::new(Session::new(id, self.ttl, began));
        let used = Session::join(&session).ok_or_else(|| session.lost())?;
        let (engine, kept) = (self.engine.clone(), session.clone());
        let thread = std::thread::Builder::new().name("tenure-session".to_owned());
        if let Err(err) = thread.spawn(move || kept.keep(engine.as_ref())) {
            let _ = self.engine.close_session(&session.id);
            let detail = "the system cannot start a thread to renew it";
            return Err(Error::new(ErrorKind::Io, "open a session", detail).caused_by(err));
        }
        *current = Some(session);
        Ok(used)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // In a forked child this is a new value, and empty.
        if let Some(session) = locked(self.current.here()).take() {
            session.close();
        }
    }
}

/// A session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    ttl: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// When the last renewal that succeeded was sent.
    renewed: Duration,
    /// So many locks and waits use it.
    users: usize,
    /// Since when none does.
    idle_since: Duration,
    /// Tickets that have to be given back.
    owed: Vec<(String, Ticket)>,
    /// Locks that guards have.
    held: Vec<Weak<Fate>>,
}

/// How a lock ended. It is held, or was lost with its session, if it is none of this.
#[derive(Debug)]
pub(crate) struct Fate {
    name: String,
    fence: Fence,
    /// The server knew it after the failover with this number, or granted it after that.
    known_after: AtomicU64,
    pub(crate) released: AtomicBool,
    /// Its limit has ended it.
    pub(crate) overlong: AtomicBool,
    /// The server forgot it in a failover.
    pub(crate) forgotten: AtomicBool,
}

impl Fate {
    pub(crate) fn new(name: &str, fence: Fence) -> Self {
        Self {
            name: name.to_owned(),
            fence,
            known_after: AtomicU64::new(fence),
            released: AtomicBool::new(false),
            overlong: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// It is not used any more, and the thread closes it.
    Closing,
    Closed,
    Lost,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Session {
    fn new(id: SessionId, ttl: Duration, began: Duration) -> Self {
        let state = State {
            phase: Phase::Open,
            renewed: began,
            users: 0,
            idle_since: began,
            owed: Vec::new(),
            held: Vec::new(),
        };
        Self { id, ttl, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Counts one more user; `None` if it is over.
    fn join(session: &Arc<Self>) -> Option<Use> {
        let mut state = session.current();
        if state.phase != Phase::Open {
            return None;
        }
        state.users += 1;
        drop(state);
        Some(Use { session: session.clone(), process: std::process::id() })
    }

    /// The state as it is now: time may have ended it.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        if boot_time() >= state.renewed + self.ttl {
            self.lose(&mut state);
        }
        state
    }

    fn lose(&self, state: &mut State) {
        if state.phase == Phase::Open {
            state.phase = Phase::Lost;
            self.changed.notify_all();
        }
    }

    /// The server has said that it is over.
    pub(crate) fn set_lost(&self) {
        self.lose(&mut locked(&self.state));
    }

    /// Whether its locks are lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.current().phase == Phase::Lost
    }

    /// The error of a hold that was lost with it.
    pub(crate) fn lost(&self) -> Error {
        let detail = format!("its session was not renewed for {:?}", self.ttl);
        Error::new(ErrorKind::LeaseLost, "hold", detail)
            .hint("stop: another caller may have it; acquire it again")
    }

    /// Waits at most this long until a hold is lost: `is_lost` gets whether the session is. What else it depends on is
    /// changed before [`Self::wake`].
    pub(crate) fn wait_lost(&self, time: Duration, is_lost: impl Fn(bool) -> bool) -> bool {
        let until = Instant::now().checked_add(time);
        let mut state = self.current();
        while !is_lost(state.phase == Phase::Lost) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let mut sleep = left.unwrap_or(self.ttl);
            if state.phase == Phase::Open {
                let expires = (state.renewed + self.ttl).saturating_sub(boot_time());
                sleep = sleep.min(expires.max(Duration::from_millis(1)));
            }
            drop(self.sleep(state, sleep));
            state = self.current();
        }
        true
    }

    /// Wakes those who wait for a loss.
    pub(crate) fn wake(&self) {
        let _state = locked(&self.state);
        self.changed.notify_all();
    }

    /// Has a ticket given back that the server could not be asked to end.
    pub(crate) fn owe(&self, name: &str, ticket: &Ticket) {
        let mut state = self.current();
        if state.phase == Phase::Open {
            state.owed.push((name.to_owned(), ticket.clone()));
            self.changed.notify_all();
        }
    }

    /// Has a lock looked for after a failover.
    pub(crate) fn watch_over(&self, fate: &Arc<Fate>) {
        let mut state = locked(&self.state);
        state.held.retain(|held| held.strong_count() > 0);
        state.held.push(Arc::downgrade(fate));
    }

    /// Looks for the locks from before this failover. One that the server cannot be asked for is looked for after the next
    /// renewal.
    fn find_forgotten(&self, engine: &dyn Engine, failover: Fence) {
        let held: Vec<_> = locked(&self.state).held.iter().filter_map(Weak::upgrade).collect();
        for fate in held {
            if fate.known_after.load(Ordering::SeqCst) >= failover {
                continue;
            }
            let Ok(hold) = engine.hold(&fate.name) else { return };
            if hold.fence != fate.fence || hold.holder.is_none() {
                fate.forgotten.store(true, Ordering::SeqCst); // Or it was released, which was noted before.
                self.wake();
            }
            fate.known_after.store(failover, Ordering::SeqCst);
        }
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Closes it, if it is open. Waits a moment for that, since the process may end then.
    fn close(&self) {
        let mut state = self.current();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
            self.changed.notify_all();
        }
        let until = Instant::now() + CLOSE_TIME;
        while state.phase == Phase::Closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.sleep(state, left);
        }
    }

    /// The thread: renews it until it is over.
    fn keep(&self, engine: &dyn Engine) {
        let (every, retry) = (self.ttl / 3, self.ttl / 20);
        let mut next = self.current().renewed + every;
        let mut give_back = Duration::ZERO;
        loop {
            let mut state = self.current();
            let now = boot_time();
            let idle_until = state.idle_since + self.ttl;
            let is_idle = state.users == 0 && (!state.owed.is_empty() || now >= idle_until);
            if state.phase == Phase::Open && is_idle {
                state.phase = Phase::Closing;
            }
            match state.phase {
                Phase::Open => {}
                Phase::Closing => {
                    drop(state);
                    let _ = engine.close_session(&self.id); // If this fails, it expires.
                    locked(&self.state).phase = Phase::Closed;
                    return self.changed.notify_all();
                }
                Phase::Closed | Phase::Lost => return,
            }
            let mut wake = next;
            if state.users == 0 {
                wake = wake.min(idle_until);
            }
            if !state.owed.is_empty() {
                wake = wake.min(give_back);
            }
            if now < wake {
                drop(self.sleep(state, wake.saturating_sub(now)));
            } else if !state.owed.is_empty() && now >= give_back {
                let mut owed = std::mem::take(&mut state.owed);
                drop(state);
                owed.retain(|(name, ticket)| engine.leave(name, ticket).is_err());
                give_back = boot_time() + retry;
                locked(&self.state).owed.append(&mut owed);
            } else {
                drop(state);
                let began = boot_time();
                match engine.renew_session(&self.id) {
                    Ok(Some(failover)) => {
                        let mut state = self.current();
                        if state.phase == Phase::Open {
                            state.renewed = began;
                        }
                        drop(state);
                        next = began + every;
                        self.find_forgotten(engine, failover);
                    }
                    Ok(None) => self.set_lost(),
                    Err(_) => next = boot_time() + retry,
                }
            }
        }
    }
}

/// One use of a session. It is renewed as long as there is one.
#[derive(Debug)]
pub(crate) struct Use {
    session: Arc<Session>,
    process: u32,
}

impl Use {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // Invariant 3. Its mutex may be locked for ever here.
        }
        let mut state = locked(&self.session.state);
        state.users = state.users.saturating_sub(1);
        state.idle_since = boot_time();
        if state.users == 0 && !state.owed.is_empty() {
            self.session.changed.notify_all();
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
