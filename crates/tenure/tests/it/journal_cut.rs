//! One call at a time, cut at each of its steps: what the next call finds is whole, there once, and
//! numbered as it was (J3, J5, J7).

use std::path::Path;

use tenure::fs::Access;
use tenure::{AppendOptions, Durability, Journal, Result, WriteOptions};
use tenure_testkit::{CrashKind, SimFs, Survival};

const PATH: &str = "/d/log.jsonl";
/// Longer than the log may be before it is emptied.
const LONG: usize = 1_100_000;

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn options(durability: Durability, operation: Option<&str>) -> AppendOptions {
    let operation = operation.map(str::to_owned);
    let write = WriteOptions { durability, operation, ..WriteOptions::default() };
    AppendOptions { write, ..AppendOptions::default() }
}

fn foreign(fs: &SimFs, path: &str, text: &str) {
    let file = fs.shared().open(Path::new(path), Access::Append).unwrap();
    file.append(text.as_bytes()).unwrap();
}

fn lines(fs: &SimFs) -> Vec<String> {
    let text = fs.peek(PATH).unwrap_or_default();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// Cuts `call` at every one of its steps, by the death of the process, and lets `check` see what
/// another process finds.
fn cut_everywhere(
    prepare: fn(&SimFs),
    call: fn(&Journal) -> Result<()>,
    check: impl Fn(&SimFs, u64),
) {
    for nth in 1.. {
        let fs = machine(nth);
        let _tell = fs.tell_on_panic();
        prepare(&fs);
        fs.fail_after(nth, CrashKind::Process);
        let done = call(&open(&fs));
        if !fs.is_down() {
            done.unwrap();
            assert!(nth > 4, "there were that many steps");
            fs.fail_after(u64::MAX / 2, CrashKind::Process);
            check(&fs, nth);
            return;
        }
        fs.process_crash();
        check(&fs, nth);
    }
}

/// The line of somebody else is noted in front of the batch.
#[test]
fn j7_a_batch_behind_lines_of_others_is_whole_and_done_once_wherever_it_is_cut() {
    let prepare = |fs: &SimFs| {
        open(fs).append(&["first"], &options(Durability::NoSync, None)).unwrap();
        foreign(fs, PATH, "theirs\n");
    };
    let batch = ["x".repeat(50), "y".repeat(50)];
    let call = |journal: &Journal| {
        let batch = ["x".repeat(50), "y".repeat(50)];
        journal.append(&batch, &options(Durability::NoSync, Some("once"))).map(drop)
    };
    cut_everywhere(prepare, call, |fs, nth| {
        let done = open(fs).append(&batch, &options(Durability::NoSync, Some("once"))).unwrap();
        assert_eq!((done.first, done.last), (3, 4), "at {nth}");
        let expected = ["first", "theirs", &batch[0], &batch[1]];
        assert_eq!(lines(fs), expected, "at {nth}");
        let numbers = open(fs).read(0, None).unwrap().map(|entry| entry.unwrap().seq);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 4], "at {nth}");
        let report = open(fs).verify().unwrap();
        assert!(report.is_sound() && report.foreign_entries == 1, "at {nth}: {report:?}");
    });
}

/// Late lines are taken over by a repair, and an open line is closed before them.
#[test]
fn race_40_late_lines_are_taken_over_once_wherever_that_is_cut() {
    let prepare = |fs: &SimFs| {
        open(fs).append(&["first"], &options(Durability::Durable, None)).unwrap();
        open(fs).rotate(&WriteOptions::default()).unwrap();
        foreign(fs, "/d/log.jsonl.1", "late\nlater\nnot yet");
        foreign(fs, PATH, "open");
    };
    let repair = |journal: &Journal| journal.repair(&WriteOptions::default()).map(drop);
    cut_everywhere(prepare, repair, |fs, nth| {
        repair(&open(fs)).unwrap();
        assert_eq!(lines(fs), ["open", "late", "later"], "at {nth}");
        foreign(fs, "/d/log.jsonl.1", "\n");
        repair(&open(fs)).unwrap();
        assert_eq!(lines(fs), ["open", "late", "later", "not yet"], "at {nth}");
        let report = open(fs).verify().unwrap();
        assert!(report.is_sound(), "at {nth}: {report:?}");
    });
}

/// An entry that is not durable must not count after a power loss, and one that is must.
#[test]
fn j7_a_log_with_a_promise_in_it_is_not_emptied_without_a_sync() {
    let (durable, no_sync) =
        (options(Durability::Durable, None), options(Durability::NoSync, None));
    for seed in 0..3 {
        let fs = machine(seed);
        let journal = open(&fs);
        let long = "x".repeat(LONG);
        // The index is there from the second on, so that the log could be emptied lightly.
        journal.append(&[&long], &no_sync).unwrap();
        journal.append(&["indexed"], &no_sync).unwrap();
        journal.append(&["durable"], &durable).unwrap();
        journal.append(&[&long], &no_sync).unwrap();
        journal.append(&["emptied by this"], &no_sync).unwrap();
        fs.crash_with(Survival::Nothing);
        let found = lines(&fs);
        assert!(found.iter().any(|line| line == "durable"), "seed {seed}: {} lines", found.len());
        assert!(open(&fs).verify().unwrap().is_sound());
    }
}

#[test]
fn j7_a_durable_batch_in_a_log_that_was_emptied_lightly_takes_everything_before_it_along() {
    let (durable, no_sync) =
        (options(Durability::Durable, None), options(Durability::NoSync, None));
    let fs = machine(1);
    let journal = open(&fs);
    let long = "x".repeat(LONG);
    for _ in 0..3 {
        journal.append(&[&long], &no_sync).unwrap();
    }
    journal.append(&["durable"], &durable).unwrap();
    fs.crash_with(Survival::Nothing);
    assert_eq!(open(&fs).append(&["last"], &durable).unwrap().first, 5);
    let expected = [long.as_str(), &long, &long, "durable", "last"];
    assert!(lines(&fs) == expected, "{} lines", lines(&fs).len());
}
