//! Races 50 to 54: tools that clean up, sidecars that were copied, mounts, nesting, and syncs that fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tenure::{
    AppendOptions, Document, Durability, ErrorKind, Journal, WriteOptions, status, try_lock,
};
use tenure_proof::puppet::{Child, Puppet};
use tenure_proof::tenure as command;
use tenure_shipped::Lock;
use tenure_shipped::locks::{SessionLock, lock_file};
use tenure_testkit::{Fault, SimFs, Times};

use crate::scene::{Scene, add, at_once, below_shell, count, holder, kind, told};

/// `doctor --fix` that removes live locks: by age, or by a wrong process title. Ours: never a lock file;
/// and a holder whose file somebody removed all the same is told (`compromised`, G1).
#[test]
fn race_50_a_clean_up_removes_live_locks() {
    let mut scene = Scene::new("race_50");
    let directory = scene.theirs();
    SessionLock::open(&directory).unwrap().enter().unwrap();
    // `find -name '*.lock' -mmin ... -delete`, or a button called "repair".
    fs::remove_file(lock_file(&directory)).unwrap();
    SessionLock::open(&directory).unwrap().enter().expect("both are inside");
    scene.broke("OpenClaw: a clean-up removes a live lock");

    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    let output = below_shell("exec \"$0\" doctor --fix \"$1\"", &[path.parent().unwrap()]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy));
    alice.does(&json!({ "op": "verify" }));
    alice.does(&json!({ "op": "add", "path": path, "fence": fence }));
    scene.tally.tried(1, "clean-ups beside a holder");

    fs::remove_dir_all(path.parent().unwrap().join(".tenure")).unwrap();
    assert_eq!(alice.is_refused(&json!({ "op": "verify" })), "compromised");
    let late = json!({ "op": "add", "path": path, "fence": fence });
    assert!(["compromised", "fenced"].contains(&alice.is_refused(&late).as_str()));
    assert_eq!(count(&path), 1);
    scene.tally.tried(1, "lock files removed during a hold");
}

/// `cp -r`, a restored backup, `git clean -fdx`: the bookkeeping is older or newer than the data. Ours: the
/// data wins, nothing is truncated or replayed over it, and the fence rises (G4).
#[test]
fn race_51_sidecars_of_another_time() {
    let mut scene = Scene::new("race_51");
    let (path, log) = (scene.state(), scene.log());
    let append = |line: &str| {
        let options = AppendOptions { write: at_once(None), ..AppendOptions::default() };
        Journal::open(&log).unwrap().append(&[line], &options).unwrap().last
    };
    add(&path, &at_once(None)).unwrap();
    append("one");
    let sidecars = scene.ours(".tenure");
    let saved = scene.ours("saved");
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    };
    copy(&sidecars, &saved);
    for _ in 0..3 {
        add(&path, &at_once(None)).unwrap();
        append("more");
    }
    let newest = try_lock(&path).unwrap().fence();
    // Restored: older bookkeeping beside newer data. Then none at all.
    for restored in [true, false] {
        fs::remove_dir_all(&sidecars).unwrap();
        if restored {
            copy(&saved, &sidecars);
        }
        let before = (count(&path), fs::read(&log).unwrap());
        assert!(try_lock(&path).unwrap().fence() > newest, "restored: {restored}");
        assert_eq!((count(&path), fs::read(&log).unwrap()), before);
        add(&path, &at_once(None)).unwrap();
        append("after");
        let content = fs::read(&log).unwrap();
        assert!(content.starts_with(&before.1), "only appended");
        assert_eq!(count(&path), before.0 + 1);
        scene.tally.tried(1, "sidecars of another time");
    }
    assert!(Journal::open(&log).unwrap().verify().unwrap().is_sound());
}

/// `docker -v state.json:/data/state.json`: the file is a mount, its directory another one, and so is the
/// lock beside it: silently no exclusion. Ours: refused (G12).
#[test]
fn race_52_a_single_file_is_mounted() {
    let mut scene = Scene::new("race_52");
    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let script = "mount --bind \"$1\" \"$1\" || exit 99; \
                  exec \"$0\" --json doc update \"$1\" '.n += 1'";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    let output = unshare.arg(command()).arg(&path).output().unwrap();
    if output.status.code() != Some(6) {
        let may_not = std::env::var_os("TENURE_WITHOUT_NAMESPACES").is_some();
        assert!(may_not, "{}; or set TENURE_WITHOUT_NAMESPACES=1", told(&output));
        println!("NOT RUN: a bind mount: {}", told(&output));
        return;
    }
    assert!(told(&output).contains("unsupported"), "{}", told(&output));
    assert_eq!(count(&path), 1);
    add(&path, &at_once(None)).unwrap();
    scene.tally.tried(1, "bind mounts of a single file");
}

/// A command below the lock updates the locked file and waits for itself until the deadline. Ours: the hold
/// is proven by its fence, which the command finds in its environment.
#[test]
fn race_53_a_command_below_the_lock_waits_for_it() {
    let mut scene = Scene::new("race_53");
    let path = scene.state();
    let nested = "exec \"$0\" run \"$1\" -- \"$0\" run \"$1\" -- \
                  \"$0\" doc update \"$1\" '.n += 1' --init '{\"n\":0}' --wait 0";
    let output = below_shell(nested, &[&path]);
    assert!(output.status.success(), "{}", told(&output));
    // Without the proof it would have waited.
    let proofless = "exec \"$0\" run \"$1\" -- env -u TENURE_FENCE -u TENURE_TARGET -u TENURE_OUTER \
                     \"$0\" doc update \"$1\" '.n += 1' --wait 0";
    let output = below_shell(proofless, &[&path]);
    assert_eq!(output.status.code(), Some(75), "{}", told(&output));
    assert_eq!(count(&path), 1);
    // A fence that is over proves nothing.
    let (mut alice, fence) = holder(&path);
    alice.does(&json!({ "op": "release" }));
    let late = json!({ "op": "add", "path": path, "fence": fence });
    assert_eq!(Child::rust().is_refused(&late), "fenced");
    assert!(!status(&path).unwrap().state.is_held());
    scene.tally.tried(3, "nested commands");
}

/// Group commit: the leader's sync fails, and the others believe that they are durable. Ours: whoever relied
/// on that sync gets the error, and no later sync mends it (G8).
#[test]
fn race_54_a_sync_that_failed_is_forgotten() {
    let mut scene = Scene::new("race_54");
    let durable = || WriteOptions { durability: Durability::Durable, ..at_once(None) };
    for nth in 1..40 {
        let fs = SimFs::new(nth);
        fs.add_dir("/d");
        let _tell = fs.tell_on_panic();
        let document = Document::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
        let journal = Journal::open_on(&fs.shared(), Path::new("/d/log.jsonl")).unwrap();
        let options = || AppendOptions { write: durable(), ..AppendOptions::default() };
        document.set(&json!({ "n": 0 }), &durable()).unwrap();
        journal.append(&["0"], &options()).unwrap();
        fs.inject(nth, Fault::SyncFailure, Times::Once);
        let (mut n, mut lines) = (0, vec!["0".to_owned()]);
        for number in 1..4 {
            match document.set(&json!({ "n": number }), &durable()) {
                Ok(_) => n = number,
                Err(error) => assert!(error.is_committed().is_some(), "{error}"),
            }
            match journal.append(&[number.to_string()], &options()) {
                Ok(_) => lines.push(number.to_string()),
                Err(error) => assert!(error.is_committed().is_some(), "{error}"),
            }
        }
        fs.clear_faults();
        fs.crash();
        let found = document.read().unwrap().unwrap().value["n"].as_u64().unwrap();
        assert!(found >= n, "{found} is older than {n}, which was acknowledged");
        let kept: Vec<_> =
            journal.read(1, None).unwrap().map(|entry| entry.unwrap().line).collect();
        for line in &lines {
            assert!(kept.iter().any(|kept| kept == line.as_bytes()), "{line} was acknowledged");
        }
        scene.tally.tried(1, "syncs that failed, then a power loss");
    }
}
