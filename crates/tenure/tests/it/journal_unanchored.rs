//! A log that was emptied without a sync, step by step: what the next durable batch makes up for, and what
//! keeps a log from being emptied so (docs/FORMAT.md, "Light checkpoint").

use std::fs;
use std::io::Write;

use rustix::io::Errno;
use tenure::WriteOptions;

use crate::faulty_fs::{Op, Verdict};
use crate::journal_stage::{Death, LOG_SYNCED, SYNCED, Stage, WRITTEN, durable, no_sync};

const INDEX_SYNCED: (Op, &str) = (Op::Sync, "index");
const SYNCS: [(Op, &str); 3] = [SYNCED, INDEX_SYNCED, LOG_SYNCED];

/// Longer than the log may be before it is emptied.
fn long() -> String {
    "x".repeat(1_100_000)
}

/// A journal with an index, whose log has been emptied without a sync.
fn emptied() -> Stage {
    let stage = Stage::new();
    stage.append(&long(), &no_sync());
    stage.append("short", &no_sync());
    stage.append(&long(), &no_sync());
    stage.live_on();
    stage.append("short", &no_sync());
    assert!(stage.done(&SYNCS).is_empty(), "nothing was promised");
    stage.live_on();
    stage
}

#[test]
fn j7_a_durable_batch_makes_up_for_what_was_not_synced_before_it() {
    let stage = emptied();
    assert_eq!(stage.append("durable", &durable()).first, 5);
    let expected = [SYNCED, INDEX_SYNCED, LOG_SYNCED, LOG_SYNCED, WRITTEN];
    let steps = [SYNCED, INDEX_SYNCED, LOG_SYNCED, WRITTEN];
    assert_eq!(stage.done(&steps), expected, "journal, index, anchor; then the batch");
    stage.live_on();
    stage.append("next", &durable());
    assert_eq!(stage.done(&SYNCS), [LOG_SYNCED], "once");
}

#[test]
fn j7_a_durable_batch_is_refused_if_that_cannot_be_made_up_for() {
    for step in SYNCS {
        let stage = emptied();
        stage.at(step, 1, || Verdict::Fail(Errno::IO.into()));
        let refused = stage.journal().append(&["durable"], &durable());
        let refused = refused.expect_err(&format!("{step:?}"));
        assert_eq!(refused.is_committed(), Some(false), "{step:?}: {refused}");
        assert_eq!(stage.append("durable", &durable()).first, 5, "{step:?}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{step:?}");
    }
}

/// Late lines of an archive were taken over by a process that died before it counted them. The head relies
/// on them, so the log that has them is not emptied without a sync.
#[test]
fn j7_a_log_with_late_lines_is_not_emptied_without_a_sync() {
    for late in [false, true] {
        let stage = Stage::new();
        stage.append("one", &durable());
        stage.journal().rotate(&WriteOptions::default()).unwrap();
        let archive = stage.path().with_extension("jsonl.1");
        if late {
            let mut file = fs::OpenOptions::new().append(true).open(archive).unwrap();
            file.write_all(b"late\n").unwrap();
            stage.die_at(WRITTEN, 1, Death::After);
            assert!(stage.journal().repair(&WriteOptions::default()).is_err());
            stage.live_on();
        }
        stage.append(&long(), &no_sync());
        stage.live_on();
        stage.append("short", &no_sync());
        assert_eq!(stage.times(SYNCED), usize::from(late));
        let text = stage.text();
        assert_eq!(text.matches("late\n").count(), usize::from(late), "once");
        assert!(stage.journal().verify().unwrap().is_sound());
    }
}
