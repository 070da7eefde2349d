//! A directory that is renamed, removed or made read-only while processes work in it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount_remount};
use serde_json::Value;
use tenure_proof::bounded::Ended;
use tenure_proof::live::Live;
use tenure_proof::machine::{allows_root, mount_memory, own_mounts};
use tenure_proof::{Form, Tally};

use super::job::{Program, tenure};
use super::sweep::RING;

/// A waiter is seen within this time on any machine; it waits for longer.
const LIMIT: Duration = Duration::from_secs(15);

fn start(dir: &Path, args: &[&str]) -> Live {
    let mut command = Command::new(Program::Tenure.path());
    command.args(args).current_dir(dir);
    Live::start(command)
}

/// A process that holds the lock on `work/t`, and one that waits for it.
fn holder_and_waiter(root: &Path) -> (Live, Live) {
    let holder = start(root, &["run", "work/t", "--", "sh", "-c", "echo ready; exec cat"]);
    assert_eq!(holder.line().as_deref(), Some("ready"));
    let waiter = start(root, &["run", "--wait", "20s", "work/t", "--", "true"]);
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        let seen = tenure(root, &["who", "--json", "work/t"]);
        let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
        if seen["targets"][0]["waiters"].as_array().is_some_and(|waiters| !waiters.is_empty()) {
            return (holder, waiter);
        }
    }
    panic!("no waiter is seen after {:?}", start.elapsed());
}

/// A waiter waits for a name: it may create the directory again and take that lock, or report an
/// error.
fn is_clean(ended: &Ended) -> bool {
    let told = ended.stderr.starts_with("tenure: failed to ") && ended.stderr.lines().count() == 1;
    (ended.is_done() && ended.stderr.is_empty()) || (ended.code == Some(1) && told)
}

#[test]
fn g1_g10_a_directory_that_is_renamed_underneath_a_holder_and_a_waiter() {
    let test = "g1_g10_a_directory_that_is_renamed_underneath_a_holder_and_a_waiter";
    let mut tally = Tally::new(RING, test);
    for _ in 0..Form::asked().pick(3, 30) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        let (holder, waiter) = holder_and_waiter(root.path());
        std::fs::rename(root.path().join("work"), root.path().join("moved")).unwrap();
        // The lock is the file, wherever it is.
        let busy = tenure(root.path(), &["run", "--wait", "0", "moved/t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "two holders: {busy:?}");
        let (held, waited) = (holder.end(), waiter.end());
        assert_eq!(held.code, Some(4), "it got no error: {held:?}");
        assert!(is_clean(&waited), "{waited:?}");
        let next = tenure(root.path(), &["run", "moved/t", "--", "true"]);
        assert!(next.is_done(), "{next:?}");
        tally.tried(1, "directories renamed underneath");
    }
}

#[test]
fn g10_a_directory_that_is_removed_underneath_a_holder_and_a_waiter() {
    let test = "g10_a_directory_that_is_removed_underneath_a_holder_and_a_waiter";
    let mut tally = Tally::new(RING, test);
    for _ in 0..Form::asked().pick(3, 30) {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let (holder, waiter) = holder_and_waiter(root.path());
        std::fs::remove_dir_all(&work).unwrap();
        let (held, waited) = (holder.end(), waiter.end());
        assert_eq!(held.code, Some(4), "it got no error: {held:?}");
        assert!(is_clean(&waited), "{waited:?}");
        std::fs::create_dir_all(&work).unwrap();
        let next = tenure(root.path(), &["run", "work/t", "--", "true"]);
        assert!(next.is_done(), "{next:?}");
        tally.tried(1, "directories removed underneath");
    }
}

/// Counts in a document; prints `yes` or `no` after each attempt, and waits for a line before the
/// next.
const COUNTER: &str = r#"while read -r go; do
    if "$1" doc update d.json '.n += 1'; then echo yes; else echo no; fi
done"#;

#[test]
fn g10_a_disk_that_becomes_read_only_and_writable_again() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g10_a_disk_that_becomes_read_only_and_writable_again");
    own_mounts();
    let root = tempfile::tempdir().unwrap();
    mount_memory(root.path(), "size=1m");
    let remount = |flags| mount_remount(root.path(), flags, "");
    assert!(tenure(root.path(), &["doc", "set", "d.json", r#"{"n":0}"#]).is_done());
    let mut command = Command::new("sh");
    command.args(["-c", COUNTER, "sh"]).arg(Program::Tenure.path()).current_dir(root.path());
    let mut counter = Live::start(command);
    let (mut counted, mut refused) = (0, 0);
    for round in 0..Form::asked().pick(60, 600) {
        counter.say("go");
        // The kernel refuses it while a file is open for writing; then the attempt continues as it
        // was.
        let flags = if round % 3 == 0 { MountFlags::empty() } else { MountFlags::RDONLY };
        let _ = remount(flags);
        match counter.line().as_deref() {
            Some("yes") => counted += 1,
            Some("no") => refused += 1,
            other => panic!("{other:?}"),
        }
        let seen = tenure(root.path(), &["doc", "get", "d.json", ".n"]);
        assert_eq!(seen.stdout, format!("{counted}\n"), "after {refused} refusals");
    }
    let ended = counter.end();
    assert!(counted > 5 && refused > 5, "{counted} counted, {refused} refused");
    let told = |line: &str| line.starts_with("tenure: failed to ") && line.contains("Read-only");
    assert!(ended.stderr.lines().all(told), "{ended:?}");
    tally.tried(counted + refused, "updates on a disk that becomes read-only");
}
