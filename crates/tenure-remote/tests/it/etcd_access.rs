//! Who may use a cluster, and how a refusal reads: passwords, prefixes, certificates, the quota, wrong addresses.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure::{Error, ErrorKind};
use tenure_engines::{Certificates, Etcd, EtcdOptions};
use tenure_remote::engine::{Commit, Engine, Kind, Put, Watched};
use tenure_remote::etcd::EtcdEngine;
use tenure_remote::url::Url;

use crate::asking::{PATIENCE, TTL, append, commit, held, id, ticket, until, write};
use crate::etcd_steps::engine_at;

/// Takes a lock, writes, appends, watches: all that needs a right.
fn use_it(engine: &EtcdEngine) {
    let session = engine.open_session(TTL).expect("a session");
    let mine = ticket(&session, Kind::Lock);
    let fence = held(engine.take("/lock", &mine).expect("take"));
    write(engine, "/d", b"1");
    append(engine, "/j", &[b"x"]);
    let mut watcher = engine.watch("/d", Watched::Content).expect("a watch");
    write(engine, "/d", b"2");
    assert!(watcher.wait(PATIENCE).expect("a wait"));
    assert!(engine.release("/lock", &mine, fence).expect("release"));
    engine.close_session(&session).expect("close");
}

fn refused(url: &str, parts: &[&str]) -> Error {
    let engine = engine_at(url);
    let error = engine.read("/d", None).expect_err("it is refused");
    for part in parts {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(error.to_string().lines().count(), 1);
    assert!(!format!("{error:#?} {engine:#?}").contains("geheim"), "{error:#?} {engine:#?}");
    error
}

#[test]
fn a_user_is_confined_to_its_prefix() {
    if !Etcd::is_here() {
        return;
    }
    let mut cluster = Etcd::start_with(
        1,
        EtcdOptions { arguments: vec!["--auth-token-ttl=2".into()], ..EtcdOptions::default() },
    );
    let at = |login: &str, prefix: &str| {
        format!("{}/{prefix}", cluster.url().replace("etcd://", &format!("etcd://{login}")))
    };
    let (own, other, wrong) =
        (at("ann:geheim@", "mine"), at("ann:geheim@", "others"), at("ann:geheim2@", "mine"));
    // A password for a cluster that asks for none is not needed.
    use_it(&engine_at(&own));
    cluster.require_passwords("root", &[("ann", "geheim", "/mine/")]);
    let engine = engine_at(&own);
    use_it(&engine);
    let error = refused(&other, &["permission denied", "`ann`", "/others/", "grant-permission"]);
    assert_eq!(error.kind(), ErrorKind::Io);
    let error = refused(&wrong, &["refuses the user `ann` or the password", ":***@"]);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    refused(&at("", "mine"), &["asks for a user and a password"]);
    // A token that the server does not know any more is replaced.
    let began = Instant::now();
    until("the token expires", || began.elapsed() > Duration::from_secs(3));
    use_it(&engine);
    cluster.kill(0);
    cluster.restart(0);
    use_it(&engine);
    let shown: Vec<_> =
        engine.check().expect("a report").iter().map(|f| format!("{f:?}")).collect();
    assert!(!shown.join(" ").contains("geheim"));
    assert!(!cluster.log(0).contains("geheim"));
}

#[test]
fn certificates_are_checked_on_both_sides() {
    if !Etcd::is_here() {
        return;
    }
    let (ours, others) = (Certificates::new(), Certificates::new());
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let cluster = Etcd::start_with(
        1,
        EtcdOptions {
            tls: Some(ours.server(address)),
            client_ca: Some(ours.ca()),
            ..EtcdOptions::default()
        },
    );
    let client = ours.client("ann");
    let stranger = others.client("ann");
    let path = |path: &std::path::Path| path.display().to_string();
    let url = |rest: String| format!("etcds://{}/tls?{rest}", cluster.addresses());
    let with = |ca: &Certificates, identity: &tenure_engines::Identity| {
        let (ca, cert, key) = (path(&ca.ca()), path(&identity.cert), path(&identity.key));
        url(format!("ca={ca}&cert={cert}&key={key}"))
    };
    use_it(&engine_at(&with(&ours, &client)));
    refused(&with(&others, &client), &["certificate of the server is refused", "ca=PATH"]);
    refused(&with(&ours, &stranger), &["refuses the client", "cert=PATH"]);
    refused(&url(format!("ca={}", path(&ours.ca()))), &["refuses the client"]);
    let plain = format!("etcd://{}/tls?timeout=200ms", cluster.addresses());
    refused(&plain, &[]);
    let localhost = with(&ours, &client).replace("127.0.0.1", "localhost");
    use_it(&engine_at(&localhost));
    for (text, part) in [
        (url("ca=/nowhere".to_owned()), "/nowhere"),
        (url(format!("cert={}", path(&client.cert))), "cert needs key"),
        (format!("etcd://a/p?ca={}", path(&ours.ca())), "need TLS"),
        ("etcd://ann@a/p".to_owned(), "needs a password"),
    ] {
        let error = Url::parse(&text).and_then(|url| EtcdEngine::connect(&url)).expect_err(&text);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_server_without_tls_is_named_as_such() {
    if !Etcd::is_here() {
        return;
    }
    let ours = Certificates::new();
    let address = Etcd::shared().address(0);
    let url = format!("etcds://{address}/x?ca={}&timeout=300ms", ours.ca().display());
    refused(&url, &["does the server use TLS?"]);
}

#[test]
fn a_used_up_quota_is_reported_with_what_to_do() {
    if !Etcd::is_here() {
        return;
    }
    let quota = EtcdOptions { quota: Some(8 << 20), ..EtcdOptions::default() };
    let cluster = Etcd::start_with(1, quota);
    let engine = engine_at(&format!("{}/full", cluster.url()));
    let large = vec![b'x'; 1 << 20];
    let error = (0..100).find_map(|number| {
        let (one, name) = (id(), format!("/{number}"));
        let put = Put { name: &name, base: None, bytes: Some(&large) };
        engine.commit(&Commit { document: Some(put), ..commit(&one) }).err()
    });
    let error = error.expect("the quota is used up");
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    for part in ["quota", "etcdctl alarm disarm"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(engine.read("/0", None).expect("a read").document.is_some(), "reads go on");
    let findings = engine.check().expect("a report");
    let alarm = findings.iter().find(|finding| finding.what == "alarms").expect("alarms");
    assert!(alarm.found.contains("NOSPACE") && alarm.problem.is_some(), "{alarm:?}");
    let quota = findings.iter().find(|finding| finding.what == "quota").expect("the quota");
    assert!(quota.found.contains("of 8 MiB") && quota.problem.is_some(), "{quota:?}");
}

#[test]
fn a_healthy_cluster_is_reported() {
    if !Etcd::is_here() {
        return;
    }
    let engine = engine_at(&Etcd::shared().fresh_url());
    let findings = engine.init().expect("init");
    let what: Vec<_> = findings.iter().map(|finding| finding.what).collect();
    assert_eq!(what, ["server", "quorum", "quota", "alarms", "store"]);
    for finding in &findings[1..] {
        assert!(finding.problem.is_none(), "{finding:?}");
    }
    assert!(findings[0].found.contains("etcd 3."), "{:?}", findings[0]);
}

#[test]
fn wrong_addresses_are_reported_soon_and_in_one_line() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    let began = Instant::now();
    let silent = format!("etcd://127.0.0.1:{port}/x?timeout=100ms");
    refused(&silent, &["no answer in time", &format!("127.0.0.1:{port}")]);
    drop(free);
    let closed = format!("etcd://ann:geheim@127.0.0.1:{port}/x?timeout=100ms");
    let error = refused(&closed, &["connection refused", "start etcd", ":***@"]);
    assert_eq!(error.is_committed(), Some(false));
    assert!(began.elapsed() < PATIENCE);
    let session = engine_at(&closed).open_session(TTL).expect_err("nothing is there");
    assert!(session.to_string().contains("open a session"), "{session}");
}

#[test]
fn a_prefix_that_is_not_tenures_is_refused() {
    if !Etcd::is_here() {
        return;
    }
    let url = Etcd::shared().fresh_url();
    let prefix = url.rsplit_once('/').expect("a prefix").1;
    for (value, kind) in
        [("other", ErrorKind::Invalid), (r#"{"format":2}"#, ErrorKind::NewerFormat)]
    {
        let key = crate::etcd_steps::coded(&format!("/{prefix}/meta"));
        let body = json!({ "key": key, "value": crate::etcd_steps::coded(value) });
        Etcd::shared().ask(0, "/v3/kv/put", &body).expect("an answer");
        let error = engine_at(&url).init().expect_err("it is not ours");
        assert_eq!(error.kind(), kind, "{error}");
    }
}
