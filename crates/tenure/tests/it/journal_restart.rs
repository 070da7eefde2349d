//! The first write after a restart of the machine: what a power loss may have left of journal, log and
//! index, and what is made of it (J1, J3, J5-J8; docs/FORMAT.md, "Enter" and "What a crash leaves").

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::{ErrorKind, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal_stage::{
    BASE, BASE_SEQ, Death, ENTRIES, EPOCH, LOGGED, OPENED_TO_MEND, SYNCED, Stage, durable, named,
    no_sync, numbered,
};

const FIRST: &str = "first\n";
const WHOLE: &str = "first\nsecond line\nthird\n";

/// Two batches that are in the log, and in the journal as far as the power loss leaves them.
fn restarted(left: &[u8]) -> Stage {
    let stage = Stage::new();
    stage.append("first", &durable());
    stage.journal().append(&["second line", "third"], &named("turn", &durable())).unwrap();
    assert_eq!(stage.text(), WHOLE);
    stage.overwrite(left);
    stage.fs.reboot();
    stage
}

/// What any power loss may leave of the journal: it is cut, and full of holes.
fn remains() -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> =
        (0..=WHOLE.len()).map(|cut| WHOLE.as_bytes()[..cut].to_vec()).collect();
    for start in (0..WHOLE.len()).step_by(3) {
        for end in (start + 1..=WHOLE.len()).step_by(4) {
            for cut in [end, WHOLE.len()] {
                let mut bytes = WHOLE.as_bytes()[..cut].to_vec();
                bytes[start..end].fill(0);
                found.push(bytes);
            }
        }
    }
    found
}

#[test]
fn j6_j7_whatever_a_power_loss_left_of_the_batches_they_are_whole_again() {
    for left in remains() {
        let what = String::from_utf8_lossy(&left).into_owned();
        let stage = restarted(&left);
        let missing =
            |batch: &str, at: usize| left.get(at..at + batch.len()) != Some(batch.as_bytes());
        let lost = [missing(FIRST, 0), missing(&WHOLE[6..], 6)];
        let lost = lost.into_iter().map(u64::from).sum::<u64>();
        let done = stage.append("next", &no_sync());
        assert_eq!((done.first, done.adopted, done.rolled_forward), (4, 0, lost), "{what:?}");
        assert_eq!(stage.text(), format!("{WHOLE}next\n"), "{what:?}");
        let expected = [(1, "first"), (2, "second line"), (3, "third"), (4, "next")];
        assert_eq!(stage.entries(), numbered(&expected), "{what:?}");
        // What is logged from now on cannot join what the old epoch has left in the log.
        assert_eq!((stage.in_head(EPOCH), stage.in_head(ENTRIES)), (2, 1), "{what:?}");
        assert_eq!((stage.in_head(BASE), stage.in_head(BASE_SEQ)), (WHOLE.len() as u64, 4));
        let lines: u64 = stage.records().iter().map(|record| record[3]).sum();
        assert_eq!(lines, 3, "{what:?}");
        let report = stage.journal().verify().unwrap();
        assert!(report.is_sound() && !report.unbound, "{what:?} {report:?}");
        assert_eq!((report.foreign_entries, report.nul_bytes, report.entries), (0, 0, 4));
    }
}

#[test]
fn j7_an_operation_is_known_after_a_power_loss_took_its_lines() {
    for left in ["", FIRST, WHOLE] {
        let stage = restarted(left.as_bytes());
        let again = stage.journal().append(&["second line", "third"], &named("turn", &durable()));
        let again = again.unwrap();
        assert_eq!((again.first, again.last, again.replayed), (2, 3, true), "{left:?}");
        assert_eq!(stage.text(), WHOLE);
        let before = stage.in_head(EPOCH);
        stage.append("next", &no_sync());
        assert_eq!(stage.in_head(EPOCH), before, "a restart is recovered from once");
    }
}

/// Their lines were numbered, and the power loss took some of their bytes. Ours are whole, with their
/// numbers; what is left of theirs is a line of its own.
#[test]
fn j7_lines_of_others_that_a_power_loss_cut_do_not_take_ours_along() {
    let whole = "first\ntheirs\nsecond\n";
    for (left, text, theirs) in [
        ("first\ntheirs\nsec", "first\ntheirs\nsecond\n", Some((2, "theirs"))),
        ("first\ntheirs\n", "first\ntheirs\nsecond\n", Some((2, "theirs"))),
        ("first\nthe", "first\nthe\nsecond\n", Some((4, "the"))),
        ("first\n", "first\nsecond\n", None),
        ("", "first\nsecond\n", None),
        ("first\n\0\0\0\0\0\0\0second\n", "first\n\0\0\0\0\0\0\0second\n", None),
    ] {
        let stage = Stage::new();
        stage.append("first", &durable());
        stage.foreign("theirs\n");
        assert_eq!(stage.append("second", &durable()).first, 3);
        assert_eq!(stage.text(), whole);
        stage.overwrite(left);
        stage.fs.reboot();
        let mut expected = vec![(1, "first"), (3, "second")];
        expected.extend(theirs);
        let next = if theirs.is_some_and(|(seq, _)| seq == 4) { 5 } else { 4 };
        expected.push((next, "next"));
        expected.sort_unstable();
        assert_eq!(stage.append("next", &durable()).first, next, "{left:?}");
        assert_eq!(stage.text(), format!("{text}next\n"), "{left:?}");
        assert_eq!(stage.entries(), numbered(&expected), "{left:?}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{left:?}");
    }
}

/// Somebody appended after the restart, before us. A power loss cuts anywhere, so of what looks like ours
/// only whole lines are taken away; a line that was cut stays with what was glued to it.
#[test]
fn j6_lines_of_others_after_the_restart_are_not_taken_for_ours() {
    for (left, theirs, text, set_aside) in [
        ("", "fig\n", "fig\nfirst\n", ""),
        ("fi\0\0\0\n", "sea", "first\nsea\n", ""),
        ("first\n", "sea\n", "first\nsea\n", ""),
        ("first\n", "second\n", "first\nsecond\n", ""),
        ("first\nsecond l", "sea\n", "first\nsecond lsea\n", ""),
        ("first\nsecond line\n", "sea\n", "first\n           \nsea\n", "second line\n"),
        ("first\nsecond line\nth", "sea\n", "first\n           \nthsea\n", "second line\n"),
    ] {
        let stage = restarted(left.as_bytes());
        stage.foreign(theirs);
        let done = stage.append("next", &no_sync());
        let rolled = if left.starts_with(FIRST) { 1 } else { 2 };
        assert_eq!((done.first, done.adopted, done.rolled_forward), (5, 1, rolled), "{left:?}");
        assert_eq!(stage.text(), format!("{text}second line\nthird\nnext\n"), "{left:?}");
        let torn = fs::read_to_string(stage.side("torn")).unwrap_or_default();
        assert_eq!(torn, set_aside, "{left:?}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{left:?}");
    }
}

/// A line of others that had no end was numbered, and the process died before its batch closed it.
#[test]
fn j7_a_line_that_was_open_is_closed_after_a_kill_or_a_restart() {
    for reboots in [false, true] {
        for options in [durable(), no_sync()] {
            let stage = Stage::new();
            stage.append("first", &durable());
            stage.foreign("open");
            // The head, the entry about it, the head, and the batch.
            stage.die_at(LOGGED, 4, Death::Before);
            assert!(stage.journal().append(&["no"], &options).is_err());
            stage.live_on();
            if reboots {
                stage.fs.reboot();
            }
            let done = stage.append("next", &options);
            assert_eq!((done.first, done.adopted, done.closed_tail), (3, 0, true), "{reboots}");
            assert_eq!(stage.text(), "first\nopen\nnext\n", "{reboots}");
            assert_eq!(stage.entries(), numbered(&[(1, "first"), (2, "open"), (3, "next")]));
        }
    }
}

/// The same, if the line was indexed before: the log says nothing about it.
#[test]
fn j8_a_line_that_was_open_when_it_was_adopted_is_closed_after_a_kill_or_a_restart() {
    for reboots in [false, true] {
        let stage = Stage::new();
        stage.foreign("open");
        stage.die_at((Op::Sync, "wal"), 1, Death::After);
        assert!(stage.journal().append(&["no"], &no_sync()).is_err());
        stage.live_on();
        if reboots {
            stage.fs.reboot();
        }
        let done = stage.append("next", &no_sync());
        assert_eq!((done.first, done.adopted, done.closed_tail), (2, 0, true), "{reboots}");
        assert_eq!(stage.text(), "open\nnext\n", "{reboots}");
    }
}

/// One line in the index, and an empty log.
fn checkpointed() -> Stage {
    let stage = Stage::new();
    let line = "x".repeat(300);
    stage.append(&line, &durable());
    stage.journal().repair(&WriteOptions::default()).unwrap();
    assert_eq!((stage.records(), stage.in_head(ENTRIES)), (vec![[0, 301, 1, 1, 0]], 0));
    stage.live_on();
    stage
}

#[test]
fn j3_j5_a_restart_with_an_empty_log_begins_an_epoch_and_forgets_records_that_do_not_count() {
    let stage = checkpointed();
    let epoch = stage.in_head(EPOCH);
    let mut index = fs::OpenOptions::new().append(true).open(stage.side("index")).unwrap();
    index.write_all(&[7; 100]).unwrap();
    stage.fs.reboot();
    assert_eq!(stage.append("two", &no_sync()).first, 2);
    assert_eq!(fs::metadata(stage.side("index")).unwrap().len(), 128 + 72);
    assert_eq!((stage.in_head(EPOCH), stage.in_head(ENTRIES)), (epoch + 1, 1));
    assert!(stage.events("journal_adopted").is_empty());
    // The names may be of a journal that was made again: they are synced before it is relied upon.
    assert_eq!((stage.times((Op::SyncDir, "side")), stage.times((Op::SyncDir, "dir"))), (1, 1));
    assert_eq!(stage.times(SYNCED), 0, "nothing was written to it");
}

/// What somebody did to a journal before the first write after a restart, and whether that makes it
/// another one.
#[test]
fn j8_after_a_restart_a_journal_is_known_by_what_stands_before_the_log() {
    type Deed = fn(&Stage);
    let alter = |stage: &Stage, at: usize| {
        let mut bytes = fs::read(stage.path()).unwrap();
        bytes[at] = b'y';
        stage.overwrite(bytes);
    };
    let deeds: [(&str, Deed, bool); 7] = [
        ("nothing", |_| {}, false),
        ("cut", |stage| stage.overwrite("x".repeat(300)), true),
        ("emptied", |stage| stage.overwrite(""), true),
        ("index removed", |stage| fs::remove_file(stage.side("index")).unwrap(), true),
        ("index of another", |stage| fs::write(stage.side("index"), [0; 200]).unwrap(), true),
        ("replaced", |stage| stage.replace(&stage.text()), true),
        ("lines of others", |stage| stage.foreign("theirs\n"), false),
    ];
    let cases = deeds.into_iter().flat_map(|deed| [(deed, false), (deed, true)]);
    for ((what, deed, adopted), logged) in cases {
        let what = format!("{what}, something in the log: {logged}");
        let stage = checkpointed();
        if logged {
            stage.append("two", &no_sync());
        }
        deed(&stage);
        let text = stage.text();
        stage.fs.reboot();
        let first = stage.append("next", &durable()).first;
        assert_eq!(stage.events("journal_adopted").len(), usize::from(adopted), "{what}");
        let closed = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        assert_eq!(stage.text(), format!("{text}{closed}next\n"), "{what}: nothing is replayed");
        let lines = stage.text().lines().count() as u64;
        let numbered = if logged { 2 } else { 1 };
        assert_eq!(first, if adopted { numbered + lines } else { lines }, "{what}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{what}");
    }
    // The last 256 bytes are compared; what is altered before them is damage.
    for (at, adopted) in [(299, true), (301 - 256, true), (301 - 257, false)] {
        let stage = checkpointed();
        stage.append("two", &no_sync());
        alter(&stage, at);
        stage.fs.reboot();
        stage.append("next", &durable());
        assert_eq!(stage.text().matches("two\n").count(), 1, "{at}");
        assert_eq!(stage.events("journal_adopted").len(), usize::from(adopted), "{at}");
        assert_eq!(stage.journal().verify().unwrap().is_sound(), adopted, "{at}");
    }
}

/// A disk may have another number after a restart, an inode not. In one boot both say which file it is.
#[test]
fn j8_a_device_may_change_its_number_only_with_a_restart() {
    for reboots in [true, false] {
        let device = Arc::new(AtomicU64::new(0));
        let (one, two) = (device.clone(), device.clone());
        let stage = Stage::shown_as(move |fs| {
            let fs = fs.showing(move |_, mut stat| {
                stat.id.dev ^= one.load(Ordering::Relaxed);
                stat
            });
            fs.showing_open(move |_, mut stat| {
                stat.id.dev ^= two.load(Ordering::Relaxed);
                stat
            })
        });
        stage.append("one", &durable());
        device.store(0x100, Ordering::Relaxed);
        if reboots {
            stage.fs.reboot();
        }
        let (two, three) = (stage.append("two", &durable()), stage.append("three", &no_sync()));
        let events = stage.events("journal_adopted").len();
        let expected = if reboots { (2, 3, 0) } else { (3, 4, 1) };
        assert_eq!((two.first, three.first, events), expected);
    }
}

/// Somebody puts another file in its place while the holes are filled: that one is left alone.
#[test]
fn j6_a_journal_that_was_replaced_meanwhile_is_not_mended() {
    let stage = restarted(b"first\n\0\0\0\0\0\0 line\nthird\n");
    let other = stage.clone();
    stage.at(OPENED_TO_MEND, 1, move || {
        other.replace("other\n");
        Verdict::Go
    });
    let told = stage.journal().append(&["next"], &no_sync()).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Busy, "{told}");
    assert_eq!(stage.text(), "other\n");
    stage.append("next", &no_sync());
    assert_eq!(stage.text(), "other\nnext\n");
}
