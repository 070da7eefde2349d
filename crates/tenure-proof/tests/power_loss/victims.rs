//! Victims and checkers as processes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tenure_proof::victim::{Ack, Broken, acks_in, lines_of};

/// Longer than any of this takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);

/// What the victims of one directory have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'d> {
    /// Where they work.
    pub(crate) dir: &'d Path,
    /// How many power losses there were: each time the machine has rebooted.
    pub(crate) losses: u64,
    /// How they are broken.
    pub(crate) broken: Option<Broken>,
}

impl Scene<'_> {
    /// The command of the writer that is number `nth` among those between two power losses. No two
    /// have the same number.
    fn victim(&self, nth: u64, after_loss: bool) -> Command {
        let boot = self.losses + u64::from(after_loss);
        let writer = self.losses * 10 + nth;
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.arg(self.dir).args(["--boot", &boot.to_string(), "--writer", &writer.to_string()]);
        command.args(["--tasks", "all"]);
        command
    }

    /// Checks it as the rebooted machine would, and works in it. Returns what was acknowledged
    /// meanwhile, or what is wrong.
    pub(crate) fn check(&self, acks: &[Ack]) -> Result<Vec<Ack>, String> {
        let mut command = self.victim(9, true);
        command.arg("--check").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the checker can be started");
        let mut input = child.stdin.take().expect("its input is a pipe");
        // It reads everything before it writes anything.
        let _ = input.write_all(lines_of(acks).as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("the checker ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() {
            return Ok(acks_in(&format!("{}\n", text(&output.stdout))));
        }
        Err(text(&output.stderr))
    }
}

/// A running victim; it is killed when the test ends before it does.
pub(crate) struct Victim(Child);

impl Victim {
    /// The `nth` victim of a scene, which writes to `out`, and works for ever unless `rounds` are
    /// given.
    pub(crate) fn start(
        scene: &Scene<'_>,
        nth: u64,
        rounds: Option<u64>,
        out: impl Into<Stdio>,
    ) -> Self {
        let mut command = scene.victim(nth, false);
        if let Some(broken) = scene.broken {
            command.args(["--broken", broken.name()]);
        }
        if let Some(rounds) = rounds {
            command.args(["--rounds", &rounds.to_string()]);
        } else {
            // It works until its file system goes away; its errors are then not needed.
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
    pub(crate) fn start(scene: &Scene<'_>, victims: u64) -> Self {
        let (tell, told) = channel();
        let start = |nth| {
            let mut victim = Victim::start(scene, nth, None, Stdio::piped());
            victim.listen(tell.clone());
            victim
        };
        Self { _victims: (1..=victims).map(start).collect(), told }
    }

    /// Waits for this many acknowledgements; returns all that have come by then.
    pub(crate) fn wait_for(&self, acks: usize) -> Vec<Ack> {
        let next = |_| self.told.recv_timeout(LONG).expect("the victims work");
        let mut got: Vec<Ack> = (0..acks).map(next).collect();
        got.extend(self.told.try_iter());
        got
    }
}

/// A victim's output that goes to a file, appended line by line.
pub(crate) fn tell_to(path: &Path) -> File {
    File::options().append(true).open(path).expect("the file can be opened")
}
