//! Members of a cluster are killed: nothing that was acknowledged is lost, errors are clear, and it recovers by itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{ErrorKind, Fence};
use tenure_engines::{Etcd, Proxy, Way};
use tenure_remote::engine::{Commit, Engine, Kind, Watched};
use tenure_remote::etcd::EtcdEngine;

use crate::asking::{PATIENCE, append, commit, done, held, id, ticket, until, write};
use crate::etcd_steps::engine_at;

const TTL: Duration = Duration::from_secs(20);

/// The answers that the clients of a test got.
#[derive(Default)]
struct Answers {
    fences: Mutex<Vec<Fence>>,
    lines: Mutex<Vec<(u64, String)>>,
    rounds: AtomicU64,
    longest: Mutex<Duration>,
    inside: AtomicBool,
}

/// Takes the lock, appends under its fence, and releases it, until it has to stop.
fn work(engine: &EtcdEngine, worker: usize, answers: &Answers, stop: &AtomicBool) {
    let session = engine.open_session(TTL).expect("a session");
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        let mine = ticket(&session, Kind::Lock);
        let mut watcher = engine.watch("/lock", Watched::Turn(&mine)).expect("a watch");
        let fence = loop {
            match engine.take("/lock", &mine).expect("take") {
                tenure_remote::engine::Taken::Held { fence, .. } => break fence,
                tenure_remote::engine::Taken::Busy { .. } => {
                    watcher.wait(Duration::from_secs(1)).expect("a wait");
                }
            }
        };
        assert!(!answers.inside.swap(true, Ordering::SeqCst), "two holders");
        answers.fences.lock().expect("fences").push(fence);
        let line = format!("{worker} {round}");
        let (one, lines) = (id(), [line.as_bytes()]);
        let change = Commit { proofs: vec![("/lock", fence)], ..commit(&one) };
        let change = Commit { journal: Some(("/log", &lines)), ..change };
        let (number, _) = done(engine.commit(&change).expect("an append")).lines.expect("numbers");
        answers.lines.lock().expect("lines").push((number, line));
        answers.inside.store(false, Ordering::SeqCst);
        assert!(engine.release("/lock", &mine, fence).expect("release"), "the lock was lost");
        answers.rounds.fetch_add(1, Ordering::SeqCst);
        let mut longest = answers.longest.lock().expect("a time");
        *longest = longest.max(began.elapsed());
    }
    engine.close_session(&session).expect("close");
}

/// Works, lets `fault` happen in the middle, and checks that everything that was acknowledged is there.
fn through(cluster: &mut Etcd, fault: impl FnOnce(&mut Etcd)) {
    let url = format!("{}/kill", cluster.url());
    let engines = [engine_at(&url), engine_at(&url)];
    let (answers, stop) = (Answers::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for (worker, engine) in engines.iter().enumerate() {
            let (answers, stop) = (&answers, &stop);
            scope.spawn(move || work(engine, worker, answers, stop));
        }
        let more = || {
            let wanted = answers.rounds.load(Ordering::SeqCst) + 20;
            until("the clients work", || answers.rounds.load(Ordering::SeqCst) >= wanted);
        };
        more();
        fault(cluster);
        more();
        stop.store(true, Ordering::SeqCst);
    });
    let fences = answers.fences.lock().expect("fences");
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "fences grow: {fences:?}");
    let found = engines[0].entries("/log", 1, usize::MAX).expect("entries").entries;
    let found: Vec<_> =
        found.into_iter().map(|(number, line)| (number, String::from_utf8(line))).collect();
    let lines = answers.lines.lock().expect("lines");
    assert_eq!(found.len(), lines.len(), "nothing is lost, and nothing is there twice");
    for (found, (number, line)) in found.into_iter().zip(lines.iter()) {
        assert_eq!(found, (*number, Ok(line.clone())));
    }
    let longest = *answers.longest.lock().expect("a time");
    assert!(longest < Duration::from_secs(15), "a round took {longest:?}");
}

#[test]
fn the_leader_is_killed() {
    if !Etcd::is_here() {
        return;
    }
    through(&mut Etcd::start(3), |cluster| {
        let leader = cluster.leader();
        cluster.kill(leader);
    });
}

#[test]
fn a_follower_is_killed_and_comes_back() {
    if !Etcd::is_here() {
        return;
    }
    through(&mut Etcd::start(3), |cluster| {
        let follower = (cluster.leader() + 1) % 3;
        cluster.kill(follower);
        cluster.restart(follower);
    });
}

#[test]
fn the_leader_stands_still_for_a_while() {
    if !Etcd::is_here() {
        return;
    }
    through(&mut Etcd::start(3), |cluster| {
        let leader = cluster.leader();
        cluster.pause(leader);
        until("there is another leader", || cluster.leader() != leader);
        cluster.resume(leader);
    });
}

#[test]
fn a_connection_may_be_half_closed_at_any_byte() {
    if !Etcd::is_here() {
        return;
    }
    let (cluster, prefix) = (Etcd::shared(), Etcd::fresh_prefix());
    let proxy = Proxy::start(&cluster.address(0));
    let engine = engine_at(&format!("etcd://{}/{prefix}", proxy.address()));
    append(&engine, "/j", &[b"0"]);
    let mut appended = 1;
    for way in [Way::Requests, Way::Replies] {
        for bytes in (0..1400).step_by(90) {
            proxy.half_close_after(way, bytes);
            append(&engine, "/j", &[format!("{way:?} {bytes}").as_bytes()]);
            appended += 1;
            proxy.heal();
        }
    }
    assert!(proxy.cuts() > 10, "{} faults", proxy.cuts());
    let direct = engine_at(&format!("etcd://{}/{prefix}", cluster.address(0)));
    assert_eq!(direct.entries("/j", 0, 1000).expect("entries").entries.len(), appended);
}

#[test]
fn without_a_majority_errors_are_clear_and_nothing_is_lost() {
    if !Etcd::is_here() {
        return;
    }
    let mut cluster = Etcd::start(3);
    let url = format!("{}/majority?timeout=500ms", cluster.url());
    let engine = engine_at(&url);
    write(&engine, "/d", b"before");
    append(&engine, "/j", &[b"before"]);
    cluster.kill(0);
    cluster.kill(1);
    let began = Instant::now();
    let error = engine.read("/d", None).expect_err("a read needs a majority");
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Io);
    for part in [url.split('?').next().expect("a URL"), "most members must run"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(error.to_string().lines().count(), 1);
    let (one, lines) = (id(), [&b"unclear"[..]]);
    let change = Commit { journal: Some(("/j", &lines)), ..commit(&one) };
    let error = engine.commit(&change).expect_err("a write needs a majority");
    assert_eq!(error.is_committed(), None, "{error}");
    let findings = engine.check().expect("a report");
    assert!(findings.iter().any(|finding| finding.problem.is_some()), "{findings:?}");
    cluster.launch(0);
    cluster.wait(0);
    until("it recovers", || engine.read("/d", None).is_ok());
    // The same commit again: done once, whatever became of the first.
    assert_eq!(done(engine.commit(&change).expect("a commit")).lines, Some((2, 2)));
    let lines: Vec<_> = engine.entries("/j", 1, 9).expect("entries").entries;
    assert_eq!(
        lines.iter().map(|entry| entry.1.as_slice()).collect::<Vec<_>>(),
        [&b"before"[..], b"unclear"]
    );
    assert_eq!(engine.read("/d", None).expect("a read").document.expect("one").0, b"before");
}

#[test]
fn disks_that_were_rolled_back_are_noticed_by_a_client_that_ran() {
    if !Etcd::is_here() {
        return;
    }
    let mut cluster = Etcd::start(1);
    let engine = engine_at(&format!("{}/rolled", cluster.url()));
    let session = engine.open_session(TTL).expect("a session");
    let mine = ticket(&session, Kind::Lock);
    held(engine.take("/a", &mine).expect("take"));
    cluster.kill(0);
    cluster.keep(0);
    cluster.restart(0);
    let mut fence = 0;
    for number in 0..5 {
        let mine = ticket(&session, Kind::Lock);
        fence = held(engine.take(&format!("/{number}"), &mine).expect("take"));
    }
    cluster.kill(0);
    cluster.roll_back(0);
    cluster.restart(0);
    let error = engine.read("/d", None).expect_err("the revision fell");
    assert_eq!(error.kind(), ErrorKind::Compromised, "{error}");
    let session = engine.open_session(TTL).expect("a session");
    let later = held(engine.take("/4", &ticket(&session, Kind::Lock)).expect("take"));
    assert!(later > fence, "a fence was given out again: {later} after {fence}");
}

/// Appends of one process to one journal take turns. One that has no answer costs the others a moment, not its time.
#[test]
fn appends_of_one_process_do_not_wait_for_each_other_in_an_outage() {
    if !Etcd::is_here() {
        return;
    }
    let proxy = Proxy::start(&Etcd::shared().address(0));
    let prefix = Etcd::fresh_prefix();
    let engine = engine_at(&format!("etcd://{}/{prefix}?timeout=200ms", proxy.address()));
    append(&engine, "/log", &[b"0"]);
    proxy.swallow();
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (one, lines) = (id(), [&b"x"[..]]);
                let change = Commit { journal: Some(("/log", &lines)), ..commit(&one) };
                engine.commit(&change).expect_err("no answer");
            });
        }
    });
    // One alone takes 1.6 s, and one after the other would take 12.8 s.
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}
