//! Lines of journals, and names of keys: any bytes, any text.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::{Strategy, any, prop_oneof};
use tenure::fs::{Access, Fs};
use tenure::options::{CollectionKind, Durability};
use tenure::{AppendOptions, Collection, ErrorKind, Journal, Wait, WriteOptions};
use tenure_proof::inputs;
use tenure_testkit::SimFs;

use crate::runs::try_all;

fn line() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), proptest::sample::select(b"{}\"a \t\r\n\0".to_vec())];
    proptest::collection::vec(byte, 0..30)
}

/// A step of a journal's life: a batch through tenure, or bytes of another tool.
#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<Vec<u8>>, bool),
    Foreign(Vec<u8>),
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0))
}

/// Any bytes: a batch is refused whole, or read back whole and in order, also among foreign bytes.
#[test]
fn lines_of_any_bytes_are_refused_or_kept() {
    let batch = proptest::collection::vec(line(), 1..4);
    let step = prop_oneof![
        3 => (batch, any::<bool>()).prop_map(|(lines, durable)| Step::Batch(lines, durable)),
        1 => line().prop_map(Step::Foreign),
    ];
    let life = proptest::collection::vec(step, 1..8);
    try_all("lines_of_any_bytes_are_refused_or_kept", 250, life, |life| {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        let fs: Arc<dyn Fs> = sim.shared();
        let path = Path::new("/d/log.jsonl");
        let journal = Journal::open_on(&fs, path).expect("a path");
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for step in life {
            match step {
                Step::Batch(lines, durable) => {
                    let durability = if durable { Durability::Durable } else { Durability::NoSync };
                    let write =
                        WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
                    let options = AppendOptions { write, ..AppendOptions::default() };
                    let bad = lines.iter().any(|line| line.contains(&b'\n') || is_blank(line));
                    match journal.append(&lines, &options) {
                        Ok(_) => {
                            assert!(!bad, "a blank line, or one with a newline: {lines:?}");
                            kept.extend(lines);
                        }
                        Err(error) => {
                            assert!(bad, "{error}: {lines:?}");
                            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                        }
                    }
                }
                Step::Foreign(bytes) => {
                    if let Ok(file) = fs.open(path, Access::Append) {
                        file.append(&bytes).expect("a foreign append");
                    }
                }
            }
            let entries = journal.read(0, None).expect("readable");
            let read: Vec<Vec<u8>> = entries.map(|entry| entry.expect("an entry").line).collect();
            let mut found = read.iter();
            let in_order = kept.iter().all(|line| found.any(|read| read == line));
            assert!(in_order, "{kept:?} are not in order in {read:?}");
            assert!(journal.verify().expect("a report").is_sound());
        }
    });
}

#[test]
fn keys_versions_and_pointers_are_refused_or_safe() {
    let text = prop_oneof![
        any::<String>(),
        "[a-zA-Z0-9._%/~\\\\ :-]{0,20}",
        "(\\.\\.|con|nul|com1|a|/|%2[eEfF]|~){1,5}",
        "[\u{0}-\u{2f}\u{7f}]{1,3}",
        "[aA\u{e9}]{50,190}",
    ];
    let test = "keys_versions_and_pointers_are_refused_or_safe";
    try_all(test, 1000, text, |text| {
        let _ = inputs::names(text.as_bytes());
    });
}

/// Two keys never share a file, even where the file system ignores case.
#[test]
fn two_keys_never_share_a_file() {
    let key = || "[aA.%b0-]{1,4}";
    try_all("two_keys_never_share_a_file", 2000, (key(), key()), |(one, other)| {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        let fs: Arc<dyn Fs> = sim.shared();
        let keys = Collection::open_on(&fs, Path::new("/d"), CollectionKind::Documents);
        let keys = keys.expect("a directory");
        let name =
            |key: &str| keys.path_of(key).expect("a key").to_string_lossy().to_ascii_lowercase();
        assert_eq!(name(&one) == name(&other), one == other, "{one:?}, {other:?}");
    });
}
