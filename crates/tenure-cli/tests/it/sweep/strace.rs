//! Making one system call of a real `tenure` process fail, or the last thing it does, with strace.
//!
//! strace counts calls per thread. Startup (the dynamic loader, the runtime) is not what is tested:
//! kinds of calls that occur there are counted and injected only where they name a file of the
//! test, with `-P`. Kinds that do not occur there are counted without it, because `-P` misses
//! renames and files with random names.

use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::job::{Job, Subject};
use crate::bench::TENURE;

/// Much longer than any command here; whoever needs it hangs.
const HANGS: Duration = Duration::from_secs(30);
/// Kinds that the loader and the runtime use too.
const AT_STARTUP: [&str; 4] = ["openat", "read", "pread64", "close"];
/// Kinds that do not occur at startup.
const OURS: &str = "openat2,open,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,\
                    linkat,unlink,unlinkat,mkdir,mkdirat,ftruncate,fallocate,copy_file_range,flock,\
                    fchmod,fchown,fstat,statx,statfs,readlink,getdents64,flistxattr,clone3,\
                    exit_group";

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
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
pub(super) struct Case {
    pub(super) call: String,
    /// The first call is 1.
    pub(super) number: usize,
    pub(super) fault: Fault,
}

impl Case {
    /// Whether the command is asked to say why in JSON. Every other one is; `run` always would.
    pub(super) fn is_json(&self, job: &Job) -> bool {
        self.number.is_multiple_of(2) && job.subject != Subject::Run
    }

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

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Whether strace can be used. Without it the sweep fails, unless that was asked for.
#[expect(clippy::print_stderr, reason = "a sweep that did not run must be seen")]
pub(super) fn available() -> bool {
    if Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    let without = std::env::var_os("TENURE_WITHOUT_STRACE").is_some_and(|value| value == "1");
    assert!(without, "strace is missing: install it, or set TENURE_WITHOUT_STRACE=1");
    eprintln!("no strace: no system call was made to fail");
    false
}

/// Runs `tenure` in `dir` to its end.
pub(super) fn tenure(dir: &Path, args: &[&str]) -> Ended {
    let mut command = Command::new(TENURE);
    command.args(args);
    run(command, dir)
}

/// How often each kind of call is made by the command, and the files that it names.
pub(super) fn count(dir: &Path, log: &Path, job: &Job) -> BTreeMap<String, usize> {
    let kinds = format!("trace={OURS}");
    let ended = strace(log, job, None, |command| _ = command.args(["-e", &kinds]), dir);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    calls(&std::fs::read_to_string(log).unwrap())
}

/// How often each kind that startup uses too is made for one of `files`.
pub(super) fn count_shared(
    dir: &Path,
    log: &Path,
    job: &Job,
    files: &[String],
) -> BTreeMap<String, usize> {
    let kinds = format!("trace={}", AT_STARTUP.join(","));
    let narrow = |command: &mut Command| {
        command.args(["-e", &kinds]);
        command.args(files.iter().flat_map(|file| ["-P", file]));
    };
    let ended = strace(log, job, None, narrow, dir);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    calls(&std::fs::read_to_string(log).unwrap())
}

/// Runs the command with the fault.
pub(super) fn with_fault(dir: &Path, job: &Job, case: &Case, files: &[String]) -> Ended {
    let kinds = format!("trace={}", case.call);
    let inject = case.inject();
    let narrow = |command: &mut Command| {
        command.args(["-e", &kinds, "-e", &inject]);
        if AT_STARTUP.contains(&case.call.as_str()) {
            command.args(files.iter().flat_map(|file| ["-P", file]));
        }
    };
    strace(Path::new("/dev/null"), job, case.is_json(job).then_some("--json"), narrow, dir)
}

fn strace(
    log: &Path,
    job: &Job,
    form: Option<&str>,
    narrow: impl Fn(&mut Command),
    dir: &Path,
) -> Ended {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log);
    if let Some(lacks) = job.lacks {
        command.args(["-e", &format!("inject={lacks}")]);
    }
    narrow(&mut command);
    command.arg("--").arg(TENURE).args(form).args(job.args);
    run(command, dir)
}

fn run(mut command: Command, dir: &Path) -> Ended {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    // Two seconds is what the next one may wait after a crash.
    command.env("TENURE_WAIT", "2s").current_dir(dir).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = format!("{command:?}");
    let child = command.spawn().unwrap();
    let group = rustix::process::Pid::from_child(&child);
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(HANGS) else {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        panic!("it hangs: {told}");
    };
    let output = output.unwrap();
    Ended {
        code: output.status.code(),
        signal: output.status.signal(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
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
