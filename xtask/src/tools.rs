//! The tools that the tests need beyond the Rust toolchain, and how they get here.
//!
//! There is one: `strace`, with which the tests kill a process at, and fail, each of its system
//! calls. What is installed is said before it is installed.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::pipeline::Options;
use crate::stream;
use crate::tally::Tally;

/// Set, to any value, for tests that are to run without `strace`.
pub(crate) const WITHOUT_STRACE: &str = "TENURE_WITHOUT_STRACE";

/// Makes `strace` available, or says what is not run.
pub(crate) fn ensure(options: &Options) -> Result<(), String> {
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

/// Whether the tests must do without `strace`.
pub(crate) fn without_strace() -> bool {
    !matches!(strace(), Strace::Works)
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
