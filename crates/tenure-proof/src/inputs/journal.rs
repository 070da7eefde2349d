//! The files of a journal, with arbitrary content.
//!
//! # Invariants that are checked
//!
//! 1. No panic, no hang, no unbounded memory: the callers limit both.
//! 2. A reader changes no byte of any file.
//! 3. A writer refuses with `damaged` or `newer_format` (exit 5, 6), or continues, and never
//!    truncates the journal. Existing bytes stay, unless a record with a valid checksum says that
//!    they are a batch of the log.
//! 4. Without valid checksums every line keeps its bytes, and what is appended is read back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tenure::fs::Access;
use tenure::outcome::Entry;
use tenure::{AppendOptions, ErrorKind, Journal, WriteOptions};
use tenure_testkit::{CrashKind, SimFs};

use super::plant::plant;
use super::record::CLAIMS_MAX;
use super::sums::{self, Layout};
use super::{Fate, disk, durably, quickly};

const JOURNAL: &str = "/d/log.jsonl";
const ARCHIVE: &str = "/d/log.jsonl.1";
const ARCHIVE_INDEX: &str = "/d/.tenure/log.jsonl.index.1";
const LOG: &str = "/d/.tenure/log.jsonl.log";
const HEADER: &str = "{\"header\":0}";
/// Lines in the archive, and after it.
const OLD: &[&str] = &["{\"n\":1}", "{\"n\":2}"];
const NEW: &[&str] = &["{\"n\":3}", "{\"n\":4}", "{\"n\":5}"];
const FOREIGN: &str = "{\"foreign\":1}";
const LATEST: &str = "{\"latest\":6}";
/// Kinds of records: a batch, and the intent to replace the journal.
const BATCH: u8 = 1;
const REPLACE: u8 = 4;

/// The files, by the upper half of an input's first byte, and the scene.
const FILES: &[(&str, Layout, Scene)] = &[
    (JOURNAL, Layout::Plain, Scene::Batches),
    ("/d/.tenure/log.jsonl.index", Layout::Index, Scene::Compacted),
    ("/d/.tenure/log.jsonl.commit", Layout::Record, Scene::Batches),
    (LOG, Layout::Log, Scene::Batches),
    (ARCHIVE_INDEX, Layout::Index, Scene::Batches),
    (ARCHIVE, Layout::Plain, Scene::Batches),
    ("/d/.tenure/log.jsonl.sync0", Layout::Notes, Scene::Batches),
    (LOG, Layout::Log, Scene::Foreign),
    (LOG, Layout::Log, Scene::Replacing),
    (LOG, Layout::Log, Scene::Pending),
    ("/d/.tenure/log.jsonl.ops", Layout::Operations, Scene::Batches),
];

/// The past of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// A header, an archive, an index of it, batches with and without a sync, and an operation.
    Batches,
    /// The same, and a line of another tool in place of a pending batch: Placed and Range records.
    Foreign,
    /// The same as the first; a writer died in a rotation after writing its intent: a Replace
    /// record.
    Replacing,
    /// The same as the first; a writer died while it wrote a durable batch to the journal.
    Pending,
    /// The same as the first, compacted: an index with records.
    Compacted,
}

fn append(journal: &Journal, lines: &[&str], write: WriteOptions) -> tenure::Result<()> {
    let options = AppendOptions { write, ..AppendOptions::default() };
    journal.append(lines, &options).map(drop)
}

fn open(sim: &SimFs) -> Journal {
    Journal::open_on(&sim.shared(), Path::new(JOURNAL)).expect("a path")
}

fn build() -> SimFs {
    let (sim, _) = disk();
    let journal = open(&sim);
    let options =
        AppendOptions { write: durably(), header: Some(HEADER.into()), ..AppendOptions::default() };
    journal.append(OLD, &options).expect("a batch");
    journal.rotate(&quickly()).expect("a rotation");
    let once = WriteOptions { operation: Some("once".into()), ..durably() };
    append(&journal, &NEW[..2], once).expect("a batch");
    append(&journal, &NEW[2..], quickly()).expect("a batch");
    sim
}

/// A copy in which another process died before this operation of its call.
fn after_death(sim: &SimFs, nth: u64, call: impl Fn(&Journal)) -> SimFs {
    let copy = sim.fork(nth);
    let victim = copy.another_process();
    victim.fail_after(nth, CrashKind::Process);
    call(&open(&victim));
    copy.another_process()
}

/// The first death that leaves the wanted state.
fn first_death(sim: &SimFs, call: impl Fn(&Journal), is_it: impl Fn(&SimFs) -> bool) -> SimFs {
    let mut deaths = (1..200).map(|nth| after_death(sim, nth, &call));
    deaths.find(is_it).expect("a death that leaves it")
}

impl Scene {
    fn build(self) -> SimFs {
        let sim = build();
        let one = |journal: &Journal| drop(append(journal, &[LATEST], durably()));
        let kinds = |sim: &SimFs| sums::kinds(&sim.peek(LOG).unwrap_or_default());
        let batches = |sim: &SimFs| kinds(sim).into_iter().filter(|kind| *kind == BATCH).count();
        let before = sim.peek(JOURNAL).expect("the journal");
        match self {
            Self::Batches => sim,
            Self::Foreign => {
                let logged = batches(&sim) + 1;
                let sim = first_death(&sim, one, |sim| {
                    batches(sim) == logged && open(sim).verify().is_ok_and(|it| it.pending == 1)
                });
                let file = sim.shared().open(Path::new(JOURNAL), Access::ReadWrite);
                let line = format!("{FOREIGN}\n");
                let at = before.len() as u64;
                file.expect("a file").write_all_at(line.as_bytes(), at).expect("a write");
                append(&open(&sim), &[LATEST], durably()).expect("a batch");
                sim
            }
            Self::Replacing => {
                let rotate = |journal: &Journal| drop(journal.rotate(&durably()));
                first_death(&sim, rotate, |sim| kinds(sim).contains(&REPLACE))
            }
            Self::Pending => first_death(&sim, one, |sim| {
                sim.peek(JOURNAL).is_some_and(|now| now.len() > before.len())
                    && open(sim).verify().is_ok_and(|it| it.pending == 1)
            }),
            Self::Compacted => {
                open(&sim).compact(&durably(), |entry| entry.seq >= 4).expect("a compaction");
                append(&open(&sim), &[LATEST], quickly()).expect("a batch");
                sim
            }
        }
    }

    /// A machine of its own.
    fn machine(self) -> SimFs {
        static SCENES: [OnceLock<SimFs>; 5] = [const { OnceLock::new() }; 5];
        SCENES[self as usize].get_or_init(|| self.build()).fork(1)
    }
}

fn lines(journal: &Journal, from: u64) -> tenure::Result<Vec<String>> {
    let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
    // A gap is reported once, and the entries after it follow.
    let is_gap =
        |entry: &tenure::Result<Entry>| entry.as_ref().is_err_and(|error| error.gap().is_some());
    let entries = journal.read(from, None)?.filter(|entry| !is_gap(entry));
    entries.map(|entry| entry.map(|entry| text(entry.line))).collect()
}

/// Every file and its bytes.
fn files(sim: &SimFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for dir in ["/d", "/d/.tenure"] {
        for name in sim.shared().list(Path::new(dir)).expect("a directory") {
            let path = Path::new(dir).join(name);
            if let Some(bytes) = sim.peek(&path) {
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// One file of a journal has arbitrary content.
pub fn journal(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (file, layout, scene) = FILES[usize::from(flags >> 4) % FILES.len()];
    let sim = scene.machine();
    let journal = open(&sim);
    let planted = plant(&sim, file, layout, (*flags, input), JOURNAL);
    if planted.resealed && layout == Layout::Record {
        let too_far = sums::largest_claim(layout, &planted.bytes) > CLAIMS_MAX;
        if too_far {
            return Fate::Skipped;
        }
    }
    let is_data = layout == Layout::Plain;
    // A reader that begins in a damaged archive gets an error, and not what follows it.
    let is_old = [ARCHIVE, ARCHIVE_INDEX].contains(&file);
    let from = if is_old { OLD.len() as u64 + 1 } else { 0 };
    let plain = files(&sim);
    let report = journal.verify().inspect_err(refused);
    let before = lines(&journal, from).inspect_err(refused);
    assert!(files(&sim) == plain, "a reader has changed a file");
    let fate = match layout {
        Layout::Plain => before.is_ok(),
        // The log belongs to the journal, and every slot of it has changed.
        Layout::Log => planted.replaces_all() && report.as_ref().is_ok_and(|it| !it.unbound),
        // No answer here shows whether an index was used; the other files have functions of their
        // own.
        _ => false,
    };
    let fate = Fate::seen(fate);
    if let (Ok(before), false, Scene::Batches) = (&before, is_data || planted.resealed, scene) {
        // With the newest state damaged, the previous state is used: it does not include the last
        // batch.
        let least = if layout == Layout::Log { NEW.len() - 1 } else { NEW.len() };
        let all = [OLD, NEW].concat();
        let ours = before.len() >= least && all.windows(before.len()).any(|some| some == before);
        assert!(ours, "other lines: {before:?}");
    }
    let has_intent = layout == Layout::Log && sums::kinds(&planted.bytes).contains(&REPLACE);
    let plain = sim.peek(JOURNAL).expect("the journal");
    let mut appended = false;
    let once = WriteOptions { operation: Some("once".into()), ..quickly() };
    let again = (layout == Layout::Operations).then_some(once);
    for write in again.into_iter().chain([quickly(), durably()]) {
        match append(&journal, &[LATEST], write) {
            Ok(()) => appended = true,
            Err(error) => refused(&error),
        }
    }
    if has_intent {
        return fate; // The record may have replaced the file.
    }
    let after = sim.peek(JOURNAL).expect("the journal");
    let is_kept = |(had, has): (&u8, &u8)| had == has || *had == 0;
    let kept = plain.iter().zip(&after).all(is_kept);
    assert!(after.len() >= plain.len() && kept, "a byte of the journal has changed");
    if planted.resealed && !is_data {
        let _ = lines(&journal, 0).inspect_err(refused);
        let _ = journal.verify().inspect_err(refused);
        let _ = journal.repair(&durably()).inspect_err(refused);
        let _ = journal.rotate(&durably()).inspect_err(refused);
        return fate;
    }
    if !appended {
        return fate;
    }
    // A file that was rewritten in place is detected by `verify` only (docs/FORMAT.md, Limits).
    let report = match journal.verify() {
        Ok(report) => report,
        Err(error) => {
            // Damage in log records that no append has to read, or in the index: readers report it.
            assert!([Layout::Index, Layout::Log].contains(&layout), "{error}");
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            return fate;
        }
    };
    let after = lines(&journal, from).inspect_err(refused);
    if !is_data || report.is_sound() {
        let after = after.expect("what was just written can be read");
        // A line that another tool left unterminated is numbered after the batch that closed it.
        let is_there = after.iter().rev().take(2).any(|line| line == LATEST);
        assert!(is_there, "{file}: {after:?} {report:?}");
    }
    fate
}

/// A fault is reported as damage, or as a newer format.
fn refused(error: &tenure::Error) {
    let kinds = [
        ErrorKind::Damaged,
        ErrorKind::NewerFormat,
        // A planted record claims a lease, or a planted note claims a batch in doubt.
        ErrorKind::Busy,
        ErrorKind::NotDurable,
        // The archive that a planted title names.
        ErrorKind::NotFound,
    ];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
}
