//! What the log holds after each call, to the entry and the byte: of our batches, of lines of others
//! before, between and behind them, and of what makes it empty again (J3, J7, J9; docs/FORMAT.md).

use std::fs::OpenOptions;
use std::io::{self, Write};

use tenure::{AppendOptions, ErrorKind, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal::{all, durable, foreign, no_sync, numbered};
use crate::journal_stage::{
    BEGUN, ENTRIES, EPOCH, FLAGS, LOG_SYNCED, LOGGED, PARTIAL, SYNCED, Step, WRITTEN,
};
use crate::watched_log::{APPLIED, END, JOURNAL_END, LOOKED, NEXT_SEQ, SYNC_BEGINS, Watched};

/// Where the entries begin, and how long an entry is without its payload.
const ENTRIES_AT: u64 = 12288;
const ENTRY: u64 = 64;
/// Flags of the head.
const OPEN_TAIL: u64 = 16;
const PROMISED: u64 = 64;
/// The log is emptied when its entries are longer than this.
const LOG_BYTES: u64 = 1 << 20;

const STEPS: [Step; 5] = [LOGGED, LOG_SYNCED, WRITTEN, LOOKED, SYNCED];

fn both() -> [AppendOptions; 2] {
    [durable(), no_sync()]
}

/// A journal with one line, which a handle knows, and how the next lines are appended.
fn with_a_line(options: &AppendOptions) -> Watched {
    let disk = Watched::new();
    disk.journal.append(&["first"], options).unwrap();
    disk.stage.take(&[]);
    disk
}

/// No space is left on the device.
fn full() -> Verdict {
    Verdict::Fail(io::ErrorKind::StorageFull.into())
}

fn payload(lines: &[&str]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

#[test]
fn a_batch_without_a_sync_is_logged_written_and_counted_and_looked_at_twice() {
    let disk = with_a_line(&no_sync());
    disk.journal.append(&["second", "third"], &no_sync()).unwrap();
    assert_eq!(disk.stage.take(&STEPS), [LOGGED, LOOKED, WRITTEN, LOOKED, LOGGED]);
    assert_eq!(disk.head([ENTRIES, APPLIED, NEXT_SEQ, PARTIAL]), [2, 2, 4, 0]);
    assert_eq!(disk.stage.in_head(FLAGS) & (BEGUN | OPEN_TAIL | PROMISED), 0);
    let spans = payload(&["first", "second", "third"]);
    assert_eq!(disk.head([END, JOURNAL_END]), [ENTRIES_AT + 2 * ENTRY + spans, spans]);
}

#[test]
fn only_what_must_survive_a_power_loss_is_promised() {
    for (options, promised) in both().iter().zip([PROMISED, 0]) {
        let disk = with_a_line(options);
        assert_eq!(disk.stage.in_head(FLAGS) & PROMISED, promised);
        disk.journal.append(&["second"], &no_sync()).unwrap();
        assert_eq!(disk.stage.in_head(FLAGS) & PROMISED, promised, "it stays so");
    }
}

#[test]
fn lines_of_others_are_noted_in_the_log_up_to_a_mebibyte_and_in_the_index_from_there_on() {
    for (bytes, logged) in [(LOG_BYTES, true), (LOG_BYTES + 1, false)] {
        for open in [false, true] {
            let disk = with_a_line(&no_sync());
            // 15 bytes each, and a last one of what is left.
            let count = bytes / 15;
            let mut text = "a line of 14 ..\n"[1..].repeat(usize::try_from(count).unwrap());
            text.push_str(&"z".repeat(usize::try_from(bytes % 15).unwrap()));
            if !open {
                text.pop();
                text.push('\n');
            }
            let theirs = count + u64::from(bytes % 15 > u64::from(!open));
            assert_eq!(text.len() as u64, bytes);
            foreign(&disk.stage.path(), &text);
            let done = disk.journal.append(&["ours"], &no_sync()).unwrap();
            assert_eq!((done.adopted, done.first, done.closed_tail), (theirs, theirs + 2, open));
            let closing = if open { "\n" } else { "" };
            assert_eq!(disk.stage.text(), format!("first\n{text}{closing}ours\n"));
            assert_eq!(disk.stage.side("index").exists(), !logged);
            let ours = ENTRY + payload(&["ours"]) + u64::from(open);
            if logged {
                let entries = 2 * ENTRY + payload(&["first"]) + 8;
                assert_eq!(disk.head([ENTRIES, END]), [3, ENTRIES_AT + entries + ours]);
            } else {
                assert_eq!(disk.head([ENTRIES, END]), [1, ENTRIES_AT + ours]);
            }
            assert_eq!(disk.stage.in_head(FLAGS) & (BEGUN | OPEN_TAIL), 0);
            assert_eq!(disk.journal.append(&["more"], &no_sync()).unwrap().first, theirs + 3);
            let report = disk.journal.verify().unwrap();
            let found = (report.entries, report.foreign_entries, report.bytes);
            assert!(report.is_sound(), "{report:?}");
            assert_eq!(found, (theirs + 3, theirs, disk.stage.text().len() as u64));
        }
    }
}

#[test]
fn an_open_line_is_closed_once() {
    for options in both() {
        let disk = with_a_line(&options);
        foreign(&disk.stage.path(), "open");
        assert!(disk.journal.append(&["one"], &options).unwrap().closed_tail);
        assert!(!disk.journal.append(&["two"], &options).unwrap().closed_tail);
        assert_eq!(disk.stage.text(), "first\nopen\none\ntwo\n");
        assert_eq!(disk.head([ENTRIES]), [4]);
    }
}

/// Readers look at the file first and at the log second, so they have numbered the line before.
#[test]
fn j9_a_line_that_comes_while_a_batch_is_logged_is_numbered_before_it() {
    for options in both() {
        for text in ["theirs\n", "theirs"] {
            let disk = with_a_line(&options);
            disk.foreign_at(LOGGED, 1, text);
            let done = disk.journal.append(&["ours"], &options).unwrap();
            assert_eq!((done.first, done.adopted), (3, 1));
            assert_eq!(done.closed_tail, text == "theirs");
            assert_eq!(disk.stage.text(), "first\ntheirs\nours\n");
            assert_eq!(all(&disk.journal), numbered(&["first", "theirs", "ours"]));
            assert_eq!(disk.head([ENTRIES]), [3], "ours was withdrawn, and logged once more");
            assert!(disk.journal.verify().unwrap().is_sound());
        }
    }
}

/// A batch that somebody logged before is not yet in the file: it keeps its number.
#[test]
fn j9_a_line_that_comes_before_a_batch_on_its_way_is_numbered_behind_it() {
    for options in both() {
        let disk = with_a_line(&durable());
        disk.refuse(SYNC_BEGINS, 1);
        disk.journal.append(&["second"], &durable()).unwrap_err();
        disk.foreign_at(LOGGED, 1, "theirs\n");
        let done = disk.journal.append(&["ours"], &options).unwrap();
        assert_eq!((done.first, done.adopted), (4, 1), "{options:?}");
        assert_eq!(disk.stage.text(), "first\ntheirs\nsecond\nours\n");
        assert_eq!(all(&disk.journal), numbered(&["first", "second", "theirs", "ours"]));
        assert!(!disk.stage.events("foreign_lines_adopted").is_empty());
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

#[test]
fn an_append_that_others_overtake_all_the_time_gives_up() {
    for options in both() {
        let disk = with_a_line(&options);
        let path = disk.stage.path();
        // Each attempt logs its entry, withdraws it, settles, and notes the line in between with a hint.
        for attempt in 0..70 {
            let path = path.clone();
            disk.stage.at(LOGGED, if attempt == 0 { 1 } else { 5 }, move || {
                foreign(&path, "theirs\n");
                Verdict::Go
            });
        }
        let error = disk.journal.append(&["ours"], &options).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Busy, Some(false)), "{error}");
        let text = disk.stage.text();
        assert!(!text.contains("ours"), "{text}");
        assert_eq!(text.matches("theirs\n").count(), 64, "that often it tried");
    }
}

#[test]
fn g10_an_entry_that_cannot_be_withdrawn_is_an_error() {
    for options in both() {
        let disk = with_a_line(&options);
        disk.foreign_at(LOGGED, 1, "theirs\n");
        disk.refuse(LOGGED, 1);
        let error = disk.journal.append(&["ours"], &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let repeated = error.is_committed() == Some(false);
        if repeated {
            disk.journal.append(&["ours"], &options).unwrap();
        }
        disk.journal.append(&["last"], &options).unwrap();
        let times = disk.stage.text().matches("ours").count();
        assert!(times == 1 || !repeated && times == 0, "{}", disk.stage.text());
    }
}

/// Right before and right after the write.
#[test]
fn j7_a_line_that_comes_with_the_write_is_numbered_behind_the_batch() {
    for (step, text) in [
        (WRITTEN, "first\nsecond\nthird\ntheirs\nours\nmore\nlast\n"),
        (LOOKED, "first\nsecond\nthird\nours\nmore\ntheirs\nlast\n"),
    ] {
        for options in both() {
            let disk = with_a_line(&options);
            disk.journal.append(&["second"], &options).unwrap(); // All its files are there now.
            disk.stage.take(&[]);
            disk.journal.append(&["third"], &options).unwrap();
            // The look at the file that follows the write.
            let looks = disk.stage.take(&[WRITTEN, LOOKED]);
            let nth = 1 + looks.iter().take_while(|step| **step == LOOKED).count();
            let path = disk.stage.path();
            disk.stage.at(step, if step == LOOKED { nth } else { 1 }, move || {
                foreign(&path, "theirs\n");
                Verdict::Go
            });
            assert_eq!(disk.journal.append(&["ours", "more"], &options).unwrap().first, 4);
            let in_order = step == LOOKED;
            let steps = disk.stage.take(&STEPS);
            assert_eq!(steps.contains(&SYNCED), !in_order, "only out of order: {steps:?}");
            assert_eq!(disk.head([EPOCH]), [if in_order { 1 } else { 2 }]);
            assert_eq!(disk.journal.append(&["last"], &options).unwrap().first, 7);
            assert_eq!(disk.stage.text(), text);
            let mut found = all(&disk.journal);
            found.sort();
            let lines = ["first", "second", "third", "ours", "more", "theirs", "last"];
            assert_eq!(found, numbered(&lines));
            assert!(disk.journal.verify().unwrap().is_sound());
        }
    }
}

/// Between the halves of a batch: the batch is written again behind the line, whole.
#[test]
fn j7_a_line_that_comes_inside_a_batch_is_told_and_the_batch_completed() {
    let disk = with_a_line(&no_sync());
    let path = disk.stage.path();
    disk.stage.at(WRITTEN, 1, || Verdict::Short);
    disk.stage.at(WRITTEN, 1, move || {
        foreign(&path, "\ntheirs\n");
        Verdict::Go
    });
    let done = disk.journal.append(&["12345678"], &no_sync()).unwrap();
    assert_eq!(done.first, 2);
    let found = all(&disk.journal);
    assert!(found.contains(&(2, "12345678".to_owned())), "{found:?}");
    assert!(disk.stage.text().contains("\ntheirs\n"));
    assert!(disk.journal.verify().unwrap().is_sound());
}

#[test]
fn g10_an_append_that_fails_behind_its_write_says_that_it_counts() {
    // Reading what somebody else has written in front of it, and the hint.
    let look_again: fn(&Watched) = |disk| {
        disk.foreign_at(WRITTEN, 1, "theirs\n");
        disk.refuse((Op::Read, "journal"), 1);
    };
    let hint: fn(&Watched) = |disk| disk.refuse(LOGGED, 2);
    for prepare in [look_again, hint] {
        let disk = with_a_line(&no_sync());
        prepare(&disk);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(true)), "{error}");
        disk.journal.append(&["last"], &no_sync()).unwrap();
        assert_eq!(disk.stage.text().matches("ours\n").count(), 1, "{}", disk.stage.text());
        assert!(all(&disk.journal).contains(&(2, "ours".to_owned())));
    }
}

/// Nothing of it was written, so it is told to have failed, and may be repeated: it must not come from
/// the log later, whatever others append meanwhile.
#[test]
fn g10_a_batch_that_was_not_written_at_all_does_not_come_back() {
    for (step, meanwhile) in
        [(WRITTEN, ""), (WRITTEN, "theirs\n"), (LOOKED, ""), (LOOKED, "theirs\n")]
    {
        let disk = with_a_line(&no_sync());
        disk.stage.at(step, 1, full);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{error}");
        assert_eq!(disk.stage.text(), "first\n");
        foreign(&disk.stage.path(), meanwhile);
        disk.journal.append(&["ours"], &no_sync()).unwrap();
        assert_eq!(disk.stage.text(), format!("first\n{meanwhile}ours\n"), "{step:?}");
    }
}

#[test]
fn g10_a_batch_that_was_cut_short_behind_a_line_of_others_is_told_to_count_and_completed() {
    let disk = with_a_line(&no_sync());
    let path = disk.stage.path();
    disk.stage.at(WRITTEN, 1, || Verdict::Short);
    disk.stage.at(WRITTEN, 1, move || {
        foreign(&path, "\ntheirs\n");
        full()
    });
    let error = disk.journal.append(&["12345678"], &no_sync()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    disk.journal.append(&["last"], &no_sync()).unwrap();
    assert_eq!(all(&disk.journal).iter().filter(|(_, line)| line == "12345678").count(), 1);
    assert!(disk.stage.text().ends_with("\n12345678\nlast\n"), "{}", disk.stage.text());
}

/// Neither that it counts nor that it does not is known.
#[test]
fn g10_a_batch_that_was_neither_written_nor_withdrawn_is_not_claimed_to_be_anything() {
    let refuse_withdrawal: fn(&Watched) = |disk| disk.refuse(LOGGED, 2);
    let refuse_look: fn(&Watched) = |disk| {
        disk.refuse(LOOKED, 1);
        disk.refuse(LOOKED, 1);
    };
    for prepare in [refuse_withdrawal, refuse_look] {
        let disk = with_a_line(&no_sync());
        disk.stage.at(WRITTEN, 1, full);
        prepare(&disk);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, None), "{error}");
        disk.journal.append(&["last"], &no_sync()).unwrap();
        assert!(
            disk.stage.text().ends_with("last\n") && disk.stage.text().matches("ours").count() < 2
        );
    }
}

/// A log of exactly a mebibyte is long enough; a byte more is emptied by the next batch. Without an
/// index that takes a sync, whatever was asked for.
#[test]
fn a_log_is_emptied_when_it_is_longer_than_a_mebibyte() {
    for (options, indexed, syncs) in
        [(durable(), false, 1), (durable(), true, 1), (no_sync(), false, 1), (no_sync(), true, 0)]
    {
        for more in [0, 1] {
            let disk = with_a_line(&no_sync());
            if indexed {
                disk.journal.repair(&WriteOptions::default()).unwrap();
            }
            let left = LOG_BYTES - (disk.stage.in_head(END) - ENTRIES_AT) - ENTRY - 1 + more;
            let long = "x".repeat(usize::try_from(left).unwrap());
            disk.journal.append(&[&long], &options).unwrap();
            let [end, epoch, entries] = disk.head([END, EPOCH, ENTRIES]);
            assert_eq!(end - ENTRIES_AT, LOG_BYTES + more);
            disk.stage.take(&[]);
            disk.journal.append(&["ours"], &options).unwrap();
            let entries = if more == 1 { 1 } else { entries + 1 };
            assert_eq!(disk.head([EPOCH, ENTRIES]), [epoch + more, entries], "{options:?}");
            assert_eq!(
                disk.stage.take(&[SYNCED]).len() as u64,
                more * syncs,
                "{indexed} {options:?}"
            );
            assert_eq!(disk.stage.text(), format!("first\n{long}\nours\n"));
        }
    }
}

#[test]
fn j7_a_full_log_is_emptied_with_what_was_still_on_its_way() {
    for options in both() {
        let disk = with_a_line(&durable());
        disk.refuse(SYNC_BEGINS, 1);
        let long = "x".repeat(usize::try_from(LOG_BYTES).unwrap());
        disk.journal.append(&[&long], &durable()).unwrap_err();
        assert_eq!(disk.stage.text(), "first\n");
        assert_eq!(disk.journal.append(&["ours"], &options).unwrap().first, 3);
        assert_eq!(disk.stage.text(), format!("first\n{long}\nours\n"));
        assert_eq!(disk.head([EPOCH, ENTRIES]), [2, 1]);
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

#[test]
fn race_40_a_full_log_is_emptied_with_late_lines_of_the_file_before() {
    let disk = with_a_line(&durable());
    let mut late = OpenOptions::new().append(true).open(disk.stage.path()).unwrap();
    disk.journal.rotate(&WriteOptions::default()).unwrap();
    let long = "x".repeat(usize::try_from(LOG_BYTES).unwrap());
    disk.journal.append(&[&long], &no_sync()).unwrap();
    late.write_all(b"late\n").unwrap();
    let done = disk.journal.append(&["ours"], &no_sync()).unwrap();
    assert_eq!((done.first, done.adopted), (4, 1));
    assert_eq!(disk.stage.text(), format!("{long}\nlate\nours\n"));
}
