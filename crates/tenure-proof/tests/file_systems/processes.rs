//! Processes that use a directory: the `tenure` command, and victims.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use tenure_proof::victim::{Ack, acks_in};

/// The exit code of `tenure` if another process holds it.
pub(crate) const BUSY: i32 = 75;
/// Longer than anything here takes, however busy the machine is.
pub(crate) const LONG: &str = "60s";

/// Runs `tenure` with these words and returns its exit code and what it printed.
pub(crate) fn tenure(words: &[&str], path: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(tenure_proof::tenure());
    let output = command.args(words).arg(path).args(more).stdin(Stdio::null()).output();
    let output = output.expect("tenure can be started");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text)
}

/// A process that holds a lock until it is released, or killed.
pub(crate) struct Holder {
    child: Child,
    /// Its command ends when this is closed.
    _go_on: ChildStdin,
}

impl Holder {
    /// Returns when it has the lock.
    pub(crate) fn start(target: &Path) -> Result<Self, String> {
        let mut command = Command::new(tenure_proof::tenure());
        // `--close`: the lock ends with `tenure` itself, so that killing it must free the lock.
        command.args(["run", "--close"]).arg(target).args(["--", "sh", "-c", "echo held; cat"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("tenure can be started");
        let go_on = child.stdin.take().expect("its input is a pipe");
        let mut out = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut line = String::new();
        let read = out.read_line(&mut line);
        let holder = Self { child, _go_on: go_on };
        match read {
            Ok(_) if line == "held\n" => Ok(holder),
            _ => Err(format!("the holder did not get the lock: {line:?}")),
        }
    }

    /// Kills it, which releases its lock.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is dead");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Victims that work side by side until they are done; everything that they acknowledged.
pub(crate) fn crowd(dir: &Path, victims: u64, rounds: u64) -> Result<Vec<Ack>, String> {
    let start = |writer: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.arg(dir).args(["--writer", &writer.to_string()]);
        command.args(["--rounds", &rounds.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a victim can be started")
    };
    let children: Vec<Child> = (1..=victims).map(start).collect();
    let mut acks = Vec::new();
    let mut problem = None;
    for mut child in children {
        let mut told = String::new();
        let out = child.stdout.as_mut().expect("its output is a pipe");
        out.read_to_string(&mut told).expect("it is text");
        let output = child.wait_with_output().expect("a victim ends");
        if !output.status.success() {
            problem = Some(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        acks.extend(acks_in(&told));
    }
    problem.map_or(Ok(acks), Err)
}
