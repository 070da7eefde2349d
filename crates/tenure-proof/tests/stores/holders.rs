//! Holders that are paused, killed or left alone by the server, for longer than their session lives: the next one gets
//! the lock, and the former one is refused.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tenure::{
    AppendOptions, ErrorKind, Guard, Journal, Lock, LockGuard, LockOptions, Wait, WriteOptions,
};
use tenure_engines::{Etcd, Host, Postgres, Proxy};
use tenure_proof::Tally;
use tenure_proof::live::Live;
use tenure_remote::RemoteStore;

use crate::load::{entries_and_gaps, recovered};
use crate::scene::{handle, wait, with};

/// The session of every holder here.
const TTL: Duration = Duration::from_secs(2);
const LOCK: &str = "/holders/lock";
const WORK: &str = "/holders/work";

/// A process on this host that uses the store.
pub(crate) fn client(url: &str, host: &Host) -> Live {
    let program = env!("CARGO_BIN_EXE_store_client");
    let mut command = host.command(program);
    command.arg(url);
    let live = Live::start(command);
    assert_eq!(live.line().as_deref(), Some("ready"));
    live
}

/// Gives an order, and returns the answer.
pub(crate) fn order(client: &mut Live, order: &str) -> String {
    client.say(order);
    client.line().expect("an answer")
}

/// Takes the lock with a process, and returns its fence.
pub(crate) fn held(client: &mut Live) -> u64 {
    let answer = order(client, &format!("lock {LOCK}"));
    answer.strip_prefix("held ").and_then(|fence| fence.parse().ok()).expect(&answer)
}

/// Takes the lock in this process.
pub(crate) fn take(store: &RemoteStore, longest: Duration) -> LockGuard {
    let options = LockOptions { wait: Wait::For(longest), ..LockOptions::default() };
    let lock = Lock::on(store, LOCK).expect("a name");
    lock.acquire(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Appends under the hold with this fence.
pub(crate) fn write(store: &RemoteStore, fence: u64, value: u64) -> tenure::Result<u64> {
    let guards = vec![Guard { target: LOCK.into(), fence }];
    let write = WriteOptions { guards, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    Ok(Journal::on(store, WORK)?.append(&[value.to_string()], &options)?.last)
}

/// What was written, in order.
pub(crate) fn written(store: &RemoteStore) -> Vec<u64> {
    let (lines, _) = recovered(|| entries_and_gaps(store, WORK, 0));
    lines.into_iter().map(|(_, value)| value).collect()
}

/// Whether an answer says that the hold is over.
pub(crate) fn is_refusal(answer: &str) -> bool {
    answer.starts_with("error fenced:") || answer.starts_with("error lease_lost:")
}

/// A process that holds the lock stands still, and another one waits for it.
fn paused_holder(url: &str, tally: &mut Tally) {
    let url = with(url, "ttl=2s");
    let other = handle(&url);
    let mut first = client(&url, &Host::default());
    let fence = held(&mut first);
    assert!(order(&mut first, &format!("write {WORK} 1")).starts_with("written "));
    let pid = Pid::from_raw(i32::try_from(first.pid()).expect("a number")).expect("not zero");
    kill_process(pid, Signal::STOP).expect("it runs");
    let begin = Instant::now();
    let guard = take(&other, TTL * 8);
    let (waited, next) = (begin.elapsed(), guard.publish_fence());
    assert!(waited > TTL / 3, "freed after {waited:?}, before its time was over");
    assert!(next > fence, "{next} after {fence}");
    assert!(guard.recovered_from().is_some(), "the holder before did not release it");
    write(&other, next, 2).unwrap_or_else(|error| panic!("{error}"));
    kill_process(pid, Signal::CONT).expect("it runs");
    let late = order(&mut first, &format!("write {WORK} 3"));
    assert!(is_refusal(&late), "{late}");
    let loose = order(&mut first, "loose /holders/loose 3");
    assert!(
        loose.starts_with("written "),
        "a write that proves nothing is late, and is done: {loose}"
    );
    tally.caught("a paused holder that writes without its fence");
    let lost = order(&mut first, "verify");
    assert!(is_refusal(&lost), "{lost}");
    let lost = order(&mut first, "release");
    assert!(is_refusal(&lost), "{lost}");
    guard.release().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(written(&other), [1, 2]);
    tally.tried(1, "lock holders paused beyond their time, then refused");
    // Death frees by the time to live.
    let mut second = client(&url, &Host::default());
    let fence = held(&mut second);
    second.kill();
    let guard = take(&other, TTL * 8);
    assert!(guard.publish_fence() > fence);
    tally.tried(1, "lock holders killed");
}

/// The server stands still for longer than a session lives: the holder knows that it cannot be sure, and after the
/// pause at most one hold is valid.
fn paused_server(url: &str, pause: impl FnOnce(), resume: impl FnOnce(), tally: &mut Tally) {
    let url = with(url, "ttl=2s");
    let (one, other) = (handle(&url), handle(&url));
    let guard = take(&one, TTL);
    let fence = guard.publish_fence();
    pause();
    wait(TTL + TTL / 2);
    let lost = guard.verify().expect_err("nothing was renewed for longer than the time to live");
    assert!(matches!(lost.kind(), ErrorKind::LeaseLost | ErrorKind::Fenced), "{lost}");
    resume();
    let next = recovered(|| {
        let options = LockOptions { wait: Wait::For(TTL * 4), ..LockOptions::default() };
        Lock::on(&other, LOCK)?.acquire(&options)
    });
    assert!(next.publish_fence() > fence);
    let refused = write(&one, fence, 9).expect_err("the hold is over");
    assert!(matches!(refused.kind(), ErrorKind::LeaseLost | ErrorKind::Fenced), "{refused}");
    write(&other, next.publish_fence(), 4).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(written(&other), [4]);
    tally.tried(1, "servers paused beyond the time of a holder");
}

/// A client that is cut off for less than its time keeps its lock; one that is cut off for longer has lost it.
fn cut_off(url: &str, proxy: &Proxy, direct: &str, tally: &mut Tally) {
    let (one, other) = (handle(&with(url, "ttl=3s")), handle(&with(direct, "ttl=3s")));
    let guard = take(&one, TTL);
    let fence = guard.publish_fence();
    proxy.swallow();
    wait(Duration::from_millis(700));
    proxy.heal();
    recovered(|| write(&one, fence, 1));
    guard.verify().unwrap_or_else(|error| panic!("cut off for a moment only: {error}"));
    proxy.swallow();
    let next = take(&other, TTL * 8);
    guard.verify().expect_err("another one has it");
    write(&other, next.publish_fence(), 2).unwrap_or_else(|error| panic!("{error}"));
    proxy.heal();
    let refused = write(&one, fence, 3).expect_err("the hold is over");
    assert!(matches!(refused.kind(), ErrorKind::LeaseLost | ErrorKind::Fenced), "{refused}");
    assert_eq!(written(&other), [1, 2]);
    tally.tried(1, "holders cut off from their server");
}

#[test]
fn a_paused_or_killed_holder_on_postgres_is_replaced_and_refused() {
    if Postgres::is_here() {
        let test = "a_paused_or_killed_holder_on_postgres_is_replaced_and_refused";
        paused_holder(&Postgres::shared().fresh_url(), &mut Tally::new("stores", test));
    }
}

#[test]
fn a_paused_or_killed_holder_on_etcd_is_replaced_and_refused() {
    if Etcd::is_here() {
        let test = "a_paused_or_killed_holder_on_etcd_is_replaced_and_refused";
        paused_holder(&Etcd::shared().fresh_url(), &mut Tally::new("stores", test));
    }
}

#[test]
fn a_paused_postgres_server_ends_a_hold() {
    if Postgres::is_here() {
        let mut tally = Tally::new("stores", "a_paused_postgres_server_ends_a_hold");
        let server = Postgres::start();
        paused_server(&server.fresh_url(), || server.pause(), || server.resume(), &mut tally);
    }
}

#[test]
fn a_paused_etcd_server_ends_a_hold() {
    if Etcd::is_here() {
        let mut tally = Tally::new("stores", "a_paused_etcd_server_ends_a_hold");
        let cluster = Etcd::start(1);
        paused_server(&cluster.fresh_url(), || cluster.pause(0), || cluster.resume(0), &mut tally);
    }
}

#[test]
fn a_holder_that_is_cut_off_from_postgres_knows_it() {
    if Postgres::is_here() {
        let mut tally = Tally::new("stores", "a_holder_that_is_cut_off_from_postgres_knows_it");
        let server = Postgres::shared();
        let (proxy, schema) = (Proxy::start(&server.address()), Postgres::fresh_schema());
        let url = |address: &str| format!("{}?schema={schema}", server.url_at(address));
        cut_off(&url(&proxy.address()), &proxy, &url(&server.address()), &mut tally);
    }
}

#[test]
fn a_holder_that_is_cut_off_from_etcd_knows_it() {
    if Etcd::is_here() {
        let mut tally = Tally::new("stores", "a_holder_that_is_cut_off_from_etcd_knows_it");
        let cluster = Etcd::shared();
        let (proxy, prefix) = (Proxy::start(&cluster.address(0)), Etcd::fresh_prefix());
        let url = |address: &str| format!("{}/{prefix}", cluster.url_at(address));
        cut_off(&url(&proxy.address()), &proxy, &url(&cluster.address(0)), &mut tally);
    }
}
