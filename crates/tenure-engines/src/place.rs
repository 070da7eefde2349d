//! The directory of this process, with one below it for each server.
//!
//! It is in memory where the system has such a place: a killed server loses nothing of the page cache, so memory is as
//! good as a disk here. Figures need a disk: `TENURE_ENGINE_DIR` names another directory.
//!
//! A guardian removes it: a shell that waits for the end of its input, which is a pipe of this process, and so comes
//! however the process ends.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Removes the segment of shared memory that a killed PostgreSQL leaves; its number is in the lock file `$1`.
const FREE_SEGMENT: &str =
    r#"segment() { [ -f "$1" ] && ipcrm -m $(sed -n '7s/.* //p' "$1") 2>/dev/null; }"#;
/// Removes `$1` when its input ends. Children of a killed server that were paused do not end by themselves; they work
/// in their data directory. Servers that are being killed may still create files.
const GUARD: &str = r#"cat >/dev/null; for lock in "$1"/*/data/postmaster.pid; do segment "$lock"; done
for turn in 1 2 3 4 5 6 7 8 9; do
  for process in /proc/[0-9]*; do
    case "$(readlink "$process/cwd")" in "$1"/*) kill -9 "${process#/proc/}";; esac
  done 2>/dev/null
  rm -rf "$1" 2>/dev/null && break
  sleep 0.2
done"#;

/// A new directory for `what`, readable by servers that run as another user.
pub(crate) fn directory(what: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = base().join(format!("{what}-{number}"));
    make(&path);
    path
}

/// Gives it, and all in it, to the user with this name.
pub(crate) fn give(path: &Path, user: &str) {
    let given = Command::new("chown").args(["-R", user]).arg(path).output();
    let given = given.unwrap_or_else(|err| panic!("chown: {err}"));
    assert!(given.status.success(), "chown {user}: {given:?}");
}

fn base() -> &'static Path {
    static BASE: OnceLock<(PathBuf, Child)> = OnceLock::new();
    &BASE
        .get_or_init(|| {
            let memory = Path::new("/dev/shm");
            let usual = || if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
            let parent = std::env::var_os("TENURE_ENGINE_DIR").map_or_else(usual, PathBuf::from);
            let random = RandomState::new().hash_one(std::process::id()) & 0xffff_ffff;
            let path = parent.join(format!("tenure-{random:08x}"));
            make(&path);
            let mut guardian = Command::new("sh");
            guardian
                .args(["-c", &format!("{FREE_SEGMENT}\n{GUARD}"), "sh"])
                .arg(&path)
                .process_group(0);
            guardian.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let guardian = guardian.spawn().expect("there is a shell");
            (path, guardian)
        })
        .0
}

fn make(path: &Path) {
    let made = DirBuilder::new().mode(0o755).create(path);
    made.unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

/// Removes a directory; what is left, the guardian removes.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// Removes the lock file of a killed PostgreSQL, and the shared memory that it names.
pub(crate) fn remove_lock_file(path: &Path) {
    let script = format!("{FREE_SEGMENT}\nsegment \"$1\"; rm -f \"$1\"");
    let _ = Command::new("sh").args(["-c", &script, "sh"]).arg(path).output();
}

/// Writes a file that only servers read.
#[expect(clippy::disallowed_methods, reason = "a file of a test, which need not be durable")]
pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}
