//! Short names for what the tests ask of the library, and for waiting without a sleep.

use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tenure::options::Durability;
use tenure::outcome::{Entry, Written};
use tenure::{
    AppendOptions, Document, Fence, Guard, Journal, LeaseOptions, LockOptions, Result, Value, Wait,
    WriteOptions, json,
};

use crate::failure::{Failure, Outcome, ensure};

/// Nothing that works takes this long, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to see that a caller waits, short enough to be done often.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(60);
/// A lease that lasts longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

fn with<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut options = T::default();
    set(&mut options);
    options
}

/// A lock, after a wait.
pub(crate) fn waiting() -> LockOptions {
    with(|options: &mut LockOptions| options.wait = Wait::For(PATIENCE))
}

/// A lock, without a wait.
pub(crate) fn trying() -> LockOptions {
    with(|options: &mut LockOptions| options.wait = Wait::No)
}

/// A write without a sync that waits.
pub(crate) fn patient() -> WriteOptions {
    with(|options: &mut WriteOptions| {
        options.wait = Wait::For(PATIENCE);
        options.durability = Durability::NoSync;
    })
}

/// A write that does not wait.
pub(crate) fn at_once() -> WriteOptions {
    let mut options = patient();
    options.wait = Wait::No;
    options
}

/// A write that proves a hold on its own target.
pub(crate) fn proven(fence: Fence) -> WriteOptions {
    let mut options = at_once();
    options.fence = Some(fence);
    options
}

/// A write that proves a hold on another target.
pub(crate) fn guarded(target: PathBuf, fence: Fence) -> WriteOptions {
    let mut options = patient();
    options.guards = vec![Guard { target, fence }];
    options
}

/// A write with an operation id.
pub(crate) fn named(operation: &str) -> WriteOptions {
    let mut options = patient();
    options.operation = Some(operation.to_owned());
    options
}

/// An append with these options.
pub(crate) fn append(write: WriteOptions) -> AppendOptions {
    with(|options: &mut AppendOptions| options.write = write)
}

/// A lease for an owner.
pub(crate) fn terms(owner: &str, ttl: Duration, wait: Wait) -> LeaseOptions {
    with(|options: &mut LeaseOptions| {
        owner.clone_into(&mut options.owner);
        options.ttl = ttl;
        options.wait = wait;
    })
}

/// A long lease, without a wait.
pub(crate) fn long(owner: &str) -> LeaseOptions {
    terms(owner, LONG, Wait::No)
}

/// Adds one to the counter in a document.
pub(crate) fn add_one(document: &Document, options: &WriteOptions) -> Result<Written> {
    update(document, options, |current| Ok(Some(one_more(current))))
}

/// The counter, one higher.
pub(crate) fn one_more(current: Option<&Value>) -> Value {
    let count = current.and_then(|value| value["n"].as_u64()).unwrap_or(0);
    json!({ "n": count + 1 })
}

/// An update with a function that fails as the library does.
pub(crate) fn update(
    document: &Document,
    options: &WriteOptions,
    compute: impl FnMut(Option<&Value>) -> Result<Option<Value>>,
) -> Result<Written> {
    document.update(options, compute)
}

/// The counter in a document.
pub(crate) fn count(document: &Document) -> Result<u64> {
    Ok(document.read()?.and_then(|found| found.value["n"].as_u64()).unwrap_or(0))
}

/// The text of a document; empty if there is none.
pub(crate) fn text(document: &Document) -> Result<String> {
    let bytes = document.read()?.map(|found| found.bytes).unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every entry of a journal.
pub(crate) fn all(journal: &Journal) -> Result<Vec<Entry>> {
    journal.read(0, None)?.collect()
}

/// The lines of a journal.
pub(crate) fn lines(journal: &Journal) -> Result<Vec<String>> {
    let line = |entry: Entry| String::from_utf8_lossy(&entry.line).into_owned();
    Ok(all(journal)?.into_iter().map(line).collect())
}

/// Runs this on several threads at once, and ends with the first failure.
pub(crate) fn together(threads: usize, act: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || act(number))).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, Outcome>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        };
        running.into_iter().map(ended).collect::<Vec<_>>().into_iter().collect()
    })
}

/// Returns when this is so.
pub(crate) fn until(
    what: &str,
    mut is_so: impl FnMut() -> std::result::Result<bool, Failure>,
) -> Outcome {
    let began = Instant::now();
    while !is_so()? {
        ensure!(began.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::park_timeout(Duration::from_millis(2));
    }
    Ok(())
}

/// Fails unless each number is above the one before.
pub(crate) fn growing(what: &str, numbers: &[u64]) -> Outcome {
    let grows = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    ensure!(grows, "{what} do not strictly grow: {numbers:?}");
    Ok(())
}

/// What a mutex protects, also after a panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
