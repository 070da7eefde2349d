//! PostgreSQL: kill, pause, standby, pgbouncer, TLS.

use std::process::Command;
use std::time::Duration;

use tenure_engines::{Certificates, Postgres, PostgresOptions, Replication};

#[test]
fn a_killed_server_has_kept_what_it_acknowledged() {
    if !Postgres::is_here() {
        return;
    }
    let mut server = Postgres::start();
    server.sql("create table t (n int)");
    server.sql("insert into t values (1)");
    server.kill();
    assert!(server.try_sql("select 1").is_err(), "it is dead");
    server.keep();
    server.restart();
    server.sql("insert into t values (2)");
    assert_eq!(server.sql("select count(*) from t"), "2");
    server.kill();
    server.roll_back();
    server.restart();
    assert_eq!(server.sql("select count(*) from t"), "1");
}

#[test]
fn a_stalled_standby_misses_what_was_committed() {
    if !Postgres::is_here() {
        return;
    }
    for replication in [Replication::Asynchronous, Replication::Synchronous] {
        let mut primary = Postgres::start();
        let standby = primary.standby(replication);
        primary.sql("create table t (n int)");
        primary.sql("insert into t values (1)");
        tenure_engines::until("it arrives", Duration::from_secs(20), || {
            (standby.try_sql("select count(*) from t").ok()? == "1").then_some(())
        });
        primary.stall_replication();
        let mut commit = Command::new("psql")
            .args(["-X", "-q", "-c", "insert into t values (2)"])
            .arg(format!("host=127.0.0.1 port={} user=tenure dbname=tenure", primary.port()))
            .spawn()
            .expect("psql runs");
        if replication == Replication::Synchronous {
            let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
            tenure_engines::until("it waits for the standby", Duration::from_secs(20), || {
                (primary.sql(waits) == "1").then_some(())
            });
            primary.kill();
        }
        let acknowledged = commit.wait().expect("it ends").success();
        assert_eq!(acknowledged, replication == Replication::Asynchronous);
        primary.kill();
        standby.promote();
        assert_eq!(standby.sql("select count(*) from t"), "1");
        standby.sql("insert into t values (3)");
    }
}

#[test]
fn passwords_and_certificates_are_asked_for() {
    if !Postgres::is_here() {
        return;
    }
    let authority = Certificates::new();
    let server = Postgres::start_with(PostgresOptions {
        password: Some("secret".to_owned()),
        tls: Some(authority.server([127, 0, 0, 1].into())),
        ..PostgresOptions::default()
    });
    let ask = |password: &str, mode: &str, ca: &Certificates| {
        let (port, ca) = (server.port(), ca.ca());
        let address =
            format!("host=127.0.0.1 port={port} user=tenure dbname=tenure password={password}");
        let psql = Command::new("psql")
            .args(["-X", "-c", "select 1"])
            .arg(format!("{address} sslmode={mode} sslrootcert={}", ca.display()))
            .output();
        psql.expect("psql runs").status.success()
    };
    assert!(ask("secret", "verify-full", &authority));
    assert!(!ask("wrong", "verify-full", &authority));
    assert!(!ask("secret", "disable", &authority));
    assert!(!ask("secret", "verify-full", &Certificates::new()));
}

#[test]
fn a_bouncer_gives_each_transaction_any_connection() {
    if !Postgres::has_bouncer() {
        return;
    }
    let server = Postgres::start();
    let bouncer = server.bouncer();
    let ended = Command::new("psql")
        .args(["-X", "-A", "-t", "-c", "select 7"])
        .arg(format!("host=127.0.0.1 port={} user=tenure dbname=tenure", bouncer.port()))
        .output();
    let ended = ended.expect("psql runs");
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "7", "{ended:?}");
}
