//! A process that was paused beyond the time to live of its session, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tenure::status::HoldState;
use tenure::{
    Document, ErrorKind, Guard, LeaseOptions, Lock, LockOptions, Wait, WriteOptions, json,
    store::Store,
};
use tenure_remote::RemoteStore;

const PATIENCE: Duration = Duration::from_secs(30);
/// As the URLs below say.
const TTL: Duration = Duration::from_secs(2);

fn lock(store: &RemoteStore) -> Lock {
    Lock::on(store, "/target").expect("a lock")
}

fn waiting() -> LockOptions {
    LockOptions { wait: Wait::For(PATIENCE), ..LockOptions::default() }
}

/// `paused` stops to renew its session when `is_paused` is set; `other` goes on.
fn a_paused_holder_is_fenced(paused: &RemoteStore, other: &RemoteStore, is_paused: &AtomicBool) {
    other.init().expect("the server answers");
    let options = LockOptions { label: "paused".to_owned(), ..waiting() };
    let guard = lock(paused).acquire(&options).expect("the lock is free");
    let fence = guard.publish_fence();
    let document = Document::on(paused, "/target").expect("a document");
    let elsewhere = Document::on(paused, "/elsewhere").expect("a document");
    let proven = WriteOptions { fence: Some(fence), ..WriteOptions::default() };
    let guards = vec![Guard { target: "/target".into(), fence }];
    let guarded = WriteOptions { guards, ..WriteOptions::default() };
    document.set(&json!(1), &proven).expect("a write of the holder");
    elsewhere.set(&json!(1), &guarded).expect("a guarded write of the holder");
    let loss = guard.loss().expect("a hold that can be lost");
    assert!(!loss.wait(2 * TTL), "a session that is renewed is not lost");
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| answer.send(lock(other).acquire(&waiting())));
        is_paused.store(true, Ordering::SeqCst);
        let began = Instant::now();
        assert!(loss.wait(PATIENCE), "the loss is signalled");
        assert!(began.elapsed() < 2 * TTL, "the loss is signalled at its time");
        // The server never frees the lock before its holder knows.
        let next = answered.recv_timeout(PATIENCE).expect("an answer").expect("the lock");
        let former = next.recovered_from().expect("the former holder did not release it");
        assert_eq!((former.pid, former.label.as_str()), (std::process::id(), "paused"));
        assert!(next.publish_fence() > fence);
        for options in [&proven, &guarded] {
            let document = if options.fence.is_some() { &document } else { &elsewhere };
            let refused = document.set(&json!(2), options).expect_err("a former holder");
            assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
        }
        assert_eq!(guard.verify().expect_err("it is lost").kind(), ErrorKind::LeaseLost);
        assert_eq!(guard.release().expect_err("it was lost").kind(), ErrorKind::LeaseLost);
        next.verify().expect("a late release touches only its own");
        next.release().expect("it is held");
    });
    // What the paused process left behind is in the way of no caller.
    let status = other.open("/target".as_ref()).and_then(|target| target.status());
    assert_eq!(status.expect("a status").state, HoldState::Free);
    let lease = tenure::Lease::on(other, "/target").expect("a lease");
    let terms = LeaseOptions { ttl: TTL, wait: Wait::No, ..LeaseOptions::default() };
    assert!(lease.acquire(&terms).expect("it is free").fence > fence);
}

#[cfg(feature = "postgres")]
#[test]
fn a_paused_holder_is_fenced_on_postgres() {
    use tenure_remote::postgres::PostgresEngine;
    if tenure_engines::Postgres::is_here() {
        let url = format!("{}&ttl=2s", tenure_engines::Postgres::shared().fresh_url());
        let is_paused = Arc::new(AtomicBool::new(false));
        let paused = crate::armed_engine::pausable(&url, PostgresEngine::connect, &is_paused);
        let other = tenure_remote::open_apart(&url).expect("a store");
        a_paused_holder_is_fenced(&paused, &other, &is_paused);
    }
}

#[cfg(feature = "etcd")]
#[test]
fn a_paused_holder_is_fenced_on_etcd() {
    use tenure_remote::etcd::EtcdEngine;
    if tenure_engines::Etcd::is_here() {
        let url = format!("{}?ttl=2s", tenure_engines::Etcd::shared().fresh_url());
        let is_paused = Arc::new(AtomicBool::new(false));
        let paused = crate::armed_engine::pausable(&url, EtcdEngine::connect, &is_paused);
        let other = tenure_remote::open_apart(&url).expect("a store");
        a_paused_holder_is_fenced(&paused, &other, &is_paused);
    }
}
