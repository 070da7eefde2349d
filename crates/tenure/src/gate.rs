//! Waiting for a kernel lock: the head of a first-come queue of this process's callers is blocked in
//! the kernel, and the others behind it.
//!
//! # Invariants
//!
//! 1. Whoever has a [`Turn`] holds the kernel lock on the file that the path named at that instant:
//!    after every grant the handle is compared with the path, and a difference starts over.
//! 2. Callers of one process are served in the order they came; a caller that gives up leaves the
//!    queue and nothing else behind. Whoever can give up has a thread parked in the kernel in its
//!    stead, at most one per lock and mode, however many give up; a lock it is granted after everybody
//!    left is released at once. Who cannot give up is blocked there itself, and is woken once, not
//!    twice. The handle of somebody blocked is locked by nobody else meanwhile.
//! 3. Release acts on its own handle. The queue learns of it after the kernel does.
//! 4. Whoever is at the head of the queue is woken when it may be its turn; nobody else is, unless a
//!    wait is cancelled.
//! 5. A child of `fork` has a registry of its own and never unlocks what its parent holds: the lock
//!    belongs to the open file description that both share.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileId, Handle, Mode, RawHandle};
use crate::process_local::ProcessLocal;
use crate::sys;
use crate::target::{Home, Opened, Target};
use crate::wait::{Cancel, Request, Wake};

/// The parked thread only makes one system call.
const PARKED_STACK_BYTES: usize = 64 * 1024;

/// The kernel lock is ours; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Turn {
    handle: Arc<dyn Handle>,
    gate: Arc<Gate>,
    ticket: u64,
    /// Cleared when a child process keeps the lock and our copy is only closed.
    unlocks: bool,
    /// Where the file goes afterwards, if only this process ever had it.
    home: Option<Home>,
    /// When the file was born, as its name told right after the grant.
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
        // The path may have been given to another file while we waited (invariant 1). Whoever
        // removes it for good reason (a pruned key) does so under this very lock.
        match target.fs.extent(path) {
            Ok(found) if found.id == id && found.links > 0 => {
                turn.born_us = found.born_us;
                // One that waited for somebody else belongs to nobody.
                turn.home = Arc::ptr_eq(&turn.handle, &handle).then_some(home);
                return Ok(turn);
            }
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(Error::io("look at lock file", path, err)),
        }
        if request.deadline.may_wait() && request.deadline.has_passed() {
            return Err(busy(target.path(), "the lock file is being replaced all the time"));
        }
    }
}

/// The queue of one lock in this process.
#[derive(Debug)]
struct Gate {
    id: FileId,
    process: u32,
    state: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    holders: Vec<Place>,
    waiting: VecDeque<(Place, Arc<Condvar>)>,
    /// The handles that somebody is blocked on in the kernel, for the queue or as its head.
    blocked: Vec<(Arc<dyn Handle>, Mode)>,
    answer: Answer,
    /// Callers between finding the gate and joining its queue.
    arriving: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    ticket: u64,
    mode: Mode,
    /// The thread that can release it.
    thread: ThreadId,
}

/// What the kernel told a parked thread.
#[derive(Debug, Default)]
enum Answer {
    #[default]
    None,
    Granted(Arc<dyn Handle>, Mode),
    Failed(io::Error),
}

/// What a caller does next.
#[derive(Debug)]
enum Next {
    Have(Arc<dyn Handle>),
    /// Nobody is blocked in the kernel for it.
    Block,
    /// Until its bell rings.
    Sleep,
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

    /// Wakes whoever is next, and forgets the gate when nobody uses it any more.
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
        // Whoever waits on behalf of another thread does not keep that one from releasing.
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
    /// nobody is served before it.
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
                    // Whoever did gave up. Nobody may see the lock as held by a caller that is gone,
                    // and a head of the other mode may be blocked by it itself.
                    let _ = parked.unlock();
                    Answer::None
                }
                Ok(()) => Answer::Granted(parked, mode),
                Err(err) => Answer::Failed(err),
            };
            gate.retire(state);
        };
        let thread = std::thread::Builder::new().name("tenure-wait".into());
        thread.stack_size(PARKED_STACK_BYTES).spawn(wait)?;
        state.blocked.push((handle.clone(), mode));
        Ok(())
    }
}

impl Wake for Gate {
    fn wake(&self) {
        // A sleeper is either before its check or asleep, never between. Which one is meant, it knows.
        self.lock().waiting.iter().for_each(|(_, bell)| bell.notify_one());
    }
}

impl Queue {
    fn is_unused(&self) -> bool {
        self.holders.is_empty()
            && self.waiting.is_empty()
            && self.arriving == 0
            && self.blocked.is_empty()
            && matches!(self.answer, Answer::None)
    }

    fn leave_queue(&mut self, ticket: u64) {
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
    fn wake_head(&self) {
        if let Some((_, bell)) = self.waiting.front() {
            bell.notify_one();
        }
    }

    /// The same thread holds it already, in a way that can never end while it waits here.
    fn would_wait_for_itself(&self, place: Place) -> bool {
        self.holders.iter().any(|holder| {
            holder.thread == place.thread
                && (holder.mode == Mode::Exclusive || place.mode == Mode::Exclusive)
        })
    }

    fn head_wants(&self, mode: Mode) -> bool {
        self.waiting.front().is_some_and(|(head, _)| head.mode == mode)
    }

    fn unblock(&mut self, handle: &Arc<dyn Handle>) {
        self.blocked.retain(|(blocked, _)| !Arc::ptr_eq(blocked, handle));
    }

    /// The lock for the caller at the head of the queue: as a parked thread was granted it, or by
    /// trying.
    fn next(
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

fn busy(path: &Path, detail: &str) -> Error {
    Error::new(ErrorKind::Busy, "lock", detail).at(path)
}

fn waits_for_itself(path: &Path) -> Error {
    Error::new(ErrorKind::Deadlock, "lock", "this thread holds it already")
        .at(path)
        .hint("release the first hold, or pass its fence to prove it")
}
