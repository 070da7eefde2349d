//! Every batch and every line is counted once, whatever comes in between: an adoption that died, lines
//! that look like a batch, a line that goes on after it was numbered, an index that is gone.
//! Cites J7-J9 of docs/FORMAT.md and races 39, 43 and 51.

use std::fs;

use tenure::AppendOptions;

use crate::faulty_fs::Verdict;
use crate::journal_stage::{Death, LOG_SYNCED, LOGGED, Stage, WRITTEN, durable, no_sync, numbered};

/// A stage where a batch is logged for somebody, and its process is gone.
fn waiting(line: &str) -> Stage {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().append(&[line], &durable()).is_err());
    stage.live_on();
    stage
}

/// Who adopted the journal died right behind its write, and somebody else has appended since.
#[test]
fn race_43_j7_a_batch_behind_another_journal_is_found_again_behind_lines_of_others() {
    for theirs in ["", "x\n", "a line that is much longer than the batch itself\n", "open"] {
        let stage = waiting("second");
        stage.replace("older\n");
        stage.die_at(WRITTEN, 1, Death::After);
        assert!(stage.journal().append(&["third"], &no_sync()).is_err());
        assert_eq!(stage.text(), "older\nsecond\n");
        stage.live_on();
        stage.foreign(theirs);
        stage.append("third", &no_sync());
        let close = if theirs.ends_with('\n') || theirs.is_empty() { "" } else { "\n" };
        assert_eq!(stage.text(), format!("older\nsecond\n{theirs}{close}third\n"));
        assert!(stage.entries().contains(&(2, "second".to_owned())), "{theirs:?}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{theirs:?}");
    }
}

/// Lines of the other file that are the same as the batch are not the batch.
#[test]
fn race_43_j7_a_line_that_looks_like_the_batch_is_not_taken_for_it() {
    for tries in [1, 2] {
        let stage = waiting("tick");
        stage.replace("tick\n");
        for _ in 1..tries {
            stage.at(WRITTEN, 1, || Verdict::Fail(std::io::ErrorKind::StorageFull.into()));
            assert!(stage.journal().append(&["third"], &no_sync()).is_err());
            assert_eq!(stage.text(), "tick\n");
            stage.live_on();
        }
        stage.append("third", &no_sync());
        assert_eq!(stage.text(), "tick\ntick\nthird\n", "{tries}");
        let expected = numbered(&[(2, "tick"), (3, "tick"), (4, "third")]);
        assert_eq!(stage.entries(), expected, "{tries}");
    }
}

/// A batch without a sync that is in the journal, and in no head, is there when the index goes.
#[test]
fn j7_j8_a_batch_that_was_written_is_not_written_again_without_the_index() {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.journal().repair(&durable().write).unwrap(); // It makes the index.
    stage.die_at(WRITTEN, 1, Death::After);
    assert!(stage.journal().append(&["second"], &no_sync()).is_err());
    stage.live_on();
    fs::remove_file(stage.side("index")).unwrap();
    stage.append("third", &no_sync());
    assert_eq!(stage.text(), "first\nsecond\nthird\n");
}

fn header() -> AppendOptions {
    AppendOptions { header: Some(b"# header".to_vec()), ..durable() }
}

/// A line that stands open is numbered, and then goes on: its number is that of the whole line.
#[test]
fn race_39_j9_a_line_that_goes_on_after_it_was_numbered_is_one_line() {
    let rests = [" rest\n", "\n", " rest\nfour\n", " re", " rest\nfo"];
    for (rest, large) in rests.into_iter().zip([false; 5]).chain([(" rest\nfour\n", true)]) {
        let stage = Stage::new();
        stage.journal().append(&["one"], &header()).unwrap();
        stage.foreign("open");
        stage.journal().append(&[""; 0], &header()).unwrap();
        assert_eq!(stage.entries(), numbered(&[(1, "one"), (2, "open")]));
        let long = "x".repeat(2 << 20);
        let rest = if large { format!("{rest}{long}\n") } else { rest.to_owned() };
        stage.foreign(&rest);
        // Complete lines alone are told before somebody closes the last one.
        let lines: Vec<String> = format!("one\nopen{rest}").lines().map(str::to_owned).collect();
        let all: Vec<(u64, String)> = (1..).zip(lines).collect();
        let next = all.len() as u64 + 1;
        if rest.ends_with('\n') {
            assert_eq!(stage.entries(), all, "{rest:.20}");
        }
        let done = stage.append("last", &durable());
        assert_eq!((done.first, done.closed_tail), (next, !rest.ends_with('\n')), "{rest:.20}");
        let expected = [all, vec![(next, "last".to_owned())]].concat();
        assert_eq!(stage.entries(), expected, "{rest:.20}");
        for _ in 0..2 {
            let report = stage.journal().repair(&durable().write).unwrap();
            assert!(report.is_sound() && report.set_aside.is_empty(), "{report:?}");
            let told = (stage.entries(), report.next);
            assert_eq!(told, (expected.clone(), next + 1), "{rest:.20}");
        }
    }
}

/// A repair follows what the journal has, not a batch whose process died before it was there.
#[test]
fn g10_a_repair_does_not_write_over_lines_that_came_after_a_dead_process() {
    let stage = Stage::new();
    stage.append("first", &no_sync());
    stage.die_at(WRITTEN, 1, Death::Before);
    assert!(stage.journal().append(&["second"], &no_sync()).is_err());
    stage.live_on();
    let report = stage.journal().repair(&no_sync().write).unwrap();
    assert!(report.set_aside.is_empty() && report.is_sound(), "{report:?}");
    assert_eq!(stage.text(), "first\n");
    stage.append("third", &no_sync());
    assert_eq!(stage.entries(), numbered(&[(1, "first"), (2, "third")]));
}

/// Somebody removes the index while a line slips in before a batch: all lines are there, numbered anew.
#[test]
fn j8_an_index_that_goes_while_lines_are_put_in_order_does_not_hide_what_it_knew() {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.journal().repair(&durable().write).unwrap();
    let other = stage.clone();
    stage.at(LOGGED, 1, || Verdict::Go);
    stage.at(WRITTEN, 1, move || {
        fs::remove_file(other.side("index")).unwrap();
        other.foreign("theirs\n");
        Verdict::Go
    });
    let _ = stage.journal().append(&["second"], &no_sync());
    stage.live_on();
    stage.append("third", &no_sync());
    let lines: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["first", "theirs", "second", "third"]);
    assert!(stage.journal().verify().unwrap().is_sound());
}
