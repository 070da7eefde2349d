//! A worker on a store: one random operation after another, each reported before it is called and after it returned.
//!
//! `tenure torture-worker store ...` is started by the parent, never by people.
//!
//! # Invariants
//!
//! 1. A call is reported before it is made and its return after it has returned, by one clock for all processes. So
//!    the times of an operation enclose the moment at which it took effect.
//! 2. A value is written by one worker, once.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::{
    Document, Error, ErrorKind, Journal, Lease, LeaseOptions, Lock, LockOptions, Value, Version,
    Wait, WriteOptions,
};
use tenure_remote::RemoteStore;

use super::URL;
use crate::demo::Dice;
use crate::history::Object;
use crate::history::objects::{Careful, Client, Hands, Objects, changed_nothing};
use crate::torture::clock;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::word::Word;
use crate::torture::worker::{obey, say};

/// The first argument of such a worker.
pub(in crate::torture) const STORE: &str = "store";

/// The names of the journals that are written under the lock and under the lease. Each is its own target.
pub(super) const LOCKED: &str = "locked.jsonl";
pub(super) const LEASED: &str = "leased.jsonl";
/// Their keys in a collection of journals.
pub(super) const HELD: [&str; 2] = ["locked", "leased"];

/// The shortest lease of a store.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// The arguments of a worker.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// The name that all others are below.
    pub(super) dir: PathBuf,
    /// Tells the objects of this round apart.
    pub(super) tag: String,
    pub(super) generation: u64,
    pub(super) seed: u64,
    /// The mean time between operations, in microseconds.
    pub(super) pace: u64,
    /// Without any protection.
    pub(super) is_naive: bool,
    pub(super) things: Vec<Thing>,
}

impl Task {
    pub(super) fn words(&self) -> Vec<OsString> {
        let numbers = [self.generation, self.seed, self.pace, u64::from(self.is_naive)];
        let things: Vec<_> = self.things.iter().map(|thing| thing.name()).collect();
        let mut words = vec![STORE.into(), self.dir.clone().into(), self.tag.clone().into()];
        words.extend(numbers.iter().map(|number| OsString::from(number.to_string())));
        words.push(things.join(",").into());
        words
    }

    fn parse(words: &[OsString]) -> Option<Self> {
        let [dir, tag, generation, seed, pace, is_naive, things] = words else { return None };
        let number = |word: &OsString| word.to_str()?.parse::<u64>().ok();
        let things: Option<Vec<_>> = things.to_str()?.split(',').map(Thing::parse).collect();
        Some(Self {
            dir: dir.into(),
            tag: tag.to_str()?.to_owned(),
            generation: number(generation)?,
            seed: number(seed)?,
            pace: number(pace)?,
            is_naive: number(is_naive)? != 0,
            things: things?,
        })
    }
}

/// Runs a worker with the arguments after [`STORE`].
pub(in crate::torture) fn run(
    words: &[OsString],
    stranger: impl Fn() -> io::Error,
) -> io::Result<()> {
    let task = Task::parse(words).ok_or_else(&stranger)?;
    let url = std::env::var(URL).map_err(|_| stranger())?;
    let store = tenure_remote::open(&url).map_err(|error| io::Error::other(error.to_string()))?;
    let quit = obey()?;
    let (dice, next) = (Dice::new(task.seed), task.generation << 32);
    let mut worker = Worker { store: &store, dice, next, fences: 0, said: Ok(()), task };
    let known = AtomicU64::new(0);
    let task = worker.task.clone();
    let hands: &dyn Hands = if task.is_naive { &Careless } else { &Careful };
    let objects = Objects::new(&store, hands, &known, &task.dir, &task.tag);
    while !quit.load(Ordering::Relaxed) {
        worker.operation(&objects, hands);
        std::mem::replace(&mut worker.said, Ok(()))?;
        // Not all at full speed: a history is searched, and faults take a while to bite.
        std::thread::park_timeout(Duration::from_micros(worker.dice.between(0, 2 * task.pace)));
    }
    Ok(())
}

struct Worker<'a> {
    task: Task,
    store: &'a RemoteStore,
    dice: Dice,
    next: u64,
    /// Those that a naive worker has counted itself.
    fences: u64,
    /// Whether the parent heard it.
    said: io::Result<()>,
}

impl Client for Worker<'_> {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn call(
        &mut self,
        object: Object,
        action: &str,
        arguments: &[u64],
        operate: &mut dyn FnMut() -> tenure::Result<Vec<u64>>,
    ) {
        let thing = if object == Object::Queue { Thing::Journal } else { Thing::Document };
        self.report(thing, object.name(), action, arguments, operate);
    }
}

impl Worker<'_> {
    fn operation(&mut self, objects: &Objects<'_>, hands: &dyn Hands) {
        let turn = self.dice.between(0, self.task.things.len() as u64);
        let pick = self.dice.between(0, 1 << 32);
        match self.task.things[usize::try_from(turn).unwrap_or(0)] {
            Thing::Lock => self.lock(hands),
            Thing::Lease => self.lease(hands),
            Thing::Journal => objects.operate(Object::Queue, pick, self),
            _ => {
                let documents = [Object::Counter, Object::Register, Object::Jobs];
                let turn = usize::try_from(self.dice.between(0, 3)).unwrap_or(0);
                objects.operate(documents[turn], pick, self);
            }
        }
    }

    /// Reports the call, makes it, and reports what it returned.
    fn report(
        &mut self,
        thing: Thing,
        object: &str,
        action: &str,
        arguments: &[u64],
        operate: &mut dyn FnMut() -> tenure::Result<Vec<u64>>,
    ) {
        let (object, action, arguments) =
            (object.to_owned(), action.to_owned(), arguments.to_vec());
        self.say(&Word::Call { object, action, arguments, at: clock::now() });
        match operate() {
            Ok(answer) => self.say(&Word::Return { answer, at: clock::now() }),
            Err(error) => {
                self.say(&Word::Refused { unchanged: changed_nothing(&error) });
                self.note(thing, &error);
            }
        }
    }

    /// What no fault of a client explains.
    fn note(&mut self, thing: Thing, error: &Error) {
        let fault = match error.kind() {
            ErrorKind::Damaged => Fault::Corrupt,
            ErrorKind::NotFound => Fault::Lost,
            ErrorKind::Invalid | ErrorKind::Unsupported => Fault::Failed,
            _ => return,
        };
        self.say(&Word::Bad(Finding::new(thing, fault, error.to_string())));
    }

    fn say(&mut self, word: &Word) {
        if self.said.is_ok() {
            self.said = say(word);
        }
    }

    /// Most waits are short, so that not all workers wait for a dead holder.
    fn wait(&mut self) -> Wait {
        let long = self.dice.between(0, 4) == 0;
        Wait::For(if long { 3 * LEASE } else { Duration::from_millis(100) })
    }

    fn lock(&mut self, hands: &dyn Hands) {
        let (store, name) = (self.store, self.task.dir.join(LOCKED));
        if self.task.is_naive {
            return self.naive(Thing::Lock, &name, hands);
        }
        let options = LockOptions { wait: self.wait(), ..LockOptions::default() };
        let mut held = None;
        self.report(Thing::Lock, "lock", "hold", &[], &mut || {
            let guard = Lock::on(store, &name)?.acquire(&options)?;
            let fence = guard.publish_fence();
            held = Some((guard, fence));
            Ok(vec![fence])
        });
        let Some((guard, fence)) = held else { return };
        for _ in 0..self.dice.between(1, 4) {
            self.write(Thing::Lock, &name, fence, hands);
            self.dwell();
        }
        self.report(Thing::Lock, "lock", "verify", &[fence], &mut || {
            guard.verify().map(|()| Vec::new())
        });
        let _ = guard.release(); // A lost hold is over already.
    }

    fn lease(&mut self, hands: &dyn Hands) {
        let (store, name) = (self.store, self.task.dir.join(LEASED));
        if self.task.is_naive {
            return self.naive(Thing::Lease, &name, hands);
        }
        let takes = self.dice.between(0, 8) == 0;
        let (owner, wait) = ("tenure torture".to_owned(), self.wait());
        let options = LeaseOptions { owner, ttl: LEASE, wait, ..LeaseOptions::default() };
        let mut held = None;
        self.report(Thing::Lease, "lease", "hold", &[], &mut || {
            let lease = Lease::on(store, &name)?;
            let leased = if takes {
                lease.take_over(&options, "tenure torture")?
            } else {
                lease.acquire(&options)?
            };
            let fence = leased.fence;
            held = Some((lease, leased));
            Ok(vec![fence])
        });
        let Some((lease, leased)) = held else { return };
        for _ in 0..self.dice.between(1, 4) {
            self.write(Thing::Lease, &name, leased.fence, hands);
            self.dwell();
        }
        self.report(Thing::Lease, "lease", "renew", &[leased.fence], &mut || {
            lease.renew(&leased.token, None).map(|_| Vec::new())
        });
        if self.dice.between(0, 10) != 0 {
            let _ = lease.release(&leased.token); // Else it expires.
        }
    }

    /// A line under a fence.
    fn write(&mut self, thing: Thing, name: &Path, fence: u64, hands: &dyn Hands) {
        let (store, value) = (self.store, self.fresh());
        let write = WriteOptions { fence: Some(fence), ..WriteOptions::default() };
        self.report(thing, thing.name(), "write", &[fence, value], &mut || {
            let journal = Journal::on(store, name)?;
            Ok(vec![hands.append(&journal, &value.to_string(), &write)?])
        });
    }

    /// A moment inside a hold.
    fn dwell(&mut self) {
        std::thread::park_timeout(Duration::from_micros(self.dice.between(0, 8000)));
    }

    /// A hold that is none, with a fence that this process has counted itself.
    fn naive(&mut self, thing: Thing, name: &Path, hands: &dyn Hands) {
        self.fences += 1;
        let fence = self.fences;
        self.report(thing, thing.name(), "hold", &[], &mut || Ok(vec![fence]));
        self.write(thing, name, fence, hands);
    }
}

/// Without any protection: what was read is written back, versions and fences are not looked at, and now and then an
/// append is repeated although it was done.
struct Careless;

impl Hands for Careless {
    fn update(
        &self,
        document: &Document,
        edit: &mut dyn FnMut(Option<&Value>) -> Value,
    ) -> tenure::Result<()> {
        let found = document.read()?;
        let value = edit(found.as_ref().map(|found| &found.value));
        document.set(&value, &WriteOptions::default()).map(drop)
    }

    fn compare_and_set(
        &self,
        document: &Document,
        _: &Version,
        value: &Value,
    ) -> tenure::Result<bool> {
        document.set(value, &WriteOptions::default()).map(|_| true)
    }

    fn append(&self, journal: &Journal, line: &str, _: &WriteOptions) -> tenure::Result<u64> {
        let number = Careful.append(journal, line, &WriteOptions::default())?;
        if line.ends_with('7') {
            Careful.append(journal, line, &WriteOptions::default())?;
        }
        Ok(number)
    }
}
