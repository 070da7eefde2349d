//! Bringing a journal in agreement with its log: after a kill at any step, a full disk, lines of others in
//! between, and restarts (J6, J7; docs/FORMAT.md, "What a crash leaves").

use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::json;
use tenure::{AppendOptions, ErrorKind, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal_stage::{
    BEGUN, Death, FLAGS, LOG_SYNCED, LOGGED, PARTIAL, SYNCED, Stage, WRITTEN, durable, named,
    no_sync, numbered,
};

/// A journal with one line, and a batch of `lines` that waits for its sync.
fn waiting(lines: &[&str], options: &AppendOptions) -> Stage {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().append(lines, options).is_err());
    assert_eq!(stage.text(), "first\n", "nothing is in the journal before it is durable");
    stage.live_on();
    stage
}

/// What others have appended meanwhile: the text, its lines, and whether it was open.
const THEIRS: [(&str, &[&str], bool); 6] = [
    ("a\n", &["a"], false),
    ("a\nb\n", &["a", "b"], false),
    ("a\nb", &["a", "b"], true),
    ("\n", &[], false),
    // By chance like the batch, or its beginning. Nobody had begun to write that.
    ("second\nthird\n", &["second", "third"], false),
    ("sec", &["sec"], true),
];

#[test]
fn j6_j7_a_batch_that_lines_of_others_overtook_goes_behind_them_with_its_number() {
    for (text, theirs, open) in THEIRS {
        let stage = waiting(&["second", "third"], &named("turn", &durable()));
        stage.foreign(text);
        let found = theirs.len() as u64;
        let done = stage.append("next", &no_sync());
        assert_eq!((done.first, done.adopted, done.rolled_forward), (4 + found, found, 1));
        assert_eq!(done.closed_tail, open, "{text:?}");
        let closed = if open { "\n" } else { "" };
        let whole = format!("first\n{text}{closed}second\nthird\n");
        assert_eq!(stage.text(), format!("{whole}next\n"));
        let mut expected = numbered(&[(1, "first"), (2, "second"), (3, "third")]);
        expected.extend((4..).zip(theirs.iter().chain(&["next"]).map(|line| (*line).to_owned())));
        assert_eq!(stage.entries(), expected, "{text:?}");
        let (start, end) = ((6 + text.len() + closed.len()) as u64, whole.len() as u64);
        let ours = [[0, 6, 1, 1, 0], [start, end, 2, 2, 0]];
        assert_eq!(stage.records(), [ours[0], ours[1], [6, start, 4, found, found]], "{text:?}");
        let detail = json!({ "foreign_lines": found, "journal_bytes": end });
        let events: Vec<_> = (found > 0).then_some(detail).into_iter().collect();
        assert_eq!(stage.events("foreign_lines_adopted"), events, "{text:?}");
        assert!(stage.events("journal_adopted").is_empty(), "it is the journal it was");
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound() && !report.torn_tail, "{text:?} {report:?}");
        assert_eq!((report.foreign_entries, report.pending), (found, 0), "{text:?}");
        let again = stage.journal().append(&["second", "third"], &named("turn", &durable()));
        assert_eq!(again.map(|again| (again.first, again.replayed)).unwrap(), (2, true));
    }
}

const SIDE_SYNCED: (Op, &str) = (Op::SyncDir, "side");
const DIR_SYNCED: (Op, &str) = (Op::SyncDir, "dir");

/// Not a byte of it may reach the journal before it is durable, and nor may its journal's name be younger.
#[test]
fn j7_a_batch_is_synced_with_its_names_before_it_goes_behind_lines_of_others() {
    let steps = [LOG_SYNCED, SIDE_SYNCED, DIR_SYNCED, SYNCED, WRITTEN];
    for known in [true, false] {
        let stage = if known { waiting(&["second"], &durable()) } else { Stage::new() };
        if !known {
            stage.die_at(LOG_SYNCED, 1, Death::Before);
            assert!(stage.journal().append(&["second"], &durable()).is_err());
            stage.live_on();
        }
        stage.foreign("a\n");
        stage.append("next", &no_sync());
        let names: &[_] = if known { &[] } else { &[SIDE_SYNCED, DIR_SYNCED] };
        // The log; what stands before the batch and where it goes; the batch; the checkpoint, whose index
        // is new; and the line that was asked for.
        let mut expected = vec![LOG_SYNCED];
        expected.extend(names);
        expected.extend([SYNCED, LOG_SYNCED, WRITTEN, SYNCED, SIDE_SYNCED, LOG_SYNCED, WRITTEN]);
        assert_eq!(stage.done(&steps), expected, "names known: {known}");
    }
}

#[test]
fn j7_what_a_killed_write_left_is_completed() {
    let (batch, lines) = ("second line\nthird line\n", ["second line", "third line"]);
    for (death, left) in [(Death::Before, 0), (Death::Within, 12), (Death::After, batch.len())] {
        for options in [durable(), no_sync()] {
            let what = format!("{death:?} {:?}", options.write.durability);
            let stage = Stage::new();
            stage.append("first", &durable());
            stage.die_at(WRITTEN, 1, death);
            let options = named("turn", &options);
            assert!(stage.journal().append(&lines, &options).is_err(), "{what}");
            stage.live_on();
            assert_eq!(stage.text(), format!("first\n{}", &batch[..left]), "{what}");
            // Without a sync, what has not begun was never counted.
            let counts = left > 0 || options.write.durability == durable().write.durability;
            let again = stage.journal().append(&lines, &options).unwrap();
            assert_eq!((again.first, again.last), (2, 3), "{what}");
            assert_eq!(again.replayed, counts, "{what}");
            assert_eq!(again.adopted, 0, "{what}");
            assert_eq!(again.rolled_forward, u64::from(counts && left < batch.len()), "{what}");
            assert_eq!(stage.text(), format!("first\n{batch}"), "{what}");
            assert_eq!(stage.append("next", &no_sync()).first, 4, "{what}");
            assert_eq!(stage.entries().len(), 4, "{what}");
            assert_eq!((stage.in_head(FLAGS) & BEGUN, stage.in_head(PARTIAL)), (0, 0), "{what}");
            let report = stage.journal().repair(&WriteOptions::default()).unwrap();
            assert!(report.is_sound() && report.foreign_entries == 0, "{what} {report:?}");
            assert_eq!(stage.records(), [[0, 34, 1, 4, 0]], "{what}");
        }
    }
}

fn full() -> Verdict {
    Verdict::Fail(io::ErrorKind::StorageFull.into())
}

/// The disk is full after some bytes of the batch, as often as the write is tried. What came in is
/// remembered, and not taken for anybody's line.
#[test]
fn race_43_a_batch_is_completed_however_often_the_disk_was_full() {
    for (line, left) in [("second line", [6, 9, 11]), ("s", [1, 1, 1])] {
        for options in [durable(), no_sync()] {
            for (tries, more) in (1..4).flat_map(|tries| [(tries, false), (tries, true)]) {
                let what = format!("{line} {tries} {more} {:?}", options.write.durability);
                let stage = Stage::new();
                stage.append("first", &durable());
                stage.at(WRITTEN, 1, || Verdict::Short);
                stage.at(WRITTEN, 1, full);
                for _ in 0..6 {
                    if more && line.len() > 1 {
                        stage.at(WRITTEN, 1, || Verdict::Short);
                    }
                    stage.at(WRITTEN, 1, full);
                }
                // A durable batch is tried twice, by the leader and by its own process.
                let told = stage.journal().append(&[line], &options).unwrap_err();
                assert_eq!(told.is_committed(), Some(true), "{what}: {told}");
                let tried =
                    if options.write.durability == durable().write.durability { 2 } else { 1 };
                for _ in tried..tries {
                    assert!(stage.journal().append(&["no"], &no_sync()).is_err(), "{what}");
                }
                let expected = if more { left[tries.max(tried) - 1] } else { left[0] };
                assert_eq!(stage.in_head(PARTIAL), expected, "{what}");
                stage.live_on();
                assert_eq!(stage.append("next", &no_sync()).first, 3, "{what}");
                assert_eq!(stage.text(), format!("first\n{line}\nnext\n"), "{what}");
            }
        }
    }
}

/// Others append before and behind what came in, so that nobody knows where that is: nothing is blanked.
#[test]
fn race_43_j6_what_came_in_between_lines_of_others_is_left_alone() {
    let stage = Stage::new();
    stage.append("first", &durable());
    let other = stage.clone();
    stage.at(WRITTEN, 1, move || {
        other.foreign("sea\n");
        Verdict::Short
    });
    stage.at(WRITTEN, 1, full);
    assert!(stage.journal().append(&["second line"], &no_sync()).is_err());
    assert_eq!(stage.in_head(PARTIAL), 0);
    stage.foreign("x\n");
    stage.append("next", &no_sync());
    assert_eq!(stage.text(), "first\nsea\nsecondx\nsecond line\nnext\n");
}

/// Between the last look at the length and the write, somebody else appends.
#[test]
fn j7_a_line_of_others_that_slips_in_before_the_write_stays_where_it_is() {
    for options in [durable(), no_sync()] {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.live_on();
        let other = stage.clone();
        stage.at(WRITTEN, 1, move || {
            other.foreign("theirs\n");
            Verdict::Go
        });
        assert_eq!(stage.append("second", &options).first, 2);
        assert_eq!(stage.text(), "first\ntheirs\nsecond\n");
        assert_eq!(stage.times(WRITTEN), 1, "and nothing is written again");
        assert_eq!(stage.entries(), numbered(&[(1, "first"), (2, "second"), (3, "theirs")]));
        assert_eq!(stage.append("next", &options).first, 4);
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound() && report.foreign_entries == 1, "{report:?}");
    }
}

/// A line of others comes behind a batch that others had overtaken, and it has no end.
#[test]
fn j7_an_open_line_behind_a_batch_that_was_overtaken_is_closed() {
    let stage = waiting(&["second"], &durable());
    stage.foreign("a\n");
    stage.die_at(WRITTEN, 1, Death::After);
    assert!(stage.journal().append(&["no"], &no_sync()).is_err());
    stage.live_on();
    stage.foreign("open");
    let done = stage.append("next", &no_sync());
    assert_eq!((done.first, done.adopted, done.closed_tail), (5, 2, true));
    assert_eq!(stage.text(), "first\na\nsecond\nopen\nnext\n");
    let expected = [(1, "first"), (2, "second"), (3, "a"), (4, "open"), (5, "next")];
    assert_eq!(stage.entries(), numbered(&expected));
}

/// The same, and somebody else goes on where the disk was full. Only what is known to be ours is taken
/// away, with a copy, also if theirs goes on as ours would have.
#[test]
fn race_43_j6_a_torn_beginning_is_set_aside_when_a_line_of_others_follows_it() {
    for theirs in ["theirs\n", " line too\n", "x"] {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.at(WRITTEN, 1, || Verdict::Short);
        stage.at(WRITTEN, 1, full);
        assert!(stage.journal().append(&["second line"], &no_sync()).is_err());
        assert_eq!(stage.in_head(PARTIAL), 6);
        stage.foreign(theirs);
        let done = stage.append("next", &no_sync());
        assert_eq!((done.first, done.adopted, done.rolled_forward), (4, 1, 1), "{theirs:?}");
        let theirs = theirs.trim_end();
        assert_eq!(stage.text(), format!("first\n     \n{theirs}\nsecond line\nnext\n"));
        let expected = [(1, "first"), (2, "second line"), (3, theirs.trim()), (4, "next")];
        let trimmed = stage.entries().into_iter().map(|(seq, line)| (seq, line.trim().to_owned()));
        assert_eq!(trimmed.collect::<Vec<_>>(), numbered(&expected));
        assert_eq!(fs::read(stage.side("torn")).unwrap(), b"second");
        let detail = json!({ "start": 6, "end": 12 });
        assert_eq!(stage.events("torn_batch_set_aside"), [detail]);
        assert!(stage.journal().verify().unwrap().is_sound());
    }
}

/// Nothing came in before the disk was full, so what is found there later is not ours.
#[test]
fn race_43_j6_nothing_is_taken_for_a_batch_that_never_began() {
    let stage = Stage::new();
    stage.append("first", &durable());
    (0..4).for_each(|_| stage.at(WRITTEN, 1, full));
    let told = stage.journal().append(&["second"], &durable()).unwrap_err();
    assert_eq!(told.is_committed(), Some(true), "{told}");
    assert_eq!((stage.in_head(PARTIAL), stage.in_head(FLAGS) & BEGUN), (0, 0));
    stage.live_on();
    stage.foreign("second\n");
    stage.append("next", &no_sync());
    assert_eq!(stage.text(), "first\nsecond\nsecond\nnext\n");
    let expected = [(1, "first"), (2, "second"), (3, "second"), (4, "next")];
    assert_eq!(stage.entries(), numbered(&expected));
}

/// Somebody else's line comes between the two halves of a write, again and again.
#[test]
fn j7_a_batch_that_others_keep_tearing_apart_waits_for_the_next_writer() {
    let stage = waiting(&["second line"], &durable());
    for _ in 0..1000 {
        let other = stage.clone();
        stage.at(WRITTEN, 1, || Verdict::Short);
        stage.at(WRITTEN, 1, move || {
            other.foreign("x\n");
            Verdict::Go
        });
    }
    stage.foreign("a\n");
    let told = stage.journal().append(&["no"], &no_sync()).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Busy, "{told}");
    assert_eq!(stage.times(LOG_SYNCED), 65, "once for the log, and for each of 64 attempts");
    stage.live_on();
    stage.append("next", &no_sync());
    let entries = stage.entries();
    assert!(entries.contains(&(2, "second line".to_owned())));
    assert!(stage.text().ends_with("\nsecond line\nnext\n"));
    assert!(stage.journal().verify().unwrap().is_sound());
}

#[test]
fn g1_who_lost_the_lock_brings_nothing_in_order() {
    let stage = waiting(&["second"], &durable());
    stage.foreign("a\n");
    let other = stage.clone();
    stage.at(LOG_SYNCED, 1, move || {
        fs::remove_file(other.side("commit")).unwrap();
        Verdict::Go
    });
    let refused = stage.journal().append(&["third"], &no_sync()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Compromised, "{refused}");
    assert_eq!(stage.text(), "first\na\n");
    stage.append("third", &no_sync());
    assert_eq!(stage.text(), "first\na\nsecond\nthird\n");
}

/// A leader that is paused between the grant of the lock and its write looks at the name again.
#[test]
fn g1_a_leader_that_was_paused_while_its_lock_file_went_lets_nothing_in() {
    let stage = Stage::new();
    stage.append("first", &durable());
    let other = stage.clone();
    stage.at(LOG_SYNCED, 1, || Verdict::Go);
    stage.at(LOGGED, 1, move || {
        fs::remove_file(other.side("commit")).unwrap();
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(2) {
            std::thread::yield_now();
        }
        other.live_on();
        Verdict::Go
    });
    assert_eq!(stage.append("second", &durable()).first, 2);
    let locked = (Op::Lock, "commit");
    assert_eq!(stage.done(&[locked, WRITTEN])[0], locked, "it was written under another lock");
    assert_eq!(stage.text(), "first\nsecond\n");
}

/// What somebody did before a line of others is found, and whether the journal is another one then. What
/// can be read of the batches that wait is not lost with the index, or with the rest of the log.
#[test]
fn j7_j8_a_journal_that_grew_is_adopted_if_its_index_or_its_log_is_gone() {
    type Deed = fn(&Stage);
    fn damage(stage: &Stage, at: usize) {
        let mut log = fs::read(stage.side("wal")).unwrap();
        log[12288 + at] ^= 1;
        fs::write(stage.side("wal"), log).unwrap();
    }
    let cases: [(&str, Deed, bool, usize); 4] = [
        ("nothing", |_| {}, false, 2),
        ("no index", remove_index, true, 2),
        ("first entry", |stage| damage(stage, 64), true, 0),
        ("second entry", |stage| damage(stage, 64 + 7 + 64), true, 1),
    ];
    for (what, deed, adopted, kept) in cases {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.journal().repair(&WriteOptions::default()).unwrap();
        for line in ["second", "third"] {
            stage.die_at(LOG_SYNCED, 1, Death::Before);
            assert!(stage.journal().append(&[line], &durable()).is_err());
            stage.live_on();
        }
        deed(&stage);
        stage.foreign("theirs\n");
        stage.append("next", &no_sync());
        assert_eq!(stage.events("journal_adopted").len(), usize::from(adopted), "{what}");
        let batches = &["second\n", "third\n"][..kept];
        assert_eq!(stage.text(), format!("first\ntheirs\n{}next\n", batches.concat()), "{what}");
        let found = stage.entries();
        let batches = &numbered(&[(2, "second"), (3, "third")])[..kept];
        assert!(batches.iter().all(|entry| found.contains(entry)), "{what}: {found:?}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{what}");
    }
}

fn remove_index(stage: &Stage) {
    fs::remove_file(stage.side("index")).unwrap();
}
