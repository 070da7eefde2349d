//! What a test needs from the machine. A missing feature is reported, never skipped in silence.

use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
pub use tenure_testkit::allows;

/// Set to 1 to run without features that need root: mounts, namespaces, other users.
const WITHOUT_ROOT: &str = "TENURE_WITHOUT_ROOT";

/// Whether mounts, namespaces and other users are available.
pub fn allows_root() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--uts", "setpriv", "--reuid=65534", "true"])
        .output();
    let works = tried.is_ok_and(|output| output.status.success());
    allows(works, "root: mounts, namespaces and other users", WITHOUT_ROOT)
}

/// Gives the calling thread its own mount namespace: its mounts are visible to it and to the
/// processes that it starts, and vanish with them, however they end.
pub fn own_mounts() {
    let flags = UnshareFlags::NEWNS;
    #[expect(unsafe_code, reason = "there is no safe form of this call")]
    // SAFETY: only the mount namespace is unshared; the descriptor table, which is why the call is
    // unsafe, stays shared.
    unsafe { rustix::thread::unshare_unsafe(flags) }.expect("root has a view of mounts of its own");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).expect("mounts can be made private");
}

/// Mounts a file system in memory, with these options (`size=64k,nr_inodes=20`).
pub fn mount_memory(at: &Path, options: &str) {
    let options = std::ffi::CString::new(options).expect("no NUL in options");
    mount("none", at, "tmpfs", MountFlags::empty(), &*options)
        .unwrap_or_else(|err| panic!("cannot mount memory at {}: {err}", at.display()));
}
