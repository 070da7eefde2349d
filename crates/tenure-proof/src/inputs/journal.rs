//! The files of a journal, as anything at all.

use std::path::Path;

use tenure::{AppendOptions, ErrorKind, Journal, WriteOptions};
use tenure_testkit::SimFs;

use super::plant::{Planted, plant};
use super::record::CLAIMS_MAX;
use super::sums::{self, Layout, number};
use super::{Fate, disk, durably, quickly};

const JOURNAL: &str = "/d/log.jsonl";
const ARCHIVE: &str = "/d/log.jsonl.1";
const ARCHIVE_INDEX: &str = "/d/.tenure/log.jsonl.index.1";
const HEADER: &str = "{\"header\":0}";
/// Lines in the archive, and behind it.
const OLD: &[&str] = &["{\"n\":1}", "{\"n\":2}"];
const NEW: &[&str] = &["{\"n\":3}", "{\"n\":4}", "{\"n\":5}"];
const LATEST: &str = "{\"latest\":6}";
/// In the flags of a slot of the log: a replacement was begun.
const HAS_INTENT: u64 = 8;

/// The files, by the upper half of an input's first byte.
const FILES: &[(&str, Layout)] = &[
    (JOURNAL, Layout::Plain),
    ("/d/.tenure/log.jsonl.index", Layout::Index),
    ("/d/.tenure/log.jsonl.commit", Layout::Record),
    ("/d/.tenure/log.jsonl.wal", Layout::Log),
    (ARCHIVE_INDEX, Layout::Index),
    (ARCHIVE, Layout::Plain),
    ("/d/.tenure/log.jsonl.sync0", Layout::Notes),
];

/// A journal with a header, an archive, an index, synced and unsynced batches, and an operation.
fn build(journal: &Journal) {
    let append = |lines: &[&str], write: WriteOptions, header: bool| {
        let header = header.then(|| HEADER.into());
        let options = AppendOptions { write, header, ..AppendOptions::default() };
        journal.append(lines, &options).expect("a batch");
    };
    append(OLD, durably(), true);
    journal.rotate(&quickly()).expect("a rotation");
    let once = WriteOptions { operation: Some("once".into()), ..durably() };
    append(&NEW[..2], once, false);
    append(&NEW[2..], quickly(), false);
}

fn lines(journal: &Journal, from: u64) -> tenure::Result<Vec<String>> {
    let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
    journal.read(from, None)?.map(|entry| entry.map(|entry| text(entry.line))).collect()
}

/// One file of a journal is anything at all. Lines that are there stay, what is appended is read back,
/// and nothing is altered in silence.
pub fn journal(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let journal = Journal::open_on(&fs, Path::new(JOURNAL)).expect("a path");
    build(&journal);
    let (file, layout) = FILES[usize::from(flags >> 4) % FILES.len()];
    let planted = plant(&sim, file, layout, (*flags, input), JOURNAL);
    if planted.mended && layout == Layout::Record {
        let too_far = sums::largest_claim(layout, &planted.bytes) > CLAIMS_MAX;
        if too_far {
            return Fate::Skipped;
        }
    }
    let is_data = layout == Layout::Plain;
    // Who begins in a damaged archive is told, and does not get to what is behind it.
    let is_old = [ARCHIVE, ARCHIVE_INDEX].contains(&file);
    let from = if is_old { OLD.len() as u64 + 1 } else { 0 };
    let report = journal.verify();
    let before = lines(&journal, from);
    let fate = match layout {
        // What is there is told.
        Layout::Plain => before.is_ok(),
        // The log is the journal's, and no slot of it is as it was.
        Layout::Log => planted.replaces_all() && report.as_ref().is_ok_and(|it| !it.unbound),
        // No answer here shows whether an index was used; the others have functions of their own.
        Layout::Index | Layout::Record | Layout::Notes => false,
    };
    let fate = Fate::seen(fate);
    if let (Ok(before), false) = (&before, is_data || planted.mended) {
        let all = [OLD, NEW].concat();
        let ours = all.iter().rev().zip(before.iter().rev()).all(|(one, other)| one == other);
        assert!(ours && before.len() >= NEW.len(), "other lines: {before:?}");
    }
    if planted.mended && !is_data {
        heeded(&sim, &journal, layout, &planted);
        return fate;
    }
    let plain = sim.peek(JOURNAL).expect("the journal");
    let options = AppendOptions { write: quickly(), ..AppendOptions::default() };
    if journal.append(&[LATEST], &options).is_err() {
        return fate;
    }
    let after = sim.peek(JOURNAL).expect("the journal");
    assert!(after.starts_with(&plain), "the journal is never cut");
    // A file that was rewritten in place is found by `verify` only (docs/FORMAT.md, Limits).
    let report = journal.verify().expect("a journal that was just written");
    if !is_data || report.is_sound() {
        let after = lines(&journal, from).expect("what was just written can be read");
        assert_eq!(after.last().map(String::as_str), Some(LATEST));
    } else {
        let _ = lines(&journal, from).map_err(|error| told(&error));
    }
    fate
}

/// Every checksum of a sidecar fits, whatever it says. It may be wrong, and what it says may be told;
/// but no byte of the journal goes, and nothing panics, hangs or takes memory without bounds.
fn heeded(sim: &SimFs, journal: &Journal, layout: Layout, planted: &Planted) {
    let plain = sim.peek(JOURNAL).expect("the journal");
    for write in [quickly(), durably()] {
        let options = AppendOptions { write, ..AppendOptions::default() };
        if let Err(error) = journal.append(&[LATEST], &options) {
            told(&error);
        }
    }
    let _ = lines(journal, 0).map_err(|error| told(&error));
    let _ = journal.verify().map_err(|error| told(&error));
    let slots = sums::slots(layout).iter();
    let intent = |slot: &usize| number(&planted.bytes, slot + 224) & HAS_INTENT != 0;
    if layout == Layout::Log && slots.clone().any(intent) {
        return; // Finishing a replacement takes the journal's name away, as it was told to.
    }
    let after = sim.peek(JOURNAL).expect("the journal");
    assert!(after.len() >= plain.len(), "the journal is never cut");
    let _ = journal.repair(&durably()).map_err(|error| told(&error));
    let _ = journal.rotate(&durably()).map_err(|error| told(&error));
}

/// What is wrong is said, and of a kind that says so.
fn told(error: &tenure::Error) {
    let kinds = [
        ErrorKind::Damaged,
        ErrorKind::NewerFormat,
        ErrorKind::Busy,
        ErrorKind::NotDurable,
        ErrorKind::NotFound,
    ];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
}
