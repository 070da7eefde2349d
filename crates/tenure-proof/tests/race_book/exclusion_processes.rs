//! Races 16 to 19: forks, threads and re-entrance, and waiting that costs.

use std::time::{Duration, Instant};

use serde_json::json;
use tenure::{ErrorKind, Lock, LockOptions, Wait, try_lock};
use tenure_proof::puppet::{Child, Heard, Language, Puppet, Troupe};
use tenure_shipped::documents::SaveWithoutLock;
use tenure_shipped::locks::{ReentrantLock, SessionLock, SpinningLock};
use tenure_shipped::{Document as _, Lock as _};

use crate::scene::{Scene, TOO_MUCH, await_on, cpu_time, holder, kind, on};

/// OpenClaw's children ran the exit handlers of their parent and released its lock; a descriptor
/// that a program inherits keeps a lock that its owner has released. Ours: neither happens (G2,
/// G11).
#[test]
fn race_16_a_child_releases_or_keeps_the_lock_of_its_parent() {
    let mut scene = Scene::new("race_16");
    let directory = scene.theirs();
    let mut parent = scene.their_holder(&["env"]).unwrap();
    parent.say("fork");
    assert_eq!(parent.line().as_deref(), Some("done"), "the child has ended, the parent has not");
    SessionLock::open(&directory).unwrap().enter().expect("inside together with the parent");
    assert!(parent.end().is_done(), "it lived, and did not know");
    scene.broke("OpenClaw: exit handlers of a child");

    let path = scene.state();
    let (mut alice, _) = holder(&path);
    let child = alice.does(&json!({ "op": "fork" }));
    assert_eq!(child["verify"], "compromised", "the child does not have the lock");
    assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy));
    alice.does(&json!({ "op": "verify" }));
    alice.does(&json!({ "op": "program" }));
    alice.does(&json!({ "op": "release" }));
    try_lock(&path).expect("the program does not keep it").release().unwrap();
    scene.tally.tried(2, "children of a holder");
}

/// OpenClaw's re-entrant lock admitted every task of the process, related or not. Ours: off by
/// default, and only for the owner that holds it.
#[test]
fn race_17_reentrance_lets_strangers_in() {
    let mut scene = Scene::new("race_17");
    let directory = scene.theirs();
    let mut turn = ReentrantLock::open(&directory).unwrap();
    turn.enter().unwrap();
    let mut work = SaveWithoutLock::open(&directory);
    let at = directory.clone();
    work.meanwhile.is(move || {
        // Another task of the process, for another user.
        let mut stranger = ReentrantLock::open(&at).unwrap();
        stranger.enter().expect("he is inside together with the first");
        SaveWithoutLock::open(&at).add("turn 2").unwrap();
        stranger.leave().unwrap();
    });
    work.add("turn 1").unwrap();
    turn.leave().unwrap();
    assert_eq!(scene.their_keys(), ["turn 1"], "what the stranger did under the lock is lost");
    scene.broke("OpenClaw: a re-entrant lock lets every task of the process in");

    let path = scene.state();
    let lock = Lock::open(&path).unwrap();
    let by = |owner: &str| LockOptions {
        owner: owner.into(),
        reentrant: true,
        wait: Wait::No,
        ..LockOptions::default()
    };
    let first = lock.acquire(&by("turn 1")).unwrap();
    let again = lock.acquire(&by("turn 1")).unwrap();
    assert_eq!(first.publish_fence(), again.publish_fence());
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| kind(lock.acquire(&by("turn 2"))));
        assert_eq!(stranger.join().unwrap(), Some(ErrorKind::Busy));
        let plain = scope.spawn(|| kind(try_lock(&path)));
        assert_eq!(plain.join().unwrap(), Some(ErrorKind::Busy));
    });
    first.release().unwrap();
    let mut other = Child::rust();
    assert_eq!(other.is_refused(&on("lock", &path)), "busy", "held until the last one leaves");
    again.release().unwrap();
    other.does(&on("lock", &path));
    scene.tally.tried(3, "strangers at a re-entrant lock");
}

/// A synchronous caller waits for an asynchronous holder of its own thread, for ever or until a
/// deadline. Ours: a thread that would wait for itself gets an error at once; other threads wait as
/// they should.
#[test]
fn race_18_a_thread_waits_for_itself() {
    let mut scene = Scene::new("race_18");
    let directory = scene.theirs();
    let (mut outer, mut inner) =
        (SessionLock::open(&directory).unwrap(), SessionLock::open(&directory).unwrap());
    outer.enter().unwrap();
    let error = inner.enter().expect_err("it waits for itself");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "to the end");
    scene.broke("OpenClaw: a process waits for its own lock");

    let path = scene.state();
    let troupe = Troupe::start(&mut Language::Rust.command()).unwrap();
    let (mut alice, mut bob) = (troupe.actor("alice"), troupe.actor("bob"));
    alice.does(&on("lock", &path));
    let again = json!({ "op": "lock", "path": path, "wait": "forever", "as": "second" });
    assert_eq!(alice.is_refused(&again), "deadlock");
    assert_eq!(alice.is_refused(&await_on("add", &path)), "deadlock");
    bob.tell(&await_on("add", &path));
    bob.is_silent();
    alice.does(&json!({ "op": "release" }));
    assert!(bob.hear()["ok"].is_object());
    scene.tally.tried(2, "waits for oneself");
}

/// codegraph polls and spins: eight writers are nine times slower than one, and some starve. Ours:
/// the kernel queues. A wait costs no CPU, and every waiter gets the lock, even beside a process
/// that takes it again and again (G9).
#[test]
fn race_19_polling_burns_cpu_and_starves() {
    let mut scene = Scene::new("race_19");
    let directory = scene.theirs();
    let [mut alice, mut bob] = std::array::from_fn(|_| SpinningLock::open(&directory));
    let first_in_line = SpinningLock::open(&directory);
    alice.enter().unwrap();
    let before = cpu_time("thread-self");
    // Ours waits for half a second, which is twenty polls. A busy machine may give a spinner less
    // CPU.
    let burns = (0..200).any(|_| {
        assert!(!first_in_line.look().unwrap());
        SpinningLock::spin();
        cpu_time("thread-self").saturating_sub(before) >= TOO_MUCH
    });
    assert!(burns, "it spins");
    scene.broke("codegraph: a wait that spins");
    for _ in 0..50 {
        // It is free between two polls, and a newcomer gets it.
        alice.leave().unwrap();
        bob.enter().unwrap();
        assert!(!first_in_line.look().unwrap(), "first in line, and served last");
        std::mem::swap(&mut alice, &mut bob);
    }
    scene.broke("codegraph: a caller that polls is passed over by later callers");

    let path = scene.state();
    let (mut alice, _) = holder(&path);
    let mut waiting: Vec<_> = (0..6).map(|_| Child::rust()).collect();
    let (before, started) = (cpu_time(&waiting[0].pid().to_string()), Instant::now());
    let for_a_while = json!({ "op": "lock", "path": path, "wait": 500 });
    assert_eq!(waiting[0].is_refused(&for_a_while), "busy");
    assert!(started.elapsed() >= Duration::from_millis(500));
    let used = cpu_time(&waiting[0].pid().to_string()).saturating_sub(before);
    assert!(used < TOO_MUCH, "{used:?} of CPU for a wait");
    for puppet in &mut waiting {
        puppet.tell(&await_on("add", &path));
    }
    alice.does(&json!({ "op": "release" }));
    alice.tell(&json!({ "op": "add", "path": path, "times": 10_000_000, "wait": "forever" }));
    for puppet in &mut waiting {
        assert!(puppet.hear()["ok"].is_object(), "no waiter starves");
        scene.tally.tried(1, "waiters served beside one who wants the lock again and again");
    }
    assert_eq!(alice.hear_within(Duration::ZERO), Heard::Silence, "she is still at it");
}
