//! The real disk with a list of its operations, for tests of the steps of a change: their order,
//! and what is left if a step is refused or is the last one.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tenure::{Document, WriteOptions};

use crate::document_scratch::{Scratch, bytes_of, durably, increment};
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};

/// An operation, and what it was done to: see [`role_of`].
pub(crate) type Step = (Op, &'static str);

pub(crate) const EXCHANGED: Step = (Op::Exchange, "document");
pub(crate) const CREATED: Step = (Op::RenameNew, "document");
pub(crate) const TEMP_MADE: Step = (Op::Open(Change::Create), "temp");
pub(crate) const TEMP_SYNCED: Step = (Op::Sync, "temp");
pub(crate) const SYNCED: Step = (Op::Sync, "document");
pub(crate) const KEPT_AS_GOOD: Step = (Op::Rename, "good");
pub(crate) const RECORDED: Step = (Op::Write, "record");

/// A disk, and a document on it.
pub(crate) struct Watched {
    pub(crate) scratch: Scratch,
    pub(crate) fs: FaultyFs,
    pub(crate) document: Document,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Default)]
struct Plan {
    done: Vec<Step>,
    refused: Vec<Step>,
    refused_once: Option<Step>,
    last: Option<Step>,
    is_dead: bool,
    cannot_exchange: bool,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::shown_as(|fs| fs)
    }

    /// The same, with some things looking different.
    pub(crate) fn shown_as(alter: impl FnOnce(FaultyFs) -> FaultyFs) -> Self {
        let scratch = Scratch::in_memory();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let planned = plan.clone();
        let fs = FaultyFs::new(move |op, path| {
            let step = (op, role_of(path));
            planned.lock().unwrap_or_else(PoisonError::into_inner).judge(step)
        });
        let fs = alter(fs);
        let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        Self { scratch, fs, document, plan }
    }

    /// Refuses these steps from now on, and no others.
    pub(crate) fn refuse(&self, steps: &[Step]) {
        self.plan().refused = steps.to_vec();
    }

    /// Refuses the next such step.
    pub(crate) fn refuse_once(&self, step: Step) {
        self.plan().refused_once = Some(step);
    }

    /// Lets this be the last step that changes anything, as if the process died after it.
    pub(crate) fn die_after(&self, step: Step) {
        self.plan().last = Some(step);
    }

    /// Like vfat, old kernels and network file systems: names can only be replaced, not exchanged.
    pub(crate) fn cannot_exchange(&self) {
        self.plan().cannot_exchange = true;
    }

    /// Another process starts; the list of operations is cleared.
    pub(crate) fn live_on(&self) {
        *self.plan() = Plan::default();
    }

    /// What was done since the beginning, or since [`Self::live_on`].
    pub(crate) fn done(&self) -> Vec<Step> {
        self.plan().done.clone()
    }

    pub(crate) fn times(&self, step: Step) -> usize {
        self.plan().done.iter().filter(|done| **done == step).count()
    }

    /// The bytes of a sidecar, or of the document itself.
    pub(crate) fn file(&self, role: &str) -> Option<Vec<u8>> {
        let path = match role {
            "document" => self.scratch.path("state.json"),
            _ => self.scratch.path(&format!(".tenure/state.json.{role}")),
        };
        path.exists().then(|| bytes_of(path))
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn judge(&mut self, step: Step) -> Verdict {
        let once = self.refused_once == Some(step);
        if once {
            self.refused_once = None;
        }
        if once || self.refused.contains(&step) || (self.is_dead && step.0.changes()) {
            return Verdict::Fail(Errno::IO.into());
        }
        if self.cannot_exchange && step.0 == Op::Exchange {
            return Verdict::Fail(io::ErrorKind::Unsupported.into());
        }
        self.is_dead |= self.last == Some(step);
        self.done.push(step);
        Verdict::Go
    }
}

/// What a file of the document `state.json` is for.
fn role_of(path: &Path) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let roles = [
        ("commit", "record"),
        ("good", "good"),
        ("damaged.1", "damaged"),
        ("ops", "ids"),
        ("sync0", "sync note"),
    ];
    match name.strip_prefix("state.json") {
        Some("") => "document",
        Some(rest) if rest.starts_with(".tmp.") => "temp",
        Some(rest) => {
            let known = roles.iter().find(|(suffix, _)| rest.strip_prefix('.') == Some(suffix));
            known.map_or("other", |(_, role)| role)
        }
        None if name == ".tenure" => "sidecars",
        None => "other",
    }
}

/// Version `number` as [`increment`] writes it.
#[expect(clippy::unnecessary_wraps, reason = "compared with files that may not be there")]
pub(crate) fn version(number: u64) -> Option<Vec<u8>> {
    Some(format!("{{\n  \"n\": {number}\n}}\n").into_bytes())
}

/// A disk with a synced version 1 (`.good`), and version 2 on top of it, synced or not.
pub(crate) fn two_versions(top: &WriteOptions) -> Watched {
    let disk = Watched::new();
    disk.document.update(&durably(), increment).unwrap();
    disk.document.update(top, increment).unwrap();
    assert_eq!((disk.file("good"), disk.file("document")), (version(1), version(2)));
    disk.live_on();
    disk
}

/// The same handle could remember more than a later process.
pub(crate) fn another(disk: &Watched) -> Document {
    Document::open_on(&disk.fs.shared(), disk.document.path()).unwrap()
}

pub(crate) fn position(steps: &[Step], step: Step) -> usize {
    let found = steps.iter().position(|done| *done == step);
    found.unwrap_or_else(|| panic!("no {step:?} in {steps:?}"))
}
