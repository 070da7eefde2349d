//! One name of the store: read, compute, commit, and begin again if something changed meanwhile.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tenure::outcome::{Appended, LeaseInfo, Leased, Snapshot, Written};
use tenure::status::Status;
use tenure::store::{self, Compute, EntryReader, Held, New, Target, Watcher};
use tenure::{
    AppendOptions, Error, ErrorKind, Fence, LeaseOptions, LockOptions, Result, Value, Version,
    WriteOptions,
};

use super::engine::{Done, Engine, Hold, Kept, Receipt, State};
use super::holds::Patience;
use super::{BYTES_MAX, Client, Wrong, same_engine};

/// A change that others keep overtaking gives up after so many attempts.
const ATTEMPTS: usize = 10_000;
/// How long the store that checks first waits until it writes.
const WINDOW: Duration = Duration::from_micros(200);

/// One name.
#[derive(Debug)]
pub(super) struct MemoryTarget {
    pub(super) client: Arc<Client>,
    pub(super) name: PathBuf,
}

/// What a commit depends on, and what it does.
#[derive(Debug)]
struct Spec<'a> {
    /// The targets that change, each with the proof of a hold if there is one.
    targets: Vec<(&'a Path, Option<Fence>)>,
    guards: Vec<(PathBuf, Fence)>,
    document: Option<&'a Path>,
    journal: Option<(&'a Path, &'a [&'a [u8]])>,
    options: &'a WriteOptions,
}

/// The document as a change was computed from it, and the change.
#[derive(Debug, Default)]
struct Computed {
    base: Option<Version>,
    new: Option<New>,
}

/// What came of an attempt to commit.
enum Answer {
    Done(Receipt),
    /// The reply was lost; the commit may have been done or not.
    Lost,
    /// Something changed since it was computed.
    Overtaken,
}

impl<'a> Spec<'a> {
    fn new(targets: &[(&'a Path, Option<Fence>)], options: &'a WriteOptions) -> Result<Self> {
        let mut targets = targets.to_vec();
        let mut guards = Vec::new();
        for guard in &options.guards {
            store::name_in(None, &guard.target)?;
            let name = super::resolved(&guard.target);
            match targets.iter_mut().find(|(target, _)| *target == name) {
                Some((target, Some(fence))) if *fence != guard.fence => {
                    let detail = "two fences of one target are not both current";
                    return Err(Error::new(ErrorKind::Fenced, "write", detail).at(target));
                }
                Some((_, fence)) => *fence = Some(guard.fence),
                None => guards.push((name, guard.fence)),
            }
        }
        Ok(Self { targets, guards, document: None, journal: None, options })
    }

    /// The targets whose hold is not proven: they have to be free.
    fn unproven(&self) -> Vec<&'a Path> {
        let unproven = self.targets.iter().filter(|(_, fence)| fence.is_none());
        unproven.map(|(name, _)| *name).collect()
    }

    fn check_fences(&self, state: &State) -> Result<()> {
        let own = self.targets.iter().filter_map(|(name, fence)| Some((*name, (*fence)?)));
        let guards = self.guards.iter().map(|(name, fence)| (name.as_path(), *fence));
        let mut all = own.chain(guards);
        all.try_for_each(|(name, fence)| {
            let unknown = || {
                let detail = "no hold of it was ever given out";
                Error::new(ErrorKind::Fenced, "write", detail).at(name)
            };
            state.records.get(name).ok_or_else(unknown)?.check_fence(name, fence)
        })
    }

    fn done_before(&self, state: &State, name: &Path) -> Option<Done> {
        let operation = self.options.operation.as_deref()?;
        state.records.get(name)?.operations.get(operation).copied()
    }

    fn check_version(&self, state: &State, name: &Path) -> Result<()> {
        let Some(wanted) = &self.options.if_version else { return Ok(()) };
        let found = state.records.get(name).and_then(|record| record.document.as_ref());
        if found.is_some_and(|found| found.version == *wanted) {
            return Ok(());
        }
        let detail = format!("it does not have version {wanted}");
        Err(Error::new(ErrorKind::Conflict, "write document", detail)
            .at(name)
            .hint("read it again, then repeat the change"))
    }
}

impl MemoryTarget {
    /// Does what the spec says, in one commit.
    fn transact(&self, spec: &Spec<'_>, mut compute: Option<&mut Compute<'_>>) -> Result<Receipt> {
        self.refuse_files(&spec.options.file)?;
        let client = &self.client;
        let options = spec.options;
        let patience = Patience::new(options.wait, options.cancel.as_ref(), options.thread);
        for _ in 0..ATTEMPTS {
            let mut state = client.wait_for(&spec.unproven(), &patience)?;
            spec.check_fences(&state)?;
            let mut computed = Computed::default();
            if let (Some(name), Some(compute)) = (spec.document, compute.as_deref_mut()) {
                if spec.done_before(&state, name).is_none() {
                    spec.check_version(&state, name)?;
                    let base = state.record(name).document.clone();
                    drop(state); // Invariant 2.
                    let current = base.as_ref().map(|kept| (kept.bytes.as_slice(), &kept.value));
                    computed.new = compute(current)?;
                    computed.base = base.map(|kept| kept.version);
                    let longest = computed.new.as_ref().map_or(0, |new| new.bytes.len());
                    refuse_long(name, "write document", longest)?;
                    if client.wrong == Some(Wrong::CheckThenWrite) {
                        std::thread::park_timeout(WINDOW); // Others write meanwhile, on any scheduler.
                    }
                    state = client.engine.lock();
                }
            }
            let id = state.next();
            let answer = self.commit(&mut state, id, spec, computed)?;
            drop(state);
            match answer {
                Answer::Done(receipt) => return Ok(receipt),
                Answer::Lost if client.wrong == Some(Wrong::RetryWithoutId) => {}
                Answer::Lost => {
                    if let Some(receipt) = client.engine.lock().receipts.get(&id) {
                        return Ok(receipt.clone());
                    }
                }
                Answer::Overtaken => {}
            }
        }
        let detail = "others keep changing it";
        Err(Error::new(ErrorKind::Busy, "write", detail).at(&self.name).committed(false))
    }

    /// The transaction: every check, then every change.
    fn commit(
        &self,
        state: &mut State,
        id: u64,
        spec: &Spec<'_>,
        computed: Computed,
    ) -> Result<Answer> {
        let is_held =
            |name: &&Path| state.records.get(*name).is_some_and(|record| record.holder().is_some());
        if self.client.wrong != Some(Wrong::CheckThenWrite) {
            if spec.unproven().iter().any(is_held) {
                return Ok(Answer::Overtaken);
            }
            spec.check_fences(state)?;
            if let Some(name) = spec.document.filter(|name| spec.done_before(state, name).is_none())
            {
                let found = state.record(name).document.as_ref().map(|kept| &kept.version);
                if found != computed.base.as_ref() {
                    return Ok(Answer::Overtaken);
                }
            }
        }
        for name in spec.unproven() {
            // Only an expired lease can be left here: its token renews nothing after this write.
            state.record(name).hold = Hold::Free;
        }
        let mut receipt = Receipt::default();
        if let Some(name) = spec.document {
            receipt.written = Some(write(state, spec, name, computed.new));
        }
        if let Some((name, lines)) = spec.journal {
            receipt.appended = Some(push(state, spec, name, lines));
        }
        state.receipts.insert(id, receipt.clone());
        self.client.engine.changed.notify_all();
        let lost = self.client.engine.loses_reply();
        Ok(if lost { Answer::Lost } else { Answer::Done(receipt) })
    }

    /// Removes the document and the journal; if `changes` is given, only if nothing changed since.
    pub(super) fn remove(&self, options: &WriteOptions, changes: Option<u64>) -> Result<bool> {
        let mut spec = Spec::new(&[(&self.name, options.fence)], options)?;
        self.refuse_files(&options.file)?;
        let patience = Patience::new(options.wait, options.cancel.as_ref(), options.thread);
        let there = |state: &mut State| {
            let record = state.record(&self.name);
            record.document.is_some() || record.journal.is_some()
        };
        if !there(&mut self.client.engine.lock()) {
            return Ok(false);
        }
        let mut state = self.client.wait_for(&spec.unproven(), &patience)?;
        spec.document = Some(&self.name);
        spec.check_fences(&state)?;
        let is_there = there(&mut state);
        let record = state.record(&self.name);
        if !is_there || changes.is_some_and(|changes| changes != record.changes) {
            return Ok(false);
        }
        (record.document, record.journal) = (None, None);
        record.operations.clear();
        record.events.clear();
        self.client.engine.changed.notify_all();
        Ok(true)
    }
}

fn refuse_long(name: &Path, action: &'static str, bytes: usize) -> Result<()> {
    if bytes as u64 <= BYTES_MAX {
        return Ok(());
    }
    let detail = format!("{bytes} bytes are more than {BYTES_MAX}");
    Err(Error::new(ErrorKind::Invalid, action, detail).at(name).committed(false))
}

fn write(state: &mut State, spec: &Spec<'_>, name: &Path, new: Option<New>) -> Written {
    let replayed = spec.done_before(state, name).is_some();
    let number = state.next();
    let record = state.record(name);
    let changed = new.is_some() && !replayed;
    if let Some(New { bytes, value, .. }) = new.filter(|_| !replayed) {
        let version = Version::new(format!("m{number:x}"));
        record.document = Some(Kept { bytes, value, version });
        record.change(number);
    }
    if let Some(operation) = &spec.options.operation {
        record.operations.entry(operation.clone()).or_default();
    }
    let none = || Version::new("m0");
    let version = record.document.as_ref().map_or_else(none, |kept| kept.version.clone());
    Written { version, changed, replayed }
}

fn push(state: &mut State, spec: &Spec<'_>, name: &Path, lines: &[&[u8]]) -> Appended {
    if let Some(Done { first, last }) = spec.done_before(state, name) {
        return Appended { first, last, replayed: true, ..Appended::default() };
    }
    let number = state.next();
    let record = state.record(name);
    let journal = record.journal.get_or_insert_default();
    let first = journal.newest + 1;
    for line in lines {
        journal.newest += 1;
        journal.entries.push((journal.newest, line.to_vec()));
    }
    let last = journal.newest;
    record.change(number);
    if let Some(operation) = &spec.options.operation {
        record.operations.insert(operation.clone(), Done { first, last });
    }
    Appended { first, last, ..Appended::default() }
}

fn refuse_lines(name: &Path, lines: &[&[u8]], options: &AppendOptions) -> Result<()> {
    if options.header.is_some() {
        return Err(store::unsupported(name, "set a header line of"));
    }
    refuse_long(name, "append", lines.iter().map(|line| line.len()).max().unwrap_or(0))
}

impl Target for MemoryTarget {
    fn name(&self) -> &Path {
        &self.name
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn beside(&self, name: &Path) -> Result<Arc<dyn Target>> {
        Ok(Arc::new(Self { client: self.client.clone(), name: name.to_path_buf() }))
    }

    fn as_bytes(&self) -> Result<Arc<dyn Target>> {
        self.beside(&self.name)
    }

    fn lock(&self, options: &LockOptions) -> Result<Box<dyn Held>> {
        self.take_lock(options)
    }

    fn acquire(&self, options: &LeaseOptions) -> Result<Leased> {
        self.take_lease(options)
    }

    fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        self.renew_lease(token, ttl)
    }

    fn release(&self, token: &str) -> Result<()> {
        self.release_lease(token)
    }

    fn take_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased> {
        self.take_lease_over(options, reason)
    }

    fn lease(&self) -> Result<Option<LeaseInfo>> {
        Ok(self.lease_info())
    }

    fn status(&self) -> Result<Status> {
        Ok(self.client.engine.lock().record(&self.name).status(&self.name))
    }

    fn events(&self) -> Result<Vec<Value>> {
        Ok(self.client.engine.lock().record(&self.name).events.clone())
    }

    fn read(&self) -> Result<Option<Snapshot>> {
        let kept = self.client.engine.lock().record(&self.name).document.clone();
        Ok(kept.map(|Kept { bytes, value, version }| Snapshot {
            value,
            bytes,
            version,
            repaired: false,
        }))
    }

    fn change(&self, options: &WriteOptions, compute: &mut Compute<'_>) -> Result<Written> {
        let mut spec = Spec::new(&[(&self.name, options.fence)], options)?;
        spec.document = Some(&self.name);
        let receipt = self.transact(&spec, Some(compute))?;
        receipt.written.ok_or_else(|| broken(&self.name))
    }

    fn append(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<Appended> {
        refuse_lines(&self.name, lines, options)?;
        let mut spec = Spec::new(&[(&self.name, options.write.fence)], &options.write)?;
        spec.journal = Some((&self.name, lines));
        let receipt = self.transact(&spec, None)?;
        receipt.appended.ok_or_else(|| broken(&self.name))
    }

    fn change_and_append(
        &self,
        journal: &dyn Target,
        lines: &[&[u8]],
        options: &AppendOptions,
        compute: &mut Compute<'_>,
    ) -> Result<(Written, Appended)> {
        let Some(other) = same_engine(self, journal.as_any()) else {
            let detail = "the document and the journal are in different stores";
            let error = Error::new(ErrorKind::Invalid, "update and append", detail);
            return Err(error.at(&self.name));
        };
        refuse_lines(&other.name, lines, options)?;
        let targets = [(self.name.as_path(), options.write.fence), (other.name.as_path(), None)];
        let mut spec = Spec::new(&targets, &options.write)?;
        spec.document = Some(&self.name);
        spec.journal = Some((&other.name, lines));
        let receipt = self.transact(&spec, Some(compute))?;
        receipt.written.zip(receipt.appended).ok_or_else(|| broken(&self.name))
    }

    fn entries(&self, from: u64, limit: Option<u64>) -> Result<Box<dyn EntryReader>> {
        let mut state = self.client.engine.lock();
        let journal = state.record(&self.name).journal.clone().unwrap_or_default();
        let gap = (from > 0 && from <= journal.gone).then_some((from, journal.gone));
        let entries = journal.entries.into_iter().filter(|(seq, _)| *seq >= from);
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let left: Vec<_> = entries.take(limit).collect();
        let reader =
            MemoryReader { name: self.name.clone(), gap, left: left.into_iter(), line: Vec::new() };
        Ok(Box::new(reader))
    }

    fn watch(&self) -> Result<Box<dyn Watcher>> {
        let seen = self.client.engine.lock().record(&self.name).changes;
        let (engine, name) = (self.client.engine.clone(), self.name.clone());
        Ok(Box::new(MemoryWatcher { engine, name, seen }))
    }
}

/// A commit without its receipt: a mistake of this store.
fn broken(name: &Path) -> Error {
    Error::new(ErrorKind::Damaged, "write", "the commit left no receipt").at(name)
}

/// The entries as they were when it was made.
#[derive(Debug)]
struct MemoryReader {
    name: PathBuf,
    gap: Option<(u64, u64)>,
    left: std::vec::IntoIter<(u64, Vec<u8>)>,
    line: Vec<u8>,
}

impl EntryReader for MemoryReader {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if let Some((first, last)) = self.gap.take() {
            let detail = format!("entries {first} to {last} are gone");
            let error = Error::new(ErrorKind::Damaged, "read", detail).at(&self.name);
            return Err(error.missing(first, last));
        }
        let Some((seq, line)) = self.left.next() else { return Ok(None) };
        self.line = line;
        Ok(Some((seq, &self.line)))
    }
}

/// Wakes when the number of changes is another one.
#[derive(Debug)]
struct MemoryWatcher {
    engine: Arc<Engine>,
    name: PathBuf,
    seen: u64,
}

impl Watcher for MemoryWatcher {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        let mut state = self.engine.lock();
        loop {
            let changes = state.record(&self.name).changes;
            if changes != self.seen {
                self.seen = changes;
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.engine.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
