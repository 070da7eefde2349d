//! What can happen to the engine on PostgreSQL: lost replies, failover, poolers, missing rights, wrong versions.

use std::thread;
use std::time::{Duration, Instant};

use tenure::{ErrorKind, json};
use tenure_engines::{Certificates, Postgres, PostgresOptions, Proxy, Replication};
use tenure_remote::engine::{Commit, Committed, Engine, Kind, Put, SessionId, Watched};
use tenure_remote::postgres::PostgresEngine;
use tenure_remote::url::Url;

use crate::postgres_steps::{
    PATIENCE, TTL, append, commit, done, engine_at, held, is_busy, lease, ticket, until,
};

/// An engine on the shared server through a proxy, and one beside it.
pub(crate) fn proxied() -> Option<(Proxy, PostgresEngine, PostgresEngine)> {
    if !Postgres::is_here() {
        return None;
    }
    let server = Postgres::shared();
    let schema = Postgres::fresh_schema();
    let proxy = Proxy::start(&server.address());
    let through = engine_at(&format!("{}?schema={schema}", server.url_at(&proxy.address())));
    let direct = engine_at(&format!("{}?schema={schema}", server.url()));
    direct.init().expect("init");
    Some((proxy, through, direct))
}

/// A request that its client gave up and repeated reaches the server at last, when the target is free again.
#[test]
fn a_request_that_comes_late_does_nothing() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    append(&engine, "/log", &[b"0"]);
    let session = engine.open_session(Duration::from_secs(60)).expect("a session");
    let sql = |statement: &str| server.try_sql(&statement.replace("@@", &schema));
    let commit = |again: bool| {
        format!(
            "select r_answer from @@.commit(1, 'late', {again}, '{{/log}}', '{{2}}', '{{t}}', '{{null}}', null, null, \
             null, '/log', '{{x}}', null, null, null)"
        )
    };
    // The repeated request finds the journal held. The first one must not append after the release.
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/log", &lock).expect("a lock"));
    assert_eq!(sql(&commit(true)).as_deref(), Ok("busy"));
    assert!(engine.release("/log", &lock, fence).expect("a release"));
    sql("select @@.append(1, 'late', '/log', '{x}')").expect_err("an append that comes late");
    for again in [false, true] {
        assert_eq!(sql(&commit(again)).as_deref(), Ok("busy"), "again: {again}");
    }
    assert_eq!(engine.entries("/log", 0, 10).expect("a page").entries.len(), 1);

    // The repeated request was granted, and the hold has ended; others had it since.
    let take = |again: bool| {
        let id = &session.0;
        format!(
            "select r_held from @@.take(1, '/late', 'ticket', '{id}', 1::smallint, null, null, '{{}}', true, 'c', null, {again})"
        )
    };
    assert_eq!(sql(&take(true)).as_deref(), Ok("t"));
    assert_eq!(sql(&take(false)).as_deref(), Ok("t"), "the holder asks once more");
    let fence = engine.hold("/late").expect("a hold").fence;
    let release = format!("select r_done from @@.release(1, '/late', 'ticket', {fence}, false)");
    assert_eq!(sql(&release).as_deref(), Ok("t"));
    let other = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/late", &other).expect("a lock"));
    assert!(engine.release("/late", &other, fence).expect("a release"));
    sql(&take(false)).expect_err("a request for a hold that comes late");
    assert!(engine.hold("/late").expect("a hold").holder.is_none());
}

#[test]
fn a_lost_reply_is_answered_as_the_first_time() {
    let Some((proxy, engine, direct)) = proxied() else { return };
    let session = engine.open_session(TTL).expect("a session");
    for round in 0..5_u64 {
        proxy.lose_reply();
        let (first, last) = append(&engine, "/log", &[b"a", b"b"]);
        assert_eq!(last, first + 1);
        let page = direct.entries("/log", 0, 100).expect("a page");
        assert_eq!(page.entries.len() as u64, 2 * (round + 1), "lines");

        let lock = ticket(&session, Kind::Lock);
        proxy.lose_reply();
        let fence = held(&engine.take("/lock", &lock).expect("a lock"));
        assert_eq!(direct.hold("/lock").expect("a hold").fence, fence);
        proxy.lose_reply();
        assert!(engine.release("/lock", &lock, fence).expect("a release"), "a lost reply");
        assert!(!engine.release("/lock", &lock, fence).expect("an answer"));

        let none = SessionId(String::new());
        let sum = u8::try_from(round).expect("a small number");
        held(&engine.take("/lease", &ticket(&none, lease(TTL, sum))).expect("a lease"));
        proxy.lose_reply();
        assert!(engine.end_lease("/lease", [sum; 16]).expect("an end"), "a lost reply");
    }
    assert_eq!(proxy.cuts(), 20);
}

#[test]
fn a_lost_reply_is_answered_although_the_proof_is_over() {
    let Some((_proxy, engine, direct)) = proxied() else { return };
    let session = engine.open_session(TTL).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/lock", &lock).expect("a lock"));
    let lines: &[&[u8]] = &[b"x"];
    let change =
        Commit { proofs: vec![("/lock", fence)], journal: Some(("/log", lines)), ..commit("x1") };
    let first = done(engine.commit(&change).expect("a commit"));
    engine.release("/lock", &lock, fence).expect("a release");
    // The same request once more: as after a lost reply, or late from a connection that was given up.
    let again = done(direct.commit(&change).expect("an answer"));
    assert_eq!(again.lines, first.lines);
    assert_eq!(direct.entries("/log", 0, 10).expect("a page").entries.len(), 1);
    let other = Commit { id: "x2", ..change };
    assert!(matches!(engine.commit(&other).expect("an answer"), Committed::Refused { .. }));
}

#[test]
fn an_append_that_comes_twice_is_done_once() {
    let Some((_proxy, engine, direct)) = proxied() else { return };
    append(&engine, "/log", &[b"0"]);
    let lines: &[&[u8]] = &[b"x", b"y"];
    let change = Commit { free: vec!["/log"], journal: Some(("/log", lines)), ..commit("x1") };
    let first = done(engine.commit(&change).expect("a commit"));
    let lock = ticket(&direct.open_session(TTL).expect("a session"), Kind::Lock);
    for is_held in [false, true] {
        if is_held {
            held(&direct.take("/log", &lock).expect("a lock"));
        }
        let again = done(direct.commit(&change).expect("the first answer, though it may be held"));
        assert_eq!(again.lines, first.lines, "held: {is_held}");
    }
    assert_eq!(direct.entries("/log", 0, 10).expect("a page").entries.len(), 3);
}

#[test]
fn a_connection_may_break_at_any_byte() {
    let Some((proxy, engine, direct)) = proxied() else { return };
    append(&engine, "/log", &[b"0"]);
    for bytes in (0..120).step_by(7) {
        proxy.cut_after(tenure_engines::Way::Requests, bytes);
        append(&engine, "/log", &[b"x"]);
        proxy.cut_after(tenure_engines::Way::Replies, bytes);
        append(&engine, "/log", &[b"y"]);
        proxy.heal();
    }
    let page = direct.entries("/log", 0, 1000).expect("a page");
    assert_eq!(page.entries.len(), 1 + 2 * 18);
}

#[test]
fn a_first_connection_is_tried_a_few_times_and_a_known_server_is_waited_for() {
    let Some((proxy, engine, direct)) = proxied() else { return };
    for bytes in [0, 1, 20] {
        let (schema, address) =
            (engine.name().rsplit_once('?').expect("a schema").1, proxy.address());
        let fresh = engine_at(&format!("{}?{schema}", Postgres::shared().url_at(&address)));
        proxy.cut_after(tenure_engines::Way::Replies, bytes);
        append(&fresh, "/log", &[b"x"]);
    }
    assert_eq!(proxy.cuts(), 3);
    proxy.refuse();
    let start = Instant::now();
    let error = engine.open_session(TTL).expect_err("a server that was never reached");
    assert!(start.elapsed() < PATIENCE / 3, "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    proxy.heal();
    append(&engine, "/log", &[b"y"]);
    proxy.refuse();
    proxy.cut_all();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| append(&engine, "/log", &[b"z"]));
        // As long as a server may take that is started again.
        let end = Instant::now() + Duration::from_secs(2);
        until("the append to end, which it must not", || {
            waiting.is_finished() || Instant::now() > end
        });
        assert!(!waiting.is_finished(), "a server that was reached before is waited for");
        proxy.heal();
        waiting.join().expect("an append");
    });
    assert_eq!(direct.entries("/log", 0, 10).expect("a page").entries.len(), 5);
}

#[test]
fn a_server_that_stopped_answering_is_given_up_and_reported() {
    let Some((proxy, engine, direct)) = proxied() else { return };
    append(&engine, "/log", &[b"0"]);
    proxy.swallow();
    let start = Instant::now();
    let lines: &[&[u8]] = &[b"x"];
    let change = Commit { journal: Some(("/log", lines)), ..commit("x1") };
    let error = engine.commit(&change).expect_err("an answer of a server that is cut off");
    assert!(start.elapsed() < 2 * PATIENCE, "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, None), "{error}");
    proxy.heal();
    done(engine.commit(&change).expect("the same commit, later"));
    assert_eq!(direct.entries("/log", 0, 10).expect("a page").entries.len(), 2);
}

/// The standby has what the primary has.
pub(crate) fn caught_up(primary: &Postgres, standby: &Postgres) {
    let newest = primary.sql("select pg_current_wal_lsn()");
    let question = format!("select pg_last_wal_replay_lsn() >= '{}'", newest.trim());
    until("the standby", || standby.sql(&question).trim() == "t");
}

pub(crate) fn pair(replication: Replication) -> (Postgres, Postgres, PostgresEngine) {
    let primary = Postgres::start();
    engine_at(&primary.url()).init().expect("init");
    let standby = primary.standby(replication);
    let engine =
        engine_at(&primary.url_at(&format!("{},{}", primary.address(), standby.address())));
    (primary, standby, engine)
}

#[test]
fn numbers_grow_although_the_promoted_standby_was_behind() {
    if !Postgres::is_here() {
        return;
    }
    let (mut primary, standby, engine) = pair(Replication::Asynchronous);
    let session = engine.open_session(Duration::from_secs(60)).expect("a session");
    let kept = append(&engine, "/log", &[b"1", b"2"]).1;
    append(&engine, "/kept", &[b"1"]);
    let put = |id, base, bytes: &'static [u8]| Commit {
        document: Some(Put { name: "/doc", base, bytes: Some(bytes) }),
        ..commit(id)
    };
    let old = done(engine.commit(&put("d1", None, b"1")).expect("a commit")).version;
    caught_up(&primary, &standby);
    assert!(
        engine.notices().iter().any(|found| found.what == "replication"),
        "{:?}",
        engine.notices()
    );
    primary.stall_replication();

    let mut fence = 0;
    for _ in 0..3 {
        let lock = ticket(&session, Kind::Lock);
        fence = held(&engine.take("/lock", &lock).expect("a lock"));
        engine.release("/lock", &lock, fence).expect("a release");
    }
    let none = SessionId(String::new());
    let former = held(&engine.take("/lease", &ticket(&none, lease(TTL, 1))).expect("a lease"));
    let newest = append(&engine, "/log", &[b"3", b"4", b"5"]).1;
    let lost_journal = append(&engine, "/lost", &[b"1", b"2"]).1;
    let lost = done(engine.commit(&put("d2", old.as_ref(), b"2")).expect("a commit")).version;

    primary.kill();
    standby.promote();

    let session = engine.open_session(TTL).expect("a session on the new primary");
    let lock = ticket(&session, Kind::Lock);
    let next = held(&engine.take("/lock", &lock).expect("a lock"));
    assert!(next > fence, "fence {next} after {fence}");
    let proof = Commit { proofs: vec![("/lock", fence)], ..commit("p1") };
    assert!(matches!(engine.commit(&proof).expect("an answer"), Committed::Refused { .. }));
    let proof = Commit { proofs: vec![("/lease", former)], ..commit("p2") };
    assert!(matches!(engine.commit(&proof).expect("an answer"), Committed::Refused { .. }));
    let next = held(&engine.take("/lease", &ticket(&none, lease(TTL, 2))).expect("a lease"));
    assert!(next > former, "fence {next} after {former}");

    let stale = engine.commit(&put("d3", lost.as_ref(), b"3")).expect("an answer");
    assert!(matches!(stale, Committed::Overtaken), "{stale:?}");
    let newer = done(engine.commit(&put("d4", old.as_ref(), b"3")).expect("a commit")).version;
    assert!(newer != lost && newer != old, "{newer:?}");

    let first = append(&engine, "/log", &[b"6"]).0;
    assert!(first > newest);
    let page = engine.entries("/log", newest + 1, 10).expect("a page");
    assert_eq!(page.gap, Some((kept + 1, first - 1)), "the follower of lost entries");
    assert_eq!(page.entries, [(first, b"6".to_vec())]);
    let page = engine.entries("/log", kept + 1, 10).expect("a page");
    assert_eq!(page.gap, None, "a follower that saw nothing of what was lost");
    let page = engine.entries("/log", 0, 10).expect("a page");
    assert_eq!((page.gap, page.entries.len()), (None, 3));
    let page = engine.entries("/log", 2, 10).expect("a page");
    assert_eq!((page.gap, page.entries.len()), (None, 3), "numbers that were never given out");
    let first = append(&engine, "/lost", &[b"3"]).0;
    let gap = engine.entries("/lost", lost_journal + 1, 10).expect("a page").gap;
    assert_eq!(gap.map(|(_, last)| last), Some(first - 1), "a journal that was lost as a whole");
    let first = append(&engine, "/kept", &[b"2"]).0;
    let page = engine.entries("/kept", (kept >> 36 << 36) + 2, 10).expect("a page");
    assert_eq!((page.gap, page.entries), (None, vec![(first, b"2".to_vec())]));
}

#[test]
fn a_synchronous_standby_loses_nothing() {
    if !Postgres::is_here() {
        return;
    }
    let (mut primary, standby, engine) = pair(Replication::Synchronous);
    let url = primary.url_at(&format!("{},{}", primary.address(), standby.address()));
    let strict = engine_at(&format!("{url}?failover=sync"));
    let session = strict.open_session(Duration::from_secs(60)).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&strict.take("/lock", &lock).expect("a lock"));
    let last = append(&engine, "/log", &[b"1", b"2"]).1;
    assert!(engine.notices().is_empty(), "{:?}", engine.notices());
    primary.stall_replication();
    thread::scope(|scope| {
        // It was not acknowledged, so it is done on the new primary.
        let waiting = scope.spawn(|| append(&engine, "/log", &[b"3"]));
        until("a commit that waits for the standby", || {
            primary.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'").trim()
                == "1"
        });
        primary.kill();
        standby.promote();
        let first = waiting.join().expect("an append").0;
        let page = engine.entries("/log", last + 1, 10).expect("a page");
        assert_eq!((page.gap, page.entries), (None, vec![(first, b"3".to_vec())]));
    });
    assert_eq!(engine.hold("/lock").expect("a hold").fence, fence, "the hold survives");
    assert!(engine.release("/lock", &lock, fence).expect("a release"));
    let next = held(&engine.take("/lock", &ticket(&session, Kind::Lock)).expect("a lock"));
    assert!(next > fence);
    let error = strict.release("/lock", &lock, fence).expect_err("no synchronous standby any more");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("synchronous_standby_names"), "{error}");
}

#[test]
fn a_restored_dump_and_a_timeline_that_fell_move_the_epoch() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let url = format!("{}?schema={schema}", server.url());
    let engine = engine_at(&url);
    engine.init().expect("init");
    let none = SessionId(String::new());
    let mut fence = 0;
    let mut draw = |engine: &PostgresEngine| {
        let next = held(&engine.take("/a", &ticket(&none, lease(TTL, 1))).expect("a lease"));
        assert!(engine.end_lease("/a", [1; 16]).expect("an end"));
        assert!(next > fence, "{next} after {fence}");
        fence = next;
        next >> 36
    };
    let epoch = draw(&engine);
    server.sql(&format!("update {schema}.meta set timeline = timeline + 6"));
    assert_eq!(draw(&engine), epoch + 7, "the timeline fell, as after pg_upgrade");
    assert_eq!(draw(&engine), epoch + 7);
    server.sql(&format!("update {schema}.meta set cluster = 5, started = '-infinity'"));
    assert_eq!(draw(&engine), epoch + 8, "another cluster, as after pg_restore");
    server.sql(&format!("update {schema}.meta set started = '-infinity'"));
    assert_eq!(draw(&engine_at(&url)), epoch + 8, "a server that was only started again");
}

#[test]
fn a_client_that_is_too_old_is_refused() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let url = format!("{}?schema={schema}", server.url());
    let engine = engine_at(&url);
    engine.init().expect("init");
    append(&engine, "/log", &[b"1"]);
    server.sql(&format!("update {schema}.meta set version = 9, oldest_writer = 9"));
    let lines: &[&[u8]] = &[b"x"];
    let change = Commit { journal: Some(("/log", lines)), ..commit("x1") };
    let error = engine.commit(&change).expect_err("a commit of an old client");
    assert_eq!(
        (error.kind(), error.is_committed()),
        (ErrorKind::NewerFormat, Some(false)),
        "{error}"
    );
    assert_eq!(engine.init().expect_err("a downgrade").kind(), ErrorKind::NewerFormat);
    let found = engine.check().expect("a check");
    assert!(
        found.iter().any(|found| found.what == "schema" && found.problem.is_some()),
        "{found:?}"
    );
    assert_eq!(engine.entries("/log", 0, 10).expect("reading is allowed").entries.len(), 1);
}

#[test]
fn a_user_without_the_right_to_create_works_once_it_is_initialised() {
    if !Postgres::is_here() {
        return;
    }
    let server = Postgres::shared();
    let (schema, user) = (Postgres::fresh_schema(), Postgres::fresh_schema());
    let owner = engine_at(&format!("{}?schema={schema}", server.url()));
    let database = server.sql("select current_database()");
    server.sql(&format!("create role {user} login"));
    let address = server.address();
    let plain =
        engine_at(&format!("postgres://{user}@{address}/{}?schema={schema}", database.trim()));
    let error = plain.init().expect_err("a user who may create nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    owner.init().expect("init");
    let error = plain.open_session(TTL).expect_err("a user without any right");
    assert!(error.to_string().contains("permission denied"), "{error}");
    let rights = owner.init().expect("a second init changes nothing");
    assert!(rights.iter().any(|found| found.found.contains(".allow('USER')")), "{rights:?}");
    server.sql(&format!("select {schema}.allow('{user}')"));

    let session = plain.open_session(TTL).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&plain.take("/a", &lock).expect("a lock"));
    let lines: &[&[u8]] = &[b"x"];
    let change = Commit {
        proofs: vec![("/a", fence)],
        document: Some(Put { name: "/doc", base: None, bytes: Some(b"1") }),
        journal: Some(("/log", lines)),
        operation: Some("op"),
        ..commit("x1")
    };
    done(plain.commit(&change).expect("a commit"));
    assert!(plain.release("/a", &lock, fence).expect("a release"));
    let event = json!({ "event": "take_over" });
    held(&plain.take_over("/a", &ticket(&session, lease(TTL, 1)), &event).expect("a take-over"));
    plain.close_session(&session).expect("the end");
    plain.watch("/log", Watched::Content).expect("a watcher");
    plain.check().expect("a check");
    server.sql(&format!("update {schema}.floor set swept = '-infinity'"));
    assert_eq!(server.try_sql(&format!("set role {user}; select {schema}.sweep(1)")).err(), None);
}

#[test]
fn it_works_through_pgbouncer_in_transaction_mode() {
    if !Postgres::has_bouncer() {
        return;
    }
    let server = Postgres::shared();
    let bouncer = server.bouncer();
    let url = bouncer.fresh_url();
    let engines = [engine_at(&url), engine_at(&url)];
    engines[0].init().expect("init");
    let sessions = [0, 1].map(|at: usize| engines[at].open_session(TTL).expect("a session"));
    let mut holding = ticket(&sessions[0], Kind::Lock);
    let mut fence = held(&engines[0].take("/lock", &holding).expect("a lock"));
    for round in 0..10 {
        let (from, to) = (round % 2, (round + 1) % 2);
        let waiting = ticket(&sessions[to], Kind::Lock);
        assert!(is_busy(&engines[to].take("/lock", &waiting).expect("an answer")));
        let mut watcher = engines[to].watch("/lock", Watched::Turn(&waiting)).expect("a watcher");
        assert!(engines[from].release("/lock", &holding, fence).expect("a release"));
        assert!(watcher.wait(PATIENCE).expect("a wait"), "the waiter was not woken");
        let next = held(&engines[to].take("/lock", &waiting).expect("the turn"));
        assert!(next > fence);
        (holding, fence) = (waiting, next);
    }
    let mut watcher = engines[1].watch("/log", Watched::Content).expect("a watcher");
    for _ in 0..3 {
        append(&engines[0], "/log", &[b"x"]);
        assert!(watcher.wait(PATIENCE).expect("a wait"), "the follower was not woken");
    }
}

#[test]
fn writes_under_one_guard_do_not_keep_a_take_over_waiting() {
    if !Postgres::is_here() {
        return;
    }
    let url = Postgres::shared().fresh_url();
    let engine = engine_at(&url);
    engine.init().expect("init");
    let none = SessionId(String::new());
    let fence = held(&engine.take("/guard", &ticket(&none, lease(TTL, 1))).expect("a lease"));
    thread::scope(|scope| {
        for writer in 0..8 {
            let url = &url;
            scope.spawn(move || {
                let engine = engine_at(url);
                let name = format!("/log/{writer}");
                let lines: &[&[u8]] = &[b"x"];
                for number in 0.. {
                    let id = format!("{writer} {number}");
                    let proofs = vec![("/guard", fence)];
                    let change = Commit { proofs, journal: Some((&name, lines)), ..commit(&id) };
                    match engine.commit(&change).expect("an answer") {
                        Committed::Done(_) => {}
                        Committed::Refused { .. } => return,
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        until("writes", || engine.entries("/log/7", 0, 50).expect("a page").entries.len() == 50);
        let event = json!({ "event": "take_over" });
        let start = Instant::now();
        let next =
            held(&engine.take_over("/guard", &ticket(&none, lease(TTL, 2)), &event).expect("it"));
        assert!(next > fence && start.elapsed() < PATIENCE / 3, "{:?}", start.elapsed());
        // No write under the old fence is in flight any more.
        let count = |engine: &PostgresEngine| -> usize {
            let entries = |writer| engine.entries(&format!("/log/{writer}"), 0, 100_000);
            (0..8).map(|writer| entries(writer).expect("a page").entries.len()).sum()
        };
        let before = count(&engine);
        assert_eq!(count(&engine), before);
    });
}

#[test]
fn a_take_over_that_waits_lets_no_further_write_of_the_former_holder_begin() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    let none = SessionId(String::new());
    let fence = held(&engine.take("/guard", &ticket(&none, lease(TTL, 1))).expect("a lease"));
    thread::scope(|scope| {
        // As a write under the guard that is on its way for a while.
        scope.spawn(|| {
            server.sql(&format!(
                "begin; select from {schema}.target where name = '/guard' for key share; select pg_sleep(2); commit"
            ));
        });
        let locked = format!(
            "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%{schema}%'"
        );
        until("the write on its way", || server.sql(&locked).trim() != "0");
        let taker = scope.spawn(|| {
            let event = json!({ "event": "take_over" });
            held(
                &engine
                    .take_over("/guard", &ticket(&none, lease(TTL, 2)), &event)
                    .expect("a lease"),
            )
        });
        let barred = format!("select count(barred) from {schema}.target");
        until("a take-over that waits", || server.sql(&barred).trim() == "1");
        let lines: &[&[u8]] = &[b"x"];
        let proofs = vec![("/guard", fence)];
        let change = Commit { proofs, journal: Some(("/log", lines)), ..commit("x1") };
        let answer = engine.commit(&change).expect("an answer");
        assert!(matches!(answer, Committed::Refused { .. }), "{answer:?}");
        assert!(taker.join().expect("a take-over") > fence);
    });
    assert!(engine.entries("/log", 0, 10).expect("a page").entries.is_empty());
}

#[test]
fn a_session_is_renewed_while_all_connections_wait() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    let session = engine.open_session(TTL).expect("a session");
    append(&engine, "/log", &[b"0"]);
    let waiting = format!(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{schema}%'"
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            server.sql(&format!(
                "begin; select from {schema}.target where name = '/log' for update; select pg_sleep(5); commit"
            ));
        });
        until("the lock of the row", || {
            let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
            server.sql(asleep).trim() != "0"
        });
        for _ in 0..12 {
            scope.spawn(|| append(&engine, "/log", &[b"x"]));
        }
        until("writers that wait", || server.sql(&waiting).trim() == "8");
        assert!(engine.renew_session(&session).expect("a renewal").is_some());
        assert_eq!(server.sql(&waiting).trim(), "8", "the renewal waited for the writers");
    });
    assert_eq!(engine.entries("/log", 0, 100).expect("a page").entries.len(), 13);
}

#[test]
fn wrong_urls_and_servers_are_refused_in_one_line() {
    if !Postgres::is_here() {
        return;
    }
    let certificates = Certificates::new();
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let server = Postgres::start_with(PostgresOptions {
        password: Some("geheim".to_owned()),
        tls: Some(certificates.server(address)),
        ..PostgresOptions::default()
    });
    let ca = certificates.ca();
    let secure = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), ca.display());
    let engine = engine_at(&secure);
    let error = engine.open_session(TTL).expect_err("a database without the schema");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("run: tenure store init postgres://"), "{error}");
    engine.init().expect("init");
    engine.open_session(TTL).expect("a session");

    let host = server.address();
    let others = Certificates::new();
    let other_ca = others.ca();
    for (url, part) in [
        (server.url_at(&host).replace("geheim", "falsch"), "check the user and the password"),
        (format!("postgres://tenure@{host}/tenure"), "password"),
        (
            format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), other_ca.display()),
            "certificate",
        ),
        (format!("postgres://tenure:geheim@{host}/nowhere"), "create the database first"),
        (server.url_at("127.0.0.1:1"), "check that the server runs"),
        (server.url().replace("127.0.0.1", "host.invalid"), "check that the server runs"),
    ] {
        let start = Instant::now();
        let engine = engine_at(&url);
        let error = engine.open_session(TTL).expect_err(part);
        let shown = format!("{error} {error:#?} {engine:?}");
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert!(!shown.contains("geheim") && !shown.contains("falsch"), "{shown}");
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    }
    for (query, part) in [
        ("sslmode=allow", "verify-full"),
        ("sslmode=verify-full", "sslrootcert"),
        ("sslcert=/nowhere", "together"),
        ("sslmode=verify-ca&sslrootcert=/nowhere", "PEM"),
        ("failover=async", "failover=sync"),
        ("target_session_attrs=standby", "read-write"),
        ("schema=", "1 to 63 letters"),
    ] {
        let url = Url::parse(&format!("postgres://me:geheim@{host}/db?{query}")).expect("a URL");
        let error = PostgresEngine::connect(&url).expect_err(query);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(part), "{query}: {error}");
    }
    server.sql("alter database tenure set default_transaction_read_only = on");
    let read_only = engine_at(&secure);
    let error = read_only.open_session(TTL).expect_err("a read-only database");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
    let strict = engine_at(&format!("{secure}&failover=sync"));
    let error = strict.hold("/a").expect_err("a server without a synchronous standby");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let found = strict.check().expect("a check");
    let failover = found.iter().find(|finding| finding.what == "failover");
    assert!(failover.is_some_and(|finding| finding.problem.is_some()), "{found:?}");
}
