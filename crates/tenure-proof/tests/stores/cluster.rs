//! An etcd cluster without a majority, and with a member whose disk is an old copy.

use std::time::{Duration, Instant};

use tenure::{AppendOptions, ErrorKind, Journal, Wait, WriteOptions};
use tenure_engines::Etcd;
use tenure_proof::Tally;
use tenure_remote::RemoteStore;

use crate::load::{changed_nothing, entries, recovered};
use crate::scene::handle;

const LOG: &str = "/cluster/log";

fn append(store: &RemoteStore, value: u64) -> tenure::Result<u64> {
    let write = WriteOptions { wait: Wait::For(Duration::from_secs(2)), ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    Ok(Journal::on(store, LOG)?.append(&[value.to_string()], &options)?.last)
}

#[test]
fn without_a_majority_nothing_is_acknowledged_and_nothing_is_lost() {
    if !Etcd::is_here() {
        return;
    }
    let test = "without_a_majority_nothing_is_acknowledged_and_nothing_is_lost";
    let mut tally = Tally::new("stores", test);
    let mut cluster = Etcd::start(3);
    let store = handle(&cluster.fresh_url());
    let acknowledged = append(&store, 1).unwrap_or_else(|error| panic!("{error}"));
    let leader = cluster.leader();
    cluster.kill(leader);
    cluster.kill((leader + 1) % 3);
    let begin = Instant::now();
    let (refused, stale) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| entries(&store, LOG, 0));
        (append(&store, 2), reader.join().expect("it ends"))
    });
    let error = refused.expect_err("one of three");
    let (text, took) = (error.to_string(), begin.elapsed());
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert_eq!(error.kind(), ErrorKind::Io, "{text}");
    assert!(stale.is_err(), "a reader must not get what may be old: {stale:?}");
    println!("without a majority, after {took:?}: {text}");
    cluster.launch(leader);
    cluster.restart((leader + 1) % 3);
    cluster.wait(leader);
    recovered(|| append(&store, 3));
    let there = recovered(|| entries(&store, LOG, 0));
    assert_eq!(there[0], (acknowledged, 1));
    let values: Vec<u64> = there.iter().map(|(_, value)| *value).collect();
    assert!(values == [1, 3] || (values == [1, 2, 3] && !changed_nothing(&error)), "{values:?}");
    tally.tried(1, "clusters without a majority");
}

#[test]
fn a_member_on_an_old_copy_of_its_data_takes_nothing_back() {
    if !Etcd::is_here() {
        return;
    }
    let test = "a_member_on_an_old_copy_of_its_data_takes_nothing_back";
    let mut tally = Tally::new("stores", test);
    let mut cluster = Etcd::start(3);
    let store = handle(&cluster.fresh_url());
    append(&store, 0).unwrap_or_else(|error| panic!("{error}"));
    let old = (cluster.leader() + 1) % 3;
    cluster.kill(old);
    cluster.keep(old);
    cluster.restart(old);
    let mut acknowledged = Vec::new();
    for value in 1..60 {
        acknowledged.push((recovered(|| append(&store, value)), value));
    }
    cluster.kill(old);
    cluster.roll_back(old);
    // It catches up, or refuses to run. The other two go on either way.
    cluster.launch(old);
    for value in 60..90 {
        acknowledged.push((recovered(|| append(&store, value)), value));
    }
    let there = recovered(|| entries(&store, LOG, 0));
    let lost: Vec<_> = acknowledged.iter().filter(|entry| !there.contains(entry)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    tally.tried(1, "etcd members started with an old copy of their data");
    tally.tried(acknowledged.len() as u64, "entries acknowledged beside such a member, none lost");
}
