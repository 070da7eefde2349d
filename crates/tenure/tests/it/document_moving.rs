//! A read of a file that changes under it: it grows, shrinks or is replaced, once or all the time.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tenure::{Document, ErrorKind, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_write, increment,
};
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};

/// Reads the document while `act` runs before each read of the file, with the number of the read.
fn read_while(
    scratch: &Scratch,
    act: impl Fn(u64, &Path) -> Verdict + Send + Sync + 'static,
) -> Vec<u8> {
    let path = scratch.path("state.json");
    let (watched, reads) = (path.clone(), AtomicU64::new(0));
    let fs = FaultyFs::new(move |op, touched| match op {
        Op::Read if touched == watched => act(reads.fetch_add(1, Ordering::Relaxed), touched),
        _ => Verdict::Go,
    });
    Document::open_on(&fs.shared(), &path).unwrap().read().unwrap().unwrap().bytes
}

fn grow(path: &Path, by: usize) {
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(&vec![b' '; by]).unwrap();
}

#[test]
fn g5_a_document_that_grows_while_it_is_read_is_followed_to_its_end() {
    // Once by this much, and then a byte before each of the next reads.
    for (first, then) in [(0, 0), (1, 0), (1, 3), (4095, 1), (4096, 0), (4097, 2), (20_000, 3)] {
        let scratch = Scratch::in_memory();
        let path = scratch.path("state.json");
        foreign_write(&path, "{\"n\":1}");
        let bytes = read_while(&scratch, move |nth, path| {
            grow(path, if nth == 0 { first } else { usize::from(nth <= then) });
            Verdict::Go
        });
        assert_eq!(bytes, bytes_of(&path), "{first}, then {then} times 1");
        let bytes = read_while(&scratch, move |nth, path| {
            grow(path, if nth == 0 { first } else { 0 });
            Verdict::Short // Down to a single byte, in the middle of the file.
        });
        assert_eq!(bytes, bytes_of(&path), "{first}, and given by halves");
    }
}

#[test]
fn g5_a_document_that_shrinks_while_it_is_read_ends_where_it_ends() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("state.json");
    foreign_write(&path, format!("{{\"n\":1}}{}", " ".repeat(9000)));
    let bytes = read_while(&scratch, |_, path| {
        std::fs::File::options().write(true).open(path).unwrap().set_len(7).unwrap();
        Verdict::Go
    });
    assert_eq!(bytes, b"{\"n\":1}");
}

#[test]
fn g5_reads_that_give_less_than_asked_for_are_continued() {
    for length in [7, 8, 4095, 4096, 4097, 20_000] {
        let scratch = Scratch::in_memory();
        let text = format!("{{\"n\":1}}{}", " ".repeat(length - 7));
        foreign_write(scratch.path("state.json"), &text);
        assert_eq!(read_while(&scratch, |_, _| Verdict::Short), text.as_bytes(), "{length}");
    }
}

#[test]
fn race_27_a_damaged_document_is_looked_at_for_30_ms_before_it_is_called_that() {
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    foreign_write(document.path(), "{\"n\":");
    let looks: [fn(&Document) -> ErrorKind; 2] = [
        |document| document.read().unwrap_err().kind(),
        |document| document.update(&durably(), increment).unwrap_err().kind(),
    ];
    for look in looks {
        let begun = Instant::now();
        assert_eq!(look(&document), ErrorKind::Damaged);
        assert!(begun.elapsed() >= Duration::from_millis(30));
    }
}

#[test]
fn a_reader_that_cannot_open_the_record_says_so() {
    // The version is unknown, and a wrong one would be worse.
    let scratch = Scratch::in_memory();
    scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
    for errno in [Errno::IO, Errno::MFILE] {
        let fs = FaultyFs::new(move |op, path| match op {
            Op::Open(_) if path.to_string_lossy().ends_with(".commit") => {
                Verdict::Fail(errno.into())
            }
            _ => Verdict::Go,
        });
        let reader = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        assert_eq!(reader.read().unwrap_err().kind(), ErrorKind::Io, "{errno:?}");
    }
}

/// Reads while `publications` happen before each look at the document, and as many between that and
/// the look at the record, until none are left. Returns how often it looked, and whether it found a
/// version with its own content.
fn read_overtaken(publications: Vec<(u64, u64)>) -> (usize, bool) {
    let scratch = Scratch::in_memory();
    let writer = scratch.document("state.json");
    let write = move || {
        let written = writer.update(&at_once(), increment).unwrap().version;
        (count_in(&writer), written)
    };
    let versions = Arc::new(Mutex::new(vec![write()]));
    let looks = Arc::new(AtomicUsize::new(0));
    let (published, looked) = (versions.clone(), looks.clone());
    let fs = FaultyFs::new(move |op, path| {
        let name = path.to_string_lossy();
        let (content, record) = (name.ends_with("state.json"), name.ends_with(".commit"));
        if op != Op::Open(Change::Never) || !(content || record) {
            return Verdict::Go;
        }
        let look = looked.fetch_add(usize::from(content), Ordering::Relaxed) - usize::from(record);
        let (before, between) = publications.get(look).copied().unwrap_or_default();
        for _ in 0..if content { before } else { between } {
            published.lock().unwrap().push(write());
        }
        Verdict::Go
    });
    let reader = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    let found = reader.read().unwrap().unwrap();
    let pair = (found.value["n"].as_u64().unwrap(), found.version);
    let is_true = versions.lock().unwrap().contains(&pair);
    (looks.load(Ordering::Relaxed), is_true)
}

#[test]
fn race_32_g5_a_reader_that_is_overtaken_again_and_again_never_mixes_two_versions() {
    for script in 0..81 {
        let turn = |nth: u32| script / 3_u64.pow(nth) % 3;
        let (_, is_true) = read_overtaken(vec![(turn(0), turn(1)), (turn(2), turn(3))]);
        assert!(is_true, "script {script}");
    }
}

#[test]
fn g5_a_reader_that_is_always_overtaken_knows_the_version_from_its_look_before() {
    assert_eq!(read_overtaken(vec![]), (1, true), "alone it looks once");
    for before in 0..2 {
        // Whichever slot of the record is the older one.
        assert_eq!(read_overtaken(vec![(before, 1)]), (2, true), "overtaken once, it looks again");
    }
    assert_eq!(read_overtaken(vec![(0, 2); 40]), (2, true));
}

#[test]
fn g9_a_reader_that_is_overtaken_without_end_starts_over_16_times() {
    let (looks, _) = read_overtaken(vec![(1, 2); 40]);
    assert_eq!(looks, 17);
}

#[test]
fn g9_a_foreign_edit_is_looked_at_twice_and_a_document_without_a_record_once() {
    for (has_record, expected) in [(true, 2), (false, 1)] {
        let scratch = Scratch::in_memory();
        let path = scratch.path("state.json");
        if has_record {
            scratch.document("state.json").update(&at_once(), increment).unwrap();
        }
        foreign_write(&path, "{\"n\":7}");
        let looks = Arc::new(AtomicU64::new(0));
        let (looked, own) = (looks.clone(), path.clone());
        let fs = FaultyFs::new(move |op, touched| {
            let looks = op == Op::Open(Change::Never) && touched == own;
            looked.fetch_add(u64::from(looks), Ordering::Relaxed);
            Verdict::Go
        });
        assert_eq!(count_in(&Document::open_on(&fs.shared(), &path).unwrap()), 7);
        assert_eq!(looks.load(Ordering::Relaxed), expected);
    }
}
