//! Races 20 to 25: updates that are lost, or reappear.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::Path;
use std::rc::Rc;

use serde_json::json;
use tenure::json::Rules;
use tenure::{ErrorKind, WriteOptions};
use tenure_proof::puppet::{Child, Puppet};
use tenure_shipped::Document;
use tenure_shipped::documents::{CachedStore, SaveWithoutLock, Session, State};
use tenure_shipped::state;

use crate::scene::{Scene, add, at_once, await_on, count, kind, on, patiently};

/// Ours, for every one of these: while an update computes, a second one waits, and then both count (G6).
fn both_count(path: &Path) {
    let before = count(path);
    let mut other = Child::rust();
    let document = tenure::Document::open(path).unwrap();
    let update = document.update(&patiently(), |value| {
        assert_eq!(other.is_refused(&on("add", path)), "busy");
        other.tell(&await_on("add", path));
        other.is_silent();
        let n = value.map_or(0, |value| value["n"].as_u64().unwrap());
        Ok(Some(tenure::json!({ "n": n + 1 })))
    });
    update.unwrap();
    assert!(other.hear()["ok"].is_object());
    assert_eq!(count(path), before + 2);
}

/// The most common one: load, change, rename, without a lock. What others published in between is
/// replaced (ECC, claude-squad, bmad and many more). Ours: G6.
#[test]
fn race_20_an_atomic_rename_loses_updates() {
    let mut scene = Scene::new("race_20");
    let directory = scene.theirs();
    let mut alice = SaveWithoutLock::open(&directory);
    let at = directory.clone();
    alice.meanwhile.is(move || SaveWithoutLock::open(&at).add("bob").unwrap());
    alice.add("alice").unwrap();
    assert_eq!(scene.their_keys(), ["alice"]);
    scene.broke("load, change, rename without a lock");
    both_count(&scene.state());
    scene.tally.tried(1, "updates during an update");
}

/// ECC's fix: merge with the disk once more before the rename. The window is smaller, and still
/// there.
#[test]
fn race_21_a_merge_on_save_loses_updates() {
    let mut scene = Scene::new("race_21");
    let directory = scene.theirs();
    let mut alice = State::open(&directory, 1);
    let at = directory.clone();
    alice.meanwhile.is(move || State::open(&at, 2).add("bob").unwrap());
    alice.add("alice").unwrap();
    assert_eq!(scene.their_keys(), ["alice"]);
    scene.broke("ECC GateGuard: merge on save without a lock");
    both_count(&scene.state());
    scene.tally.tried(1, "updates during an update");
}

/// CLI-Anything: the lock is around the write, the load is outside. The last writer replaces all
/// other changes.
#[test]
fn race_22_a_lock_around_the_write_loses_updates() {
    let mut scene = Scene::new("race_22");
    let directory = scene.theirs();
    let mut alice = Session::open(&directory);
    let at = directory.clone();
    alice.loaded.is(move || Session::open(&at).add("bob").unwrap());
    alice.add("alice").unwrap();
    assert_eq!(scene.their_keys(), ["alice"]);
    scene.broke("CLI-Anything: the load is outside the lock");
    both_count(&scene.state());
    scene.tally.tried(1, "updates during an update");
}

/// OpenClaw: the update is under the lock, but it starts from a cache. Ours: an update is always computed
/// from the disk, whatever this handle has seen before (G6).
#[test]
fn race_23_a_cache_is_read_inside_the_lock() {
    let mut scene = Scene::new("race_23");
    let directory = scene.theirs();
    let (mut alice, mut bob) = (CachedStore::open(&directory), CachedStore::open(&directory));
    alice.add("a").unwrap();
    bob.add("b").unwrap();
    alice.add("c").unwrap();
    assert_eq!(scene.their_keys(), ["a", "c"], "b is lost");
    scene.broke("OpenClaw: a cache is read inside the lock");

    let path = scene.state();
    let document = tenure::Document::open(&path).unwrap();
    let mut other = Child::rust();
    for _ in 0..20 {
        let one_more = |value: Option<&tenure::Value>| {
            let n = value.map_or(0, |value| value["n"].as_u64().unwrap());
            Ok(Some(tenure::json!({ "n": n + 1 })))
        };
        document.update(&at_once(None), one_more).unwrap();
        other.does(&on("add", &path));
        scene.tally.tried(2, "updates through handles that have seen an older one");
    }
    assert_eq!(count(&path), 40);
}

/// The kernel's lock beside a document.
fn alone(directory: &Path) -> File {
    loop {
        // A child of this process also has it open between fork and exec.
        match tenure_shipped::open_alone(&directory.join("lock")).unwrap() {
            Some(alone) => break alone,
            None => std::thread::yield_now(),
        }
    }
}

/// OpenClaw: the new value was computed before the lock was taken, so one user got the session of
/// another. Ours: `update` computes inside; a caller that must compute outside names its version
/// (`conflict`).
#[test]
fn race_24_a_value_computed_outside_the_lock() {
    let mut scene = Scene::new("race_24");
    let directory = scene.theirs();
    let mut alice = SaveWithoutLock::open(&directory);
    let at = directory.clone();
    let hers = Rc::new(RefCell::new(None));
    let taken = hers.clone();
    alice.meanwhile.is(move || {
        let his = alone(&at);
        SaveWithoutLock::open(&at).add("bob").unwrap();
        drop(his);
        // A good lock around the write does not help: her value is older than the lock.
        *taken.borrow_mut() = Some(alone(&at));
    });
    alice.add("alice").unwrap();
    drop(hers);
    assert_eq!(scene.their_keys(), ["alice"]);
    scene.broke("OpenClaw: computed outside, written inside");

    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let document = tenure::Document::open(&path).unwrap();
    let read = document.read().unwrap().unwrap();
    add(&path, &at_once(None)).unwrap();
    let stale = document.set(
        &json!({ "n": 9 }),
        &WriteOptions { if_version: Some(read.version.clone()), ..at_once(None) },
    );
    assert_eq!(kind(stale), Some(ErrorKind::Conflict));
    both_count(&path);
    assert_eq!(count(&path), 4);
    scene.tally.tried(1, "writes on an older version");
}

/// A union of both sides restores what another process removed: revoked approvals were in force
/// again. And counters merged by `max` lose increments. Ours: removals stay removed, and sums are
/// declared as sums.
#[test]
fn race_25_a_union_brings_back_what_was_revoked() {
    let mut scene = Scene::new("race_25");
    let directory = scene.theirs();
    let mut alice = State::open(&directory, 1);
    alice.add("rm -rf").unwrap();
    let loaded = alice.load();
    fs::write(state::path(&directory), "{\"checked\":[]}").unwrap(); // Revoked by the user.
    alice.save(&loaded).unwrap();
    assert_eq!(scene.their_keys(), ["rm -rf"], "in force again");
    scene.broke("OpenClaw: a union merge resurrects a revoked approval");

    let path = scene.state();
    let document = tenure::Document::open(&path).unwrap();
    document.set(&json!({ "approved": ["rm -rf"], "denials": 1 }), &at_once(None)).unwrap();
    document.merge(&json!({ "approved": [] }), &Rules::default(), &at_once(None)).unwrap();
    let rules = Rules::default().sum("/denials").unwrap();
    for _ in 0..3 {
        document.merge(&json!({ "denials": 1 }), &rules, &at_once(None)).unwrap();
        scene.tally.tried(1, "merges after a revocation");
    }
    let value = document.read().unwrap().unwrap().value;
    assert_eq!(value, json!({ "approved": [], "denials": 4 }));
}
