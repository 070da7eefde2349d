//! Races 1 to 6: locks that are stolen.

use std::cell::Cell;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tenure::{Document, ErrorKind, Lease, LeaseOptions, try_lock};
use tenure_proof::puppet::{Child, FAR_TOO_LONG, Puppet};
use tenure_shipped::Lock;
use tenure_shipped::documents::SaveWithoutLock;
use tenure_shipped::locks::{JournalLock, MtimeLock, SessionLock, Unstamped, lock_file};

use crate::scene::{DEAD, Scene, add, at_once, await_on, count, holder, kind, on, only_one};

/// OpenClaw and a dozen others: two contenders judge the same lock file stale; the second removes
/// the first one's fresh lock. Ours: the kernel releases a dead process's lock, and grants it to
/// one waiter (G1).
#[test]
fn race_01_a_stale_take_over_lets_two_in() {
    let mut scene = Scene::new("race_01");
    let directory = scene.theirs();
    fs::write(lock_file(&directory), json!({ "pid": DEAD }).to_string()).unwrap();
    let mut alice = SessionLock::open(&directory).unwrap();
    let inside = Rc::new(Cell::new(false));
    let (bob_is_inside, at) = (inside.clone(), directory.clone());
    alice.meanwhile.is(move || {
        let mut bob = SessionLock::open(&at).unwrap();
        bob.enter().unwrap();
        bob_is_inside.set(true);
        std::mem::forget(bob);
    });
    alice.enter().unwrap();
    assert!(inside.get(), "both are inside");
    scene.broke("OpenClaw: unlink and create over a dead owner");

    let path = scene.state();
    let (mut dying, _) = holder(&path);
    let mut waiting = [Child::rust(), Child::rust(), Child::rust()];
    for puppet in &mut waiting {
        puppet.tell(&await_on("lock", &path));
        puppet.is_silent();
    }
    dying.kill();
    let (first, answer) = only_one(&mut waiting);
    assert_eq!(answer["ok"]["recovered_from"], dying.pid());
    waiting[first].does(&json!({ "op": "release" }));
    scene.tally.tried(1, "kills of a holder with waiters");
}

/// codegraph's fix: rename a new lock over the dead one and read the nonce again. A contender that
/// judged a moment earlier renames over a live lock, and reads its own nonce too. Ours: no
/// judgement (G1), and fences grow.
#[test]
fn race_02_renaming_over_a_dead_lock_lets_two_in() {
    let mut scene = Scene::new("race_02");
    let directory = scene.theirs();
    fs::write(lock_file(&directory), format!("{DEAD}\n{DEAD}-0123456789abcdef\n")).unwrap();
    let mut alice = JournalLock::open(&directory, 1, Unstamped::Waits).unwrap();
    let inside = Rc::new(Cell::new(false));
    let (bob_is_inside, at) = (inside.clone(), directory.clone());
    alice.judged.is(move || {
        let mut bob = JournalLock::open(&at, 2, Unstamped::Waits).unwrap();
        bob.enter().unwrap();
        bob_is_inside.set(true);
    });
    alice.enter().unwrap();
    assert!(inside.get(), "both are inside");
    scene.broke("codegraph: rename over a dead owner, nonce read again");

    let path = scene.state();
    let (mut dying, mut newest) = holder(&path);
    let mut waiting: Vec<_> = (0..4).map(|_| Child::rust()).collect();
    for puppet in &mut waiting {
        puppet.tell(&await_on("lock", &path));
        puppet.is_silent();
    }
    dying.kill();
    while !waiting.is_empty() {
        let (first, answer) = only_one(&mut waiting);
        let fence = answer["ok"]["fence"].as_u64().unwrap();
        assert!(fence > newest, "{fence} after {newest}");
        newest = fence;
        waiting.remove(first).kill(); // It dies inside, too.
        scene.tally.tried(1, "holders killed one after the other");
    }
}

/// codegraph: a lock file that is created but not yet stamped reads as process 0, which is dead.
/// Two are inside although no process died. Ours: the content of a lock file decides nothing (G1).
#[test]
fn race_03_a_lock_file_without_a_stamp_is_stolen() {
    let mut scene = Scene::new("race_03");
    let directory = scene.theirs();
    let mut alice = JournalLock::open(&directory, 1, Unstamped::IsDead).unwrap();
    let inside = Rc::new(Cell::new(false));
    let (bob_is_inside, at) = (inside.clone(), directory.clone());
    alice.created.is(move || {
        let mut bob = JournalLock::open(&at, 2, Unstamped::IsDead).unwrap();
        bob.enter().unwrap();
        bob_is_inside.set(true);
    });
    alice.enter().unwrap();
    assert!(inside.get(), "both are inside");
    scene.broke("codegraph: an unstamped lock file is dead");

    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    add(&path, &at_once(Some(fence))).unwrap();
    for sidecar in scene.sidecars() {
        // The content decides nothing, so emptying it admits no other process.
        File::options().write(true).open(&sidecar).unwrap().set_len(0).unwrap();
        assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy), "{}", sidecar.display());
        scene.tally.tried(1, "lock files emptied during a hold");
    }
    alice.kill();
    try_lock(&path).unwrap().release().unwrap();
}

/// OpenClaw: a late release removes the lock file by its name, even if another task owns it by then. Ours: a
/// release acts on its own hold, and the late end of a process on nothing (G11).
#[test]
fn race_04_a_late_release_removes_the_lock_of_another() {
    let mut scene = Scene::new("race_04");
    let directory = scene.theirs();
    let inside = Rc::new(Cell::new(false));
    let [mut alice, bob, carol] = std::array::from_fn(|_| TwoStepRelease {
        path: lock_file(&directory),
        inside: inside.clone(),
        meanwhile: None,
    });
    alice.enter().unwrap();
    bob.enter().expect_err("she has it");
    alice.meanwhile = Some(Box::new(move || bob.enter().expect("an orphan, it seems")));
    alice.leave().unwrap(); // Its second step comes late: the file is Bob's by then.
    assert!(inside.get(), "Bob has not left");
    carol.enter().expect("she is inside together with Bob");
    scene.broke("OpenClaw: release by name");

    let path = scene.state();
    let (mut alice, _) = holder(&path);
    alice.does(&json!({ "op": "release" }));
    let (mut bob, fence) = holder(&path);
    alice.kill();
    let error = try_lock(&path).unwrap_err();
    assert_eq!(error.holder().map(|holder| holder.pid), Some(bob.pid()));
    bob.does(&json!({ "op": "add", "path": path, "fence": fence }));
    // The same for a lease: ending one that is over affects no other.
    let lease = scene.ours("lease");
    let terms = |owner| json!({ "op": "acquire", "path": lease, "ttl": 60_000, "owner": owner });
    let old = bob.does(&terms("bob"));
    let end = json!({ "op": "end", "path": lease, "token": old["token"] });
    bob.does(&end);
    bob.does(&terms("carol"));
    assert_eq!(bob.is_refused(&end), "lease_lost");
    assert_eq!(bob.does(&on("show", &lease))["owner"], "carol");
    scene.tally.tried(2, "late releases");
}

/// OpenClaw's lock as the tasks of one process share it: a note of the task inside, and a file. A
/// release removes the note first and the file second, and others run in between. A task that finds
/// a file of its own process without a note takes it for an orphan.
struct TwoStepRelease {
    path: PathBuf,
    inside: Rc<Cell<bool>>,
    meanwhile: Option<Box<dyn FnOnce()>>,
}

impl TwoStepRelease {
    fn enter(&self) -> io::Result<()> {
        let mine = std::process::id().to_string();
        let is_orphan = || !self.inside.get() && fs::read_to_string(&self.path).unwrap() == mine;
        if self.path.exists() && is_orphan() {
            fs::remove_file(&self.path)?;
        }
        File::create_new(&self.path)?.write_all(mine.as_bytes())?;
        self.inside.set(true);
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.inside.set(false);
        self.meanwhile.take().into_iter().for_each(|others| others());
        fs::remove_file(&self.path)
    }
}

/// proper-lockfile, codegraph, OpenClaw and others: an old lock is taken from a holder that is only
/// slow. Ours: no age, clock or file time is used; a stopped holder keeps its lock (G3).
#[test]
fn race_05_a_slow_holder_is_robbed_by_age() {
    let mut scene = Scene::new("race_05");
    let directory = scene.theirs();
    let (mut alice, mut bob) = (MtimeLock::open(&directory), MtimeLock::open(&directory));
    alice.enter().unwrap();
    bob.enter().unwrap_err();
    alice.pause(Duration::from_secs(11)).unwrap();
    bob.enter().expect("he is inside together with Alice");
    scene.broke("proper-lockfile: stale by modification time");

    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    alice.stop();
    let long_ago = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    for sidecar in scene.sidecars() {
        File::options().write(true).open(sidecar).unwrap().set_times(long_ago).unwrap();
    }
    assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy));
    alice.resume();
    alice.does(&json!({ "op": "add", "path": path, "fence": fence }));
    scene.tally.tried(1, "stopped holders");
}

/// Watchdogs that end an overlong hold, but not the writes of its holder. Ours: ending a lease
/// raises the fence, and a commit under the old one is refused, in the same critical section (G3,
/// G4).
#[test]
fn race_06_a_robbed_holder_keeps_writing() {
    let mut scene = Scene::new("race_06");
    let directory = scene.theirs();
    let (mut alice, mut bob) = (MtimeLock::open(&directory), MtimeLock::open(&directory));
    alice.enter().unwrap();
    let mut late = SaveWithoutLock::open(&directory);
    let at = directory.clone();
    late.meanwhile.is(move || {
        alice.pause(Duration::from_secs(11)).unwrap();
        bob.enter().unwrap();
        tenure_shipped::Document::add(&mut SaveWithoutLock::open(&at), "by bob").unwrap();
    });
    tenure_shipped::Document::add(&mut late, "by alice").unwrap();
    assert_eq!(scene.their_keys(), ["by alice"], "Bob's write, under the lock, is gone");
    scene.broke("a watchdog ends the hold, and nothing ends the writes");

    let path = scene.state();
    let mut alice = Child::rust();
    let mut bob = Child::rust();
    let terms =
        |op| json!({ "op": op, "path": path, "ttl": 60_000, "owner": "o", "reason": "late" });
    let old = alice.does(&terms("acquire"))["fence"].as_u64();
    alice.stop();
    let new = bob.does(&terms("take_over"))["fence"].as_u64();
    bob.does(&json!({ "op": "add", "path": path, "fence": new }));
    alice.resume();
    let late = json!({ "op": "set", "path": path, "value": { "n": 9 }, "fence": old });
    assert_eq!(alice.is_refused(&late), "fenced");
    assert_eq!(count(&path), 1);
    scene.tally.tried(1, "writes of a former holder");
    robbed_inside_a_write(&mut scene);
}

/// Ours, when the holder is in the middle of a write: a take-over waits for that one write, which
/// counts; the next one is refused.
fn robbed_inside_a_write(scene: &mut Scene) {
    let path = scene.ours("inside.json");
    let terms = LeaseOptions { owner: "alice".into(), ttl: FAR_TOO_LONG, ..Default::default() };
    let old = Lease::open(&path).unwrap().acquire(&terms).unwrap();
    let (computes, computing) = channel();
    let (go, goes) = channel();
    let document = Document::open(&path).unwrap();
    let mut bob = Child::rust();
    let new = std::thread::scope(|scope| {
        let write = scope.spawn(move || {
            document.update(&at_once(Some(old.fence)), |_| {
                computes.send(()).unwrap();
                goes.recv_timeout(FAR_TOO_LONG).expect("the test says when");
                Ok(Some(tenure::json!({ "n": 1 })))
            })
        });
        computing.recv_timeout(FAR_TOO_LONG).expect("she is inside");
        let mut robs = await_on("take_over", &path);
        (robs["ttl"], robs["owner"], robs["reason"]) = (json!(60_000), json!("bob"), json!("late"));
        bob.tell(&robs);
        bob.is_silent();
        assert_eq!(count(&path), 0, "no process has written");
        go.send(()).unwrap();
        write.join().unwrap().expect("it began under her fence, which was the newest");
        bob.hear()["ok"]["fence"].as_u64().expect("a fence")
    });
    assert!(new > old.fence, "{new} after {}", old.fence);
    bob.does(&json!({ "op": "add", "path": path, "fence": new }));
    assert_eq!(kind(add(&path, &at_once(Some(old.fence)))), Some(ErrorKind::Fenced));
    assert_eq!(count(&path), 2, "hers, then his");
    scene.tally.tried(1, "holders robbed inside a write");
}
