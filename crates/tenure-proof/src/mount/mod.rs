//! Real file systems, made and mounted for a test.
//!
//! # Invariants
//!
//! 1. A mount is unmounted when its value is dropped, also when the test panics; in the worst case
//!    it is detached and goes away with its last user.
//! 2. One test at a time mounts anything ([`Turn`]): there are only eight loop devices.
//! 3. On a machine that cannot mount, the test is reported as not run; nothing is skipped in
//!    silence ([`may_mount`]).

mod format;
mod shutdown;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;

pub use self::format::{BTRFS, EXT4, EXT4_SMALL_BLOCKS, EXT4_WRITEBACK, Format, XFS};
pub use self::shutdown::shut_down;

/// How long a file system may be in use after its last user has ended.
const LET_GO_MAX: Duration = Duration::from_secs(10);

/// Set to `1` where file systems cannot be mounted.
const WITHOUT: &str = "TENURE_WITHOUT_MOUNTS";

/// Whether file systems can be mounted here. If not, the variable must be set, and `test` is
/// reported as not run.
pub fn may_mount(test: &str) -> bool {
    if std::env::var_os(WITHOUT).is_some_and(|value| value == "1") {
        crate::not_run(&format!("{test}: no file system can be mounted here ({WITHOUT}=1)"));
        return false;
    }
    let tried = tempfile::tempdir().and_then(|dir| {
        let done = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(dir.path()).output()?;
        if done.status.success() {
            rustix::mount::unmount(dir.path(), UnmountFlags::DETACH)?;
        }
        Ok(done.status.success() && Path::new("/dev/loop-control").exists())
    });
    let works = tried.is_ok_and(|works| works);
    assert!(works, "mounting needs root and loop devices; without them set {WITHOUT}=1");
    true
}

/// The permission to mount: one test of this machine at a time has it.
#[derive(Debug)]
pub struct Turn {
    _locked: File,
}

impl Turn {
    /// Waits for it.
    pub fn take() -> Self {
        let path = std::env::temp_dir().join("tenure-proof-mounts.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.expect("the lock file of the mounts can be opened");
        rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("it can be locked");
        Self { _locked: file }
    }
}

/// Runs a tool that must succeed, and returns what it said.
pub fn tool(words: &[&str], path: Option<&Path>) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(path);
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|err| panic!("{}: {err}", words[0]));
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{words:?} {path:?}: {status}: {stderr}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// A directory in memory, for images: the test decides what they lose, not a disk.
pub fn memory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.expect("a directory for the images")
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    at: tempfile::TempDir,
    is_mounted: bool,
}

impl Mounted {
    /// `mount -t KIND -o OPTIONS SOURCE`, or the kernel's error.
    pub fn try_new(source: &Path, kind: &str, options: &str) -> Result<Self, String> {
        let at = tempfile::tempdir().expect("a mount point");
        let mut mount = Command::new("mount");
        mount.args(["-t", kind]);
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        let output = mount.arg(source).arg(at.path()).output().expect("mount can be started");
        if output.status.success() {
            Ok(Self { at, is_mounted: true })
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// The same where it must work.
    pub fn new(source: &Path, kind: &str, options: &str) -> Self {
        let mounted = Self::try_new(source, kind, options);
        mounted.unwrap_or_else(|problem| panic!("{kind} on {}: {problem}", source.display()))
    }

    /// A file system that is already mounted at this directory; dropping the value unmounts it.
    pub fn adopt(at: tempfile::TempDir) -> Self {
        Self { at, is_mounted: true }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// A new directory on it whose name is durable.
    pub fn directory(&self, name: &str) -> PathBuf {
        let dir = self.path().join(name);
        std::fs::create_dir(&dir).expect("a directory on the new file system");
        let synced = File::open(self.path()).and_then(|root| root.sync_all());
        synced.expect("its name can be synced");
        dir
    }

    /// Mounts it again with other options.
    pub fn remount(&self, options: &str) {
        tool(&["mount", "-o", &format!("remount,{options}")], Some(self.path()));
    }

    /// Unmounts it; no process may be using it. A server in user space may need a moment to close
    /// it.
    pub fn unmount(mut self) {
        let give_up = Instant::now() + LET_GO_MAX;
        while !orderly(self.path()) {
            assert!(Instant::now() < give_up, "{} is still in use", self.path().display());
            std::thread::yield_now();
        }
        self.is_mounted = false;
    }
}

fn orderly(at: &Path) -> bool {
    let done = Command::new("umount").arg(at).output();
    done.is_ok_and(|output| output.status.success())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted && !orderly(self.at.path()) {
            let _ = rustix::mount::unmount(self.at.path(), UnmountFlags::DETACH);
        }
    }
}

/// A loop device over a file that does not pass through the page cache.
#[derive(Debug)]
pub struct Loop {
    device: PathBuf,
}

impl Loop {
    /// Over `file`.
    pub fn over(file: &Path) -> Self {
        let device = tool(&["losetup", "--direct-io=on", "-f", "--show"], Some(file));
        Self { device: device.trim().into() }
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).output();
    }
}
