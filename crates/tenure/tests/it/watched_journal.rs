//! A journal on the simulated disk, with a list of what is done to its files, a hand that can refuse a
//! step or do something before it, and eyes for its sidecars as docs/FORMAT.md describes them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::fs::{Access, Fs};
use tenure::{AppendOptions, Durability, Journal, WriteOptions};
use tenure_testkit::SimFs;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::faulty_fs::{FaultyFs, Op, Verdict};

pub(crate) const PATH: &str = "/d/log.jsonl";

type Deed = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Plan {
    done: Vec<String>,
    deeds: Vec<(String, Deed)>,
    /// Before the step with this place in the list.
    nth: Option<(usize, Deed)>,
    refused: Vec<(String, std::io::ErrorKind)>,
    refuse_this: bool,
}

/// See the top of the file. A clone is the same disk.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) sim: SimFs,
    fs: FaultyFs,
    plan: Arc<Mutex<Plan>>,
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    pub(crate) fn new() -> Self {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        Self::on(sim)
    }

    /// Goes on with a disk on which something happened before.
    pub(crate) fn on(sim: SimFs) -> Self {
        let plan = Arc::new(Mutex::new(Plan::default()));
        let watched = plan.clone();
        let fs = FaultyFs::on(sim.shared(), move |op, path| judge(&watched, op, path));
        Self { sim, fs, plan }
    }

    /// The journal as a process sees it that has not used it yet.
    pub(crate) fn journal(&self) -> Journal {
        Journal::open_on(&self.fs.shared(), Path::new(PATH)).unwrap()
    }

    /// Appends one durable batch; returns the number of its first line.
    pub(crate) fn append(&self, lines: &[&str]) -> u64 {
        self.journal().append(lines, &AppendOptions::default()).unwrap().first
    }

    /// Does this once, right before the next such step: see [`Self::steps`], and `Stat` of anything.
    pub(crate) fn before(&self, step: &str, deed: impl FnOnce() + Send + 'static) {
        lock(&self.plan).deeds.push((step.to_owned(), Box::new(deed)));
    }

    /// Does this right before the step that would be the `nth` from now on, 0 is the next one.
    pub(crate) fn before_nth(&self, nth: usize, deed: impl FnOnce() + Send + 'static) {
        let mut plan = lock(&self.plan);
        plan.done.clear();
        plan.nth = Some((nth, Box::new(deed)));
    }

    /// Lets the step fail that would be the `nth` from now on.
    pub(crate) fn refuse_nth(&self, nth: usize) {
        let plan = self.plan.clone();
        self.before_nth(nth, move || lock(&plan).refuse_this = true);
    }

    /// Lets the next such step fail.
    pub(crate) fn refuse(&self, step: &str, kind: std::io::ErrorKind) {
        lock(&self.plan).refused.push((step.to_owned(), kind));
    }

    /// Whether every deed and every refusal has had its moment.
    pub(crate) fn is_through(&self) -> bool {
        let plan = lock(&self.plan);
        plan.deeds.is_empty() && plan.refused.is_empty() && plan.nth.is_none()
    }

    /// The changes and syncs of the journal's files since the last call, in their order.
    pub(crate) fn steps(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.plan).done)
    }

    /// Another process, which does not use tenure.
    pub(crate) fn outsider(&self) -> Outsider {
        Outsider(self.sim.another_process().shared())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let bytes = self.sim.peek(format!("/d/{name}"))?;
        Some(String::from_utf8(bytes).unwrap())
    }

    /// Every entry with its number, as a reader sees them now.
    pub(crate) fn entries(&self) -> Vec<(u64, String)> {
        entries_of(&self.journal())
    }

    /// The entries are these, numbered from 1 on, and everything fits its checksums.
    #[track_caller]
    pub(crate) fn expect(&self, lines: &[&str]) {
        assert_eq!(self.entries(), numbered(lines));
        let report = self.journal().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{report:?}");
    }

    #[track_caller]
    pub(crate) fn expect_entries(&self, lines: &[&str]) {
        assert_eq!(self.entries(), numbered(lines));
    }

    /// The same bytes in another file, as a copy of the directory has them.
    pub(crate) fn copy_anew(&self, path: &str) {
        let bytes = self.sim.peek(path).unwrap();
        self.sim.add_file(format!("{path}.copy"), bytes);
        self.sim.shared().rename(Path::new(&format!("{path}.copy")), Path::new(path)).unwrap();
    }

    /// Changes one byte of a file in place, as a bad disk does.
    pub(crate) fn alter(&self, path: &str, at: u64, byte: u8) {
        let before = self.sim.peek(path).unwrap()[usize::try_from(at).unwrap()];
        assert_ne!(before, byte, "byte {at} is something else");
        let file = self.sim.shared().open(Path::new(path), Access::ReadWrite).unwrap();
        file.write_all_at(&[byte], at).unwrap();
    }

    /// The same for a byte that may be anything.
    pub(crate) fn flip(&self, path: &str, at: u64) {
        let before = self.sim.peek(path).unwrap()[usize::try_from(at).unwrap()];
        self.alter(path, at, !before);
    }

    /// A copy of the machine, to try two things on one state.
    pub(crate) fn fork(&self) -> Self {
        Self::on(self.sim.fork(1))
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

    /// The head as it counts now.
    pub(crate) fn head(&self) -> Head {
        let log = self.sim.peek("/d/.tenure/log.jsonl.wal").unwrap();
        let slots = [0, 4096, 8192, 9216].map(|at: usize| Head(log[at..at + 1024].to_vec()));
        let valid = slots.into_iter().filter(|slot| slot.at(1016) == xxh3_64(&slot.0[..1016]));
        valid.max_by_key(|slot| slot.at(8)).unwrap()
    }

    /// The records of an index; each has to be valid.
    pub(crate) fn index(&self, name: &str) -> Index {
        Index::read(&self.sim.peek(format!("/d/.tenure/log.jsonl.{name}")).unwrap())
    }
}

fn entries_of(journal: &Journal) -> Vec<(u64, String)> {
    let entries = journal.read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

pub(crate) fn numbered(lines: &[&str]) -> Vec<(u64, String)> {
    lines.iter().zip(1..).map(|(line, seq)| (seq, (*line).to_owned())).collect()
}

pub(crate) fn write() -> WriteOptions {
    WriteOptions::default()
}

pub(crate) fn unsynced() -> AppendOptions {
    let write = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
    AppendOptions { write, ..AppendOptions::default() }
}

pub(crate) fn with_header(header: &str) -> AppendOptions {
    AppendOptions { header: Some(header.into()), ..AppendOptions::default() }
}

/// What those do who do not know of tenure.
pub(crate) struct Outsider(Arc<dyn Fs>);

impl Outsider {
    pub(crate) fn append(&self, path: &str, text: &str) {
        let file = self.0.open(Path::new(path), Access::Append).unwrap();
        assert_eq!(file.append(text.as_bytes()).unwrap(), text.len());
    }

    /// Reads it with tenure all the same.
    pub(crate) fn entries(&self) -> Vec<(u64, String)> {
        entries_of(&Journal::open_on(&self.0, Path::new(PATH)).unwrap())
    }

    /// Appends and syncs.
    pub(crate) fn append_durably(&self, path: &str, text: &str) {
        self.append(path, text);
        self.0.open(Path::new(path), Access::Append).unwrap().sync().unwrap();
    }

    /// As those do whose file may have been moved away.
    pub(crate) fn append_or_create(&self, path: &str, text: &str) {
        drop(self.0.open(Path::new(path), Access::Create(0o600)).unwrap());
        self.append(path, text);
    }

    /// Writes a new file, and gives it the name.
    pub(crate) fn replace(&self, path: &str, text: &str) {
        let temp = PathBuf::from(format!("{path}.theirs"));
        let file = self.0.open(&temp, Access::Create(0o600)).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        self.0.rename(&temp, Path::new(path)).unwrap();
    }

    pub(crate) fn truncate(&self, path: &str) {
        self.0.open(Path::new(path), Access::ReadWrite).unwrap().set_len(0).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.remove(Path::new(path)).unwrap();
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        self.0.stat(Path::new(path)).unwrap().mode
    }

    pub(crate) fn set_mode(&self, path: &str, mode: u32) {
        self.0.open(Path::new(path), Access::ReadWrite).unwrap().set_mode(mode).unwrap();
    }
}

fn judge(plan: &Mutex<Plan>, op: Op, path: &Path) -> Verdict {
    let name = match op {
        Op::Open(_) => "Open".to_owned(),
        op => format!("{op:?}"),
    };
    let Some(role) = role_of(path) else { return Verdict::Go };
    let step = format!("{name} {role}");
    let told = (op.changes() && !matches!(op, Op::Open(_))) || matches!(op, Op::Sync | Op::SyncDir);
    if let Some(deed) = due(plan, &step, told) {
        deed(); // It may use the disk, so the list is not locked.
    }
    let mut plan = lock(plan);
    if std::mem::take(&mut plan.refuse_this) {
        return Verdict::Fail(rustix::io::Errno::IO.into());
    }
    if let Some(at) = plan.refused.iter().position(|(refused, _)| *refused == step) {
        return Verdict::Fail(plan.refused.remove(at).1.into());
    }
    if told {
        plan.done.push(step);
    }
    Verdict::Go
}

/// What is to be done before this step.
fn due(plan: &Mutex<Plan>, step: &str, told: bool) -> Option<Deed> {
    let mut plan = lock(plan);
    let now = plan.done.len();
    if told && plan.nth.as_ref().is_some_and(|(nth, _)| *nth == now) {
        return plan.nth.take().map(|(_, deed)| deed);
    }
    let found = plan.deeds.iter().position(|(at, _)| at == step)?;
    Some(plan.deeds.remove(found).1)
}

/// What a file is for; nothing if it is a lock or a record.
fn role_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    match name.strip_prefix("log.jsonl") {
        Some("") => Some("journal".to_owned()),
        Some(rest) => {
            let rest = rest.strip_prefix('.')?;
            if let Some(number) = rest.strip_prefix("tmp.") {
                return Some(format!("tmp {}", u64::from_str_radix(number, 16).ok()?));
            }
            let locks = ["commit", "hold", "events", "sync0", "sync1"];
            (!locks.contains(&rest)).then(|| rest.to_owned())
        }
        None if name == ".tenure" || name == "d" => Some(name.to_owned()),
        None => None,
    }
}

/// A slot of the log.
pub(crate) struct Head(Vec<u8>);

impl Head {
    /// The number at this offset.
    pub(crate) fn at(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.0[offset..offset + 8].try_into().unwrap())
    }

    pub(crate) fn boot(&self) -> &[u8] {
        &self.0[80..96]
    }
}

pub(crate) struct Index {
    pub(crate) generation: u64,
    pub(crate) first_seq: u64,
    pub(crate) header_len: u64,
    pub(crate) archive: u64,
    pub(crate) records: Vec<Record>,
}

/// A record without its checksums and its place among the checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    start: u64,
    end: u64,
    seq: u64,
    lines: u32,
    foreign: u32,
}

impl Range {
    pub(crate) fn new(start: u64, end: u64, seq: u64, lines: u32, foreign: u32) -> Self {
        Self { start, end, seq, lines, foreign }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) seq: u64,
    pub(crate) lines: u32,
    pub(crate) foreign: u32,
    pub(crate) sum: u64,
    pub(crate) epoch: u64,
    pub(crate) reach: u64,
    pub(crate) number: u64,
}

impl Index {
    pub(crate) fn ranges(&self) -> Vec<Range> {
        let range = |found: &Record| {
            Range::new(found.start, found.end, found.seq, found.lines, found.foreign)
        };
        self.records.iter().map(range).collect()
    }

    fn read(bytes: &[u8]) -> Self {
        let at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(at(120), xxh3_64(&bytes[..120]), "the title is sound");
        assert_eq!((bytes.len() - 128) % 72, 0, "nothing is behind the records");
        let generation = at(8);
        let records = bytes[128..].chunks_exact(72).map(|record| {
            let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            let short = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            let mut sum = Xxh3::default();
            sum.update(&generation.to_le_bytes());
            sum.update(&record[..64]);
            assert_eq!(long(64), sum.digest(), "the record is sound");
            Record {
                start: long(0),
                end: long(8),
                seq: long(16),
                lines: short(24),
                foreign: short(28),
                sum: long(32),
                epoch: long(40),
                reach: long(48),
                number: long(56),
            }
        });
        let records = records.collect();
        Self { generation, first_seq: at(32), header_len: at(40), archive: at(48), records }
    }
}
