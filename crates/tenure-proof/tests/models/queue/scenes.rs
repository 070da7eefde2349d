//! The scenes played with the queue: which threads want the lock, give up, or have it.

use std::any::Any;
use std::path::Path;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use tenure::fs::Mode;
use tenure::{ErrorKind, Result};

use super::stage::process_local::start_run;
use super::stage::target::Target;
use super::stage::wait::{Cancel, Request, Wait};

/// `gate::take` of one copy.
pub(super) type Take<'a> =
    &'a (dyn Fn(&Target, &Path, Mode, Request<'_>) -> Result<Box<dyn Any>> + Sync);

#[derive(Debug, Clone, Copy)]
pub(super) enum Scene {
    /// Writers of one process, and two other processes.
    Crowd,
    /// The same, and some of them may give up.
    Patient,
    /// Writers and readers.
    Readers,
    /// A waiter is cancelled while another process has the lock; another waiter follows.
    Cancelled,
    /// The lock is granted to a writer that left, while a reader releases it and the next writer
    /// leaves. Only the end is random.
    Departed,
    /// All waiters give up while another process has the lock.
    AllGone,
    /// A waiter is cancelled while a holder waits for it to leave.
    Waiting,
    /// A writer gives up while another process reads: the reader behind it shares the lock.
    Shares,
    /// A holder replaces the lock file while others wait.
    Replaced,
}

impl Scene {
    pub(super) const ALL: [Self; 9] = [
        Self::Crowd,
        Self::Patient,
        Self::Readers,
        Self::Cancelled,
        Self::Departed,
        Self::AllGone,
        Self::Waiting,
        Self::Shares,
        Self::Replaced,
    ];
}

/// The holders, by file: a lock file that was replaced has other holders.
#[derive(Default)]
struct Inside {
    writers: AtomicUsize,
    readers: AtomicUsize,
}

impl Inside {
    fn visit(&self, mode: Mode) {
        let (own, limit) = match mode {
            Mode::Exclusive => (&self.writers, 0),
            Mode::Shared => (&self.readers, usize::MAX),
        };
        let others = own.fetch_add(1, Ordering::SeqCst);
        assert!(others <= limit, "two holders");
        thread::yield_now();
        let both =
            self.writers.load(Ordering::SeqCst) > 0 && self.readers.load(Ordering::SeqCst) > 0;
        assert!(!both, "a writer among readers");
        own.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Plays a scene once. Shuttle finds a hang, [`Inside`] finds two holders.
pub(super) fn play(scene: Scene, take: Take<'static>) {
    start_run();
    let target = Target::new();
    let inside = Arc::new(Inside::default());
    let actors = match scene {
        Scene::Crowd => vec![
            writer(&target, &inside, take, None),
            writer(&target, &inside, take, None),
            other_process(&target, &inside),
            other_process(&target, &inside),
        ],
        Scene::Patient => {
            let never = Cancel::new();
            vec![
                writer(&target, &inside, take, Some(&never)),
                writer(&target, &inside, take, None),
                caller(&target, &inside, take, Mode::Shared, Some(&never)),
                other_process(&target, &inside),
            ]
        }
        Scene::Readers => vec![
            writer(&target, &inside, take, None),
            caller(&target, &inside, take, Mode::Shared, None),
            caller(&target, &inside, take, Mode::Shared, None),
            other_process(&target, &inside),
        ],
        Scene::Cancelled | Scene::AllGone => {
            let cancel = Cancel::new();
            let mut actors = vec![
                other_process(&target, &inside),
                writer(&target, &inside, take, Some(&cancel)),
                caller(&target, &inside, take, Mode::Shared, Some(&cancel)),
            ];
            if matches!(scene, Scene::Cancelled) {
                actors.push(writer(&target, &inside, take, None));
                actors.push(other_process(&target, &inside));
            }
            actors.push(thread::spawn(move || cancel.cancel()));
            actors
        }
        Scene::Departed => {
            let (cancel, later) = (Cancel::new(), Cancel::new());
            let hold = target.fs.open();
            hold.lock(Mode::Exclusive).expect("a kernel lock");
            let first = writer(&target, &inside, take, Some(&cancel));
            target.fs.await_blocked();
            cancel.cancel();
            first.join().expect("the first writer panicked");
            hold.lock(Mode::Shared).expect("a weaker lock");
            let request = Request::new(Wait::Forever, None, None);
            let reader = take(&target, Path::new("lock"), Mode::Shared, request);
            let reader = reader.expect("a lock that is shared");
            hold.unlock().expect("a kernel unlock");
            let next = writer(&target, &inside, take, Some(&later));
            let leaving = thread::spawn(move || later.cancel());
            drop(reader);
            vec![next, leaving]
        }
        Scene::Waiting => {
            let cancel = Cancel::new();
            let hold = target.fs.open();
            hold.lock(Mode::Exclusive).expect("a kernel lock");
            let waiter = writer(&target, &inside, take, Some(&cancel));
            cancel.cancel();
            waiter.join().expect("the waiter panicked");
            hold.unlock().expect("a kernel unlock");
            Vec::new()
        }
        Scene::Shares => {
            let (cancel, never) = (Cancel::new(), Cancel::new());
            let before = other_process(&target, &inside);
            let actors = [
                writer(&target, &inside, take, Some(&cancel)),
                caller(&target, &inside, take, Mode::Shared, Some(&never)),
                thread::spawn(move || cancel.cancel()),
            ];
            let hold = target.fs.open();
            hold.lock(Mode::Shared).expect("a kernel lock");
            for actor in actors {
                actor.join().expect("an actor panicked");
            }
            hold.unlock().expect("a kernel unlock");
            vec![before]
        }
        Scene::Replaced => vec![
            replacer(&target, take),
            writer(&target, &inside, take, None),
            writer(&target, &inside, take, None),
        ],
    };
    for actor in actors {
        actor.join().expect("an actor panicked");
    }
    // Another process gets the lock: a grant without a waiter is released.
    other_process(&target, &inside).join().expect("the last actor panicked");
}

fn writer(
    target: &Target,
    inside: &Arc<Inside>,
    take: Take<'static>,
    cancel: Option<&Cancel>,
) -> thread::JoinHandle<()> {
    caller(target, inside, take, Mode::Exclusive, cancel)
}

/// A thread of this process: waits for the lock, or until it is cancelled.
fn caller(
    target: &Target,
    inside: &Arc<Inside>,
    take: Take<'static>,
    mode: Mode,
    cancel: Option<&Cancel>,
) -> thread::JoinHandle<()> {
    let (target, inside, cancel) = (target.clone(), inside.clone(), cancel.cloned());
    thread::spawn(move || {
        let request = Request::new(Wait::Forever, cancel.as_ref(), None);
        match take(&target, Path::new("lock"), mode, request) {
            Ok(_turn) => inside.visit(mode),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
    })
}

/// A process with its own queue: only the kernel's lock counts.
fn other_process(target: &Target, inside: &Arc<Inside>) -> thread::JoinHandle<()> {
    let (target, inside) = (target.clone(), inside.clone());
    thread::spawn(move || {
        let handle = target.fs.open();
        handle.lock(Mode::Exclusive).expect("a kernel lock");
        inside.visit(Mode::Exclusive);
        handle.unlock().expect("a kernel unlock");
    })
}

/// Holds the lock, moves its name to another file, and releases it.
fn replacer(target: &Target, take: Take<'static>) -> thread::JoinHandle<()> {
    let target = target.clone();
    // Not counted as inside after the replacement: the next holder has another file.
    thread::spawn(move || {
        let request = Request::new(Wait::Forever, None, None);
        let turn = take(&target, Path::new("lock"), Mode::Exclusive, request);
        let turn = Mutex::new(turn.expect("the lock"));
        target.fs.replace();
        thread::yield_now();
        drop(turn);
    })
}
