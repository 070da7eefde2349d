//! A command that runs under a hold: started, signalled, waited for.
//!
//! # Invariants
//!
//! 1. A signal that would end tenure goes to the command instead, from before it starts until it has
//!    ended; never to another process that got its number later.
//! 2. Only this command inherits the lock; tenure's own copy stays close-on-exec.

#[cfg_attr(unix, path = "child/unix.rs")]
#[cfg_attr(not(unix), path = "child/other.rs")]
mod platform;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

pub use self::platform::Inherited;
#[cfg(unix)]
pub use self::platform::ignored_signals;
pub(crate) use self::platform::{Running, become_program};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl Ended {
    /// What tenure exits with: the command's own code, or 128 and the signal's number.
    pub(crate) fn exit(self) -> ExitCode {
        let code = match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        };
        ExitCode::Other(u8::try_from(code & 0xFF).unwrap_or(u8::MAX))
    }
}

/// Variables for a command: set, or taken away.
pub(crate) type Variables = Vec<(&'static str, Option<OsString>)>;

/// Starts a command, which may inherit locks.
pub(crate) fn start(
    words: &[OsString],
    variables: Variables,
    inherited: Vec<Inherited>,
) -> Result<Running> {
    let (program, mut command) = command_of(words)?;
    set(&mut command, variables);
    Running::start(&mut command, inherited).map_err(|err| not_started(program.as_ref(), &err))
}

/// The same, with its standard output for us, and perhaps an input from us.
pub(crate) fn start_captured(
    words: &[OsString],
    variables: Variables,
    inherited: Vec<Inherited>,
    input: Option<Vec<u8>>,
) -> Result<(Running, Captured)> {
    let (program, mut command) = command_of(words)?;
    set(&mut command, variables);
    command.stdout(Stdio::piped());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let failed = |err| not_started(program.as_ref(), &err);
    let mut running = Running::start(&mut command, inherited).map_err(failed)?;
    if let (Some(mut pipe), Some(input)) = (running.take_input(), input) {
        // A command need not read all of it. The thread ends with the command.
        let feed = move || drop(pipe.write_all(&input));
        std::thread::Builder::new().name("input".into()).spawn(feed).map_err(failed)?;
    }
    let output = running.take_output().ok_or_else(|| io::Error::other("it has no output"));
    Ok((running, Captured { output: output.map_err(failed)? }))
}

/// The standard output of a command.
#[derive(Debug)]
pub(crate) struct Captured {
    output: ChildStdout,
}

fn set(command: &mut Command, variables: Variables) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

fn command_of(words: &[OsString]) -> Result<(&OsString, Command)> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Failure::usage("start the command", "there is none; write it after `--`"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok((program, command))
}

fn not_started(program: &Path, err: &io::Error) -> Failure {
    let (exit, code, hint) = match err.kind() {
        io::ErrorKind::NotFound => {
            let hint = "check its name, its first line if it is a script, and PATH";
            (ExitCode::CommandNotFound, "command_not_found", hint)
        }
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => {
            (ExitCode::Failed, "io", "the machine has no room for it: end something, or come back")
        }
        io::ErrorKind::PermissionDenied => {
            (ExitCode::NotExecutable, "not_executable", "make it executable: chmod +x")
        }
        _ => (
            ExitCode::NotExecutable,
            "not_executable",
            "name a program, or a script with a #! line",
        ),
    };
    Failure::new(exit, code, "start", err.to_string()).at(program).hint(hint)
}
