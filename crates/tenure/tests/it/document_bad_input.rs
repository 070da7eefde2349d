//! Bad input: each case is a clear error that names the path, leaves the old data, and leaks no
//! lock.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tenure::{AppendOptions, Document, ErrorKind, Journal, Value, Wait, WriteOptions, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_replace, foreign_write, increment,
};

/// Every verb refuses a document with these bytes as damaged, and nothing happens to it.
fn assert_refused(name: &str, bytes: &[u8], why: &str) {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, bytes);
    let document = scratch.document("state.json");
    let read = document.read().map(drop);
    let updated = document.update(&at_once(), increment).map(drop);
    let set = document.set(&json!({}), &at_once()).map(drop);
    let patched = document.patch(&json!([]), &at_once()).map(drop);
    for outcome in [read, updated, set, patched] {
        let error = outcome.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{name}: {error}");
        assert_eq!(error.path(), Some(path.as_path()), "{name}: {error}");
        assert!(error.to_string().contains(why), "{name}: {error}");
        assert!(error.next_step().is_some(), "{name}: {error}");
    }
    let error = document.restore(&at_once()).expect_err("there is no good copy");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{name}: {error}");
    assert_eq!(bytes_of(&path), bytes, "{name}: never reset");
    assert!(scratch.temps().is_empty());

    foreign_replace(&path, "{\"n\": 1}");
    document.update(&at_once(), increment).expect("works at once when it is fixed");
    if !bytes.is_empty() {
        assert_eq!(bytes_of(scratch.path(".tenure/state.json.damaged.1")), bytes, "{name}: kept");
        assert!(!scratch.path(".tenure/state.json.damaged.2").exists(), "{name}: once");
    }
}

#[test]
fn race_27_what_is_not_a_json_document_is_damaged_and_never_reset() {
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (name, bytes, why) in [
        ("empty", &b""[..], "empty"),
        ("only blanks", b" \n", "whitespace"),
        ("no JSON", b"hello", "syntax"),
        ("cut", b"{\"a\": [1, 2", "ends too early"),
        ("filled with zeros", &[0; 4096], "zero bytes"),
        ("zeros at the end", b"{\"a\":1}\0\0\0", "after its end"),
        ("two documents", b"{}{}", "after its end"),
        ("no UTF-8", b"{\"a\": \"\xff\xfe\"}", "UTF-8"),
        ("UTF-16", b"\xff\xfe{\0}\0", "UTF-8"),
        ("a byte order mark", b"\xef\xbb\xbf{}", "byte order mark"),
        ("a key twice", b"{\"a\": 1, \"a\": 2}", "repeats the key"),
        ("a comment", b"{} // x", "after its end"),
        ("NaN", b"{\"a\": NaN}", "syntax"),
        ("too deep", &deep, "nests deeper"),
    ] {
        assert_refused(name, bytes, why);
    }
}

#[test]
fn race_27_g5_a_damaged_document_is_restored_on_request_and_its_bytes_are_kept() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.update(&durably(), increment).unwrap();
    foreign_write(&path, "{\"n\": 3");
    let error = document.update(&at_once(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");

    let restored = document.restore(&durably()).unwrap();
    assert!(restored.changed);
    assert_eq!(count_in(&document), 1, "the version before the damaged one");
    assert_eq!(document.read().unwrap().map(|found| found.version), Some(restored.version));
    assert_eq!(bytes_of(scratch.path(".tenure/state.json.damaged.1")), b"{\"n\": 3");
    assert!(!document.restore(&durably()).unwrap().changed, "a good one is left alone");
    document.update(&at_once(), increment).unwrap();
    assert!(scratch.temps().is_empty());
}

/// The copy that is set aside holds the damaged bytes exactly. An empty file is not copied.
#[test]
fn race_27_damage_is_set_aside_whole() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    let damages = ["{\"n\": a long line of something", "{\"n\": 3", ""];
    for damage in damages {
        foreign_write(document.path(), damage);
        let error = document.update(&at_once(), increment).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
    let aside = |number: u32| scratch.path(&format!(".tenure/state.json.damaged.{number}"));
    assert_eq!(bytes_of(aside(1)), damages[0].as_bytes());
    assert_eq!(bytes_of(aside(2)), damages[1].as_bytes());
    assert!(!aside(3).exists());
}

/// Nothing that was set aside is overwritten, by a restore or by a change that meets other damage.
#[test]
fn race_27_what_was_set_aside_earlier_gets_a_number() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.update(&durably(), increment).unwrap();
    let aside = |end: &str| bytes_of(scratch.path(&format!(".tenure/state.json.damaged{end}")));
    for damage in ["{1", "{2"] {
        foreign_write(document.path(), damage);
        document.restore(&durably()).unwrap();
    }
    assert_eq!((aside(".1").as_slice(), aside(".2").as_slice()), (&b"{1"[..], &b"{2"[..]));
    foreign_write(document.path(), "{3");
    for _ in 0..2 {
        document.update(&at_once(), increment).unwrap_err();
    }
    document.restore(&durably()).unwrap();
    assert_eq!((aside(".2").as_slice(), aside(".3").as_slice()), (&b"{2"[..], &b"{3"[..]));
    assert!(!scratch.path(".tenure/state.json.damaged.4").exists(), "the same is kept once");
}

/// A program that breaks the document again and again does not fill the disk.
#[test]
fn race_27_copies_that_nobody_asked_for_end() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for damage in 0..12 {
        foreign_write(document.path(), format!("{{{damage}"));
        document.update(&at_once(), increment).unwrap_err();
    }
    assert_eq!(bytes_of(scratch.path(".tenure/state.json.damaged.8")), b"{7");
    assert!(!scratch.path(".tenure/state.json.damaged.9").exists());
    assert_eq!(bytes_of(document.path()), b"{11", "the document itself is left as it is");
}

/// A document that never existed cannot be restored, and the attempt leaves no files.
#[test]
fn nothing_to_restore_is_not_found() {
    let scratch = Scratch::new();
    for name in ["state.json", "no/state.json"] {
        let error = scratch.document(name).restore(&at_once()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(name) && error.next_step().is_some(), "{error}");
    }
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 0);
}

/// A restore is recorded as an event for people. It is not an operation that was replayed.
#[test]
fn a_restore_is_recorded() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.update(&durably(), increment).unwrap();
    assert!(!document.restore(&durably()).unwrap().replayed);
    foreign_write(document.path(), "{\"n\": 3");
    let restored = document.restore(&durably()).unwrap();
    assert_eq!((restored.changed, restored.replayed), (true, false));
    let events = tenure::status::events(document.path()).unwrap();
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["event"], &last["detail"]["damaged_bytes"]),
        (&json!("restored"), &json!(7)),
        "{last}"
    );
}

/// A watch waits while a document is damaged, and ends with an error when the document becomes
/// something else.
#[test]
fn a_watch_of_what_is_no_document_any_more_says_so() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let mut watch = document.watch().unwrap();
    foreign_write(document.path(), "{\"n\": 3");
    assert!(watch.next(Wait::No).unwrap().is_none());
    std::fs::remove_file(document.path()).unwrap();
    std::fs::create_dir(document.path()).unwrap();
    assert_eq!(watch.next(Wait::No).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_deleted_document_can_be_restored_too() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.update(&durably(), increment).unwrap();
    std::fs::remove_file(document.path()).unwrap();
    assert!(document.restore(&durably()).unwrap().changed);
    assert_eq!(count_in(&document), 1);
    std::fs::remove_file(document.path()).unwrap();
    std::fs::remove_file(scratch.path(".tenure/state.json.good")).unwrap();
    let error = document.restore(&durably()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn race_33_a_document_of_32_megabytes_is_only_slow() {
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    let rows: Vec<Value> = (0..32).map(|_| json!("x".repeat(1 << 20))).collect();
    document.set(&json!({ "n": 1, "rows": rows }), &at_once()).unwrap();
    document.update(&at_once(), increment).unwrap();
    assert_eq!(count_in(&document), 2);
    assert!(std::fs::metadata(document.path()).unwrap().len() > 32 << 20);
}

#[test]
fn race_33_a_document_of_100_megabytes_can_be_read_and_changed() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    let mut text = b"{\"n\":1,\"pad\":\"".to_vec();
    text.resize(100 << 20, b'x');
    text.extend_from_slice(b"\"}");
    foreign_write(&path, &text);
    let document = scratch.document("state.json");
    document.update(&at_once(), increment).unwrap();
    let found = bytes_of(&path);
    assert!(found.len() == text.len() && found.starts_with(b"{\"n\":2,\"pad\":\"xxx"));
}

fn assert_not_a_file(path: &Path) {
    let document = Document::open(path).unwrap();
    let outcomes = [
        document.read().map(drop),
        document.update(&at_once(), increment).map(drop),
        document.restore(&at_once()).map(drop),
    ];
    for outcome in outcomes {
        let error = outcome.expect_err("not a regular file");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.path(), Some(path), "{error}");
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn a_directory_or_fifo_is_refused_without_blocking() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("dir")).unwrap();
    assert_not_a_file(&scratch.path("dir"));
    assert!(scratch.path("dir").is_dir());
    let fifo = scratch.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_not_a_file(&fifo);
    assert!(scratch.temps().is_empty());
}

#[test]
fn a_device_is_refused_and_stays_a_device() {
    let document = Document::open("/dev/null").unwrap();
    let error = document.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(error.path(), Some(Path::new("/dev/null")));
}

#[test]
fn a_path_that_is_no_name_is_invalid() {
    let scratch = Scratch::new();
    for path in
        [Path::new(""), Path::new("/"), &scratch.path(".tenure/x"), &scratch.path(".tenure")]
    {
        let error = Document::open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path:?}: {error}");
    }
    foreign_write(scratch.path("file"), "{}");
    let below = scratch.path("file/state.json");
    let error = Document::open(&below).and_then(|found| found.set(&json!(1), &at_once()));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.path().is_some());
    let with_nul = PathBuf::from(std::ffi::OsStr::from_bytes(b"/tmp/a\0b"));
    let outcome = Document::open(&with_nul).and_then(|found| found.set(&json!(1), &at_once()));
    assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::Io | ErrorKind::Invalid));
}

/// Puts something at the place of the sidecar directory; the second path is elsewhere.
type Plant = fn(&Path, &Path);

#[test]
fn the_sidecar_directory_is_never_followed_or_replaced() {
    let elsewhere = Scratch::new();
    let cases: [(&str, Plant); 3] = [
        ("a file", |side, _| foreign_write(side, "mine")),
        ("a symlink", |side, there| std::os::unix::fs::symlink(there, side).unwrap()),
        ("a dangling symlink", |side, there| {
            std::os::unix::fs::symlink(there.join("nothing"), side).unwrap();
        }),
    ];
    for (name, plant) in cases {
        let scratch = Scratch::new();
        foreign_write(scratch.path("state.json"), "{\"n\": 7}");
        let side = scratch.path(".tenure");
        plant(&side, elsewhere.dir());
        let document = scratch.document("state.json");
        let error = document.update(&at_once(), increment).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert_eq!(error.path(), Some(side.as_path()), "{name}: {error}");
        assert_eq!(count_in(&document), 7, "{name}: reading still works");
        assert!(elsewhere.listing().is_empty(), "{name}: nothing was written elsewhere");
        std::fs::remove_file(&side).unwrap();
        document.update(&at_once(), increment).expect(name);
    }
}

#[test]
fn race_11_garbage_in_the_sidecars_costs_nothing_but_the_bookkeeping() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for round in 0..12_u8 {
        document.update(&durably(), increment).unwrap();
        for name in ["hold", "commit", "sync0", "sync1", "good"] {
            let size = usize::from(round) * 800;
            let garbage: Vec<u8> =
                (0..size).map(|at| round ^ u8::try_from(at % 251).unwrap()).collect();
            foreign_write(scratch.path(&format!(".tenure/state.json.{name}")), garbage);
        }
        assert_eq!(count_in(&document), u64::from(round) + 1);
    }
}

#[test]
fn a_fifo_symlink_or_directory_in_place_of_a_sidecar_is_a_clear_error_and_no_hang() {
    let elsewhere = Scratch::new();
    let secret = elsewhere.path("secret");
    foreign_write(&secret, "untouched");
    for name in ["hold", "commit"] {
        for kind in ["fifo", "symlink", "directory"] {
            let scratch = Scratch::new();
            let document = scratch.document("state.json");
            document.set(&json!({ "n": 7 }), &at_once()).unwrap();
            let sidecar = scratch.path(&format!(".tenure/state.json.{name}"));
            std::fs::remove_file(&sidecar).unwrap();
            match kind {
                "fifo" => {
                    let (file, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
                    rustix::fs::mknodat(rustix::fs::CWD, &sidecar, file, mode, 0).unwrap();
                }
                "symlink" => std::os::unix::fs::symlink(&secret, &sidecar).unwrap(),
                _ => std::fs::create_dir(&sidecar).unwrap(),
            }
            let error = document.update(&at_once(), increment).expect_err(kind);
            assert_eq!(error.path(), Some(sidecar.as_path()), "{name} is a {kind}: {error}");
            assert_eq!(bytes_of(document.path()), b"{\n  \"n\": 7\n}\n");
            assert_eq!(bytes_of(&secret), b"untouched", "{name}: not written through a {kind}");
            let _ = std::fs::remove_file(&sidecar);
            let _ = std::fs::remove_dir(&sidecar);
            document.update(&at_once(), increment).expect("works when it is gone");
        }
    }
}

#[test]
fn a_document_becomes_no_journal_and_a_journal_no_document() {
    let scratch = Scratch::new();
    let [document, journal] = ["state.json", "log.jsonl"].map(|name| scratch.path(name));
    let line = b"{\"n\":1}";
    Document::open(&document).unwrap().set(&json!({ "n": 1 }), &WriteOptions::default()).unwrap();
    Journal::open(&journal).unwrap().append(&[line], &AppendOptions::default()).unwrap();
    let before = [&document, &journal].map(|path| std::fs::read(path).unwrap());
    let refused = Journal::open(&document).unwrap().append(&[line], &AppendOptions::default());
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Invalid, Some(false)), "{error}");
    let set = Document::open(&journal).unwrap().set(&json!({}), &WriteOptions::default());
    let error = set.unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Invalid, Some(false)), "{error}");
    assert_eq!([&document, &journal].map(|path| std::fs::read(path).unwrap()), before);
    // A name is free again when its file is gone.
    for path in [&document, &journal] {
        std::fs::remove_file(path).unwrap();
    }
    Journal::open(&document).unwrap().append(&[line], &AppendOptions::default()).unwrap();
    let journal = Document::open(&journal).unwrap();
    for n in [1, 2] {
        journal.set(&json!({ "n": n }), &WriteOptions::default()).unwrap();
    }
}
