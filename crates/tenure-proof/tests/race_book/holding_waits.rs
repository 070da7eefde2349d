//! Races 44 to 49: holding too long, waiting badly, and errors that mislead.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tenure::options::MaxHold;
use tenure::{ErrorKind, Lock, LockOptions, Wait, status, try_lock};
use tenure_proof::puppet::{Child, FAR_TOO_LONG, Language, Puppet, Troupe};
use tenure_shipped::Lock as _;
use tenure_shipped::locks::{MtimeLock, SessionLock, SpinningLock, Watchdog};

use crate::scene::{Scene, TOO_MUCH, add, at_once, await_on, count, cpu_time, holder, kind, on};

fn lease(path: &std::path::Path, ttl: u64, owner: &str) -> serde_json::Value {
    json!({ "op": "acquire", "path": path, "ttl": ttl, "owner": owner })
}

/// A lock over a whole model call: holds of five minutes, and waiters that time out without knowing
/// the holder. Ours: a lease for the turn, short locks for its writes, and an error that names
/// owner and age (G9).
#[test]
fn race_44_a_lock_is_held_for_a_whole_turn() {
    let mut scene = Scene::new("race_44");
    let directory = scene.theirs();
    let turn = scene.their_holder(&["env"]).unwrap(); // It asks the model, which thinks.
    let error =
        SessionLock::open(&directory).unwrap().enter().expect_err("no other process can write");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(!error.to_string().contains(&turn.pid().to_string()), "on whom? {error}");
    assert!(turn.end().is_done(), "it was at work all the time");
    scene.broke("OpenClaw: a lock for the whole turn, and waiters that time out");

    let (session, state) = (scene.ours("session"), scene.state());
    let mut hook = Child::rust();
    let got = hook.does(&lease(&session, 60_000, "turn 7"));
    hook.kill(); // A hook is short-lived; the next one continues the turn.
    let mut hook = Child::rust();
    let guards = json!([{ "target": session, "fence": got["fence"] }]);
    hook.does(&json!({ "op": "add", "path": state, "guards": guards }));
    // During the turn, others read and write all other targets.
    add(&state, &at_once(None)).unwrap();
    assert_eq!(count(&state), 2);
    let error = try_lock(&session).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let holder = error.holder().unwrap();
    assert_eq!(holder.owner, "turn 7");
    assert!(holder.since_us > 0 && error.next_step().is_some(), "{error}");
    scene.tally.tried(1, "turns over several processes");
}

/// Early returns, aborts and exceptions that skip the release. Ours: a hold ends with its scope,
/// with its process, or, on request, with its own limit.
#[test]
fn race_45_a_release_is_forgotten() {
    let mut scene = Scene::new("race_45");
    let directory = scene.theirs();
    let returns_early = || SessionLock::open(&directory)?.enter();
    returns_early().unwrap();
    returns_early().expect_err("it has no holder, and cannot be taken");
    scene.broke("OpenClaw: an early return keeps the lock");

    let path = scene.state();
    let fails = || -> tenure::Result<()> {
        let _guard = try_lock(&path)?;
        add(&path, &at_once(Some(1)))?; // Refused, and so we return early.
        Ok(())
    };
    assert_eq!(kind(fails()), Some(ErrorKind::Fenced));
    try_lock(&path).expect("an early return releases").release().unwrap();
    let panics = std::panic::catch_unwind(|| {
        let _guard = try_lock(&path).unwrap();
        panic!("an exception");
    });
    assert!(panics.is_err());
    try_lock(&path).expect("an exception releases").release().unwrap();
    let (mut leaking, _) = holder(&path);
    leaking.kill();
    try_lock(&path).expect("the end of the process releases").release().unwrap();

    let (told, reported) = channel();
    let report = Arc::new(move |path: &std::path::Path| told.send(path.to_path_buf()).unwrap());
    let limit = MaxHold { after: Duration::from_millis(50), end: true, report };
    let options = LockOptions { max_hold: Some(limit), ..LockOptions::default() };
    let guard = Lock::open(&path).unwrap().acquire(&options).unwrap();
    reported.recv_timeout(FAR_TOO_LONG).expect("an overlong hold is reported");
    let late = add(&path, &at_once(Some(guard.publish_fence())));
    assert_eq!(kind(late), Some(ErrorKind::Fenced));
    try_lock(&path).expect("and ended, if its holder asked for that").release().unwrap();
    scene.tally.tried(4, "forgotten releases");
}

/// A watchdog that stops at the first lock it cannot read, and one that sees only its own
/// process's. Ours: `status::below` shows every hold of every process, whatever else is in the
/// directory.
#[test]
fn race_46_a_watchdog_stops_at_the_first_failure() {
    let mut scene = Scene::new("race_46");
    let mut watchdog = Watchdog::default();
    let locks = ["a", "b", "c"].map(|name| scene.theirs().join(name));
    for lock in &locks {
        std::fs::write(lock, "{}").unwrap();
        watchdog.note(lock.clone());
    }
    std::fs::remove_file(&locks[1]).unwrap();
    std::fs::create_dir(&locks[1]).unwrap(); // This one it cannot end.
    for _ in 0..3 {
        watchdog.round().expect_err("the round ends where it fails");
        assert!(!locks[0].exists() && locks[2].exists(), "the last one stays locked");
    }
    scene.broke("OpenClaw: a watchdog stops at the first lock that it cannot end");
    assert_eq!(Watchdog::default().round().unwrap(), 0, "that of another process sees none");
    assert!(locks[2].exists());
    scene.broke("OpenClaw: a watchdog sees only the locks of its own process");

    let mut holders: Vec<_> = ["a", "b", "d"].map(|name| holder(&scene.ours(name)).0).into();
    holders[0].does(&json!({ "op": "lock", "path": scene.ours("c"), "as": "c" }));
    holders[0].does(&json!({ "op": "release", "as": "c" }));
    let sidecars = scene.ours(".tenure");
    std::fs::write(sidecars.join("c.commit"), "garbage").unwrap();
    std::fs::create_dir(sidecars.join("bb.hold")).unwrap();
    std::fs::write(sidecars.join("stranger"), "?").unwrap();
    let all = status::below(scene.ours(".")).unwrap().targets;
    let held: Vec<_> = all.iter().filter(|status| status.state.is_held()).collect();
    assert_eq!(held.len(), 3, "{held:?}");
    for (status, holder) in held.iter().zip(&holders) {
        assert_eq!(status.holder.as_ref().map(|holder| holder.pid), Some(holder.pid()));
        scene.tally.tried(1, "holds of other processes seen");
    }
}

/// One thread that runs callbacks one after the other, as in Node.
struct EventLoop {
    queue: Sender<Callback>,
    thread: JoinHandle<Vec<&'static str>>,
}

type Callback = Box<dyn FnOnce(&mut Vec<&'static str>) + Send>;

impl EventLoop {
    fn start() -> Self {
        let (queue, callbacks) = channel::<Callback>();
        let run = move || {
            let mut done = Vec::new();
            for callback in callbacks {
                callback(&mut done);
            }
            done
        };
        Self { queue, thread: std::thread::spawn(run) }
    }

    fn then(&self, callback: impl FnOnce(&mut Vec<&'static str>) + Send + 'static) {
        self.queue.send(Box::new(callback)).unwrap();
    }

    /// What was done, in order.
    fn end(self) -> Vec<&'static str> {
        drop(self.queue);
        self.thread.join().unwrap()
    }
}

/// A busy wait "so that callbacks keep firing": no timer fired in 1.8 seconds. Ours: a wait blocks
/// one thread, in the kernel, which need not be the thread of the callbacks; all others continue.
#[test]
fn race_47_a_wait_freezes_everything_else() {
    let mut scene = Scene::new("race_47");
    let directory = scene.theirs();
    let (mut alice, bob) = (SpinningLock::open(&directory), SpinningLock::open(&directory));
    alice.enter().unwrap();
    let event_loop = EventLoop::start();
    let (looked, looks) = channel();
    event_loop.then(move |done| {
        while !bob.look().unwrap() {
            looked.send(cpu_time("thread-self")).unwrap();
            SpinningLock::spin();
        }
        done.push("entered");
    });
    let before = looks.recv().unwrap();
    event_loop.then(|done| done.push("tick")); // Due, while he still polls.
    let burns = looks.iter().take(200).any(|used| used.saturating_sub(before) >= TOO_MUCH);
    alice.leave().unwrap();
    assert!(burns, "it spins");
    assert_eq!(event_loop.end(), ["entered", "tick"], "nothing fires before the wait is over");
    scene.broke("gsd-pi: a wait that spins, so that callbacks keep firing");

    let path = scene.state();
    let (mut alice, _) = holder(&path);
    let event_loop = EventLoop::start();
    let (ticked, tick) = channel();
    let (back, at) = (event_loop.queue.clone(), path.clone());
    event_loop.then(move |_| {
        std::thread::spawn(move || {
            let options = LockOptions { wait: Wait::Forever, ..LockOptions::default() };
            let got = Lock::open(&at).unwrap().acquire(&options).map(drop);
            back.send(Box::new(move |done| got.map(|()| done.push("entered")).unwrap())).unwrap();
        });
    });
    event_loop.then(move |done| {
        done.push("tick");
        ticked.send(()).unwrap();
    });
    tick.recv_timeout(FAR_TOO_LONG).expect("it ticks while the other thread waits");
    alice.does(&json!({ "op": "release" }));
    assert_eq!(event_loop.end(), ["tick", "entered"]);
    let troupe = Troupe::start(&mut Language::Rust.command()).unwrap();
    let (mut one, mut other) = (troupe.actor("one"), troupe.actor("other"));
    let (_bob, _) = holder(&path);
    one.tell(&json!({ "op": "lock", "path": path, "wait": "forever" }));
    for number in 1..=100 {
        let n = other.does(&on("add", &scene.ours("free.json")));
        assert_eq!(n["n"], number);
        scene.tally.tried(1, "calls beside a wait");
    }
    one.is_silent();
    // The wait costs nothing: another process does nothing but wait, for half a second.
    let (mut waiting, mut clock) = (Child::rust(), Child::rust());
    waiting.tell(&await_on("lock", &path));
    waiting.is_silent();
    let before = cpu_time(&waiting.pid().to_string());
    assert_eq!(clock.is_refused(&json!({ "op": "lock", "path": path, "wait": 500 })), "busy");
    let used = cpu_time(&waiting.pid().to_string()).saturating_sub(before);
    assert!(used < TOO_MUCH, "{used:?} of CPU for half a second of waiting");
    waiting.is_silent();
    scene.tally.tried(1, "waits that cost no CPU");
}

/// A heartbeat by a timer and the wall clock: after a sleep the lock is "compromised" although no
/// other process took it. Ours: the boot clock, and a holder that returns asks again: if no other
/// process acquired it, the token renews.
#[test]
fn race_48_a_stall_is_taken_for_a_loss() {
    let mut scene = Scene::new("race_48");
    let directory = scene.theirs();
    let mut alice = MtimeLock::open(&directory);
    alice.enter().unwrap();
    alice.heartbeat().expect("in time");
    alice.pause(Duration::from_secs(11)).unwrap(); // The lid is closed; no other process runs.
    alice.heartbeat().expect_err("\"compromised\"");
    alice.leave().expect("and it was hers all the time");
    scene.broke("proper-lockfile: a late heartbeat is a lost lock");

    let path = scene.state();
    let mut alice = Child::rust();
    let long = alice.does(&lease(&path, 60_000, "a"));
    alice.stop();
    assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy));
    alice.resume();
    let renewed = alice.does(&json!({ "op": "renew", "path": path, "token": long["token"] }));
    assert_eq!(renewed["fence"], long["fence"], "it runs, and it is the same");
    alice.does(&json!({ "op": "end", "path": path, "token": long["token"] }));

    let short = alice.does(&lease(&path, 100, "a"));
    alice.stop(); // Longer than the lease.
    let lease = tenure::Lease::open(&path).unwrap();
    while lease.show().unwrap().is_some_and(|info| info.expires_in.is_some()) {
        std::thread::yield_now();
    }
    alice.resume();
    let write = json!({ "op": "add", "path": path, "fence": short["fence"] });
    assert_eq!(alice.is_refused(&write), "lease_lost", "expired, so it must ask");
    let again = json!({ "op": "renew", "path": path, "token": short["token"], "ttl": 60_000 });
    assert_eq!(alice.does(&again)["fence"], short["fence"], "not taken: it is still its own");
    alice.does(&write);
    scene.tally.tried(2, "stalls of a lease's holder");
}

/// "Another process has it", which was the process itself; and one message for every refusal. Ours:
/// a code per situation, with pid, host, label, fence and what to do (G9).
#[test]
fn race_49_an_error_names_the_wrong_one() {
    let mut scene = Scene::new("race_49");
    let directory = scene.theirs();
    SessionLock::open(&directory).unwrap().enter().unwrap();
    let error = SessionLock::open(&directory).unwrap().enter().unwrap_err().to_string();
    assert!(!error.contains(&std::process::id().to_string()), "the holder is not named: {error}");
    scene.broke("OpenClaw: an error that does not name the holder");

    let path = scene.state();
    let mut alice = Child::rust();
    let got = alice.does(&json!({ "op": "lock", "path": path, "label": "nightly build" }));
    let error = try_lock(&path).unwrap_err();
    let holder = error.holder().unwrap();
    assert_eq!((holder.pid, holder.label.as_str()), (alice.pid(), "nightly build"));
    assert_eq!(json!(holder.fence), got["fence"]);
    assert!(!holder.host.is_empty() && holder.command.contains("puppet"), "{holder}");
    let message = error.to_string();
    let pid = format!("pid {}", alice.pid());
    assert!(message.contains(&pid) && message.contains("nightly build"), "{message}");
    assert!(!message.contains('\n'));
    // The same thread, the wrong fence, the lost lease: each has its own code.
    let mut codes = vec![error.kind().code().to_owned()];
    let itself = json!({ "op": "lock", "path": path, "as": "x", "wait": "forever" });
    codes.push(alice.is_refused(&itself));
    codes.push(alice.is_refused(&json!({ "op": "add", "path": path, "fence": 1 })));
    alice.does(&json!({ "op": "release" }));
    let token = "0123456789abcdef";
    codes.push(alice.is_refused(&json!({ "op": "renew", "path": path, "token": token })));
    alice.does(&on("add", &path));
    let stale = json!({ "op": "set", "path": path, "value": 1, "if_version": "0-0" });
    codes.push(alice.is_refused(&stale));
    assert_eq!(codes, ["busy", "deadlock", "fenced", "lease_lost", "conflict"]);
    scene.tally.tried(5, "refusals told apart");
}
