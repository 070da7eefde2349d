//! Races 7 to 10: liveness judged by a process number.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;
use tenure::try_lock;
use tenure_proof::puppet::{Child, Language, Puppet};
use tenure_shipped::Lock;
use tenure_shipped::locks::{SessionLock, lock_file};

use crate::scene::{Scene, await_on, holder, on};

/// The user `nobody`.
const NOBODY: u32 = 65_534;
/// Starts a program where it is the first process.
const OTHER_NAMESPACE: [&str; 6] =
    ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

/// In containers every process has number 1, 2 or 7: the dead owner's number now belongs to a live
/// process, so the lock is held for ever. Ours: death releases, whatever number comes next (G2).
#[test]
fn race_07_the_number_of_a_dead_owner_is_used_again() {
    let mut scene = Scene::new("race_07");
    let directory = scene.theirs();
    fs::write(lock_file(&directory), json!({ "pid": 1 }).to_string()).unwrap();
    SessionLock::open(&directory).unwrap().enter().expect_err("a lock without a holder");
    scene.broke("OpenClaw: a living stranger has the number of the dead owner");

    // Ours: the record names a live process, this one, and blocks no other.
    let path = scene.state();
    let guard = try_lock(&path).unwrap();
    let records: Vec<_> =
        scene.sidecars().iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    guard.release().unwrap();
    for (sidecar, bytes) in records {
        fs::write(sidecar, bytes).unwrap();
    }
    try_lock(&path).unwrap().release().unwrap();
    let (mut alice, _) = holder(&path);
    alice.kill();
    try_lock(&path).unwrap().release().unwrap();
    scene.tally.tried(2, "records that name a living process");
}

/// OpenClaw's restart in place by SIGUSR1: the same process number, and a lock file that it left
/// itself. Ours: the hold is a descriptor, which `exec` closes (G2).
#[test]
fn race_08_a_process_that_restarts_in_place_waits_for_itself() {
    let mut scene = Scene::new("race_08");
    let directory = scene.theirs();
    SessionLock::open(&directory).unwrap().enter().unwrap();
    SessionLock::open(&directory).unwrap().enter().expect_err("its own number, alive");
    scene.broke("OpenClaw: a restart in place finds its own lock file");

    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    let pid = alice.pid();
    let greeting = alice.say(&json!({ "op": "restart" }));
    assert_eq!(greeting["ready"]["pid"], pid, "the same process");
    let again = alice.does(&on("lock", &path));
    assert!(again["fence"].as_u64().unwrap() > fence);
    assert_eq!(again["recovered_from"], pid);
    scene.tally.tried(1, "restarts in place");
}

/// Two containers on one volume: the owner's number means nothing in the other's namespace, so a
/// live lock is "dead" there. Ours: the kernel knows all its namespaces, and the error makes no
/// guess (G1, G9).
#[test]
fn race_09_a_process_of_another_namespace_is_judged_dead() {
    let mut scene = Scene::new("race_09");
    let alice = scene.their_holder(&["env"]).unwrap();
    // In his container there is no process of her number.
    let bob = match scene.their_holder(&OTHER_NAMESPACE) {
        Ok(bob) => bob,
        Err(why) => return scene.has_no_namespaces(&format!("another PID namespace: {why}")),
    };
    assert!(alice.end().is_done() && bob.end().is_done(), "both were inside, and alive");
    scene.broke("OpenClaw: a process of another namespace is dead");

    let path = scene.state();
    let mut command = Command::new(OTHER_NAMESPACE[0]);
    command.args(&OTHER_NAMESPACE[1..]);
    command.arg(Language::Rust.command().get_program());
    let mut alice = Child::start(&mut command);
    alice.does(&on("lock", &path));
    let error = try_lock(&path).unwrap_err();
    let holder = error.holder().expect("it is known who wrote the record");
    assert_eq!(error.kind().code(), "busy");
    assert_eq!((holder.pid, holder.seems_alive()), (1, None), "its number says nothing here");
    alice.does(&json!({ "op": "release" }));
    try_lock(&path).unwrap().release().unwrap();
    scene.tally.tried(1, "holders in another PID namespace");
}

/// `kill(pid, 0)` says "not permitted" for a process of another user, and many read that as "dead".
/// Ours: no process is probed; a lock of another user is busy, and the error names its holder (G1,
/// G9).
#[test]
fn race_10_the_process_of_another_user_is_judged_dead() {
    let mut scene = Scene::new("race_10");
    let path = scene.state();
    let root = rustix::process::geteuid().is_root();
    let (alice, _) = holder(&path);
    let mut script = Command::new("sh");
    let pid = if root { alice.pid() } else { 1 };
    let lock = lock_file(&scene.theirs());
    fs::write(&lock, pid.to_string()).unwrap();
    // As in many scripts: a process that cannot be signalled counts as dead, and its lock is
    // removed.
    let enter = "kill -0 \"$(cat \"$0\")\" 2>/dev/null || rm -f \"$0\"; set -C; echo $$ > \"$0\"";
    script.args(["-c", enter]).arg(&lock);
    if root {
        script.uid(NOBODY).gid(NOBODY);
    }
    let scratch = lock.parent().unwrap();
    fs::set_permissions(scratch, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(scratch.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    assert!(script.status().unwrap().success(), "inside together with a process that lives");
    scene.broke("EPERM from kill(pid, 0) is read as dead");

    // All users may write here, so all may lock.
    fs::write(&path, "{\"n\":0}").unwrap();
    for (path, mode) in scene.sidecars().into_iter().map(|path| (path, 0o666)).chain([
        (path.clone(), 0o666),
        (path.parent().unwrap().join(".tenure"), 0o777),
        (path.parent().unwrap().to_path_buf(), 0o777),
        (path.parent().unwrap().parent().unwrap().to_path_buf(), 0o755),
    ]) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Language::Rust.command();
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut other = Child::start(&mut command);
    let answer = other.say(&on("lock", &path));
    assert_eq!(answer["error"]["code"], "busy", "{answer}");
    assert_eq!(answer["error"]["holder"]["pid"], alice.pid());
    other.tell(&await_on("lock", &path));
    other.is_silent();
    drop(alice);
    assert!(other.hear()["ok"].is_object());
    scene.tally.tried(1, "contenders of another user");
}
