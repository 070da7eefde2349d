//! Victims and checkers as processes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tenure_proof::victim::{Ack, Broken};

/// The power goes in this boot, and the checker looks in the next one.
const BEFORE: &str = "1";
const AFTER: &str = "2";
/// Longer than any of this takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);

fn victim(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command.arg(dir);
    command
}

/// A running victim; it is killed when the test ends before it does.
pub(crate) struct Victim(Child);

impl Victim {
    /// A victim that works in `dir` and tells `out`.
    pub(crate) fn start(
        dir: &Path,
        writer: u64,
        broken: Option<Broken>,
        rounds: Option<u64>,
        out: impl Into<Stdio>,
    ) -> Self {
        let mut command = victim(dir);
        command.args(["--boot", BEFORE, "--writer", &writer.to_string()]);
        if let Some(broken) = broken {
            command.args(["--broken", broken.name()]);
        }
        if let Some(rounds) = rounds {
            command.args(["--rounds", &rounds.to_string()]);
        } else {
            // It works until its file system goes away, and nobody needs to read what it says then.
            command.stderr(Stdio::null());
        }
        command.stdin(Stdio::null()).stdout(out);
        Self(command.spawn().expect("the victim can be started"))
    }

    /// Waits until it has done its work.
    pub(crate) fn finish(mut self) {
        let status = self.0.wait().expect("a victim ends");
        assert!(status.success(), "a victim: {status}");
    }

    /// Passes on its acknowledgements as they come.
    fn listen(&mut self, tell: Sender<Ack>) {
        let out = BufReader::new(self.0.stdout.take().expect("its output is a pipe"));
        std::thread::spawn(move || {
            for ack in out.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
                if tell.send(ack).is_err() {
                    return;
                }
            }
        });
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Victims whose acknowledgements are read as they come.
pub(crate) struct Crowd {
    _victims: Vec<Victim>,
    told: Receiver<Ack>,
}

impl Crowd {
    pub(crate) fn start(dir: &Path, victims: u64, broken: Option<Broken>) -> Self {
        let (tell, told) = channel();
        let start = |writer| {
            let mut victim = Victim::start(dir, writer, broken, None, Stdio::piped());
            victim.listen(tell.clone());
            victim
        };
        Self { _victims: (1..=victims).map(start).collect(), told }
    }

    /// Waits for so many acknowledgements; returns all that have come by then.
    pub(crate) fn wait_for(&self, acks: usize) -> Vec<Ack> {
        let next = |_| self.told.recv_timeout(LONG).expect("the victims work");
        let mut got: Vec<Ack> = (0..acks).map(next).collect();
        got.extend(self.told.try_iter());
        got
    }
}

/// Looks at `dir` as the machine that starts again would; what is wrong with it, if anything is.
pub(crate) fn check(dir: &Path, acks: &[Ack]) -> Result<(), String> {
    let mut command = victim(dir);
    command.args(["--check", "--boot", AFTER]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the checker can be started");
    let text: String = acks.iter().map(|ack| format!("{ack}\n")).collect();
    let mut input = child.stdin.take().expect("its input is a pipe");
    // It may give up before it has read everything.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("the checker ends");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// A victim's output that goes to a file, a line at a time and at its end.
pub(crate) fn tell_to(path: &Path) -> File {
    File::options().append(true).open(path).expect("the file can be opened")
}
