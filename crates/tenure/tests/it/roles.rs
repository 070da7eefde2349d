//! What a child process of a test does. The test binary starts itself again with a role to play.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenure::{Document, ErrorKind, WriteOptions, json};

use crate::document_scratch::{at_once, bytes_of, count_in, increment};
use crate::starting::output_of;

const ROLE: &str = "TENURE_TEST_ROLE";
const PATH: &str = "TENURE_TEST_PATH";

/// A command that plays `role` on `path`, run by `launcher` (a shell script that ends in `"$@"`).
pub(crate) fn played(role: &str, path: &Path, launcher: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", launcher, "sh"]).arg(std::env::current_exe().expect("our own path"));
    command.args(["--exact", "roles::a_child_process_plays_its_role", "--nocapture"]);
    command.env(ROLE, role).env(PATH, path);
    command
}

/// Plays a role and expects it to succeed.
pub(crate) fn play(role: &str, path: &Path, launcher: &str) {
    let output = output_of(&mut played(role, path, launcher)).expect("a child process");
    assert!(
        output.status.success(),
        "{role} under `{launcher}`: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whether this process may mount in a mount namespace of its own.
pub(crate) fn may_mount() -> bool {
    let script = "mount -t tmpfs none /mnt";
    let tried = output_of(Command::new("unshare").args(["-m", "sh", "-c", script]));
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn a_child_process_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(PATH).expect("a path to act on"));
    match role.as_str() {
        "increment 50 times" => increments(&path, 50),
        "set once" => set_once(&path),
        "increment as an operation" => increment_as_an_operation(&path),
        "apply operations" => crate::operations::apply_all(&path),
        "refused" => {
            assert_eq!(tenure::lock(&path).expect_err("a refusal").kind(), ErrorKind::Unsupported);
        }
        "lock once" => drop(tenure::lock(&path).expect("a lock")),
        "read only" => read_only(&path),
        "refused as a mount point" => refused_as_mount_point(&path),
        "fill the disk" => fill_the_disk(&path),
        "run out of descriptors" => run_out_of_descriptors(&path),
        "grow beyond the limit" => grow_beyond_the_limit(&path),
        "die with a lock" => {
            let _guard = tenure::lock(&path).expect("a lock");
            std::process::abort();
        }
        "sweep again and again" => loop {
            tenure::file::sweep(&path, true).expect("a sweep");
        },
        "watch without a watch" => watch_without_a_watch(&path),
        other => panic!("unknown role {other}"),
    }
}

fn increments(path: &Path, times: u64) {
    let document = Document::open(path).expect("a document");
    let options = WriteOptions { wait: tenure::Wait::Forever, ..WriteOptions::default() };
    for _ in 0..times {
        document.update(&options, increment).expect("an update");
    }
}

fn set_once(path: &Path) {
    let document = Document::open(path).expect("a document");
    document.set(&json!({ "a": 1 }), &WriteOptions::default()).expect("a write");
}

fn increment_as_an_operation(path: &Path) {
    let document = Document::open(path).expect("a document");
    let options = WriteOptions { operation: Some("x".into()), ..WriteOptions::default() };
    document.update(&options, increment).expect("an update");
}

/// The file system is read-only here: reading works, writing is a clear error.
fn read_only(path: &Path) {
    let document = Document::open(path).expect("a document");
    assert_eq!(count_in(&document), 7);
    let error = document.update(&at_once(), increment).expect_err("a read-only mount");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("Read-only"), "{error}");
    assert_eq!(count_in(&document), 7);
}

fn refused_as_mount_point(path: &Path) {
    let document = Document::open(path).expect("a document");
    let error = document.update(&at_once(), increment).expect_err("a mount point");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("mount"), "{error}");
    assert_eq!(count_in(&document), 7, "reading still works");
}

/// Writes ever larger versions until the disk is full; the old one stays each time.
fn fill_the_disk(path: &Path) {
    let document = Document::open(path).expect("a document");
    let mut last = None;
    for size in (1..=512).map(|step| step * 512) {
        let value = json!({ "pad": "x".repeat(size) });
        match document.set(&value, &WriteOptions::default()) {
            Ok(_) => last = Some(value),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.path().is_some(), "{error}");
                assert_eq!(document.read().expect("readable").map(|found| found.value), last);
                assert!(last.is_some(), "something fits into a small disk: {error}");
                document.set(&json!({}), &at_once()).expect("room again after a failure");
                assert_eq!(bytes_of(path), b"{}\n");
                return;
            }
        }
    }
    panic!("the disk was never full");
}

/// Started with ever smaller limits of open files. An update works or fails cleanly.
fn run_out_of_descriptors(path: &Path) {
    let opened = Document::open(path);
    let updated = opened.and_then(|document| document.update(&at_once(), increment));
    if let Err(error) = updated {
        let number = error.io_error().and_then(std::io::Error::raw_os_error);
        assert_eq!(number, Some(rustix::io::Errno::MFILE.raw_os_error()), "{error}");
        assert!(error.path().is_some(), "{error}");
        assert_ne!(error.is_committed(), Some(true), "{error}");
    }
}

/// With a limit on file sizes: `EFBIG` once SIGXFSZ is ignored, which the launcher does.
fn grow_beyond_the_limit(path: &Path) {
    let document = Document::open(path).expect("a document");
    document.set(&json!({ "n": 1 }), &at_once()).expect("a small document");
    let large = json!({ "pad": "x".repeat(1 << 20) });
    let error = document.set(&large, &at_once()).expect_err("beyond the limit");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.path().is_some(), "{error}");
    assert_eq!(count_in(&document), 1);
    document.update(&at_once(), increment).expect("a small update again");
}

/// This user has no inotify instance left: changes are still noticed, a little later.
fn watch_without_a_watch(path: &Path) {
    use rustix::fs::inotify::{CreateFlags, init};
    let document = Document::open(path).expect("a document");
    let journal = tenure::Journal::open(path.with_extension("jsonl")).expect("a journal");
    let lease = tenure::Lease::open(path.with_extension("lease")).expect("a lease");
    document.set(&json!(1), &at_once()).expect("a write");
    journal.append(&["one"], &tenure::AppendOptions::default()).expect("an append");
    let terms = |wait| tenure::LeaseOptions {
        owner: "me".into(),
        ttl: std::time::Duration::from_secs(3600),
        wait,
        ..tenure::LeaseOptions::default()
    };
    let held = lease.acquire(&terms(tenure::Wait::No)).expect("a lease");
    let taken: Vec<_> = std::iter::from_fn(|| init(CreateFlags::CLOEXEC).ok()).collect();
    assert!(!taken.is_empty(), "there was one before");
    let mut watch = document.watch().expect("a watch");
    let mut follow = journal.follow(1).expect("a follower");
    let patience = tenure::Wait::For(std::time::Duration::from_secs(30));
    assert!(follow.next(patience).expect("an entry").is_some());
    std::thread::scope(|scope| {
        let changed = scope.spawn(|| watch.next(patience));
        let followed = scope.spawn(|| follow.next(patience));
        let leased = scope.spawn(|| lease.acquire(&terms(patience)));
        // They find nothing yet, and wait.
        let moment = std::time::Instant::now();
        while moment.elapsed() < crate::scratch::A_MOMENT {
            std::thread::yield_now();
        }
        document.set(&json!(2), &at_once()).expect("a write");
        journal.append(&["two"], &tenure::AppendOptions::default()).expect("an append");
        lease.release(&held.token).expect("a release");
        let changed = changed.join().expect("no panic").expect("a look").expect("a change");
        assert_eq!(changed.value, json!(2));
        let entry = followed.join().expect("no panic").expect("a look").expect("an entry");
        assert_eq!(entry.seq, 2);
        leased.join().expect("no panic").expect("the lease");
    });
}
