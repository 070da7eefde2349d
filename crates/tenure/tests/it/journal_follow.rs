//! Following a journal: entries as they appear, each once, from any number on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{ErrorKind, Follow, Journal, Wait};

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::journal::no_sync;
use crate::journal_read::{Log, alter, write};
use crate::scratch::FAR_TOO_LONG;

/// The number of the next entry that is there.
fn at_hand(follow: &mut Follow) -> Option<u64> {
    follow.next(Wait::No).unwrap().map(|entry| entry.seq)
}

#[test]
fn a_follower_says_where_to_resume() {
    let log = Log::new();
    log.append(&["one", "two", "three"]);
    for (from, first) in [(0, Some(1)), (1, Some(1)), (3, Some(3)), (4, None), (9, None)] {
        let mut follow = log.journal.follow(from).unwrap();
        assert_eq!(follow.position(), from);
        assert_eq!(at_hand(&mut follow), first, "{from}");
        assert_eq!(follow.position(), first.map_or(from, |seq| seq + 1), "{from}");
    }
    let mut follow = log.journal.follow(2).unwrap();
    assert_eq!(
        (at_hand(&mut follow), at_hand(&mut follow), follow.position()),
        (Some(2), Some(3), 4)
    );
    let mut resumed = log.journal.follow(follow.position()).unwrap();
    log.append(&["four"]);
    log.rotate();
    log.append(&["five"]);
    for follow in [&mut follow, &mut resumed] {
        assert_eq!([(); 3].map(|()| at_hand(follow)), [Some(4), Some(5), None]);
        assert_eq!(follow.position(), 6);
    }
    log.journal.compact(&write(), |_| false).unwrap();
    log.foreign("six\n");
    assert_eq!((at_hand(&mut follow), at_hand(&mut follow)), (Some(6), None));
}

#[test]
fn a_follower_tells_damage_each_time_and_skips_nothing() {
    let log = Log::new();
    log.append(&["one", "two"]);
    log.repair();
    let mut early = log.journal.follow(1).unwrap();
    assert_eq!(at_hand(&mut early), Some(1));
    alter(&log.path(), 3, b'x');
    assert_eq!(at_hand(&mut early), Some(2), "what was read before the damage");
    let mut late = log.journal.follow(2).unwrap();
    for _ in 0..2 {
        assert_eq!(late.next(Wait::No).unwrap_err().kind(), ErrorKind::Damaged);
        assert_eq!(late.position(), 2);
    }
}

/// Waits for entries that come later, in a directory that nothing was ever written to.
#[test]
fn a_follower_waits_for_the_first_entry_and_for_the_next() {
    let log = Log::new();
    let mut follow = log.journal.follow(1).unwrap();
    assert_eq!(at_hand(&mut follow), None);
    for seq in 1..=3 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let journal = Journal::open(log.path()).unwrap();
                journal.append(&["line"], &no_sync()).unwrap();
            });
            let entry = follow.next(Wait::For(FAR_TOO_LONG)).unwrap().expect("it comes");
            assert_eq!((entry.seq, entry.line.as_slice()), (seq, b"line".as_slice()));
        });
    }
    thread::scope(|scope| {
        scope.spawn(|| log.foreign("theirs\n"));
        assert_eq!(follow.next(Wait::Forever).unwrap().unwrap().seq, 4);
    });
}

/// A wait that is over is over, whatever the follower looks at meanwhile.
#[test]
fn a_follower_waits_as_long_as_it_was_told_to() {
    let log = Log::new();
    log.append(&["one"]);
    let mut follow = log.journal.follow(2).unwrap();
    let short = Duration::from_millis(20);
    let mut took = Vec::new();
    for _ in 0..5 {
        let since = Instant::now();
        assert_eq!(follow.next(Wait::For(short)).unwrap(), None);
        took.push(since.elapsed());
    }
    assert!(took.iter().all(|time| *time >= short), "{took:?}");
    assert!(took.iter().any(|time| *time < Duration::from_millis(300)), "{took:?}");
}

/// It sleeps until something changes in the directory, and looks before and after.
#[test]
fn a_follower_that_waits_does_not_spin() {
    let log = Log::new();
    log.append(&["one"]);
    let (path, looks) = (log.path(), Arc::new(AtomicUsize::new(0)));
    let counted = looks.clone();
    let fs = FaultyFs::new(move |op, file| {
        if op == Op::Open(Change::Never) && file == path {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Verdict::Go
    });
    let journal = Journal::open_on(&fs.shared(), &log.path()).unwrap();
    let mut follow = journal.follow(2).unwrap();
    assert_eq!(follow.next(Wait::For(Duration::from_millis(250))).unwrap(), None);
    assert!(looks.load(Ordering::SeqCst) <= 12, "{looks:?}");
}
