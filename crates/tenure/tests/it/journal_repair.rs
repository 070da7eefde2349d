//! Damaged journals: `verify` names the damage, `repair` sets it aside and keeps every line that can
//! be read, and life goes on. Cites J4, G7 and race 39.

use std::fs;
use std::path::Path;

use tenure::{ErrorKind, Journal, WriteOptions};

use crate::journal::{Dir, all, durable, foreign, no_sync, overwrite};

fn write() -> WriteOptions {
    WriteOptions::default()
}

/// Changes one byte of a file in place.
fn alter(path: &Path, at: usize, to: u8) {
    let mut bytes = fs::read(path).unwrap();
    assert_ne!(bytes[at], to);
    bytes[at] = to;
    overwrite(path, &bytes);
}

/// Six lines: two of ours, one of others, three of ours.
fn six_lines(dir: &Dir) -> Journal {
    let journal = Journal::open(dir.log()).unwrap();
    journal.append(&[r#"{"n":1}"#, r#"{"n":2}"#], &durable()).unwrap();
    foreign(&dir.log(), "{\"n\":3}\n");
    journal.append(&[r#"{"n":4}"#], &no_sync()).unwrap();
    journal.append(&[r#"{"n":5}"#, r#"{"n":6}"#], &durable()).unwrap();
    journal
}

const LINE: usize = "{\"n\":1}\n".len();

#[test]
fn g7_j4_what_the_log_still_holds_is_written_back() {
    let dir = Dir::new("written-back");
    let journal = six_lines(&dir);
    let good = fs::read(dir.log()).unwrap();
    for at in (0..good.len()).filter(|at| at / LINE != 2) {
        alter(&dir.log(), at, b'#');
        assert!(!journal.verify().unwrap().is_sound());
        let report = journal.repair(&write()).unwrap();
        assert!(report.is_sound() && report.set_aside.len() == 1, "byte {at}: {report:?}");
        let kept = fs::read(report.quarantine.unwrap()).unwrap();
        assert!(kept.contains(&b'#'), "the damaged bytes are kept");
        assert_eq!(fs::read(dir.log()).unwrap(), good);
        fs::remove_dir_all(dir.log().with_file_name(".tenure")).unwrap();
        fs::remove_file(dir.log()).unwrap();
        six_lines(&dir);
    }
}

#[test]
fn g7_j4_any_altered_byte_of_the_index_s_part_costs_the_lines_it_is_in() {
    let dir = Dir::new("salvaged");
    for at in 0..6 * LINE {
        let journal = six_lines(&dir);
        journal.repair(&write()).unwrap();
        let before = all(&journal);
        alter(&dir.log(), at, 0x01);
        let found = journal.verify().unwrap();
        let damaged = &found.damaged[0];
        assert!((damaged.start..damaged.end).contains(&(at as u64)), "{found:?}");
        let report = journal.repair(&write()).unwrap();
        assert!(report.is_sound(), "byte {at}: {report:?}");
        assert!(fs::read(report.quarantine.unwrap()).unwrap().contains(&1));
        let lost = |seq: u64| {
            let (line, newline) = (at / LINE + 1, at % LINE == LINE - 1);
            seq == line as u64 || (newline && seq == line as u64 + 1)
        };
        let kept: Vec<_> = before.into_iter().filter(|(seq, _)| !lost(*seq)).collect();
        assert_eq!(all(&journal), kept, "byte {at}");
        let next = journal.append(&["7"], &durable()).unwrap().first;
        assert_eq!(next, 7, "byte {at}: life goes on");
        assert!(journal.verify().unwrap().is_sound());
        fs::remove_dir_all(dir.log().with_file_name(".tenure")).unwrap();
        fs::remove_file(dir.log()).unwrap();
    }
}

#[test]
fn j4_a_checkpoint_neither_widens_damage_nor_hides_it() {
    for line in 0..6 {
        let dir = Dir::new("not-widened");
        let journal = six_lines(&dir);
        alter(&dir.log(), line * LINE + 2, b'#');
        let before = journal.verify().unwrap().damaged;
        assert_eq!(before.len(), 1);
        journal.rotate(&write()).unwrap();
        // The archive has it now; a checkpoint of the journal itself is made by the next rotation.
        let archive = dir.log().with_file_name("log.jsonl.1");
        assert_eq!(
            fs::read(&archive).unwrap()[line * LINE + 2],
            b'#',
            "nothing was mended unasked"
        );
        let index =
            fs::read(dir.log().with_file_name(".tenure").join("log.jsonl.index.1")).unwrap();
        let range = |record: &[u8]| {
            let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            (number(0), number(8))
        };
        let alone = index[128..]
            .chunks_exact(72)
            .any(|record| range(record) == (before[0].start, before[0].end));
        assert!(alone, "line {line}: the damaged range has a record of its own");
    }
}

#[test]
fn j4_a_damaged_log_entry_costs_no_line_and_no_number() {
    let dir = Dir::new("log-entry");
    let journal = six_lines(&dir);
    let before = all(&journal);
    let wal = dir.log().with_file_name(".tenure").join("log.jsonl.wal");
    alter(&wal, 12288 + 70, b'#');
    assert!(!journal.verify().unwrap().is_sound());
    let report = journal.repair(&write()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(all(&journal), before);
    assert_eq!(journal.append(&["7"], &durable()).unwrap().first, 7);
}

#[test]
fn j4_a_damaged_index_is_written_anew_from_the_data() {
    let dir = Dir::new("index-record");
    let journal = six_lines(&dir);
    journal.repair(&write()).unwrap();
    let index = dir.log().with_file_name(".tenure").join("log.jsonl.index");
    alter(&index, 128 + 20, b'#');
    assert!(!journal.verify().unwrap().is_sound());
    let report = journal.repair(&write()).unwrap();
    assert!(report.is_sound() && report.set_aside.len() == 1, "{report:?}");
    let lines: Vec<String> = all(&journal).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, (1..=6).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>());
    assert!(journal.append(&["7"], &durable()).unwrap().first > 6);
}

#[test]
fn j4_a_compaction_does_not_turn_damage_into_sound_lines() {
    let dir = Dir::new("compact-damage");
    let journal = six_lines(&dir);
    journal.repair(&write()).unwrap();
    alter(&dir.log(), 5, b'9');
    let refused = journal.compact(&write(), |_| true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    assert!(journal.repair(&write()).unwrap().is_sound());
    assert_eq!(journal.compact(&write(), |_| true).unwrap().kept, 6);
}
