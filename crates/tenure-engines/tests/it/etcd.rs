//! etcd: a member killed, paused, and the whole cluster without a majority; passwords.

use serde_json::json;
use tenure_engines::{Etcd, until};

/// The store is asked by a member's plain address.
fn put(cluster: &Etcd, index: usize) -> Result<(), String> {
    let body = json!({ "key": "a2V5", "value": "dmFsdWU=" });
    cluster.ask(index, "/v3/kv/put", &body).map(drop)
}

#[test]
fn a_cluster_survives_one_of_three_and_not_two() {
    if !Etcd::is_here() {
        return;
    }
    let mut cluster = Etcd::start(3);
    let leader = cluster.leader();
    let other = (leader + 1) % 3;
    let last = (leader + 2) % 3;
    put(&cluster, other).expect("all run");
    cluster.kill(leader);
    let next = cluster.leader();
    assert_ne!(next, leader);
    put(&cluster, next).expect("two of three");
    cluster.kill(other);
    assert!(put(&cluster, last).is_err(), "one of three");
    cluster.launch(other);
    cluster.restart(leader);
    cluster.wait(other);
    cluster.leader();
    until("all again", std::time::Duration::from_secs(20), || put(&cluster, leader).ok());
}

#[test]
fn a_paused_member_answers_when_it_goes_on() {
    if !Etcd::is_here() {
        return;
    }
    let cluster = Etcd::start(1);
    cluster.pause(0);
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| put(&cluster, 0));
        cluster.resume(0);
        assert_eq!(answer.join().expect("it ends"), Ok(()));
    });
}

#[test]
fn users_are_confined_to_their_prefix() {
    if !Etcd::is_here() {
        return;
    }
    let cluster = Etcd::start(1);
    put(&cluster, 0).expect("no password yet");
    cluster.require_passwords("toor", &[("anna", "annas", "anna/")]);
    assert!(put(&cluster, 0).is_err());
    let login = json!({ "name": "anna", "password": "annas" });
    let token = cluster.ask(0, "/v3/auth/authenticate", &login).expect("she may");
    let token = token["token"].as_str().expect("a token").to_owned();
    let put = |key: &str| {
        let body = json!({ "key": key, "value": "dmFsdWU=" });
        cluster.ask_as(0, "/v3/kv/put", &body, Some(&token))
    };
    put("YW5uYS94").expect("anna/x");
    assert!(put("Ym9iL3g=").unwrap_err().contains("permission denied"), "bob/x");
}
