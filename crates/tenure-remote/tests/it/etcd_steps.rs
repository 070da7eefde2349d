//! The steps of the engine on etcd, one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tenure::{ErrorKind, Version};
use tenure_engines::{Etcd, Proxy};
use tenure_remote::engine::{
    Commit, Committed, Engine, Kind, Put, Removal, SessionId, Taken, Watched,
};
use tenure_remote::etcd::EtcdEngine;
use tenure_remote::url::Url;

use crate::asking::{
    PATIENCE, TTL, append, commit, done, held, id, is_busy, lease, ticket, until, write,
};

pub(crate) fn engine_at(url: &str) -> EtcdEngine {
    EtcdEngine::connect(&Url::parse(url).expect("a URL")).expect("an engine")
}

/// Text as the gateway wants it.
pub(crate) fn coded(text: &str) -> String {
    STANDARD.encode(text)
}

/// A store of its own on the shared server, and a session.
fn engine() -> Option<(EtcdEngine, SessionId)> {
    if !Etcd::is_here() {
        return None;
    }
    let engine = engine_at(&Etcd::shared().fresh_url());
    let session = engine.open_session(TTL).expect("a session");
    Some((engine, session))
}

/// The same through a proxy.
fn behind_proxy() -> Option<(Proxy, EtcdEngine, SessionId)> {
    if !Etcd::is_here() {
        return None;
    }
    let server = Etcd::shared();
    let proxy = Proxy::start(&server.address(0));
    let url = format!("{}/{}", server.url_at(&proxy.address()), Etcd::fresh_prefix());
    let engine = engine_at(&url);
    let session = engine.open_session(TTL).expect("a session");
    engine.init().expect("init");
    Some((proxy, engine, session))
}

#[test]
fn a_ticket_gets_the_same_answer_again() {
    let Some((engine, session)) = engine() else { return };
    let (first, second) = (ticket(&session, Kind::Lock), ticket(&session, Kind::Lock));
    let fence = held(engine.take("/a", &first).expect("take"));
    assert_eq!(held(engine.take("/a", &first).expect("take")), fence);
    for _ in 0..2 {
        assert!(is_busy(&engine.take("/a", &second).expect("take")));
        assert_eq!(engine.hold("/a").expect("hold").waiters.len(), 1);
    }
    assert!(engine.release("/a", &first, fence).expect("release"));
    assert!(!engine.release("/a", &first, fence).expect("release"), "it was over");
    let later = held(engine.take("/a", &second).expect("take"));
    assert!(later > fence);
    assert!(!engine.release("/a", &second, fence).expect("release"), "another fence");
    engine.leave("/a", &second).expect("leave");
    let hold = engine.hold("/a").expect("hold");
    assert!(hold.holder.is_none() && hold.waiters.is_empty() && hold.fence == later);
}

#[test]
fn a_queue_is_served_in_order_and_by_two_requests_for_each_hand_off() {
    let Some((engine, session)) = engine() else { return };
    let tickets: Vec<_> = (0..20).map(|_| ticket(&session, Kind::Lock)).collect();
    let mut fence = held(engine.take("/a", &tickets[0]).expect("take"));
    let mut watchers: Vec<_> = Vec::new();
    for waiting in &tickets[1..] {
        assert!(is_busy(&engine.take("/a", waiting).expect("take")));
        let mut watcher = engine.watch("/a", Watched::Turn(waiting)).expect("a watch");
        assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
        watchers.push(watcher);
    }
    assert_eq!(engine.hold("/a").expect("hold").waiters.len(), 19);
    let mut other = ticket(&session, Kind::Lock);
    other.may_wait = false;
    for (place, next) in tickets[1..].iter().enumerate() {
        assert!(is_busy(&engine.take("/a", &other).expect("take")), "an overtaking ticket");
        let before = engine.requests();
        assert!(engine.release("/a", &tickets[place], fence).expect("release"));
        assert!(watchers[place].wait(PATIENCE).expect("a wait"), "the next one is woken");
        let behind = watchers.get_mut(place + 1);
        let woken = behind.is_some_and(|behind| behind.wait(Duration::from_millis(1)).expect("ok"));
        assert!(!woken, "only the next one is woken");
        let later = held(engine.take("/a", next).expect("take"));
        assert!(later > fence, "fences grow");
        assert_eq!(engine.requests() - before, 2, "requests of a hand-off");
        fence = later;
    }
}

#[test]
fn a_waiter_that_leaves_is_skipped() {
    let Some((engine, session)) = engine() else { return };
    let [first, second, third, fourth] = [0; 4].map(|_| ticket(&session, Kind::Lock));
    let fence = held(engine.take("/a", &first).expect("take"));
    for waiting in [&second, &third, &fourth] {
        assert!(is_busy(&engine.take("/a", waiting).expect("take")));
    }
    let mut watcher = engine.watch("/a", Watched::Turn(&third)).expect("a watch");
    assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
    engine.leave("/a", &second).expect("leave");
    assert!(watcher.wait(PATIENCE).expect("a wait"), "its predecessor is another one now");
    assert!(is_busy(&engine.take("/a", &third).expect("take")));
    assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
    engine.release("/a", &first, fence).expect("release");
    assert!(watcher.wait(PATIENCE).expect("a wait"));
    assert!(is_busy(&engine.take("/a", &fourth).expect("take")), "it is not its turn");
    held(engine.take("/a", &third).expect("take"));
}

#[test]
fn the_end_of_a_session_frees_its_locks_and_its_places() {
    let Some((engine, session)) = engine() else { return };
    let other = engine.open_session(TTL).expect("a session");
    let [first, second] = [0; 2].map(|_| ticket(&session, Kind::Lock));
    let third = ticket(&other, Kind::Lock);
    let fence = held(engine.take("/a", &first).expect("take"));
    assert!(is_busy(&engine.take("/a", &second).expect("take")));
    assert!(is_busy(&engine.take("/a", &third).expect("take")));
    engine.close_session(&session).expect("close");
    assert!(engine.renew_session(&session).expect("renew").is_none());
    assert!(engine.renew_session(&other).expect("renew").is_some());
    let hold = engine.hold("/a").expect("hold");
    assert!(hold.abandoned && hold.waiters.len() == 1);
    let write_id = id();
    let proof = Commit { proofs: vec![("/a", fence)], ..commit(&write_id) };
    let refused = engine.commit(&proof).expect("an answer");
    assert!(matches!(refused, Committed::Refused { expired: false, .. }), "{refused:?}");
    let taken = engine.take("/a", &third).expect("take");
    let Taken::Held { recovered_from: Some(died), .. } = taken else { panic!("{taken:?}") };
    assert_eq!(died.label, "a test");
    let late = engine.take("/b", &ticket(&session, Kind::Lock)).expect_err("the session ended");
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
}

#[test]
fn a_lease_expires_and_its_token_renews_it_until_another_has_it() {
    let Some((engine, session)) = engine() else { return };
    let ttl = Duration::from_secs(2);
    let mut mine = ticket(&SessionId(String::new()), lease(ttl, 1));
    mine.may_wait = false;
    let fence = held(engine.take("/a", &mine).expect("take"));
    let state = engine.hold("/a").expect("hold").lease.expect("a lease");
    assert!(state.expires_in.is_some_and(|left| left <= ttl) && state.token_sum == [1; 16]);
    let expired = || engine.hold("/a").expect("hold").lease.is_some_and(|l| l.expires_in.is_none());
    until("the lease expires", expired);
    let write_id = id();
    let proof = Commit { proofs: vec![("/a", fence)], ..commit(&write_id) };
    let refused = engine.commit(&proof).expect("an answer");
    assert!(matches!(refused, Committed::Refused { expired: true, .. }), "{refused:?}");
    assert!(engine.renew_lease("/a", [2; 16], None).expect("renew").is_none(), "another token");
    let renewed = engine.renew_lease("/a", [1; 16], None).expect("renew").expect("its token");
    assert_eq!(renewed.fence, fence);
    assert!(matches!(engine.commit(&proof).expect("an answer"), Committed::Done(_)));
    let longer = engine.renew_lease("/a", [1; 16], Some(TTL)).expect("renew").expect("its token");
    assert_eq!((longer.fence, longer.lease.map(|lease| lease.ttl)), (fence, Some(TTL)));
    // A waiter gets it as soon as it ends.
    let waiting = ticket(&session, lease(TTL, 3));
    assert!(is_busy(&engine.take("/a", &waiting).expect("take")));
    let mut watcher = engine.watch("/a", Watched::Turn(&waiting)).expect("a watch");
    assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
    assert!(engine.end_lease("/a", [1; 16]).expect("end"));
    assert!(!engine.end_lease("/a", [1; 16]).expect("end"), "it was over");
    assert!(watcher.wait(PATIENCE).expect("a wait"));
    assert!(held(engine.take("/a", &waiting).expect("take")) > fence);
    assert!(engine.renew_lease("/a", [1; 16], None).expect("renew").is_none());
    // It outlives the session that it was taken in.
    engine.close_session(&session).expect("close");
    assert!(engine.hold("/a").expect("hold").lease.is_some_and(|l| l.expires_in.is_some()));
}

#[test]
fn a_take_over_comes_before_the_queue_and_never_takes_a_lock() {
    let Some((engine, session)) = engine() else { return };
    let [first, waiting, taker] = [1, 2, 3].map(|token| ticket(&session, lease(TTL, token)));
    let event = tenure::json!({ "event": "take_over", "detail": {} });
    let mut fences = vec![held(engine.take("/a", &first).expect("take"))];
    assert!(is_busy(&engine.take("/a", &waiting).expect("take")));
    for _ in 0..2 {
        fences.push(held(engine.take_over("/a", &taker, &event).expect("take over")));
    }
    assert_eq!(fences[1], fences[2], "the same ticket");
    assert!(is_busy(&engine.take("/a", &waiting).expect("take")));
    let events = engine.events("/a").expect("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["detail"]["from"]["fence"].as_u64(), Some(fences[0]));
    assert!(engine.end_lease("/a", [3; 16]).expect("end"));
    fences.push(held(engine.take("/a", &waiting).expect("take")));
    assert!(fences[0] < fences[1] && fences[2] < fences[3], "{fences:?}");
    let lock = ticket(&session, Kind::Lock);
    held(engine.take("/b", &lock).expect("take"));
    assert!(is_busy(&engine.take_over("/b", &taker, &event).expect("take over")));
}

#[test]
fn a_commit_answers_in_the_order_of_its_checks() {
    let Some((engine, session)) = engine() else { return };
    let guard = ticket(&session, Kind::Lock);
    let fence = held(engine.take("/guard", &guard).expect("take"));
    let first = write(&engine, "/d", b"1").version.expect("a version");
    let (one, two) = (id(), id());
    let put = |base| Some(Put { name: "/d", base, bytes: Some(b"2") });
    let full = Commit {
        id: &one,
        free: vec!["/d"],
        proofs: vec![("/guard", fence)],
        document: put(Some(&first)),
        operation: Some("op"),
        ..Commit::default()
    };
    let stale = Commit { proofs: vec![("/guard", fence - 1)], ..full.clone() };
    let answer = engine.commit(&stale).expect("an answer");
    let Committed::Refused { name, newest, holder, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((name.as_str(), newest), ("/guard", fence));
    assert_eq!(holder.map(|holder| holder.fence), Some(fence));
    let lock = ticket(&session, Kind::Lock);
    let locked = held(engine.take("/d", &lock).expect("take"));
    let busy = engine.commit(&full).expect("an answer");
    assert!(matches!(&busy, Committed::Busy { name, .. } if name == "/d"), "{busy:?}");
    engine.release("/d", &lock, locked).expect("release");
    let old = Version::new("1");
    let overtaken = Commit { document: put(Some(&old)), ..full.clone() };
    assert!(matches!(engine.commit(&overtaken).expect("an answer"), Committed::Overtaken));
    let absent = Commit { document: put(None), ..full.clone() };
    assert!(matches!(engine.commit(&absent).expect("an answer"), Committed::Overtaken));
    let receipt = done(engine.commit(&full).expect("an answer"));
    let again = done(engine.commit(&full).expect("an answer"));
    assert_eq!(receipt.version, again.version, "the same id is the same commit");
    let replayed = engine.commit(&Commit { id: &two, ..overtaken }).expect("an answer");
    let Committed::Replayed(replayed) = replayed else { panic!("{replayed:?}") };
    assert_eq!(replayed.version, receipt.version);
    let read = engine.read("/d", Some("op")).expect("a read");
    assert_eq!((read.is_done, read.document.map(|d| d.0)), (true, Some(b"2".to_vec())));
}

#[test]
fn an_unproven_write_ends_an_expired_lease() {
    let Some((engine, session)) = engine() else { return };
    held(engine.take("/a", &ticket(&session, lease(Duration::from_secs(2), 1))).expect("take"));
    until("the lease expires", || {
        engine.hold("/a").expect("hold").lease.is_some_and(|lease| lease.expires_in.is_none())
    });
    write(&engine, "/a", b"1");
    assert!(engine.renew_lease("/a", [1; 16], None).expect("renew").is_none());
}

#[test]
fn a_batch_is_whole_however_many_lines_it_has() {
    let Some((engine, _)) = engine() else { return };
    let line = |number: usize| format!("line {number}").into_bytes();
    let lines: Vec<_> = (0..3000).map(line).collect();
    let slices: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    assert_eq!(append(&engine, "/j", &slices), (1, 3000));
    for number in 3001..3100 {
        assert_eq!(append(&engine, "/j", &[b"x"]), (number, number));
    }
    for (from, limit) in [(0, 7), (1, 3), (2999, 50), (3000, 1), (3001, 98), (3099, 5), (3100, 5)] {
        let page = engine.entries("/j", from, limit).expect("entries");
        let first = from.max(1);
        let wanted: Vec<_> = (first..3100).take(limit).collect();
        let found: Vec<_> = page.entries.iter().map(|(number, _)| *number).collect();
        assert_eq!((found, page.gap), (wanted, None), "from {from}");
    }
    let all = engine.entries("/j", 0, usize::MAX).expect("entries").entries;
    assert_eq!((all.len(), &all[2999].1, &all[3000].1), (3099, &line(2999), &b"x".to_vec()));
}

#[test]
fn what_is_too_large_is_refused_before_it_is_sent() {
    let Some((engine, _)) = engine() else { return };
    let (large, one) = (vec![b'x'; 800 << 10], id());
    let lines: [&[u8]; 2] = [&large, &large];
    let change = Commit { journal: Some(("/j", &lines)), ..commit(&one) };
    let error = engine.commit(&change).expect_err("it is too large");
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Invalid, Some(false)));
    assert!(error.to_string().contains("several batches"), "{error}");
    assert!(engine.entries("/j", 0, 10).expect("entries").entries.is_empty());
    let long = vec![b'x'; 1 << 20];
    write(&engine, "/d", &long);
    assert_eq!(engine.read("/d", None).expect("a read").document.expect("one").0, long);
}

#[test]
fn entries_that_were_deleted_are_a_gap() {
    let Some((engine, _)) = engine() else { return };
    for _ in 0..3 {
        append(&engine, "/j", &[b"a", b"b"]);
    }
    delete_entries(&engine, "/j", &[1]);
    let page = engine.entries("/j", 1, 10).expect("entries");
    assert_eq!((page.gap, page.entries[0].0), (Some((1, 2)), 3));
    assert_eq!(engine.entries("/j", 0, 10).expect("entries").gap, None);
    delete_entries(&engine, "/j", &[3, 5]);
    let page = engine.entries("/j", 4, 10).expect("entries");
    assert_eq!((page.gap, page.entries.len()), (Some((4, 6)), 0));
    assert_eq!(append(&engine, "/j", &[b"c"]), (7, 7), "numbers are not given out twice");
}

fn delete_entries(engine: &EtcdEngine, name: &str, firsts: &[u64]) {
    let prefix = engine.name().rsplit_once('/').expect("a prefix").1;
    for first in firsts {
        let key = format!("/{prefix}/e{name}//{first:020}");
        let body = json!({ "key": coded(&key) });
        Etcd::shared().ask(0, "/v3/kv/deleterange", &body).expect("an answer");
    }
}

#[test]
fn names_are_listed_surveyed_and_removed() {
    let Some((engine, session)) = engine() else { return };
    write(&engine, "/c/a", b"1");
    append(&engine, "/c/b", &[b"x"]);
    write(&engine, "/c/deeper/a", b"1");
    write(&engine, "/cc", b"1");
    let lock = ticket(&session, Kind::Lock);
    held(engine.take("/c/b", &lock).expect("take"));
    assert!(is_busy(&engine.take("/c/b", &ticket(&session, Kind::Lock)).expect("take")));
    held(engine.take("/c", &ticket(&session, lease(TTL, 1))).expect("take"));
    let names: Vec<_> =
        engine.list("/c").expect("a list").into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, ["/c/a", "/c/b"]);
    let found = engine.survey("/c").expect("a survey");
    let shown: Vec<_> =
        found.iter().map(|(name, hold)| (name.as_str(), hold.waiters.len())).collect();
    assert_eq!(shown, [("/c", 0), ("/c/b", 1)]);
    assert!(found[0].1.lease.is_some() && found[1].1.holder.is_some());
    let changes = engine.list("/c").expect("a list")[0].changes;
    write(&engine, "/c/a", b"2");
    let remove = |changes| {
        let one = id();
        let removal = Some(Removal { name: "/c/a", changes });
        engine.commit(&Commit { free: vec!["/c/a"], remove: removal, ..commit(&one) })
    };
    assert!(
        matches!(remove(Some(changes)).expect("an answer"), Committed::Overtaken),
        "it changed"
    );
    let changes = engine.list("/c").expect("a list")[0].changes;
    done(remove(Some(changes)).expect("an answer"));
    assert!(matches!(remove(None).expect("an answer"), Committed::Overtaken), "it is gone");
    assert!(engine.read("/c/a", None).expect("a read").document.is_none());
}

#[test]
fn a_watch_wakes_after_lost_connections_and_after_a_compaction() {
    let Some((proxy, engine, _)) = behind_proxy() else { return };
    let plain = engine_at(&engine.name().replace(&proxy.address(), &Etcd::shared().address(0)));
    let mut watcher = engine.watch("/d", Watched::Content).expect("a watch");
    assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
    write(&plain, "/d", b"1");
    assert!(watcher.wait(PATIENCE).expect("a wait"));
    assert!(!watcher.wait(Duration::from_millis(1)).expect("a wait"));
    proxy.refuse();
    proxy.cut_all();
    write(&plain, "/d", b"2");
    for number in 0..5 {
        write(&plain, "/other", number.to_string().as_bytes());
    }
    let body = json!({ "key": coded("x") });
    let answer = Etcd::shared().ask(0, "/v3/kv/range", &body).expect("an answer");
    let revision = answer["header"]["revision"].clone();
    let _ = Etcd::shared().ask(0, "/v3/kv/compaction", &json!({ "revision": revision }));
    proxy.heal();
    until("it wakes", || watcher.wait(Duration::from_millis(50)).expect("a wait"));
    until("it is quiet", || !watcher.wait(Duration::from_millis(50)).expect("a wait"));
    write(&plain, "/d", b"3");
    assert!(watcher.wait(PATIENCE).expect("a wait"), "it works again");
}

/// Each step, with the reply to its request lost.
#[test]
fn a_lost_reply_changes_no_answer() {
    let Some((proxy, engine, session)) = behind_proxy() else { return };
    for round in 0..3 {
        let name = format!("/{round}");
        let lock = ticket(&session, Kind::Lock);
        proxy.lose_reply();
        let fence = held(engine.take(&name, &lock).expect("take"));
        let waiting = ticket(&session, Kind::Lock);
        proxy.lose_reply();
        assert!(is_busy(&engine.take(&name, &waiting).expect("take")));
        assert_eq!(engine.hold(&name).expect("hold").waiters.len(), 1);
        proxy.lose_reply();
        let one = id();
        let lines: [&[u8]; 2] = [b"a", b"b"];
        let change =
            Commit { proofs: vec![(&name, fence)], journal: Some((&name, &lines)), ..commit(&one) };
        assert_eq!(done(engine.commit(&change).expect("an append")).lines, Some((1, 2)));
        assert_eq!(engine.entries(&name, 0, 9).expect("entries").entries.len(), 2);
        proxy.lose_reply();
        assert!(engine.release(&name, &lock, fence).expect("release"));
        held(engine.take(&name, &waiting).expect("take"));
        proxy.lose_reply();
        engine.leave(&name, &waiting).expect("leave");
        let leased = ticket(&session, lease(TTL, 1));
        let event = tenure::json!({ "event": "take_over", "detail": {} });
        proxy.lose_reply();
        let fence = held(engine.take_over(&name, &leased, &event).expect("take over"));
        assert_eq!(engine.events(&name).expect("events").len(), 1);
        proxy.lose_reply();
        let renewed = engine.renew_lease(&name, [1; 16], Some(TTL * 2)).expect("renew");
        assert_eq!(renewed.map(|hold| hold.fence), Some(fence));
        proxy.lose_reply();
        assert!(engine.end_lease(&name, [1; 16]).expect("end"));
    }
    assert!(proxy.cuts() >= 18, "{} replies were lost", proxy.cuts());
}

/// A request that reached a member which stood still must not take effect when it goes on.
#[test]
fn a_late_request_takes_no_effect() {
    if !Etcd::is_here() {
        return;
    }
    let cluster = Etcd::start(3);
    let slow = (cluster.leader() + 1) % 3;
    let mut order = vec![slow];
    order.extend((0..3).filter(|index| *index != slow));
    let order: Vec<_> = order.into_iter().map(|index| cluster.address(index)).collect();
    let url = format!("{}/late?timeout=500ms", cluster.url_at(&order.join(",")));
    let fresh = || {
        let engine = engine_at(&url);
        engine.init().expect("init"); // The first member answers; the next request goes there, too.
        engine
    };
    let setup = engine_at(&url);
    let session = setup.open_session(Duration::from_secs(60)).expect("a session");
    for round in 0..3 {
        let (lock, queue, name) =
            (format!("/l{round}"), format!("/q{round}"), format!("/d{round}"));
        let owner = ticket(&session, Kind::Lock);
        held(setup.take(&queue, &owner).expect("take"));
        write(&setup, &name, b"old");
        let engines = [fresh(), fresh(), fresh()];
        cluster.pause(slow);
        thread::scope(|scope| {
            let [one, two, three] = &engines;
            let (session, lock, queue, name) = (&session, &lock, &queue, name.as_str());
            scope.spawn(move || {
                let mine = ticket(session, Kind::Lock);
                let fence = held(one.take(lock, &mine).expect("take"));
                assert!(one.release(lock, &mine, fence).expect("release"));
            });
            scope.spawn(move || {
                let mine = ticket(session, Kind::Lock);
                assert!(is_busy(&two.take(queue, &mine).expect("take")));
                two.leave(queue, &mine).expect("leave");
            });
            scope.spawn(move || {
                let one = id();
                let remove = Some(Removal { name, changes: None });
                let change = Commit { free: vec![name], remove, ..commit(&one) };
                done(three.commit(&change).expect("a removal"));
                write(three, name, b"new");
                write(three, name, b"newer");
            });
        });
        cluster.resume(slow);
        // What the slow member had is done when it has answered: its connections are served in any order, so look
        // for as long as it takes to catch up.
        let end = Instant::now() + Duration::from_millis(700);
        while Instant::now() < end {
            assert!(setup.hold(&lock).expect("hold").holder.is_none(), "a late grant");
            assert!(setup.hold(&queue).expect("hold").waiters.is_empty(), "a late place");
            let document = setup.read(&name, None).expect("a read").document;
            assert_eq!(document.map(|found| found.0), Some(b"newer".to_vec()), "a late removal");
        }
    }
}

#[test]
fn many_writers_lose_no_line_and_no_update() {
    let Some((engine, _)) = engine() else { return };
    let other = engine_at(engine.name());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for engine in [&engine, &other, &engine, &other] {
            scope.spawn(move || {
                for _ in 0..25 {
                    append(engine, "/j", &[b"a", b"b"]);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let page = engine.entries("/j", 0, usize::MAX).expect("entries");
                assert_eq!(page.entries.len() % 2, 0, "a part of a batch");
                if page.entries.len() == 200 {
                    stop.store(true, Ordering::SeqCst);
                }
            }
        });
    });
    let numbers: Vec<_> =
        engine.entries("/j", 1, 999).expect("entries").entries.into_iter().map(|e| e.0).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
}

#[test]
fn numbers_grow_after_a_snapshot_was_restored() {
    let Some((engine, session)) = engine() else { return };
    let (name, prefix) = (engine.name().to_owned(), engine.name().rsplit_once('/').expect("one").1);
    let lock = ticket(&session, Kind::Lock);
    let fence = held(engine.take("/a", &lock).expect("take"));
    let version = write(&engine, "/d", b"1").version.expect("a version");
    let last = append(&engine, "/j", &[b"x"]).1;
    // A restored snapshot runs as another cluster: its key names the one that it was taken from.
    let meta = r#"{"format":1,"cluster":"7","epoch":0}"#;
    let body = json!({ "key": coded(&format!("/{prefix}/meta")), "value": coded(meta) });
    Etcd::shared().ask(0, "/v3/kv/put", &body).expect("an answer");
    let restored = engine_at(&name);
    restored.init().expect("init");
    let one = id();
    let stale = Commit { proofs: vec![("/a", fence)], ..commit(&one) };
    for engine in [&restored, &engine] {
        let refused = engine.commit(&stale).expect("an answer");
        assert!(matches!(refused, Committed::Refused { .. }), "{refused:?}");
    }
    let put = Put { name: "/d", base: Some(&version), bytes: Some(b"2") };
    let old = Commit { document: Some(put), ..commit(&one) };
    assert!(matches!(restored.commit(&old).expect("an answer"), Committed::Overtaken));
    let later = held(restored.take("/b", &ticket(&session, Kind::Lock)).expect("take"));
    assert!(later > fence + (1 << 39) && later < 1 << 53);
    let next = append(&restored, "/j", &[b"y"]).0;
    assert!(next > last + (1 << 39));
    let numbers: Vec<_> =
        restored.entries("/j", 1, 9).expect("entries").entries.into_iter().map(|e| e.0).collect();
    assert_eq!(numbers, [last, next]);
}
