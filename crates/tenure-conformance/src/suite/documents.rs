//! The document: no lost update, whole versions, text that survives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use tenure::embed;
use tenure::json::Rules;
use tenure::{Document, Error, ErrorKind, Result, Version, Wait, WriteOptions, json};

use crate::asking::{
    A_MOMENT, PATIENCE, add_one, at_once, count, one_more, patient, text, together, update,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

const THREADS: usize = 4;
const ROUNDS: usize = 15;

fn write_text(document: &Document, text: &str) -> Result<()> {
    embed::update_text(document, &patient(), |_| Ok(Some(text.to_owned()))).map(drop)
}

pub(super) fn no_update_is_lost(subject: &Subject) -> Outcome {
    together(THREADS, |number| {
        let document = subject.document(number, "state.json")?;
        for round in 0..ROUNDS {
            // Durable ones among them, which share their syncs.
            let options = if round % 5 == 0 { WriteOptions::default() } else { patient() };
            let written = update(&document, &options, |current| {
                thread::yield_now(); // A store that lets others in between must notice.
                Ok(Some(one_more(current)))
            })?;
            ensure!(written.changed && !written.replayed, "an update did nothing: {written:?}");
        }
        Ok(())
    })?;
    let counted = count(&subject.document(0, "state.json")?)?;
    equal!(counted, (THREADS * ROUNDS) as u64, "updates that count");
    Ok(())
}

pub(super) fn a_compare_and_set_wins_once(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    for round in 0..8_u64 {
        let version = document.set(&json!({ "round": round }), &patient())?.version;
        let (barrier, won) = (Barrier::new(THREADS), AtomicUsize::new(0));
        together(THREADS, |number| {
            let document = subject.document(number, "state.json");
            barrier.wait();
            let value = json!({ "round": round, "by": number });
            match document?
                .set(&value, &WriteOptions { if_version: Some(version.clone()), ..patient() })
            {
                Ok(_) => drop(won.fetch_add(1, Ordering::SeqCst)),
                refusal => drop(refused(refusal, ErrorKind::Conflict, "another's version")?),
            }
            Ok(())
        })?;
        equal!(won.load(Ordering::SeqCst), 1, "writers that won one version");
    }
    Ok(())
}

pub(super) fn another_version_is_a_conflict(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let mut options = at_once();
    options.if_version = Some("1-abc".parse::<Version>()?);
    refused(add_one(&document, &options), ErrorKind::Conflict, "a version of nothing")?;
    ensure!(document.read()?.is_none(), "a refused write made a document");
    let first = add_one(&document, &at_once())?.version;
    equal!(document.read()?.map(|found| found.version), Some(first.clone()), "the version");
    equal!(
        subject.document(1, "state.json")?.read()?.map(|found| found.version),
        Some(first.clone()),
        "the version"
    );
    options.if_version = Some(first.clone());
    let second = add_one(&subject.document(1, "state.json")?, &options)?.version;
    ensure!(first != second, "two states have one version");
    let error = refused(add_one(&document, &options), ErrorKind::Conflict, "an old version")?;
    ensure!(error.is_committed() != Some(true), "a refused write says that it is committed");
    let set =
        document.set(&json!({}), &WriteOptions { if_version: Some(first.clone()), ..at_once() });
    refused(set, ErrorKind::Conflict, "an old version")?;
    equal!(count(&document)?, 2, "updates that count");
    // A version is text, and survives being stored as such.
    let stored: Version = second.to_string().parse()?;
    document
        .set(&json!({ "n": 9 }), &WriteOptions { if_version: Some(stored.clone()), ..at_once() })?;
    Ok(())
}

pub(super) fn a_version_never_comes_back(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let (one, two) = (json!({ "n": 1 }), json!({ "n": 2 }));
    let first = document.set(&one, &at_once())?.version;
    subject.document(1, "state.json")?.set(&two, &at_once())?;
    let back = document.set(&one, &at_once())?.version;
    ensure!(first != back, "a version came back with its content");
    let set = document.set(&two, &WriteOptions { if_version: Some(first.clone()), ..at_once() });
    refused(set, ErrorKind::Conflict, "the version of the same content before")?;
    Ok(())
}

pub(super) fn a_document_survives_byte_for_byte(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    for written in [
        "{\"a\":1}",
        "{ \"b\" : [1,\t2 ,3] ,\r\n\"a\":\"\\u00e4\\/\" }\r\n\n",
        "\n\n[ ]",
        "\"\u{fc}\u{1f600}\"",
        "null",
        "  12.50  ",
    ] {
        write_text(&document, written)?;
        for number in 0..2 {
            equal!(text(&subject.document(number, "state.json")?)?, written, "the text");
        }
        let mut seen = None;
        let kept = embed::update_text(&document, &patient(), |current| {
            seen = current.map(str::to_owned);
            Ok(None)
        })?;
        ensure!(!kept.changed, "an update that returned nothing changed it");
        equal!(seen.as_deref(), Some(written), "the text that an update gets");
    }
    Ok(())
}

pub(super) fn numbers_and_key_order_survive(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let before = "{\n  \"z\": 12345678901234567890.1230,\n  \"a\": 1e2,\n  \"m\": {\"k\": -0.0, \"b\": [1.0, 2]},\n  \"n\": 1\n}\n";
    write_text(&document, before)?;
    let other = subject.document(1, "state.json")?;
    update(&other, &patient(), |current| {
        let mut value = current.cloned().unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("n", json!(2));
        }
        Ok(Some(value))
    })?;
    equal!(text(&document)?, before.replace("\"n\": 1", "\"n\": 2"), "the text");
    Ok(())
}

pub(super) fn a_merge_follows_its_rules(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    document.merge(&json!({ "seen": ["a"], "best": 3, "gone": 1 }), &Rules::new(), &at_once())?;
    let rules = Rules::new().union("/seen")?.max("/best")?.sum("/runs")?;
    let other = subject.document(1, "state.json")?;
    for _ in 0..2 {
        let patch = json!({ "seen": ["b", "a"], "best": 2, "gone": null, "runs": 1 });
        other.merge(&patch, &rules, &at_once())?;
    }
    let found = document.read()?.ok_or_else(|| Failure::new("no document"))?.value;
    equal!(found, json!({ "seen": ["a", "b"], "best": 3, "runs": 2 }), "what was merged");
    let wrong = other.merge(&json!({ "best": "high" }), &rules, &at_once());
    refused(wrong, ErrorKind::Invalid, "a merge against its rule")?;
    equal!(document.read()?.map(|now| now.value), Some(found), "what was merged");
    Ok(())
}

pub(super) fn a_patch_is_applied_whole_or_not_at_all(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let add = json!([{ "op": "add", "path": "/a", "value": 1 }]);
    refused(document.patch(&add, &at_once()), ErrorKind::NotFound, "a patch of nothing")?;
    document.set(&json!({}), &at_once())?;
    subject.document(1, "state.json")?.patch(&add, &at_once())?;
    let failing = json!([
        { "op": "add", "path": "/b", "value": 2 },
        { "op": "test", "path": "/a", "value": 5 }
    ]);
    refused(document.patch(&failing, &at_once()), ErrorKind::Conflict, "a failed test")?;
    let wrong =
        json!([{ "op": "add", "path": "/b", "value": 2 }, { "op": "remove", "path": "/c" }]);
    refused(document.patch(&wrong, &at_once()), ErrorKind::Invalid, "a patch that does not fit")?;
    equal!(document.read()?.map(|now| now.value), Some(json!({ "a": 1 })), "what was patched");
    Ok(())
}

pub(super) fn an_update_that_fails_changes_nothing(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let fails = |document: &Document| {
        update(document, &at_once(), |_| {
            Err(Error::new(ErrorKind::NotFound, "compute", "the function says no"))
        })
    };
    refused(fails(&document), ErrorKind::NotFound, "a function that fails")?;
    ensure!(document.read()?.is_none(), "a failed update made a document");
    let version = add_one(&document, &at_once())?.version;
    refused(fails(&document), ErrorKind::NotFound, "a function that fails")?;
    let kept = update(&document, &at_once(), |_| Ok(None))?;
    ensure!(!kept.changed && kept.version == version, "an update without a result: {kept:?}");
    equal!(
        subject.document(1, "state.json")?.read()?.map(|found| found.version),
        Some(version),
        "the version"
    );
    // The lock is free again.
    add_one(&subject.document(1, "state.json")?, &at_once())?;
    Ok(())
}

pub(super) fn the_same_content_is_no_change(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let value = json!({ "a": [1, 2], "b": null });
    let first = document.set(&value, &patient())?;
    ensure!(first.changed, "the first write changed nothing");
    let again = subject.document(1, "state.json")?.set(&value, &patient())?;
    ensure!(!again.changed, "the same content is a change");
    equal!(again.version, first.version, "the version of the same content");
    Ok(())
}

pub(super) fn a_missing_document_is_none(subject: &Subject) -> Outcome {
    for number in 0..2 {
        let document = subject.document(number, "state.json")?;
        ensure!(document.read()?.is_none(), "a document is there");
        let kept = update(&document, &at_once(), |current| {
            Ok(current.is_some().then(|| one_more(current)))
        })?;
        ensure!(!kept.changed && document.read()?.is_none(), "nothing became a document");
    }
    Ok(())
}

pub(super) fn a_watch_wakes_on_a_change(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    add_one(&document, &patient())?;
    let mut watch = document.watch()?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..3 {
                let next = watch.next(Wait::For(PATIENCE));
                let count = next.map(|next| next.and_then(|found| found.value["n"].as_u64()));
                let _ = answer.send(count);
            }
        });
        let early = answered.recv_timeout(A_MOMENT);
        ensure!(early.is_err(), "a watch reports what is no change: {early:?}");
        let other = subject.document(1, "state.json")?;
        for wanted in 2..5 {
            add_one(&other, &patient())?;
            let seen = answered.recv_timeout(PATIENCE);
            let seen = seen.map_err(|_| Failure::new("a change wakes no watch"))??;
            equal!(seen, Some(wanted), "the document that a watch sees");
        }
        Ok(())
    })?;
    let mut watch = document.watch()?;
    ensure!(watch.next(Wait::No)?.is_none(), "a watch reports what was before it");
    Ok(())
}

pub(super) fn a_reader_sees_whole_documents(subject: &Subject) -> Outcome {
    let done = AtomicUsize::new(0);
    let writers = 2;
    together(writers + 2, |number| {
        let document = subject.document(number, "state.json")?;
        if number < writers {
            for round in 0..10 {
                let part = format!("{number}-{round}").repeat(400 + round * 50);
                document.set(&json!({ "one": part, "two": part }), &patient())?;
            }
            done.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        while done.load(Ordering::SeqCst) < writers {
            if let Some(found) = document.read()? {
                let whole = found.value["one"] == found.value["two"];
                ensure!(whole, "a reader sees half a document");
                let parsed = tenure::json::parse(&found.bytes)?;
                ensure!(parsed == found.value, "bytes and value of a snapshot differ");
            }
            thread::yield_now();
        }
        Ok(())
    })
}
