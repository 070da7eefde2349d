//! The steps of the engine on PostgreSQL, one by one.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tenure::status::Holder;
use tenure::{ErrorKind, Fence, json, store};
use tenure_engines::Postgres;
use tenure_remote::engine::{
    Commit, Committed, Engine, Kind, Put, Receipt, Removal, SessionId, Taken, Ticket, Watched,
};
use tenure_remote::postgres::PostgresEngine;
use tenure_remote::url::Url;

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Nothing here takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn engine_at(url: &str) -> PostgresEngine {
    PostgresEngine::connect(&Url::parse(url).expect("a URL")).expect("an engine")
}

/// A store of its own on the shared server.
fn engine() -> Option<PostgresEngine> {
    if !Postgres::is_here() {
        return None;
    }
    let engine = engine_at(&Postgres::shared().fresh_url());
    engine.init().expect("init");
    Some(engine)
}

pub(crate) fn ticket(session: &SessionId, kind: Kind) -> Ticket {
    Ticket {
        id: store::new_token().expect("random bytes"),
        session: session.clone(),
        kind,
        holder: Holder::this_process("a test", "me"),
        may_wait: true,
    }
}

pub(crate) fn lease(ttl: Duration, token: u8) -> Kind {
    Kind::Lease { ttl, token_sum: [token; 16] }
}

pub(crate) fn held(taken: &Taken) -> Fence {
    match taken {
        Taken::Held { fence, .. } => *fence,
        Taken::Busy { .. } => panic!("{taken:?}"),
    }
}

pub(crate) fn is_busy(taken: &Taken) -> bool {
    matches!(taken, Taken::Busy { .. })
}

pub(crate) fn commit(id: &str) -> Commit<'_> {
    Commit { id, ..Commit::default() }
}

pub(crate) fn done(committed: Committed) -> Receipt {
    match committed {
        Committed::Done(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn append(engine: &dyn Engine, name: &str, lines: &[&[u8]]) -> (u64, u64) {
    let id = store::new_token().expect("random bytes");
    let change = Commit { free: vec![name], journal: Some((name, lines)), ..commit(&id) };
    done(engine.commit(&change).expect("an append")).lines.expect("its numbers")
}

/// Repeats a look until it is true.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        thread::yield_now();
    }
}

#[test]
fn a_lock_passes_along_its_queue_in_order() {
    let Some(engine) = engine() else { return };
    let session = engine.open_session(TTL).expect("a session");
    let tickets: Vec<_> = (0..4).map(|_| ticket(&session, Kind::Lock)).collect();
    let mut fence = held(&engine.take("/a", &tickets[0]).expect("a lock"));
    for waiting in &tickets[1..] {
        assert!(is_busy(&engine.take("/a", waiting).expect("an answer")));
    }
    assert_eq!(engine.hold("/a").expect("a hold").waiters.len(), 3);
    for at in 0..3 {
        assert!(is_busy(&engine.take("/a", &tickets[3]).expect("an answer")), "the last, at {at}");
        assert!(engine.release("/a", &tickets[at], fence).expect("a release"));
        assert!(!engine.release("/a", &tickets[at], fence).expect("a second release"));
        let next = held(&engine.take("/a", &tickets[at + 1]).expect("the turn"));
        assert!(next > fence, "{next} is not above {fence}");
        assert_eq!(held(&engine.take("/a", &tickets[at + 1]).expect("the same")), next);
        fence = next;
    }
    let hold = engine.hold("/a").expect("a hold");
    assert_eq!((hold.fence, hold.waiters.len(), hold.abandoned), (fence, 0, false));
    assert_eq!(hold.holder.expect("a holder").owner, "me");
    engine.leave("/a", &tickets[3]).expect("a ticket that is given up ends its hold");
    assert!(engine.hold("/a").expect("a hold").holder.is_none());
    let late = engine.take("/a", &tickets[3]).expect_err("a late request for a ticket given up");
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
    assert!(fence < 1 << 53 && fence > 1 << 36, "{fence}");
}

#[test]
fn a_ticket_that_may_not_wait_is_not_in_the_queue() {
    let Some(engine) = engine() else { return };
    let session = engine.open_session(TTL).expect("a session");
    let (first, mut second) = (ticket(&session, Kind::Lock), ticket(&session, Kind::Lock));
    second.may_wait = false;
    let fence = held(&engine.take("/a", &first).expect("a lock"));
    let Taken::Busy { holder, expires_in } = engine.take("/a", &second).expect("an answer") else {
        panic!("two holders");
    };
    assert_eq!(holder.expect("a holder").fence, fence);
    assert!(expires_in.is_some_and(|left| left <= TTL), "{expires_in:?}");
    engine.release("/a", &first, fence).expect("a release");
    assert!(engine.hold("/a").expect("a hold").holder.is_none());
}

#[test]
fn a_session_that_is_not_renewed_ends_with_its_locks() {
    let Some(engine) = engine() else { return };
    let short = engine.open_session(Duration::from_millis(200)).expect("a session");
    let long = engine.open_session(TTL).expect("a session");
    let (first, second) = (ticket(&short, Kind::Lock), ticket(&long, Kind::Lock));
    let fence = held(&engine.take("/a", &first).expect("a lock"));
    assert!(engine.renew_session(&short).expect("a renewal").is_some());
    assert!(is_busy(&engine.take("/a", &second).expect("an answer")));
    let mut watcher = engine.watch("/a", Watched::Turn(&second)).expect("a watcher");
    let mut taken = engine.take("/a", &second).expect("an answer");
    until("the turn", || {
        if is_busy(&taken) {
            watcher.wait(PATIENCE).expect("a wait");
            taken = engine.take("/a", &second).expect("an answer");
        }
        !is_busy(&taken)
    });
    let Taken::Held { fence: next, recovered_from } = taken else { panic!("busy") };
    assert!(next > fence);
    assert_eq!(recovered_from.expect("the holder before").pid, std::process::id());
    assert!(engine.renew_session(&short).expect("an answer").is_none(), "a session that ended");
    assert!(!engine.release("/a", &first, fence).expect("an answer"));
    let proof = Commit { proofs: vec![("/a", fence)], ..commit("x1") };
    let refused = engine.commit(&proof).expect("an answer");
    assert!(matches!(refused, Committed::Refused { newest, .. } if newest == next), "{refused:?}");
    let late = engine.take("/a", &first).expect_err("a ticket of a session that ended");
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
    assert!(engine.renew_session(&long).expect("a renewal").is_some());
    engine.close_session(&long).expect("the end");
    assert!(engine.hold("/a").expect("a hold").abandoned);
}

#[test]
fn a_closed_session_passes_its_locks_on() {
    let Some(engine) = engine() else { return };
    let (one, other) = (engine.open_session(TTL), engine.open_session(TTL));
    let (one, other) = (one.expect("a session"), other.expect("a session"));
    let (first, second) = (ticket(&one, Kind::Lock), ticket(&other, Kind::Lock));
    held(&engine.take("/a", &first).expect("a lock"));
    assert!(is_busy(&engine.take("/a", &second).expect("an answer")));
    engine.close_session(&one).expect("the end");
    held(&engine.take("/a", &second).expect("the turn"));
    assert!(engine.hold("/a").expect("a hold").waiters.is_empty());
}

#[test]
fn a_lease_runs_by_the_server_s_time() {
    let Some(engine) = engine() else { return };
    let none = SessionId(String::new());
    let mut first = ticket(&none, lease(Duration::from_millis(300), 1));
    first.may_wait = false;
    let fence = held(&engine.take("/a", &first).expect("a lease"));
    let hold = engine.renew_lease("/a", [1; 16], None).expect("a renewal").expect("the lease");
    assert_eq!(hold.fence, fence);
    assert!(engine.renew_lease("/a", [2; 16], None).expect("an answer").is_none());
    until("its end", || {
        engine.hold("/a").expect("a hold").lease.expect("a lease").expires_in.is_none()
    });
    let proof = Commit { proofs: vec![("/a", fence)], ..commit("x1") };
    let refused = engine.commit(&proof).expect("an answer");
    assert!(matches!(refused, Committed::Refused { expired: true, .. }), "{refused:?}");
    let again = engine.renew_lease("/a", [1; 16], Some(TTL)).expect("a renewal");
    assert_eq!(again.expect("an expired lease that was not acquired since").fence, fence);
    assert!(matches!(engine.commit(&proof).expect("an answer"), Committed::Done(_)));

    let second = ticket(&none, lease(TTL, 2));
    let event = json!({ "event": "take_over", "detail": { "reason": "why" } });
    let next = held(&engine.take_over("/a", &second, &event).expect("a take-over"));
    assert_eq!(held(&engine.take_over("/a", &second, &event).expect("a repetition")), next);
    assert!(next > fence);
    let events = engine.events("/a").expect("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["detail"]["from"]["fence"], fence);
    assert!(!engine.end_lease("/a", [1; 16]).expect("an answer"));
    assert!(engine.end_lease("/a", [2; 16]).expect("an answer"));
    assert!(engine.hold("/a").expect("a hold").lease.is_none());

    let session = engine.open_session(TTL).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    held(&engine.take("/a", &lock).expect("a lock"));
    let third = ticket(&none, lease(TTL, 3));
    assert!(is_busy(&engine.take_over("/a", &third, &event).expect("a lock is never taken")));
}

#[test]
fn a_document_is_compared_and_set_byte_for_byte() {
    let Some(engine) = engine() else { return };
    let bytes = b" {\"b\":1.0,\"a\" : \"\\u00e4\"}\n".as_slice();
    let put = |base, bytes| Some(Put { name: "/doc", base, bytes: Some(bytes) });
    let first = Commit { free: vec!["/doc"], document: put(None, bytes), ..commit("x1") };
    let version = done(engine.commit(&first).expect("a commit")).version.expect("a version");
    let read = engine.read("/doc", None).expect("a read").document;
    assert_eq!(read, Some((bytes.to_vec(), version.clone())));
    let overtaken = Commit { free: vec!["/doc"], document: put(None, b"2"), ..commit("x2") };
    assert!(matches!(engine.commit(&overtaken).expect("an answer"), Committed::Overtaken));
    let other = tenure::Version::new("m5");
    let foreign = Commit { document: put(Some(&other), b"2"), ..commit("x3") };
    assert!(matches!(engine.commit(&foreign).expect("an answer"), Committed::Overtaken));
    let second = Commit { document: put(Some(&version), b"2"), ..commit("x4") };
    let newer = done(engine.commit(&second).expect("a commit")).version.expect("a version");
    assert_ne!(newer, version);
    let same = Put { name: "/doc", base: Some(&newer), bytes: None };
    let same = Commit { document: Some(same), operation: Some("op"), ..commit("x5") };
    assert_eq!(done(engine.commit(&same).expect("a commit")).version, Some(newer));
    assert!(engine.read("/doc", Some("op")).expect("a read").is_done);
    assert!(!engine.read("/doc", Some("other")).expect("a read").is_done);
    let long = vec![b'1'; (1 << 20) + 1];
    let long = Commit { document: put(None, &long), ..commit("x6") };
    let error = engine.commit(&long).expect_err("a document that is too long");
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Invalid, Some(false)));
}

#[test]
fn a_guarded_write_checks_everything_in_one_step() {
    let Some(engine) = engine() else { return };
    let session = engine.open_session(TTL).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/session", &lock).expect("a lock"));
    let lines: &[&[u8]] = &[b"one", b"two"];
    let all = |id| Commit {
        free: vec!["/doc", "/log"],
        proofs: vec![("/session", fence)],
        document: Some(Put { name: "/doc", base: None, bytes: Some(b"1") }),
        journal: Some(("/log", lines)),
        operation: Some("op"),
        ..commit(id)
    };
    let receipt = done(engine.commit(&all("x1")).expect("a commit"));
    let (from, to) = receipt.lines.expect("numbers");
    assert_eq!(to, from + 1);
    let page = engine.entries("/log", 0, 10).expect("a page");
    assert_eq!(page.entries, [(from, b"one".to_vec()), (to, b"two".to_vec())]);
    let replayed = engine.commit(&all("x2")).expect("an answer");
    let Committed::Replayed(again) = replayed else { panic!("{replayed:?}") };
    assert_eq!((again.version, again.lines), (receipt.version, receipt.lines));

    let busy = ticket(&session, Kind::Lock);
    let other = held(&engine.take("/log", &busy).expect("a lock"));
    let unproven = Commit { operation: None, ..all("x3") };
    let answer = engine.commit(&unproven).expect("an answer");
    assert!(matches!(&answer, Committed::Busy { name, .. } if name == "/log"), "{answer:?}");
    engine.release("/log", &busy, other).expect("a release");
    engine.release("/session", &lock, fence).expect("a release");
    let answer = engine.commit(&all("x4")).expect("an answer");
    assert!(matches!(&answer, Committed::Refused { name, .. } if name == "/session"), "{answer:?}");
    let unknown = Commit { proofs: vec![("/never", 7)], ..commit("x5") };
    let answer = engine.commit(&unknown).expect("an answer");
    assert!(matches!(answer, Committed::Refused { newest: 0, .. }), "{answer:?}");
    assert_eq!(engine.entries("/log", 0, 10).expect("a page").entries.len(), 2);
}

#[test]
fn a_removed_target_leaves_nothing_but_growing_numbers() {
    let Some(engine) = engine() else { return };
    let session = engine.open_session(TTL).expect("a session");
    let lock = ticket(&session, Kind::Lock);
    let fence = held(&engine.take("/dir/a", &lock).expect("a lock"));
    engine.release("/dir/a", &lock, fence).expect("a release");
    let (_, last) = append(&engine, "/dir/a", &[b"1", b"2", b"3"]);
    append(&engine, "/dir/deep/b", &[b"1"]);
    append(&engine, "/direct", &[b"1"]);
    let listed = engine.list("/dir").expect("a list");
    assert_eq!(listed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["/dir/a"]);
    assert!(listed[0].has_content && listed[0].age < PATIENCE);
    let held_names: Vec<_> =
        engine.survey("/").expect("a survey").into_iter().map(|(n, _)| n).collect();
    assert_eq!(held_names, ["/dir/a"]);
    let remove = |id, changes| Commit {
        free: vec!["/dir/a"],
        remove: Some(Removal { name: "/dir/a", changes }),
        ..commit(id)
    };
    let answer = engine.commit(&remove("x1", Some(listed[0].changes - 1))).expect("an answer");
    assert!(matches!(answer, Committed::Overtaken), "{answer:?}");
    done(engine.commit(&remove("x2", Some(listed[0].changes))).expect("a removal"));
    assert!(engine.list("/dir").expect("a list").is_empty());
    assert!(engine.survey("/dir").expect("a survey").is_empty());
    assert!(engine.entries("/dir/a", 0, 10).expect("a page").entries.is_empty());
    let answer = engine.commit(&remove("x3", None)).expect("an answer");
    assert!(matches!(answer, Committed::Overtaken), "{answer:?}");
    let (first, _) = append(&engine, "/dir/a", &[b"4"]);
    assert!(first > last, "{first} was given out before");
    let again = ticket(&session, Kind::Lock);
    assert!(held(&engine.take("/dir/a", &again).expect("a lock")) > fence);
}

#[test]
fn ages_of_one_list_are_read_at_one_moment() {
    if !Postgres::is_here() {
        return;
    }
    let (server, schema) = (Postgres::shared(), Postgres::fresh_schema());
    let engine = engine_at(&format!("{}?schema={schema}", server.url()));
    engine.init().expect("init");
    server.sql(&format!(
        "insert into {schema}.target (name, changed, journal) \
         select '/dir/' || number, now(), true from generate_series(1, 500) number"
    ));
    let mut ages: Vec<_> =
        engine.list("/dir").expect("a list").into_iter().map(|one| one.age).collect();
    assert_eq!(ages.len(), 500);
    ages.dedup();
    assert_eq!(ages.len(), 1, "{ages:?}");
}

#[test]
fn two_writers_on_sixteen_journals_number_without_holes() {
    const JOURNALS: usize = 16;
    const ROUNDS: usize = 20;
    let Some(engine) = engine() else { return };
    let start = Barrier::new(2 * JOURNALS);
    thread::scope(|scope| {
        for writer in 0..2 * JOURNALS {
            let (engine, start) = (&engine, &start);
            scope.spawn(move || {
                let name = format!("/log/{}", writer % JOURNALS);
                start.wait();
                let mut before = 0;
                for _ in 0..ROUNDS {
                    let (first, last) = append(engine, &name, &[b"a", b"b"]);
                    assert!(first > before && last == first + 1);
                    before = last;
                }
            });
        }
    });
    for journal in 0..JOURNALS {
        let page = engine.entries(&format!("/log/{journal}"), 0, 1000).expect("a page");
        let numbers: Vec<_> = page.entries.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), 4 * ROUNDS);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
}

#[test]
fn many_operations_are_remembered_and_the_oldest_are_dropped() {
    let Some(engine) = engine() else { return };
    let put = |engine: &PostgresEngine, number: usize| {
        let (id, operation) = (format!("x{number}"), format!("op{number}"));
        let line: &[&[u8]] = &[b"x"];
        let change =
            Commit { journal: Some(("/log", line)), operation: Some(&operation), ..commit(&id) };
        done(engine.commit(&change).expect("a commit"));
    };
    (0..5200).for_each(|number| put(&engine, number));
    let known =
        |number: usize| engine.read("/log", Some(&format!("op{number}"))).expect("a read").is_done;
    assert!(known(5199) && known(5200 - 4096) && !known(0) && !known(500));
}

#[test]
fn a_change_wakes_those_who_watch_it() {
    let Some(engine) = engine() else { return };
    let mut watcher = engine.watch("/log", Watched::Content).expect("a watcher");
    let mut other = engine.watch("/other", Watched::Content).expect("a watcher");
    for _ in 0..3 {
        append(&engine, "/log", &[b"x"]);
        assert!(watcher.wait(PATIENCE).expect("a wait"), "a change that woke nothing");
    }
    while watcher.wait(Duration::from_millis(700)).expect("a wait") {}
    assert!(!other.wait(Duration::ZERO).expect("a wait"), "a change of another target");
}
