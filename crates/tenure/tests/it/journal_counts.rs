//! Numbers of lines, entries, epochs and archives that a log or an index says: what is at the end of all numbers was planted,
//! and what is torn is not the last that is known (J1, J8).

use std::path::Path;

use tenure::AppendOptions;
use tenure::fs::Access;
use xxhash_rust::xxh3::xxh3_64;

use crate::journal_publish::three_lines;
use crate::watched_journal::{Watched, write};

const WAL: &str = "/d/.tenure/log.jsonl.wal";
const INDEX: &str = "/d/.tenure/log.jsonl.index";

/// Turn, anchors, epoch, the first entry's number, the next line's, and the archive's.
#[test]
fn j1_a_head_that_counts_as_far_as_anybody_is_left_behind() {
    for at in [8, 16, 24, 112, 160, 200] {
        for number in [1 << 56, (1 << 56) - 1] {
            let disk = three_lines();
            disk.append(&["four"]);
            let mut log = disk.sim.peek(WAL).unwrap();
            for slot in [0, 4096, 8192, 9216] {
                if log[slot..].starts_with(b"tenwal") {
                    log[slot + at..][..8].copy_from_slice(&u64::to_le_bytes(number));
                    let sum = xxh3_64(&log[slot..slot + 1016]);
                    log[slot + 1016..][..8].copy_from_slice(&sum.to_le_bytes());
                }
            }
            let file = disk.sim.shared().open(Path::new(WAL), Access::ReadWrite).unwrap();
            file.write_all_at(&log, 0).unwrap();
            let mut last = 0;
            for round in 0..6 {
                let story = format!("{at} {number:x} round {round}");
                let done = disk.journal().append(&["next"], &AppendOptions::default());
                let done = done.unwrap_or_else(|error| panic!("{story}: {error}")).first;
                assert!(done > last, "{story}: {done} after {last}");
                last = done;
                if round == 3 {
                    disk.journal().rotate(&write()).unwrap();
                }
            }
            let lines: Vec<String> = disk.entries().into_iter().map(|entry| entry.1).collect();
            assert_eq!(lines[..4], ["one", "two", "three", "four"], "{at} {number:x}");
            assert_eq!(lines.len(), 10, "{at} {number:x}");
        }
    }
}

#[test]
fn j8_numbers_go_on_above_the_last_record_that_can_be_read_if_the_log_is_gone() {
    for torn in 1..=6 {
        let disk = Watched::new();
        for number in 0..6 {
            disk.append(&[&format!("line {number}")]);
            disk.journal().repair(&write()).unwrap();
        }
        let len = disk.sim.peek(INDEX).unwrap().len() as u64;
        for record in 1..=torn {
            disk.flip(INDEX, len - record * 72 + 70);
        }
        disk.outsider().remove(WAL);
        let next = disk.append(&["next"]);
        assert_eq!(next, 7 - torn + 6, "all lines, above the last one that is known");
    }
}
