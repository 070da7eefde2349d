//! Every file on the disk, damaged in every way.
//!
//! A machine has a document, its last good version, a journal with a log, an index and an archive,
//! a pruned key and recorded events. One file is flipped, cut, extended, zeroed, swapped with
//! another one or replaced by arbitrary bytes; then everything is used. Nothing may panic, hang, or
//! use unbounded memory. Results are correct, or errors; fences never decrease; damage to a journal
//! is reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::fs::{Access, Fs};
use tenure::options::{CollectionKind, Durability, Prune};
use tenure::{
    AppendOptions, Collection, Document, ErrorKind, Journal, Lease, LeaseOptions, Lock,
    LockOptions, Value, Wait, WriteOptions, json,
};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::{Random, SimFs};

use crate::runs::within;

const DOCUMENT: &str = "/d/state.json";
const JOURNAL: &str = "/d/log.jsonl";
/// The most memory the whole ring may use: damage must not make it request gigabytes.
pub(crate) const MEMORY_MAX_KIB: u64 = 600 * 1024;

fn options(durability: Durability) -> WriteOptions {
    WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() }
}

pub(crate) fn line(number: usize) -> String {
    format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat(number % 7))
}

/// The original content, as it must be found again.
#[derive(Clone)]
struct Known {
    fences: [u64; 2],
    value: Value,
    lines: Vec<String>,
}

fn fence(fs: &Arc<dyn Fs>, path: &str) -> tenure::Result<u64> {
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let guard = Lock::open_on(fs, Path::new(path))?.acquire(&options)?;
    let fence = guard.publish_fence();
    guard.release()?;
    Ok(fence)
}

/// The machine before the damage.
fn build() -> (SimFs, Known) {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let fs = sim.shared();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let mut value = Value::Null;
    for turn in 0..3 {
        value = json!({ "turn": turn, "list": [1, 2.50, "three"], "deep": { "a": null } });
        document.set(&value, &options(Durability::Durable)).expect("a change");
    }
    let journal = Journal::open_on(&fs, Path::new(JOURNAL)).expect("a path");
    let mut lines = Vec::new();
    for number in 0..12 {
        let durability = [Durability::Durable, Durability::NoSync][number % 2];
        let append = AppendOptions { write: options(durability), ..AppendOptions::default() };
        journal.append(&[line(2 * number), line(2 * number + 1)], &append).expect("a batch");
        lines.extend([line(2 * number), line(2 * number + 1)]);
        if number == 5 {
            journal.rotate(&options(Durability::Durable)).expect("a rotation");
        }
    }
    sim.add_dir("/d/keys");
    let keys = Collection::open_on(&fs, Path::new("/d/keys"), CollectionKind::Documents);
    let keys = keys.expect("a collection");
    keys.document("gone")
        .expect("a key")
        .set(&json!(1), &options(Durability::Durable))
        .expect("set");
    let all = Prune { max_count: Some(0), ..Prune::default() };
    keys.prune(&all, &options(Durability::Durable)).expect("a removal");
    let lease = Lease::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let terms = LeaseOptions { ttl: Duration::from_secs(60), ..LeaseOptions::default() };
    let leased = lease.take_over(&terms, "to have an event").expect("a lease");
    lease.release(&leased.token).expect("a release");
    let fences = [DOCUMENT, JOURNAL].map(|path| fence(&fs, path).expect("a fence"));
    (sim, Known { fences, value, lines })
}

fn files(sim: &SimFs) -> Vec<PathBuf> {
    let fs = sim.shared();
    let mut files = Vec::new();
    for dir in ["/d", "/d/.tenure", "/d/keys/.tenure"] {
        for name in fs.list(Path::new(dir)).expect("a directory") {
            let path = Path::new(dir).join(name);
            if sim.peek(&path).is_some() {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// One way to damage a file.
pub(crate) fn damage(random: &mut Random, bytes: &[u8], other: &[u8]) -> (&'static str, Vec<u8>) {
    let mut bytes = bytes.to_vec();
    // Most of a sidecar is unused zeros. Which bytes are zeros differs between runs, so the same
    // number of values is drawn in any case: a seed then repeats what follows.
    let places = [(); 9].map(|()| random.index(bytes.len()));
    let told = places.into_iter().find(|at| bytes.get(*at) != Some(&0));
    let at = told.unwrap_or(places[0]);
    let what = match random.index(9) {
        0 | 1 if !bytes.is_empty() => {
            bytes[at] ^= 1 << random.index(8);
            "a bit flipped"
        }
        2 if !bytes.is_empty() => {
            let end = (at + 1 + random.index(64)).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.bits().to_le_bytes()[0]);
            "a range overwritten"
        }
        3 => {
            bytes.truncate(at);
            "cut"
        }
        4 => {
            let more = random.index(200);
            bytes.extend((0..more).map(|_| random.bits().to_le_bytes()[0]));
            "extended"
        }
        5 => {
            bytes.iter_mut().skip(at).for_each(|byte| *byte = 0);
            "zeroed to its end"
        }
        6 => {
            bytes = other.to_vec();
            "swapped with another"
        }
        7 => {
            let len = random.index(20_000);
            bytes = (0..len).map(|_| random.bits().to_le_bytes()[0]).collect();
            "replaced by anything"
        }
        _ => {
            // Numbers that claim a lot: lengths, counts, offsets.
            let at = at / 8 * 8;
            if bytes.len() >= at + 8 {
                bytes[at..at + 8].copy_from_slice(&[0xff; 8]);
            }
            "a number made huge"
        }
    };
    (what, bytes)
}

/// The file keeps its identity: only its bytes show the damage.
fn write_in_place(sim: &SimFs, path: &Path, bytes: &[u8]) {
    let file = sim.shared().open(path, Access::ReadWrite).expect("a file");
    file.set_len(bytes.len() as u64).expect("a length");
    file.write_all_at(bytes, 0).expect("a write");
}

/// Uses everything that is there.
fn live(sim: &SimFs, known: &Known, damaged: &Path, changed: bool) {
    let fs = sim.shared();
    let is_data = damaged.parent() == Some(Path::new("/d"));
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let journal = Journal::open_on(&fs, Path::new(JOURNAL)).expect("a path");

    if let Ok(read) = document.read() {
        let read = read.expect("the document is there").value;
        assert!(damaged == Path::new(DOCUMENT) || read == known.value, "another document: {read}");
    }
    let lines = || -> tenure::Result<Vec<String>> {
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
        journal.read(0, None)?.map(|entry| entry.map(|entry| text(entry.line))).collect()
    };
    let before = lines();
    let report = journal.verify();
    if let (Ok(before), false) = (&before, is_data) {
        // Lines that a damaged log no longer describes wait for a number.
        let waiting =
            journal.read(u64::MAX, None).and_then(|entries| entries.pending()).unwrap_or_default();
        let waiting = waiting.iter().map(|line| String::from_utf8_lossy(line).into_owned());
        let all: Vec<String> = before.iter().cloned().chain(waiting).collect();
        let ours = known.lines.ends_with(&all) && all.len() >= 12;
        assert!(ours, "other lines: {before:?}");
    }
    if damaged == Path::new(JOURNAL) && changed {
        let told = !report.as_ref().is_ok_and(|report| {
            let whole = before.as_ref().is_ok_and(|lines| lines.starts_with(&known.lines));
            report.is_sound() && !report.unbound && !whole
        });
        assert!(told, "lines changed in silence: {before:?} {report:?}");
    }
    let append = AppendOptions { write: options(Durability::Durable), ..AppendOptions::default() };
    if journal.append(&["{\"new\":1}"], &append).is_ok() {
        let after = lines();
        if let Ok(after) = &after {
            // A journal that was rewritten in place is detected by `verify` only (docs/FORMAT.md,
            // Limits): if its last newline is gone, the next line is joined to it.
            let is_new = |line: &&String| line.ends_with("{\"new\":1}");
            let last = after.iter().rfind(is_new).map_or("", String::as_str);
            let told = || !journal.verify().is_ok_and(|report| report.is_sound());
            let glued = damaged == Path::new(JOURNAL) && last.ends_with("{\"new\":1}") && told();
            assert!(last == "{\"new\":1}" || glued, "what was appended is not there: {last}");
        }
        let fine = |error: &tenure::Error| error.kind() == ErrorKind::Damaged;
        assert!(after.as_ref().err().is_none_or(fine), "{after:?}");
    }
    let _ = journal.repair(&options(Durability::Durable));
    let _ = journal.verify();
    match document.set(&json!({ "after": 1 }), &options(Durability::Durable)) {
        Ok(_) => {
            let read = document.read().expect("what was just written").expect("there").value;
            assert_eq!(read, json!({ "after": 1 }));
        }
        Err(_) => {
            let _ = document.restore(&options(Durability::Durable));
        }
    }
    let _ = Lease::open_on(&fs, Path::new(DOCUMENT)).expect("a path").events();
    let _ = fence(&fs, "/d/keys/gone.json"); // Its floor may be lost; the clock replaces it.
    for (path, before) in [DOCUMENT, JOURNAL].iter().zip(known.fences) {
        match fence(&fs, path) {
            Ok(after) => assert!(after > before, "{path}: fence {after} after {before}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NewerFormat, "{path}: {error}"),
        }
    }
}

pub(crate) fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn damaged_files_are_survived_and_told() {
    let mut tally = Tally::new("parsers", "damaged_files_are_survived_and_told");
    let seed = seed("parsers", "damaged_files_are_survived_and_told");
    let (sim, known) = build();
    let files = files(&sim);
    let needed = ["good", "commit", "hold", "log", "index", "index.1", "sync0", "floor", "events"];
    for needed in needed {
        let is_it = |file: &PathBuf| file.to_string_lossy().ends_with(needed);
        assert!(files.iter().any(is_it), "{needed} is not in {files:?}");
    }
    for (number, file) in (0..).zip(&files) {
        // These have the most content, in a few bytes among many.
        let name = file.to_string_lossy();
        let telling = ["commit", "log", "index"].iter().any(|end| name.ends_with(end));
        let rounds = Form::asked().pick(50, 3_000) * if telling { 8 } else { 1 };
        let bytes = sim.peek(file).expect("a file");
        for round in 0..rounds {
            // A separate generator: how many numbers a round draws depends on random bytes.
            let mut random = Random::new(seed ^ (number << 32) ^ round);
            let other = sim.peek(&files[random.index(files.len())]).expect("a file");
            let (what, damaged) = damage(&mut random, &bytes, &other);
            let copy = sim.fork(random.bits());
            let in_place = random.coin();
            if in_place {
                write_in_place(&copy, file, &damaged);
            } else {
                copy.add_file(file, &damaged);
            }
            let (known, at, changed) = (known.clone(), file.clone(), damaged != bytes);
            let how = if in_place { "in place" } else { "by another file" };
            let shown = format!("{}, round {round}: {what}, {how}", file.display());
            let told = shown.clone();
            within(Duration::from_secs(20), &shown, move || {
                let _tell = copy.tell_on_panic();
                let lived = std::panic::AssertUnwindSafe(|| live(&copy, &known, &at, changed));
                if let Err(panic) = std::panic::catch_unwind(lived) {
                    println!("damage: {told}");
                    std::panic::resume_unwind(panic);
                }
            });
        }
        tally.tried(rounds, "damaged files");
    }
    let peak = peak_memory_kib();
    assert!(peak < MEMORY_MAX_KIB, "{peak} KiB of memory at the worst moment");
}
