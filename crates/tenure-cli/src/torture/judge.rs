//! The last look: are the files what the workers were promised, once all of them are dead?

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::content::{Counts, Line};
use super::finding::{Fault, Thing};
use super::jobs;
use super::ledger::{Ledger, Promised, Span};
use super::subject::{Refused, Subject, path_of};
use super::word::Own;

/// Judges everything that was worked on in `scratch`.
pub(super) fn judge(ledger: &mut Ledger, subject: &dyn Subject, scratch: &Path, things: &[Thing]) {
    for thing in things {
        match thing {
            Thing::Document => {
                let path = scratch.join(jobs::DOCUMENT);
                let promised = std::mem::take(&mut ledger.document);
                counts(ledger, Thing::Document, subject, &path, &promised);
            }
            Thing::Collection => collection(ledger, subject, &scratch.join(jobs::COLLECTION)),
            Thing::Journal => journal(ledger, subject, &scratch.join(jobs::JOURNAL)),
            Thing::Lease => lease(ledger, subject, &scratch.join(jobs::LEASE)),
            Thing::Lock => {
                // Everybody is dead, so it is free.
                if let Err(Refused::Failed(detail)) = subject.lock(&scratch.join("lock"), false) {
                    ledger.found(Thing::Lock, Fault::Failed, detail);
                }
            }
            Thing::Command | Thing::History => {}
        }
    }
    if !ledger.findings.is_empty() {
        return; // Not everything was tidied up by a next operation.
    }
    for (thing, file) in [(Thing::Journal, jobs::JOURNAL), (Thing::Lease, jobs::LEASE)] {
        // What a dead one left of an index goes when the next index is written, not with any append.
        if let Some(Err(refused)) =
            things.contains(&thing).then(|| subject.rotate(&scratch.join(file)))
        {
            ledger.found(thing, Fault::Failed, format!("{file}: {refused:?}"));
        }
    }
    for name in temporary_files(scratch) {
        ledger.found(Thing::Document, Fault::LeftOver, format!("{name} after the next operation"));
    }
}

/// What a plain reader and one through tenure find in a document.
fn counts(
    ledger: &mut Ledger,
    thing: Thing,
    subject: &dyn Subject,
    path: &Path,
    promised: &Promised,
) {
    let plain = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::default()),
        bytes => bytes.map_err(|err| err.to_string()).and_then(|bytes| Counts::parse_bytes(&bytes)),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match plain {
        Err(detail) => ledger.found(thing, Fault::Corrupt, format!("{name}: {detail}")),
        Ok(counts) => {
            let incarnations = ledger.incarnations.clone();
            for (fault, detail) in promised.judge(&counts, &incarnations) {
                ledger.found(thing, fault, format!("{name}: {detail}"));
            }
            let read = subject.read(path);
            let same = read.map(|read| read.is_none_or(|read| read.value == counts.to_value()));
            if same != Ok(true) {
                let detail = format!("{name}: a plain reader and tenure differ: {same:?}");
                ledger.found(thing, Fault::Stale, detail);
            }
        }
    }
    if !ledger.findings.is_empty() {
        return; // Evidence is left as it is.
    }
    // One more operation: it has to work, and to tidy up after the dead.
    let next = subject.update(path, false, &mut |_| json!("judged"));
    if let Err(refused) = next {
        ledger.found(thing, Fault::Failed, format!("{name}: {refused:?}"));
    }
}

fn collection(ledger: &mut Ledger, subject: &dyn Subject, dir: &Path) {
    for (key, promised) in std::mem::take(&mut ledger.keys).iter().enumerate() {
        let path = path_of(dir, &jobs::shared_key(key));
        counts(ledger, Thing::Collection, subject, &path, promised);
    }
    for ((slot, number), state) in std::mem::take(&mut ledger.own) {
        let key = jobs::own_key(slot, number);
        let bytes = fs::read(path_of(dir, &key)).ok();
        let value: Option<Value> = bytes.as_ref().and_then(|b| serde_json::from_slice(b).ok());
        let whole = value == Some(json!({ "number": number }));
        match (state, bytes) {
            (Own::Made, None) => ledger.found(Thing::Collection, Fault::Lost, key),
            (Own::Removed, Some(_)) => ledger.found(Thing::Collection, Fault::Stale, key),
            (_, Some(_)) if !whole => ledger.found(Thing::Collection, Fault::Corrupt, key),
            _ => {}
        }
    }
    if let Err(refused) = subject.prune(dir) {
        ledger.found(Thing::Collection, Fault::Failed, format!("{refused:?}"));
    }
}

/// The lines of a journal, numbered: whole batches, each worker's in its order and once.
fn lines(
    ledger: &mut Ledger,
    thing: Thing,
    subject: &dyn Subject,
    path: &Path,
) -> Vec<(u64, Line)> {
    // One more operation: it finishes or sets aside what the dead had begun.
    let slots = ledger.incarnations.len();
    let closing = super::content::batch(slots, u64::MAX, 1, u64::MAX);
    if let Err(refused) = subject.append(path, &closing, true, None) {
        ledger.found(thing, Fault::Failed, format!("{refused:?}"));
    }
    let entries = match subject.entries(path, 1) {
        Ok(entries) => entries,
        Err(refused) => {
            ledger.found(thing, Fault::Corrupt, format!("{refused:?}"));
            return Vec::new();
        }
    };
    let mut lines = Vec::with_capacity(entries.len());
    for (number, bytes) in entries {
        match Line::parse(&bytes) {
            Ok(line) => lines.push((number, line)),
            Err(detail) => ledger.found(thing, Fault::Corrupt, format!("entry {number}: {detail}")),
        }
    }
    let mut last: Option<Line> = None;
    let mut newest: HashMap<usize, u64> = HashMap::new();
    for (number, line) in &lines {
        let goes_on = last.is_some_and(|last| {
            (last.slot, last.batch, last.part + 1) == (line.slot, line.batch, line.part)
        });
        let was_whole = last.is_none_or(|last| last.part == last.of);
        if !(goes_on || (was_whole && line.part == 1)) {
            let detail = format!("entry {number}, {line:?}, comes after {last:?}");
            ledger.found(thing, Fault::Corrupt, detail);
        }
        if line.part == 1 && newest.insert(line.slot, line.batch) >= Some(line.batch) {
            let detail = format!("entry {number}, {line:?}, is there again or out of order");
            ledger.found(thing, Fault::Twice, detail);
        }
        last = Some(*line);
    }
    plain_lines(ledger, thing, path);
    lines
}

fn plain_lines(ledger: &mut Ledger, thing: Thing, path: &Path) {
    let bytes = fs::read(path).unwrap_or_default();
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.pop().is_some_and(|rest| !rest.is_empty()) {
        ledger.found(thing, Fault::Corrupt, "the file does not end with a newline");
    }
    for line in lines {
        if let Err(detail) = Line::parse(line) {
            ledger.found(thing, Fault::Corrupt, detail);
        }
    }
}

fn journal(ledger: &mut Ledger, subject: &dyn Subject, path: &Path) {
    let mut promised = std::mem::take(&mut ledger.batches);
    for (number, line) in lines(ledger, Thing::Journal, subject, path) {
        if line.part != 1 {
            continue;
        }
        // A worker that was told 0 where numbers are promised has said so itself.
        let told = promised.remove(&(line.slot, line.batch));
        if let Some(told) = told.filter(|told| *told != number && *told != 0) {
            let detail = format!("{line:?} is entry {number}; its writer was told {told}");
            ledger.found(Thing::Journal, Fault::Stale, detail);
        }
    }
    for ((slot, batch), number) in promised {
        let detail = format!("worker {slot}: batch {batch}, told to be entry {number}");
        ledger.found(Thing::Journal, Fault::Lost, detail);
    }
}

fn lease(ledger: &mut Ledger, subject: &dyn Subject, path: &Path) {
    let mut promised = std::mem::take(&mut ledger.wrote);
    let mut highest = 0;
    for (number, line) in lines(ledger, Thing::Lease, subject, path) {
        if line.fence < highest {
            let detail = format!("entry {number}, {line:?}, was written after fence {highest}");
            ledger.found(Thing::Lease, Fault::Fence, detail);
        }
        highest = highest.max(line.fence);
        promised.remove(&(line.slot, line.batch));
    }
    for ((slot, batch), fence) in promised {
        let detail = format!("worker {slot}: batch {batch} under fence {fence}");
        ledger.found(Thing::Lease, Fault::Lost, detail);
    }
    for (one, other) in two_at_once(&ledger.spans, &ledger.endings) {
        let detail = format!("{other:?} began while {one:?} lasted");
        ledger.found(Thing::Lease, Fault::TwoHolders, detail);
    }
}

/// Pairs of spans of different fences that overlap, each span cut where its holder ended the lease.
fn two_at_once(spans: &[Span], endings: &HashMap<u64, u64>) -> Vec<(Span, Span)> {
    let cut = |span: &Span| Span {
        until: endings.get(&span.fence).map_or(span.until, |end| span.until.min(*end)),
        ..*span
    };
    let mut spans: Vec<Span> = spans.iter().map(cut).filter(|s| s.from < s.until).collect();
    spans.sort_by_key(|span| span.from);
    let mut pairs = Vec::new();
    let mut longest: Option<Span> = None;
    for span in spans {
        match longest {
            Some(one) if one.fence != span.fence && span.from < one.until => {
                pairs.push((one, span));
            }
            _ => {}
        }
        if longest.is_none_or(|one| one.until < span.until) {
            longest = Some(span);
        }
    }
    pairs
}

/// Temporary files of dead operations, in all directories below.
fn temporary_files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(temporary_files(&path));
        } else if entry.file_name().to_string_lossy().contains(".tmp.") {
            found.push(path.display().to_string());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Span, two_at_once};

    #[test]
    fn leases_overlap_only_while_both_last() {
        let span = |fence, from, until| Span { fence, from, until };
        let pairs = |spans: &[Span], endings| two_at_once(spans, &endings).len();
        let none = HashMap::new;
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 10, 20)], none()), 0);
        assert_eq!(pairs(&[span(1, 0, 10), span(1, 5, 15)], none()), 0, "a renewal");
        assert_eq!(pairs(&[span(2, 9, 20), span(1, 0, 10)], none()), 1);
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 9, 20)], HashMap::from([(1, 8)])), 0);
        assert_eq!(pairs(&[span(1, 0, 30), span(2, 5, 6), span(3, 7, 8)], none()), 2);
    }
}
