//! Readers: they never block, never see half a document, and leave nothing behind (G5).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tenure::disk;
use tenure::options::Durability;
use tenure::{Document, ErrorKind, Value, WriteOptions, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_write, increment,
};
use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::roles::{may_mount, play};

/// A version whose every byte depends on its number, and of very different lengths.
fn checked(number: u64) -> Value {
    let length = usize::try_from(number * 7919 % 20_000).unwrap();
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap());
    json!({ "n": number, "pad": letter.to_string().repeat(length), "end": number })
}

fn number_of(value: &Value) -> u64 {
    let number = value["n"].as_u64().expect("a number");
    assert_eq!(*value, checked(number), "half of one version and half of another");
    number
}

#[test]
fn race_26_27_32_g5_readers_see_whole_versions_in_order_while_writers_write() {
    // The seed's plain readers found 23 527 of 23 615 reads invalid.
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    document.set(&checked(0), &at_once()).unwrap();
    let done = AtomicBool::new(false);
    let generation = |text: &str| u64::from_str_radix(text.split('-').next().unwrap(), 16).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (document, done, path) = (scratch.document("state.json"), &done, document.path());
            scope.spawn(move || {
                let (mut last, mut last_generation, mut reads) = (0, 0, 0_u64);
                while !done.load(Ordering::Relaxed) || reads == 0 {
                    let number = if reader == 0 {
                        // A plain reader that knows nothing of tenure.
                        let text = std::fs::read(path).expect("the file is always there");
                        number_of(&serde_json::from_slice(&text).expect("and always whole"))
                    } else {
                        let found = document.read().unwrap().unwrap();
                        let version = generation(&found.version.to_string());
                        assert!(version >= last_generation, "versions never go back");
                        last_generation = version;
                        number_of(&found.value)
                    };
                    assert!(number >= last, "{number} came after {last}");
                    last = number;
                    reads += 1;
                }
            });
        }
        for writer in 0..2 {
            let document = scratch.document("state.json");
            let durability = [Durability::Durable, Durability::NoSync][writer];
            let options = WriteOptions { durability, ..WriteOptions::default() };
            let done = &done;
            scope.spawn(move || {
                for _ in 0..400 {
                    let next = |old: Option<&Value>| Ok(old.map(|old| checked(number_of(old) + 1)));
                    document.update(&options, next).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(number_of(&document.read().unwrap().unwrap().value), 800);
}

#[test]
fn race_35_a_reader_never_pairs_one_version_with_the_content_of_another() {
    // A change lands between the reader's look at the content and its look at the record.
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    let mut pairs = vec![(1, document.set(&json!({ "n": 1 }), &at_once()).unwrap().version)];
    let (writer, path) = (document.clone(), document.path().to_path_buf());
    let (sender, receiver) = std::sync::mpsc::channel();
    let state = std::sync::Mutex::new((false, sender));
    let fs = FaultyFs::new(move |op, touched| {
        let mut state = state.lock().unwrap();
        let opened = matches!(op, crate::faulty_fs::Op::Open(_));
        let record = touched.file_name().is_some_and(|name| name == "state.json.commit");
        if opened && record && std::mem::take(&mut state.0) {
            state.1.send(writer.update(&at_once(), increment).unwrap().version).unwrap();
        }
        state.0 |= opened && touched == path;
        Verdict::Go
    });
    let reader = Document::open_on(&fs.shared(), document.path()).unwrap();
    let found = reader.read().unwrap().unwrap();
    pairs.extend((2..).zip(receiver.try_iter()));
    let pair = (found.value["n"].as_u64().unwrap(), found.version);
    assert!(pairs.len() > 1 && pairs.contains(&pair), "{pair:?} in {pairs:?}");
}

/// A replaced file is removed from the disk by the process that closes it last. That should be the
/// writer.
#[test]
#[cfg(target_os = "linux")]
fn a_reader_has_closed_the_document_before_it_looks_at_the_record() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let path = document.path().to_path_buf();
    let open = Arc::new(Mutex::new(Vec::new()));
    let (watched, found) = (path.clone(), open.clone());
    let fs = FaultyFs::new(move |op, touched| {
        let here = touched.parent() == watched.parent();
        if matches!(op, Op::Open(_)) && (here || touched.extension().is_some_and(|x| x == "commit"))
        {
            let fds = std::fs::read_dir("/proc/self/fd").unwrap();
            let mut names = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
            found.lock().unwrap().push(names.any(|name| name == watched));
        }
        Verdict::Go
    });
    let reader = Document::open_on(&fs.shared(), &path).unwrap();
    assert_eq!(count_in(&reader), 1);
    assert_eq!(*open.lock().unwrap(), [false, false], "at its own opening, and at the record's");
}

#[test]
fn race_32_a_document_with_the_number_of_the_one_that_was_read_is_looked_at_again() {
    // The file that was read is closed and removed, and its inode number may be reused at once: by
    // its metadata nothing has changed.
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let first = disk().stat(document.path()).unwrap().id;
    let (writer, path) = (document.clone(), document.path().to_path_buf());
    let (watched, written) = (path.clone(), Arc::new(Mutex::new(None)));
    let second = written.clone();
    let fs = FaultyFs::new(move |op, touched| {
        let record = touched.extension().is_some_and(|name| name == "commit");
        let mut second = second.lock().unwrap();
        if matches!(op, Op::Open(_)) && record && second.is_none() {
            *second = Some(writer.update(&at_once(), increment).unwrap().version);
        }
        Verdict::Go
    })
    .showing(move |touched, mut found| {
        if touched == watched {
            found.id = first;
        }
        found
    });
    let found = Document::open_on(&fs.shared(), &path).unwrap().read().unwrap().unwrap();
    assert_eq!(found.value["n"], 2, "what was read first could be a foreign edit");
    assert_eq!(Some(found.version), *written.lock().unwrap());
}

#[test]
fn race_35_old_bytes_that_somebody_put_back_have_a_version_that_can_be_set() {
    // The older slot of the record has these bytes, but does not know that they are the document
    // again.
    let scratch = Scratch::in_memory();
    let document = scratch.document("state.json");
    let path = document.path().to_path_buf();
    let put_in_place = |bytes: &[u8]| foreign_write(&path, bytes);
    let put_by_name = |bytes: &[u8]| {
        foreign_write(scratch.path("copy"), bytes);
        std::fs::rename(scratch.path("copy"), &path).unwrap();
    };
    for put_back in [&put_in_place as &dyn Fn(&[u8]), &put_by_name] {
        let old = document.set(&json!({ "n": 1 }), &at_once()).unwrap().version;
        let bytes = bytes_of(&path);
        document.set(&json!({ "n": 2 }), &at_once()).unwrap();
        put_back(&bytes);
        let found = document.read().unwrap().unwrap();
        assert_eq!(found.bytes, bytes);
        assert_ne!(found.version, old, "it was changed twice");
        document
            .set(
                &json!({ "n": 3 }),
                &WriteOptions { if_version: Some(found.version.clone()), ..at_once() },
            )
            .unwrap();
    }
}

#[test]
fn race_27_a_reader_gives_a_foreign_writer_in_place_a_moment_to_finish() {
    // It finds half a document, looks again, and the foreign writer is done: no false alarm. The
    // writer here finishes exactly after the reader's first look.
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": ");
    let looks = std::sync::atomic::AtomicU64::new(0);
    let watched = path.clone();
    let fs = FaultyFs::new(move |op, touched| {
        let opened = matches!(op, crate::faulty_fs::Op::Open(_)) && touched == watched;
        if opened && looks.fetch_add(1, Ordering::Relaxed) == 1 {
            foreign_write(&watched, "{\"n\": 5}");
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    assert_eq!(count_in(&document), 5);
}

/// Some FUSE servers answer like this. On other systems, and where the document was never
/// published, it does not exist.
#[test]
fn g5_a_document_that_is_not_found_while_it_is_replaced_is_looked_for_again() {
    for (misses, unknown, found) in
        [(1, true, true), (6, true, true), (7, true, false), (1, false, false)]
    {
        let scratch = Scratch::in_memory();
        let path = scratch.path("state.json");
        let (own, left) = (path.clone(), Arc::new(AtomicU64::new(0)));
        let counted = left.clone();
        let fs = FaultyFs::new(move |op, path: &Path| {
            let takes = |left: u64| left.checked_sub(1);
            let missed = path == own
                && op == Op::Open(Change::Never)
                && counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes).is_ok();
            if missed { Verdict::Fail(io::ErrorKind::NotFound.into()) } else { Verdict::Go }
        });
        let fs = if unknown { fs.unknown() } else { fs };
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        left.store(1, Ordering::Relaxed);
        assert!(document.read().unwrap().is_none(), "it was never published");
        document.set(&json!({ "n": 1 }), &WriteOptions::default()).unwrap();
        left.store(misses, Ordering::Relaxed);
        assert_eq!(document.read().unwrap().is_some(), found, "{misses} {unknown}");
    }
}

#[test]
fn reading_creates_nothing_and_touches_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 7}");
    let document = scratch.document("state.json");
    let before = scratch.listing();
    assert_eq!(count_in(&document), 7);
    assert!(document.read().unwrap().is_some());
    drop(document.watch().unwrap());
    assert_eq!(scratch.listing(), before);

    document.update(&durably(), increment).unwrap();
    for garbage in [vec![0xA5; 9000], vec![0; 9000], b"short".to_vec()] {
        foreign_write(scratch.path(".tenure/state.json.commit"), &garbage);
        let before = scratch.listing();
        assert_eq!(count_in(&document), 8);
        assert_eq!(scratch.listing(), before, "a damaged record is not the reader's to report");
    }
}

#[test]
fn a_reader_works_where_every_change_is_refused() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 7 }), &durably()).unwrap();
    let read_only = FaultyFs::new(|op, _| {
        if op.changes() {
            Verdict::Fail(io::ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Verdict::Go
        }
    });
    let reader = Document::open_on(&read_only.shared(), document.path()).unwrap();
    assert_eq!(count_in(&reader), 7);
    assert_eq!(
        reader.read().unwrap().map(|found| found.version),
        document.read().unwrap().map(|found| found.version)
    );
    let error = reader.update(&at_once(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    document.update(&at_once(), increment).unwrap();
}

#[test]
fn a_reader_works_on_a_read_only_mount() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 7 }), &durably()).unwrap();
    let before = scratch.listing();
    if may_mount() {
        let launcher = "exec unshare -m sh -c 'd=$(dirname \"$TENURE_TEST_PATH\") && mount --bind \
                        \"$d\" \"$d\" && mount -o remount,bind,ro \"$d\" && exec \"$@\"' sh \"$@\"";
        play("read only", document.path(), launcher);
    }
    assert_eq!(scratch.listing(), before);
}

#[test]
fn a_reader_that_may_not_see_the_sidecars_still_reads_the_document() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 7 }), &durably()).unwrap();
    let denied = FaultyFs::new(|_, path| {
        if path.components().any(|part| part.as_os_str() == ".tenure") {
            Verdict::Fail(io::ErrorKind::PermissionDenied.into())
        } else {
            Verdict::Go
        }
    });
    let reader = Document::open_on(&denied.shared(), document.path()).unwrap();
    assert_eq!(count_in(&reader), 7);
    let error = reader.update(&at_once(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(error.io_error().map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
}

#[test]
fn g5_a_reader_that_cannot_repair_returns_the_last_synced_version_from_memory() {
    // Published without a sync, then a power loss left an empty file; the mount is read-only now.
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|_, _| Verdict::Go);
    let path = scratch.path("state.json");
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    document.update(&at_once(), increment).unwrap();
    foreign_write(&path, "");
    let error = document.read().unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Damaged,
        "in the same boot it is not a power loss: {error}"
    );
    fs.reboot();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap(); // Before this boot.
    let before = scratch.listing();
    let found = document.read().unwrap().unwrap();
    assert!(found.repaired);
    assert_eq!(found.value, json!({ "n": 1 }));
    assert_eq!(scratch.listing(), before);
    assert_eq!(bytes_of(&path), b"", "the reader repairs nothing on the disk");
    document.update(&at_once(), increment).unwrap();
    assert_eq!(bytes_of(&path), b"{\n  \"n\": 2\n}\n", "the next write does");
}

/// A reader looks at the record, the document and the record again. Whatever is published in between,
/// the version that it returns is the one of the content that it returns.
#[test]
fn race_32_g5_a_version_belongs_to_the_content_it_comes_with() {
    // The steps before which something is published: the first look at the document, and the look
    // at the record after it.
    for moments in [vec!["json"], vec!["commit"], vec!["json", "commit"]] {
        let scratch = Scratch::new();
        let writer = scratch.document("state.json");
        let write = move || {
            let written = writer.update(&at_once(), increment).unwrap().version;
            (count_in(&writer), written)
        };
        let versions = Arc::new(Mutex::new(vec![write()]));
        let (published, left) = (versions.clone(), Mutex::new(moments.clone()));
        let fs = FaultyFs::new(move |op, path| {
            let kind = path.extension().map(|kind| kind.to_string_lossy().into_owned());
            let kind = kind.unwrap_or_default();
            let mut left = left.lock().unwrap();
            if op == Op::Open(Change::Never) && left.first() == Some(&kind.as_str()) {
                left.remove(0);
                published.lock().unwrap().push(write());
            }
            Verdict::Go
        });
        let reader = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
        let found = reader.read().unwrap().unwrap();
        let pair = (found.value["n"].as_u64().unwrap(), found.version);
        let versions = versions.lock().unwrap();
        assert_eq!(versions.len(), 1 + moments.len(), "{moments:?}");
        assert!(versions.contains(&pair), "{moments:?}: {pair:?} in {versions:?}");
    }
}
