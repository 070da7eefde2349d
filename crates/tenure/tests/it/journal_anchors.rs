//! Heads and records of which a kill or a power loss has left only some: a checkpoint without its anchor, an
//! anchor without its sync, hints without an anchor (J1, J5).

use std::fs;

use rustix::io::Errno;
use tenure::WriteOptions;

use crate::faulty_fs::{Op, Verdict};
use crate::journal_stage::{Death, LOG_SYNCED, LOGGED, Stage, WRITTEN, durable, no_sync, numbered};

/// A checkpoint that ended between its records and the head that counts them.
fn half_a_checkpoint() -> Stage {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.journal().repair(&WriteOptions::default()).unwrap();
    stage.append("two", &no_sync());
    stage.die_at((Op::Sync, "index"), 1, Death::After);
    assert!(stage.journal().repair(&WriteOptions::default()).is_err());
    stage.live_on();
    assert_eq!(stage.records(), [[0, 4, 1, 1, 0], [4, 8, 2, 1, 0]]);
    stage
}

#[test]
fn j5_what_a_checkpoint_has_indexed_before_it_died_is_not_indexed_again() {
    for theirs in [false, true] {
        for more in [false, true] {
            for reboots in [false, true] {
                let what = format!("theirs {theirs}, more {more}, restart {reboots}");
                let stage = half_a_checkpoint();
                let (mut expected, mut lines) =
                    (vec![[0, 4, 1, 1, 0], [4, 8, 2, 1, 0]], vec!["one", "two"]);
                if more {
                    assert_eq!(stage.append("more", &no_sync()).first, 3, "{what}");
                    lines.push("more");
                }
                if theirs {
                    stage.foreign("theirs\n");
                    lines.push("theirs");
                }
                if reboots {
                    stage.fs.reboot();
                }
                let next = stage.append("next", &no_sync());
                lines.push("next");
                assert_eq!(next.first, lines.len() as u64, "{what}");
                stage.journal().repair(&WriteOptions::default()).unwrap();
                let found = stage.records();
                assert_eq!(found[..2], expected, "{what}");
                expected.clear();
                let (mut end, mut seq) = (8, 3);
                for record in found[2..].iter().filter(|record| record[3] > 0) {
                    assert_eq!((record[0], record[2]), (end, seq), "{what}: {found:?}");
                    (end, seq) = (record[1], seq + record[3]);
                }
                assert_eq!(
                    (end, seq),
                    (stage.text().len() as u64, 1 + lines.len() as u64),
                    "{what}"
                );
                let all: Vec<_> = (1..).zip(lines).collect();
                assert_eq!(stage.entries(), numbered(&all), "{what}");
                let report = stage.journal().verify().unwrap();
                assert!(report.is_sound(), "{what} {report:?}");
                assert_eq!(report.entries, all.len() as u64, "{what}");
                assert_eq!(report.foreign_entries, u64::from(theirs), "{what}");
            }
        }
    }
}

#[test]
fn race_54_j1_an_anchor_whose_writer_died_is_written_again_and_synced_before_anything_else() {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().repair(&WriteOptions::default()).is_err());
    stage.live_on();
    stage.at(LOG_SYNCED, 1, || Verdict::Fail(Errno::IO.into()));
    assert!(stage.journal().append(&["two"], &no_sync()).is_err(), "without that sync");
    stage.live_on();
    stage.append("two", &no_sync());
    let done = stage.done(&[LOGGED, LOG_SYNCED, WRITTEN]);
    assert_eq!(done[..3], [LOGGED, LOG_SYNCED, LOGGED], "{done:?}");
    assert_eq!(stage.times(LOG_SYNCED), 1);
    stage.live_on();
    stage.append("three", &no_sync());
    assert_eq!(stage.times(LOG_SYNCED), 0, "once is enough");
}

/// A power loss may take both anchors and leave hints of the boot before. They must not count again when
/// new ones are written, which begin with smaller turns.
#[test]
fn j1_hints_without_an_anchor_do_not_come_back() {
    for text in ["", "theirs\n"] {
        let stage = Stage::new();
        for _ in 0..9 {
            stage.append("old", &durable());
        }
        let mut log = fs::read(stage.side("wal")).unwrap();
        log[..8192].fill(0);
        fs::write(stage.side("wal"), log).unwrap();
        stage.overwrite(text);
        stage.fs.reboot();
        let mut expected = text.to_owned();
        let first = stage.append("one", &durable()).first;
        for (at, options) in [(1, durable()), (2, no_sync()), (3, durable()), (4, no_sync())] {
            assert_eq!(stage.append("more", &options).first, first + at, "{text:?}");
        }
        expected.push_str("one\nmore\nmore\nmore\nmore\n");
        assert_eq!(stage.text(), expected);
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound() && report.pending == 0, "{report:?}");
        assert_eq!((report.next, report.foreign_entries), (first + 5, first - 1), "{text:?}");
    }
}
