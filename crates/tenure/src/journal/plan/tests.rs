//! The plan by itself: a log, a journal with something in it, and what is made of them.
//!
//! Every journal here begins with `x` and a newline, which is settled. Steps are written as text:
//! `kept 0 at 2` is entry 0 at offset 2, `foreign 2..4` are bytes of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::entry::{Entry, Kind};
use super::*;
use crate::fs::{Access, disk};

/// Where the log's part of the journal begins.
const POS: u64 = 2;

fn file(bytes: &[u8]) -> Arc<dyn Handle> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("tenure-plan-{}-{number}", std::process::id()));
    let file = disk().open(&path, Access::Create(0o600)).unwrap();
    disk().remove(&path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn logged(kind: Kind, payload: &[u8]) -> Logged {
    let payload_len = u32::try_from(payload.len()).unwrap();
    let entry = Entry { kind, payload_len, lines: 1, ..Entry::default() };
    Logged { entry, payload: payload.to_vec() }
}

fn ours(text: &str) -> Logged {
    logged(Kind::Durable, text.as_bytes())
}

fn direct(text: &str) -> Logged {
    logged(Kind::Direct, text.as_bytes())
}

fn theirs(text: &str) -> Logged {
    let sum = checksum::of(text.as_bytes()).to_le_bytes();
    logged(Kind::Foreign(text.len() as u64), &sum)
}

/// A process died while it was writing the entries.
const KILLED: Circumstances =
    Circumstances { power_loss: false, begun: true, partial: 0, shift: Shift { number: 0, at: 0 } };
/// The power went.
const POWER_LOST: Circumstances = Circumstances { power_loss: true, ..KILLED };
/// Nobody has written any of them yet.
const LOGGED_ONLY: Circumstances = Circumstances { begun: false, ..KILLED };

fn tell(step: &Step) -> String {
    match *step {
        Step::Kept { index, start } => format!("kept {index} at {start}"),
        Step::Missing { index, start, done, mend: 0 } => {
            format!("missing {index} at {start} has {done}")
        }
        Step::Missing { index, start, done, mend } => {
            format!("missing {index} at {start} has {done} mends {mend}")
        }
        Step::Foreign { start, end } => format!("foreign {start}..{end}"),
        Step::Torn { start, end } => format!("torn {start}..{end}"),
    }
}

/// Entries are numbered from 10 on. `told`: the steps, whether they are in order, and the tail.
#[track_caller]
fn expect(journal: &str, pending: &[Logged], known: Circumstances, told: &[&str]) {
    let pending: Vec<Logged> = pending.to_vec();
    let numbered = pending.into_iter().zip(10..).map(|(mut logged, number)| {
        logged.entry.number = number;
        logged
    });
    let pending: Vec<Logged> = numbered.collect();
    let file = file(journal.as_bytes());
    let plan = plan(file.as_ref(), journal.len() as u64, POS, &pending, known).unwrap();
    let mut found: Vec<String> = plan.steps.iter().map(tell).collect();
    found.extend(plan.tail.map(|(start, end)| format!("tail {start}..{end}")));
    if plan.in_order {
        found.push("in order".to_owned());
    }
    assert_eq!(found, told, "{journal:?}");
    let work = found.iter().any(|step| step.starts_with("missing") || step.starts_with("torn"));
    assert_eq!(plan.needs_work(), work);
}

#[test]
fn j7_entries_that_are_there_are_kept_and_the_others_are_missing() {
    let batches = [ours("one\n"), ours("two\n")];
    for known in [KILLED, POWER_LOST] {
        let two = "missing 1 at 6 has 0";
        expect("x\n", &batches, known, &["missing 0 at 2 has 0", two, "in order"]);
        expect("x\non", &batches, known, &["missing 0 at 2 has 2", two, "in order"]);
        expect("x\none\n", &batches, known, &["kept 0 at 2", two, "in order"]);
        let torn = "missing 1 at 6 has 3";
        expect("x\none\ntwo", &batches, known, &["kept 0 at 2", torn, "in order"]);
        let both = ["kept 0 at 2", "kept 1 at 6", "in order"];
        expect("x\none\ntwo\n", &batches, known, &both);
        let tail = ["kept 0 at 2", "kept 1 at 6", "tail 10..12", "in order"];
        expect("x\none\ntwo\nf\n", &batches, known, &tail);
        expect("x\nf\n", &[], known, &["tail 2..4", "in order"]);
        expect("x\n", &[], known, &["in order"]);
    }
}

#[test]
fn j6_what_stands_there_before_anybody_began_to_write_is_of_others() {
    let batches = [ours("one\n"), ours("two\n")];
    let behind = ["foreign 2..6", "missing 0 at 6 has 0", "missing 1 at 10 has 0"];
    expect("x\none\n", &batches, LOGGED_ONLY, &behind);
    let nothing = ["missing 0 at 2 has 0", "missing 1 at 6 has 0", "in order"];
    expect("x\n", &batches, LOGGED_ONLY, &nothing);
    // A direct entry goes to the journal before it is counted.
    expect("x\none\n", &[direct("one\n")], LOGGED_ONLY, &["kept 0 at 2", "in order"]);
    expect("x\non", &[direct("one\n")], LOGGED_ONLY, &["missing 0 at 2 has 2", "in order"]);
}

#[test]
fn j7_a_batch_that_others_overtook_goes_behind_them() {
    let batches = [ours("one\n"), ours("two\n")];
    let both = ["foreign 2..4", "missing 0 at 4 has 0", "missing 1 at 8 has 0"];
    expect("x\nf\n", &batches, KILLED, &both);
    let rest = ["foreign 2..4", "missing 0 at 4 has 2", "missing 1 at 8 has 0"];
    expect("x\nf\non", &batches, KILLED, &rest);
    let second = ["foreign 2..4", "kept 0 at 4", "missing 1 at 8 has 0"];
    expect("x\nf\none\n", &batches, KILLED, &second);
    let there = ["foreign 2..4", "kept 0 at 4", "kept 1 at 8", "tail 12..14"];
    expect("x\nf\none\ntwo\ng\n", &batches, KILLED, &there);
    // Each of them, by somebody else.
    let each = ["foreign 2..4", "kept 0 at 4", "foreign 8..10", "kept 1 at 10"];
    expect("x\nf\none\ng\ntwo\n", &batches, KILLED, &each);
    let between = ["kept 0 at 2", "foreign 6..8", "missing 1 at 8 has 0"];
    expect("x\none\ng\n", &batches, KILLED, &between);
    // Glued to an unfinished line it is there all the same.
    expect("x\nopenone\n", &batches[..1], KILLED, &["foreign 2..6", "kept 0 at 6"]);
}

#[test]
fn where_a_batch_is_among_bytes_of_others() {
    for (region, payload, found) in [
        ("f\nab\n", "ab\n", Some((2, 3))),
        ("fab\n", "ab\n", Some((1, 3))),
        ("ab\ng\n", "ab\n", Some((0, 3))),
        ("f\nab", "abc\n", Some((2, 2))),
        ("ff\nff\na", "abc\n", Some((6, 1))),
        ("ff\nabc", "abc\n", Some((3, 3))),
        ("ab", "abc\n", Some((0, 2))),
        ("", "abc\n", None),
        ("fab", "abc\n", None),        // not at the beginning of a line
        ("f\nab\ng\n", "abc\n", None), // does not reach the end
        ("f\n", "abc\n", None),        // a line that has not begun is no beginning
        ("longer than\n", "abc\n", None),
        ("aab", "ab", Some((1, 2))),
        ("ab\nab", "ab\nabc\n", Some((0, 5))),
    ] {
        assert_eq!(locate(region.as_bytes(), payload.as_bytes()), found, "{region:?} {payload:?}");
    }
}

/// A batch of lines, longer than two pages.
fn long() -> String {
    let lines: Vec<String> = (0..900).map(|number| format!("line {number:04}")).collect();
    lines.join("\n") + "\n"
}

#[test]
fn j6_a_killed_write_stops_at_a_page_and_only_that_much_is_torn() {
    let long = long();
    let page = 4096;
    for (there, torn) in [(page - 2, page), (page + 10, page), (2 * page - 2, 2 * page)] {
        let journal = format!("x\n{}f\n", &long[..there]);
        let end = journal.len();
        let told = [
            format!("torn 2..{torn}"),
            format!("foreign {torn}..{end}"),
            format!("missing 0 at {end} has 0"),
        ];
        expect(&journal, &[ours(&long)], KILLED, &told.each_ref().map(String::as_str));
    }
    // A beginning shorter than that was written by whoever wrote what follows.
    let journal = format!("x\n{}f\n", &long[..page - 3]);
    let end = journal.len();
    let told = [format!("foreign 2..{end}"), format!("missing 0 at {end} has 0")];
    expect(&journal, &[ours(&long)], KILLED, &told.each_ref().map(String::as_str));
    // The second batch, which begins in the second page: there is none of its own to reach.
    let first = "y".repeat(page - 1) + "\n";
    let journal = format!("x\n{first}{}f\n", &long[..9]);
    let end = journal.len();
    let told = [
        "kept 0 at 2".to_owned(),
        format!("foreign {}..{end}", page + 2),
        format!("missing 1 at {end} has 0"),
    ];
    expect(&journal, &[ours(&first), ours(&long)], KILLED, &told.each_ref().map(String::as_str));
}

#[test]
fn j6_as_much_of_the_batches_as_is_known_to_be_there_is_torn() {
    let full = |partial| Circumstances { partial, ..KILLED };
    let batch = ours("abcdef\n");
    let pending = std::slice::from_ref(&batch);
    let told = ["torn 2..5", "foreign 5..7", "missing 0 at 7 has 0"];
    expect("x\nabcf\n", pending, full(3), &told);
    expect("x\nabcf\n", pending, full(9), &told); // no more than what is equal
    let told = ["torn 2..4", "foreign 4..7", "missing 0 at 7 has 0"];
    expect("x\nabcf\n", pending, full(2), &told);
    expect("x\nabcf\n", pending, full(0), &["foreign 2..7", "missing 0 at 7 has 0"]);
    // It is said of all of them together.
    let two = [ours("one\n"), batch];
    let told = ["kept 0 at 2", "foreign 6..11", "missing 1 at 11 has 0"];
    expect("x\none\nabcf\n", &two, full(3), &told);
    let told = ["kept 0 at 2", "torn 6..9", "foreign 9..11", "missing 1 at 11 has 0"];
    expect("x\none\nabcf\n", &two, full(7), &told);
}

#[test]
fn j6_nuls_that_a_power_loss_left_in_a_batch_are_mended() {
    let batch = [ours("abc\n"), ours("def\n")];
    let def = "kept 1 at 6";
    let mended = "missing 0 at 2 has 4 mends 4";
    expect("x\n\0\0c\ndef\n", &batch, POWER_LOST, &[mended, def]);
    expect("x\n\0\0\0\0def\n", &batch, POWER_LOST, &[mended, def]);
    let short = ["missing 0 at 2 has 2 mends 2", "missing 1 at 6 has 0"];
    expect("x\na\0", &batch, POWER_LOST, &short);
    // Nobody's NULs if the power stayed.
    expect("x\n\0\0c\n", &batch[..1], KILLED, &["foreign 2..6", "missing 0 at 6 has 0"]);
    // Other bytes are never ours.
    expect("x\n\0Xc\ndef\n", &batch[1..], POWER_LOST, &["foreign 2..6", "kept 0 at 6"]);
}

#[test]
fn j6_a_power_loss_tears_a_batch_behind_its_last_whole_line() {
    let batch = [ours("ab\ncd\nef\n")];
    let told = ["torn 2..5", "foreign 5..8", "missing 0 at 8 has 0"];
    expect("x\nab\ncf\n", &batch, POWER_LOST, &told);
    let told = ["torn 2..8", "foreign 8..11", "missing 0 at 11 has 0"];
    expect("x\nab\ncd\nzz\n", &batch, POWER_LOST, &told);
    expect("x\nab\ncf\n", &batch, KILLED, &["foreign 2..8", "missing 0 at 8 has 0"]);
    // What an earlier blanking left counts as the batch; so do NULs.
    let told = ["torn 2..5", "foreign 5..8", "missing 0 at 8 has 0"];
    expect("x\n\0b\ncf\n", &batch, POWER_LOST, &told);
    expect("x\n  \ncf\n", &batch, POWER_LOST, &told);
    expect("x\n   cf\n", &batch, POWER_LOST, &told);
    let all = ["torn 2..11", "missing 0 at 11 has 0"];
    expect("x\n         ", &batch, POWER_LOST, &all);
    expect("x\n  \nzz\n", &batch, KILLED, &["foreign 2..8", "missing 0 at 8 has 0"]);
}

#[test]
fn lines_of_others_that_were_logged_are_compared_with_their_checksum() {
    let log = [theirs("f\n"), ours("one\n")];
    for known in [KILLED, POWER_LOST] {
        let told = ["kept 0 at 2", "kept 1 at 4", "in order"];
        expect("x\nf\none\n", &log, known, &told);
        let told = ["kept 0 at 2", "missing 1 at 4 has 0", "in order"];
        expect("x\nf\n", &log, known, &told);
        expect("x\nf\n", &log[..1], known, &["kept 0 at 2", "in order"]);
    }
}

#[test]
fn what_became_of_lost_lines_of_others_is_of_others_up_to_what_follows_them() {
    let log = [theirs("f\n"), ours("one\n")];
    let found = |journal: &str, told: &[&str]| expect(journal, &log, POWER_LOST, told);
    found("x\nq\none\n", &["foreign 2..4", "kept 1 at 4"]);
    found("x\nq\non", &["foreign 2..4", "missing 1 at 4 has 2"]);
    found("x\nq\n\0ne\n", &["foreign 2..4", "missing 1 at 4 has 4 mends 4"]);
    // Nothing of them is left, and the batch is where they were, or nowhere.
    found("x\none\n", &["kept 1 at 2"]);
    found("x\non", &["missing 1 at 2 has 2"]);
    found("x\n", &["missing 1 at 2 has 0"]);
    found("x\nq", &["foreign 2..3", "missing 1 at 3 has 0"]);
    found("x\nq\n", &["foreign 2..4", "missing 1 at 4 has 0"]);
    // Something else is there instead of both.
    found("x\nq\nr\n", &["foreign 2..6", "missing 1 at 6 has 0"]);
    found("x\nq\nr\none\n", &["foreign 2..6", "kept 1 at 6"]);
    // More of them, of which the last are what they were.
    let two = [theirs("f\n"), theirs("g\n"), ours("one\n")];
    let told = ["foreign 2..4", "kept 1 at 4", "kept 2 at 6"];
    expect("x\nq\ng\none\n", &two, POWER_LOST, &told);
    expect("x\nq\nr\none\n", &two, POWER_LOST, &["foreign 2..6", "kept 2 at 6"]);
    expect("x\nq\n", &log[..1], POWER_LOST, &["tail 2..4"]);
    expect("x\n", &log[..1], POWER_LOST, &[]);
}

#[test]
fn a_torn_batch_behind_lost_lines_of_others_is_torn_where_it_was() {
    let log = [theirs("f\n"), ours("ab\ncd\n")];
    let told = ["foreign 2..4", "torn 4..7", "foreign 7..10", "missing 1 at 10 has 0"];
    expect("x\nq\nab\nXY\n", &log, POWER_LOST, &told);
    let told = ["foreign 2..10", "missing 1 at 10 has 0"];
    expect("x\nq\nab\nXY\n", &log, KILLED, &told);
    // Where the lost lines were it has never been.
    expect("x\nab\nXY\n", &log, POWER_LOST, &["foreign 2..8", "missing 1 at 8 has 0"]);
    // Even if it is only the newline that closes a line of others.
    let log = [theirs("f"), ours("\nab\n")];
    let told = ["foreign 2..3", "torn 3..4", "foreign 4..7", "missing 1 at 7 has 0"];
    expect("x\nq\nXY\n", &log, POWER_LOST, &told);
}

#[test]
fn j7_a_batch_that_was_moved_is_where_the_shift_says() {
    let moved = |at| Circumstances { shift: Shift { number: 10, at }, ..POWER_LOST };
    let batch = [ours("one\n")];
    expect("x\nf\none\n", &batch, moved(4), &["foreign 2..4", "kept 0 at 4"]);
    let told = ["foreign 2..4", "missing 0 at 4 has 4 mends 4"];
    expect("x\nf\n\0\0e\n", &batch, moved(4), &told);
    expect("x\nf\n", &batch, moved(4), &["foreign 2..4", "missing 0 at 4 has 0"]);
    expect("x\n\0ne\n", &batch, moved(2), &["missing 0 at 2 has 4 mends 4"]);
    expect("x\none\n", &batch, moved(2), &["kept 0 at 2"]);
    // What looks like it in front of the place is of others.
    expect("x\none\n", &batch, moved(6), &["foreign 2..6", "missing 0 at 6 has 0"]);
    // A place that is not there, or settled, is none.
    expect("x\none\n", &batch, moved(7), &["kept 0 at 2", "in order"]);
    expect("x\none\n", &batch, moved(1), &["kept 0 at 2", "in order"]);
    // It is said of another one.
    let other = Circumstances { shift: Shift { number: 11, at: 4 }, ..POWER_LOST };
    expect("x\none\n", &batch, other, &["kept 0 at 2", "in order"]);
}

#[test]
fn behind_a_shift_the_batches_follow_each_other() {
    let moved = |number, at| Circumstances { shift: Shift { number, at }, ..POWER_LOST };
    let log = [ours("one\n"), theirs("g\n"), ours("two\n")];
    let told = ["foreign 2..4", "kept 0 at 4", "kept 2 at 8", "tail 12..14"];
    expect("x\nf\none\ntwo\nh\n", &log, moved(10, 4), &told);
    let told = ["foreign 2..4", "kept 0 at 4", "missing 2 at 8 has 4 mends 4"];
    expect("x\nf\none\n\0\0\0\n", &log, moved(10, 4), &told);
    // Lost lines of others come before it.
    let log = [theirs("f\n"), ours("one\n")];
    expect("x\nq\nr\none\n", &log, moved(11, 6), &["foreign 2..6", "kept 1 at 6"]);
    let told = ["foreign 2..6", "missing 1 at 6 has 4 mends 4"];
    expect("x\nq\nr\n\0\0\0\n", &log, moved(11, 6), &told);
    let told = ["foreign 2..3", "missing 1 at 3 has 4 mends 4"];
    expect("x\nq\0ne\n", &log, moved(11, 3), &told);
}
