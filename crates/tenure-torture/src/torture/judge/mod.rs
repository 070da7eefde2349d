//! The final check: do the files match the workers' acknowledgements, once all workers are dead?
//!
//! The files are read without tenure. That tenure reads the same content is judged as well.

mod bounded;
mod journal;
mod lease;
mod plain;

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::content::{Counts, shortened};
use super::finding::{Fault, Thing};
use super::jobs;
use super::ledger::{Ledger, Promised};
use super::subject::{Subject, path_of};
use super::word::Own;

pub(super) use self::bounded::{Judged, Look, judge};
pub(super) use self::plain::lines as plain_lines;

/// Judges one thing; returns whether it could be judged.
fn judge_thing(thing: Thing, ledger: &mut Ledger, subject: &dyn Subject, scratch: &Path) -> bool {
    match thing {
        Thing::Document => {
            let path = scratch.join(jobs::DOCUMENT);
            let promised = std::mem::take(&mut ledger.document);
            counts(ledger, Thing::Document, subject, &path, &promised);
        }
        Thing::Collection => collection(ledger, subject, &scratch.join(jobs::COLLECTION)),
        Thing::Journal => return journal::judge(ledger, subject, &scratch.join(jobs::JOURNAL)),
        Thing::Lease => return lease::judge(ledger, subject, &scratch.join(jobs::LEASE)),
        Thing::Lock => {
            // All workers are dead, so it is free.
            if let Err(refused) = subject.lock(&scratch.join("lock"), false) {
                ledger.found(Thing::Lock, refused.fault(), refused.to_string());
            }
        }
        _ => return false,
    }
    true
}

/// Lets the next operation clean up after each thing was judged.
fn tidy_up(thing: Thing, ledger: &mut Ledger, subject: &dyn Subject, scratch: &Path) {
    let file = match thing {
        Thing::Journal => jobs::JOURNAL,
        Thing::Lease => jobs::LEASE,
        _ => return,
    };
    if !ledger.findings.is_empty() {
        return; // Evidence is left as it is.
    }
    // What a dead process left of an index is removed when the next index is written, not by any
    // append.
    if let Err(refused) = subject.rotate(&scratch.join(file)) {
        ledger.found(thing, refused.fault(), format!("{file}: {refused}"));
    }
}

/// Judges the files that are left after the clean-up.
fn left_over(ledger: &mut Ledger, scratch: &Path) {
    if !ledger.findings.is_empty() {
        return; // Not everything was cleaned up.
    }
    for name in temporary_files(scratch) {
        ledger.found(Thing::Document, Fault::LeftOver, format!("{name} after the next operation"));
    }
}

/// The content of a document for a plain reader and for one through tenure.
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
            match subject.read(path) {
                Err(refused) => ledger.found(thing, refused.fault(), format!("{name}: {refused}")),
                Ok(None) if counts.total == 0 => {}
                Ok(Some(read)) if read.value == counts.to_value() => {}
                Ok(read) => {
                    let read = shortened(&read.map_or(Value::Null, |read| read.value).to_string());
                    let detail = format!("{name}: a plain reader and tenure differ: {read}");
                    ledger.found(thing, Fault::Stale, detail);
                }
            }
        }
    }
    if !ledger.findings.is_empty() {
        return; // Evidence is left as it is.
    }
    // One more operation: it must work, and clean up after the dead.
    let next = subject.update(path, false, &mut |_| json!("judged"));
    if let Err(refused) = next {
        ledger.found(thing, refused.fault(), format!("{name}: {refused}"));
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
        ledger.found(Thing::Collection, refused.fault(), refused.to_string());
    }
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
