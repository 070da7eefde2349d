//! Input that nobody would write: one function per kind of bytes that tenure reads.
//!
//! Each takes any bytes, brings them before the public API on a simulated disk, and panics if a promise
//! is broken. The fuzz targets (`fuzz/`) call them, and ring 8 calls them with every file of `corpus/`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure::fs::Fs;
use tenure::{
    AppendOptions, Collection, CollectionKind, Document, Durability, ErrorKind, Journal, Lock,
    LockOptions, Rules, Version, Wait, WriteOptions, parse_json,
};
use tenure_testkit::SimFs;

/// What takes any bytes, and panics if a promise is broken.
pub type Check = fn(&[u8]);

/// The functions by the name of their fuzz target and their directory in `corpus/`.
pub const ALL: &[(&str, Check)] = &[
    ("record", record),
    ("journal", journal),
    ("document", document),
    ("merge", merge),
    ("patch", patch),
    ("names", names),
];

const DOCUMENT: &str = "/d/state.json";
const JOURNAL: &str = "/d/log.jsonl";

fn disk() -> (SimFs, Arc<dyn Fs>) {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let fs = sim.shared();
    (sim, fs)
}

/// Writes that wait for nobody and sync nothing: the bytes are what is tried.
fn quickly() -> WriteOptions {
    WriteOptions { wait: Wait::No, durability: Durability::NoSync, ..WriteOptions::default() }
}

fn fence_of(fs: &Arc<dyn Fs>) -> Option<u64> {
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let lock = Lock::open_on(fs, Path::new(DOCUMENT)).expect("a path");
    match lock.acquire(&options) {
        Ok(guard) => Some(guard.fence()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}");
            None
        }
    }
}

/// The record of a target is anything at all: the document is still there, and fences grow.
pub fn record(bytes: &[u8]) {
    let (sim, fs) = disk();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let value = json!({ "kept": [1, 2.50, "x"] });
    document.set(&value, &quickly()).expect("the first version");
    let before = fence_of(&fs).expect("a first fence");
    sim.add_file("/d/.tenure/state.json.commit", bytes);
    let newer = match document.read() {
        Ok(read) => {
            assert_eq!(read.map(|snapshot| snapshot.value), Some(value));
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}");
            true
        }
    };
    let after = fence_of(&fs);
    assert_eq!(after.is_none(), newer, "readers and holders judge alike");
    if let Some(after) = after {
        assert!(after > before, "fence {after} after {before}");
        document.set(&json!([]), &quickly()).expect("a change");
    }
}

/// One file of a journal is anything at all; the first byte says which. Lines that are there stay, what
/// is appended is read back, and nothing is altered in silence.
pub fn journal(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let (sim, fs) = disk();
    let journal = Journal::open_on(&fs, Path::new(JOURNAL)).expect("a path");
    let append = |line: &str| {
        let options = AppendOptions { write: quickly(), ..AppendOptions::default() };
        journal.append(&[line], &options)
    };
    append("{\"first\":1}").expect("the first line");
    append("{\"second\":2}").expect("the second line");
    let (file, is_data) = match which % 4 {
        0 => (JOURNAL, true),
        1 => ("/d/.tenure/log.jsonl.index", false),
        2 => ("/d/.tenure/log.jsonl.commit", false),
        _ => ("/d/.tenure/log.jsonl.wal", false),
    };
    sim.add_file(file, bytes);
    let lines = || -> tenure::Result<Vec<Vec<u8>>> {
        journal.read(0, None)?.map(|entry| entry.map(|entry| entry.line)).collect()
    };
    let _ = journal.verify();
    let before = lines();
    if let (Ok(before), false) = (&before, is_data) {
        let texts: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        assert_eq!(texts, [&b"{\"first\":1}"[..], b"{\"second\":2}"]);
    }
    let plain = sim.peek(JOURNAL).expect("the journal");
    if append("{\"third\":3}").is_err() {
        return;
    }
    let after = sim.peek(JOURNAL).expect("the journal");
    assert!(after.starts_with(&plain), "the journal is never cut");
    let after = lines().expect("what was just written can be read");
    assert_eq!(after.last().map(Vec::as_slice), Some(&b"{\"third\":3}"[..]));
    journal.verify().expect("a journal that was just written");
}

/// A document is anything at all: it is read as it is, or refused and left alone.
pub fn document(bytes: &[u8]) {
    let (sim, fs) = disk();
    sim.add_file(DOCUMENT, bytes);
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let parsed = parse_json(bytes);
    let read = document.read();
    let Ok(value) = parsed else {
        assert!(read.is_err(), "a document that is no JSON was read");
        let refused = document.set(&json!(1), &quickly());
        assert!(refused.is_err(), "a damaged document was replaced");
        assert_eq!(sim.peek(DOCUMENT).as_deref(), Some(bytes), "a damaged document was changed");
        return;
    };
    let snapshot = read.expect("JSON can be read").expect("it is there");
    assert_eq!(snapshot.value, value);
    assert_eq!(snapshot.bytes, bytes);
    // Written and read again: every digit, every key in its place.
    let other = Document::open_on(&fs, Path::new("/d/copy.json")).expect("a path");
    other.set(&value, &quickly()).expect("what was read can be written");
    let again = other.read().expect("what was written can be read").expect("it is there").value;
    assert_eq!(again.to_string(), value.to_string(), "a round trip changes nothing");
}

/// Two values, the document and the patch, with a NUL in between.
fn two(bytes: &[u8]) -> Option<(Value, Value)> {
    let at = bytes.iter().position(|byte| *byte == 0)?;
    Some((parse_json(&bytes[..at]).ok()?, parse_json(&bytes[at + 1..]).ok()?))
}

/// A merge is RFC 7396: twice is once, and a field that no patch names stays.
pub fn merge(bytes: &[u8]) {
    let Some((base, patch)) = two(bytes) else { return };
    let (sim, fs) = disk();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    document.set(&base, &quickly()).expect("a value");
    let rules = Rules::new().union("/set").and_then(|rules| rules.max("/max")).expect("rules");
    let before = sim.peek(DOCUMENT);
    if let Err(error) = document.merge(&patch, &rules, &quickly()) {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(sim.peek(DOCUMENT), before, "a refused merge changes nothing");
        return;
    }
    let once = document.read().expect("readable").expect("there").value;
    let again = document.merge(&patch, &rules, &quickly()).expect("the same merge");
    assert!(!again.changed, "the same patch again changes nothing");
    let (Value::Object(base), Value::Object(patch)) = (&base, &patch) else { return };
    for (key, value) in base.iter().filter(|(key, _)| !patch.contains_key(*key)) {
        assert_eq!(once.get(key), Some(value), "a field that no patch names");
    }
}

/// A JSON patch is applied whole or not at all.
pub fn patch(bytes: &[u8]) {
    let Some((base, operations)) = two(bytes) else { return };
    let (sim, fs) = disk();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    document.set(&base, &quickly()).expect("a value");
    let before = sim.peek(DOCUMENT);
    if let Err(error) = document.patch(&operations, &quickly()) {
        let expected = [ErrorKind::Invalid, ErrorKind::Conflict];
        assert!(expected.contains(&error.kind()), "{error}");
        assert_eq!(sim.peek(DOCUMENT), before, "a refused patch changes nothing");
    } else {
        let after = sim.peek(DOCUMENT).expect("the document");
        parse_json(&after).expect("what a patch leaves is JSON");
    }
}

/// Keys, versions and pointers: refused, or safe.
pub fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (_, fs) = disk();
    let open = |kind| Collection::open_on(&fs, Path::new("/d"), kind).expect("a directory");
    let keys = open(CollectionKind::Documents);
    if let Ok(path) = keys.path_of(&text) {
        assert_eq!(path.parent(), Some(Path::new("/d")), "a key left its directory: {text:?}");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(name.len() <= 255 && !name.starts_with('.'), "{name}");
        keys.document(&text)
            .and_then(|document| document.set(&json!(1), &quickly()))
            .expect("a key");
        assert_eq!(keys.keys().expect("keys"), [text.as_ref()], "a name leads back to its key");
        assert_ne!(open(CollectionKind::Journals).path_of(&text).ok(), Some(path));
    }
    if let Ok(version) = text.parse::<Version>() {
        assert_eq!(version.to_string(), text);
    }
    if Rules::new().union(&text).is_ok() {
        assert!(text.is_empty() || text.starts_with('/'), "{text:?} is no JSON Pointer");
    }
}
