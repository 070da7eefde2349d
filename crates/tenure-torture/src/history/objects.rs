//! The objects of a history in a store, and how a client uses them: a counter, a register with compare-and-set and a
//! list of jobs are documents, the queue is a journal.
//!
//! # Invariants
//!
//! 1. Every value is written once, so that a version and a value mean the same.
//! 2. Numbers of entries grow and are not consecutive. [`rank`] replaces them by their place in the journal, which is
//!    read whole after the round; an acknowledged entry that is not there gets a rank that no order explains.
//! 3. An error that [`changed_nothing`] removes its operation from the history: a store that lies is caught, since no
//!    order explains what it did. Any other error leaves the operation without an answer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::outcome::Entry;
use tenure::store::Store;
use tenure::{
    AppendOptions, Document, Error, ErrorKind, Journal, Result, Value, Version, Wait, WriteOptions,
    json,
};

use super::{Object, Operation};

/// Each call waits at most this long for others.
const WAIT: Duration = Duration::from_secs(5);
/// How often a store that fails is asked again.
const TURN: Duration = Duration::from_millis(50);
/// The rank of an entry that was acknowledged and is not there.
pub const LOST: u64 = u64::MAX / 4;

/// Who makes the calls, and notes them.
pub trait Client {
    /// A value that no client used before, above 0.
    fn fresh(&mut self) -> u64;

    /// Notes the call, makes it, and notes what it returned.
    fn call(
        &mut self,
        object: Object,
        action: &str,
        arguments: &[u64],
        operate: &mut dyn FnMut() -> Result<Vec<u64>>,
    );
}

/// How writes are done. Controls do them wrong.
pub trait Hands {
    /// Changes a document; returns when it is stored.
    fn update(
        &self,
        document: &Document,
        edit: &mut dyn FnMut(Option<&Value>) -> Value,
    ) -> Result<()> {
        document.update(&options(), |current| Ok(Some(edit(current)))).map(drop)
    }

    /// Sets a document if its version is still this one; returns whether it was.
    fn compare_and_set(
        &self,
        document: &Document,
        version: &Version,
        value: &Value,
    ) -> Result<bool> {
        let options = WriteOptions { if_version: Some(version.clone()), ..options() };
        match document.set(value, &options) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends a line; returns its number.
    fn append(&self, journal: &Journal, line: &str, write: &WriteOptions) -> Result<u64> {
        let options = AppendOptions { write: write.clone(), ..AppendOptions::default() };
        Ok(journal.append(&[line], &options)?.last)
    }
}

/// As a user would.
#[derive(Debug, Clone, Copy)]
pub struct Careful;

impl Hands for Careful {}

/// The objects below one name.
pub struct Objects<'a> {
    store: &'a dyn Store,
    hands: &'a dyn Hands,
    /// The largest number of an entry that is known to be there.
    known: &'a AtomicU64,
    counter: PathBuf,
    register: PathBuf,
    queue: PathBuf,
    jobs: PathBuf,
}

impl std::fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("counter", &self.counter).finish_non_exhaustive()
    }
}

impl<'a> Objects<'a> {
    /// The objects in the collection `dir`; `tag` tells those of several rounds apart.
    pub fn new(
        store: &'a dyn Store,
        hands: &'a dyn Hands,
        known: &'a AtomicU64,
        dir: &Path,
        tag: &str,
    ) -> Self {
        let document = |name: &str| dir.join(format!("{name}{tag}.json"));
        Self {
            store,
            hands,
            known,
            counter: document("counter"),
            register: document("register"),
            queue: dir.join(format!("queue{tag}.jsonl")),
            jobs: document("jobs"),
        }
    }

    /// Creates the register, which compare-and-set needs.
    pub fn create(&self) -> Result<()> {
        self.document(&self.register)?.set(&number(0), &options()).map(drop)
    }

    /// What the object is now.
    pub fn state(&self, object: Object) -> Result<Vec<u64>> {
        match object {
            Object::Counter => self.read(&self.counter),
            Object::Register => self.read(&self.register),
            Object::Queue => self.tail(self.known.load(SeqCst)),
            Object::Jobs => {
                let found = self.document(&self.jobs)?.read()?;
                Ok(found.map(|found| as_list(&found.value)).unwrap_or_default())
            }
        }
    }

    /// All entries of the queue: their numbers and values.
    pub fn entries(&self) -> Result<Vec<(u64, u64)>> {
        entries(self.store, &self.queue, 0)
    }

    /// One operation, or a read and what follows from it; `pick` chooses which.
    pub fn operate(&self, object: Object, pick: u64, client: &mut impl Client) {
        match object {
            Object::Counter if pick.is_multiple_of(3) => {
                client.call(object, "read", &[], &mut || self.read(&self.counter));
            }
            Object::Counter => client.call(object, "add", &[1], &mut || {
                let mut sum = 0;
                self.hands.update(&self.document(&self.counter)?, &mut |current| {
                    sum = as_number(current) + 1;
                    number(sum)
                })?;
                Ok(vec![sum])
            }),
            Object::Register => self.compare_and_set(client),
            Object::Queue if pick.is_multiple_of(3) => {
                // A known entry is there, so earlier ones need not be read; now and then they are.
                let from = if (pick / 3).is_multiple_of(16) { 0 } else { self.known.load(SeqCst) };
                client.call(object, "tail", &[], &mut || self.tail(from));
            }
            Object::Queue => {
                let value = client.fresh();
                client.call(object, "append", &[value], &mut || {
                    let journal = Journal::on(self.store, &self.queue)?;
                    let number = self.hands.append(&journal, &value.to_string(), &options())?;
                    self.known.fetch_max(number, SeqCst);
                    Ok(vec![number])
                });
            }
            Object::Jobs if pick.is_multiple_of(2) => {
                let job = client.fresh();
                client.call(object, "put", &[job], &mut || {
                    self.edit_jobs(|jobs| jobs.push(job)).map(|()| Vec::new())
                });
            }
            Object::Jobs => client.call(object, "take", &[], &mut || {
                let mut taken = 0;
                self.edit_jobs(|jobs| taken = if jobs.is_empty() { 0 } else { jobs.remove(0) })?;
                Ok(vec![taken])
            }),
        }
    }

    fn compare_and_set(&self, client: &mut impl Client) {
        let mut seen = None;
        client.call(Object::Register, "read", &[], &mut || {
            let found = self.document(&self.register)?.read()?;
            let found = found.ok_or_else(|| {
                let gone = "it was there, and is gone";
                Error::new(ErrorKind::NotFound, "read", gone).at(&self.register)
            })?;
            let value = as_number(Some(&found.value));
            seen = Some((value, found.version));
            Ok(vec![value])
        });
        let Some((old, version)) = seen else { return };
        let new = client.fresh();
        client.call(Object::Register, "cas", &[old, new], &mut || {
            let register = self.document(&self.register)?;
            Ok(vec![u64::from(self.hands.compare_and_set(&register, &version, &number(new))?)])
        });
    }

    fn document(&self, name: &Path) -> Result<Document> {
        Document::on(self.store, name)
    }

    fn read(&self, name: &Path) -> Result<Vec<u64>> {
        let found = self.document(name)?.read()?;
        Ok(vec![as_number(found.as_ref().map(|found| &found.value))])
    }

    /// The last entry, its number and its value; zeros if there is none.
    fn tail(&self, from: u64) -> Result<Vec<u64>> {
        let last = entries(self.store, &self.queue, from)?.last().copied();
        Ok(last.map_or_else(|| vec![0, 0], |(number, value)| vec![number, value]))
    }

    fn edit_jobs(&self, mut edit: impl FnMut(&mut Vec<u64>)) -> Result<()> {
        self.hands.update(&self.document(&self.jobs)?, &mut |current| {
            let mut jobs = current.map(as_list).unwrap_or_default();
            edit(&mut jobs);
            json!({ "jobs": jobs })
        })
    }
}

/// Replaces numbers of entries by their ranks in the journal; returns the acknowledged values that are not there.
pub fn rank(operations: &mut [Operation], entries: &[(u64, u64)]) -> Vec<u64> {
    let ranks: HashMap<(u64, u64), u64> =
        (1_u64..).zip(entries).map(|(rank, entry)| (*entry, rank)).collect();
    let mut lost = Vec::new();
    for operation in operations.iter_mut().filter(|it| it.object == Object::Queue) {
        let Some((answer, _)) = &mut operation.returned else { continue };
        let Some(number) = answer.first().copied().filter(|number| *number != 0) else { continue };
        // The number of another value is that of another entry.
        let value = operation.arguments.first().or(answer.get(1)).copied().unwrap_or(0);
        answer[0] = ranks.get(&(number, value)).copied().unwrap_or(LOST);
        lost.extend((answer[0] == LOST && operation.action == "append").then_some(value));
    }
    lost
}

/// Whether an error says that nothing was changed.
pub fn changed_nothing(error: &Error) -> bool {
    use ErrorKind::{Busy, Cancelled, Conflict, Deadlock, Fenced, Invalid, LeaseLost, Unsupported};
    let refusals = [Busy, Cancelled, Conflict, Deadlock, Fenced, Invalid, LeaseLost, Unsupported];
    match error.is_committed() {
        Some(committed) => !committed,
        None => refusals.contains(&error.kind()),
    }
}

/// Asks until there is an answer, for at most this long.
pub fn patiently<T>(time: Duration, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + time;
    loop {
        match ask() {
            Err(_) if Instant::now() < end => std::thread::park_timeout(TURN),
            answer => return answer,
        }
    }
}

/// The entries of a journal from a number on, each a number itself. A gap is an error.
pub fn entries(store: &dyn Store, name: &Path, from: u64) -> Result<Vec<(u64, u64)>> {
    Journal::on(store, name)?.read(from, None)?.map(|entry| numbered(name, &entry?)).collect()
}

/// The number and the value of an entry.
pub fn numbered(name: &Path, entry: &Entry) -> Result<(u64, u64)> {
    let value = String::from_utf8_lossy(&entry.line).parse();
    let torn = |_| Error::new(ErrorKind::Damaged, "read", "an entry is torn").at(name);
    Ok((entry.seq, value.map_err(torn)?))
}

fn options() -> WriteOptions {
    WriteOptions { wait: Wait::For(WAIT), ..WriteOptions::default() }
}

fn number(number: u64) -> Value {
    json!({ "n": number })
}

fn as_number(value: Option<&Value>) -> u64 {
    value.and_then(|value| value["n"].as_u64()).unwrap_or(0)
}

fn as_list(value: &Value) -> Vec<u64> {
    let list = value["jobs"].as_array();
    list.into_iter().flatten().filter_map(Value::as_u64).collect()
}
