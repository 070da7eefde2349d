//! Histories of real servers under faults: is there one order of all operations that explains every answer?

use tenure_engines::{Etcd, Postgres, Proxy};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::faults::{Blows, disturb_etcd, disturb_network, disturb_postgres, report};
use crate::load::Load;
use crate::scene::{handles, say, with};

/// Reports what was done, and fails if anything is wrong.
fn judge(mut load: Load, blows: &Blows, tally: &mut Tally, seed: u64) {
    let counts = load.counts;
    say(&format!("seed {seed}: {counts:?}; {blows:?}"));
    say(&format!("errors: {:#?}", load.errors.iter().take(8).collect::<Vec<_>>()));
    let findings = load.findings();
    assert!(findings.is_empty() && counts.lost == 0, "seed {seed}: {counts:?}: {findings:#?}");
    let history = load.history();
    // A history without overlap proves little.
    let (len, concurrent) = (history.len(), history.concurrent());
    assert!(concurrent > len / 20, "{concurrent} of {len}");
    report(tally, blows);
    tally.tried(counts.acknowledged, "operations acknowledged, none lost");
    tally.tried(counts.ambiguous, "operations without an answer, each done once or never");
    tally.tried(counts.refused, "operations refused, none of them done");
    tally.tried(counts.holds, "holds of a lock, fences strictly growing");
}

#[test]
fn postgres_histories_under_faults_are_linearizable() {
    if !Postgres::is_here() {
        return;
    }
    let test = "postgres_histories_under_faults_are_linearizable";
    let mut tally = Tally::new("stores", test);
    let seed = seed("stores", test);
    let mut server = Postgres::start();
    let proxy = Proxy::start(&server.address());
    let url = format!("{}?schema={}", server.url_at(&proxy.address()), Postgres::fresh_schema());
    let mut load = Load::new(handles(&with(&url, "ttl=2s"), 6));
    let (mut random, mut blows) = (Random::new(seed), Blows::new());
    for round in 0..Form::asked().pick(6, 150) {
        load.round(seed, || {
            // Kills and pauses of the server in turn with faults of the network.
            if round % 2 == 0 {
                disturb_postgres(&mut server, &mut random, &mut blows);
            } else {
                let kind = random.below(6);
                disturb_network(&proxy, kind, &mut random, &mut blows);
            }
        });
    }
    judge(load, &blows, &mut tally, seed);
}

#[test]
fn etcd_histories_under_faults_are_linearizable() {
    if !Etcd::is_here() {
        return;
    }
    let test = "etcd_histories_under_faults_are_linearizable";
    let mut tally = Tally::new("stores", test);
    let seed = seed("stores", test);
    let mut cluster = Etcd::start(3);
    let proxies: Vec<Proxy> = (0..3).map(|member| Proxy::start(&cluster.address(member))).collect();
    let addresses: Vec<String> = proxies.iter().map(Proxy::address).collect();
    let url = format!("{}/{}", cluster.url_at(&addresses.join(",")), Etcd::fresh_prefix());
    let mut load = Load::new(handles(&with(&url, "ttl=2s"), 6));
    let (mut random, mut blows) = (Random::new(seed), Blows::new());
    for round in 0..Form::asked().pick(6, 150) {
        load.round(seed, || {
            if round % 2 == 0 {
                disturb_etcd(&mut cluster, round / 2, &mut random, &mut blows);
            } else {
                let (kind, member) = (random.below(6), random.index(3));
                disturb_network(&proxies[member], kind, &mut random, &mut blows);
            }
        });
    }
    judge(load, &blows, &mut tally, seed);
}
