//! Journals: every promised batch is in the files, whole, once, in one piece and under its number.
//!
//! # Invariants
//!
//! 1. The content is read from the files themselves; an entry's number is its place in them.
//!    Tenure's own reader is checked against that: it must return the same lines and numbers.
//! 2. Before that, one batch is appended through the code under test: it finishes or sets aside
//!    what dead workers had begun, and must then be the last batch.

use std::collections::HashMap;
use std::path::Path;

use super::plain;
use crate::torture::content::{self, Line, shortened};
use crate::torture::finding::{Fault, Thing};
use crate::torture::ledger::Ledger;
use crate::torture::subject::Subject;

/// Judges the journal that all workers appended to; returns whether it could be judged.
pub(super) fn judge(ledger: &mut Ledger, subject: &dyn Subject, path: &Path) -> bool {
    let mut promised = std::mem::take(&mut ledger.batches);
    let Some(lines) = lines(ledger, Thing::Journal, subject, path) else { return false };
    for (number, line) in lines {
        if line.part != 1 {
            continue;
        }
        // A worker that got number 0 where numbers are promised has reported that itself.
        let told = promised.remove(&(line.slot, line.batch));
        if let Some(told) = told.filter(|told| *told != number && *told != 0) {
            let detail = format!("{line:?} is entry {number}; its writer got {told}");
            ledger.found(Thing::Journal, Fault::Stale, detail);
        }
    }
    for ((slot, batch), number) in promised {
        let detail = format!("worker {slot}: batch {batch}, acknowledged as entry {number}");
        ledger.found(Thing::Journal, Fault::Lost, detail);
    }
    true
}

/// The lines of a journal, numbered: whole batches, each worker's in its order and once. `None` if
/// it cannot be judged, because the work of dead processes could not be finished.
pub(super) fn lines(
    ledger: &mut Ledger,
    thing: Thing,
    subject: &dyn Subject,
    path: &Path,
) -> Option<Vec<(u64, Line)>> {
    let slots = ledger.incarnations.len();
    let closing = content::batch(slots, u64::MAX, 1, u64::MAX);
    if let Err(refused) = subject.append(path, &closing, true, None) {
        ledger.found(thing, refused.fault(), refused.to_string());
        return None;
    }
    let plain = match plain::lines(path) {
        Ok(plain) => plain,
        Err(detail) => {
            ledger.found(thing, Fault::Corrupt, detail);
            return Some(Vec::new());
        }
    };
    let mut lines = Vec::with_capacity(plain.len());
    for (number, bytes) in (1..).zip(&plain) {
        match Line::parse(bytes) {
            Ok(line) => lines.push((number, line)),
            Err(detail) => ledger.found(thing, Fault::Corrupt, format!("line {number}: {detail}")),
        }
    }
    if lines.last().is_none_or(|(_, line)| line.to_text() != closing[0]) {
        ledger.found(thing, Fault::Lost, "the batch that was appended after all others");
    }
    in_order(ledger, thing, &lines);
    same_through_subject(ledger, thing, subject, path, &plain);
    Some(lines)
}

fn in_order(ledger: &mut Ledger, thing: Thing, lines: &[(u64, Line)]) {
    let mut last: Option<Line> = None;
    let mut newest: HashMap<usize, u64> = HashMap::new();
    for (number, line) in lines {
        let goes_on = last.is_some_and(|last| {
            (last.slot, last.batch, last.part + 1) == (line.slot, line.batch, line.part)
        });
        let was_whole = last.is_none_or(|last| last.part == last.of);
        if !(goes_on || (was_whole && line.part == 1)) {
            let detail = format!("line {number}, {line:?}, comes after {last:?}");
            ledger.found(thing, Fault::Corrupt, detail);
        }
        if line.part == 1 && newest.insert(line.slot, line.batch) >= Some(line.batch) {
            let detail = format!("line {number}, {line:?}, is there again or out of order");
            ledger.found(thing, Fault::Twice, detail);
        }
        last = Some(*line);
    }
}

/// The code under test must read the lines that are in the files.
fn same_through_subject(
    ledger: &mut Ledger,
    thing: Thing,
    subject: &dyn Subject,
    path: &Path,
    plain: &[Vec<u8>],
) {
    let entries = match subject.entries(path, 1) {
        Ok(entries) => entries,
        Err(refused) => {
            ledger.found(thing, Fault::Corrupt, refused.to_string());
            return;
        }
    };
    let read = entries.iter().map(|(number, bytes)| (*number, bytes));
    let agreed = read.zip((1..).zip(plain)).take_while(|(entry, line)| entry == line).count();
    if agreed < plain.len().max(entries.len()) {
        let text = |bytes: &Vec<u8>| shortened(&String::from_utf8_lossy(bytes));
        let detail = format!(
            "after {agreed} lines a plain reader and tenure differ: {:?} and {:?}",
            plain.get(agreed).map(text),
            entries.get(agreed).map(|(number, bytes)| (number, text(bytes))),
        );
        ledger.found(thing, Fault::Stale, detail);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Fault, Ledger, judge};
    use crate::torture::content;
    use crate::torture::finding::Finding;
    use crate::torture::subject::Author;
    use crate::torture::word::Word;

    /// Ten batches of two lines, in two archives and the file, with the acknowledged numbers.
    fn worked() -> (tempfile::TempDir, PathBuf, Ledger) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal.jsonl");
        let subject = Author::Tenure.subject();
        let mut ledger = Ledger::new(1);
        for batch in 0..10 {
            let lines = content::batch(0, batch, 2, 0);
            let first = subject.append(&path, &lines, false, None).expect("appended");
            ledger.write(0, 1, Word::Appended { batch, first: first.unwrap_or(0) });
            if batch == 3 || batch == 6 {
                subject.rotate(&path).expect("rotated");
            }
        }
        (dir, path, ledger)
    }

    fn faults(mut ledger: Ledger, author: Author, path: &Path) -> Vec<Fault> {
        judge(&mut ledger, author.subject(), path);
        let mut faults: Vec<_> =
            ledger.findings.into_iter().map(|Finding { fault, .. }| fault).collect();
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// The findings after `change` to the lines of the file with this suffix. The last batch is
    /// appended without tenure, and only this test knows of the damage.
    #[expect(clippy::disallowed_methods, reason = "damage is done plainly")]
    fn after(suffix: &str, change: impl FnOnce(&mut Vec<String>)) -> Vec<Fault> {
        let (_dir, path, ledger) = worked();
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        let text = fs::read_to_string(&file).expect("it is there");
        let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
        change(&mut lines);
        fs::write(&file, lines.concat()).expect("written");
        let mut faults = faults(ledger, Author::Naive, &path);
        // It reads the last file only, so it never agrees.
        faults.retain(|fault| *fault != Fault::Stale);
        faults
    }

    #[test]
    fn what_was_promised_is_in_the_archives_and_the_file() {
        let (_dir, path, ledger) = worked();
        assert!(path.with_extension("jsonl.2").exists(), "two archives");
        assert_eq!(faults(ledger, Author::Tenure, &path), []);
        assert_eq!(after("", |_| {}), []);
        assert_eq!(after(".1", |_| {}), []);
    }

    #[test]
    fn every_damage_is_found_in_every_file() {
        for suffix in ["", ".1", ".2"] {
            assert_eq!(after(suffix, |lines| drop(lines.drain(2..4))), [Fault::Lost], "{suffix}");
            assert_eq!(after(suffix, Vec::clear), [Fault::Lost], "{suffix}");
            assert_eq!(after(suffix, |lines| drop(lines.remove(2))), [Fault::Lost, Fault::Corrupt]);
            assert_eq!(after(suffix, |lines| drop(lines.remove(3))), [Fault::Corrupt], "{suffix}");
            assert_eq!(after(suffix, |lines| lines.swap(2, 3)), [Fault::Corrupt], "{suffix}");
            let again = |lines: &mut Vec<String>| lines.extend_from_within(..2);
            assert_eq!(after(suffix, again), [Fault::Twice], "{suffix}");
            let blank = |lines: &mut Vec<String>| lines.insert(2, "\n".to_owned());
            assert_eq!(after(suffix, blank), [Fault::Corrupt], "{suffix}");
            let cut = |lines: &mut Vec<String>| lines[3].truncate(9);
            assert!(after(suffix, cut).contains(&Fault::Corrupt), "{suffix}");
        }
    }

    #[test]
    fn a_reader_that_says_something_else_than_the_files_is_found_out() {
        let (_dir, path, ledger) = worked();
        // Naive code knows nothing of archives; the files are as they should be.
        assert_eq!(faults(ledger, Author::Naive, &path), [Fault::Stale]);
    }

    #[test]
    fn a_number_that_was_told_wrong_is_found() {
        let (_dir, path, mut ledger) = worked();
        ledger.write(0, 1, Word::Appended { batch: 4, first: 8 });
        assert_eq!(faults(ledger, Author::Tenure, &path), [Fault::Stale]);
    }
}
