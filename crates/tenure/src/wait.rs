//! How long to wait, and how to stop waiting: the only notion of deadline in the crate.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// How long a call may wait for other holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: `busy` at once.
    No,
    /// At most this long, on a monotonic clock.
    For(Duration),
    /// Until it is granted or the wait is cancelled.
    Forever,
}

impl Default for Wait {
    /// Ten seconds: long enough for any short lock, shorter than the timeouts of hooks.
    fn default() -> Self {
        Self::For(Duration::from_secs(10))
    }
}

impl FromStr for Wait {
    type Err = Error;

    /// `500ms`, `10s`, `2m`, `1h`, `7d`, a number of seconds, `0` or `forever`.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let wrong = |why: String| Error::new(ErrorKind::Invalid, "read a duration", why);
        let no_number = || wrong(format!("`{text}` is none; write 500ms, 10s or 2m"));
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| no_number())?;
        let seconds = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(wrong(format!("`{unit}` is no unit of time; use ms, s, m, h or d"))),
        };
        let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| no_number())?;
        Ok(if time.is_zero() { Self::No } else { Self::For(time) })
    }
}

/// Ends waits from another thread. Clones are one token; once cancelled it stays cancelled.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    shared: Arc<CancelShared>,
}

#[derive(Debug, Default)]
struct CancelShared {
    cancelled: AtomicBool,
    sleepers: Mutex<Vec<Weak<dyn Wake>>>,
}

/// A sleeper that can be woken to check again.
pub(crate) trait Wake: Send + Sync + std::fmt::Debug {
    fn wake(&self);
}

impl Cancel {
    /// A token that is not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every wait with this token end with `cancelled`, now and later.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        let sleepers = {
            let mut list = self.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *list)
        };
        for sleeper in sleepers.iter().filter_map(Weak::upgrade) {
            sleeper.wake();
        }
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Has `sleeper` woken by a later [`Self::cancel`]. The caller checks [`Self::is_cancelled`]
    /// after this, so a cancellation in between is not missed.
    pub(crate) fn wakes(&self, sleeper: &Arc<impl Wake + 'static>) {
        let sleeper: Arc<dyn Wake> = sleeper.clone();
        let mut list = self.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| known.strong_count() > 0);
        // A token of a whole process waits at the same gates again and again.
        let new = Arc::downgrade(&sleeper);
        if !list.iter().any(|known| known.ptr_eq(&new)) {
            list.push(new);
        }
    }
}

/// How a caller waits for a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) deadline: Deadline,
    pub(crate) cancel: Option<&'a Cancel>,
    /// The thread that will own the lock, if another thread waits for it.
    pub(crate) thread: Option<ThreadId>,
}

impl<'a> Request<'a> {
    /// On behalf of the calling thread, waiting this long.
    pub(crate) fn after(wait: Wait) -> Self {
        Self::until(Deadline::after(wait))
    }

    /// The same, until a deadline that was set before.
    pub(crate) fn until(deadline: Deadline) -> Self {
        Self { deadline, cancel: None, thread: None }
    }

    /// As a caller's options say.
    pub(crate) fn new(wait: Wait, cancel: Option<&'a Cancel>, thread: Option<ThreadId>) -> Self {
        Self { deadline: Deadline::after(wait), cancel, thread }
    }
}

/// A point on the monotonic clock, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    now: bool,
}

impl Deadline {
    pub(crate) fn after(wait: Wait) -> Self {
        match wait {
            Wait::No => Self { at: None, now: true },
            // A wait too long for the clock is for ever.
            Wait::For(time) => Self { at: Instant::now().checked_add(time), now: time.is_zero() },
            Wait::Forever => Self { at: None, now: false },
        }
    }

    /// `false` for a call that never waits.
    pub(crate) fn may_wait(self) -> bool {
        !self.now
    }

    /// `true` for a call that waits as long as it takes.
    pub(crate) fn is_never(self) -> bool {
        self.at.is_none() && !self.now
    }

    pub(crate) fn has_passed(self) -> bool {
        self.now || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// What is left; `None` for ever.
    pub(crate) fn remaining(self) -> Option<Duration> {
        if self.now {
            return Some(Duration::ZERO);
        }
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// What is left, as a [`Wait`] for a call further down.
    pub(crate) fn as_wait(self) -> Wait {
        if self.now {
            return Wait::No;
        }
        self.remaining().map_or(Wait::Forever, Wait::For)
    }
}

#[cfg(test)]
mod tests;
