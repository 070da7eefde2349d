//! What the log holds after each call, to the entry and the byte: of our batches, of lines of others
//! before, between and behind them, and of what makes it empty again (J3, J7, J9; docs/FORMAT.md).

use std::fs::OpenOptions;
use std::io::Write;

use tenure::{AppendOptions, ErrorKind, WriteOptions};

use crate::faulty_fs::Verdict;
use crate::journal::{all, durable, foreign, no_sync, numbered};
use crate::watched_log::{
    LOG_SYNCED, LOGGED, LOOKED, SYNC_BEGINS, SYNCED, Step, WRITTEN, Watched, full,
};

/// Where the entries begin, and how long an entry is without its payload.
const ENTRIES_AT: u64 = 12288;
const ENTRY: u64 = 64;
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
    disk.take(&[]);
    disk
}

fn payload(lines: &[&str]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

#[test]
fn a_batch_without_a_sync_is_logged_written_and_counted_and_looked_at_twice() {
    let disk = with_a_line(&no_sync());
    disk.journal.append(&["second", "third"], &no_sync()).unwrap();
    assert_eq!(disk.take(&STEPS), [LOGGED, LOOKED, WRITTEN, LOOKED, LOGGED]);
    let head = disk.head();
    assert_eq!((head.entries, head.applied, head.flags & 0b111_0001), (2, 2, 0), "{head:?}");
    let spans = payload(&["first", "second", "third"]);
    assert_eq!((head.end, head.journal_end), (ENTRIES_AT + 2 * ENTRY + spans, spans));
    assert_eq!((head.next_seq, head.partial), (4, 0));
}

#[test]
fn only_what_must_survive_a_power_loss_is_promised() {
    for (options, promised) in both().iter().zip([64, 0]) {
        let disk = with_a_line(options);
        assert_eq!(disk.head().flags & 64, promised);
        disk.journal.append(&["second"], &no_sync()).unwrap();
        assert_eq!(disk.head().flags & 64, promised, "it stays so");
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
            foreign(&disk.log(), &text);
            let done = disk.journal.append(&["ours"], &no_sync()).unwrap();
            assert_eq!((done.adopted, done.first, done.closed_tail), (theirs, theirs + 2, open));
            let closing = if open { "\n" } else { "" };
            assert_eq!(disk.text(), format!("first\n{text}{closing}ours\n"));
            assert_eq!(disk.sidecar("index").exists(), !logged);
            let head = disk.head();
            let ours = ENTRY + payload(&["ours"]) + u64::from(open);
            if logged {
                let entries = 2 * ENTRY + payload(&["first"]) + 8;
                assert_eq!((head.entries, head.end), (3, ENTRIES_AT + entries + ours));
            } else {
                assert_eq!((head.entries, head.end), (1, ENTRIES_AT + ours));
            }
            assert_eq!(head.flags & 0b1_0001, 0, "nothing is open or begun");
            assert_eq!(disk.journal.append(&["more"], &no_sync()).unwrap().first, theirs + 3);
            let report = disk.journal.verify().unwrap();
            let found = (report.entries, report.foreign_entries, report.bytes);
            assert!(report.is_sound(), "{report:?}");
            assert_eq!(found, (theirs + 3, theirs, disk.text().len() as u64));
        }
    }
}

#[test]
fn an_open_line_is_closed_once() {
    for options in both() {
        let disk = with_a_line(&options);
        foreign(&disk.log(), "open");
        assert!(disk.journal.append(&["one"], &options).unwrap().closed_tail);
        assert!(!disk.journal.append(&["two"], &options).unwrap().closed_tail);
        assert_eq!(disk.text(), "first\nopen\none\ntwo\n");
        assert_eq!(disk.head().entries, 4);
    }
}

/// Readers look at the file first and at the log second, so they have numbered the line before.
#[test]
fn j9_a_line_that_comes_while_a_batch_is_logged_is_numbered_before_it() {
    for options in both() {
        for text in ["theirs\n", "theirs"] {
            let disk = with_a_line(&options);
            disk.foreign_at_next(LOGGED, text);
            let done = disk.journal.append(&["ours"], &options).unwrap();
            assert_eq!((done.first, done.adopted), (3, 1));
            assert_eq!(done.closed_tail, text == "theirs");
            assert_eq!(disk.text(), "first\ntheirs\nours\n");
            assert_eq!(all(&disk.journal), numbered(&["first", "theirs", "ours"]));
            assert_eq!(disk.head().entries, 3, "ours was withdrawn, and logged once more");
            assert!(disk.journal.verify().unwrap().is_sound());
        }
    }
}

/// A batch that somebody logged before is not yet in the file: it keeps its number.
#[test]
fn j9_a_line_that_comes_before_a_batch_on_its_way_is_numbered_behind_it() {
    for options in both() {
        let disk = with_a_line(&durable());
        disk.refuse_nth(1, SYNC_BEGINS);
        disk.journal.append(&["second"], &durable()).unwrap_err();
        disk.foreign_at_next(LOGGED, "theirs\n");
        let done = disk.journal.append(&["ours"], &options).unwrap();
        assert_eq!((done.first, done.adopted), (4, 1), "{options:?}");
        assert_eq!(disk.text(), "first\ntheirs\nsecond\nours\n");
        assert_eq!(all(&disk.journal), numbered(&["first", "second", "theirs", "ours"]));
        assert!(disk.events().contains("foreign_lines_adopted"), "{}", disk.events());
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

#[test]
fn an_append_that_others_overtake_all_the_time_gives_up() {
    for options in both() {
        let disk = with_a_line(&options);
        let path = disk.log();
        // Each attempt logs its entry, withdraws it, settles, and notes the line in between with a hint.
        for attempt in 0..70 {
            let path = path.clone();
            disk.at_nth(attempt * 5 + 1, LOGGED, move || {
                foreign(&path, "theirs\n");
                Verdict::Go
            });
        }
        let error = disk.journal.append(&["ours"], &options).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Busy, Some(false)), "{error}");
        let text = disk.text();
        assert!(!text.contains("ours"), "{text}");
        assert_eq!(text.matches("theirs\n").count(), 64, "that often it tried");
    }
}

#[test]
fn g10_an_entry_that_cannot_be_withdrawn_is_an_error() {
    for options in both() {
        let disk = with_a_line(&options);
        disk.foreign_at_next(LOGGED, "theirs\n");
        disk.refuse_nth(2, LOGGED);
        let error = disk.journal.append(&["ours"], &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let repeated = error.is_committed() == Some(false);
        if repeated {
            disk.journal.append(&["ours"], &options).unwrap();
        }
        disk.journal.append(&["last"], &options).unwrap();
        let times = disk.text().matches("ours").count();
        assert!(times == 1 || !repeated && times == 0, "{}", disk.text());
    }
}

/// Right before and right after the write, without a sync.
#[test]
fn j7_a_line_that_comes_with_the_write_is_numbered_behind_the_batch() {
    for (step, nth, text) in [
        (WRITTEN, 1, "first\ntheirs\nours\nmore\nlast\n"),
        (LOOKED, 2, "first\nours\nmore\ntheirs\nlast\n"),
    ] {
        let disk = with_a_line(&no_sync());
        let path = disk.log();
        disk.at_nth(nth, step, move || {
            foreign(&path, "theirs\n");
            Verdict::Go
        });
        assert_eq!(disk.journal.append(&["ours", "more"], &no_sync()).unwrap().first, 2);
        assert_eq!(disk.journal.append(&["last"], &no_sync()).unwrap().first, 5);
        assert_eq!(disk.text(), text);
        let mut found = all(&disk.journal);
        found.sort();
        assert_eq!(found, numbered(&["first", "ours", "more", "theirs", "last"]));
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

/// Between the halves of a batch: the batch is written again behind the line, whole.
#[test]
fn j7_a_line_that_comes_inside_a_batch_is_told_and_the_batch_completed() {
    let disk = with_a_line(&no_sync());
    let path = disk.log();
    disk.at_nth(1, WRITTEN, || Verdict::Short);
    disk.at_nth(2, WRITTEN, move || {
        foreign(&path, "\ntheirs\n");
        Verdict::Go
    });
    let done = disk.journal.append(&["12345678"], &no_sync()).unwrap();
    assert_eq!(done.first, 2);
    let found = all(&disk.journal);
    assert!(found.contains(&(2, "12345678".to_owned())), "{found:?}");
    assert!(disk.text().contains("\ntheirs\n"));
    assert!(disk.journal.verify().unwrap().is_sound());
}

#[test]
fn g10_an_append_that_fails_behind_its_write_says_that_it_counts() {
    // The look that finds somebody else's line, and the hint.
    let look_again: fn(&Watched) = |disk| {
        disk.foreign_at_next(WRITTEN, "theirs\n");
        disk.refuse_nth(3, LOOKED);
    };
    let hint: fn(&Watched) = |disk| disk.refuse_nth(2, LOGGED);
    for prepare in [look_again, hint] {
        let disk = with_a_line(&no_sync());
        prepare(&disk);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(true)), "{error}");
        disk.journal.append(&["last"], &no_sync()).unwrap();
        assert_eq!(disk.text().matches("ours\n").count(), 1, "{}", disk.text());
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
        disk.at_next(step, full);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{error}");
        assert_eq!(disk.text(), "first\n");
        foreign(&disk.log(), meanwhile);
        disk.journal.append(&["ours"], &no_sync()).unwrap();
        assert_eq!(disk.text(), format!("first\n{meanwhile}ours\n"), "{step:?}");
    }
}

#[test]
fn g10_a_batch_that_was_cut_short_behind_a_line_of_others_is_told_to_count_and_completed() {
    let disk = with_a_line(&no_sync());
    let path = disk.log();
    disk.at_nth(1, WRITTEN, || Verdict::Short);
    disk.at_nth(2, WRITTEN, move || {
        foreign(&path, "\ntheirs\n");
        full()
    });
    let error = disk.journal.append(&["12345678"], &no_sync()).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "{error}");
    disk.journal.append(&["last"], &no_sync()).unwrap();
    assert_eq!(all(&disk.journal).iter().filter(|(_, line)| line == "12345678").count(), 1);
    assert!(disk.text().ends_with("\n12345678\nlast\n"), "{}", disk.text());
}

/// Neither that it counts nor that it does not is known.
#[test]
fn g10_a_batch_that_was_neither_written_nor_withdrawn_is_not_claimed_to_be_anything() {
    let refuse_withdrawal: fn(&Watched) = |disk| disk.refuse_nth(3, LOGGED);
    let refuse_look: fn(&Watched) = |disk| {
        disk.refuse_nth(2, LOOKED);
        disk.refuse_nth(3, LOOKED);
    };
    for prepare in [refuse_withdrawal, refuse_look] {
        let disk = with_a_line(&no_sync());
        disk.at_next(WRITTEN, full);
        prepare(&disk);
        let error = disk.journal.append(&["ours"], &no_sync()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, None), "{error}");
        disk.journal.append(&["last"], &no_sync()).unwrap();
        assert!(disk.text().ends_with("last\n") && disk.text().matches("ours").count() < 2);
    }
}

/// A log of exactly a mebibyte is long enough; a byte more is emptied by the next batch.
#[test]
fn a_log_is_emptied_when_it_is_longer_than_a_mebibyte() {
    for (more, options) in [(0, durable()), (1, durable()), (0, no_sync()), (1, no_sync())] {
        let disk = Watched::new();
        let long = "x".repeat(usize::try_from(LOG_BYTES - ENTRY - 1 + more).unwrap());
        disk.journal.append(&[&long], &options).unwrap();
        let before = disk.head();
        assert_eq!(before.end - ENTRIES_AT, LOG_BYTES + more);
        disk.take(&[]);
        disk.journal.append(&["ours"], &options).unwrap();
        let after = disk.head();
        assert_eq!((after.epoch - before.epoch, after.entries), (more, 2 - more));
        assert_eq!(disk.take(&[SYNCED]).len() as u64, more, "there is no index yet");
        assert_eq!(all(&disk.journal).len(), 2);
    }
}

#[test]
fn j7_a_full_log_is_emptied_with_what_was_still_on_its_way() {
    for options in both() {
        let disk = with_a_line(&durable());
        disk.refuse_nth(1, SYNC_BEGINS);
        let long = "x".repeat(usize::try_from(LOG_BYTES).unwrap());
        disk.journal.append(&[&long], &durable()).unwrap_err();
        assert_eq!(disk.text(), "first\n");
        assert_eq!(disk.journal.append(&["ours"], &options).unwrap().first, 3);
        assert_eq!(disk.text(), format!("first\n{long}\nours\n"));
        assert_eq!((disk.head().epoch, disk.head().entries), (2, 1));
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

#[test]
fn race_40_a_full_log_is_emptied_with_late_lines_of_the_file_before() {
    let disk = with_a_line(&durable());
    let mut late = OpenOptions::new().append(true).open(disk.log()).unwrap();
    disk.journal.rotate(&WriteOptions::default()).unwrap();
    let long = "x".repeat(usize::try_from(LOG_BYTES).unwrap());
    disk.journal.append(&[&long], &no_sync()).unwrap();
    late.write_all(b"late\n").unwrap();
    let done = disk.journal.append(&["ours"], &no_sync()).unwrap();
    assert_eq!((done.first, done.adopted), (4, 1));
    assert_eq!(disk.text(), format!("{long}\nlate\nours\n"));
}
