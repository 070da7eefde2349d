//! Threads that wait in the kernel on behalf of a caller, where a wait has to end at a deadline.
//!
//! When many processes take turns at one lock, starting a thread costs more than the wait it is
//! for. So the last thread to finish stays for a moment, for the next caller that has to wait.
//!
//! # Invariants
//!
//! 1. An accepted job starts at once, on a thread that does nothing else: a thread that waits in
//!    the kernel cannot do two things. If there is no such thread, the call fails and the job is
//!    not accepted.
//! 2. At most one thread of a process stays, and not for long.
//! 3. A forked child has none of its parent's threads, and a state of its own.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::process_local::ProcessLocal;

/// A waiter thread makes only a few calls.
const STACK_BYTES: usize = 64 * 1024;
/// How long one stays for the next job.
const STAYS: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce() + Send>;

struct Room {
    state: Mutex<State>,
    bell: Condvar,
    stays: Duration,
}

impl Default for Room {
    fn default() -> Self {
        Self { state: Mutex::default(), bell: Condvar::new(), stays: STAYS }
    }
}

#[derive(Default)]
enum State {
    /// No thread is here.
    #[default]
    Empty,
    /// A thread is here and waits.
    Idle,
    /// A thread is here, and this is for it.
    Called(Job),
}

static ROOM: ProcessLocal<Room> = ProcessLocal::new();

/// Has `job` done by another thread, now.
pub(crate) fn send(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    ROOM.here().send(Box::new(job))
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&'static self, job: Job) -> io::Result<()> {
        let mut state = self.lock();
        if matches!(*state, State::Idle) {
            *state = State::Called(job);
            drop(state);
            self.bell.notify_one();
            return Ok(());
        }
        drop(state);
        let thread = Builder::new().name("tenure-wait".into()).stack_size(STACK_BYTES);
        thread.spawn(move || self.serve(job)).map(drop)
    }

    /// Does one job after the other, until there is none for a while, or another thread is here.
    fn serve(&self, mut job: Job) {
        loop {
            job();
            let mut state = self.lock();
            if !matches!(*state, State::Empty) {
                return;
            }
            *state = State::Idle;
            let idle = |state: &mut State| matches!(state, State::Idle);
            let waited = self.bell.wait_timeout_while(state, self.stays, idle);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let State::Called(next) = std::mem::take(&mut *state) else { return };
            drop(state);
            job = next;
        }
    }
}

#[cfg(test)]
mod tests;
