//! A durable batch on its way: logged, synced together with others, and let in. Who is told what if a
//! step is refused, and what everybody else finds. Cites J7, G8, G10 and race 54.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::fs::{Access, Handle, Mode, disk};
use tenure::{AppendOptions, ErrorKind, Wait, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal::{all, durable, no_sync, numbered};
use crate::watched_log::{
    LOCKED, LOG_SYNCED, LOGGED, RECORDED, SYNC_BEGINS, SYNCED, Step, WRITTEN, Watched,
};

/// Everything that changes the log or the journal, or makes them durable.
const CHANGES: [Step; 4] = [LOGGED, LOG_SYNCED, WRITTEN, SYNCED];

/// A journal with one durable line, and a handle that knows it.
pub(crate) fn with_a_line() -> Watched {
    let disk = Watched::new();
    disk.journal.append(&["first"], &durable()).unwrap();
    disk.take(&[]);
    disk
}

/// The commit lock, in the hands of somebody else.
fn commit_lock(disk: &Watched) -> Arc<dyn Handle> {
    let lock = self::disk().open(&disk.sidecar("commit"), Access::ReadWrite).unwrap();
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
    disk.at_next(step, move || {
        arrived.send(()).unwrap();
        gone.recv().unwrap();
        Verdict::Go
    });
    (there, go)
}

#[test]
fn j7_a_durable_batch_is_logged_synced_and_then_written() {
    let disk = with_a_line();
    let path = disk.log();
    disk.at_next(LOG_SYNCED, move || {
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first\n", "before its sync");
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    // The entry, a hint that counts it; its sync; a hint that it is being written, the next that it was.
    let steps = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.take(&CHANGES), steps);
    let head = disk.head();
    assert_eq!((head.entries, head.applied, head.flags & 1), (2, 2, 0), "{head:?}");
    assert_eq!((head.journal_end, head.next_seq), ("first\nsecond\n".len() as u64, 3));
}

#[test]
fn an_append_that_is_not_the_first_writes_no_record() {
    let disk = with_a_line();
    for options in [durable(), no_sync()] {
        disk.journal.append(&["more"], &options).unwrap();
        assert_eq!(disk.take(&[RECORDED]), [], "{options:?}");
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
        assert_eq!(one.text(), "first\n");
        go_on_one.send(()).unwrap();
        assert_eq!(leading.join().unwrap().unwrap().first, 2);
        assert_eq!(one.text(), "first\nsecond\nthird\n", "it let both in");
        let somebody = commit_lock(&one);
        go_on_other.send(()).unwrap();
        assert_eq!(following.join().unwrap().unwrap().first, 3);
        drop(somebody);
    });
    assert_eq!(one.take(&[LOG_SYNCED]), [LOG_SYNCED]);
    assert_eq!(other.take(&[LOG_SYNCED]), [], "somebody else has synced it");
}

#[test]
fn j7_what_the_leader_cannot_let_in_its_owner_does() {
    for meanwhile in ["", "theirs\n"] {
        let disk = with_a_line();
        disk.refuse_nth(2, LOCKED); // The first is to log it.
        disk.foreign_at_next(WRITTEN, meanwhile);
        disk.journal.append(&["second"], &durable()).unwrap();
        assert_eq!(disk.text(), format!("first\n{meanwhile}second\n"));
        assert_eq!(disk.take(&[LOCKED]).len(), 3);
        assert!(all(&disk.journal).contains(&(2, "second".to_owned())));
    }
}

/// Whoever has logged a batch cannot take it back, so it waits longer than it was told to.
#[test]
fn j7_a_logged_batch_is_let_in_with_more_patience_than_the_caller_has() {
    let disk = with_a_line();
    disk.refuse_nth(2, LOCKED);
    let somebody: Arc<Mutex<Option<Arc<dyn Handle>>>> = Arc::default();
    let (theirs, released) = (somebody.clone(), somebody.clone());
    let commit = disk.sidecar("commit");
    disk.at_nth(3, LOCKED, move || {
        let lock = self::disk().open(&commit, Access::ReadWrite).unwrap();
        lock.lock(Mode::Exclusive).unwrap();
        *theirs.lock().unwrap() = Some(lock);
        Verdict::Go
    });
    disk.at_nth(4, LOCKED, move || {
        wait(Duration::from_millis(30));
        *released.lock().unwrap() = None;
        Verdict::Go
    });
    let write = WriteOptions { wait: Wait::For(Duration::from_millis(5)), ..durable().write };
    let options = AppendOptions { write, ..durable() };
    disk.journal.append(&["second"], &options).unwrap();
    assert_eq!(disk.text(), "first\nsecond\n");
    assert!(somebody.lock().unwrap().is_none(), "it had to wait");
}

#[test]
fn j7_a_batch_whose_sync_cannot_begin_is_logged_and_not_yet_in_the_journal() {
    let disk = with_a_line();
    disk.refuse_nth(1, SYNC_BEGINS);
    let error = disk.journal.append(&["second"], &durable()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(true)), "{error}");
    assert_eq!(disk.text(), "first\n", "not a byte of it before it is durable");
    assert_eq!(disk.head().entries - disk.head().applied, 1);
    let report = disk.journal.verify().unwrap();
    assert_eq!((report.pending, report.entries), (1, 1), "{report:?}");
    disk.take(&[]);
    assert_eq!(disk.journal.append(&["third"], &no_sync()).unwrap().rolled_forward, 0);
    let steps = [LOG_SYNCED, LOGGED, WRITTEN, LOGGED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.take(&CHANGES), steps, "it is synced and let in first, then ours");
    assert_eq!(all(&disk.journal), numbered(&["first", "second", "third"]));
    assert_eq!(disk.text(), "first\nsecond\nthird\n");
}

#[test]
fn j7_a_batch_whose_sync_cannot_begin_is_synced_with_the_next_one() {
    let disk = with_a_line();
    disk.refuse_nth(1, SYNC_BEGINS);
    disk.journal.append(&["second"], &durable()).unwrap_err();
    disk.take(&[]);
    assert_eq!(disk.journal.append(&["third"], &durable()).unwrap().rolled_forward, 0);
    let steps = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.take(&CHANGES), steps, "both in one write");
    assert_eq!(disk.text(), "first\nsecond\nthird\n");
}

/// While the leader syncs, somebody else lets its batch in; another one may wait behind it.
#[test]
fn a_leader_writes_nothing_if_its_batches_were_let_in_by_somebody_else() {
    for behind in [false, true] {
        let disk = with_a_line();
        let other = disk.beside();
        disk.at_next(LOG_SYNCED, move || {
            other.journal.append(&["third"], &no_sync()).unwrap();
            if behind {
                other.refuse_nth(1, SYNC_BEGINS);
                other.journal.append(&["fourth"], &durable()).unwrap_err();
            }
            Verdict::Go
        });
        disk.journal.append(&["second"], &durable()).unwrap();
        assert_eq!(disk.take(&CHANGES), [LOGGED, LOGGED, LOG_SYNCED]);
        assert_eq!(disk.text(), "first\nsecond\nthird\n", "the fourth waits for its sync");
    }
}

/// The leader could not, and when its owner comes to it, it is done.
#[test]
fn a_batch_that_somebody_else_lets_in_at_last_is_not_lost() {
    let disk = with_a_line();
    let other = disk.beside();
    disk.refuse_nth(2, LOCKED);
    disk.at_nth(3, (Op::StatHandle, "record"), move || {
        other.journal.append(&["third"], &no_sync()).unwrap();
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    let looks = disk.take(&[(Op::StatHandle, "record"), LOCKED, WRITTEN]);
    assert_eq!(disk.text(), "first\nsecond\nthird\n", "{looks:?}");
    assert!(!looks.contains(&WRITTEN), "{looks:?}");
}

/// It notes that it begins to write, is paused, and finds that others may be writing, too.
#[test]
fn race_50_a_leader_that_was_paused_while_its_lock_file_went_lets_nobody_in() {
    let disk = with_a_line();
    let commit = disk.sidecar("commit");
    disk.at_nth(3, LOGGED, move || {
        std::fs::remove_file(&commit).unwrap();
        wait(Duration::from_millis(2));
        Verdict::Go
    });
    disk.journal.append(&["second"], &durable()).unwrap();
    let steps = disk.take(&[LOCKED, WRITTEN]);
    assert!(steps.ends_with(&[LOCKED, WRITTEN]) && steps.len() > 3, "{steps:?}");
    assert_eq!(disk.text(), "first\nsecond\n");
}

/// What the log has, it writes again: right after the failure, and whoever syncs next once more, since
/// the first may have died in between.
#[test]
fn race_54_g8_a_failed_sync_is_told_and_its_pages_are_written_again() {
    let disk = with_a_line();
    disk.refuse_nth(1, LOG_SYNCED);
    let error = disk.journal.append(&["second"], &durable()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::NotDurable, Some(true)));
    assert_eq!(disk.text(), "first\nsecond\n", "it is visible all the same");
    let again = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(
        disk.take(&CHANGES),
        again,
        "the entry, its hint, and after the sync both once more"
    );
    disk.journal.append(&["third"], &durable()).unwrap();
    let in_doubt = [LOGGED, LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.take(&CHANGES), in_doubt);
    disk.journal.append(&["fourth"], &durable()).unwrap();
    let sure = [LOGGED, LOGGED, LOG_SYNCED, LOGGED, WRITTEN, LOGGED];
    assert_eq!(disk.take(&CHANGES), sure);
    assert_eq!(all(&disk.journal), numbered(&["first", "second", "third", "fourth"]));
}

/// A process that was paused after it logged a line of its own accord.
#[test]
fn race_50_a_foreign_line_is_not_closed_by_who_has_lost_the_lock() {
    let disk = with_a_line();
    crate::journal::foreign(&disk.log(), "open");
    let commit = disk.sidecar("commit");
    // Noted as foreign with a hint, and then the newline.
    disk.at_nth(3, LOGGED, move || {
        std::fs::remove_file(&commit).unwrap();
        Verdict::Go
    });
    let error = disk.journal.rotate(&WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compromised, "{error}");
    assert_eq!(disk.text(), "first\nopen");
    assert_eq!(disk.take(&[(Op::Write, "journal")]), []);
}
