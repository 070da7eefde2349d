//! A stage for journals: a disk in memory where a test acts between any two steps of a process, or ends
//! the process there, and then looks into the files, as docs/FORMAT.md describes them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use serde_json::Value;
use tenure::{AppendOptions, Appended, Durability, Journal, WriteOptions};
use xxhash_rust::xxh3::xxh3_64;

use crate::document_scratch::Scratch;
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::forged::number_in;

/// An operation, and what it was done to: see [`role_of`].
pub(crate) type Step = (Op, &'static str);

pub(crate) const LOGGED: Step = (Op::Write, "wal");
pub(crate) const LOG_SYNCED: Step = (Op::Sync, "wal");
pub(crate) const WRITTEN: Step = (Op::Write, "journal");
pub(crate) const SYNCED: Step = (Op::Sync, "journal");
pub(crate) const OPENED_TO_MEND: Step = (Op::Open(Change::Write), "journal");

/// Numbers in a slot of the log.
pub(crate) const EPOCH: usize = 24;
pub(crate) const BASE: usize = 96;
pub(crate) const BASE_SEQ: usize = 104;
pub(crate) const FIRST_NUMBER: usize = 112;
pub(crate) const ENTRIES: usize = 120;
pub(crate) const PARTIAL: usize = 168;
pub(crate) const FLAGS: usize = 224;
/// Writing to the journal may have begun.
pub(crate) const BEGUN: u64 = 1;

const SLOTS: [usize; 4] = [0, 4096, 8192, 9216];

/// What is left of the step in which a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Before,
    /// Half of the bytes.
    Within,
    After,
}

impl Death {
    fn verdict(self) -> Verdict {
        match self {
            Self::Before => Verdict::Fail(Errno::IO.into()),
            Self::Within => Verdict::Short,
            Self::After => Verdict::Go,
        }
    }
}

type Kind = fn(Step) -> bool;
type Deed = Box<dyn FnOnce() -> Verdict + Send>;

#[derive(Default)]
struct Script {
    done: Vec<Step>,
    cues: Vec<(Step, usize, Deed)>,
    /// Steps of this kind until the process dies, and how.
    left: Option<(Kind, usize, Death)>,
    /// Steps of any kind until something happens.
    soon: Option<(usize, Deed)>,
    is_dead: bool,
}

impl Script {
    /// What the test wants to do at this step.
    fn advance(&mut self, step: Step) -> Option<Deed> {
        if self.is_dead {
            return Some(Box::new(|| Verdict::Fail(Errno::IO.into())));
        }
        self.done.push(step);
        if let Some((left, deed)) = self.soon.take() {
            if left == 0 {
                return Some(deed);
            }
            self.soon = Some((left - 1, deed));
        }
        if let Some((_, left, death)) = self.left.as_mut().filter(|(counts, ..)| counts(step)) {
            *left -= 1;
            if *left == 0 {
                self.is_dead = true;
                let death = *death;
                return Some(Box::new(move || death.verdict()));
            }
        }
        let cue = self.cues.first_mut().filter(|cue| cue.0 == step)?;
        cue.1 -= 1;
        (cue.1 == 0).then(|| self.cues.remove(0).2)
    }
}

/// The stage; a copy is the same one.
#[derive(Clone)]
pub(crate) struct Stage {
    scratch: Arc<Scratch>,
    pub(crate) fs: FaultyFs,
    script: Arc<Mutex<Script>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::shown_as(|fs| fs)
    }

    /// The same, with some things looking different.
    pub(crate) fn shown_as(alter: impl FnOnce(FaultyFs) -> FaultyFs) -> Self {
        Self::below(Arc::new(Scratch::in_memory()), alter)
    }

    /// The same files, with a process and a script of its own.
    pub(crate) fn beside(&self) -> Self {
        Self::below(self.scratch.clone(), |fs| fs)
    }

    fn below(scratch: Arc<Scratch>, alter: impl FnOnce(FaultyFs) -> FaultyFs) -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let followed = script.clone();
        let fs = FaultyFs::new(move |op, path| {
            let deed = locked(&followed).advance((op, role_of(path)));
            deed.map_or(Verdict::Go, |deed| deed())
        });
        Self { scratch, fs: alter(fs), script }
    }

    /// The journal as a process sees it that has just been started.
    pub(crate) fn journal(&self) -> Journal {
        Journal::open_on(&self.fs.shared(), &self.path()).unwrap()
    }

    /// Appends one line as such a process.
    pub(crate) fn append(&self, line: &str, options: &AppendOptions) -> Appended {
        self.journal().append(&[line], options).unwrap()
    }

    /// Does something right before the `nth` such step from now; of several cues, one after the other.
    pub(crate) fn at(
        &self,
        step: Step,
        nth: usize,
        act: impl FnOnce() -> Verdict + Send + 'static,
    ) {
        locked(&self.script).cues.push((step, nth, Box::new(act)));
    }

    /// Does something right before the `nth` step of any kind from now on, 0 is the next one.
    pub(crate) fn before_step(&self, nth: usize, act: impl FnOnce() -> Verdict + Send + 'static) {
        locked(&self.script).soon = Some((nth, Box::new(act)));
    }

    /// Ends the process at the `nth` such step from now.
    pub(crate) fn die_at(&self, step: Step, nth: usize, death: Death) {
        let script = self.script.clone();
        self.at(step, nth, move || {
            locked(&script).is_dead = true;
            death.verdict()
        });
    }

    /// Ends the process at the `nth` step from now that changes or syncs anything.
    pub(crate) fn die_at_step(&self, nth: usize, death: Death) {
        let counts = |step: Step| step.0.changes() || matches!(step.0, Op::Sync | Op::SyncDir);
        self.die_at_any(counts, nth, death);
    }

    /// Ends the process at the `nth` step of this kind from now.
    pub(crate) fn die_at_any(&self, counts: Kind, nth: usize, death: Death) {
        locked(&self.script).left = Some((counts, nth, death));
    }

    /// Whether the process has come to its end.
    pub(crate) fn is_dead(&self) -> bool {
        locked(&self.script).is_dead
    }

    /// Another process comes; what was done is forgotten.
    pub(crate) fn live_on(&self) {
        *locked(&self.script) = Script::default();
    }

    /// What was done to these files since the beginning, or since [`Self::live_on`].
    pub(crate) fn done(&self, of: &[Step]) -> Vec<Step> {
        locked(&self.script).done.iter().filter(|step| of.contains(step)).copied().collect()
    }

    /// The same, and forgets everything that was done.
    pub(crate) fn take(&self, of: &[Step]) -> Vec<Step> {
        let done = self.done(of);
        locked(&self.script).done.clear();
        done
    }

    pub(crate) fn times(&self, step: Step) -> usize {
        self.done(&[step]).len()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path("log.jsonl")
    }

    pub(crate) fn side(&self, suffix: &str) -> PathBuf {
        self.scratch.path(&format!(".tenure/log.jsonl.{suffix}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(fs::read(self.path()).unwrap()).unwrap()
    }

    /// Somebody else appends.
    pub(crate) fn foreign(&self, text: &str) {
        let file = fs::OpenOptions::new().append(true).create(true).open(self.path());
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Somebody else puts another file in the journal's place.
    pub(crate) fn replace(&self, text: &str) {
        let other = self.scratch.path("other");
        fs::write(&other, text).unwrap();
        fs::rename(&other, self.path()).unwrap();
    }

    /// Somebody else writes these bytes over those that are there.
    pub(crate) fn overwrite(&self, text: impl AsRef<[u8]>) {
        fs::write(self.path(), text).unwrap();
    }

    /// What a reader is told.
    pub(crate) fn entries(&self) -> Vec<(u64, String)> {
        let entries = self.journal().read(0, None).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
    }

    /// A number in the newest slot of the log.
    pub(crate) fn in_head(&self, at: usize) -> u64 {
        let log = fs::read(self.side("wal")).unwrap();
        let slots = SLOTS.iter().filter_map(|slot| log.get(*slot..slot + 1024));
        number_in(slots.max_by_key(|slot| number_in(slot, 8)).unwrap(), at)
    }

    /// Plants a number in every slot of the log, with a checksum that fits.
    pub(crate) fn forge_head(&self, at: usize, number: u64) {
        let mut log = fs::read(self.side("wal")).unwrap();
        for slot in SLOTS {
            if !log[slot..].starts_with(b"tenwal") {
                continue;
            }
            log[slot + at..][..8].copy_from_slice(&number.to_le_bytes());
            let sum = xxh3_64(&log[slot..slot + 1016]);
            log[slot + 1016..][..8].copy_from_slice(&sum.to_le_bytes());
        }
        fs::write(self.side("wal"), log).unwrap();
    }

    /// The records of the index: start, end, first number, lines, and how many of them are of others.
    pub(crate) fn records(&self) -> Vec<[u64; 5]> {
        let index = fs::read(self.side("index")).unwrap();
        let record = |bytes: &[u8]| {
            let counts = number_in(bytes, 24);
            let (lines, foreign) = (counts & 0xffff_ffff, counts >> 32);
            [number_in(bytes, 0), number_in(bytes, 8), number_in(bytes, 16), lines, foreign]
        };
        index[128..].chunks_exact(72).map(record).collect()
    }

    /// What was written down for people: the events of this name.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.side("events")).unwrap_or_default();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == name).map(|event| event["detail"].clone()).collect()
    }
}

fn locked(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a file of the journal `log.jsonl` is for.
fn role_of(path: &Path) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(suffix) = name.strip_prefix("log.jsonl") else {
        return if name == ".tenure" { "side" } else { "dir" };
    };
    let known =
        ["wal", "index", "torn", "damaged", "displaced", "commit", "hold", "events", "sync0"];
    match suffix.strip_prefix('.') {
        None => "journal",
        Some(temp) if temp.starts_with("tmp.") => "temp",
        Some(suffix) => known.into_iter().find(|role| *role == suffix).unwrap_or("other"),
    }
}

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

/// Lines with their numbers.
pub(crate) fn numbered(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    lines.iter().map(|(seq, line)| (*seq, (*line).to_owned())).collect()
}
