//! Rarer trouble of the engine on PostgreSQL: silent connections, cold starts in a failover, standbys, rights and names of
//! schemas, replies that are lost twice over.

use std::thread;
use std::time::{Duration, Instant};

use tenure::{ErrorKind, Lease, LeaseOptions, Lock, LockOptions, Wait};
use tenure_engines::{Postgres, Replication};
use tenure_remote::engine::{Engine, Kind, SessionId};
use tenure_remote::postgres::PostgresEngine;
use tenure_remote::url::Url;

use crate::postgres_faults::{caught_up, pair, proxied};
use crate::postgres_steps::{PATIENCE, TTL, append, engine_at, held, lease, ticket, until};

/// A connection that is dead and not closed costs a part of the time to live, not the lock.
#[test]
fn a_renewal_gives_a_silent_connection_up_in_time() {
    let Some((proxy, engine, _direct)) = proxied() else { return };
    let session = engine.open_session(Duration::from_secs(10)).expect("a session");
    let none = SessionId(String::new());
    let of_lease = ticket(&none, lease(Duration::from_secs(10), 3));
    held(&engine.take("/lease", &of_lease).expect("a lease"));
    let renewals: [&dyn Fn() -> bool; 2] =
        [&|| engine.renew_session(&session).expect("a renewal").is_some(), &|| {
            engine.renew_lease("/lease", [3; 16], None).expect("a renewal").is_some()
        }];
    for renew in renewals {
        assert!(renew());
        proxy.strand();
        let start = Instant::now();
        assert!(renew(), "on another connection");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// A command that starts during a failover: the standby becomes the primary a moment later.
#[test]
fn several_servers_are_waited_for_although_none_was_reached() {
    if !Postgres::is_here() {
        return;
    }
    let (mut primary, standby, engine) = pair(Replication::Asynchronous);
    append(&engine, "/log", &[b"0"]);
    caught_up(&primary, &standby);
    primary.kill();
    let hosts = format!("{},{}", primary.address(), standby.address());
    let cold = engine_at(&primary.url_at(&hosts));
    thread::scope(|scope| {
        let appended = scope.spawn(|| append(&cold, "/log", &[b"1"]));
        let end = Instant::now() + Duration::from_secs(1);
        until("a moment", || appended.is_finished() || Instant::now() > end);
        assert!(!appended.is_finished(), "it waits");
        standby.promote();
        appended.join().expect("an append");
    });
}

#[test]
fn a_standby_that_is_named_alone_is_read_only() {
    if !Postgres::is_here() {
        return;
    }
    let (primary, standby, engine) = pair(Replication::Asynchronous);
    append(&engine, "/log", &[b"0"]);
    caught_up(&primary, &standby);
    let alone = engine_at(&standby.url());
    let session = alone.open_session(TTL).expect_err("a write");
    let none = SessionId(String::new());
    let taken = alone.take("/lease", &ticket(&none, lease(TTL, 1))).expect_err("a write");
    for error in [session, taken] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
}

#[test]
fn who_may_create_no_schema_initialises_one_that_is_there() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    server.sql(&format!(
        "create role r{schema} login; create schema {schema} authorization r{schema}"
    ));
    let url = server.url().replacen("tenure@", &format!("r{schema}@"), 1);
    engine_at(&format!("{url}?schema={schema}")).init().expect("init");
}

#[test]
fn a_schema_that_is_no_plain_name_is_invalid() {
    for schema in ["it's", "a%25b", "a$$b", "a-b", "", "a%22b"] {
        let url = Url::parse(&format!("postgres://me@host/db?schema={schema}")).expect("a URL");
        let error = PostgresEngine::connect(&url).expect_err(schema);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// The reply is lost, and the hold is another's, and free again, before the request is repeated.
#[test]
fn a_release_whose_reply_was_lost_is_done_although_others_had_the_hold_since() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    let session = engine.open_session(Duration::from_secs(60)).expect("a session");
    let none = SessionId(String::new());
    let first = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/lock", &first).expect("a lock"));
    assert!(engine.release("/lock", &first, fence).expect("a release"));
    let other = ticket(&session, Kind::Lock);
    let newer = held(&engine.take("/lock", &other).expect("a lock"));
    assert!(engine.release("/lock", &other, newer).expect("a release"));
    let again = |again: bool| {
        let id = &first.id;
        server.sql(&format!(
            "select r_done from {schema}.release(1, '/lock', '{id}', {fence}, {again})"
        ))
    };
    assert_eq!((again(true).trim(), again(false).trim()), ("t", "f"));
    for sum in [1, 2] {
        held(&engine.take("/lease", &ticket(&none, lease(TTL, sum))).expect("a lease"));
        assert!(engine.end_lease("/lease", [sum; 16]).expect("an end"));
    }
    let sum = "01".repeat(16);
    let ended = format!("select r_done from {schema}.end_lease(1, '/lease', '\\x{sum}', true)");
    assert_eq!(server.sql(&ended).trim(), "t");
}

/// Sessions are opened and no change is made: what is over goes all the same.
#[test]
fn sessions_that_are_over_go_without_a_commit() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    engine.open_session(TTL).expect("a session");
    server.sql(&format!(
        "update {schema}.session set expires = clock_timestamp() - interval '2 minutes'; \
         update {schema}.floor set swept = '-infinity'"
    ));
    let over = format!("select count(*) from {schema}.session where expires < clock_timestamp()");
    until("a sweep", || {
        engine.open_session(Duration::from_secs(600)).expect("a session");
        server.sql(&over).trim() == "0"
    });
}

/// The first look is repeated after a lost reply, and finds the lock held; a later one takes the lease.
#[test]
fn a_take_over_that_waits_outlives_a_lost_reply() {
    let Some((proxy, engine, direct)) = proxied() else { return };
    let (_, schema) = engine.name().rsplit_once('?').expect("a schema");
    let url = |address: &str| format!("{}?{schema}", Postgres::shared().url_at(address));
    let through = tenure_remote::open_apart(&url(&proxy.address())).expect("a store");
    let holder = tenure_remote::open_apart(&url(&Postgres::shared().address())).expect("a store");
    append(&engine, "/other", &[b"0"]);
    let lock = Lock::on(&holder, "/target").expect("a lock");
    let guard = lock.acquire(&LockOptions::default()).expect("it is free");
    let terms = LeaseOptions { ttl: TTL, wait: Wait::For(PATIENCE), ..LeaseOptions::default() };
    let lease = Lease::on(&through, "/target").expect("a lease");
    lease.show().expect("a connection to lose the reply on");
    proxy.lose_reply();
    thread::scope(|scope| {
        let taken = scope.spawn(|| lease.take_over(&terms, "a test"));
        until("the lost reply", || proxy.cuts() == 1);
        // Three looks later.
        let end = Instant::now() + Duration::from_millis(400);
        until("a moment", || taken.is_finished() || Instant::now() > end);
        guard.release().expect("it is held");
        let fence = taken.join().expect("no panic").expect("a lease").fence;
        assert_eq!(direct.hold("/target").expect("a hold").fence, fence);
    });
}
