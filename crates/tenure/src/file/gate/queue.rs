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
    /// The handles that somebody is blocked on in the kernel, for the queue or as its head.
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

/// What the kernel told a parked thread.
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
    /// Nobody is blocked in the kernel for it.
    Block,
    /// Until its bell rings.
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

    /// Whoever is next looks whether it is its turn.
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
        // A reader that reads again must not stand behind a writer that waits for it.
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
            // It was for a caller of the other mode, who left. A reader must not keep it: it would
            // shut out the other readers.
            Answer::Granted(granted, _) => granted.unlock()?,
            Answer::None => {}
        }
        // By a handle that somebody is blocked on, the kernel would grant the lock twice, and that one
        // would give back what we hold.
        let own = self.blocked.iter().any(|(blocked, _)| Arc::ptr_eq(blocked, handle));
        if own {
            return Ok(Next::Sleep);
        }
        if handle.try_lock(place.mode)? {
            return Ok(Next::Have(handle.clone()));
        }
        // Somebody blocked in the other mode may get it later than we could.
        let stands_in = self.blocked.iter().any(|(_, mode)| *mode == place.mode);
        Ok(if stands_in || !may_block { Next::Sleep } else { Next::Block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Access;
    use crate::sys::disk;

    /// Handles of one file of its own, as different callers have them.
    fn handles<const N: usize>(name: &str) -> [Arc<dyn Handle>; N] {
        let name = format!("tenure-queue-{}-{name}", std::process::id());
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        let opened = std::array::from_fn(|_| disk().open(&path, Access::Create(0o600)).unwrap());
        disk().remove(&path).unwrap();
        opened
    }

    fn place(ticket: u64, mode: Mode) -> Place {
        Place { ticket, mode, thread: std::thread::current().id() }
    }

    fn is_free(handle: &Arc<dyn Handle>) -> bool {
        let free = handle.try_lock(Mode::Exclusive).unwrap();
        handle.unlock().unwrap();
        free
    }

    /// A queue in which these wait, in this order.
    fn waiting(modes: &[Mode]) -> Queue {
        let places = (0..).zip(modes).map(|(ticket, mode)| (place(ticket, *mode), Arc::default()));
        Queue { waiting: places.collect(), ..Queue::default() }
    }

    fn have(next: io::Result<Next>) -> Option<Arc<dyn Handle>> {
        match next.unwrap() {
            Next::Have(handle) => Some(handle),
            Next::Block | Next::Sleep => None,
        }
    }

    #[test]
    fn a_queue_that_anybody_has_to_do_with_is_in_use() {
        let [handle] = handles("used");
        let used = [
            Queue { holders: vec![place(0, Mode::Shared)], ..Queue::default() },
            waiting(&[Mode::Shared]),
            Queue { arriving: 1, ..Queue::default() },
            Queue { blocked: vec![(handle.clone(), Mode::Shared)], ..Queue::default() },
            Queue { answer: Answer::Granted(handle, Mode::Shared), ..Queue::default() },
        ];
        assert!(Queue::default().is_unused());
        assert!(used.iter().all(|queue| !queue.is_unused()));
    }

    #[test]
    fn what_the_head_wants_is_what_counts() {
        let queue = waiting(&[Mode::Exclusive, Mode::Shared]);
        assert!(queue.head_wants(Mode::Exclusive) && !queue.head_wants(Mode::Shared));
        assert!(!Queue::default().head_wants(Mode::Shared));
    }

    #[test]
    fn what_was_granted_for_the_last_who_leaves_is_given_back() {
        let [granted, other] = handles("leaves");
        let mut queue = waiting(&[Mode::Exclusive, Mode::Exclusive]);
        assert!(granted.try_lock(Mode::Exclusive).unwrap());
        queue.answer = Answer::Granted(granted.clone(), Mode::Exclusive);
        queue.leave_queue(0);
        assert!(!is_free(&other), "somebody still waits for it");
        queue.leave_queue(1);
        assert!(is_free(&other) && queue.is_unused());
    }

    #[test]
    fn a_grant_serves_its_own_mode_only() {
        let [granted, own] = handles("grant");
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut queue = waiting(&[Mode::Exclusive]);
            assert!(granted.try_lock(mode).unwrap());
            queue.answer = Answer::Granted(granted.clone(), mode);
            let got = have(queue.next(place(0, Mode::Exclusive), &own, true)).unwrap();
            let expected = if mode == Mode::Exclusive { &granted } else { &own };
            assert!(Arc::ptr_eq(&got, expected), "granted {mode:?}");
            got.unlock().unwrap();
            assert!(is_free(&own), "nothing else is held");
        }
    }

    #[test]
    fn nobody_tries_before_its_turn() {
        let [held, own] = handles("turn");
        assert!(held.try_lock(Mode::Exclusive).unwrap());
        let mut queue = waiting(&[Mode::Shared, Mode::Shared]);
        let thread = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
        queue.holders.push(Place { thread, ..place(9, Mode::Exclusive) });
        let next = queue.next(place(0, Mode::Shared), &own, true).unwrap();
        assert!(matches!(next, Next::Sleep), "one of this process has it: {next:?}");
        queue.holders.clear();
        let next = queue.next(place(1, Mode::Shared), &own, true).unwrap();
        assert!(matches!(next, Next::Sleep), "it is not the head: {next:?}");
        let next = queue.next(place(0, Mode::Shared), &own, true).unwrap();
        assert!(matches!(next, Next::Block), "somebody else has it: {next:?}");
        let next = Queue::default().next(place(0, Mode::Shared), &own, true).unwrap();
        assert!(matches!(next, Next::Sleep), "it has left: {next:?}");
    }
}
