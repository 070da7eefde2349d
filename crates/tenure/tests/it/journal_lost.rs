//! Batches that the log has lost after they were counted: a failed sync took their page, or somebody
//! damaged it. Whoever finds that goes on without them, and nobody takes them for done (J7, race 54;
//! docs/FORMAT.md, "Lost").

use std::fmt::Debug;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use tenure::{AppendOptions, ErrorKind, Journal, Wait, WriteOptions};

use crate::faulty_fs::Verdict;
use crate::journal::{all, durable, foreign, no_sync};
use crate::journal_durable::{stop_at, with_a_line};
use crate::journal_stage::{LOG_SYNCED, SYNCED, Stage, named};
use crate::scratch::lock_for;
use crate::watched_log::{END, SYNC_BEGINS, Watched};

/// The kernel may throw a page away that it could not write, and read an older one.
pub(crate) fn lose(log: &Path, at: u64) {
    let log = std::fs::OpenOptions::new().write(true).open(log).unwrap();
    log.write_all_at(&[0; 64], at).unwrap();
}

/// What others do, or what happens, before the owner of a lost batch looks what became of it.
type Meanwhile = fn(&Watched);

/// Lets the next batch get lost after it was logged, and counted; its sync then begins like this.
fn lose_the_next_batch(disk: &Watched, meanwhile: Meanwhile, then: fn() -> Verdict) {
    let (log, at, other) = (disk.stage.side("wal"), disk.stage.in_head(END), disk.beside());
    disk.stage.at(SYNC_BEGINS, 1, move || {
        lose(&log, at);
        meanwhile(&other);
        then()
    });
}

fn go() -> Verdict {
    Verdict::Go
}

fn refuse() -> Verdict {
    Verdict::Fail(Errno::IO.into())
}

const NOBODY: Meanwhile = |_| ();
const APPENDS: Meanwhile = |other| {
    other.journal.append(&["theirs"], &no_sync()).unwrap();
};
const SYNCS: Meanwhile = |other| {
    other.journal.append(&["theirs"], &durable()).unwrap();
};
/// It is logged before anybody has seen the hole.
const APPENDS_DURABLY: Meanwhile = |other| is_told(other.journal.append(&["behind"], &durable()));
const REPAIRS: Meanwhile = |other| {
    other.journal.repair(&WriteOptions::default()).unwrap();
};
const HOLDS: Meanwhile = |other| drop(lock_for(&other.stage.path(), Wait::No).unwrap());
const WRITES_AND_HOLDS: Meanwhile = |other| {
    foreign(&other.stage.path(), "theirs\n");
    HOLDS(other);
};
const GOES_ON_FOR_LONG: Meanwhile = |other| {
    APPENDS(other);
    REPAIRS(other); // A new epoch, and here a new file.
    other.journal.rotate(&WriteOptions::default()).unwrap();
    APPENDS(other);
};
const RESTORES_THE_LOG: Meanwhile = |other| {
    let (log, copy) = (other.stage.side("wal"), other.stage.side("copy"));
    std::fs::copy(&log, &copy).unwrap();
    std::fs::rename(&copy, &log).unwrap();
    APPENDS(other);
};

/// Neither that the batch is there nor that it is not: one that died may have written it.
#[track_caller]
fn is_told<T: Debug>(answer: tenure::Result<T>) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Damaged, None), "{error}");
}

/// The journal goes on, and has nothing of what was lost.
#[track_caller]
fn goes_on(disk: &Watched) {
    for options in [durable(), no_sync()] {
        let done = disk.journal.append(&["last"], &options).unwrap();
        assert_eq!(all(&disk.journal).last(), Some(&(done.first, "last".to_owned())));
    }
    let text = disk.stage.text();
    assert!(!text.contains("lost") && !text.contains("behind"), "{text}");
    assert!(!disk.stage.events("batches_lost").is_empty());
    assert!(Journal::open(disk.stage.path()).unwrap().verify().unwrap().is_sound());
}

#[test]
fn race_54_whoever_goes_on_without_a_lost_batch_its_owner_is_told() {
    let others = [
        ("nobody", NOBODY),
        ("an append", APPENDS),
        ("a durable append", APPENDS_DURABLY),
        ("a repair", REPAIRS),
        ("a hold", HOLDS),
        ("a foreign line and a hold", WRITES_AND_HOLDS),
        ("new epochs and a new file", GOES_ON_FOR_LONG),
        ("a log that was copied", RESTORES_THE_LOG),
    ];
    for (name, meanwhile) in others {
        for in_doubt in [false, true] {
            let disk = with_a_line();
            if in_doubt {
                disk.refuse(LOG_SYNCED, 1);
                disk.journal.append(&["second"], &durable()).unwrap_err();
            }
            lose_the_next_batch(&disk, meanwhile, go);
            let told = disk.journal.append(&["lost"], &durable());
            assert!(told.is_err(), "meanwhile {name}, in doubt: {in_doubt}");
            is_told(told);
            goes_on(&disk);
        }
    }
}

/// Nothing tells any more which batches were counted.
#[test]
fn race_54_the_owner_of_a_batch_is_told_if_its_log_is_removed_or_put_back() {
    for restored in [false, true] {
        for others in [NOBODY, APPENDS, SYNCS, GOES_ON_FOR_LONG] {
            let disk = with_a_line();
            let (log, copy) = (disk.stage.side("wal"), disk.stage.side("copy"));
            std::fs::copy(&log, &copy).unwrap();
            let other = disk.beside();
            disk.stage.at(SYNC_BEGINS, 1, move || {
                std::fs::remove_file(&log).unwrap();
                if restored {
                    std::fs::rename(&copy, &log).unwrap();
                }
                others(&other);
                Verdict::Go
            });
            is_told(disk.journal.append(&["lost"], &durable()));
            assert!(!disk.stage.text().contains("lost"), "{}", disk.stage.text());
            disk.journal.append(&["last"], &operation("last")).unwrap();
            assert!(repeats(&disk, "last"));
        }
    }
}

/// What else becomes of the sync does not matter.
#[test]
fn race_54_the_owner_of_a_lost_batch_is_told_if_its_sync_fails_or_cannot_begin() {
    for (then, failed) in [(go as fn() -> Verdict, true), (refuse, false)] {
        let disk = with_a_line();
        lose_the_next_batch(&disk, APPENDS, then);
        if failed {
            disk.refuse(LOG_SYNCED, 1);
        }
        is_told(disk.journal.append(&["lost"], &durable()));
        goes_on(&disk);
    }
}

/// The loss is known from the moment it is found, and nobody logs a batch behind it.
#[test]
fn race_54_the_owner_of_a_lost_batch_is_told_if_the_journal_cannot_go_on_yet() {
    for theirs in ["", "theirs\n"] {
        let disk = with_a_line();
        lose_the_next_batch(&disk, NOBODY, go);
        disk.foreign_at(LOG_SYNCED, 1, theirs);
        disk.refuse(SYNCED, 1);
        disk.refuse(SYNCED, 1);
        is_told(disk.journal.append(&["lost"], &durable()));
        let error = disk.journal.append(&["next"], &durable()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
        disk.journal.append(&["next"], &durable()).unwrap();
        assert_eq!(disk.stage.text(), format!("first\n{theirs}next\n"));
        goes_on(&disk);
    }
}

/// The sync fails, so that the owner itself is the first who tries to let the batch in.
#[test]
fn race_54_the_owner_who_finds_the_loss_is_told_so_if_it_cannot_go_on_either() {
    let disk = with_a_line();
    lose_the_next_batch(&disk, NOBODY, go);
    disk.refuse(LOG_SYNCED, 1);
    disk.refuse(SYNCED, 1);
    is_told(disk.journal.append(&["lost"], &durable()));
    goes_on(&disk);
}

/// Logs a batch that goes on waiting.
fn leave_waiting(disk: &Watched, line: &str) {
    disk.refuse(SYNC_BEGINS, 1);
    disk.journal.append(&[line], &operation(line)).unwrap_err();
}

#[test]
fn nothing_is_lost_with_a_journal_that_was_replaced() {
    for waiting in ["", "second\n"] {
        let disk = with_a_line();
        if !waiting.is_empty() {
            leave_waiting(&disk, waiting.trim_end());
        }
        disk.stage.replace("theirs\n");
        disk.journal.append(&["next"], &durable()).unwrap();
        assert_eq!(disk.stage.text(), format!("theirs\n{waiting}next\n"));
        assert!(disk.stage.events("batches_lost").is_empty());
    }
}

fn operation(id: &str) -> AppendOptions {
    named(id, &durable())
}

/// Whether the journal takes the call for a repetition.
fn repeats(disk: &Watched, line: &str) -> bool {
    let done = disk.journal.append(&[line], &operation(line)).unwrap();
    assert_eq!(disk.stage.text().matches(line).count(), 1, "{}", disk.stage.text());
    done.replayed
}

#[test]
fn an_operation_that_was_lost_can_be_repeated_and_no_other() {
    for meanwhile in [NOBODY, APPENDS, REPAIRS, WRITES_AND_HOLDS] {
        for waiting in [&[][..], &["second"], &["second", "more"]] {
            let disk = Watched::new();
            disk.journal.append(&["first"], &operation("first")).unwrap();
            disk.journal.append(&["direct"], &named("direct", &no_sync())).unwrap();
            for line in waiting {
                leave_waiting(&disk, line);
            }
            lose_the_next_batch(&disk, meanwhile, go);
            is_told(disk.journal.append(&["third"], &operation("third")));
            assert!(!repeats(&disk, "third") && repeats(&disk, "third"));
            assert!(repeats(&disk, "first") && repeats(&disk, "direct"));
            for line in ["second", "more"] {
                assert_eq!(repeats(&disk, line), waiting.contains(&line), "{line}");
            }
        }
    }
}

/// What stands behind a hole cannot be found.
#[test]
fn operations_that_were_lost_together_can_all_be_repeated() {
    for before in [false, true] {
        let disk = Watched::new();
        if before {
            disk.journal.append(&["first"], &operation("first")).unwrap();
        }
        leave_waiting(&disk, "second");
        let at = disk.stage.in_head(END) - 64 - "second\n".len() as u64;
        leave_waiting(&disk, "third");
        lose(&disk.stage.side("wal"), at);
        REPAIRS(&disk);
        assert!(!repeats(&disk, "third") && !repeats(&disk, "second"));
        assert_eq!(repeats(&disk, "first"), before);
    }
}

/// Another file has nothing of a batch that waits, and nor has the journal if nobody has begun to let
/// the batch in: a line of others that looks like it is theirs.
#[test]
fn j7_j8_a_line_of_others_is_not_taken_for_the_batch_that_waits_before_the_lost_one() {
    for replaced in [false, true] {
        for lost in [false, true] {
            let disk = with_a_line();
            leave_waiting(&disk, "second");
            if lost {
                let at = disk.stage.in_head(END);
                leave_waiting(&disk, "lost");
                lose(&disk.stage.side("wal"), at);
            }
            if replaced {
                disk.stage.replace("first\nsecond\n");
            } else {
                disk.stage.foreign("second\n");
            }
            disk.journal.append(&["next"], &durable()).unwrap();
            assert_eq!(disk.stage.text(), "first\nsecond\nsecond\nnext\n");
        }
    }
}

/// Batches that were logged one after the other, of which the first are in the journal.
#[test]
fn an_operation_that_was_let_in_before_the_loss_is_known() {
    let disk = with_a_line();
    let other = disk.beside();
    disk.stage.at(LOG_SYNCED, 1, move || {
        other.refuse(SYNC_BEGINS, 1);
        other.journal.append(&["third"], &operation("third")).unwrap_err();
        Verdict::Go
    });
    disk.journal.append(&["second"], &operation("second")).unwrap();
    assert_eq!(disk.stage.text(), "first\nsecond\n", "the third waits");
    lose(&disk.stage.side("wal"), disk.stage.in_head(END) - 64 - "third\n".len() as u64);
    REPAIRS(&disk);
    assert!(repeats(&disk, "second") && !repeats(&disk, "third"));
}

#[test]
fn j7_a_batch_before_the_lost_one_is_there_once_and_its_owner_is_told_so() {
    for lost_first in [false, true] {
        let disk = with_a_line();
        let (one, other) = (disk.beside(), disk.beside());
        let (one_is_logged, go_on_one) = stop_at(&one, SYNC_BEGINS);
        let (other_is_logged, go_on_other) = stop_at(&other, SYNC_BEGINS);
        std::thread::scope(|scope| {
            // Gone with a failed assertion, so that nobody waits for them.
            let (go_on_one, go_on_other) = (go_on_one, go_on_other);
            let before = scope.spawn(|| one.journal.append(&["before"], &durable()));
            one_is_logged.recv().unwrap();
            let at = disk.stage.in_head(END);
            let lost = scope.spawn(|| other.journal.append(&["lost"], &durable()));
            other_is_logged.recv().unwrap();
            lose(&disk.stage.side("wal"), at);
            let told = || {
                go_on_other.send(()).unwrap();
                is_told(lost.join().unwrap());
            };
            let acknowledged = || {
                go_on_one.send(()).unwrap();
                assert_eq!(before.join().unwrap().unwrap().first, 2);
            };
            if lost_first {
                told();
                assert!(disk.stage.text().ends_with("before\n"));
                acknowledged();
            } else {
                acknowledged();
                told();
            }
        });
        assert_eq!(disk.stage.text(), "first\nbefore\n");
        assert!(all(&disk.journal).contains(&(2, "before".to_owned())));
        goes_on(&disk);
    }
}

/// The owner of the first one is slow.
#[test]
fn race_54_a_second_loss_does_not_hide_the_first() {
    let disk = with_a_line();
    let (one, other) = (disk.beside(), disk.beside());
    let (one_is_logged, go_on_one) = stop_at(&one, SYNC_BEGINS);
    let (other_is_logged, go_on_other) = stop_at(&other, SYNC_BEGINS);
    std::thread::scope(|scope| {
        let (go_on_one, go_on_other) = (go_on_one, go_on_other);
        let at = disk.stage.in_head(END);
        let first = scope.spawn(|| one.journal.append(&["lost"], &durable()));
        one_is_logged.recv().unwrap();
        lose(&disk.stage.side("wal"), at);
        APPENDS(&disk);
        let at = disk.stage.in_head(END);
        let second = scope.spawn(|| other.journal.append(&["lost too"], &durable()));
        other_is_logged.recv().unwrap();
        lose(&disk.stage.side("wal"), at);
        APPENDS(&disk);
        disk.journal.append(&["sound"], &durable()).unwrap();
        go_on_one.send(()).unwrap();
        let first = first.join().unwrap();
        go_on_other.send(()).unwrap();
        is_told(second.join().unwrap());
        is_told(first);
    });
    assert_eq!(disk.stage.text(), "first\ntheirs\ntheirs\nsound\n");
    goes_on(&disk);
}

/// Nobody waits any more, and no number comes again.
#[test]
fn a_loss_does_no_harm_after_a_restart() {
    let stage = Stage::new();
    stage.append("first", &durable());
    let (log, at) = (stage.side("wal"), stage.in_head(END));
    stage.at(LOG_SYNCED, 1, move || {
        lose(&log, at);
        Verdict::Go
    });
    is_told(stage.journal().append(&["lost"], &durable()));
    for line in ["second", "third"] {
        stage.fs.reboot();
        stage.append(line, &durable());
        stage.append(line, &no_sync());
    }
    assert_eq!(stage.text(), "first\nsecond\nsecond\nthird\nthird\n");
    assert!(stage.journal().verify().unwrap().is_sound());
}
