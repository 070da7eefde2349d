//! The load: workers that use one store, each by a handle of its own, and what they were answered and when.
//!
//! A round begins and ends in quiet. Its operations on a counter, a register, a journal and a list of jobs are a history
//! for the checker; its holds of a lock are judged here.
//!
//! # Invariants
//!
//! 1. The objects, their operations and the checks of fences are those of `tenure torture --store`
//!    (`tenure_torture::history`).
//! 2. An error that says that nothing was changed removes its operation from the history. Any other error leaves the
//!    operation without an answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::store::Store;
use tenure::{AppendOptions, Error, Guard, Journal, Lock, LockOptions, Wait, WriteOptions};
use tenure_proof::{History, Object, Operation};
use tenure_testkit::Random;
use tenure_torture::history::holds::{Grant, fences_fall, former_holder_wrote};
pub(crate) use tenure_torture::history::objects::changed_nothing;
use tenure_torture::history::objects::{self, Careful, Client, Objects, numbered, patiently, rank};

/// Clients recover by themselves within this time after the last fault.
const RECOVERY: Duration = Duration::from_secs(45);
/// Each call waits at most this long for others.
const WAIT: Duration = Duration::from_secs(5);

/// Where the objects are.
const DIR: &str = "/load";
const LOCK: &str = "/load/lock";
const FENCED: &str = "/load/fenced";

/// What happened to operations.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Answered.
    pub(crate) acknowledged: u64,
    /// Refused: nothing was changed.
    pub(crate) refused: u64,
    /// Failed, and may have happened.
    pub(crate) ambiguous: u64,
    /// Acknowledged, and not there.
    pub(crate) lost: u64,
    /// Holds of the lock.
    pub(crate) holds: u64,
}

/// A run over several rounds of one store.
#[derive(Debug)]
pub(crate) struct Load {
    handles: Vec<Arc<dyn Store>>,
    begin: Instant,
    value: AtomicU64,
    round: u64,
    history: History,
    grants: Vec<Grant>,
    pub(crate) counts: Counts,
    /// An error of each kind, as people see it.
    pub(crate) errors: Vec<String>,
    findings: Vec<String>,
}

/// What a worker did in a round.
#[derive(Debug, Default)]
struct Done {
    operations: Vec<Operation>,
    grants: Vec<Grant>,
    counts: Counts,
    errors: Vec<String>,
    findings: Vec<String>,
}

impl Load {
    /// One worker for each handle.
    pub(crate) fn new(handles: Vec<Arc<dyn Store>>) -> Self {
        let load = Self {
            handles,
            begin: Instant::now(),
            value: AtomicU64::new(0),
            round: 0,
            history: History::default(),
            grants: Vec::new(),
            counts: Counts::default(),
            errors: Vec::new(),
            findings: Vec::new(),
        };
        let known = AtomicU64::new(0);
        let created = load.objects(0, &known).create();
        created.expect("the store works before the first fault");
        load
    }

    /// The objects, through one of the handles.
    fn objects<'a>(&'a self, handle: usize, known: &'a AtomicU64) -> Objects<'a> {
        Objects::new(self.handles[handle].as_ref(), &Careful, known, Path::new(DIR), "")
    }

    /// Workers work while `disturb` runs, and a moment longer.
    pub(crate) fn round(&mut self, seed: u64, disturb: impl FnOnce()) {
        self.round += 1;
        let known = AtomicU64::new(0);
        let mut operations = self.look("start", &known);
        let is_over = AtomicBool::new(false);
        let done: Vec<Done> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.handles.len())
                .map(|index| {
                    let random = Random::new(seed ^ (self.round << 8) ^ index as u64);
                    let store = self.handles[index].as_ref();
                    let (begin, value, done) = (self.begin, &self.value, Done::default());
                    let mut worker = Worker { store, random, begin, value, done };
                    let (load, known, is_over) = (&*self, &known, &is_over);
                    scope.spawn(move || {
                        let objects = load.objects(index, known);
                        while !is_over.load(SeqCst) {
                            worker.operation(&objects);
                        }
                        worker.done
                    })
                })
                .collect();
            disturb();
            is_over.store(true, SeqCst);
            workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
        });
        for done in done {
            operations.extend(done.operations);
            self.grants.extend(done.grants);
            self.errors.extend(done.errors);
            self.findings.extend(done.findings);
            self.counts.acknowledged += done.counts.acknowledged;
            self.counts.refused += done.counts.refused;
            self.counts.ambiguous += done.counts.ambiguous;
            self.counts.holds += done.counts.holds;
        }
        operations.extend(self.look("end", &known));
        self.rank(&mut operations);
        for operation in operations {
            self.history.add(self.round, operation);
        }
    }

    /// What is wrong with all of it.
    pub(crate) fn findings(&mut self) -> Vec<String> {
        let mut findings = std::mem::take(&mut self.findings);
        let broken = self.history.violations();
        findings.extend(broken.iter().map(|broken| format!("not linearizable: {broken:?}")));
        findings.extend(fences_fall(&self.grants));
        findings.extend(self.fenced_late());
        findings
    }

    /// The history so far.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The state in quiet. The store has to answer by itself soon after the last fault.
    fn look(&self, action: &str, known: &AtomicU64) -> Vec<Operation> {
        let objects = self.objects(0, known);
        let mut operations = Vec::new();
        for object in Object::ALL {
            let call = self.begin.elapsed();
            let answer = recovered(|| objects.state(object));
            let returned = Some((answer, micros(self.begin.elapsed())));
            let (action, call) = (action.to_owned(), micros(call));
            operations.push(Operation { object, action, arguments: Vec::new(), call, returned });
        }
        operations
    }

    /// Replaces numbers of entries by their ranks, and counts acknowledged ones that are lost.
    fn rank(&mut self, operations: &mut [Operation]) {
        let known = AtomicU64::new(0);
        let entries = recovered(|| self.objects(0, &known).entries());
        self.counts.lost += rank(operations, &entries).len() as u64;
    }

    /// Lines that former holders wrote after later ones: their fences fall in the order of the journal.
    fn fenced_late(&self) -> Option<String> {
        let lines = recovered(|| entries(self.handles[0].as_ref(), FENCED, 0));
        let fences: Vec<u64> = lines.iter().map(|(_, line)| *line).collect();
        former_holder_wrote(&fences)
    }
}

struct Worker<'a> {
    store: &'a dyn Store,
    random: Random,
    begin: Instant,
    value: &'a AtomicU64,
    done: Done,
}

impl Worker<'_> {
    fn operation(&mut self, objects: &Objects<'_>) {
        let pick = self.random.bits();
        match self.random.below(12) {
            0..3 => objects.operate(Object::Counter, pick, self),
            3..5 => objects.operate(Object::Register, pick, self),
            5..8 => objects.operate(Object::Queue, pick, self),
            8..10 => objects.operate(Object::Jobs, pick, self),
            _ => self.hold(),
        }
        // Not all at full speed: a history is searched, and faults take a while to bite.
        std::thread::park_timeout(Duration::from_micros(self.random.below(4000)));
    }

    fn now(&self) -> u64 {
        micros(self.begin.elapsed())
    }

    /// Takes the lock, and writes under it.
    fn hold(&mut self) {
        let call = self.now();
        let lock = Lock::on(self.store, LOCK);
        let options = LockOptions { wait: Wait::For(WAIT), ..LockOptions::default() };
        let guard = match lock.and_then(|lock| lock.acquire(&options)) {
            Ok(guard) => guard,
            Err(error) => return self.failed(&error),
        };
        let fence = guard.publish_fence();
        self.done.grants.push(Grant { call, at: self.now(), fence });
        self.done.counts.holds += 1;
        for _ in 0..2 {
            let proof = vec![Guard { target: LOCK.into(), fence }];
            let write = WriteOptions { guards: proof, ..WriteOptions::default() };
            if let Err(error) = append(self.store, FENCED, fence, &write) {
                self.failed(&error);
            }
        }
        if let Err(error) = guard.release() {
            self.failed(&error);
        }
    }

    /// Errors are one line, and name the target.
    fn failed(&mut self, error: &Error) {
        let text = error.to_string();
        if text.contains('\n') || !text.contains("/load/") {
            self.done.findings.push(format!("an unclear error: {text:?}"));
        }
        if self.done.errors.len() < 3 {
            self.done.errors.push(text);
        }
    }
}

impl Client for Worker<'_> {
    fn fresh(&mut self) -> u64 {
        self.value.fetch_add(1, SeqCst) + 1
    }

    fn call(
        &mut self,
        object: Object,
        action: &str,
        arguments: &[u64],
        operate: &mut dyn FnMut() -> tenure::Result<Vec<u64>>,
    ) {
        let call = self.now();
        let returned = match operate() {
            Ok(answer) => {
                self.done.counts.acknowledged += 1;
                Some((answer, self.now()))
            }
            Err(error) => {
                self.failed(&error);
                if changed_nothing(&error) {
                    self.done.counts.refused += 1;
                    return;
                }
                self.done.counts.ambiguous += 1;
                None
            }
        };
        let (action, arguments) = (action.to_owned(), arguments.to_vec());
        self.done.operations.push(Operation { object, action, arguments, call, returned });
    }
}

/// Asks until there is an answer.
pub(crate) fn recovered<T>(ask: impl FnMut() -> tenure::Result<T>) -> T {
    patiently(RECOVERY, ask).unwrap_or_else(|error| panic!("no recovery in {RECOVERY:?}: {error}"))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("a short run")
}

fn append(store: &dyn Store, name: &str, value: u64, write: &WriteOptions) -> tenure::Result<u64> {
    let options = AppendOptions { write: write.clone(), ..AppendOptions::default() };
    Ok(Journal::on(store, name)?.append(&[value.to_string()], &options)?.last)
}

/// The entries of a journal from a number on, each a number itself. A gap is an error.
pub(crate) fn entries(store: &dyn Store, name: &str, from: u64) -> tenure::Result<Vec<(u64, u64)>> {
    objects::entries(store, Path::new(name), from)
}

/// Numbers and values of entries, or the first and the last number of gaps.
type Pairs = Vec<(u64, u64)>;

/// The same, with the gaps apart.
pub(crate) fn entries_and_gaps(
    store: &dyn Store,
    name: &str,
    from: u64,
) -> tenure::Result<(Pairs, Pairs)> {
    let (mut entries, mut gaps) = (Vec::new(), Vec::new());
    for entry in Journal::on(store, name)?.read(from, None)? {
        match entry {
            Ok(entry) => entries.push(numbered(Path::new(name), &entry)?),
            Err(error) => gaps.push(error.gap().ok_or(error)?),
        }
    }
    Ok((entries, gaps))
}
