//! Races 16 to 19: forks, threads and re-entrance, and waiting that costs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tenure::{ErrorKind, Lock, LockOptions, Wait, try_lock};
use tenure_proof::puppet::{Child, Language, Puppet, Troupe};
use tenure_shipped::Lock as _;
use tenure_shipped::locks::{SessionLock, lock_file};

use crate::scene::{Scene, add, at_once, await_on, holder, kind, on};

/// OpenClaw's children ran the exit handlers of their parent and released its lock; a descriptor that a
/// program inherits keeps a lock that its owner has left. Ours: neither (G2, G11).
#[test]
fn race_16_a_child_releases_or_keeps_the_lock_of_its_parent() {
    let mut scene = Scene::new("race_16");
    let directory = scene.theirs();
    let mut parent = SessionLock::open(&directory).unwrap();
    parent.enter().unwrap();
    // The child's exit handler has the same path and the same code.
    let mut child = std::process::Command::new("rm");
    let status = child.arg(lock_file(&directory)).status().unwrap();
    assert!(status.success() && !lock_file(&directory).exists(), "the parent's lock is gone");
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

/// OpenClaw's re-entrant lock let every task of the process in, related or not. Ours: off by default, and
/// only for the owner who holds it.
#[test]
fn race_17_reentrance_lets_strangers_in() {
    let mut scene = Scene::new("race_17");
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
    assert_eq!(first.fence(), again.fence());
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

/// A synchronous caller waits for an asynchronous holder of its own thread, for ever or until a deadline.
/// Ours: the thread that would wait for itself is told at once; other threads wait as they should.
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

/// codegraph polls and spins: eight writers are nine times slower than one, and the unlucky starve. Ours:
/// the kernel queues. A wait costs no CPU, and everybody gets the lock (G9).
#[test]
fn race_19_polling_burns_cpu_and_starves() {
    let mut scene = Scene::new("race_19");
    let path = scene.state();
    let (mut alice, _) = holder(&path);
    let lock = Lock::open(&path).unwrap();
    let options =
        LockOptions { wait: Wait::For(Duration::from_millis(500)), ..LockOptions::default() };
    let (started, used) = (Instant::now(), cpu_time());
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Busy));
    let (waited, used) = (started.elapsed(), cpu_time().saturating_sub(used));
    assert!(waited >= Duration::from_millis(500));
    assert!(used < Duration::from_millis(50), "{used:?} of CPU for a wait of {waited:?}");
    let mut waiting: Vec<_> = (0..6).map(|_| Child::rust()).collect();
    for puppet in &mut waiting {
        puppet.tell(&await_on("add", &path));
    }
    alice.does(&json!({ "op": "release" }));
    for puppet in &mut waiting {
        assert!(puppet.hear()["ok"].is_object(), "nobody starves");
        scene.tally.tried(1, "waiters served");
    }
    add(&path, &at_once(None)).unwrap();
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
