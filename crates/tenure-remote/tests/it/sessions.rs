//! Sessions: what a process that was paused, cut off or ended by the server finds out, and what others get.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tenure::options::MaxHold;
use tenure::{
    Cancel, Document, ErrorKind, Lease, LeaseOptions, Lock, LockOptions, Wait, WriteOptions, json,
};
use tenure_remote::RemoteStore;

use crate::memory_engine::{Memory, MemoryEngine};

/// Nothing that works takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to see that a caller waits.
const A_MOMENT: Duration = Duration::from_millis(60);
/// The time to live of a session that is lost in a test.
const SHORT: Duration = Duration::from_millis(300);
/// The time to live of a session that is not.
const LONG: Duration = Duration::from_secs(60);

fn store(memory: &Arc<Memory>, ttl: Duration) -> RemoteStore {
    RemoteStore::with_ttl(Arc::new(MemoryEngine(memory.clone())), ttl)
}

fn lock(store: &RemoteStore) -> Lock {
    Lock::on(store, "/target").expect("a lock")
}

fn trying() -> LockOptions {
    LockOptions { wait: Wait::No, ..LockOptions::default() }
}

fn waiting() -> LockOptions {
    LockOptions { wait: Wait::For(PATIENCE), ..LockOptions::default() }
}

#[test]
fn a_lock_is_lost_when_its_session_is_not_renewed() {
    let memory = Memory::new();
    let (paused, other) = (store(&memory, SHORT), store(&memory, LONG));
    let guard = lock(&paused).acquire(&trying()).expect("the lock is free");
    let loss = guard.loss().expect("a hold that can be lost");
    assert!(!loss.wait(2 * SHORT), "a session that is renewed is not lost");
    guard.verify().expect("the lock is held");
    memory.no_renewals.store(true, Ordering::SeqCst);
    let began = Instant::now();
    assert!(loss.wait(PATIENCE), "the loss is signalled");
    assert!(began.elapsed() < PATIENCE, "the loss is signalled at its time");
    assert_eq!(guard.verify().expect_err("it is lost").kind(), ErrorKind::LeaseLost);
    let next = lock(&other).acquire(&waiting()).expect("the lock is free after the time to live");
    let former = next.recovered_from().expect("the former holder did not release it");
    assert_eq!(former.fence, guard.publish_fence());
    assert!(next.publish_fence() > guard.publish_fence());
    let document = Document::on(&paused, "/target").expect("a document");
    let fence = Some(guard.publish_fence());
    let proven = WriteOptions { fence, ..WriteOptions::default() };
    let refused = document.set(&json!(1), &proven).expect_err("a write of the former holder");
    assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
    assert_eq!(guard.release().expect_err("it was lost").kind(), ErrorKind::LeaseLost);
    next.verify().expect("a late release touches only its own");
    next.release().expect("it is held");
}

#[test]
fn a_session_that_the_server_ended_is_lost_at_its_next_renewal() {
    let memory = Memory::new();
    let store = store(&memory, 4 * SHORT);
    let guard = lock(&store).acquire(&trying()).expect("the lock is free");
    memory.end_sessions();
    let loss = guard.loss().expect("a hold that can be lost");
    assert!(loss.wait(PATIENCE), "the loss is signalled");
    assert_eq!(guard.verify().expect_err("it is lost").kind(), ErrorKind::LeaseLost);
    drop(guard);
    let again = lock(&store).acquire(&trying()).expect("another session");
    assert!(!again.loss().expect("it can be lost").wait(A_MOMENT), "the new session lives");
    again.release().expect("it is held");
}

#[test]
fn a_lock_that_the_server_forgot_in_a_failover_is_lost_and_the_others_are_not() {
    let memory = Memory::new();
    let store = store(&memory, SHORT);
    let guard = lock(&store).acquire(&trying()).expect("the lock is free");
    let another = Lock::on(&store, "/another").expect("a lock");
    let another = another.acquire(&trying()).expect("the lock is free");
    memory.forget_hold("/target");
    assert!(guard.loss().expect("it can be lost").wait(PATIENCE), "the loss is signalled");
    assert_eq!(guard.verify().expect_err("it is lost").kind(), ErrorKind::LeaseLost);
    assert!(!another.loss().expect("it can be lost").wait(2 * SHORT), "the server knows it");
    another.verify().expect("it is held");
    let again = lock(&store).acquire(&trying()).expect("it is free, also for this thread");
    assert_eq!(guard.release().expect_err("it was lost").kind(), ErrorKind::LeaseLost);
    again.verify().expect("a late release touches only its own");
}

#[test]
fn a_released_lock_is_never_lost() {
    let memory = Memory::new();
    let store = store(&memory, SHORT);
    let guard = lock(&store).acquire(&trying()).expect("the lock is free");
    let loss = guard.loss().expect("a hold that can be lost");
    guard.release().expect("it is held");
    memory.end_sessions();
    assert!(!loss.wait(2 * SHORT), "a released lock is not lost with its session");
}

#[test]
fn a_hold_that_its_limit_ended_is_lost() {
    let store = store(&Memory::new(), LONG);
    let report: Arc<dyn Fn(&std::path::Path) + Send + Sync> = Arc::new(|_| {});
    let limit = MaxHold { after: A_MOMENT, end: true, report };
    let options = LockOptions { max_hold: Some(limit), ..trying() };
    let guard = lock(&store).acquire(&options).expect("the lock is free");
    assert!(guard.loss().expect("it can be lost").wait(PATIENCE), "the end is signalled");
    assert_eq!(guard.release().expect_err("it was ended").kind(), ErrorKind::Fenced);
}

#[test]
fn a_release_that_failed_is_done_later() {
    let memory = Memory::new();
    let (store, other) = (store(&memory, SHORT), store(&memory, LONG));
    for keeps_another in [false, true] {
        let another = Lock::on(&store, "/another").expect("a lock");
        let another = keeps_another.then(|| another.acquire(&trying()).expect("a free lock"));
        let guard = lock(&store).acquire(&waiting()).expect("the lock is free");
        memory.lose_releases.store(1, Ordering::SeqCst);
        assert_eq!(guard.release().expect_err("the server is away").kind(), ErrorKind::Io);
        let next = lock(&other).acquire(&waiting()).expect("the lock is given back");
        next.release().expect("it is held");
        if let Some(guard) = &another {
            guard.verify().expect("the other lock is still held");
        }
    }
}

#[test]
fn a_waiter_whose_session_was_lost_joins_the_queue_again() {
    let memory = Memory::new();
    let (holder, waiter) = (store(&memory, LONG), store(&memory, SHORT));
    let guard = lock(&holder).acquire(&trying()).expect("the lock is free");
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| answer.send(lock(&waiter).acquire(&waiting()).map(drop)));
        answered.recv_timeout(A_MOMENT).expect_err("it waits");
        memory.end_sessions();
        let taken = answered.recv_timeout(PATIENCE).expect("an answer");
        taken.expect("the lock, with another session");
        // The holder has lost it, too, and learns that from the server before its own clock says it.
        assert!(guard.verify().is_err(), "the lock was another's");
    });
}

#[test]
fn a_waiter_outlives_an_outage_that_its_session_outlives() {
    let memory = Memory::new();
    let (holder, waiter) = (store(&memory, LONG), store(&memory, SHORT));
    let guard = lock(&holder).acquire(&trying()).expect("the lock is free");
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| answer.send(lock(&waiter).acquire(&waiting()).map(drop)));
        answered.recv_timeout(A_MOMENT).expect_err("it waits");
        memory.no_looks.store(true, Ordering::SeqCst);
        answered.recv_timeout(2 * SHORT).expect_err("it waits still");
        let refused = lock(&waiter).acquire(&trying()).expect_err("a caller that comes now");
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
        memory.no_looks.store(false, Ordering::SeqCst);
        guard.release().expect("it is held");
        let taken = answered.recv_timeout(PATIENCE).expect("an answer");
        taken.expect("the lock");
    });
}

#[test]
fn one_session_serves_all_locks_and_ends_with_the_store() {
    let memory = Memory::new();
    let store = store(&memory, LONG);
    let lease = Lease::on(&store, "/lease").expect("a lease");
    let terms = LeaseOptions { ttl: LONG, wait: Wait::No, ..LeaseOptions::default() };
    lease.acquire(&terms).expect("a free lease");
    Document::on(&store, "/a")
        .expect("one")
        .set(&json!(1), &WriteOptions::default())
        .expect("a write");
    assert_eq!(memory.sessions(), 0, "what neither waits nor locks needs no session");
    let names = ["/1", "/2", "/3"];
    let guards = names.map(|name| {
        Lock::on(&store, name).expect("a lock").acquire(&trying()).expect("a free lock")
    });
    assert_eq!(memory.sessions(), 1);
    drop(guards);
    assert_eq!(memory.sessions(), 1, "the next lock needs it");
    drop((lease, store));
    assert_eq!(memory.sessions(), 0);
}

#[test]
fn an_idle_session_is_closed() {
    let memory = Memory::new();
    let store = store(&memory, SHORT);
    lock(&store).acquire(&trying()).expect("the lock is free").release().expect("it is held");
    let began = Instant::now();
    while memory.sessions() > 0 {
        assert!(began.elapsed() < PATIENCE, "an idle session is not closed");
        thread::park_timeout(Duration::from_millis(5));
    }
    let requests = memory.requests();
    thread::park_timeout(2 * SHORT);
    assert_eq!(memory.requests(), requests, "an idle store sends nothing");
}

#[test]
fn a_wait_sends_few_requests_and_ends_when_it_is_cancelled() {
    let memory = Memory::new();
    let (store, other) = (store(&memory, LONG), store(&memory, LONG));
    let guard = lock(&store).acquire(&trying()).expect("the lock is free");
    let cancel = Cancel::new();
    let options = LockOptions { cancel: Some(cancel.clone()), ..waiting() };
    let before = memory.requests();
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| answer.send(lock(&other).acquire(&options).map(drop)));
        answered.recv_timeout(5 * A_MOMENT).expect_err("it waits");
        cancel.cancel();
        let refused = answered.recv_timeout(PATIENCE).expect("an answer").expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::Cancelled, "{refused}");
    });
    // A session, a ticket, a watch, a look, and the way out.
    let requests = memory.requests() - before;
    assert!(requests <= 6, "{requests} requests of one wait");
    guard.release().expect("it is held");
    drop(lock(&store).acquire(&trying()).expect("the waiter has left the queue"));
}

#[test]
fn an_error_names_the_store_and_the_target() {
    let memory = Memory::new();
    let store = store(&memory, LONG);
    let _guard = lock(&store).acquire(&trying()).expect("the lock is free");
    let other = RemoteStore::with_ttl(Arc::new(MemoryEngine(memory)), LONG);
    let busy = lock(&other).acquire(&trying()).expect_err("it is held");
    let fenced = LockOptions { fence: Some(1), ..trying() };
    let fenced = lock(&other).acquire(&fenced).expect_err("an old fence");
    for error in [busy, fenced] {
        let line = error.to_string();
        assert!(line.contains("/target") && line.contains(store.name()), "{line}");
        assert!(error.holder().is_some() && error.next_step().is_some(), "{line}");
    }
}
