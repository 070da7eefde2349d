//! Making one system call of a real process fail, or the last thing it does, with strace.
//!
//! strace counts calls per thread. Startup (the dynamic loader, the runtime) is not what is tested:
//! kinds of calls that occur there are counted and injected only where they name a file of the
//! test, with `-P`. Kinds that do not occur there are counted without it, because `-P` misses
//! renames and files with random names.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::bounded::{Ended, run};

/// Kinds that the loader and the runtime use too.
const AT_STARTUP: [&str; 4] = ["openat", "read", "pread64", "close"];
/// Kinds that do not occur at startup.
const OURS: &str = "openat2,open,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,\
                    linkat,unlink,unlinkat,mkdir,mkdirat,ftruncate,fallocate,copy_file_range,flock,\
                    fchmod,fchown,fstat,statx,statfs,readlink,getdents64,flistxattr,clone3,\
                    exit_group";

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies instead of making the call.
    Kill,
    /// The call fails once.
    Once(&'static str),
    /// The call and all later ones of its kind fail.
    Always(&'static str),
    /// A signal interrupts the call three times.
    Interrupted,
}

/// One fault at one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The kind of call, as strace calls it.
    pub call: String,
    /// The first call is 1.
    pub number: usize,
    /// What happens there.
    pub fault: Fault,
}

impl Case {
    /// The argument of `strace -e`.
    fn inject(&self) -> String {
        let Self { call, number, .. } = self;
        match self.fault {
            Fault::Kill => format!("inject={call}:signal=KILL:when={number}"),
            Fault::Once(error) => format!("inject={call}:error={error}:when={number}"),
            Fault::Always(error) => format!("inject={call}:error={error}:when={number}+"),
            // Not for ever: a caller that tries again is right, and would never end.
            Fault::Interrupted => {
                format!("inject={call}:error=EINTR:when={number}..{}", number + 2)
            }
        }
    }
}

/// Whether strace can be used. Without it the ring fails, unless that was asked for.
pub fn available() -> bool {
    let tried = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let works = tried.is_ok_and(|output| output.status.success());
    crate::machine::allows(works, "strace, and permission to trace", "TENURE_WITHOUT_STRACE")
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
    /// What this machine never does: `call:error=NAME`.
    pub lacks: Option<&'a str>,
    /// The files for which calls that occur at startup as well are counted.
    pub files: &'a [String],
}

impl Traced<'_> {
    /// How often each kind of call is made; `log` is a file that is left with the calls.
    pub fn count(&self, log: &Path) -> BTreeMap<String, usize> {
        let kinds = format!("trace={OURS}");
        calls(&self.traced(log, |command| _ = command.args(["-e", &kinds])))
    }

    /// How often each kind that startup uses too is made for one of the files.
    pub fn count_shared(&self, log: &Path) -> BTreeMap<String, usize> {
        let kinds = format!("trace={}", AT_STARTUP.join(","));
        calls(&self.traced(log, |command| _ = command.args(["-e", &kinds]).args(self.paths())))
    }

    /// Where writes end that name their place, and how long they are.
    pub fn writes(&self, log: &Path) -> Vec<(u64, u64)> {
        let text =
            self.traced(log, |command| _ = command.args(["-s", "0", "-e", "trace=pwrite64"]));
        // `NUMBER pwrite64(FD, ""..., LENGTH, OFFSET) = RESULT`
        let parse = |line: &str| {
            let arguments = line.split_once("pwrite64(")?.1.rsplit_once(") = ")?.0;
            let mut numbers = arguments.rsplit(", ").map(str::parse::<u64>);
            let (offset, length) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            Some((offset + length, length))
        };
        text.lines().filter_map(parse).collect()
    }

    /// Runs the command with the fault.
    pub fn with_fault(&self, case: &Case) -> Ended {
        let (kinds, inject) = (format!("trace={}", case.call), case.inject());
        self.strace(Path::new("/dev/null"), |command| {
            command.args(["-e", &kinds, "-e", &inject]);
            if AT_STARTUP.contains(&case.call.as_str()) {
                command.args(self.paths());
            }
        })
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(|file| ["-P", file])
    }

    fn traced(&self, log: &Path, narrow: impl Fn(&mut Command)) -> String {
        let ended = self.strace(log, narrow);
        assert!(ended.is_done(), "{ended:?}");
        std::fs::read_to_string(log).unwrap_or_else(|err| panic!("{}: {err}", log.display()))
    }

    fn strace(&self, log: &Path, narrow: impl Fn(&mut Command)) -> Ended {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log);
        if let Some(lacks) = self.lacks {
            command.args(["-e", &format!("inject={lacks}")]);
        }
        narrow(&mut command);
        command.arg("--").arg(self.program).args(self.args).current_dir(self.dir);
        run(command)
    }
}

/// The largest number of calls of each kind that one thread made: strace counts per thread.
fn calls(log: &str) -> BTreeMap<String, usize> {
    let mut threads: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if call.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            *threads.entry((thread, call)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in threads {
        let entry = most.entry(call.to_owned()).or_default();
        *entry = count.max(*entry);
    }
    most
}
