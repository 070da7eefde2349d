//! Several hosts: the holder parted from the server, members parted from each other, a cable pulled.

use std::time::Duration;

use tenure_engines::{Etcd, EtcdOptions, Network, Postgres, PostgresOptions};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::faults::{Blows, report};
use crate::holders::{client, held, is_refusal, order, take, write, written};
use crate::load::Load;
use crate::scene::{handle, handles, wait, with};

const TTL: Duration = Duration::from_secs(2);

/// The holder on one host loses its server, a client on another host does not: both sides are checked.
fn parted_holder(
    network: &Network,
    url: &str,
    holder: usize,
    servers: &[usize],
    tally: &mut Tally,
) {
    let url = with(url, "ttl=2s");
    let other = network.host(0).run(|| handle(&url));
    for unplug in [false, true] {
        let mut first = client(&url, network.host(holder));
        let fence = held(&mut first);
        assert!(order(&mut first, "write /holders/work 1").starts_with("written "));
        let servers: Vec<usize> = servers.to_vec();
        if unplug {
            network.unplug(holder);
        } else {
            network.split(&[holder], &servers);
        }
        // The other side: the lock is free when the time of the holder is over.
        let next = network.host(0).run(|| take(&other, TTL * 10));
        assert!(next.publish_fence() > fence);
        // This side: the holder finds out without its server.
        let lost = order(&mut first, "verify");
        assert!(is_refusal(&lost), "{lost}");
        let wrote = network.host(0).run(|| write(&other, next.publish_fence(), 2));
        wrote.unwrap_or_else(|error| panic!("{error}"));
        if unplug {
            network.plug(holder);
        } else {
            network.heal_all();
        }
        let late = order(&mut first, "write /holders/work 3");
        assert!(is_refusal(&late), "{late}");
        let released = network.host(0).run(|| next.release());
        released.unwrap_or_else(|error| panic!("{error}"));
        let what =
            if unplug { "cables of a holder pulled" } else { "holders parted from the server" };
        tally.tried(1, what);
    }
    let all = network.host(0).run(|| written(&other));
    assert_eq!(all, [1, 2, 1, 2]);
}

#[test]
fn a_holder_parted_from_postgres_loses_its_lock_on_both_sides() {
    if !Postgres::is_here() || !Network::is_here() {
        return;
    }
    let test = "a_holder_parted_from_postgres_loses_its_lock_on_both_sides";
    let mut tally = Tally::new("stores", test);
    let network = Network::new(3);
    let options = PostgresOptions { host: network.host(1).clone(), ..PostgresOptions::default() };
    let server = Postgres::start_with(options);
    parted_holder(&network, &server.fresh_url(), 2, &[1], &mut tally);
}

#[test]
fn a_holder_parted_from_etcd_loses_its_lock_on_both_sides() {
    if !Etcd::is_here() || !Network::is_here() {
        return;
    }
    let test = "a_holder_parted_from_etcd_loses_its_lock_on_both_sides";
    let mut tally = Tally::new("stores", test);
    let network = Network::new(3);
    let options = EtcdOptions { hosts: vec![network.host(1).clone()], ..EtcdOptions::default() };
    let cluster = Etcd::start_with(1, options);
    parted_holder(&network, &cluster.fresh_url(), 2, &[1], &mut tally);
}

/// Hosts 1 to 3 are the members, host 0 has the clients.
#[test]
fn histories_stay_linearizable_while_members_are_parted() {
    if !Etcd::is_here() || !Network::is_here() {
        return;
    }
    let test = "histories_stay_linearizable_while_members_are_parted";
    let mut tally = Tally::new("stores", test);
    let seed = seed("stores", test);
    let network = Network::new(4);
    let hosts = (1..4).map(|host| network.host(host).clone()).collect();
    let cluster = Etcd::start_with(3, EtcdOptions { hosts, ..EtcdOptions::default() });
    let url = with(&cluster.fresh_url(), "ttl=2s");
    let (counts, blows) = network.host(0).run(|| {
        let mut load = Load::new(handles(&url, 5));
        let (mut random, mut blows) = (Random::new(seed), Blows::new());
        for round in 0..Form::asked().pick(2, 60) {
            let leader = cluster.leader() + 1;
            let others: Vec<usize> = (1..4).filter(|host| *host != leader).collect();
            load.round(seed, || {
                let what = match round % 4 {
                    0 => {
                        // The clients still reach it: what it answers must not be old.
                        network.split(&[leader], &others);
                        "leaders parted from the other members"
                    }
                    1 => {
                        network.split(&[0], &[leader]);
                        "clients parted from the leader"
                    }
                    2 => {
                        network.unplug(leader);
                        "cables of the leader pulled"
                    }
                    _ => {
                        network.lose(others[0], leader);
                        "ways from a member to the leader lost"
                    }
                };
                wait(Duration::from_millis(1500 + random.below(1500)));
                network.heal_all();
                network.plug(leader);
                *blows.entry(what).or_default() += 1;
                wait(Duration::from_millis(300));
            });
        }
        let findings = load.findings();
        let counts = load.counts;
        println!("seed {seed}: {counts:?}; {blows:?}; {:#?}", load.errors);
        assert!(findings.is_empty() && counts.lost == 0, "seed {seed}: {findings:#?}");
        (counts, blows)
    });
    report(&mut tally, &blows);
    tally.tried(counts.acknowledged, "operations acknowledged, none lost");
    tally.tried(counts.ambiguous, "operations without an answer, each done once or never");
}
