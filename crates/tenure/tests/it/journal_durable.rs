//! A durable batch on its way: logged, synced together with others, and let in. Who is told what if a
//! step is refused, and what everybody else finds. Cites J7, G8, G10 and race 54.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::fs::{Access, Handle, Mode, disk};
use tenure::{AppendOptions, ErrorKind, Wait, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::journal_stage::{BEGUN, ENTRIES, FLAGS, LOG_SYNCED, LOGGED, SYNCED, Step, WRITTEN};
use crate::watched_log::{APPLIED, JOURNAL_END, LOCKED, NEXT_SEQ, RECORDED, SYNC_BEGINS, Watched};

/// Everything that changes the log or the journal, or makes them durable.
const CHANGES: [Step; 4] = [LOGGED, LOG_SYNCED, WRITTEN, SYNCED];

/// A journal with one durable line, and a handle that knows it.
pub(crate) fn with_a_line() -> Watched {
    let disk = Watched::new();
    disk.journal.append(&["first"], &durable()).unwrap();
    disk.stage.take(&[]);
    disk
}

/// The commit lock, in the hands of somebody else.
fn commit_lock(disk: &Watched) -> Arc<dyn Handle> {
    let lock = self::disk().open(&disk.stage.side("commit"), Access::ReadWrite).unwrap();
    lock.lock(Mode::Exclusive).unwrap();
    lock
}

/// Lets the clock go on.
fn wait(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::thread::yield_now();
    }
}

/// Stops whoever comes to this step until it is told to go on. The first end says that it is there.
pub(crate) fn stop_at(disk: &Watched, step: Step) -> (Receiver<()>, Sender<()>) {
    let ((arrived, there), (go, gone)) = (channel(), channel());
    disk.stage.at(step, 1, move || {
        arrived.send(()).unwrap();
        gone.recv().unwrap();
        Verdict::Go
    });
    (there, go)
}

#[test]
fn j7_a_durable_batch_is_logged_synced_and_then_written() {
    let disk = with_a_line();
    let path = disk.stage.path();
    disk.stage.at(LOG_SYNCED, 1, move || {
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first\n", "before its sync");
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    // The entry, a hint that counts it; its sync; a hint that it is being written, the next that it was.
    let steps = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.stage.take(&CHANGES), steps);
    assert_eq!(disk.head([ENTRIES, APPLIED, NEXT_SEQ]), [2, 2, 3]);
    assert_eq!(disk.head([JOURNAL_END]), ["first\nsecond\n".len() as u64]);
    assert_eq!(disk.stage.in_head(FLAGS) & BEGUN, 0);
}

#[test]
fn an_append_that_is_not_the_first_writes_no_record() {
    let disk = with_a_line();
    for options in [durable(), no_sync()] {
        disk.journal.append(&["more"], &options).unwrap();
        assert_eq!(disk.stage.take(&[RECORDED]), [], "{options:?}");
    }
}

/// Both are logged before the first of them begins to sync.
#[test]
fn one_sync_serves_all_who_are_logged_and_they_need_no_lock_to_return() {
    let (one, other) = {
        let disk = with_a_line();
        (disk.beside(), disk)
    };
    let (one_is_logged, go_on_one) = stop_at(&one, SYNC_BEGINS);
    let (other_is_logged, go_on_other) = stop_at(&other, SYNC_BEGINS);
    std::thread::scope(|scope| {
        let leading = scope.spawn(|| one.journal.append(&["second"], &durable()));
        one_is_logged.recv().unwrap();
        let following = scope.spawn(|| other.journal.append(&["third"], &durable()));
        other_is_logged.recv().unwrap();
        assert_eq!(one.stage.text(), "first\n");
        go_on_one.send(()).unwrap();
        assert_eq!(leading.join().unwrap().unwrap().first, 2);
        assert_eq!(one.stage.text(), "first\nsecond\nthird\n", "it let both in");
        let somebody = commit_lock(&one);
        go_on_other.send(()).unwrap();
        assert_eq!(following.join().unwrap().unwrap().first, 3);
        drop(somebody);
    });
    assert_eq!(one.stage.take(&[LOG_SYNCED]), [LOG_SYNCED]);
    assert_eq!(other.stage.take(&[LOG_SYNCED]), [], "somebody else has synced it");
}

#[test]
fn j7_what_the_leader_cannot_let_in_its_owner_does() {
    for meanwhile in ["", "theirs\n"] {
        let disk = with_a_line();
        disk.refuse(LOCKED, 2); // The first is to log it.
        disk.foreign_at(WRITTEN, 1, meanwhile);
        disk.journal.append(&["second"], &durable()).unwrap();
        assert_eq!(disk.stage.text(), format!("first\n{meanwhile}second\n"));
        assert_eq!(disk.stage.take(&[LOCKED]).len(), 3);
        assert!(all(&disk.journal).contains(&(2, "second".to_owned())));
    }
}

/// Whoever has logged a batch cannot take it back, so it waits longer than it was told to.
#[test]
fn j7_a_logged_batch_is_let_in_with_more_patience_than_the_caller_has() {
    let disk = with_a_line();
    disk.refuse(LOCKED, 2);
    let somebody: Arc<Mutex<Option<Arc<dyn Handle>>>> = Arc::default();
    let (theirs, released) = (somebody.clone(), somebody.clone());
    let commit = disk.stage.side("commit");
    disk.stage.at(LOCKED, 1, move || {
        let lock = self::disk().open(&commit, Access::ReadWrite).unwrap();
        lock.lock(Mode::Exclusive).unwrap();
        *theirs.lock().unwrap() = Some(lock);
        Verdict::Go
    });
    disk.stage.at(LOCKED, 1, move || {
        wait(Duration::from_millis(30));
        *released.lock().unwrap() = None;
        Verdict::Go
    });
    let write = WriteOptions { wait: Wait::For(Duration::from_millis(5)), ..durable().write };
    let options = AppendOptions { write, ..durable() };
    disk.journal.append(&["second"], &options).unwrap();
    assert_eq!(disk.stage.text(), "first\nsecond\n");
    assert!(somebody.lock().unwrap().is_none(), "it had to wait");
}

#[test]
fn j7_a_batch_whose_sync_cannot_begin_is_logged_and_not_yet_in_the_journal() {
    let disk = with_a_line();
    disk.refuse(SYNC_BEGINS, 1);
    let error = disk.journal.append(&["second"], &durable()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(true)), "{error}");
    assert_eq!(disk.stage.text(), "first\n", "not a byte of it before it is durable");
    assert_eq!(disk.head([ENTRIES, APPLIED]), [2, 1]);
    let report = disk.journal.verify().unwrap();
    assert_eq!((report.pending, report.entries), (1, 1), "{report:?}");
    disk.stage.take(&[]);
    assert_eq!(disk.journal.append(&["third"], &no_sync()).unwrap().rolled_forward, 0);
    let steps = [LOG_SYNCED, LOGGED, WRITTEN, LOGGED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.stage.take(&CHANGES), steps, "it is synced and let in first, then ours");
    assert_eq!(all(&disk.journal), numbered(&["first", "second", "third"]));
    assert_eq!(disk.stage.text(), "first\nsecond\nthird\n");
}

#[test]
fn j7_a_batch_whose_sync_cannot_begin_is_synced_with_the_next_one() {
    let disk = with_a_line();
    disk.refuse(SYNC_BEGINS, 1);
    disk.journal.append(&["second"], &durable()).unwrap_err();
    disk.stage.take(&[]);
    assert_eq!(disk.journal.append(&["third"], &durable()).unwrap().rolled_forward, 0);
    let steps = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.stage.take(&CHANGES), steps, "both in one write");
    assert_eq!(disk.stage.text(), "first\nsecond\nthird\n");
}

/// While the leader syncs, somebody else lets its batch in; another one may wait behind it.
#[test]
fn a_leader_writes_nothing_if_its_batches_were_let_in_by_somebody_else() {
    for behind in [false, true] {
        let disk = with_a_line();
        let other = disk.beside();
        disk.stage.at(LOG_SYNCED, 1, move || {
            other.journal.append(&["third"], &no_sync()).unwrap();
            if behind {
                other.refuse(SYNC_BEGINS, 1);
                other.journal.append(&["fourth"], &durable()).unwrap_err();
            }
            Verdict::Go
        });
        disk.journal.append(&["second"], &durable()).unwrap();
        assert_eq!(disk.stage.take(&CHANGES), [LOGGED, LOGGED, LOG_SYNCED]);
        assert_eq!(disk.stage.text(), "first\nsecond\nthird\n", "the fourth waits for its sync");
    }
}

/// The leader could not, and when its owner comes to it, it is done.
#[test]
fn a_batch_that_somebody_else_lets_in_at_last_is_not_lost() {
    let disk = with_a_line();
    let other = disk.beside();
    disk.refuse(LOCKED, 2);
    disk.stage.at((Op::StatHandle, "commit"), 1, move || {
        other.journal.append(&["third"], &no_sync()).unwrap();
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    let looks = disk.stage.take(&[(Op::StatHandle, "commit"), LOCKED, WRITTEN]);
    assert_eq!(disk.stage.text(), "first\nsecond\nthird\n", "{looks:?}");
    assert!(!looks.contains(&WRITTEN), "{looks:?}");
}

/// It notes that it begins to write, is paused, and finds that others may be writing, too.
#[test]
fn race_50_a_leader_that_was_paused_while_its_lock_file_went_lets_nobody_in() {
    let disk = with_a_line();
    let commit = disk.stage.side("commit");
    disk.stage.at(LOGGED, 3, move || {
        std::fs::remove_file(&commit).unwrap();
        wait(Duration::from_millis(2));
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    let steps = disk.stage.take(&[LOCKED, WRITTEN]);
    assert!(steps.ends_with(&[LOCKED, WRITTEN]) && steps.len() > 3, "{steps:?}");
    assert_eq!(disk.stage.text(), "first\nsecond\n");
}

/// What the log has, it writes again: right after the failure, and whoever syncs next once more, since
/// the first may have died in between.
#[test]
fn race_54_g8_a_failed_sync_is_told_and_its_pages_are_written_again() {
    let disk = with_a_line();
    disk.refuse(LOG_SYNCED, 1);
    let error = disk.journal.append(&["second"], &durable()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::NotDurable, Some(true)));
    assert_eq!(disk.stage.text(), "first\nsecond\n", "it is visible all the same");
    let again = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(
        disk.stage.take(&CHANGES),
        again,
        "the entry, its hint, and after the sync both once more"
    );
    disk.journal.append(&["third"], &durable()).unwrap();
    let in_doubt = [LOGGED, LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.stage.take(&CHANGES), in_doubt);
    disk.journal.append(&["fourth"], &durable()).unwrap();
    let sure = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.stage.take(&CHANGES), sure);
    assert_eq!(all(&disk.journal), numbered(&["first", "second", "third", "fourth"]));
}

/// A process that was paused after it logged a line of its own accord.
#[test]
fn race_50_a_foreign_line_is_not_closed_by_who_has_lost_the_lock() {
    let disk = with_a_line();
    crate::journal::foreign(&disk.stage.path(), "open");
    let commit = disk.stage.side("commit");
    // Noted as foreign with a hint, and then the newline.
    disk.stage.at(LOGGED, 3, move || {
        std::fs::remove_file(&commit).unwrap();
        Verdict::Go
    });
    let error = disk.journal.rotate(&WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compromised, "{error}");
    assert_eq!(disk.stage.text(), "first\nopen");
    assert_eq!(disk.stage.take(&[(Op::Write, "journal")]), []);
}
