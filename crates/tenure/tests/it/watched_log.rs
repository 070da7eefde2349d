//! A journal on the real disk with a list of what was done to its files, for tests of its steps: which
//! come before which, what somebody else does in between, and what is left if one of them is refused.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tenure::Journal;

use crate::document_scratch::Scratch;
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};

/// An operation, and which file of the journal it was done to.
pub(crate) type Step = (Op, &'static str);

pub(crate) const LOGGED: Step = (Op::Write, "log");
pub(crate) const LOG_SYNCED: Step = (Op::Sync, "log");
pub(crate) const WRITTEN: Step = (Op::Write, "journal");
pub(crate) const LOOKED: Step = (Op::StatHandle, "journal");
pub(crate) const SYNCED: Step = (Op::Sync, "journal");
pub(crate) const LOCKED: Step = (Op::Lock, "record");
pub(crate) const RECORDED: Step = (Op::Write, "record");
/// The first step of a shared sync: the batch is logged, and waits.
pub(crate) const SYNC_BEGINS: Step = (Op::Open(Change::Write), "notes");

/// A directory with a journal, and a process that uses it.
pub(crate) struct Watched {
    pub(crate) scratch: Arc<Scratch>,
    pub(crate) journal: Journal,
    plan: Arc<Mutex<Plan>>,
}

type Deed = Box<dyn FnOnce() -> Verdict + Send>;

#[derive(Default)]
struct Plan {
    done: Vec<Step>,
    /// What happens at such a step, after so many more of them.
    deeds: Vec<(Step, usize, Deed)>,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::below(Arc::new(Scratch::in_memory()))
    }

    /// Another process with the same journal.
    pub(crate) fn beside(&self) -> Self {
        Self::below(self.scratch.clone())
    }

    fn below(scratch: Arc<Scratch>) -> Self {
        let plan: Arc<Mutex<Plan>> = Arc::default();
        let planned = plan.clone();
        let fs = FaultyFs::new(move |op, path| {
            let step = (op, role_of(path));
            let deed = planned.lock().unwrap_or_else(PoisonError::into_inner).due(step);
            deed.map_or(Verdict::Go, |deed| deed())
        });
        let journal = Journal::open_on(&fs.shared(), &scratch.path("log.jsonl")).unwrap();
        Self { scratch, journal, plan }
    }

    /// Does something right before the next such step, and decides what becomes of it.
    pub(crate) fn at_next(&self, step: Step, deed: impl FnOnce() -> Verdict + Send + 'static) {
        self.at_nth(1, step, deed);
    }

    /// The same before the `nth` such step from now.
    pub(crate) fn at_nth(
        &self,
        nth: usize,
        step: Step,
        deed: impl FnOnce() -> Verdict + Send + 'static,
    ) {
        self.plan().deeds.push((step, nth - 1, Box::new(deed)));
    }

    /// Refuses the `nth` such step from now.
    pub(crate) fn refuse_nth(&self, nth: usize, step: Step) {
        self.at_nth(nth, step, || Verdict::Fail(Errno::IO.into()));
    }

    /// Somebody appends to the file right before the next such step.
    pub(crate) fn foreign_at_next(&self, step: Step, text: &'static str) {
        let path = self.log();
        self.at_next(step, move || {
            crate::journal::foreign(&path, text);
            Verdict::Go
        });
    }

    /// What was tried of these steps since the last call of it, refused ones too.
    pub(crate) fn take(&self, wanted: &[Step]) -> Vec<Step> {
        let done = std::mem::take(&mut self.plan().done);
        done.into_iter().filter(|step| wanted.contains(step)).collect()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.scratch.path("log.jsonl")
    }

    pub(crate) fn sidecar(&self, suffix: &str) -> PathBuf {
        self.scratch.path(&format!(".tenure/log.jsonl.{suffix}"))
    }

    /// The file as anybody sees it.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap()
    }

    /// The events that were recorded.
    pub(crate) fn events(&self) -> String {
        std::fs::read_to_string(self.sidecar("events")).unwrap_or_default()
    }

    pub(crate) fn head(&self) -> Head {
        Head::of(&std::fs::read(self.sidecar("wal")).unwrap())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn due(&mut self, step: Step) -> Option<Deed> {
        self.done.push(step);
        let mut due = None;
        for (place, (at, left, _)) in self.deeds.iter_mut().enumerate() {
            if *at == step {
                if *left == 0 && due.is_none() {
                    due = Some(place);
                } else {
                    *left = left.saturating_sub(1);
                }
            }
        }
        due.map(|place| self.deeds.remove(place).2)
    }
}

/// What a file of the journal `log.jsonl` is for.
fn role_of(path: &Path) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_prefix("log.jsonl") {
        Some("") => "journal",
        Some(".wal") => "log",
        Some(".index") => "index",
        Some(".commit") => "record",
        Some(".sync0") => "notes",
        _ => "other",
    }
}

/// No space is left on the device.
pub(crate) fn full() -> Verdict {
    Verdict::Fail(io::ErrorKind::StorageFull.into())
}

/// The head of a log, as docs/FORMAT.md lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) turn: u64,
    pub(crate) anchors: u64,
    pub(crate) epoch: u64,
    pub(crate) entries: u64,
    pub(crate) end: u64,
    pub(crate) applied: u64,
    pub(crate) journal_end: u64,
    pub(crate) next_seq: u64,
    pub(crate) partial: u64,
    pub(crate) room: u64,
    pub(crate) index_len: u64,
    pub(crate) flags: u64,
}

impl Head {
    /// The slot with the largest turn.
    pub(crate) fn of(log: &[u8]) -> Self {
        let slots = [0, 4096, 8192, 9216].into_iter().filter(|at| log.len() >= at + 1024);
        slots.map(|at| Self::at(&log[at..])).max_by_key(|head| head.turn).unwrap()
    }

    fn at(slot: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().unwrap());
        Self {
            turn: number(8),
            anchors: number(16),
            epoch: number(24),
            entries: number(120),
            end: number(128),
            applied: number(136),
            journal_end: number(152),
            next_seq: number(160),
            partial: number(168),
            room: number(176),
            index_len: number(184),
            flags: number(224),
        }
    }
}
