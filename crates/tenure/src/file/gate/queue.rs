//! Who waits for one lock in this process, and in which order they are served.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar};
use std::thread::ThreadId;

use crate::fs::{Handle, Mode};

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) next_ticket: u64,
    pub(super) holders: Vec<Place>,
    pub(super) waiting: VecDeque<(Place, Arc<Condvar>)>,
    /// The handles that a thread is blocked on in the kernel, for the queue or as its head.
    pub(super) blocked: Vec<(Arc<dyn Handle>, Mode)>,
    pub(super) answer: Answer,
    /// Callers between finding the gate and joining its queue.
    pub(super) arriving: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) ticket: u64,
    pub(super) mode: Mode,
    /// The thread that can release it.
    pub(super) thread: ThreadId,
}

/// What the kernel answered a parked thread.
#[derive(Debug, Default)]
pub(super) enum Answer {
    #[default]
    None,
    Granted(Arc<dyn Handle>, Mode),
    Failed(io::Error),
}

/// What a caller does next.
#[derive(Debug)]
pub(super) enum Next {
    Have(Arc<dyn Handle>),
    /// No thread is blocked in the kernel for it.
    Block,
    /// Wait until its bell rings.
    Sleep,
}

impl Queue {
    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty()
            && self.waiting.is_empty()
            && self.arriving == 0
            && self.blocked.is_empty()
            && matches!(self.answer, Answer::None)
    }

    pub(super) fn leave_queue(&mut self, ticket: u64) {
        self.waiting.retain(|(place, _)| place.ticket != ticket);
        if self.waiting.is_empty() {
            if let Answer::Granted(handle, _) = &self.answer {
                // It was granted for a caller that is leaving without it.
                let _ = handle.unlock();
                self.answer = Answer::None;
            }
        }
    }

    /// The next caller checks whether it is its turn.
    pub(super) fn wake_head(&self) {
        if let Some((_, bell)) = self.waiting.front() {
            bell.notify_one();
        }
    }

    /// The same thread holds it already, in a way that can never end while it waits here.
    pub(super) fn would_wait_for_itself(&self, place: Place) -> bool {
        self.holders.iter().any(|holder| {
            holder.thread == place.thread
                && (holder.mode == Mode::Exclusive || place.mode == Mode::Exclusive)
        })
    }

    pub(super) fn head_wants(&self, mode: Mode) -> bool {
        self.waiting.front().is_some_and(|(head, _)| head.mode == mode)
    }

    pub(super) fn unblock(&mut self, handle: &Arc<dyn Handle>) {
        self.blocked.retain(|(blocked, _)| !Arc::ptr_eq(blocked, handle));
    }

    /// The lock for the caller at the head of the queue: as a parked thread was granted it, or by
    /// trying.
    pub(super) fn next(
        &mut self,
        place: Place,
        handle: &Arc<dyn Handle>,
        may_block: bool,
    ) -> io::Result<Next> {
        let head = self.waiting.front().is_some_and(|(head, _)| head.ticket == place.ticket);
        // A reader that reads again must not queue behind a writer that waits for it.
        let again = self.holders.iter().any(|holder| {
            holder.thread == place.thread
                && (holder.mode, place.mode) == (Mode::Shared, Mode::Shared)
        });
        let fits = self
            .holders
            .iter()
            .all(|holder| holder.mode == Mode::Shared && place.mode == Mode::Shared);
        if !(head || again) || !fits {
            return Ok(Next::Sleep);
        }
        match std::mem::take(&mut self.answer) {
            Answer::Failed(err) => return Err(err),
            Answer::Granted(granted, mode) if mode == place.mode => return Ok(Next::Have(granted)),
            // It was for a caller of the other mode, which left. A reader must not keep it: it
            // would exclude the other readers.
            Answer::Granted(granted, _) => granted.unlock()?,
            Answer::None => {}
        }
        // Through a handle that a thread is blocked on, the kernel would grant the lock twice, and
        // that thread would release what we hold.
        let own = self.blocked.iter().any(|(blocked, _)| Arc::ptr_eq(blocked, handle));
        if own {
            return Ok(Next::Sleep);
        }
        if handle.try_lock(place.mode)? {
            return Ok(Next::Have(handle.clone()));
        }
        // A thread blocked in the other mode may get it later than we could.
        let stands_in = self.blocked.iter().any(|(_, mode)| *mode == place.mode);
        Ok(if stands_in || !may_block { Next::Sleep } else { Next::Block })
    }
}

#[cfg(test)]
mod tests;
