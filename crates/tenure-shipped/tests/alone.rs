//! Alone, every protocol keeps its promise. So its failures elsewhere come from concurrency, not
//! from a mistake in the re-implementation.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tenure_shipped::documents::{
    CachedStore, FixedTemporary, RoundTrip, SaveWithoutLock, Session, State,
};
use tenure_shipped::locks::{
    GivesIn, GuardedLock, JournalLock, MtimeLock, ReentrantLock, SessionLock, SpinningLock,
    Unstamped, Watchdog, lock_file,
};
use tenure_shipped::logs::{self, CachedNumber, NotedLength, PlainAppend, TwoWrites};
use tenure_shipped::state::{self, Content};
use tenure_shipped::{Document, Lock, Log};

/// Opens a protocol in a directory.
type Open<P> = fn(&Path) -> Box<P>;

fn scratch() -> TempDir {
    let directory = TempDir::new().unwrap();
    Content::KeysOnly.create(directory.path()).unwrap();
    directory
}

#[test]
fn documents_keep_what_was_added() {
    let open: [Open<dyn Document>; 6] = [
        |directory| Box::new(State::open(directory, 1)),
        |directory| Box::new(Session::open(directory)),
        |directory| Box::new(SaveWithoutLock::open(directory)),
        |directory| Box::new(CachedStore::open(directory)),
        |directory| Box::new(FixedTemporary::open(directory)),
        |directory| Box::new(RoundTrip::open(directory)),
    ];
    for (number, open) in open.into_iter().enumerate() {
        let directory = scratch();
        let mut document = open(directory.path());
        document.add("a").unwrap();
        document.add("b").unwrap();
        let after = state::read(&state::path(directory.path())).unwrap();
        assert_eq!(state::keys(&after).collect::<Vec<_>>(), ["a", "b"], "document {number}");
    }
}

#[test]
fn locks_are_entered_and_left() {
    let open: [Open<dyn Lock>; 8] = [
        |directory| Box::new(SessionLock::open(directory).unwrap()),
        |directory| Box::new(JournalLock::open(directory, 1, Unstamped::Waits).unwrap()),
        |directory| Box::new(JournalLock::open(directory, 1, Unstamped::IsDead).unwrap()),
        |directory| Box::new(MtimeLock::open(directory)),
        |directory| Box::new(GuardedLock::open(directory).unwrap()),
        |directory| Box::new(GivesIn::open(directory)),
        |directory| Box::new(ReentrantLock::open(directory).unwrap()),
        |directory| Box::new(SpinningLock::open(directory)),
    ];
    for (number, open) in open.into_iter().enumerate() {
        let directory = scratch();
        let mut lock = open(directory.path());
        for _ in 0..2 {
            lock.enter().unwrap();
            assert!(lock_file(directory.path()).exists(), "lock {number}");
            lock.leave().unwrap();
            assert!(!lock_file(directory.path()).exists(), "lock {number}");
        }
    }
}

#[test]
fn a_watchdog_ends_what_it_noted() {
    let directory = scratch();
    SessionLock::open(directory.path()).unwrap().enter().unwrap();
    let mut watchdog = Watchdog::default();
    watchdog.note(lock_file(directory.path()));
    assert_eq!(watchdog.round().unwrap(), 1);
    assert_eq!(watchdog.round().unwrap(), 0, "once");
    assert!(!lock_file(directory.path()).exists());
}

#[test]
fn a_heartbeat_in_time_keeps_the_lock() {
    let directory = scratch();
    let mut lock = MtimeLock::open(directory.path());
    lock.enter().unwrap();
    lock.pause(Duration::from_secs(5)).unwrap();
    lock.heartbeat().unwrap();
}

#[test]
fn logs_have_every_line() {
    let open: [Open<dyn Log>; 4] = [
        |directory| Box::new(TwoWrites::open(directory)),
        |directory| Box::new(PlainAppend::open(directory)),
        |directory| Box::new(CachedNumber::open(directory)),
        |directory| Box::new(NotedLength::open(directory)),
    ];
    for (number, open) in open.into_iter().enumerate() {
        let directory = scratch();
        let mut log = open(directory.path());
        log.append("a").unwrap();
        log.append("b").unwrap();
        let content = std::fs::read_to_string(logs::path(directory.path())).unwrap();
        assert_eq!(content.lines().count(), 2, "log {number}");
    }
}
