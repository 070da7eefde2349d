//! A process that runs beside the test and talks to it through pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::bounded::{Ended, plain_environment};

/// Longer than anything here takes, even on a busy machine; a test that reaches it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running process. It is killed, with its children, when this is dropped.
#[derive(Debug)]
pub struct Live {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    told: String,
}

impl Live {
    /// Starts `command`. Its input stays open until [`Self::end`].
    pub fn start(mut command: Command) -> Self {
        plain_environment(&mut command).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let told = format!("{command:?}");
        let mut child = command.spawn().unwrap_or_else(|err| panic!("{told}: {err}"));
        let (sender, lines) = channel();
        let output = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.into_iter().try_for_each(|line| sender.send(line))
        });
        let mut errors = child.stderr.take().expect("a pipe");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { input: child.stdin.take(), child, lines, errors: Some(errors), told }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints; `None` when there will be no more.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing: {}", self.told),
        }
    }

    /// Sends it a line.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").unwrap_or_else(|err| panic!("{}: {err}", self.told));
    }

    /// Kills it and all processes that it started.
    pub fn kill(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Closes its input and waits until it ends.
    pub fn end(mut self) -> Ended {
        drop(self.input.take());
        let watch = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        let watch = watch.unwrap_or_else(|err| panic!("{}: {err}", self.told));
        let patience = PATIENCE.try_into().expect("a short time");
        let ended = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&patience));
        assert_ne!(ended, Ok(0), "it hangs: {}", self.told);
        let status = self.child.wait().unwrap_or_else(|err| panic!("{}: {err}", self.told));
        // Grandchildren may keep the pipes open; only what has arrived by now counts.
        self.kill();
        let errors = self.errors.take().map(|errors| errors.join().unwrap_or_default());
        let stdout = self.lines.iter().map(|line| line + "\n").collect();
        let (code, signal) = (status.code(), status.signal());
        Ended { code, signal, stdout, stderr: errors.unwrap_or_default() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
