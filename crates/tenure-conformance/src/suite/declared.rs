//! What a store declares: what it can do works, and what it cannot is `unsupported`, never skipped.

use std::time::Duration;

use tenure::embed;
use tenure::file::FileOptions;
use tenure::status::HoldState;
use tenure::{ErrorKind, Wait, json};

use crate::asking::{add_one, append, at_once, count, lines, long, terms, trying};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

/// A longer content than this is not made for a test.
const TESTED_BYTES_MAX: u64 = 64 << 20;

pub(super) fn what_only_files_have_is_as_declared(subject: &Subject) -> Outcome {
    let (journal, document) = (subject.journal(0, "log")?, subject.document(0, "state.json")?);
    journal.append(&["a", "b"], &append(at_once()))?;
    add_one(&document, &at_once())?;
    if subject.can().files {
        ensure!(journal.verify()?.is_sound(), "a journal is damaged");
        ensure!(journal.repair(&at_once())?.is_sound(), "a repaired journal is damaged");
        ensure!(journal.accept(&at_once())?.is_sound(), "a repaired journal is damaged");
        let compacted = journal.compact(&at_once(), |entry| entry.line != b"a")?;
        equal!((compacted.kept, compacted.dropped), (1, 1), "a compaction");
        ensure!(journal.rotate(&at_once())?.archive.is_some(), "a rotation archived nothing");
        equal!(lines(&journal)?, ["b"], "lines");
        ensure!(!document.restore(&at_once())?.changed, "a document that is fine was restored");
        document.keep_versions(3, &at_once())?;
        equal!(document.kept_versions()?, 3, "versions to keep");
        document.earlier()?;
        return Ok(());
    }
    let kind = ErrorKind::Unsupported;
    refused(journal.verify(), kind, "verify")?;
    refused(journal.repair(&at_once()), kind, "repair")?;
    refused(journal.accept(&at_once()), kind, "accept")?;
    refused(journal.compact(&at_once(), |_| false), kind, "compact")?;
    refused(journal.rotate(&at_once()), kind, "rotate")?;
    refused(document.restore(&at_once()), kind, "restore")?;
    refused(document.earlier(), kind, "earlier versions")?;
    refused(document.undo(1, &at_once()), kind, "undo")?;
    refused(document.keep_versions(3, &at_once()), kind, "versions to keep")?;
    refused(document.kept_versions(), kind, "versions to keep")?;
    equal!(lines(&journal)?, ["a", "b"], "lines");
    equal!(count(&document)?, 1, "the counter");
    Ok(())
}

/// Each option that only files have, by itself.
fn of_files(subject: &Subject) -> [FileOptions; 4] {
    let lock_file = subject.name("exact.lock");
    let with = |set: &dyn Fn(&mut FileOptions)| {
        let mut options = FileOptions::default();
        set(&mut options);
        options
    };
    [
        with(&|options| options.new_mode = 0o640),
        with(&|options| options.break_link = true),
        with(&|options| options.allow_network = true),
        with(&|options| options.lock_file = Some(lock_file.clone())),
    ]
}

pub(super) fn file_options_are_as_declared(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    for file in of_files(subject) {
        let mut write = at_once();
        write.file = file.clone();
        let mut lock = trying();
        lock.file = file.clone();
        let mut lease = long("a");
        lease.file = file.clone();
        let written = add_one(&document, &write);
        let appended = subject.journal(0, "log")?.append(&["x"], &append(write));
        let held = subject.lock(0, "target")?.acquire(&lock);
        if subject.can().files {
            written?;
            appended?;
            held?.release()?;
            let leased = subject.lease(0, "target")?.acquire(&lease)?;
            subject.lease(0, "target")?.release(&leased.token)?;
            continue;
        }
        let what = format!("{file:?}");
        refused(written, ErrorKind::Unsupported, &what)?;
        refused(appended, ErrorKind::Unsupported, &what)?;
        refused(held, ErrorKind::Unsupported, &what)?;
        let leases = subject.lease(0, "target")?;
        refused(leases.acquire(&lease), ErrorKind::Unsupported, &what)?;
        refused(leases.take_over(&lease, "a reason"), ErrorKind::Unsupported, &what)?;
        ensure!(document.read()?.is_none(), "a refused write made a document");
    }
    Ok(())
}

pub(super) fn header_lines_are_as_declared(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    let mut options = append(at_once());
    options.header = Some(b"# header".to_vec());
    let appended = journal.append(&["a"], &options);
    if subject.can().files {
        appended?;
        equal!(lines(&journal)?, ["a"], "lines: a header is no entry");
    } else {
        refused(appended, ErrorKind::Unsupported, "a header line")?;
        ensure!(lines(&journal)?.is_empty(), "a refused batch left lines");
    }
    Ok(())
}

pub(super) fn the_shortest_lease_is_as_declared(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let shortest = subject.can().ttl_min;
    let shorter = shortest.saturating_sub(Duration::from_millis(1));
    if !shorter.is_zero() {
        let acquired = lease.acquire(&terms("a", shorter, Wait::No));
        refused(acquired, ErrorKind::Unsupported, "a lease that is too short")?;
        let taken = lease.take_over(&terms("a", shorter, Wait::No), "a reason");
        refused(taken, ErrorKind::Unsupported, "a take-over that is too short")?;
        ensure!(lease.show()?.is_none(), "a refused lease was given");
    }
    let ttl = shortest.max(Duration::from_millis(1));
    let leased = lease.acquire(&terms("a", ttl, Wait::No))?;
    ensure!(leased.ttl >= ttl, "a lease of {ttl:?} has {:?}", leased.ttl);
    if !shorter.is_zero() {
        let renewed = lease.renew(&leased.token, Some(shorter));
        refused(renewed, ErrorKind::Unsupported, "a renewal that is too short")?;
    }
    Ok(())
}

pub(super) fn the_longest_content_is_as_declared(subject: &Subject) -> Outcome {
    let longest = subject.can().bytes_max;
    if longest > TESTED_BYTES_MAX {
        return Ok(());
    }
    let too_long = || Failure::new("this machine has no such memory");
    let longest = usize::try_from(longest).map_err(|_| too_long())?;
    let (journal, document) = (subject.journal(0, "log")?, subject.document(0, "state.json")?);
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    embed::update_text(&document, &at_once(), |_| Ok(Some(text(longest))))?;
    let written = embed::update_text(&document, &at_once(), |_| Ok(Some(text(longest + 1))));
    refused(written, ErrorKind::Invalid, "a document that is too long")?;
    equal!(document.read()?.map(|found| found.bytes.len()), Some(longest), "its length");
    journal.append(&[vec![b'x'; longest]], &append(at_once()))?;
    let appended = journal.append(&[vec![b'x'; longest + 1]], &append(at_once()));
    refused(appended, ErrorKind::Invalid, "a line that is too long")?;
    equal!(lines(&journal)?.len(), 1, "lines");
    Ok(())
}

pub(super) fn a_survey_finds_what_is_held(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "leased")?;
    let leased = lease.acquire(&long("a"))?;
    subject.document(0, "state.json")?.set(&json!({}), &at_once())?;
    let survey = subject.second.survey(&subject.root)?;
    let name = lease.path().to_path_buf();
    let found = survey.targets.iter().find(|status| status.path == name);
    let found = found.ok_or_else(|| Failure::new("a survey misses a lease"))?;
    equal!(found.state, HoldState::Lease, "the state");
    equal!(found.fence, leased.fence, "the fence");
    equal!(found.holder.as_ref().map(|holder| holder.owner.as_str()), Some("a"), "the owner");
    lease.release(&leased.token)?;
    let status = subject.second.open(&name)?.status()?;
    equal!(status.state, HoldState::Free, "the state of what was released");
    Ok(())
}
