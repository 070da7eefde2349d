//! The collection: keys, removal, pruning.

use std::time::Duration;

use tenure::options::{CollectionKind, Prune};
use tenure::{Collection, ErrorKind, Lease, Lock, Result, Wait, WriteOptions, json};

use crate::asking::{add_one, append, at_once, count, growing, long, patient, trying, until};
use crate::failure::{Outcome, ensure, equal, refused};
use crate::subject::Subject;

const KEYS: [&str; 8] = ["a", "A", "a/b", "..", "session 12", "con", "\u{e4}\u{f6}", "x.json"];

fn sorted(collection: &Collection) -> Result<Vec<String>> {
    let mut keys = collection.keys()?;
    keys.sort();
    Ok(keys)
}

fn prune(set: impl FnOnce(&mut Prune)) -> Prune {
    let mut prune = Prune::default();
    set(&mut prune);
    prune
}

pub(super) fn a_collection_lists_and_removes_its_keys(subject: &Subject) -> Outcome {
    let collection = subject.collection(0, CollectionKind::Documents)?;
    let other = subject.collection(1, CollectionKind::Documents)?;
    equal!(collection.keys()?, Vec::<String>::new(), "keys of an empty collection");
    ensure!(!collection.remove("a", &patient())?, "a key was removed that is not there");
    for key in KEYS {
        collection.document(key)?.set(&json!({ "key": key }), &at_once())?;
    }
    let mut wanted = KEYS.map(str::to_owned).to_vec();
    wanted.sort();
    equal!(sorted(&other)?, wanted, "keys");
    for key in KEYS {
        let found = other.document(key)?.read()?.map(|found| found.value);
        equal!(found, Some(json!({ "key": key })), "the document of a key");
    }
    ensure!(other.remove("a/b", &at_once())?, "a key was not there");
    ensure!(!collection.remove("a/b", &at_once())?, "a key was there twice");
    ensure!(collection.document("a/b")?.read()?.is_none(), "a removed key is there");
    wanted.retain(|key| key != "a/b");
    equal!(sorted(&collection)?, wanted, "keys");
    let held = Lock::on(subject.handle(0).as_ref(), collection.path_of("A")?)?.acquire(&trying())?;
    refused(other.remove("A", &at_once()), ErrorKind::Busy, "a key that is held")?;
    held.release()?;
    ensure!(other.remove("A", &at_once())?, "a key that was held is not there");
    Ok(())
}

pub(super) fn a_removed_key_keeps_its_fences_growing(subject: &Subject) -> Outcome {
    let collection = subject.collection(0, CollectionKind::Documents)?;
    let (document, mut fences) = (collection.document("a")?, Vec::new());
    for number in 0..3 {
        let lock = Lock::on(subject.handle(number).as_ref(), document.path())?;
        let guard = lock.acquire(&trying())?;
        fences.push(guard.publish_fence());
        guard.release()?;
        let version = add_one(&document, &at_once())?.version;
        equal!(count(&document)?, 1, "the counter of a new key");
        ensure!(collection.remove("a", &at_once())?, "the key was not there");
        let set = document
            .set(&json!({}), &WriteOptions { if_version: Some(version.clone()), ..at_once() });
        refused(set, ErrorKind::Conflict, "the version of a removed key")?;
    }
    growing("fences of a removed key", &fences)
}

pub(super) fn a_prune_keeps_what_is_new_and_what_is_held(subject: &Subject) -> Outcome {
    let collection = subject.collection(0, CollectionKind::Documents)?;
    for key in ["a", "b", "c", "d", "e"] {
        collection.document(key)?.set(&json!({}), &at_once())?;
    }
    let two = prune(|prune| (prune.max_count, prune.dry_run) = (Some(2), true));
    let pruned = collection.prune(&two, &at_once())?;
    equal!((pruned.removed.len(), pruned.remaining), (3, 2), "a dry run");
    equal!(collection.keys()?.len(), 5, "keys after a dry run");
    let path = collection.document("b")?.path().to_path_buf();
    let lease = Lease::on(subject.handle(1).as_ref(), &path)?;
    let leased = lease.acquire(&long("holder"))?;
    let two = prune(|prune| (prune.max_count, prune.keep) = (Some(2), vec!["c".to_owned()]));
    let pruned = subject.collection(1, CollectionKind::Documents)?.prune(&two, &at_once())?;
    equal!(pruned.removed, ["a"], "removed keys");
    equal!(pruned.skipped, ["b"], "keys that are held");
    equal!(pruned.remaining, 4, "what remains");
    equal!(sorted(&collection)?, ["b", "c", "d", "e"], "keys");
    lease.release(&leased.token)?;
    equal!(collection.prune(&Prune::default(), &at_once())?.remaining, 4, "what remains");
    let all = prune(|prune| prune.max_count = Some(0));
    equal!(collection.prune(&all, &at_once())?.removed.len(), 4, "removed keys");
    equal!(collection.keys()?, Vec::<String>::new(), "keys");
    Ok(())
}

pub(super) fn keys_of_journals_are_not_those_of_documents(subject: &Subject) -> Outcome {
    let documents = subject.collection(0, CollectionKind::Documents)?;
    let journals = subject.collection(0, CollectionKind::Journals)?;
    documents.document("a")?.set(&json!({}), &at_once())?;
    journals.journal("b")?.append(&["x"], &append(at_once()))?;
    equal!(documents.keys()?, ["a"], "keys of documents");
    equal!(journals.keys()?, ["b"], "keys of journals");
    ensure!(!journals.remove("a", &at_once())?, "a document was removed as a journal");
    ensure!(journals.remove("b", &at_once())?, "a journal was not there");
    equal!(journals.keys()?, Vec::<String>::new(), "keys of journals");
    let follow = journals.journal("b")?.follow(1)?.next(Wait::No)?;
    ensure!(follow.is_none(), "a removed journal has entries");
    Ok(())
}

pub(super) fn a_prune_by_age_keeps_what_is_young(subject: &Subject) -> Outcome {
    let collection = subject.collection(0, CollectionKind::Documents)?;
    collection.document("old")?.set(&json!({}), &at_once())?;
    let hour = prune(|prune| prune.max_age = Some(Duration::from_secs(3600)));
    equal!(collection.prune(&hour, &at_once())?.remaining, 1, "keys of the last hour");
    let age = Duration::from_millis(40);
    let young = prune(|prune| prune.max_age = Some(age));
    until("a key is old", || {
        add_one(&collection.document("new")?, &at_once())?;
        Ok(collection.prune(&young, &at_once())?.removed == ["old"])
    })?;
    equal!(collection.keys()?, ["new"], "keys");
    Ok(())
}
