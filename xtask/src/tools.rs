//! The tools that the tests need beyond the Rust toolchain, and how they get here.
//!
//! There are two: `strace`, with which the tests kill a process at, and fail, each of its system
//! calls; and the tools of util-linux, with which root makes namespaces, mounts and other users for
//! them. What is installed is said before it is installed.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::pipeline::Options;
use crate::stream;
use crate::tally::Tally;

/// Set, to 1, for tests that are to run without `strace`.
const WITHOUT_STRACE: &str = "TENURE_WITHOUT_STRACE";

/// Set, to 1, for tests that are to run without mounts, namespaces and other users.
const WITHOUT_ROOT: &str = "TENURE_WITHOUT_ROOT";

/// Makes the tools available, or says what is not run.
pub(crate) fn ensure(options: &Options) -> Result<(), String> {
    ensure_strace(options)?;
    ensure_root(options)
}

/// Tells the tests what they must do without.
pub(crate) fn tell(command: &mut Command) {
    if !matches!(strace(), Strace::Works) {
        command.env(WITHOUT_STRACE, "1");
    }
    if root_works().is_err() {
        command.env(WITHOUT_ROOT, "1");
    }
}

fn ensure_strace(options: &Options) -> Result<(), String> {
    let problem = match strace() {
        Strace::Works => {
            println!("strace is here and may trace; nothing to install");
            return Ok(());
        }
        Strace::OtherSystem => {
            println!("the system-call ring is not run: it needs Linux");
            return Ok(());
        }
        Strace::Forbidden(words) => format!("strace may not trace here ({words})"),
        Strace::Missing => match install_strace() {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        },
    };
    let message = format!("the system-call ring is not run: {problem}");
    if options.allow_missing {
        println!("{message}");
        return Ok(());
    }
    Err(format!("{message}; install strace, or pass --allow-missing to go on without"))
}

fn ensure_root(options: &Options) -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        println!("the rings of identity and security are not run: they need Linux");
        return Ok(());
    }
    if root_works().is_err() && has_apt() && is_root() {
        println!("a tool of util-linux is missing: installing the Debian package `util-linux`");
        apt(&["update"])?;
        apt(&["install", "-y", "--no-install-recommends", "util-linux"])?;
    }
    let Err(problem) = root_works() else {
        println!("root may make mounts, namespaces and other users; nothing to install");
        return Ok(());
    };
    let message = format!("full disks, namespaces and other users are not tested: {problem}");
    if options.allow_missing {
        println!("{message}");
        return Ok(());
    }
    Err(format!("{message}; run this as root, or pass --allow-missing to go on without"))
}

/// Tries what the rings do as root: a process with its own mounts, numbers and host name, which becomes
/// somebody else with a limit.
fn root_works() -> Result<(), String> {
    let words = ["--mount", "--pid", "--fork", "--uts", "setpriv", "--reuid=65534", "prlimit"];
    let tried = Command::new("unshare").args(words).args(["--nofile=99", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(err) => Err(format!("unshare: {err}")),
    }
}

/// What can be said of `strace` on this machine.
enum Strace {
    Works,
    Missing,
    Forbidden(String),
    OtherSystem,
}

fn strace() -> Strace {
    if !cfg!(target_os = "linux") {
        return Strace::OtherSystem;
    }
    // A real trace: a container may have the program and still forbid what it does.
    let tried = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => Strace::Works,
        Ok(output) => Strace::Forbidden(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(err) if err.kind() == ErrorKind::NotFound => Strace::Missing,
        Err(err) => Strace::Forbidden(err.to_string()),
    }
}

fn install_strace() -> Result<(), String> {
    if !has_apt() {
        return Err("strace is missing and there is no apt-get to install it with".into());
    }
    if !is_root() {
        return Err("strace is missing and only root may install it".into());
    }
    println!("strace is missing: installing the Debian package `strace`");
    apt(&["update"])?;
    apt(&["install", "-y", "--no-install-recommends", "strace"])?;
    match strace() {
        Strace::Works => Ok(()),
        Strace::Forbidden(words) => Err(format!("strace may not trace here ({words})")),
        Strace::Missing | Strace::OtherSystem => {
            Err("the package is installed, but there is no `strace` in PATH".into())
        }
    }
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    println!("apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    stream::run(&mut command, &mut Tally::default())
}

fn has_apt() -> bool {
    let quiet = Command::new("apt-get").arg("--version").stdout(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
