//! A checkpoint of what is not as it was: a log that is damaged, a journal that somebody altered. Numbers
//! are kept where they can be told, and damage is neither widened nor hidden (J3, J4).

use tenure::Journal;
use xxhash_rust::xxh3::xxh3_64;

use crate::watched_journal::{PATH, Range, Watched, unsynced, write};

/// Where the entries of the log begin.
const ENTRIES_AT: u64 = 12288;

/// Appends without a sync.
fn quickly(journal: &Journal, lines: &[&str]) {
    journal.append(lines, &unsynced()).unwrap();
}

/// Three batches, of which the log's second entry is damaged.
fn damaged_log() -> Watched {
    let disk = Watched::new();
    let journal = disk.journal();
    for lines in [&["a"][..], &["b", "c"], &["d"]] {
        quickly(&journal, lines);
    }
    let at = ENTRIES_AT + (64 + 2) + 64;
    disk.alter("/d/.tenure/log.jsonl.wal", at, b'#');
    disk
}

#[test]
fn lines_that_a_damaged_log_does_not_tell_of_keep_their_numbers_if_they_are_as_many() {
    let disk = damaged_log();
    disk.journal().repair(&write()).unwrap();
    disk.expect(&["a", "b", "c", "d"]);
    let expected = [Range::new(0, 2, 1, 1, 0), Range::new(2, 8, 2, 3, 3)];
    assert_eq!(disk.index("index").ranges(), expected);
    assert_eq!(disk.append(&["e"]), 5);
    // If they are not, nobody can tell which is which.
    let disk = damaged_log();
    disk.alter(PATH, 3, b' '); // The newline between b and c.
    disk.journal().repair(&write()).unwrap();
    let told = [(1, "a"), (5, "b c"), (6, "d")].map(|(seq, line)| (seq, line.to_owned()));
    assert_eq!(disk.entries(), told);
    assert_eq!(disk.append(&["e"]), 7);
}

/// More than one record is about, and the log is emptied without a sync.
#[test]
fn the_same_for_many_lines_and_without_a_sync() {
    for joined in [false, true] {
        let disk = Watched::new();
        disk.append(&["one"]);
        disk.journal().repair(&write()).unwrap();
        let journal = disk.journal();
        let line = "x".repeat(999);
        quickly(&journal, &[line.as_str(); 200]);
        quickly(&journal, &[&"y".repeat(1_100_000)]);
        disk.alter("/d/.tenure/log.jsonl.wal", ENTRIES_AT + 64, b'#');
        if joined {
            disk.alter(PATH, 4 + 999, b' ');
        }
        disk.steps();
        quickly(&journal, &["last"]);
        assert!(!disk.steps().contains(&"Sync journal".to_owned()), "lightly");
        let (all, segment) = (4 + 200_000 + 1_100_001, 127_000);
        // As many as there were keep their numbers; others get new ones.
        let (seq, lines) = if joined { (203, 200) } else { (2, 201) };
        let first = if joined { 126 } else { 127 };
        let rest = lines - first;
        let expected = [
            Range::new(0, 4, 1, 1, 0),
            Range::new(4, 4 + segment, seq, first, first),
            Range::new(4 + segment, all, seq + u64::from(first), rest, rest),
        ];
        assert_eq!(disk.index("index").ranges(), expected, "joined: {joined}");
        let found = disk.journal().read(0, None).unwrap().count();
        assert_eq!(found, 2 + lines as usize, "joined: {joined}");
    }
}

#[test]
fn j4_an_altered_batch_gets_a_record_of_its_own_with_the_checksum_that_it_had() {
    let disk = Watched::new();
    let journal = disk.journal();
    quickly(&journal, &["aa"]);
    disk.outsider().append(PATH, "ff\n");
    for line in ["bb", "cc"] {
        quickly(&journal, &[line]);
    }
    for (at, line, foreign) in [(6, "bb\n", 0), (3, "ff\n", 1)] {
        let disk = disk.fork();
        disk.alter(PATH, at, b'#');
        disk.journal().compact(&write(), |_| true).unwrap_err(); // It checkpoints, and then refuses.
        let index = disk.index("index");
        let (seq, rest) = (at / 3 + 1, u32::try_from(3 - at / 3).unwrap());
        let before = Range::new(0, at, 1, u32::try_from(at / 3).unwrap(), 1 - foreign);
        let alone = Range::new(at, at + 3, seq, 1, foreign);
        let behind = Range::new(at + 3, 12, seq + 1, rest, 0);
        assert_eq!(index.ranges(), [before, alone, behind]);
        assert_eq!(index.records[1].sum, xxh3_64(line.as_bytes()));
        let damaged = disk.journal().verify().unwrap().damaged;
        assert_eq!((damaged.len(), damaged[0].start, damaged[0].end), (1, at, at + 3));
    }
}

#[test]
fn j4_nothing_joins_across_an_altered_range_without_a_line() {
    let disk = Watched::new();
    let journal = disk.journal();
    quickly(&journal, &["aa"]);
    disk.outsider().append(PATH, "\n\n");
    quickly(&journal, &["bb"]);
    disk.alter(PATH, 3, b' ');
    disk.journal().compact(&write(), |_| true).unwrap_err();
    let expected =
        [Range::new(0, 3, 1, 1, 0), Range::new(3, 5, 2, 0, 0), Range::new(5, 8, 2, 1, 0)];
    assert_eq!(disk.index("index").ranges(), expected);
}
