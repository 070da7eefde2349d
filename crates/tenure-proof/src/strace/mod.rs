//! Makes a system call of a real process fail, or kills the process at it, with strace.
//!
//! # What strace 6.1 does
//!
//! 1. It counts the calls of each kind, in each thread, separately: `when=3` of a set of kinds is
//!    the third of each. Faults that begin at one moment for many kinds are one `inject` for each
//!    kind, with its own number, taken from the log of a run without a fault
//!    ([`Calls::from_there_on`]).
//! 2. It injects only into calls that it traces. Calls that the simulated machine lacks are traced
//!    in every run.
//! 3. With `--seccomp-bpf` only traced calls stop the process, which is cheaper; but then an
//!    injected signal is lost. Kills are made without it.
//! 4. `-P` misses renames and files with random names, and hides what the machine lacks. It is not
//!    used: the calls of the loader and the runtime are counted, and skipped.

mod case;
mod kinds;
mod log;

use std::path::Path;
use std::process::Command;

pub use self::case::{Case, Fault};
pub use self::kinds::{Does, KINDS, Kind};
pub use self::log::Calls;
use crate::bounded::{Ended, run};

/// Every call that takes the name of a file or a descriptor, and what begins and ends threads.
const ALL: &str = "%file,%desc,sync,clone3,exit_group";

/// Whether strace can be used. Without it the ring fails, unless the variable is set.
pub fn available() -> bool {
    let mut tried = Command::new("strace");
    tried.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "true"]);
    let works = tried.output().is_ok_and(|output| output.status.success());
    crate::machine::allows(works, "strace, and permission to trace", "TENURE_WITHOUT_STRACE")
}

/// `program` on a machine where a call always fails (`call:error=NAME`); the caller adds its
/// arguments.
pub fn lacking(lacks: &str, program: &Path) -> Command {
    let (call, _) = lacks.split_once(':').unwrap_or((lacks, ""));
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
    command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={lacks}")]);
    command.arg("--").arg(program);
    command
}

/// A command whose system calls are counted, or made to fail.
#[derive(Debug, Clone, Copy)]
pub struct Traced<'a> {
    /// What is run.
    pub program: &'a Path,
    /// With what.
    pub args: &'a [&'a str],
    /// Where.
    pub dir: &'a Path,
    /// Calls that always fail on this machine: `call:error=NAME`.
    pub lacks: Option<&'a str>,
    /// The file that strace writes to, outside of `dir`.
    pub log: &'a Path,
}

/// How a command with a fault ended.
#[derive(Debug)]
pub struct Struck {
    /// How it ended.
    pub ended: Ended,
    /// Whether the fault was injected: a call that is never made cannot fail.
    pub came_about: bool,
}

impl Traced<'_> {
    /// The calls that the command makes without a fault.
    pub fn calls(&self) -> Calls {
        let ended = self.strace(ALL, |_| {});
        assert!(ended.is_done(), "{ended:?}");
        Calls::read(&self.text(), self.lacking())
    }

    /// The ends and lengths of writes with an offset.
    pub fn writes(&self) -> Vec<(u64, u64)> {
        let ended = self.strace("pwrite64", |command| _ = command.args(["-s", "0"]));
        assert!(ended.is_done(), "{ended:?}");
        // `NUMBER pwrite64(FD, ""..., LENGTH, OFFSET) = RESULT`
        let parse = |line: &str| {
            let arguments = line.split_once("pwrite64(")?.1.rsplit_once(") = ")?.0;
            let mut numbers = arguments.rsplit(", ").map(str::parse::<u64>);
            let (offset, length) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            Some((offset + length, length))
        };
        self.text().lines().filter_map(parse).collect()
    }

    /// Runs the command with the fault.
    pub fn with_fault(&self, case: &Case) -> Struck {
        let kinds: Vec<_> = case.kinds().collect();
        let ended = self.strace(&kinds.join(","), |command| {
            if case.fault != Fault::Kill {
                command.arg("--seccomp-bpf");
            }
            for inject in case.injects() {
                command.args(["-e", &inject]);
            }
        });
        let came_about = log::has_fault(&self.text(), case);
        Struck { ended, came_about }
    }

    /// The kind of call that this machine lacks.
    fn lacking(&self) -> Option<&str> {
        self.lacks.and_then(|lacks| lacks.split(':').next())
    }

    fn text(&self) -> String {
        let log = self.log;
        std::fs::read_to_string(log).unwrap_or_else(|err| panic!("{}: {err}", log.display()))
    }

    fn strace(&self, kinds: &str, more: impl Fn(&mut Command)) -> Ended {
        // A log of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(self.log);
        let kinds = [kinds].into_iter().chain(self.lacking());
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(self.log).args(["-e", &format!("trace={kinds}")]);
        if let Some(lacks) = self.lacks {
            command.args(["-e", &format!("inject={lacks}")]);
        }
        more(&mut command);
        command.arg("--").arg(self.program).args(self.args).current_dir(self.dir);
        run(command)
    }
}
