//! Races 11 to 15: locks that break when something fails, and writers that bypass them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tenure::{ErrorKind, LockOptions, Wait, WriteOptions, try_lock};
use tenure_proof::puppet::{Child, CommandLine, Puppet};
use tenure_proof::strace::{self, Does};
use tenure_shipped::documents::SaveWithoutLock;
use tenure_shipped::locks::{GivesIn, GuardedLock, JournalLock, SessionLock, Unstamped, lock_file};
use tenure_shipped::{Document, Lock};
use tenure_testkit::{Fault, SimFs, Times};

use crate::deaths::{deaths, traced};
use crate::scene::{
    DEAD, Scene, add, at_once, await_on, below_shell, count, holder, kind, on, only_one, told,
};

/// A crash between creating and stamping leaves an empty lock file: some steal it at once, others
/// wait for ever. Ours: such files are harmless and are repaired at the next use (G1, G10).
#[test]
fn race_11_a_malformed_lock_file_is_stolen_or_stays_for_ever() {
    let mut scene = Scene::new("race_11");
    let directory = scene.theirs();
    fs::write(lock_file(&directory), "").unwrap();
    GuardedLock::open(&directory).unwrap().enter().expect_err("without an owner, and never free");
    scene.broke("fs-safe: a lock file without an owner stays for ever");
    JournalLock::open(&directory, 1, Unstamped::IsDead).unwrap().enter().expect("stolen at once");
    scene.broke("codegraph: a lock file without an owner is stolen");

    let path = scene.state();
    try_lock(&path).unwrap().release().unwrap();
    let mut tried = 0;
    for garbage in [&b""[..], b"\0", b"{\"pid\":", &[0xff; 9216], b"no record at all\n"] {
        for sidecar in scene.sidecars() {
            fs::write(&sidecar, garbage).unwrap();
            add(&path, &at_once(None)).unwrap();
            try_lock(&path).unwrap().release().unwrap();
            tried += 1;
            scene.tally.tried(1, "malformed lock files");
        }
    }
    assert_eq!(count(&path), tried, "the data is not touched by any of it");
}

/// fs-safe guards the removal of a stale lock with a second lock file. If the reclaimer dies, no
/// process can ever reclaim. Ours: there is nothing to reclaim; a process that dies during recovery
/// is just another dead holder (G2).
#[test]
fn race_12_the_guard_of_the_guard_is_left_behind() {
    let mut scene = Scene::new("race_12");
    let directory = scene.theirs();
    fs::write(lock_file(&directory), DEAD.to_string()).unwrap();
    let mut reclaimer = GuardedLock::open(&directory).unwrap();
    reclaimer.meanwhile.is(|| panic!("killed while it reclaims"));
    catch_unwind(AssertUnwindSafe(|| reclaimer.enter())).expect_err("it died");
    for _ in 0..3 {
        GuardedLock::open(&directory).unwrap().enter().expect_err("never again");
    }
    scene.broke("fs-safe: an orphaned guard");

    let path = scene.state();
    let (mut dying, _) = holder(&path);
    let mut heirs: Vec<_> = (0..5).map(|_| Child::rust()).collect();
    for heir in &mut heirs {
        heir.tell(&await_on("lock", &path));
        heir.is_silent();
    }
    dying.kill();
    while heirs.len() > 1 {
        // Killed the moment it has taken over.
        let (first, _) = only_one(&mut heirs);
        heirs.remove(first).kill();
        scene.tally.tried(1, "heirs killed when they had the lock");
    }
    heirs[0].hear();
    heirs[0].does(&json!({ "op": "release" }));
    try_lock(&path).unwrap().release().unwrap();
    kill_heirs(&mut scene);
}

/// Kills processes at each step of taking the lock after a dead holder: the next one gets the lock
/// at once, recovered from either of them.
fn kill_heirs(scene: &mut Scene) {
    if !strace::available() {
        return;
    }
    let (path, trace) = (scene.state(), scene.theirs().join("trace"));
    let args = ["lock", path.to_str().unwrap()];
    let subject = Path::new(env!("CARGO_BIN_EXE_subject"));
    let heir = traced(subject, &args, path.parent().unwrap(), &trace);
    let dead = || {
        let (mut dying, fence) = holder(&path);
        dying.kill();
        (dying.pid(), fence)
    };
    dead();
    let cases = deaths(&heir, &[Does::Opens, Does::Locks, Does::Changes]);
    let (mut before, mut after) = (0, 0);
    for case in &cases {
        let (pid, fence) = dead();
        if !heir.with_fault(case).came_about {
            continue;
        }
        let next = try_lock(&path).unwrap_or_else(|error| panic!("{error} after {case:?}"));
        assert!(next.publish_fence() > fence, "{} after {fence}, {case:?}", next.publish_fence());
        match next.recovered_from().map(|holder| holder.pid) {
            Some(found) if found == pid => before += 1,
            Some(_) => after += 1,
            None => {} // It had released it: no recovery.
        }
        next.release().unwrap();
    }
    let told = format!("{before} died before their record, {after} after it, of {}", cases.len());
    assert!(before >= 3 && after >= 1, "{told}");
    scene.tally.tried(before + after, "heirs killed at a call of their recovery");
}

/// Error paths that clean up by name: EMFILE after taking the lock, ENOSPC while stamping, then an
/// unlink that removes another process's lock. Ours: an error unlinks nothing, and the holder is
/// not affected (G10, G11).
#[test]
fn race_13_an_error_path_removes_the_lock_of_another() {
    let mut scene = Scene::new("race_13");
    let directory = scene.theirs();
    let [mut alice, mut bob, mut carol] =
        std::array::from_fn(|_| SessionLock::open(&directory).unwrap());
    alice.enter().unwrap();
    bob.enter().expect_err("she has it");
    bob.leave().unwrap(); // As `finally` does.
    carol.enter().expect("both are inside");
    scene.broke("OpenClaw: an error path releases by name");

    beside_a_holder(&mut scene);
    at_a_free_lock(&mut scene);
    at_the_first_call(&mut scene);
    for used_before in [false, true] {
        let steps = (1..1000).take_while(|nth| a_full_disk(*nth, used_before)).count();
        assert!(steps > 1, "only {steps} steps");
        scene.tally.tried(steps as u64, "full disks at a step of locking");
    }
}

/// The limits on open files: first only its pipes, then one more each time.
const FILES: std::ops::Range<u64> = 3..16;
/// At least this many calls must have failed because of that.
const SHORT: u64 = 3;

/// Limits the open files of a puppet. Returns the limit before.
fn limit_files(puppet: &Child, limit: Rlimit) -> Rlimit {
    let pid = i32::try_from(puppet.pid()).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Nofile, limit).unwrap()
}

/// A contender with this limit on open files, and the limit before. It has used tenure already.
fn short_of(files: u64, scene: &Scene) -> (Child, Rlimit) {
    let mut puppet = Child::rust();
    puppet.does(&on("lock", &scene.ours("elsewhere")));
    puppet.does(&json!({ "op": "release" }));
    let all = rustix::process::getrlimit(Resource::Nofile);
    let before = limit_files(&puppet, Rlimit { current: Some(files), ..all });
    (puppet, before)
}

/// Whether an answer is an error of the kernel: no descriptor is left.
fn is_short(answer: &Value) -> bool {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    message.contains("Too many open files")
}

/// The lock files and their identities.
fn locks_of(scene: &Scene) -> Vec<(PathBuf, u64)> {
    let mut sidecars = scene.sidecars();
    sidecars.retain(|path| path.extension().is_some_and(|end| end == "hold" || end == "commit"));
    let inode = |path: &PathBuf| fs::metadata(path).unwrap().ino();
    sidecars.into_iter().map(|path| (path.clone(), inode(&path))).collect()
}

/// Ours, while Alice has the lock: contenders that are short of descriptors do not affect her.
fn beside_a_holder(scene: &mut Scene) {
    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    let mine = json!({ "op": "add", "path": path, "fence": fence });
    alice.does(&mine);
    let (locks, before) = (locks_of(scene), count(&path));
    let (mut short, mut tried) = (0, 0);
    for files in FILES {
        let (mut bob, enough) = short_of(files, scene);
        let lease = json!({ "op": "acquire", "path": path, "ttl": 1000, "owner": "bob" });
        for order in [on("lock", &path), on("add", &path), lease] {
            let answer = bob.say(&order);
            let refused = is_short(&answer) || answer["error"]["code"] == "busy";
            assert!(refused, "{files} files: {answer}");
            short += u64::from(is_short(&answer));
            tried += 1;
            alice.does(&mine);
            alice.does(&json!({ "op": "verify" }));
            assert_eq!(locks_of(scene), locks, "{files} files: {answer}");
        }
        limit_files(&bob, enough);
        assert_eq!(bob.is_refused(&on("lock", &path)), "busy", "it is hers still");
    }
    assert!(short >= SHORT, "only {short} were short of descriptors");
    assert_eq!(count(&path), before + tried, "hers alone");
    scene.tally.tried(short, "contenders short of descriptors, beside a holder");
    let mut bob = Child::rust();
    bob.tell(&await_on("lock", &path));
    bob.is_silent();
    alice.does(&json!({ "op": "release" }));
    assert!(bob.hear()["ok"].is_object(), "the next one gets it");
}

/// Ours, at a free lock: a process that fails half-way keeps nothing, and the next one gets it.
fn at_a_free_lock(scene: &mut Scene) {
    let path = scene.state();
    let (locks, before) = (locks_of(scene), count(&path));
    let (mut short, mut done) = (0, 0);
    for files in FILES {
        let (mut bob, enough) = short_of(files, scene);
        for op in ["lock", "add"] {
            let answer = bob.say(&on(op, &path));
            assert!(is_short(&answer) || answer["ok"].is_object(), "{files} files: {answer}");
            short += u64::from(is_short(&answer));
            done += u64::from(op == "add" && answer["ok"].is_object());
            if op == "lock" && answer["ok"].is_object() {
                bob.does(&json!({ "op": "release" }));
            }
            try_lock(&path).expect("no lock is leaked").release().unwrap();
            assert_eq!(locks_of(scene), locks, "{files} files: {answer}");
        }
        limit_files(&bob, enough);
        bob.does(&on("lock", &path));
    }
    assert!(short >= SHORT, "only {short} were short of descriptors");
    assert!(done > 0, "at last there are enough");
    assert_eq!(count(&path), before + done, "counted if and only if it succeeded");
    scene.tally.tried(short, "contenders short of descriptors, at a free lock");
}

/// Short of descriptors at the very first call of a process: an error, which ends when descriptors
/// are free.
fn at_the_first_call(scene: &mut Scene) {
    let path = scene.state(); // It is in use already.
    let mut bob = Child::rust();
    let all = rustix::process::getrlimit(Resource::Nofile);
    let enough = limit_files(&bob, Rlimit { current: Some(3), ..all });
    let answer = bob.say(&on("lock", &path));
    limit_files(&bob, enough);
    let later = bob.say(&on("lock", &path));
    assert!(later["ok"].is_object(), "{later}, after {answer}");
    assert!(is_short(&answer), "{answer}");
    scene.tally.tried(1, "first calls of a process short of descriptors");
}

/// The disk is full at the `nth` step of locking that needs space. Returns whether there were that
/// many.
fn a_full_disk(nth: u64, used_before: bool) -> bool {
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    let lock = tenure::Lock::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let take = || lock.acquire(&options).and_then(tenure::LockGuard::release);
    if used_before {
        take().unwrap();
    }
    fs.inject(nth, Fault::NoSpace, Times::Once);
    let done = take();
    let was_full = fs.faults_fired() > 0;
    assert_eq!(done.is_err(), was_full, "{done:?}");
    fs.clear_faults();
    take().expect("no lock is leaked");
    was_full
}

/// A tool that cannot get the lock works without it. Ours: no lock, no work (G12): the function is
/// not called, the command not started, and a file system without locks is refused.
#[test]
fn race_14_no_lock_and_yet_it_goes_on() {
    let mut scene = Scene::new("race_14");
    let directory = scene.theirs();
    GivesIn::open(&directory).enter().unwrap();
    GivesIn::open(&directory).enter().expect("both are inside");
    scene.broke("App-Store-Connect-CLI: work goes on without the lock");

    let path = scene.state();
    let (_alice, _) = holder(&path);
    let document = tenure::Document::open(&path).unwrap();
    let called = document.update(&at_once(None), |_| panic!("called without the lock"));
    assert_eq!(kind(called), Some(ErrorKind::Busy));
    let output = below_shell("exec \"$0\" run --wait 0 \"$1\" -- echo started", &[&path]);
    assert_eq!(output.status.code(), Some(75), "{}", told(&output));
    assert!(output.stdout.is_empty(), "{}", told(&output));

    let fs = SimFs::new(1);
    fs.add_dir("/d");
    fs.inject(1, Fault::NoLocks, Times::Forever);
    let document = tenure::Document::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
    let refused = document.update(&WriteOptions::default(), |_| panic!("called without a lock"));
    let no_locks = rustix::io::Errno::NOLCK.raw_os_error();
    let why = refused.unwrap_err();
    assert_eq!(why.io_error().and_then(std::io::Error::raw_os_error), Some(no_locks), "{why}");
    assert_eq!(fs.peek("/d/state.json"), None);
    scene.tally.tried(3, "calls without a lock to be had");
}

/// A writer in another language, a hook, or a "quick" path does not use the lock. Ours: every verb
/// of every language takes the hold (G1); a change that bypasses it, a plain `mv`, is kept and
/// built upon (G6).
#[test]
fn race_15_a_writer_passes_the_lock_by() {
    let mut scene = Scene::new("race_15");
    let directory = scene.theirs();
    let mut lock = SessionLock::open(&directory).unwrap();
    lock.enter().unwrap();
    let mut careful = SaveWithoutLock::open(&directory);
    let at = directory.clone();
    careful.meanwhile.is(move || SaveWithoutLock::open(&at).add("by the hook").unwrap());
    careful.add("under the lock").unwrap();
    assert_eq!(scene.their_keys(), ["under the lock"], "the other one is lost");
    scene.broke("OpenClaw: some writers pass the lock by");

    let (path, log) = (scene.state(), scene.log());
    fs::write(&path, "{\"n\":1}").unwrap();
    let (_alice, fence) = holder(&path);
    let (_bob, _) = holder(&log);
    let (mut rust, mut shell) = (Child::rust(), CommandLine::start());
    for puppet in [&mut rust as &mut dyn Puppet, &mut shell] {
        for order in [
            on("add", &path),
            json!({ "op": "set", "path": path, "value": {} }),
            json!({ "op": "merge", "path": path, "value": {} }),
            json!({ "op": "append", "path": log, "lines": ["x"] }),
            on("rotate", &log),
            on("lock", &path),
            json!({ "op": "acquire", "path": path, "ttl": 1000, "owner": "x" }),
        ] {
            assert_eq!(puppet.is_refused(&order), "busy", "{order}");
            scene.tally.tried(1, "verbs under the hold of another");
        }
    }
    let document = tenure::Document::open(&path).unwrap();
    let mut tries = 0;
    let foreign = path.with_extension("new");
    let built = document.update(&at_once(Some(fence)), |value| {
        tries += 1;
        if tries == 1 {
            fs::write(&foreign, "{\"n\":41}").unwrap();
            fs::rename(&foreign, &path).unwrap();
        }
        Ok(Some(tenure::json!({ "n": value.unwrap()["n"].as_u64().unwrap() + 1 })))
    });
    built.unwrap();
    assert_eq!(count(&path), 42, "built upon what the plain program put there");
}
