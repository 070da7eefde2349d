//! Lines in an archive keep their numbers and can be read by them, whatever becomes of the journal or its log
//! after the rotation (J8).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::fs::Access;
use tenure::{AppendOptions, Journal};
use xxhash_rust::xxh3::xxh3_64;

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::journal_publish::{Way, three_lines};
use crate::watched_journal::{PATH, Watched, numbered, write};

const WAL: &str = "/d/.tenure/log.jsonl.wal";
const INDEX: &str = "/d/.tenure/log.jsonl.index";

/// An index title with other numbers, and a checksum that fits.
fn forge_title(bytes: &mut [u8], change: impl Fn(&mut [u8])) {
    change(&mut bytes[..120]);
    let sum = xxh3_64(&bytes[..120]);
    bytes[120..128].copy_from_slice(&sum.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn plant(disk: &Watched, path: &str, bytes: &[u8]) {
    let file = disk.sim.shared().open(Path::new(path), Access::Create(0o600)).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// Three lines in an archive, and one in the journal.
fn rotated() -> Watched {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    assert_eq!(disk.append(&["four"]), 4);
    disk
}

/// The archived lines, and behind them these.
#[track_caller]
fn expect(disk: &Watched, behind: &[(u64, &str)]) {
    let mut expected = numbered(&["one", "two", "three"]);
    expected.extend(behind.iter().map(|(seq, line)| (*seq, (*line).to_owned())));
    assert_eq!(disk.entries(), expected);
    let report = disk.journal().verify().unwrap();
    assert!(report.is_sound() && !report.unbound, "{report:?}");
}

/// Somebody removes or empties the journal, or puts another one there.
#[test]
fn j8_archived_lines_are_read_though_the_journal_begins_anew() {
    for (text, behind) in [
        (None, &[(5, "next")][..]),
        (Some(""), &[(5, "next")]),
        (Some("theirs\n"), &[(5, "theirs"), (6, "next")]),
    ] {
        let disk = rotated();
        match text {
            None => disk.outsider().remove(PATH),
            Some(text) => disk.outsider().replace(PATH, text),
        }
        disk.append(&["next"]);
        expect(&disk, behind);
        disk.journal().repair(&write()).unwrap();
        expect(&disk, behind);
    }
}

/// The index has no records right after a rotation. It still says from which number on, and where the others are.
#[test]
fn j8_no_archived_number_comes_again_if_the_log_is_gone() {
    let disk = rotated();
    disk.outsider().remove("/d/.tenure/log.jsonl.wal");
    assert_eq!(disk.entries(), [(4, "four".to_owned())], "a reader numbers as the next writer");
    assert_eq!(disk.append(&["five"]), 5);
    expect(&disk, &[(4, "four"), (5, "five")]);
    disk.journal().rotate(&write()).unwrap();
    assert_eq!(disk.text("log.jsonl.2").as_deref(), Some("four\nfive\n"));
    expect(&disk, &[(4, "four"), (5, "five")]);
}

#[test]
fn j8_no_archived_number_comes_again_if_the_log_is_gone_and_the_journal_is_empty() {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    disk.outsider().remove(WAL);
    assert_eq!(disk.append(&["four"]), 4);
    assert_eq!(disk.entries(), numbered(&["one", "two", "three", "four"]));
}

#[test]
fn j8_no_number_comes_again_if_the_journal_is_emptied_and_the_log_is_gone() {
    let disk = Watched::new();
    disk.append(&["one", "two", "three"]);
    disk.journal().repair(&write()).unwrap(); // A checkpoint: they are in the index.
    disk.outsider().remove(WAL);
    disk.outsider().truncate(PATH);
    assert_eq!(disk.append(&["four"]), 4);
}

#[test]
fn j1_nobody_counts_on_from_an_absurd_number_of_an_index() {
    for (at, number) in [(32, 1 << 56), (32, (1 << 56) - 1), (48, 1 << 56), (48, (1 << 56) - 1)] {
        let disk = three_lines();
        Way::Rotate.go(&disk.journal()).unwrap();
        assert_eq!(disk.append(&["four"]), 4);
        let mut bytes = disk.sim.peek(INDEX).unwrap();
        forge_title(&mut bytes, |title| put(title, at, number));
        plant(&disk, INDEX, &bytes);
        disk.outsider().remove(WAL);
        let mut last = 0;
        for round in 0..6 {
            let story = format!("{at} {number:x} round {round}");
            let done = disk.journal().append(&["next"], &AppendOptions::default());
            let done = done.unwrap_or_else(|error| panic!("{story}: {error}"));
            assert!(done.first > last, "{story}: {} after {last}", done.first);
            last = done.first;
            if round % 2 == 1 {
                disk.journal().rotate(&write()).unwrap();
            }
        }
    }
}

#[test]
fn archives_that_name_each_other_are_read_once() {
    let disk = three_lines();
    Way::Rotate.go(&disk.journal()).unwrap();
    disk.append(&["four"]);
    Way::Rotate.go(&disk.journal()).unwrap();
    disk.append(&["five"]);
    assert_eq!(disk.entries(), numbered(&["one", "two", "three", "four", "five"]));
    // The first archive says that the lines before it are in the second one.
    let path = "/d/.tenure/log.jsonl.index.1";
    let mut bytes = disk.sim.peek(path).unwrap();
    forge_title(&mut bytes, |title| {
        put(title, 32, 4);
        put(title, 48, 2);
    });
    plant(&disk, path, &bytes);
    let opens = Arc::new(AtomicU64::new(0));
    let count = opens.clone();
    let fs = FaultyFs::on(disk.sim.shared(), move |op, _| {
        let many = matches!(op, Op::Open(_)) && count.fetch_add(1, Ordering::SeqCst) > 2000;
        assert!(!many, "it opens files for ever");
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap();
    let _ = journal.read(0, None).map(|entries| entries.map(drop).count());
    assert!(opens.load(Ordering::SeqCst) < 100);
}

/// The same number as the last one that a note may speak of, planted.
#[test]
fn s5_a_number_that_nobody_counts_to_in_a_note_makes_nobody_wait() {
    const NOTE: &str = "/d/.tenure/log.jsonl.sync0";
    let disk = Watched::new();
    disk.append(&["one"]);
    let mut bytes = disk.sim.peek(NOTE).unwrap();
    for at in [64, 192] {
        put(&mut bytes[at..], 32, 1 << 55);
        let sum = xxh3_64(&bytes[at..at + 64]);
        put(&mut bytes[at..], 64, sum);
    }
    plant(&disk, NOTE, &bytes);
    disk.append(&["two"]);
    let before = std::time::Instant::now();
    disk.append(&["three"]);
    // Who believed the note would wait for two seconds.
    assert!(before.elapsed().as_millis() < 1900, "{:?}", before.elapsed());
    let lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
    assert_eq!(lines, ["one", "two", "three"]);
}
