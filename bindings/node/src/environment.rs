//! One thread of JavaScript (the main one or a worker), and what ends with it.
//!
//! # Invariants
//!
//! 1. A hold lives until it is released or its thread of JavaScript ends, whether or not a caller still
//!    has the guard: a lock that the garbage collector ended would silently unlock running code.
//! 2. When the thread ends, its waits are cancelled and its holds released; a lock that is won after
//!    that is released at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Env;
use tenure::LockGuard;

thread_local! {
    static HERE: RefCell<Option<Arc<Environment>>> = const { RefCell::new(None) };
}

/// What one thread of JavaScript waits for and holds.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    next: u64,
    waits: HashMap<u64, End>,
    holds: HashMap<u64, Arc<LockGuard>>,
}

/// Ends a wait.
struct End(Box<dyn FnOnce() + Send>);

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("End")
    }
}

impl Environment {
    /// That of the calling thread.
    pub(crate) fn here(env: Env) -> napi::Result<Arc<Self>> {
        if let Some(here) = HERE.with_borrow(Clone::clone) {
            return Ok(here);
        }
        let here = Arc::new(Self::default());
        env.add_env_cleanup_hook(here.clone(), |here| {
            HERE.set(None);
            here.end();
        })?;
        HERE.set(Some(here.clone()));
        Ok(here)
    }

    /// Keeps what is to end a wait, until the wait is over.
    pub(crate) fn waits(self: &Arc<Self>, end: impl FnOnce() + Send + 'static) -> Waiting {
        let mut state = self.state();
        let id = state.number();
        if state.ended {
            drop(state);
            end();
        } else {
            state.waits.insert(id, End(Box::new(end)));
        }
        Waiting { environment: self.clone(), id }
    }

    /// Keeps a hold; the number takes it back.
    pub(crate) fn keep(&self, guard: LockGuard) -> u64 {
        let mut state = self.state();
        let id = state.number();
        if !state.ended {
            state.holds.insert(id, Arc::new(guard));
            return id;
        }
        drop(state);
        drop(guard); // No caller is left that could release it.
        id
    }

    /// Takes a hold out, to release it. `None` if that was done before.
    pub(crate) fn take(&self, id: u64) -> Option<Arc<LockGuard>> {
        self.state().holds.remove(&id)
    }

    /// A hold to look at, if it is still there. The caller that looks may be the last to drop it.
    pub(crate) fn hold(&self, id: u64) -> Option<Arc<LockGuard>> {
        self.state().holds.get(&id).cloned()
    }

    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        let (waits, holds) = (std::mem::take(&mut state.waits), std::mem::take(&mut state.holds));
        drop(state);
        for end in waits.into_values() {
            end.0();
        }
        drop(holds);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A wait that its thread of JavaScript would end, if it ended now.
#[derive(Debug)]
pub(crate) struct Waiting {
    environment: Arc<Environment>,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.environment.state().waits.remove(&self.id);
    }
}
