//! Running a command to its end, with a time limit.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Much longer than any command of a ring, even on a busy machine; a command that reaches it hangs.
const HANGS: Duration = Duration::from_secs(120);
/// How long one command may wait for another: after a crash none has to wait.
const WAIT: &str = "2s";

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ended {
    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        self.code == Some(0)
    }
}

/// Removes the test's own variables from the environment of a command, and sets a short wait.
pub fn plain_environment(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command.env("TENURE_WAIT", WAIT)
}

/// Runs `command` to its end. One that hangs is killed with its children, and the test fails.
pub fn run(mut command: Command) -> Ended {
    plain_environment(&mut command).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = format!("{command:?}");
    let child = command.spawn().unwrap_or_else(|err| panic!("{told}: {err}"));
    let group = rustix::process::Pid::from_child(&child);
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(HANGS) else {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        panic!("it hangs: {told}");
    };
    let output = output.unwrap_or_else(|err| panic!("{told}: {err}"));
    Ended {
        code: output.status.code(),
        signal: output.status.signal(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
