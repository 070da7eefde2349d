//! Where the journal tests run: [`Dir`] is a directory of the real disk, [`Stage`] a journal on the
//! simulated one, with a list of the steps on its files and a hook before every step.
//!
//! A step is an operation and the file it is about: `Sync log`, `Write journal`, `Rename index`,
//! `Exchange journal`, `SyncDir .tenure`. Opening, looking and locking are steps too, but only those that
//! change or sync something are listed and counted.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::fs::{Access, Fs, Handle};
use tenure::options::Durability;
use tenure::outcome::Report;
use tenure::{AppendOptions, Journal, WriteOptions};
use tenure_testkit::SimFs;

use crate::faulty_fs::{FaultyFs, Op, Verdict};

/// The journal of every stage.
pub(crate) const PATH: &str = "/d/log.jsonl";

pub(crate) fn durable() -> AppendOptions {
    AppendOptions::default()
}

pub(crate) fn no_sync() -> AppendOptions {
    let write = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
    AppendOptions { write, ..AppendOptions::default() }
}

/// The same, as an operation that can be repeated.
pub(crate) fn named(id: &str, options: &AppendOptions) -> AppendOptions {
    let write = WriteOptions { operation: Some(id.to_owned()), ..options.write.clone() };
    AppendOptions { write, ..options.clone() }
}

pub(crate) fn with_header(header: &str) -> AppendOptions {
    AppendOptions { header: Some(header.into()), ..durable() }
}

pub(crate) fn write() -> WriteOptions {
    WriteOptions::default()
}

/// Every entry with its number. There is no gap and no damage.
#[track_caller]
pub(crate) fn all(journal: &Journal) -> Vec<(u64, String)> {
    let entries = journal.read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

/// Lines numbered from 1 on.
pub(crate) fn numbered(lines: &[&str]) -> Vec<(u64, String)> {
    numbered_from(1, lines)
}

pub(crate) fn numbered_from(first: u64, lines: &[&str]) -> Vec<(u64, String)> {
    lines.iter().zip(first..).map(|(line, seq)| (seq, (*line).to_owned())).collect()
}

/// What other tools have appended and no writer has numbered yet.
pub(crate) fn pending(journal: &Journal) -> Vec<String> {
    let lines =
        journal.read(u64::MAX, None).and_then(|entries| entries.pending()).unwrap().into_iter();
    lines.map(|line| String::from_utf8(line).unwrap()).collect()
}

#[track_caller]
pub(crate) fn sound(journal: &Journal) -> Report {
    let report = journal.verify().unwrap();
    assert!(report.is_sound() && !report.unbound, "{report:?}");
    report
}

/// A directory of its own, removed at the end.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    /// In memory: nothing is measured and no power is lost here, so a sync may be free.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::on_disk() }
    }

    /// On the file system of the machine.
    pub(crate) fn on_disk() -> Self {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-journal-{}-{number}", std::process::id());
        let path = parent.canonicalize().unwrap().join(name);
        let _ = fs::remove_dir_all(&path); // Of an earlier process with our number.
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log.jsonl")
    }

    pub(crate) fn archive(&self, number: u64) -> PathBuf {
        self.0.join(format!("log.jsonl.{number}"))
    }

    pub(crate) fn side(&self, suffix: &str) -> PathBuf {
        self.0.join(format!(".tenure/log.jsonl.{suffix}"))
    }

    /// The journal, opened anew.
    pub(crate) fn journal(&self) -> Journal {
        Journal::open(self.log()).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.log()).unwrap()
    }

    /// Temporary files that are left.
    pub(crate) fn temps(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.join(".tenure")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".tmp.")).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Another tool appends, in one write.
pub(crate) fn foreign(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Overwrites the file in place, as an editor or a bad disk does.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

type Deed = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Plan {
    done: Vec<String>,
    deeds: Vec<(String, Deed)>,
    /// Before the step with this place in the list.
    nth: Option<(usize, Deed)>,
    refused: Vec<(String, std::io::ErrorKind)>,
    refuse_this: bool,
    /// Refuse everything from now on.
    dead: bool,
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One process with a journal on the simulated disk. A clone is the same process.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) sim: SimFs,
    fs: FaultyFs,
    plan: Arc<Mutex<Plan>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::seeded(1)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        let sim = SimFs::new(seed);
        sim.add_dir("/d");
        Self::on(sim)
    }

    /// A process of this machine, in its current state.
    pub(crate) fn on(sim: SimFs) -> Self {
        let plan = Arc::new(Mutex::new(Plan::default()));
        let watched = plan.clone();
        let fs = FaultyFs::on(sim.shared(), move |op, path| judge(&watched, op, path));
        Self { sim, fs, plan }
    }

    /// Another process of the same machine, with its own steps.
    pub(crate) fn beside(&self) -> Self {
        Self::on(self.sim.another_process())
    }

    /// A copy of the machine, to try two things on one state.
    pub(crate) fn fork(&self) -> Self {
        Self::on(self.sim.fork(1))
    }

    /// The journal as a process sees it that has not used it yet.
    pub(crate) fn journal(&self) -> Journal {
        Journal::open_on(&self.shared(), Path::new(PATH)).unwrap()
    }

    pub(crate) fn shared(&self) -> Arc<dyn Fs> {
        self.fs.shared()
    }

    /// Appends one durable batch; returns the number of its first line.
    pub(crate) fn append(&self, lines: &[&str]) -> u64 {
        self.journal().append(lines, &durable()).unwrap().first
    }

    /// Does this once, right before the next such step.
    pub(crate) fn before(&self, step: &str, deed: impl FnOnce() + Send + 'static) {
        lock(&self.plan).deeds.push((step.to_owned(), Box::new(deed)));
    }

    /// Does this right before the change that would be the `nth` from now on, 0 is the next one.
    pub(crate) fn before_nth(&self, nth: usize, deed: impl FnOnce() + Send + 'static) {
        let mut plan = lock(&self.plan);
        plan.done.clear();
        plan.nth = Some((nth, Box::new(deed)));
    }

    /// Lets the change fail that would be the `nth` from now on.
    pub(crate) fn refuse_nth(&self, nth: usize) {
        let plan = self.plan.clone();
        self.before_nth(nth, move || lock(&plan).refuse_this = true);
    }

    /// Lets the next such step fail.
    pub(crate) fn refuse(&self, step: &str, kind: std::io::ErrorKind) {
        lock(&self.plan).refused.push((step.to_owned(), kind));
    }

    /// The process is killed right now: nothing that it still tries is done.
    pub(crate) fn kill(&self) {
        lock(&self.plan).dead = true;
    }

    /// The process is killed right before the next such step.
    pub(crate) fn die_before(&self, step: &str) {
        let stage = self.clone();
        self.before(step, move || stage.kill());
    }

    /// The process is killed right before the change that would be the `nth` from now on.
    pub(crate) fn die_before_nth(&self, nth: usize) {
        let stage = self.clone();
        self.before_nth(nth, move || stage.kill());
    }

    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.plan).dead
    }

    /// The process that was killed is gone, with its locks, and another one begins.
    pub(crate) fn restart(&self) {
        self.sim.process_crash();
        self.clear();
    }

    /// Whether every planned deed and refusal has happened.
    pub(crate) fn is_through(&self) -> bool {
        let plan = lock(&self.plan);
        plan.deeds.is_empty() && plan.refused.is_empty() && plan.nth.is_none()
    }

    /// Forgets deeds and refusals that have not happened.
    pub(crate) fn clear(&self) {
        *lock(&self.plan) = Plan::default();
    }

    /// The changes and syncs of the journal's files since the last call, in their order.
    pub(crate) fn steps(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.plan).done)
    }

    /// Another process, which does not use tenure.
    pub(crate) fn outsider(&self) -> Outsider {
        Outsider(self.sim.another_process().shared())
    }

    pub(crate) fn text(&self) -> String {
        self.text_of(PATH).unwrap()
    }

    pub(crate) fn text_of(&self, path: &str) -> Option<String> {
        Some(String::from_utf8(self.sim.peek(path)?).unwrap())
    }

    /// Every entry with its number, as a reader sees them now.
    #[track_caller]
    pub(crate) fn entries(&self) -> Vec<(u64, String)> {
        all(&self.journal())
    }

    /// The entries are these, numbered from 1 on, and everything fits its checksums.
    #[track_caller]
    pub(crate) fn expect(&self, lines: &[&str]) {
        assert_eq!(self.entries(), numbered(lines));
        sound(&self.journal());
    }

    /// Flips one bit of a file in place, as a bad disk does.
    pub(crate) fn flip(&self, path: &str, bit: usize) {
        let at = bit / 8;
        let byte = self.sim.peek(path).unwrap()[at] ^ (1 << (bit % 8));
        let file = self.sim.shared().open(Path::new(path), Access::ReadWrite).unwrap();
        file.write_all_at(&[byte], at as u64).unwrap();
    }

    /// The names in the sidecar directory, without the stem.
    pub(crate) fn sidecars(&self) -> Vec<String> {
        let names = self.sim.shared().list(Path::new("/d/.tenure")).unwrap();
        let name = |name: std::ffi::OsString| name.into_string().unwrap();
        let mut names: Vec<String> =
            names.into_iter().map(|found| name(found).replace("log.jsonl.", "")).collect();
        names.sort();
        names
    }

    /// Temporary files that are left.
    pub(crate) fn temps(&self) -> Vec<String> {
        self.sidecars().into_iter().filter(|name| name.starts_with("tmp.")).collect()
    }

    /// The events of this name that were recorded.
    pub(crate) fn events(&self, name: &str) -> usize {
        let text = self.text_of("/d/.tenure/log.jsonl.events").unwrap_or_default();
        let name = format!("\"event\":\"{name}\"");
        text.lines().filter(|line| line.contains(&name)).count()
    }
}

/// What a tool does that does not use tenure.
pub(crate) struct Outsider(Arc<dyn Fs>);

impl Outsider {
    /// Opens a file now, to append later.
    pub(crate) fn open(&self, path: &str) -> Arc<dyn Handle> {
        self.0.open(Path::new(path), Access::Append).unwrap()
    }

    /// `echo ... >> path`.
    pub(crate) fn append(&self, path: &str, text: &str) {
        drop(self.0.open(Path::new(path), Access::Create(0o600)).unwrap());
        assert_eq!(self.open(path).append(text.as_bytes()).unwrap().0, text.len());
    }

    pub(crate) fn append_durably(&self, path: &str, text: &str) {
        self.append(path, text);
        self.open(path).sync().unwrap();
    }

    /// Writes a new file, and gives it the name.
    pub(crate) fn replace(&self, path: &str, text: &str) {
        let temp = PathBuf::from(format!("{path}.theirs"));
        let file = self.0.open(&temp, Access::Create(0o600)).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file.sync().unwrap();
        self.0.rename(&temp, Path::new(path)).unwrap();
        self.0.sync_dir(Path::new("/d")).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        self.0.rename(Path::new(from), Path::new(to)).unwrap();
    }

    /// Copies the bytes to another file and gives that the name, as a restored backup does.
    pub(crate) fn copy_anew(&self, path: &str) {
        let (from, to) = (PathBuf::from(path), PathBuf::from(format!("{path}.copy")));
        let bytes = self.0.open(&from, Access::Read).unwrap().read_range(0, u64::MAX >> 1).unwrap();
        self.0.open(&to, Access::Create(0o600)).unwrap().write_all_at(&bytes, 0).unwrap();
        self.0.rename(&to, &from).unwrap();
    }

    pub(crate) fn cut(&self, path: &str, len: u64) {
        self.0.open(Path::new(path), Access::ReadWrite).unwrap().set_len(len).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.remove(Path::new(path)).unwrap();
    }
}

fn judge(plan: &Mutex<Plan>, op: Op, path: &Path) -> Verdict {
    let name = match op {
        Op::Open(_) => "Open".to_owned(),
        op => format!("{op:?}"),
    };
    let Some(role) = role_of(path) else { return dead(&lock(plan)).unwrap_or(Verdict::Go) };
    let step = format!("{name} {role}");
    let counts =
        (op.changes() && !matches!(op, Op::Open(_))) || matches!(op, Op::Sync | Op::SyncDir);
    if let Some(deed) = due(plan, &step, counts) {
        deed(); // It may use the disk, so the plan is not locked.
    }
    let mut plan = lock(plan);
    if let Some(dead) = dead(&plan) {
        return dead;
    }
    if std::mem::take(&mut plan.refuse_this) {
        return Verdict::Fail(rustix::io::Errno::IO.into());
    }
    if let Some(at) = plan.refused.iter().position(|(refused, _)| *refused == step) {
        return Verdict::Fail(plan.refused.remove(at).1.into());
    }
    if counts {
        plan.done.push(step);
    }
    Verdict::Go
}

fn dead(plan: &Plan) -> Option<Verdict> {
    plan.dead.then(|| Verdict::Fail(rustix::io::Errno::IO.into()))
}

/// What is to be done before this step.
fn due(plan: &Mutex<Plan>, step: &str, counts: bool) -> Option<Deed> {
    let mut plan = lock(plan);
    let now = plan.done.len();
    if counts && plan.nth.as_ref().is_some_and(|(nth, _)| *nth == now) {
        return plan.nth.take().map(|(_, deed)| deed);
    }
    let found = plan.deeds.iter().position(|(at, _)| at == step)?;
    Some(plan.deeds.remove(found).1)
}

/// What a file is for; `None` if it is a lock or a record.
fn role_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    match name.strip_prefix("log.jsonl") {
        Some("") => Some("journal".to_owned()),
        Some(rest) => {
            let rest = rest.strip_prefix('.')?;
            let locks = ["commit", "hold", "events", "sync0", "sync1"];
            if let Some(number) = rest.strip_prefix("tmp.") {
                return Some(format!("tmp{}", u64::from_str_radix(number, 16).ok()?));
            }
            (!locks.contains(&rest)).then(|| rest.to_owned())
        }
        None if name == ".tenure" || name == "d" => Some(name.to_owned()),
        None => None,
    }
}
