//! What can go wrong with a server under load, drawn by a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_engines::{Etcd, Postgres, Proxy, Way};
use tenure_proof::Tally;
use tenure_testkit::Random;

use crate::scene::wait;

/// How often each fault was done.
pub(crate) type Blows = BTreeMap<&'static str, u64>;

/// Adds them to the record.
pub(crate) fn report(tally: &mut Tally, blows: &Blows) {
    for (what, times) in blows {
        tally.tried(*times, what);
    }
}

/// A fault of the network before one server.
pub(crate) fn disturb_network(proxy: &Proxy, kind: u64, random: &mut Random, blows: &mut Blows) {
    let way = if random.coin() { Way::Requests } else { Way::Replies };
    let what = match kind % 6 {
        0 => {
            proxy.cut_all();
            "connections cut"
        }
        1 => {
            for _ in 0..6 {
                proxy.cut_after(way, random.below(400));
                wait(Duration::from_millis(20));
            }
            "connections cut at a byte"
        }
        2 => {
            for _ in 0..6 {
                proxy.lose_reply();
                wait(Duration::from_millis(20));
            }
            "replies lost"
        }
        3 => {
            for _ in 0..6 {
                proxy.half_close_after(way, random.below(400));
                wait(Duration::from_millis(20));
            }
            "connections half-closed"
        }
        4 => {
            proxy.swallow();
            wait(Duration::from_millis(200 + random.below(1500)));
            "networks that lose everything for a while"
        }
        _ => {
            proxy.delay(Duration::from_millis(5 + random.below(60)));
            wait(Duration::from_millis(200));
            "networks that are slow for a while"
        }
    };
    let times = if matches!(kind % 6, 1..=3) { 6 } else { 1 };
    *blows.entry(what).or_default() += times;
    proxy.heal();
    wait(Duration::from_millis(100));
}

/// A fault of a PostgreSQL server.
pub(crate) fn disturb_postgres(server: &mut Postgres, random: &mut Random, blows: &mut Blows) {
    if random.below(3) < 2 {
        server.kill();
        wait(Duration::from_millis(random.below(400)));
        server.restart();
        *blows.entry("kills of the PostgreSQL server").or_default() += 1;
    } else {
        server.pause();
        wait(Duration::from_millis(100 + random.below(1900)));
        server.resume();
        *blows.entry("pauses of the PostgreSQL server").or_default() += 1;
    }
    wait(Duration::from_millis(200));
}

/// A fault of an etcd cluster of three; `kind` chooses it.
pub(crate) fn disturb_etcd(cluster: &mut Etcd, kind: u64, random: &mut Random, blows: &mut Blows) {
    let leader = cluster.leader();
    let (next, last) = ((leader + 1) % 3, (leader + 2) % 3);
    let what = match kind % 6 {
        0 => {
            cluster.kill(leader);
            cluster.leader();
            wait(Duration::from_millis(random.below(500)));
            cluster.restart(leader);
            "kills of the etcd leader"
        }
        1 => {
            cluster.kill(next);
            wait(Duration::from_millis(200 + random.below(500)));
            cluster.restart(next);
            "kills of an etcd follower"
        }
        2 => {
            cluster.kill(leader);
            cluster.kill(next);
            wait(Duration::from_millis(200 + random.below(1500)));
            cluster.launch(leader);
            cluster.restart(next);
            cluster.wait(leader);
            "kills of two of three etcd members"
        }
        3 => {
            cluster.pause(leader);
            wait(Duration::from_millis(500 + random.below(2500)));
            cluster.resume(leader);
            "pauses of the etcd leader"
        }
        4 => {
            cluster.pause(last);
            wait(Duration::from_millis(200 + random.below(1000)));
            cluster.resume(last);
            "pauses of an etcd follower"
        }
        _ => {
            for member in 0..3 {
                cluster.kill(member);
            }
            for member in 0..3 {
                cluster.launch(member);
            }
            for member in 0..3 {
                cluster.wait(member);
            }
            "kills of all etcd members"
        }
    };
    *blows.entry(what).or_default() += 1;
    cluster.leader();
    wait(Duration::from_millis(200));
}
