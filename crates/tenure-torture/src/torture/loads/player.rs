//! A process of a round, from the parent's side: started, read, killed, always reaped.
//!
//! # Invariants
//!
//! 1. Whole lines that a player wrote before it died are read. Half a line is ignored.
//! 2. A player ends when its input ends, so none survives its parent.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::torture::finding::Fault;
use crate::torture::groups;
use crate::torture::worker::VERB;

/// Longer than anything takes here, unless it hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The argument before the role.
pub(in crate::torture) const LOAD: &str = "load";

/// A process that plays a role.
#[derive(Debug)]
pub(super) struct Player {
    role: &'static str,
    child: Child,
    heard: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
    reaped: bool,
}

/// How a player ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Everything that it reported.
    pub(super) lines: Vec<String>,
    /// Why it failed; `None` if it was killed.
    pub(super) finding: Option<(Fault, String)>,
}

impl Player {
    /// Starts it; its standard error goes to a file beside `dir`.
    pub(super) fn start(role: &'static str, dir: &Path, words: &[String]) -> io::Result<Self> {
        let errors = dir.with_extension("errors");
        let errors = OpenOptions::new().create(true).append(true).open(errors)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([VERB, LOAD, role]).args(words).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TENURE_") {
                command.env_remove(name);
            }
        }
        let mut child = groups::start(&mut command)?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (output, to) = (child.stdout.take(), Arc::clone(&heard));
        let listen = move || {
            let Some(output) = output else { return };
            let mut output = BufReader::new(output);
            let mut line = String::new();
            while matches!(output.read_line(&mut line), Ok(1..)) {
                if let Some(whole) = line.strip_suffix('\n') {
                    lock(&to).push(whole.to_owned());
                }
                line.clear();
            }
        };
        let listener = std::thread::Builder::new().name(role.to_owned()).spawn(listen)?;
        Ok(Self { role, child, heard, listener: Some(listener), reaped: false })
    }

    /// How many lines it has written so far.
    pub(super) fn said(&self) -> usize {
        lock(&self.heard).len()
    }

    /// Kills it; returns its remaining lines.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.shoot();
        self.reap();
        self.lines()
    }

    /// Waits for its end, at most this long.
    pub(super) fn wait(mut self, patience: Duration) -> io::Result<Ended> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() > patience {
                break None;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        };
        if status.is_none() {
            self.shoot();
        }
        self.reap();
        let role = self.role;
        let finding = match status {
            None => Some((Fault::Stuck, format!("{role} did not end in {} s", patience.as_secs()))),
            Some(status) => ended_badly(status)
                .then(|| (Fault::Failed, format!("{role} ended by itself: {status}"))),
        };
        Ok(Ended { lines: self.lines(), finding })
    }

    fn shoot(&self) {
        // It may have ended just now; it is not reaped yet, so the number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    fn reap(&mut self) {
        groups::remove(&self.child);
        let _ = self.child.wait();
        self.reaped = true;
    }

    fn lines(&mut self) -> Vec<String> {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        std::mem::take(&mut *lock(&self.heard))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if !self.reaped {
            self.shoot();
            self.reap();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A signal from outside is not its fault.
fn ended_badly(status: ExitStatus) -> bool {
    let outside = [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP];
    let by_signal = |number: i32| outside.iter().any(|one| one.as_raw() == number);
    !status.success() && !status.signal().is_some_and(by_signal)
}

/// Writes one whole line in one write, in a player.
pub(super) fn say(line: &str) -> io::Result<()> {
    io::stdout().lock().write_all(format!("{line}\n").as_bytes())
}

/// Reports a finding, in a player.
pub(super) fn bad(fault: Fault, detail: &str) -> io::Result<()> {
    say(&format!("bad {} {}", fault.code(), detail.escape_debug()))
}

/// The finding in a line of a player.
pub(super) fn found(line: &str) -> Option<(Fault, String)> {
    let (code, detail) = line.strip_prefix("bad ")?.split_once(' ')?;
    Some((Fault::parse(code)?, detail.to_owned()))
}

/// Called by a player that starts no other threads: it ends with its input.
pub(super) fn end_with_parent() -> io::Result<()> {
    let listen = || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(listen)?;
    Ok(())
}
