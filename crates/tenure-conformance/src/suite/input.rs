//! Bad input: refused as `invalid`, and nothing is changed.

use std::time::Duration;

use tenure::embed;
use tenure::options::CollectionKind;
use tenure::{ErrorKind, Version, Wait, WriteOptions, json};

use crate::asking::{LONG, add_one, append, at_once, lines, long, terms, text, trying};
use crate::failure::{Outcome, ensure, equal, refused};
use crate::subject::Subject;

pub(super) fn bad_batches_are_refused(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    let options = append(at_once());
    for bad in ["", " ", "\t \r", "\0", "a\nb", "\n"] {
        let appended = journal.append(&["good", bad], &options);
        let error = refused(appended, ErrorKind::Invalid, &format!("line {bad:?}"))?;
        equal!(error.is_committed(), Some(false), "whether {bad:?} was committed");
    }
    refused(journal.append(&[""; 0], &options), ErrorKind::Invalid, "an empty batch")?;
    let mut strict = append(at_once());
    strict.json = true;
    let appended = journal.append(&["{\"a\": 1}", "no JSON"], &strict);
    refused(appended, ErrorKind::Invalid, "a line that is not JSON")?;
    let mut versioned = append(at_once());
    versioned.write.if_version = Some("1-abc".parse()?);
    refused(journal.append(&["x"], &versioned), ErrorKind::Invalid, "a version of a journal")?;
    ensure!(lines(&journal)?.is_empty(), "a refused batch left lines");
    journal.append(&["{\"a\": 1}"], &strict)?;
    equal!(lines(&subject.journal(1, "log")?)?, ["{\"a\": 1}"], "lines");
    Ok(())
}

pub(super) fn bad_documents_are_refused(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let bad = ["", "{", "{\"a\":1,}", "nul", "1 2", "{\"a\":01}", "'a'", "[1]x"];
    for before in [None, Some("{ \"a\" : 1 }")] {
        if let Some(before) = before {
            embed::update_text(&document, &at_once(), |_| Ok(Some(before.to_owned())))?;
        }
        for bad in bad {
            let written = embed::update_text(&document, &at_once(), |_| Ok(Some(bad.to_owned())));
            refused(written, ErrorKind::Invalid, &format!("the text {bad:?}"))?;
        }
        equal!(text(&document)?, before.unwrap_or_default(), "the document");
    }
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let written = embed::update_text(&document, &at_once(), |_| Ok(Some(deep.clone())));
    refused(written, ErrorKind::Invalid, "a text that nests too deeply")?;
    Ok(())
}

pub(super) fn bad_versions_are_refused(subject: &Subject) -> Outcome {
    for bad in ["", " ", "1 2", "a/b", "\u{e4}", &"1".repeat(200)] {
        refused(bad.parse::<Version>(), ErrorKind::Invalid, &format!("the version {bad:?}"))?;
    }
    let document = subject.document(0, "state.json")?;
    add_one(&document, &at_once())?;
    for other in ["0", "ffffffff-0", "zzz"] {
        let set = document
            .set(&json!({}), &WriteOptions { if_version: Some(other.parse()?), ..at_once() });
        refused(set, ErrorKind::Conflict, &format!("the version {other}"))?;
    }
    Ok(())
}

pub(super) fn bad_leases_are_refused(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let year = Duration::from_secs(400 * 24 * 3600);
    for ttl in [Duration::ZERO, year, Duration::MAX] {
        let acquired = lease.acquire(&terms("a", ttl, Wait::No));
        refused(acquired, ErrorKind::Invalid, &format!("a lease of {ttl:?}"))?;
        let taken = lease.take_over(&terms("a", ttl, Wait::No), "a reason");
        refused(taken, ErrorKind::Invalid, &format!("a take-over for {ttl:?}"))?;
    }
    for token in ["", "short", &"x".repeat(300)] {
        let mut options = long("a");
        options.token = Some(token.to_owned());
        refused(lease.acquire(&options), ErrorKind::Invalid, "a bad token")?;
        refused(lease.renew(token, None), ErrorKind::Invalid, "a bad token")?;
        refused(lease.release(token), ErrorKind::Invalid, "a bad token")?;
    }
    ensure!(lease.show()?.is_none(), "a refused lease was given");
    let leased = lease.acquire(&long("a"))?;
    refused(lease.renew(&leased.token, Some(year)), ErrorKind::Invalid, "a long renewal")?;
    equal!(lease.renew(&leased.token, None)?.ttl, LONG, "the time to live");
    Ok(())
}

pub(super) fn bad_keys_are_refused(subject: &Subject) -> Outcome {
    let collection = subject.collection(0, CollectionKind::Documents)?;
    for bad in ["", &"x".repeat(400)] {
        refused(collection.document(bad), ErrorKind::Invalid, "a bad key")?;
        refused(collection.remove(bad, &at_once()), ErrorKind::Invalid, "a bad key")?;
    }
    Ok(())
}

/// A name that a store cannot keep is refused before anything is written; any other one works as it is.
pub(super) fn odd_names_are_kept_or_refused(subject: &Subject) -> Outcome {
    let long = "x".repeat(200);
    for name in
        ["a b", "%41", "\u{e4}/\u{1f600}", "a'b\"c", "a\\b", "*?[", "a\nb", "a\u{7f}b", &long]
    {
        let opened = subject.document(0, name);
        if opened.is_err() {
            refused(opened, ErrorKind::Invalid, &format!("the name {name:?}"))?;
            continue;
        }
        let document = opened?;
        add_one(&document, &at_once())?;
        equal!(text(&subject.document(1, name)?)?, text(&document)?, "the document {name:?}");
        let guard = subject.lock(0, name)?.acquire(&trying())?;
        let other = subject.lock(1, name)?.acquire(&trying());
        refused(other, ErrorKind::Busy, &format!("the lock {name:?}"))?;
        guard.release()?;
    }
    ensure!(subject.document(0, "A")?.read()?.is_none(), "two names are one document");
    Ok(())
}
