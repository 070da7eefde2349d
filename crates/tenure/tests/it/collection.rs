//! Collections: a file and a lock per key; a removed key leaves nothing behind.

use std::time::Duration;

use tenure::options::{CollectionKind, Durability, Prune};
use tenure::{AppendOptions, Collection, ErrorKind, Value, Wait, WriteOptions, json};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::scratch::{Scratch, lease, lock_for};

fn quick() -> WriteOptions {
    WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() }
}

fn documents(scratch: &Scratch) -> Collection {
    Collection::open(scratch.path("sessions"), CollectionKind::Documents).unwrap()
}

/// The names in the sidecar directory that belong to some key.
fn sidecars(scratch: &Scratch) -> Vec<String> {
    let mut names = scratch.names("sessions/.tenure");
    names.retain(|name| name != ".gitignore" && name != "floor");
    names
}

/// Sets the time of the last change of a key's file.
fn touch(collection: &Collection, key: &str, age: Duration) {
    let file = std::fs::File::options().write(true).open(collection.path_of(key).unwrap()).unwrap();
    file.set_modified(std::time::SystemTime::now() - age).unwrap();
}

/// Race 33: one index file for all sessions. Here every key is a file of its own, whatever it is
/// called, and two keys that differ only in case are two.
#[test]
fn race_33_g13_keys_are_files_of_their_own_inside_the_directory() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    assert_eq!(
        sessions.keys().unwrap(),
        Vec::<String>::new(),
        "nothing is there, and nothing made"
    );
    let keys = ["a", "A", "../../etc/passwd", "..", "with space", "con", "\u{e9}\n", "~"];
    for key in keys {
        sessions.document(key).unwrap().set(&json!(key), &quick()).unwrap();
    }
    let mut found = sessions.keys().unwrap();
    found.sort();
    let mut wanted: Vec<String> = keys.iter().map(ToString::to_string).collect();
    wanted.sort();
    assert_eq!(found, wanted);
    for key in keys {
        assert_eq!(sessions.document(key).unwrap().read().unwrap().unwrap().value, json!(key));
    }
    assert_eq!(scratch.names(".").len(), 1, "nothing outside of the directory");
    assert_eq!(sessions.document("").unwrap_err().kind(), ErrorKind::Invalid);
}

/// Race 29: an expired file is removed by name while another process writes a fresh one. Here a key
/// is removed under its own lock, and only if it has not changed.
#[test]
fn race_29_prune_removes_what_is_old_and_nothing_that_is_held() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    for key in ["old", "older", "held", "leased", "kept", "fresh"] {
        sessions.document(key).unwrap().set(&json!(1), &quick()).unwrap();
        if key != "fresh" {
            touch(&sessions, key, Duration::from_secs(7200));
        }
    }
    let held = lock_for(&sessions.path_of("held").unwrap(), Wait::No).unwrap();
    let _leased = lease(&sessions.path_of("leased").unwrap(), "other");
    let prune = Prune {
        max_age: Some(Duration::from_secs(3600)),
        keep: vec!["kept".into()],
        ..Prune::default()
    };
    let dry = sessions.prune(&Prune { dry_run: true, ..prune.clone() }, &quick()).unwrap();
    assert_eq!(dry.removed.len(), 4, "a dry run does not look at locks");
    assert_eq!(sessions.keys().unwrap().len(), 6);
    let mut pruned = sessions.prune(&prune, &quick()).unwrap();
    pruned.removed.sort();
    pruned.skipped.sort();
    assert_eq!(pruned.removed, ["old", "older"]);
    assert_eq!(pruned.skipped, ["held", "leased"]);
    assert_eq!(pruned.remaining, 4);
    drop(held);
    let left = sidecars(&scratch);
    assert!(!left.iter().any(|name| name.starts_with("old")), "{left:?}");
}

/// The newest stay when there are too many.
#[test]
fn prune_by_count_keeps_the_most_recently_changed() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    for (age, key) in ["e", "d", "c", "b", "a"].into_iter().enumerate() {
        sessions.document(key).unwrap().set(&json!(age), &quick()).unwrap();
        touch(&sessions, key, Duration::from_secs(100 * (age as u64 + 1)));
    }
    let prune = Prune { max_count: Some(2), ..Prune::default() };
    assert_eq!(sessions.prune(&prune, &quick()).unwrap().removed.len(), 3);
    let mut left = sessions.keys().unwrap();
    left.sort();
    assert_eq!(left, ["d", "e"]);
}

/// A pruned key leaves no lock file. A new key of the same name starts above the old fences, which
/// only the floor still records.
#[test]
fn g4_fences_grow_over_the_end_of_a_key_even_if_the_clock_went_back() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    let path = sessions.path_of("k").unwrap();
    let mut newest = 0;
    for _ in 0..3 {
        sessions.document("k").unwrap().set(&json!(1), &quick()).unwrap();
        let guard = lock_for(&path, Wait::No).unwrap();
        assert!(guard.publish_fence() > newest, "{} is not above {newest}", guard.publish_fence());
        newest = guard.publish_fence();
        guard.release().unwrap();
        assert!(sessions.remove("k", &quick()).unwrap());
        assert_eq!(sidecars(&scratch), Vec::<String>::new());
    }
    // The floor is an hour ahead of the clock, so a clock set back by less than that does no harm.
    let guard = lock_for(&path, Wait::No).unwrap();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(u128::from(guard.publish_fence()) > clock.as_micros() + 1_000_000_000);
}

/// One process keeps removing the key and its lock files while others update it. Every update
/// starts from the current content, no two run at once, and none fails.
#[test]
fn race_01_g1_updates_survive_somebody_who_removes_the_key_all_the_time() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    let done = std::sync::atomic::AtomicBool::new(false);
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let options = WriteOptions { wait: Wait::Forever, ..quick() };
                    for _ in 0..150 {
                        let document = sessions.document("k").unwrap();
                        document
                            .update(&options, |current| {
                                let order = std::sync::atomic::Ordering::SeqCst;
                                assert_eq!(inside.fetch_add(1, order), 0, "two inside");
                                let n = current.and_then(Value::as_u64).unwrap_or(0);
                                inside.fetch_sub(1, order);
                                Ok(Some(json!(n + 1)))
                            })
                            .unwrap();
                    }
                })
            })
            .collect();
        let remover = scope.spawn(|| {
            // `remove` waits for its turn; a prune would skip a key that is in use.
            let options = WriteOptions { wait: Wait::Forever, ..quick() };
            let mut removed = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                removed += usize::from(sessions.remove("k", &options).unwrap());
            }
            removed
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(remover.join().unwrap() > 0, "it was removed now and then");
    });
}

/// A prune that died between the data and the lock files left sidecars; the next one removes them.
#[test]
fn race_12_left_overs_of_a_prune_that_died_go_with_the_next() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    for key in ["gone", "there"] {
        sessions.document(key).unwrap().set(&json!(1), &quick()).unwrap();
    }
    std::fs::remove_file(sessions.path_of("gone").unwrap()).unwrap();
    sessions.prune(&Prune::default(), &quick()).unwrap();
    let left = sidecars(&scratch);
    assert!(left.iter().all(|name| name.starts_with("there.json.")), "{left:?}");
    assert_eq!(sessions.document("there").unwrap().read().unwrap().unwrap().value, json!(1));
}

/// Journals of a collection go with their archives and indexes.
#[test]
fn a_removed_journal_leaves_no_archive() {
    let scratch = Scratch::new();
    let logs = Collection::open(scratch.path("sessions"), CollectionKind::Journals).unwrap();
    let journal = logs.journal("k").unwrap();
    let options = AppendOptions { write: quick(), ..AppendOptions::default() };
    journal.append(&["one"], &options).unwrap();
    journal.rotate(&quick()).unwrap();
    journal.append(&["two"], &options).unwrap();
    assert_eq!(logs.keys().unwrap(), ["k"], "an archive is no key");
    assert!(logs.remove("k", &quick()).unwrap());
    assert_eq!(scratch.names("sessions"), [".tenure"]);
    assert_eq!(sidecars(&scratch), Vec::<String>::new());
}

/// Documents go with everything that was ever set aside of them.
#[test]
fn a_removed_document_leaves_nothing_that_was_set_aside() {
    let scratch = Scratch::new();
    let sessions = documents(&scratch);
    let document = sessions.document("k").unwrap();
    for damage in ["{1", "{2", "{3"] {
        std::fs::create_dir_all(scratch.path("sessions")).unwrap();
        std::fs::write(document.path(), damage).unwrap();
        assert_eq!(document.set(&json!(1), &quick()).unwrap_err().kind(), ErrorKind::Damaged);
    }
    let numbered = |name: &String| name.contains("damaged.");
    assert_eq!(sidecars(&scratch).iter().filter(|name| numbered(name)).count(), 3);
    std::fs::write(document.path(), "1").unwrap();
    assert!(sessions.remove("k", &quick()).unwrap());
    assert_eq!(sidecars(&scratch), Vec::<String>::new());
}

/// A big index becomes a collection, once; repeating it changes nothing, and nothing is overwritten.
#[test]
fn race_33_a_split_can_be_repeated_and_overwrites_nothing() {
    let scratch = Scratch::new();
    let index = scratch.path("sessions.json");
    std::fs::write(&index, r#"{"a":{"n":1.50},"B/c":{"n":2},"d":null}"#).unwrap();
    let dir = scratch.path("sessions");
    let split = Collection::split(&index, &dir, &WriteOptions::default()).unwrap();
    assert_eq!(split.created, ["a", "B/c", "d"]);
    let sessions = documents(&scratch);
    let a = std::fs::read_to_string(sessions.path_of("a").unwrap()).unwrap();
    assert!(a.contains("1.50"), "numbers stay as they were written: {a}");
    sessions.document("d").unwrap().set(&json!("changed"), &quick()).unwrap();
    let again = Collection::split(&index, &dir, &WriteOptions::default()).unwrap();
    assert_eq!((again.present.len(), again.differing), (2, vec!["d".to_owned()]));
    assert_eq!(sessions.document("d").unwrap().read().unwrap().unwrap().value, json!("changed"));
    std::fs::write(&index, "[1]").unwrap();
    let error = Collection::split(&index, &dir, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn g10_a_key_that_cannot_be_looked_at_is_not_taken_for_a_removed_one() {
    // A prune once skipped it silently, took its sidecars for left-overs, and removed its data with
    // them.
    let scratch = Scratch::new();
    documents(&scratch).document("a").unwrap().set(&json!(1), &quick()).unwrap();
    let data = documents(&scratch).path_of("a").unwrap();
    let sick = data.clone();
    let fs = FaultyFs::new(move |op, path| match op {
        Op::Stat if path == sick => Verdict::Fail(std::io::Error::from_raw_os_error(libc::EIO)),
        _ => Verdict::Go,
    });
    let dir = scratch.path("sessions");
    let keys = Collection::open_on(&fs.shared(), &dir, CollectionKind::Documents).unwrap();
    let error = keys.prune(&Prune::default(), &quick()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(keys.remove("a", &quick()).unwrap_err().kind(), ErrorKind::Io);
    assert!(data.exists(), "it was removed");
}
