//! A directory, commands in it, and scripts that run in namespaces of their own.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tenure_proof::bounded::{self, Ended};
use tenure_proof::live::Live;

/// The test bench.
pub(crate) struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// `tenure`, started by `launcher` (a program and its arguments that come before it).
    pub(crate) fn command(&self, launcher: &[&str], args: &[&str]) -> Command {
        let mut words = launcher.iter().map(std::ffi::OsStr::new).collect::<Vec<_>>();
        words.push(tenure_proof::tenure().as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(args).current_dir(self.root.path());
        command
    }

    pub(crate) fn tenure(&self, launcher: &[&str], args: &[&str]) -> Ended {
        bounded::run(self.command(launcher, args))
    }

    /// A shell script; `$1` is `tenure`, `$2` the other program.
    pub(crate) fn script(&self, launcher: &[&str], script: &str) -> Command {
        let mut words = launcher.to_vec();
        words.extend(["sh", "-c", script, "sh"]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(tenure_proof::tenure()).arg(env!("CARGO_BIN_EXE_subject"));
        command.current_dir(self.root.path());
        command
    }

    /// A process that holds the lock on `t`.
    pub(crate) fn holder(&self, launcher: &[&str]) -> Live {
        let args = ["run", "t", "--", "sh", "-c", "echo ready; exec cat"];
        let holder = Live::start(self.command(launcher, &args));
        assert_eq!(holder.line().as_deref(), Some("ready"));
        holder
    }

    /// What `lease show` says of `t`.
    pub(crate) fn lease(&self, launcher: &[&str]) -> Value {
        let shown = self.tenure(launcher, &["lease", "show", "t", "--json"]);
        serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
    }

    /// The fence of the next hold on `t`.
    pub(crate) fn fence(&self, launcher: &[&str]) -> u64 {
        let ended = self.tenure(launcher, &["run", "t", "--", "sh", "-c", "echo $TENURE_FENCE"]);
        assert!(ended.is_done(), "{ended:?}");
        ended.stdout.trim().parse().unwrap()
    }
}
