//! Wrong URLs, wrong passwords, and servers that are not there. No password is ever printed.

use std::time::{Duration, Instant};

use tenure_engines::{Etcd, EtcdOptions, Postgres, PostgresOptions};

use crate::bench::Bench;
use crate::stores::Shelf;

/// What must appear nowhere.
const SECRET: &str = "geheim";

#[test]
fn a_url_that_is_none_is_2() {
    let bench = Bench::new();
    for (url, part) in [
        ("redis://host/x", "postgres://, etcd:// or etcds://"),
        ("state.json", "named by a URL"),
        ("postgres://me:geheim@host/db?shema=x", "known ones are schema"),
        ("postgres://me:geheim/x@host/db", "%2F"),
        ("etcd://a/p?ttl=1s", "shorter than 2s"),
    ] {
        for words in [&["--store", url, "who"][..], &["store", "check", url]] {
            let ran = bench.tenure(words).exits(2).complains(part);
            assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
            assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
        }
        bench.command(&["who"]).env("TENURE_STORE", url).run().exits(2).complains(part);
    }
    bench.command(&["who"]).env("TENURE_STORE", "").run().ok();
    for words in [
        &["postgres://me:geheim@host/db"][..],
        &["doc", "postgres://me:geheim@host/db"],
        &["doc", "get", "postgres://me:geheim@host/db#x"],
        &["doc", "get", "x", "y", "postgres://me:geheim@host/db"],
        &["who", "--stor", "postgres://me:geheim@host/db"],
        &["doc", "set", "x", "1", "--guard", "postgres://me:geheim@host/db#x=1"],
    ] {
        let ran = bench.tenure(words).exits(2);
        assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_said_quickly() {
    let bench = Bench::new();
    // Nothing listens on port 1 of this machine.
    for url in ["postgres://me:geheim@127.0.0.1:1/db", "etcd://me:geheim@127.0.0.1:1/p"] {
        for words in [
            &["run", "x", "--", "true"][..],
            &["doc", "get", "x"],
            &["doc", "set", "x", "1"],
            &["lease", "acquire", "x", "--ttl", "10s"],
            &["who"],
            &["store", "check"],
        ] {
            let began = Instant::now();
            let ran = bench.command(words).env("TENURE_STORE", url).run().exits(1);
            assert!(began.elapsed() < Duration::from_secs(15), "{words:?}: {:?}", began.elapsed());
            assert!(ran.stderr.contains("127.0.0.1:1"), "{words:?}: {ran:?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {ran:?}");
            assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
        }
    }
}

#[test]
fn a_password_is_used_and_never_shown() {
    let mut servers = Vec::new();
    let postgres = Postgres::is_here().then(|| {
        let password = Some(SECRET.to_owned());
        Postgres::start_with(PostgresOptions { password, ..PostgresOptions::default() })
    });
    servers.extend(postgres.as_ref().map(Postgres::fresh_url));
    let etcd = Etcd::is_here().then(|| {
        let cluster = Etcd::start_with(1, EtcdOptions::default());
        cluster.require_passwords(SECRET, &[]);
        cluster
    });
    servers.extend(
        etcd.as_ref()
            .map(|it| format!("etcd://root:{SECRET}@{}/{}", it.addresses(), Etcd::fresh_prefix())),
    );
    for url in servers {
        let shelf = Shelf::at(&url);
        let run = |args: &[&str]| {
            let ran = shelf.tenure(args).run();
            assert!(!format!("{ran:?}").contains(SECRET), "{args:?}: {ran:?}");
            ran
        };
        run(&["doc", "set", "x", "1"]).ok();
        run(&["store", "check"]);
        run(&["doctor"]);
        run(&["doc", "set", "x", "1", "--if-version", "none"]).exits(3);
        // On the command line, where the record of the holder must not keep it.
        let holder = ["run", "--store", &shelf.url, "x", "--", "sh", "-c"];
        let hold = [&holder[..], &["echo ready; exec cat >/dev/null"]].concat();
        let mut live = shelf.bench.command(&hold).start();
        assert_eq!(live.line(), "ready");
        run(&["who", "--json"]).ok();
        let who = run(&["who", "x"]).ok();
        assert!(who.stdout.contains(":***@"), "{who:?}");
        run(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
        run(&["run", "--wait", "0", "--json", "x", "--", "true"]).exits(75);
        live.end().ok();
        run(&["lease", "acquire", "x", "--ttl", "60s"]).ok();
        // A wrong one.
        let wrong = shelf.url.replace(SECRET, "falsch");
        for words in [&["doc", "get", "x"][..], &["store", "check"], &["who"]] {
            let ran = shelf.bench.command(words).env("TENURE_STORE", &wrong).run();
            assert!(!matches!(ran.code, Some(0)), "{words:?}: {ran:?}");
            assert!(!format!("{ran:?}").contains("falsch"), "{words:?}: {ran:?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {ran:?}");
        }
    }
}
