//! The document in everyday use: what each verb does, and what it leaves alone.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use tenure::embed;
use tenure::json::Rules;
use tenure::options::Durability;
use tenure::{ErrorKind, Value, Wait, WriteOptions, json};
use tenure_testkit::{CrashKind, SimFs};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_write, increment, refusal,
};
use crate::roles::play;

fn with_operation(id: &str) -> WriteOptions {
    WriteOptions { operation: Some(id.to_owned()), ..at_once() }
}

#[test]
fn a_missing_document_reads_as_none_and_the_first_write_creates_it() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    assert!(document.read().unwrap().is_none());
    assert!(scratch.listing().is_empty(), "reading creates nothing");

    let written = document.set(&json!({ "a": 1 }), &durably()).unwrap();
    assert!(written.changed && !written.replayed);
    let snapshot = document.read().unwrap().unwrap();
    assert_eq!(snapshot.value, json!({ "a": 1 }));
    assert_eq!(snapshot.bytes, b"{\n  \"a\": 1\n}\n");
    assert_eq!(snapshot.version, written.version);
    assert!(!snapshot.repaired);
    assert_eq!(bytes_of(scratch.path(".tenure/.gitignore")), b"*\n");
}

#[test]
fn race_24_g6_update_computes_from_the_disk_and_not_from_an_older_read() {
    // Two handles: the second one has read before the first one wrote.
    let scratch = Scratch::new();
    let (one, two) = (scratch.document("state.json"), scratch.document("state.json"));
    one.set(&json!({ "n": 1 }), &at_once()).unwrap();
    assert_eq!(count_in(&two), 1);
    one.update(&at_once(), increment).unwrap();
    two.update(&at_once(), increment).unwrap();
    assert_eq!(count_in(&one), 3);
}

#[test]
fn race_37_key_order_unknown_fields_and_numbers_survive_a_change_of_another_field() {
    // CLI-Anything sorted the keys; others turned 12345678901234567890123 into 1.2345e22.
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let text = "{\n  \"z\": 12345678901234567890123,\n  \"a\": 0.1000,\n  \"m\": [1E400, -0.0],\n  \
                \"text\": \"\u{e9} \\u0007\",\n  \"unknown\": { \"deep\": null },\n  \"n\": 1\n}\n";
    let text = text.replace("{ \"deep\": null }", "{\n    \"deep\": null\n  }");
    let text = text.replace("[1E400, -0.0]", "[\n    1E400,\n    -0.0\n  ]");
    foreign_write(&path, &text);
    let document = scratch.document("state.json");
    document.update(&at_once(), increment).unwrap();
    let expected = text.replace("\"n\": 1", "\"n\": 2");
    assert_eq!(String::from_utf8(bytes_of(&path)).unwrap(), expected);
    document.merge(&json!({ "n": 3 }), &Rules::new(), &at_once()).unwrap();
    document.patch(&json!([{ "op": "replace", "path": "/n", "value": 2 }]), &at_once()).unwrap();
    assert_eq!(String::from_utf8(bytes_of(&path)).unwrap(), expected);
}

#[test]
fn race_37_the_layout_of_the_file_survives() {
    let scratch = Scratch::new();
    for (index, text) in [
        "{\"n\":1,\"b\":[1,2]}",
        "{\"n\":1,\"b\":[1,2]}\n",
        "{\"n\": 1, \"b\": [1, 2]}",
        "{\n  \"n\": 1,\n  \"b\": []\n}\n",
        "{\n    \"n\": 1,\n    \"b\": {}\n}",
        "{\n\t\"n\": 1,\n\t\"b\": [\n\t\t1\n\t]\n}\n",
    ]
    .iter()
    .enumerate()
    {
        let path = scratch.path(&format!("{index}.json"));
        foreign_write(&path, text);
        let document = tenure::Document::open(&path).unwrap();
        document.update(&at_once(), increment).unwrap();
        let found = String::from_utf8(bytes_of(&path)).unwrap();
        assert_eq!(found, text.replacen('1', "2", 1), "layout of {text:?}");
    }
}

#[test]
fn unchanged_content_is_not_rewritten() {
    // Watchers, build tools and backups look at the inode and the time.
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{ \"b\": 1,\n\"a\": 2 }");
    let document = scratch.document("state.json");
    let value = document.read().unwrap().unwrap().value;
    let identity = |found: &std::fs::Metadata| (found.ino(), found.mtime(), found.mtime_nsec());
    let theirs = std::fs::metadata(&path).unwrap();
    assert!(!document.set(&value, &at_once()).unwrap().changed);
    assert_eq!(identity(&theirs), identity(&std::fs::metadata(&path).unwrap()));
    // Whether another program has synced it is unknown: the first durable call publishes it anew.
    assert!(!document.set(&value, &durably()).unwrap().changed);
    let before = std::fs::metadata(&path).unwrap();
    for options in [at_once(), durably()] {
        assert!(!document.set(&value, &options).unwrap().changed);
        assert!(!document.update(&options, |_| Ok(None)).unwrap().changed);
        assert!(!document.merge(&json!({ "a": 2 }), &Rules::new(), &options).unwrap().changed);
        let test = json!([{ "op": "test", "path": "/a", "value": 2 }]);
        assert!(!document.patch(&test, &options).unwrap().changed);
        assert!(!document.restore(&options).unwrap().changed);
    }
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(identity(&before), identity(&after));
    assert_eq!(bytes_of(&path), b"{ \"b\": 1,\n\"a\": 2 }");
}

#[test]
fn an_error_of_the_closure_leaves_everything_as_it_was_and_frees_the_lock() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    let version = document.read().unwrap().map(|found| found.version);
    let listing = scratch.listing();
    let error = document.update(&at_once(), |_| Err(refusal("not today"))).unwrap_err();
    assert!(error.to_string().contains("not today"), "{error}");
    assert_eq!(
        (document.read().unwrap().map(|found| found.version), scratch.listing()),
        (version, listing)
    );

    let panicking = || document.update(&at_once(), |_| panic!("a bug in the caller's closure"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking));
    assert!(panicked.is_err());
    assert_eq!(document.update(&at_once(), increment).map(|done| done.changed).ok(), Some(true));
}

#[test]
fn race_53_an_update_of_the_same_document_inside_the_closure_is_a_deadlock_and_not_a_hang() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let options = WriteOptions { wait: Wait::Forever, ..at_once() };
    let error = document
        .update(&options, |_| document.update(&options, increment).map(|_| None))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    document.update(&at_once(), increment).unwrap();
}

#[test]
fn a_value_too_deep_to_be_read_back_is_refused() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let error = document.set(&deep, &at_once()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(count_in(&document), 1);
}

#[test]
fn race_25_merge_follows_its_declared_rules_and_creates_the_document() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let rules = Rules::new().union("/checked").unwrap().max("/last").unwrap().sum("/hits").unwrap();
    for (key, last) in [("a.ts", 7), ("b.ts", 3), ("a.ts", 5)] {
        let patch = json!({ "checked": [key], "last": last, "hits": 1 });
        document.merge(&patch, &rules, &at_once()).unwrap();
    }
    let expected = json!({ "checked": ["a.ts", "b.ts"], "last": 7, "hits": 3 });
    assert_eq!(document.read().unwrap().unwrap().value, expected);
    let error = document.merge(&json!({ "hits": "x" }), &rules, &at_once()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(document.read().unwrap().unwrap().value, expected);
}

#[test]
fn a_patch_is_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let error = document.patch(&json!([]), &at_once()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    for (last, kind) in [
        (json!({ "op": "test", "path": "/n", "value": 9 }), ErrorKind::Conflict),
        (json!({ "op": "remove", "path": "/nothing" }), ErrorKind::Invalid),
        (json!({ "op": "conjure", "path": "/n" }), ErrorKind::Invalid),
    ] {
        let operations = json!([{ "op": "add", "path": "/x", "value": 1 }, last]);
        let error = document.patch(&operations, &at_once()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.path(), Some(document.path()));
        assert_eq!(document.read().unwrap().unwrap().value, json!({ "n": 1 }));
    }
}

#[test]
fn an_operation_is_done_once_however_often_it_is_repeated() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    assert!(document.update(&with_operation("one"), increment).unwrap().changed);
    for _ in 0..3 {
        let again = document.update(&with_operation("one"), increment).unwrap();
        assert!(again.replayed && !again.changed);
    }
    document.update(&with_operation("two"), increment).unwrap();
    assert!(document.update(&with_operation("one"), increment).unwrap().replayed);
    assert_eq!(count_in(&document), 2);
}

#[test]
fn an_operation_that_found_nothing_to_change_is_done_too() {
    // Its first reply got lost. Meanwhile another writer set another value; the repetition must not
    // undo that.
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!("on"), &at_once()).unwrap();
    assert!(!document.set(&json!("on"), &with_operation("switch on")).unwrap().changed);
    document.set(&json!("off"), &at_once()).unwrap();
    assert!(document.set(&json!("on"), &with_operation("switch on")).unwrap().replayed);
    assert_eq!(document.read().unwrap().unwrap().value, json!("off"));
}

#[test]
fn an_operation_that_a_restore_took_back_can_be_done_again() {
    // "Done already" for a missing document would be a lost update.
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    let options = WriteOptions { operation: Some("add".to_owned()), ..durably() };
    document.update(&options, increment).unwrap();
    foreign_write(document.path(), "{");
    document.restore(&durably()).unwrap();
    assert_eq!(count_in(&document), 1);
    assert!(document.update(&options, increment).unwrap().changed);
    assert_eq!(count_in(&document), 2);
}

#[test]
fn an_operation_counts_once_wherever_its_process_died() {
    // The process dies at each operation of an update in turn, and the caller repeats it.
    for durability in [Durability::Durable, Durability::NoSync] {
        for nth in 1.. {
            let fs = SimFs::new(nth);
            let _told = fs.tell_on_panic();
            fs.set_device(90_001);
            fs.add_dir("/d");
            let open = || tenure::Document::open_on(&fs.shared(), Path::new("/d/s.json")).unwrap();
            let options = WriteOptions { durability, ..with_operation("add one") };
            open().set(&json!({ "n": 1 }), &WriteOptions { durability, ..at_once() }).unwrap();
            fs.fail_after(nth, CrashKind::Process);
            let finished = open().update(&options, increment).is_ok();
            fs.process_crash();
            open().update(&options, increment).unwrap();
            assert_eq!(count_in(&open()), 2, "{durability:?}, died at operation {nth}");
            if finished {
                break;
            }
        }
    }
}

#[test]
fn race_20_21_22_g6_no_update_of_8_threads_is_lost() {
    // The seed systems kept 11 of 200 (load outside the lock) to 90 of 100 (merge without a lock).
    let scratch = Scratch::in_memory();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let document = scratch.document("state.json");
            scope.spawn(move || {
                for turn in 0..50 {
                    let durability =
                        if turn % 5 == 0 { Durability::Durable } else { Durability::NoSync };
                    let options =
                        WriteOptions { wait: Wait::Forever, durability, ..WriteOptions::default() };
                    let key = format!("{thread}/{turn}");
                    let add = |current: Option<&Value>| {
                        let mut next = increment(current)?;
                        if let Some(next) = &mut next {
                            next[&key] = json!(true);
                        }
                        Ok(next)
                    };
                    document.update(&options, add).unwrap();
                }
            });
        }
    });
    let value = scratch.document("state.json").read().unwrap().unwrap().value;
    assert_eq!(value["n"], json!(400));
    assert_eq!(value.as_object().unwrap().len(), 401, "every key is there");
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_20_g6_no_update_of_8_processes_is_lost() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| play("increment 50 times", &path, "exec \"$@\""));
        }
    });
    assert_eq!(count_in(&scratch.document("state.json")), 400);
    assert!(scratch.temps().is_empty());
}

#[test]
fn a_watch_tells_each_change_once_and_ends_when_its_wait_is_over() {
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 0 }), &at_once()).unwrap();
    let mut watch = document.watch().unwrap();
    assert!(watch.next(Wait::No).unwrap().is_none(), "nothing has changed yet");
    let (told, heard) = mpsc::channel();
    let watching = std::thread::spawn(move || {
        while let Some(snapshot) = watch.next(Wait::Forever).unwrap() {
            let count = snapshot.value["n"].as_u64().unwrap();
            told.send(count).unwrap();
            if count == 100 {
                break;
            }
        }
        assert!(watch.next(Wait::For(Duration::from_millis(5))).unwrap().is_none());
    });
    for _ in 0..100 {
        document.update(&at_once(), increment).unwrap();
    }
    watching.join().unwrap();
    let counts: Vec<u64> = heard.iter().collect();
    assert!(counts.windows(2).all(|pair| pair[0] < pair[1]), "{counts:?}");
}

#[test]
fn a_watch_sees_foreign_changes_a_deletion_and_the_return() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    let mut watch = document.watch().unwrap();
    foreign_write(&path, "{\"n\":1}");
    assert_eq!(watch.next(Wait::default()).unwrap().unwrap().value, json!({ "n": 1 }));
    std::fs::remove_file(&path).unwrap();
    assert!(watch.next(Wait::For(Duration::from_millis(5))).unwrap().is_none());
    foreign_write(&path, "{\"n\":2}");
    assert_eq!(watch.next(Wait::default()).unwrap().unwrap().value, json!({ "n": 2 }));
}

#[test]
fn a_watch_survives_a_replaced_directory_and_refuses_a_missing_one() {
    // No event would ever wake it: an error is better than an endless wait.
    let scratch = Scratch::new();
    let document = scratch.document("dir/state.json");
    let error = document.watch().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let mut watch = document.watch().unwrap();
    std::fs::rename(scratch.path("dir"), scratch.path("old")).unwrap();
    document.set(&json!({ "n": 2 }), &at_once()).unwrap();
    assert_eq!(watch.next(Wait::default()).unwrap().unwrap().value, json!({ "n": 2 }));
    document.set(&json!({ "n": 3 }), &at_once()).unwrap();
    assert_eq!(watch.next(Wait::default()).unwrap().unwrap().value, json!({ "n": 3 }));
    std::fs::remove_dir_all(scratch.path("dir")).unwrap();
    let error = watch.next(Wait::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_text_is_kept_as_it_was_given() {
    // A tool with a layout of its own (sorted keys, no final newline) finds its own bytes again.
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let text = "{ \"b\":[1,\n2] ,\"a\":1.50 }";
    let set = |text: &str| embed::update_text(&document, &durably(), |_| Ok(Some(text.to_owned())));
    assert!(set(text).unwrap().changed);
    assert_eq!(std::fs::read_to_string(document.path()).unwrap(), text);
    assert!(!set(text).unwrap().changed);
    let seen = embed::update_text(&document, &durably(), |old| {
        assert_eq!(old, Some(text));
        Ok(None)
    });
    assert!(!seen.unwrap().changed);
    assert!(set("{\"b\":[1,2],\"a\":1.50}").unwrap().changed, "another layout is another text");
    for bad in ["", "{", "{\"a\":1,\"a\":2}", "NaN", "\u{feff}{}"] {
        assert_eq!(set(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
    }
    assert_eq!(document.read().unwrap().unwrap().bytes, b"{\"b\":[1,2],\"a\":1.50}");
}
