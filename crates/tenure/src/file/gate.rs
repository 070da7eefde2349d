//! Waiting for a kernel lock: the head of a first-come queue of this process's callers is blocked in
//! the kernel, and the others behind it.
//!
//! # Invariants
//!
//! 1. The owner of a [`Turn`] holds the kernel lock on the file that the path named at that instant:
//!    after every grant the handle is compared with the path, and a difference starts over.
//! 2. Callers of one process are served in the order they came; a caller that gives up leaves the
//!    queue and nothing else behind. For callers that can give up, a thread is parked in the kernel
//!    in their place, at most one per lock and mode, however many give up; a lock that it is
//!    granted after all of them left is released at once. A caller that cannot give up is blocked
//!    there itself, and is woken once, not twice. A handle that a thread is blocked on is not
//!    locked by another thread meanwhile.
//! 3. Release acts on its own handle. The queue learns of it after the kernel does.
//! 4. The head of the queue is woken when it may be its turn; no other caller is, unless a
//!    wait is cancelled.
//! 5. A child of `fork` has a registry of its own and never unlocks what its parent holds: the lock
//!    belongs to the open file description that both share.

mod queue;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::queue::{Answer, Next, Place, Queue};
use crate::error::{Error, ErrorKind, Result};
use crate::file::target::{Home, Opened, Target};
use crate::file::waiter_thread;
use crate::fs::{Extent, FileId, Handle, Mode, RawHandle, if_found};
use crate::process_local::ProcessLocal;
use crate::sys;
use crate::wait::{Cancel, Request, Wake};

/// The kernel lock is ours; dropping this releases it.
#[derive(Debug)]
pub(crate) struct Turn {
    handle: Arc<dyn Handle>,
    gate: Arc<Gate>,
    ticket: u64,
    /// Cleared when a child process keeps the lock and our copy is only closed.
    unlocks: bool,
    /// Where the file goes afterwards, if only this process ever had it.
    home: Option<Home>,
    /// When the file was born, as seen under its name right after the grant.
    born_us: u64,
}

impl Turn {
    pub(crate) fn handle(&self) -> &Arc<dyn Handle> {
        &self.handle
    }

    pub(crate) fn id(&self) -> FileId {
        self.gate.id
    }

    /// When the file was born.
    pub(crate) fn born_us(&self) -> u64 {
        self.born_us
    }

    /// False in a forked child, which must not act on its parent's lock.
    pub(crate) fn is_ours(&self) -> bool {
        self.gate.process == sys::process_number()
    }

    /// The descriptor, for a child process to inherit. From then on the lock is not ours alone.
    pub(crate) fn raw(&mut self) -> Option<RawHandle> {
        self.home = None;
        self.handle.raw()
    }

    /// Closes our copy without unlocking: the lock lives on in the processes that inherited it.
    pub(crate) fn leave_to_children(mut self) {
        self.unlocks = false;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_ours() {
            return; // Only the descriptor is closed; the gate's mutex may be locked for ever here.
        }
        // Closing would do, but only once every copy of the descriptor is gone.
        let unlocked = self.unlocks && self.handle.unlock().is_ok();
        let mut state = self.gate.lock();
        state.holders.retain(|holder| holder.ticket != self.ticket);
        self.gate.retire(state);
        if unlocked && Arc::strong_count(&self.handle) == 1 {
            if let Some(home) = self.home.take() {
                home.keep(self.handle.clone());
            }
        }
    }
}

/// Takes the lock on `path`, waiting in the kernel until the deadline.
pub(crate) fn take(target: &Target, path: &Path, mode: Mode, request: Request<'_>) -> Result<Turn> {
    let process = sys::process_number();
    loop {
        let Opened { handle, home } = target.take_out(path)?;
        let id = handle.id().map_err(Target::failed("look at lock file", path))?;
        let mut turn = Gate::of(id, process).enter(&handle, target.path(), mode, request)?;
        // The path may refer to another file after the wait (invariant 1). A process that removes
        // it for good reason (a pruned key) does so under this very lock.
        if let Some(found) = named(target, path)?.filter(|found| found.id == id) {
            turn.born_us = found.born_us;
            // One that waited for another caller is not kept.
            turn.home = Arc::ptr_eq(&turn.handle, &handle).then_some(home);
            return Ok(turn);
        }
        if request.deadline.may_wait() && request.deadline.has_passed() {
            return Err(busy(target.path(), "the lock file is being replaced all the time"));
        }
    }
}

/// The file that a lock's name refers to now.
pub(crate) fn named(target: &Target, path: &Path) -> Result<Option<Extent>> {
    let found = if_found(target.fs.extent(path)).map_err(Target::failed("look at lock file", path));
    Ok(found?.filter(|found| found.links > 0))
}

/// The queue of one lock in this process.
#[derive(Debug)]
struct Gate {
    id: FileId,
    process: u32,
    state: Mutex<Queue>,
}

/// The gates of this process, by the identity of the lock file.
static GATES: ProcessLocal<Mutex<HashMap<FileId, Arc<Gate>>>> = ProcessLocal::new();

fn gates(process: u32) -> MutexGuard<'static, HashMap<FileId, Arc<Gate>>> {
    GATES.of(process).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    fn of(id: FileId, process: u32) -> Arc<Self> {
        let mut gates = gates(process);
        let new = || Arc::new(Self { id, process, state: Mutex::default() });
        let gate = gates.entry(id).or_insert_with(new).clone();
        gate.lock().arriving += 1;
        gate
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the next caller, and forgets the gate when it is not used any more.
    fn retire(&self, state: MutexGuard<'_, Queue>) {
        state.wake_head();
        let unused = state.is_unused();
        drop(state);
        if unused {
            // Lock order is registry, then gate; so look again now that both are held.
            let mut gates = gates(self.process);
            if gates.get(&self.id).is_some_and(|gate| gate.lock().is_unused()) {
                gates.remove(&self.id);
            }
        }
    }

    fn enter(
        self: Arc<Self>,
        handle: &Arc<dyn Handle>,
        path: &Path,
        mode: Mode,
        request: Request<'_>,
    ) -> Result<Turn> {
        let Request { deadline, cancel, thread } = request;
        if let Some(cancel) = cancel {
            cancel.wakes(&self);
        }
        let mut state = self.lock();
        // A caller that waits on behalf of another thread does not keep that thread from releasing.
        let blocks = thread.is_none() && deadline.may_wait();
        let thread = thread.unwrap_or_else(|| std::thread::current().id());
        let place = Place { ticket: state.next_ticket, mode, thread };
        state.next_ticket += 1;
        state.arriving -= 1;
        if blocks && state.would_wait_for_itself(place) {
            self.retire(state);
            return Err(waits_for_itself(path));
        }
        let bell = Arc::new(Condvar::new());
        state.waiting.push_back((place, bell.clone()));
        loop {
            let may_block = deadline.may_wait() && !deadline.has_passed();
            let next = match state.next(place, handle, may_block) {
                Ok(Next::Block) if deadline.is_never() && cancel.is_none() => {
                    let answered;
                    (state, answered) = self.block(state, handle, mode);
                    answered.map(|()| Next::Have(handle.clone()))
                }
                Ok(Next::Block) => self.park(&mut state, handle, mode).map(|()| Next::Sleep),
                next => next,
            };
            match next {
                Ok(Next::Have(handle)) => {
                    state.leave_queue(place.ticket);
                    state.holders.push(place);
                    if mode == Mode::Shared {
                        state.wake_head(); // It may share.
                    }
                    drop(state);
                    let (ticket, unlocks) = (place.ticket, true);
                    return Ok(Turn {
                        handle,
                        gate: self,
                        ticket,
                        unlocks,
                        home: None,
                        born_us: 0,
                    });
                }
                Ok(Next::Block | Next::Sleep) => {}
                Err(err) => {
                    state.leave_queue(place.ticket);
                    self.retire(state);
                    return Err(Error::io("lock", path, err));
                }
            }
            let cancelled = cancel.is_some_and(Cancel::is_cancelled);
            if cancelled || deadline.has_passed() {
                state.leave_queue(place.ticket);
                self.retire(state);
                return Err(if cancelled {
                    Error::new(ErrorKind::Cancelled, "wait for", "the wait was cancelled").at(path)
                } else {
                    busy(path, "")
                });
            }
            state = match deadline.remaining() {
                None => bell.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let woken = bell.wait_timeout(state, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Blocks the head of the queue in the kernel. It stays the head meanwhile: it cannot give up, and
    /// no other is served before it.
    fn block<'a>(
        &'a self,
        mut state: MutexGuard<'a, Queue>,
        handle: &Arc<dyn Handle>,
        mode: Mode,
    ) -> (MutexGuard<'a, Queue>, io::Result<()>) {
        state.blocked.push((handle.clone(), mode));
        drop(state);
        let answered = handle.lock(mode);
        let mut state = self.lock();
        state.unblock(handle);
        (state, answered)
    }

    /// Has a thread block in the kernel on behalf of the queue.
    fn park(
        self: &Arc<Self>,
        state: &mut Queue,
        handle: &Arc<dyn Handle>,
        mode: Mode,
    ) -> io::Result<()> {
        let (gate, parked) = (self.clone(), handle.clone());
        let wait = move || {
            let answered = parked.lock(mode);
            let mut state = gate.lock();
            state.unblock(&parked);
            state.answer = match answered {
                _ if !state.head_wants(mode) => {
                    // The caller that wanted it gave up. No process may see the lock as held by a
                    // caller that is gone, and a head of the other mode may be blocked by it.
                    let _ = parked.unlock();
                    Answer::None
                }
                Ok(()) => Answer::Granted(parked, mode),
                Err(err) => Answer::Failed(err),
            };
            gate.retire(state);
        };
        waiter_thread::send(wait)?;
        state.blocked.push((handle.clone(), mode));
        Ok(())
    }
}

impl Wake for Gate {
    fn wake(&self) {
        // A sleeper is either before its check or asleep, never between. Each knows whether it is
        // meant.
        self.lock().waiting.iter().for_each(|(_, bell)| bell.notify_one());
    }
}

fn busy(path: &Path, detail: &str) -> Error {
    Error::new(ErrorKind::Busy, "lock", detail).at(path)
}

fn waits_for_itself(path: &Path) -> Error {
    Error::new(ErrorKind::Deadlock, "lock", "this thread holds it already")
        .at(path)
        .hint("release the first hold, or pass its fence")
}
