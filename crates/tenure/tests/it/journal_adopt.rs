//! Journals that are not what their sidecars describe: replaced while a batch is on its way, restored
//! without their log, with another header. The data wins (J8), and nobody's batch is lost (J7).

use std::{fs, io};

use serde_json::json;
use tenure::{AppendOptions, ErrorKind, WriteOptions};

use crate::faulty_fs::{Change, Op, Verdict};
use crate::journal_stage::{
    Death, ENTRIES, FIRST_NUMBER, LOG_SYNCED, Stage, WRITTEN, durable, named, no_sync, numbered,
};

/// How somebody else puts another content in the journal's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Renamed,
    /// Shorter than it was.
    InPlace,
}

fn put(stage: &Stage, way: Way, text: &str) {
    match way {
        Way::Renamed => stage.replace(text),
        Way::InPlace => stage.overwrite(text),
    }
}

/// What others have in its place, their lines, and whether the last one is open.
const THEIRS: [(&str, &[&str], bool); 7] = [
    // By chance like the batch, or its beginning. Nobody had begun to write that.
    ("second\nthird\n", &["second", "third"], false),
    ("sec", &["sec"], true),
    ("a\n", &["a"], false),
    ("a\nb", &["a", "b"], true),
    ("a\n\nb\n", &["a", "b"], false),
    ("\n", &[], false),
    ("", &[], false),
];

#[test]
fn j7_j8_a_batch_on_its_way_goes_behind_the_journal_that_took_the_place_of_its_own() {
    for way in [Way::Renamed, Way::InPlace] {
        // What is written in place can only be told by its length.
        let told = |text: &str| way == Way::Renamed || text.len() < "first\n".len();
        for (text, theirs, open) in THEIRS.into_iter().filter(|(text, ..)| told(text)) {
            let what = format!("{way:?} {text:?}");
            let stage = Stage::new();
            stage.append("first", &durable());
            let other = stage.clone();
            stage.at(LOG_SYNCED, 1, move || {
                put(&other, way, text);
                Verdict::Go
            });
            let options = named("turn", &durable());
            let done = stage.journal().append(&["second", "third"], &options).unwrap();
            assert_eq!((done.first, done.last, done.adopted), (2, 3, 0), "{what}");
            let closed = if open { "\n" } else { "" };
            assert_eq!(stage.text(), format!("{text}{closed}second\nthird\n"), "{what}");
            let mut expected = numbered(&[(2, "second"), (3, "third")]);
            expected.extend((4..).zip(theirs.iter().map(|line| (*line).to_owned())));
            assert_eq!(stage.entries(), expected, "{what}");
            let detail = json!({ "lines": theirs.len(), "bytes": stage.text().len() });
            assert_eq!(stage.events("journal_adopted"), [detail], "{what}");
            let report = stage.journal().verify().unwrap();
            assert!(report.is_sound() && !report.unbound && !report.torn_tail, "{what} {report:?}");
            let (all, foreign) = (expected.len() as u64, theirs.len() as u64);
            assert_eq!((report.entries, report.foreign_entries), (all, foreign), "{what}");
            assert_eq!((report.next, report.pending), (4 + foreign, 0), "{what}");
            // The batch is done, once: for who asks again as for who comes next.
            let again = stage.journal().append(&["second", "third"], &options).unwrap();
            assert_eq!((again.first, again.last, again.replayed), (2, 3, true), "{what}");
            let next = stage.append("next", &durable());
            assert_eq!((next.first, next.adopted, next.closed_tail), (4 + foreign, 0, false));
            assert_eq!(stage.events("journal_adopted").len(), 1, "{what}");
        }
    }
}

#[test]
fn j7_j8_who_finds_the_replaced_journal_first_lets_the_batch_in_and_says_what_it_found() {
    for (text, theirs, open) in THEIRS {
        let stage = Stage::new();
        stage.append("first", &durable());
        let other = stage.clone();
        stage.at(LOG_SYNCED, 1, move || {
            other.replace(text);
            let done = other.append("other", &no_sync());
            let found = theirs.len() as u64;
            assert_eq!((done.first, done.adopted), (3 + found, found), "{text:?}");
            assert_eq!(done.closed_tail, open, "{text:?}");
            Verdict::Go
        });
        assert_eq!(stage.append("second", &durable()).first, 2);
        let closed = if open { "\n" } else { "" };
        assert_eq!(stage.text(), format!("{text}{closed}second\nother\n"));
        assert_eq!(stage.entries()[0], (2, "second".to_owned()), "{text:?}");
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound(), "{text:?} {report:?}");
        assert_eq!(report.foreign_entries, theirs.len() as u64, "{text:?}");
    }
}

#[test]
fn j7_j8_others_may_append_while_the_batch_goes_behind_their_journal() {
    let stage = Stage::new();
    stage.append("first", &durable());
    let (one, other) = (stage.clone(), stage.clone());
    stage.at(LOG_SYNCED, 1, move || {
        one.replace("older\n");
        Verdict::Go
    });
    stage.at(WRITTEN, 1, move || {
        other.foreign("between\n");
        Verdict::Go
    });
    assert_eq!(stage.append("second", &durable()).first, 2);
    assert_eq!(stage.text(), "older\nbetween\nsecond\n");
    assert_eq!(stage.entries(), numbered(&[(2, "second"), (3, "older"), (4, "between")]));
    assert_eq!(stage.records(), [[14, 21, 2, 1, 0], [0, 14, 3, 2, 2]]);
    let report = stage.journal().verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.entries, report.foreign_entries), (3, 2));
}

/// A batch without a sync is in the log before it is counted there.
#[test]
fn j7_j8_a_batch_whose_process_died_in_the_write_goes_behind_the_journal_that_came_instead() {
    for death in [Death::Before, Death::Within, Death::After] {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.die_at(WRITTEN, 1, death);
        let options = named("turn", &no_sync());
        assert!(stage.journal().append(&["second", "third"], &options).is_err());
        stage.live_on();
        stage.replace("older\n");
        let next = stage.append("next", &no_sync());
        assert_eq!((next.first, next.adopted), (5, 1), "{death:?}");
        assert_eq!(stage.text(), "older\nsecond\nthird\nnext\n", "{death:?}");
        let expected = [(2, "second"), (3, "third"), (4, "older"), (5, "next")];
        assert_eq!(stage.entries(), numbered(&expected), "{death:?}");
        let again = stage.journal().append(&["second", "third"], &options).unwrap();
        assert_eq!((again.first, again.last, again.replayed), (2, 3, true), "{death:?}");
    }
}

/// Sidecars that were copied along, or a log of the boot before: nobody waits for what is in them.
#[test]
fn j8_nothing_is_replayed_from_a_log_that_is_a_copy_or_of_another_boot() {
    for reboots in [false, true] {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.die_at(LOG_SYNCED, 1, Death::Before);
        assert!(stage.journal().append(&["second"], &durable()).is_err());
        stage.live_on();
        if reboots {
            stage.replace("first\n");
            stage.fs.reboot();
        } else {
            fs::copy(stage.side("wal"), stage.side("copy")).unwrap();
            fs::rename(stage.side("copy"), stage.side("wal")).unwrap();
        }
        let done = stage.append("next", &durable());
        assert_eq!(stage.text(), "first\nnext\n", "restart: {reboots}");
        assert_eq!((done.adopted, done.rolled_forward), (1, 0), "restart: {reboots}");
        assert!(done.first > 2, "no number comes again");
        assert_eq!(stage.events("journal_adopted").len(), 1);
    }
}

/// However often a process is killed while it puts the batches behind the other journal: they were
/// logged, so they appear whole and once.
#[test]
fn j7_batches_that_a_kill_kept_from_going_behind_the_other_journal_are_not_doubled() {
    let deaths = [Death::Before, Death::Within, Death::After];
    for (batches, death) in (1..3).flat_map(|batches| deaths.map(|death| (batches, death))) {
        let stage = Stage::new();
        stage.append("first", &durable());
        for batch in 2..2 + batches {
            stage.die_at(LOG_SYNCED, 1, Death::Before);
            assert!(stage.journal().append(&[format!("batch {batch}")], &durable()).is_err());
            stage.live_on();
        }
        assert_eq!(stage.in_head(ENTRIES), 1 + batches, "they wait for their sync");
        // Shorter than the journal was, and longer with the batches.
        stage.overwrite("old");
        for _ in 0..3 {
            stage.die_at(WRITTEN, 1, death);
            let _ = stage.journal().append(&["no"], &no_sync());
            assert!(stage.is_dead(), "{death:?}");
            stage.live_on();
        }
        stage.append("next", &no_sync());
        let logged: Vec<String> = (2..2 + batches).map(|batch| format!("batch {batch}")).collect();
        let text = stage.text();
        let begun = format!("old\n{}\n", logged.join("\n"));
        assert!(text.starts_with(&begun) && text.ends_with("next\n"), "{text:?} {death:?}");
        assert_eq!(text.matches("batch").count() as u64, batches, "{text:?} {death:?}");
        let entries = stage.entries();
        for batch in 2..2 + batches {
            assert!(entries.contains(&(batch, format!("batch {batch}"))), "{entries:?}");
        }
        assert!(stage.journal().verify().unwrap().is_sound());
    }
}

/// The disk is full for a moment while the leader puts the batch behind the other journal.
#[test]
fn race_43_j7_a_batch_that_is_acknowledged_is_there_though_adopting_failed_first() {
    for short in [false, true] {
        let stage = Stage::new();
        stage.append("first", &durable());
        let other = stage.clone();
        stage.at(LOG_SYNCED, 1, move || {
            other.replace("older\n");
            Verdict::Go
        });
        if short {
            stage.at(WRITTEN, 1, || Verdict::Short);
        }
        stage.at(WRITTEN, 1, || Verdict::Fail(io::ErrorKind::StorageFull.into()));
        assert_eq!(stage.append("second", &durable()).first, 2);
        assert_eq!(stage.text(), "older\nsecond\n", "{short}");
        assert_eq!(stage.entries(), numbered(&[(2, "second"), (3, "older")]), "{short}");
    }
}

/// A process that was paused while its lock file went is not alone any more.
#[test]
fn g1_who_lost_the_lock_puts_nothing_behind_the_other_journal() {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().append(&["second"], &durable()).is_err());
    stage.live_on();
    stage.replace("older\n");
    let other = stage.clone();
    stage.at((Op::Open(Change::Write), "index"), 1, move || {
        fs::remove_file(other.side("commit")).unwrap();
        Verdict::Go
    });
    let refused = stage.journal().append(&["third"], &no_sync()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Compromised, "{refused}");
    assert_eq!(stage.text(), "older\n");
    stage.append("third", &no_sync());
    assert_eq!(stage.text(), "older\nsecond\nthird\n");
}

/// A batch that is as long as the header is none.
#[test]
fn j8_the_batch_that_goes_first_is_not_taken_for_the_header() {
    let stage = Stage::new();
    stage.append("first", &AppendOptions { header: Some(b"# head".to_vec()), ..durable() });
    let other = stage.clone();
    stage.at(LOG_SYNCED, 1, move || {
        other.replace("");
        Verdict::Go
    });
    assert_eq!(stage.append("second", &durable()).first, 2);
    assert_eq!(stage.text(), "second\n");
    assert_eq!(stage.entries(), numbered(&[(2, "second")]));
}

#[test]
fn j8_a_header_stays_one_if_the_new_journal_begins_with_it() {
    let header = AppendOptions { header: Some(b"# header".to_vec()), ..durable() };
    for (text, lines, kept) in [
        ("# header\na\nb\n", &["a", "b"] as &[_], "# header\n"),
        ("# header\n", &[], "# header\n"),
        ("# headed\na\n", &["# headed", "a"], ""),
        ("# head\na\nb\n", &["# head", "a", "b"], ""),
        ("# header 2\na\n", &["# header 2", "a"], ""),
        ("# he\na", &["# he", "a"], ""),
        ("\n# heade\na\n", &["# heade", "a"], ""),
        ("a\n", &["a"], ""),
    ] {
        let stage = Stage::new();
        stage.append("one", &header);
        stage.replace(text);
        let done = stage.append("new", &durable());
        assert_eq!((done.first, done.adopted), (2 + lines.len() as u64, lines.len() as u64));
        let found: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
        let expected: Vec<&str> = lines.iter().copied().chain(["new"]).collect();
        assert_eq!(found, expected, "{text:?}");
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound(), "{text:?} {report:?}");
        assert_eq!(report.entries, expected.len() as u64, "{text:?}");
        stage.journal().rotate(&WriteOptions::default()).unwrap();
        assert_eq!(stage.text(), kept, "{text:?}");
    }
}

/// Journals that tenure has not met have no header.
#[test]
fn j8_the_first_line_of_a_journal_without_a_header_is_an_entry() {
    for text in ["a\nb\n", "\nb\n", "a"] {
        let stage = Stage::new();
        stage.foreign(text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let done = stage.append("new", &durable());
        assert_eq!(done.first, 1 + lines.len() as u64, "{text:?}");
        let expected: Vec<_> = (1..).zip(lines.into_iter().chain(["new"])).collect();
        assert_eq!(stage.entries(), numbered(&expected), "{text:?}");
        assert_eq!(stage.records()[0][0], 0, "{text:?}");
    }
}

/// And no archives: the first that it gets has the number 1.
#[test]
fn j10_the_first_archive_of_an_adopted_journal_is_number_1() {
    let stage = Stage::new();
    stage.foreign("a\n");
    let done = stage.journal().rotate(&WriteOptions::default()).unwrap();
    assert_eq!(done.archive, Some(stage.path().with_extension("jsonl.1")));
    stage.append("b", &durable());
    assert_eq!(stage.entries(), numbered(&[(1, "a"), (2, "b")]));
}

/// Whoever adopts a journal dies at any step, perhaps when its last line, which stands open, has its number and a place
/// in the index. Others write the rest of it, and one more: a reader gives them the numbers that the next writer does.
#[test]
fn j3_j9_what_follows_an_open_line_of_the_index_has_one_number_for_all() {
    for nth in 1..100 {
        let stage = Stage::new();
        stage.foreign("{\"n\":");
        stage.die_at_step(nth, Death::Before);
        let _ = stage.journal().append(&["ours"], &no_sync());
        let died = stage.is_dead();
        stage.live_on();
        stage.foreign("1}\n{\"n\":2}\n");
        let before = stage.entries();
        stage.append("next", &durable());
        let after = stage.entries();
        assert_eq!(after[..before.len()], before, "step {nth}");
        if !died {
            return;
        }
    }
    panic!("the append never came to an end");
}

/// Three lines in two records of an index, and its log.
fn indexed() -> Stage {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.journal().repair(&WriteOptions::default()).unwrap();
    stage.journal().append(&["two", "three"], &durable()).unwrap();
    stage.journal().repair(&WriteOptions::default()).unwrap();
    assert_eq!(stage.records(), [[0, 4, 1, 1, 0], [4, 14, 2, 2, 0]]);
    stage
}

#[test]
fn j8_without_its_log_a_journal_is_numbered_above_what_its_index_knows() {
    for (damaged, first) in [(false, 4), (true, 2)] {
        let stage = indexed();
        fs::remove_file(stage.side("wal")).unwrap();
        if damaged {
            let mut bytes = fs::read(stage.side("index")).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(stage.side("index"), bytes).unwrap();
        }
        let done = stage.append("four", &durable());
        assert_eq!((done.first, done.adopted), (first + 3, 3));
        let lines = ["one", "two", "three", "four"];
        assert_eq!(stage.entries(), numbered(&(first..).zip(lines).collect::<Vec<_>>()));
        assert_eq!(stage.records(), [[0, 14, first, 3, 3]], "a new index has taken its place");
    }
}

/// Numbers of log entries as they were drawn while the clock was ahead, in the year 2100.
const AHEAD: u64 = 4_102_444_800_000_000;

/// The notes of the shared sync say up to which number the log was synced. A number that came again would
/// pass for synced.
#[test]
fn s2_j8_entries_of_an_adopted_journal_have_numbers_that_were_never_synced() {
    let stage = indexed();
    stage.forge_head(FIRST_NUMBER, AHEAD);
    stage.append("four", &durable());
    for (text, syncs) in [(None, 1), (Some("older\n"), 2), (None, 1), (Some(""), 2)] {
        stage.live_on();
        if let Some(text) = text {
            stage.replace(text);
        }
        stage.append("next", &durable());
        assert_eq!(stage.times(LOG_SYNCED), syncs, "{text:?}: the batch, and an anchor");
    }
    // Nor may they if everything but the notes is gone, and the log begins anew.
    let stage = indexed();
    for name in ["wal", "index"] {
        fs::remove_file(stage.side(name)).unwrap();
    }
    fs::remove_file(stage.path()).unwrap();
    stage.live_on();
    stage.append("next", &durable());
    assert_eq!(stage.times(LOG_SYNCED), 1);
}
