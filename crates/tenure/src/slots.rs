//! Slots: at most N holders of one target at a time.
//!
//! Slot K of a target is the lock of the name `TARGET~slotK` beside it, and the queue is the lock of `TARGET~slots`. The
//! holder of a slot also shares the lock of the target itself, where the store has shared locks: so a slot excludes
//! exclusive holders, leases and writes of the target, and they exclude it.
//!
//! # Invariants
//!
//! 1. A caller with N slots takes the lowest free one of the first N. So at most N callers that asked for N or fewer
//!    have one; if callers ask for different N, the largest bounds all of them.
//! 2. Callers that wait are served one after the other: only the head of the queue waits for slots, for all of them at
//!    once. A caller with a small N at the head also delays those behind it that ask for more.
//! 3. A caller that does not wait does not queue, and takes a slot only if one is free. One that is being freed this very
//!    moment may still count as taken: the kernel may grant it first to a thread whose caller has another slot by now.
//! 4. The order is queue, slot, target. An exclusive caller waits for the holders of slots, not for the queue.
//!
//! Crash: all of it is locks. The death of a holder frees its slot, and that of the head frees the queue.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Mode, RawHandle};
use crate::holder::Holder;
use crate::options::{Fence, FileOptions, LockOptions, MaxHold};
use crate::printable::command;
use crate::store::{Held, Target};
use crate::wait::{Cancel, Deadline, Wait, Wake};

/// The most slots of a target: the head of the queue waits with a thread for each.
pub(crate) const SLOTS_MAX: u8 = 64;
/// A thread that waits for one lock and draws its fence.
const STACK_BYTES: usize = 256 * 1024;

/// The name of a slot of a target.
pub(crate) fn name_of(target: &Path, slot: u8) -> PathBuf {
    beside(target, &format!("~slot{slot}"))
}

/// The name of the queue for the slots of a target.
pub(crate) fn queue_of(target: &Path) -> PathBuf {
    beside(target, "~slots")
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(suffix);
    name.into()
}

/// Takes one of `count` slots. `shares`: the store has shared locks.
pub(crate) fn acquire(
    target: &Arc<dyn Target>,
    shares: bool,
    count: u8,
    options: &LockOptions,
) -> Result<Box<dyn Held>> {
    if count == 0 || count > SLOTS_MAX || options.reentrant {
        let again = "a slot cannot be taken again by its owner".to_owned();
        let range = format!("a target has 1 to {SLOTS_MAX} slots");
        let detail = if options.reentrant { again } else { range };
        return Err(Error::new(ErrorKind::Invalid, "lock", detail).at(target.name()));
    }
    let deadline = Deadline::after(options.wait);
    let slots: Result<Vec<_>> =
        (0..count).map(|slot| target.beside(&name_of(target.name(), slot))).collect();
    let seats = Seats { target, slots: slots?, deadline, options };
    let queue = if deadline.may_wait() { Some(seats.queue()?) } else { None };
    let slot = match seats.try_each()? {
        Some(slot) => slot,
        None if queue.is_some() => seats.wait_for_any()?,
        None => return Err(seats.busy()),
    };
    let hold = if shares { Some(target.lock(&seats.shared())?) } else { None };
    drop(queue);
    Ok(Box::new(Slot { slot, hold }))
}

/// The slots of a target, for one call.
struct Seats<'a> {
    target: &'a Arc<dyn Target>,
    slots: Vec<Arc<dyn Target>>,
    deadline: Deadline,
    options: &'a LockOptions,
}

impl Seats<'_> {
    /// How the queue and the slots are locked. The lock of another tool belongs to the target.
    fn plain(&self, wait: Wait) -> LockOptions {
        LockOptions {
            slots: None,
            mode: Mode::Exclusive,
            wait,
            max_hold: None,
            file: FileOptions { lock_file: None, ..self.options.file.clone() },
            ..self.options.clone()
        }
    }

    /// How the target itself is locked. The hold that lasts too long is reported by the slot.
    fn shared(&self) -> LockOptions {
        let quiet = |limit: &MaxHold| MaxHold { report: Arc::new(|_| ()), ..limit.clone() };
        LockOptions {
            slots: None,
            mode: Mode::Shared,
            wait: self.deadline.as_wait(),
            max_hold: self.options.max_hold.as_ref().map(quiet),
            ..self.options.clone()
        }
    }

    /// How a slot is locked. A hold that lasts too long is that of the target.
    fn slot(&self, wait: Wait) -> LockOptions {
        let named = |limit: &MaxHold| {
            let (name, report) = (self.target.name().to_path_buf(), limit.report.clone());
            MaxHold { report: Arc::new(move |_| report(&name)), ..limit.clone() }
        };
        LockOptions { max_hold: self.options.max_hold.as_ref().map(named), ..self.plain(wait) }
    }

    fn queue(&self) -> Result<Box<dyn Held>> {
        let queue = self.target.beside(&queue_of(self.target.name()))?;
        queue.lock(&self.plain(self.deadline.as_wait())).map_err(|error| match error.kind() {
            ErrorKind::Busy => self.busy_behind(error.holder()),
            _ => self.refused(error),
        })
    }

    /// The lowest free slot.
    fn try_each(&self) -> Result<Option<Box<dyn Held>>> {
        for slot in &self.slots {
            match slot.lock(&self.slot(Wait::No)) {
                Err(error) if error.kind() == ErrorKind::Busy => {}
                taken => return taken.map(Some),
            }
        }
        Ok(None)
    }

    /// Waits for all slots at once, each on a thread of its own. The first one that is granted ends the other waits; one
    /// that is granted meanwhile is released as it is dropped. All threads have ended when this returns: nothing of this
    /// call touches the directory afterwards.
    fn wait_for_any(&self) -> Result<Box<dyn Held>> {
        let race = Cancel::new();
        let linked = Arc::new(Linked(race.clone()));
        if let Some(cancel) = &self.options.cancel {
            cancel.wakes(&linked);
            if cancel.is_cancelled() {
                race.cancel();
            }
        }
        let owner = self.options.thread.unwrap_or_else(|| thread::current().id());
        let (answer, answers) = mpsc::channel();
        thread::scope(|waits| {
            for slot in &self.slots {
                let answer = answer.clone();
                let mut options = self.slot(self.deadline.as_wait());
                (options.cancel, options.thread) = (Some(race.clone()), Some(owner));
                let wait = move || drop(answer.send(slot.lock(&options)));
                let waiter =
                    thread::Builder::new().name("tenure-slot".into()).stack_size(STACK_BYTES);
                if let Err(err) = waiter.spawn_scoped(waits, wait) {
                    race.cancel();
                    return Err(Error::io("wait for a slot of", self.target.name(), err));
                }
            }
            drop(answer);
            let mut granted = None;
            let mut refused = None;
            for answered in answers {
                match answered {
                    Ok(slot) => {
                        race.cancel();
                        granted.get_or_insert(slot);
                    }
                    // What went wrong says more than that the others are taken.
                    Err(error) if error.kind() == ErrorKind::Busy && refused.is_some() => {}
                    Err(error) => refused = Some(error),
                }
            }
            granted.ok_or_else(|| refused.map_or_else(|| self.busy(), |error| self.refused(error)))
        })
    }

    /// The error for a caller, which knows the target and not its slots.
    fn refused(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Busy => self.busy(),
            ErrorKind::Cancelled => {
                let detail = "the wait was cancelled";
                Error::new(ErrorKind::Cancelled, "wait for", detail).at(self.target.name())
            }
            _ => error,
        }
    }

    fn busy(&self) -> Error {
        self.busy_behind(None)
    }

    /// The error for a caller that has no slot, and that `head` keeps from asking for one: it may be paused.
    fn busy_behind(&self, head: Option<&Holder>) -> Error {
        let name = self.target.name();
        let first = self.slots.first().and_then(|slot| slot.status().ok());
        let holder = first.filter(|status| status.state.is_held()).and_then(|found| found.holder);
        let (count, look) = (self.slots.len(), command("who", name));
        let why = match (&holder, head) {
            (None, Some(_)) => {
                format!("it is first in the queue for {count} slots, and has taken none")
            }
            _ => format!("all of {count} slots are taken"),
        };
        let hint = format!("{why}; wait longer, or see {look}");
        // A slot proves nothing: the fence of its lock would be of no use to the reader.
        let holder = holder.or(head.cloned()).map(|holder| Holder { fence: 0, ..holder });
        Error::new(ErrorKind::Busy, "lock", "")
            .at(name)
            .held_by(Some(holder.unwrap_or_default()))
            .hint(hint)
    }
}

/// Passes the caller's cancellation on to the race.
#[derive(Debug)]
struct Linked(Cancel);

impl Wake for Linked {
    fn wake(&self) {
        self.0.cancel();
    }
}

/// A slot that is held. It has no fence, since other slots are held as well.
#[derive(Debug)]
struct Slot {
    slot: Box<dyn Held>,
    /// The shared lock of the target.
    hold: Option<Box<dyn Held>>,
}

impl Held for Slot {
    fn publish_fence(&self) -> Fence {
        0
    }

    fn unpublished_fence(&self) -> Fence {
        0
    }

    fn recovered_from(&self) -> Option<&Holder> {
        self.slot.recovered_from()
    }

    fn is_nested(&self) -> bool {
        false
    }

    fn verify(&self) -> Result<()> {
        self.slot.verify()?;
        self.hold.as_ref().map_or(Ok(()), |hold| hold.verify())
    }

    fn release(self: Box<Self>) -> Result<()> {
        let ended = self.hold.map_or(Ok(()), Held::release);
        self.slot.release().and(ended)
    }

    fn end(&self) -> Result<()> {
        let ended = self.hold.as_ref().map_or(Ok(()), |hold| hold.end());
        self.slot.end().and(ended)
    }

    fn descriptors(&self) -> Vec<RawHandle> {
        let hold = self.hold.iter().flat_map(|hold| hold.descriptors());
        self.slot.descriptors().into_iter().chain(hold).collect()
    }

    fn leave_to_children(self: Box<Self>) -> Result<()> {
        let left = self.hold.map_or(Ok(()), Held::leave_to_children);
        self.slot.leave_to_children().and(left)
    }
}
