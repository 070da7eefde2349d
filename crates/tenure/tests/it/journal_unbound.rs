//! Files that their sidecars do not describe: what readers make of them before somebody adopts them, and
//! that it is the same afterwards (J8, J9).

use std::fs;
use std::path::Path;

use crate::journal::{all, peak_memory_kib};
use crate::journal_read::Log;
use crate::starting::is_by_itself;

/// What somebody does to a journal with four entries, of which three are in the index; the number that
/// its first line has then; whether a header in front of it is still known.
type Loss = (&'static str, fn(&Log), u64, bool);

fn copied(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

const LOSSES: [Loss; 8] = [
    ("no log", |log| fs::remove_file(log.sidecar("wal")).unwrap(), 4, true),
    ("no sidecar", |log| fs::remove_dir_all(log.scratch.path(".tenure")).unwrap(), 1, false),
    ("garbage", |log| fs::write(log.sidecar("wal"), [7; 20_000]).unwrap(), 4, true),
    ("another file", |log| copied(&log.path()), 5, true),
    ("another log", |log| copied(&log.sidecar("wal")), 5, true),
    (
        "cut",
        |log| fs::OpenOptions::new().write(true).open(log.path()).unwrap().set_len(10).unwrap(),
        5,
        true,
    ),
    ("no index", |log| fs::remove_file(log.sidecar("index")).unwrap(), 5, false),
    ("replaced", |log| fs::remove_file(log.path()).unwrap(), 5, false),
];

/// Sidecars that are not of this file: its lines are numbered as the next writer numbers them.
#[test]
fn j9_j8_what_is_going_to_be_adopted_has_its_numbers_already() {
    for header in [false, true] {
        for (what, deed, first, known) in LOSSES {
            let log = Log::new();
            if header {
                log.stamp("# header", &["one"]);
            } else {
                log.append(&["one"]);
            }
            log.append(&["two", "three"]);
            log.repair();
            log.append(&["four"]);
            deed(&log);
            log.foreign("five\n");
            let text = log.text();
            let entries = text.lines().skip(usize::from(header && known));
            let expected: Vec<_> =
                entries.zip(first..).map(|(line, seq)| (seq, line.to_owned())).collect();
            assert_eq!(all(&log.journal), expected, "{what}, header {header}");
            log.repair();
            assert_eq!(all(&log.journal), expected, "{what}, header {header}, adopted");
        }
    }
}

/// A header is the line that was there; another one is an entry, however long it is.
#[test]
fn j8_a_header_is_known_again_by_what_it_says() {
    for (text, entries) in [
        ("# header\n", 0),
        ("# header\none\n", 1),
        ("# HEADER\none\n\n", 2),
        ("# head\none\n", 2),
        ("# h\n# he\none\n", 3),
        ("# header and more\none\n", 2),
        ("#\n", 1),
        ("# header", 0),
        ("", 0),
    ] {
        let log = Log::new();
        log.stamp("# header", &["one"]);
        fs::remove_file(log.path()).unwrap();
        log.foreign(text);
        let before = all(&log.journal);
        assert_eq!(before.len(), entries, "{text:?}");
        log.append(&["more"]);
        assert_eq!(all(&log.journal)[..entries], before, "{text:?}");
    }
}

/// An index of an earlier version has no checksum of its header: that is known by its length.
#[test]
fn j8_a_header_without_a_checksum_is_known_by_its_length() {
    for (text, entries) in [("# HEADER\none\n", 1), ("# HEAD\none\n", 2)] {
        let log = Log::new();
        log.stamp("# header", &["one"]);
        change_index(&log, |title| title[56..64].fill(0));
        fs::remove_file(log.path()).unwrap();
        log.foreign(text);
        assert_eq!(all(&log.journal).len(), entries, "{text:?}");
    }
}

/// Writes another title, with a checksum that fits.
fn change_index(log: &Log, change: impl Fn(&mut [u8])) {
    let mut index = fs::read(log.sidecar("index")).unwrap();
    change(&mut index[..120]);
    let sum = xxhash_rust::xxh3::xxh3_64(&index[..120]);
    index[120..128].copy_from_slice(&sum.to_le_bytes());
    fs::write(log.sidecar("index"), index).unwrap();
}

/// Whoever may write beside the journal can claim any length for its header.
#[test]
fn g13_a_planted_length_of_the_header_takes_no_memory() {
    if !is_by_itself("journal_unbound::g13_a_planted_length_of_the_header_takes_no_memory") {
        return;
    }
    for len in [3_u64 << 30, u64::MAX] {
        let log = Log::new();
        log.stamp("# header", &["one"]);
        change_index(&log, |title| title[40..48].copy_from_slice(&len.to_le_bytes()));
        fs::remove_file(log.sidecar("wal")).unwrap();
        let lines: Vec<String> = all(&log.journal).into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["# header", "one"]);
        log.append(&["two"]);
        assert_eq!(log.text(), "# header\none\ntwo\n");
    }
    let peak = peak_memory_kib();
    assert!(peak < 1 << 20, "{peak} KiB of memory at the worst moment");
}
