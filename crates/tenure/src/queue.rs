//! A queue of tasks: each is given to one worker at a time, and completed once.
//!
//! A queue is a collection with one document per task. A claim is a lease on that document, and everything that a worker
//! says about its task is written under the fence of its claim.
//!
//! # Invariants
//!
//! 1. A claim is a lease, so one worker has a task at a time. The state is checked and the attempt counted under its
//!    fence: a task that was completed meanwhile is not given out.
//! 2. A task runs at least once, and is completed exactly once: `done` changes the state from open to done under the
//!    fence of the claim. A worker whose claim ended gets `lease_lost`, unless it was this worker that completed it.
//! 3. A claim that expires returns its task to the queue by itself; no process has to notice.
//! 4. A caller that waits is woken by the bell, a document that `add` and `fail` change, or by the earliest expiry or
//!    delay. If a process died between its change and the bell, waiting callers see the change within [`RECHECK`].
//! 5. Tasks are given out oldest first, by the clock of the caller that added them. A document that is no task, or cannot
//!    be read, is never given out, and hides no other one.
//! 6. A prune removes a task under its lock, and only if it still is over: its id may have been added again meanwhile.
//!
//! Crash: before the document is written the task is not there, after it is. A worker that dies between its lease and
//! the count leaves a lease that expires, and the attempt does not count. One that dies in `done` has completed the task
//! or not; repeating the call says which.

mod record;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::record::Record;
use crate::collection::Collection;
use crate::document::{Document, Watch};
use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::json::Value;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::options::{
    CollectionKind, Durability, Fence, LeaseOptions, LockOptions, Prune, WriteOptions,
};
use crate::random;
use crate::results::{LeaseInfo, Leased};
use crate::store::Store;
use crate::sys;
use crate::wait::{Cancel, Deadline, Wait};

pub use self::record::TaskState;

/// The document that wakes workers. It is in a directory of its own, so that a claim wakes none of them.
const BELL: &str = ".bell/rings";
/// How late a change is seen whose process died before it rang the bell.
const RECHECK: Duration = Duration::from_secs(5);
/// How long a task is looked at again that another worker is about to claim.
const CONTENDED: Duration = Duration::from_millis(2);
/// A caller that does not wait looks so often at tasks that others are about to claim.
const LOOKS: u32 = 25;
/// Between the checks of a wait that can be cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// Tasks for many workers. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Queue {
    store: Arc<dyn Store>,
    tasks: Collection,
    bell: Document,
    /// Tasks that are over. Only ids that the queue gave are here: those are never used again.
    over: Arc<Mutex<HashSet<String>>>,
}

/// How a task is added. The default gives it an id, and any number of attempts.
#[derive(Debug, Clone, Default)]
pub struct AddOptions {
    /// Its id. If there is a task with this id, done or not, nothing is added. It must not have the form of an id that
    /// the queue gives.
    pub id: Option<String>,
    /// It is set aside when so many attempts have failed or expired.
    pub max_attempts: Option<u64>,
    /// How it is written.
    pub write: WriteOptions,
}

/// How a task is claimed.
#[derive(Debug, Clone, Default)]
pub struct ClaimOptions {
    /// Who wants it: a label, not a credential.
    pub owner: String,
    /// How long the claim lasts without a renewal.
    pub ttl: Duration,
    /// How long to wait for a task.
    pub wait: Wait,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
}

/// What becomes of a task whose attempt failed.
#[derive(Debug, Clone, Default)]
pub struct FailOptions {
    /// It is not given out before this time has passed, by the clock of the wall. If that clock is set back meanwhile,
    /// the delay is over.
    pub delay: Duration,
    /// Set it aside if it has had so many attempts, whatever it was added with.
    pub max_attempts: Option<u64>,
    /// Why, for people.
    pub reason: Option<String>,
}

/// A task that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its id. Ids that the queue gives sort by time.
    pub id: String,
    /// False if there was a task with this id.
    pub new: bool,
}

/// A task that the caller has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// Its id.
    pub id: String,
    /// What was added.
    pub task: Value,
    /// The document of the task: with the fence, it guards other writes.
    pub target: PathBuf,
    /// Names the claim to `done`, `fail` and `renew`. Keep it secret.
    pub token: String,
    /// Proves the claim to writes that are guarded by `target`.
    pub fence: Fence,
    /// Which attempt it is, from 1 on.
    pub attempt: u64,
    /// How long the claim lasts without a renewal.
    pub ttl: Duration,
}

/// A task as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What was added.
    pub task: Value,
    /// Where it is.
    pub state: TaskState,
    /// How often it was claimed.
    pub attempts: u64,
    /// When it was added, in microseconds of the wall clock.
    pub added_us: u64,
    /// The last worker that claimed it.
    pub owner: Option<String>,
    /// What is left of its claim, or of its delay.
    pub left: Option<Duration>,
    /// Why it failed last.
    pub reason: Option<String>,
}

impl Queue {
    /// The queue in a directory, whether or not it is there yet.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::on(&(Arc::new(FileStore::local()) as Arc<dyn Store>), dir)
    }

    /// The queue below this name in a store.
    pub fn on(store: &Arc<dyn Store>, name: impl AsRef<Path>) -> Result<Self> {
        let tasks = Collection::on(store, name, CollectionKind::Documents)?;
        let bell = Document::on(store.as_ref(), tasks.path().join(BELL))?;
        Ok(Self { store: store.clone(), tasks, bell, over: Arc::default() })
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.tasks.path()
    }

    /// Adds a task. With an id it is idempotent.
    pub fn add(&self, task: &(impl Clone + Into<Value>), options: &AddOptions) -> Result<Added> {
        if let Some(id) = options.id.as_ref().filter(|id| time_of(id).is_some()) {
            let detail = format!("the id `{id}` has the form of those that the queue gives");
            let error = Error::new(ErrorKind::Invalid, "add a task to", detail).at(self.path());
            return Err(error.hint("choose an id of another form, or none"));
        }
        let id = options.id.clone().map_or_else(new_id, Ok)?;
        let document = self.tasks.document(&id)?;
        // One that is claimed is not written, which would wait for the claim.
        if options.id.is_some() && document.read()?.is_some() {
            return Ok(Added { id, new: false });
        }
        let record = Record::new(Value::from(task), options.max_attempts).into_value();
        let mut new = false;
        document.update(&options.write, |current| {
            new = current.is_none();
            Ok(new.then(|| record.clone()))
        })?;
        self.ring();
        Ok(Added { id, new })
    }

    /// Claims the oldest open task that `accepts` takes; `None` if there is none before the wait is over.
    pub fn next(
        &self,
        options: &ClaimOptions,
        mut accepts: impl FnMut(&str, &Value) -> Result<bool>,
    ) -> Result<Option<Claimed>> {
        let deadline = Deadline::after(options.wait);
        let (mut watch, mut looks) = (None, 0);
        loop {
            let mut until = RECHECK;
            if let Some(claimed) = self.look(options, &mut accepts, &mut until)? {
                return Ok(Some(claimed));
            }
            looks += 1;
            let may_look_again = until <= CONTENDED && looks < LOOKS;
            if deadline.has_passed() && !may_look_again {
                return Ok(None);
            }
            // A change between the look and the watch would be missed, so look once more.
            if watch.is_none() && deadline.may_wait() {
                let quiet = unsynced();
                self.bell.update(&quiet, |rings| Ok(rings.is_none().then(|| Value::from(0))))?;
                watch = Some(self.bell.watch()?);
                continue;
            }
            let left = deadline.remaining().filter(|_| deadline.may_wait());
            let until = left.map_or(until, |left| until.min(left));
            self.sleep(watch.as_mut(), until, options.cancel.as_ref())?;
        }
    }

    /// Sleeps until the bell rings, or for this time.
    fn sleep(
        &self,
        watch: Option<&mut Watch>,
        time: Duration,
        cancel: Option<&Cancel>,
    ) -> Result<()> {
        let Some(watch) = watch else {
            std::thread::park_timeout(time);
            return Ok(());
        };
        let until = Deadline::after(Wait::For(time));
        while !until.has_passed() {
            if cancel.is_some_and(Cancel::is_cancelled) {
                let detail = "the wait was cancelled";
                let error = Error::new(ErrorKind::Cancelled, "wait for a task of", detail);
                return Err(error.at(self.path()));
            }
            let left = until.remaining().unwrap_or_default();
            let slice = if cancel.is_some() { left.min(CANCEL_CHECK) } else { left };
            if watch.next(Wait::For(slice))?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Extends a claim by its time to live, or a new one.
    pub fn renew(&self, id: &str, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        self.require(id, "renew the claim of")?;
        self.lease(id)?.renew(token, ttl)
    }

    /// Completes a task. `false` if this claim had completed it before; `lease_lost` if the claim has ended.
    pub fn done(&self, id: &str, token: &str) -> Result<bool> {
        let end = self.end(id, token, "complete", |record| record.state = TaskState::Done)?;
        if end.state == TaskState::Done {
            return Ok(end.is_new);
        }
        Err(ended(self.tasks.document(id)?.path(), "complete", "the task was set aside"))
    }

    /// Returns a task to the queue, or sets it aside; says which. A task that this claim has ended before stays what it
    /// is. `lease_lost` if the claim has ended.
    pub fn fail(&self, id: &str, token: &str, options: &FailOptions) -> Result<TaskState> {
        let end = self.end(id, token, "fail", |record| {
            let most = options.max_attempts.or(record.max_attempts);
            record.reason.clone_from(&options.reason);
            if most.is_some_and(|most| record.attempts >= most) {
                record.state = TaskState::SetAside;
            } else if !options.delay.is_zero() {
                let delay = u64::try_from(options.delay.as_micros()).unwrap_or(u64::MAX);
                record.not_before_us = sys::wall_time_us().saturating_add(delay);
                record.delay_us = delay;
            }
        })?;
        if end.is_new {
            self.ring();
        }
        let is_delayed = end.state == TaskState::Open && !options.delay.is_zero();
        Ok(if is_delayed { TaskState::Delayed } else { end.state })
    }

    /// Every task, the oldest first.
    pub fn list(&self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for id in self.tasks.keys()? {
            if let Some(task) = self.task(id)? {
                tasks.push(task);
            }
        }
        tasks.sort_by(|one, other| (one.added_us, &one.id).cmp(&(other.added_us, &other.id)));
        Ok(tasks)
    }

    /// Removes tasks that are over, done or set aside, and were added longer ago than this. An id that a
    /// caller chose can be added again.
    pub fn prune(&self, age: Duration, options: &WriteOptions) -> Result<Vec<String>> {
        let age_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let before_us = sys::wall_time_us().saturating_sub(age_us);
        let mut removed = Vec::new();
        for id in self.tasks.keys()? {
            if self.is_due(&id, before_us)? && self.remove_if_due(&id, before_us, options)? {
                removed.push(id);
            }
        }
        // A removal under a lock leaves the files of the lock.
        self.tasks.prune(&Prune::default(), options)?;
        Ok(removed)
    }

    fn is_due(&self, id: &str, before_us: u64) -> Result<bool> {
        let record = self.record(id)?;
        Ok(record.is_some_and(|record| record.state.is_over() && record.added_us <= before_us))
    }

    fn remove_if_due(&self, id: &str, before_us: u64, options: &WriteOptions) -> Result<bool> {
        let locked = LockOptions {
            wait: options.wait,
            cancel: options.cancel.clone(),
            label: options.label.clone(),
            ..LockOptions::default()
        };
        let lock = Lock::on(self.store.as_ref(), self.tasks.path_of(id)?)?.acquire(&locked)?;
        if !self.is_due(id, before_us)? {
            return Ok(false);
        }
        let fence = Some(lock.publish_fence());
        self.tasks.remove(id, &WriteOptions { fence, ..options.clone() })
    }

    /// Claims the first task that can be; else shortens `until` to the time of the next look.
    fn look(
        &self,
        options: &ClaimOptions,
        accepts: &mut dyn FnMut(&str, &Value) -> Result<bool>,
        until: &mut Duration,
    ) -> Result<Option<Claimed>> {
        for id in self.in_order()? {
            let Some(record) = self.record(&id)? else { continue };
            if record.state.is_over() {
                if time_of(&id).is_some() {
                    self.over.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
                }
                continue;
            }
            let lease = self.lease(&id)?;
            let left = record.delay_left().or(running(lease.show()?.as_ref()));
            if let Some(left) = left {
                *until = left.min(*until);
                continue;
            }
            if !accepts(&id, &record.task)? {
                continue;
            }
            match self.claim(&id, &lease, options) {
                Err(error) if error.kind() == ErrorKind::Busy => *until = CONTENDED,
                Ok(None) => {}
                claimed => return claimed,
            }
        }
        Ok(None)
    }

    /// The ids of tasks that may be open, the oldest first.
    fn in_order(&self) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for id in self.tasks.keys()? {
            if let Some(time) = time_of(&id) {
                let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
                if !over.contains(&id) {
                    ids.push((time, id));
                }
            } else if let Some(record) = self.record(&id)?.filter(|record| !record.state.is_over())
            {
                ids.push((record.added_us, id));
            }
        }
        ids.sort();
        Ok(ids.into_iter().map(|(_, id)| id).collect())
    }

    /// Leases the task, and counts the attempt under the fence. `None` if it is not open any more.
    fn claim(&self, id: &str, lease: &Lease, options: &ClaimOptions) -> Result<Option<Claimed>> {
        let leased = lease.acquire(&LeaseOptions {
            owner: options.owner.clone(),
            ttl: options.ttl,
            wait: Wait::No,
            label: format!("task {id}"),
            ..LeaseOptions::default()
        })?;
        let document = self.tasks.document(id)?;
        let mut claimed = None;
        let counted = document.update(&proven(&leased, Durability::NoSync), |current| {
            claimed = None;
            let Some(mut record) = current.and_then(Record::read) else { return Ok(None) };
            if record.state.is_over() || record.delay_left().is_some() {
                return Ok(None);
            }
            if record.max_attempts.is_some_and(|most| record.attempts >= most) {
                // Its last claim expired: no worker was left to report it.
                (record.state, record.claim) = (TaskState::SetAside, None);
                return Ok(Some(record.into_value()));
            }
            record.attempts += 1;
            record.not_before_us = 0;
            record.owner = Some(options.owner.clone());
            record.claim = Some(sum_of(&leased.token));
            claimed = Some(Claimed {
                id: id.to_owned(),
                task: record.task.clone(),
                target: lease.path().to_path_buf(),
                token: leased.token.clone(),
                fence: leased.fence,
                attempt: record.attempts,
                ttl: leased.ttl,
            });
            Ok(Some(record.into_value()))
        });
        if counted.is_err() || claimed.is_none() {
            let _ = lease.release(&leased.token); // Else it expires.
        }
        counted.map(|_| claimed)
    }

    /// Changes the state of a claimed task under its fence, and ends the claim.
    fn end(
        &self,
        id: &str,
        token: &str,
        action: &'static str,
        mut change: impl FnMut(&mut Record),
    ) -> Result<End> {
        self.require(id, action)?;
        let (document, lease, claim) = (self.tasks.document(id)?, self.lease(id)?, sum_of(token));
        let leased = match lease.renew(token, None) {
            Ok(leased) => leased,
            Err(error) if error.kind() == ErrorKind::LeaseLost => {
                let over = self.record(id).ok().flatten().filter(|record| record.state.is_over());
                let own = over.filter(|record| record.claim.as_ref() == Some(&claim));
                // The reply to the first call was lost.
                return own.map(|record| End { state: record.state, is_new: false }).ok_or(error);
            }
            Err(error) => return Err(error),
        };
        let lost = || {
            ended(
                document.path(),
                action,
                "the claim has ended, and another worker may have the task",
            )
        };
        let mut end = End { state: TaskState::Open, is_new: false };
        let written = document.update(&proven(&leased, Durability::Durable), |current| {
            let record = current.and_then(Record::read);
            let mut record =
                record.filter(|record| record.claim.as_ref() == Some(&claim)).ok_or_else(lost)?;
            end.is_new = !record.state.is_over();
            if end.is_new {
                change(&mut record);
            }
            end.state = record.state;
            Ok(end.is_new.then(|| record.into_value()))
        });
        match written {
            Err(error) if error.kind() == ErrorKind::Fenced => return Err(lost()),
            written => written?,
        };
        let _ = lease.release(token); // Else it expires.
        Ok(end)
    }

    fn require(&self, id: &str, action: &'static str) -> Result<()> {
        let document = self.tasks.document(id)?;
        if document.read()?.is_some() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::NotFound, action, "there is no such task");
        Err(error.at(document.path()).hint("check the queue and the id"))
    }

    fn lease(&self, id: &str) -> Result<Lease> {
        Lease::on(self.store.as_ref(), self.tasks.path_of(id)?)
    }

    /// The record of a task; `None` if there is none, or the document is no task.
    fn record(&self, id: &str) -> Result<Option<Record>> {
        Ok(match self.read(id)? {
            Found::Task(record) => Some(record),
            Found::Missing | Found::NoTask => None,
        })
    }

    fn read(&self, id: &str) -> Result<Found> {
        match self.tasks.document(id).and_then(|document| document.read()) {
            Ok(None) => Ok(Found::Missing),
            Ok(Some(found)) => Ok(Record::read(&found.value).map_or(Found::NoTask, Found::Task)),
            Err(error) if is_about_one_file(&error) => Ok(Found::NoTask),
            Err(error) => Err(error),
        }
    }

    /// A task as it is; `None` if it was removed.
    fn task(&self, id: String) -> Result<Option<Task>> {
        let record = match self.read(&id)? {
            Found::Missing => return Ok(None),
            Found::Task(record) => record,
            Found::NoTask => {
                return Ok(Some(Task {
                    id,
                    task: Value::Null,
                    state: TaskState::Damaged,
                    attempts: 0,
                    added_us: 0,
                    owner: None,
                    left: None,
                    reason: None,
                }));
            }
        };
        let (claimed, delayed) = (running(self.lease(&id)?.show()?.as_ref()), record.delay_left());
        let (state, left) = match (record.state, claimed, delayed) {
            (TaskState::Open, Some(left), _) => (TaskState::Claimed, Some(left)),
            (TaskState::Open, None, Some(left)) => (TaskState::Delayed, Some(left)),
            (state, ..) => (state, None),
        };
        let Record { task, attempts, added_us, owner, reason, .. } = record;
        Ok(Some(Task { id, task, state, attempts, added_us, owner, left, reason }))
    }

    /// Wakes workers. If that fails they see the change a little later.
    fn ring(&self) {
        let next = |rings: Option<&Value>| rings.and_then(Value::as_u64).unwrap_or(0) + 1;
        let _ = self.bell.update(&unsynced(), |rings| Ok(Some(Value::from(next(rings)))));
    }
}

/// What the document of an id is.
enum Found {
    Missing,
    NoTask,
    Task(Record),
}

/// How a claim ended its attempt.
struct End {
    state: TaskState,
    /// False if an earlier call ended it.
    is_new: bool,
}

/// The error for a worker whose claim is over.
fn ended(task: &Path, action: &'static str, detail: &str) -> Error {
    let error = Error::new(ErrorKind::LeaseLost, action, detail).at(task);
    error.hint("stop working on it, and claim the next one")
}

/// Whether the error is about one document (a directory with its name, a link that leads nowhere, a file of another
/// user), not about the disk or the store.
fn is_about_one_file(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Damaged | ErrorKind::Invalid | ErrorKind::NotFound => true,
        ErrorKind::Io => error.io_error().is_some_and(|error| {
            sys::is_link_loop(error)
                || matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::NotADirectory
                        | io::ErrorKind::PermissionDenied
                )
        }),
        _ => false,
    }
}

/// What is left of a lease that runs.
fn running(info: Option<&LeaseInfo>) -> Option<Duration> {
    info.and_then(|info| info.expires_in)
}

fn unsynced() -> WriteOptions {
    WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() }
}

/// A write under a claim.
fn proven(leased: &Leased, durability: Durability) -> WriteOptions {
    WriteOptions { fence: Some(leased.fence), durability, ..WriteOptions::default() }
}

/// The checksum by which a claim is recognised in a document; the token itself is not stored.
fn sum_of(token: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(LeaseInfo::sum_of(token)))
}

/// Microseconds of the wall clock and a random part, in digits that sort.
fn new_id() -> Result<String> {
    let random = random::token()?;
    Ok(format!("{:014x}-{}", sys::wall_time_us(), &random[..8]))
}

/// The time in an id that the queue has given.
fn time_of(id: &str) -> Option<u64> {
    let (time, random) = id.split_once('-')?;
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let given = time.len() == 14 && random.len() == 8 && is_hex(time) && is_hex(random);
    given.then(|| u64::from_str_radix(time, 16).ok()).flatten()
}
