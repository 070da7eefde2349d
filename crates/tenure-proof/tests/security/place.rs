//! A directory that several users share, and files outside it that must not change.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_proof::bounded::{self, Ended};

/// Users that no machine has: they need no account.
pub(crate) const ALICE: u32 = 61_111;
pub(crate) const MALLORY: u32 = 62_222;
pub(crate) const BOB: u32 = 63_333;
/// The memory limit of one process: an endless sidecar must not be read whole.
const MEMORY: &str = "--as=600000000";

/// The place.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// With a shared directory of this mode, owned by root, and a vault.
    pub(crate) fn new(mode: u32) -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        set_mode(place.root.path(), 0o755);
        for (name, mode) in [("shared", mode), ("vault", 0o755)] {
            std::fs::create_dir(place.path(name)).unwrap();
            set_mode(&place.path(name), mode);
        }
        std::fs::write(place.path("vault/secret"), "untouched").unwrap();
        set_mode(&place.path("vault/secret"), 0o600);
        std::fs::write(place.path("vault/mine"), "of the attacker").unwrap();
        chown(place.path("vault/mine"), Some(MALLORY), Some(MALLORY)).unwrap();
        // The build directory may be closed to other users. Another process makes the copy: a child
        // that another test starts meanwhile would inherit it open for writing, and then no process
        // could run it.
        let subjects = [env!("CARGO_BIN_EXE_attacker"), env!("CARGO_BIN_EXE_subject")];
        let mut copy = Command::new("cp");
        copy.arg(tenure_proof::tenure()).args(subjects).arg(place.path(""));
        assert!(copy.status().unwrap().success(), "{copy:?}");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn shared(&self) -> PathBuf {
        self.path("shared")
    }

    /// A program as another user (0 is root), in the shared directory.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, user: u32, name: &str, args: &[S]) -> Command {
        let mut command = self.as_user(user);
        command.args(["prlimit", MEMORY, "--"]).arg(self.path(name)).args(args);
        command
    }

    /// A command as another user, in the shared directory.
    pub(crate) fn as_user(&self, user: u32) -> Command {
        self.as_member(user, user)
    }

    /// The same, by a member of a group.
    pub(crate) fn as_member(&self, user: u32, group: u32) -> Command {
        let mut command = Command::new("setpriv");
        let group = format!("--regid={group}");
        command.arg(format!("--reuid={user}")).args([&group, "--clear-groups"]);
        command.current_dir(self.shared());
        command
    }

    /// Runs `tenure` as a user, to its end, and checks how it ended.
    pub(crate) fn tenure(&self, user: u32, args: &[&str]) -> Ended {
        let ended = bounded::run(self.command(user, "tenure", args));
        assert!(is_polite(&ended), "{args:?} as {user}: {ended:?}");
        ended
    }

    /// Nothing outside has changed.
    #[track_caller]
    pub(crate) fn vault_is_untouched(&self) {
        assert_eq!(self.vault_was_touched(), None);
    }

    /// What has changed outside, if anything.
    pub(crate) fn vault_was_touched(&self) -> Option<String> {
        let secret = self.path("vault/secret");
        let text = std::fs::read_to_string(&secret).unwrap();
        let found = std::fs::metadata(&secret).unwrap();
        let owner = (found.mode() & 0o7777, found.uid(), found.gid());
        let names: Vec<_> = std::fs::read_dir(self.path("vault")).unwrap().collect();
        let mine = std::fs::metadata(self.path("vault/mine")).unwrap();
        let mode = std::fs::metadata(self.path("vault")).unwrap().mode() & 0o7777;
        let told = [
            (text != "untouched").then(|| format!("the secret is {text:?}")),
            (owner != (0o600, 0, 0)).then(|| format!("the secret has {owner:?}")),
            (names.len() != 2).then(|| format!("something was created: {names:?}")),
            ((mine.mode() & 0o7777, mine.uid()) != (0o644, MALLORY)).then(|| format!("{mine:?}")),
            (mode != 0o755).then(|| format!("the vault has {mode:o}")),
        ];
        told.into_iter().flatten().next()
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// A documented exit code, and at most one line that says why; never a panic.
fn is_polite(ended: &Ended) -> bool {
    let documented = ended.code.is_some_and(|code| [0, 1, 2, 3, 4, 5, 6, 75].contains(&code));
    let errors = ended.stderr.lines().filter(|line| !line.starts_with("tenure: warning: "));
    let lines: Vec<_> = errors.collect();
    documented && lines.len() <= 1 && lines.iter().all(|line| line.starts_with("tenure: "))
}
