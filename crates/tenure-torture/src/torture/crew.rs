//! The workers from the parent's side: started, read, paused, killed, and always reaped.
//!
//! # Invariants
//!
//! 1. The moment of a kill is noted before the signal is sent: a worker seen at work before that
//!    moment was alive.
//! 2. Every worker has its own process group, with its children. Dropping the crew kills all of
//!    them and reaps the workers, whatever failed before.
//! 3. What a worker wrote before it died is read. A worker that ended by itself is reported, even
//!    if it is killed before that was noticed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::clock;
use super::groups;
use super::presence::{Holder, Overlap};
use super::remote;
use super::word::Word;
use super::worker::{Task, VERB};

/// A killed process is gone after this long, unless the kernel delays it.
const SOON: Duration = Duration::from_millis(250);
/// Reports that may be queued; then the workers wait.
const BACKLOG: usize = 4096;

/// A report of a worker, or its end (`None`).
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) slot: usize,
    pub(super) generation: u64,
    pub(super) word: Option<Word>,
}

/// How an incarnation was killed.
#[derive(Debug, Clone, Copy)]
struct Death {
    at: u64,
    /// It was certainly dead then.
    gone: u64,
    /// With its children.
    family: bool,
}

/// The workers of a run.
#[derive(Debug)]
pub(super) struct Crew {
    executable: PathBuf,
    errors: PathBuf,
    /// The URL of the store that they use. It may contain a password, so it is in no argument.
    store: Option<String>,
    workers: Vec<Option<Worker>>,
    deaths: HashMap<u64, Death>,
    /// Workers that ended by themselves and unexpectedly, and how.
    ends: Vec<(usize, String)>,
    sender: Option<SyncSender<Heard>>,
    receiver: Receiver<Heard>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    generation: u64,
    input: Option<ChildStdin>,
    /// Its number may be reused by now, so nothing more is sent to it.
    reaped: bool,
}

impl Worker {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn shoot(&self, family: bool) {
        // It may have ended just now; it is not reaped yet, so the number is still its own.
        let shoot = if family { kill_process_group } else { kill_process };
        let _ = shoot(self.pid(), Signal::KILL);
    }

    /// Whether it has ended, or is about to.
    fn ends_soon(&mut self) -> bool {
        let since = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if since.elapsed() > SOON {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        true
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        groups::remove(&self.child);
        let status = self.child.wait();
        self.reaped = true;
        status
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.reaped {
            self.shoot(true);
            let _ = self.reap();
        }
    }
}

impl Crew {
    /// Places for `size` workers; their standard error goes to a file in `scratch`.
    pub(super) fn new(size: usize, scratch: &Path) -> io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(BACKLOG);
        let workers = (0..size).map(|_| None).collect();
        let (executable, errors) = (std::env::current_exe()?, scratch.join("errors.txt"));
        let (deaths, ends) = (HashMap::new(), Vec::new());
        let (sender, store) = (Some(sender), None);
        Ok(Self { executable, errors, store, workers, deaths, ends, sender, receiver })
    }

    /// The same, for workers that use a store.
    pub(super) fn on_store(size: usize, scratch: &Path, url: String) -> io::Result<Self> {
        Ok(Self { store: Some(url), ..Self::new(size, scratch)? })
    }

    /// Starts a worker in its place.
    pub(super) fn start(&mut self, task: &Task) -> io::Result<()> {
        self.launch(task.slot, task.generation, task.words())
    }

    /// Starts a worker in `slot` with these arguments.
    pub(super) fn launch(
        &mut self,
        slot: usize,
        generation: u64,
        words: Vec<OsString>,
    ) -> io::Result<()> {
        let Some(sender) = self.sender.clone() else { return Ok(()) };
        let errors = OpenOptions::new().create(true).append(true).open(&self.errors)?;
        let mut command = Command::new(&self.executable);
        command.arg(VERB).args(words).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TENURE_") {
                command.env_remove(name); // They do not inherit our waits and holds.
            }
        }
        command.envs(self.store.iter().map(|url| (remote::URL, url)));
        let mut child = groups::start(&mut command)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        self.workers[slot] = Some(Worker { child, generation, input, reaped: false });
        let listen = move || listen(output, slot, generation, &sender);
        std::thread::Builder::new().name(format!("worker {slot}")).spawn(listen)?;
        Ok(())
    }

    /// Kills the worker in `slot`, with its children or without, and reaps it.
    pub(super) fn kill(&mut self, slot: usize, family: bool) {
        let Some(mut worker) = self.workers[slot].take() else { return };
        let at = clock::now();
        worker.shoot(family);
        if !worker.ends_soon() {
            // A dead worker's request to a FUSE server may wait for a lock of a paused one.
            (0..self.workers.len()).for_each(|slot| self.pause(slot, false));
        }
        self.end(slot, worker.reap());
        self.deaths.insert(worker.generation, Death { at, gone: clock::now(), family });
    }

    /// A worker that ended neither by a kill nor as planned ended by itself: a panic, an error. An
    /// interruption of this process also hits a worker that has no group of its own yet.
    fn end(&mut self, slot: usize, status: io::Result<ExitStatus>) {
        let from_outside = [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP];
        let killed = |status: ExitStatus| {
            status
                .signal()
                .is_some_and(|number| from_outside.iter().any(|one| one.as_raw() == number))
        };
        if let Some(status) = status.ok().filter(|status| !status.success() && !killed(*status)) {
            let detail = format!("worker {slot} ended by itself: {status}; {}", self.complaints());
            self.ends.push((slot, detail));
        }
    }

    /// Workers that ended by themselves and unexpectedly, each returned once.
    pub(super) fn ends(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.ends)
    }

    /// Kills all workers at the same moment, so that none can clean up.
    pub(super) fn kill_all(&mut self) {
        let at = clock::now();
        self.workers.iter().flatten().for_each(|worker| worker.shoot(true));
        for slot in 0..self.workers.len() {
            let Some(mut worker) = self.workers[slot].take() else { continue };
            self.end(slot, worker.reap());
            self.deaths.insert(worker.generation, Death { at, gone: clock::now(), family: true });
        }
    }

    /// Stops a worker wherever it is, or continues it.
    pub(super) fn pause(&self, slot: usize, stop: bool) {
        if let Some(worker) = &self.workers[slot] {
            let signal = if stop { Signal::STOP } else { Signal::CONT };
            let _ = kill_process(worker.pid(), signal);
        }
    }

    /// Lets a worker finish what it does, and end.
    pub(super) fn quit(&mut self, slot: usize) {
        if let Some(input) = self.workers[slot].as_mut().and_then(|worker| worker.input.as_mut()) {
            let _ = input.write_all(b"quit\n");
        }
    }

    /// Reaps the worker in `slot` that has ended; returns whether it was this one.
    pub(super) fn reap(&mut self, slot: usize, generation: u64) -> bool {
        let ended = self.workers[slot].take_if(|worker| worker.generation == generation);
        let Some(mut worker) = ended else { return false };
        self.end(slot, worker.reap());
        true
    }

    /// The next report, or `None` if none comes for that long or no worker is left.
    pub(super) fn hear(&self, patience: Duration) -> Option<Heard> {
        self.receiver.recv_timeout(patience).ok()
    }

    /// Kills all workers and returns all their remaining reports.
    pub(super) fn last_words(&mut self) -> Vec<Heard> {
        self.sender = None;
        // They may be blocked on a full pipe to us: kill first, then read.
        self.kill_all();
        std::iter::from_fn(|| self.receiver.recv().ok()).collect()
    }

    /// Whether the other process in an overlap was alive when it was seen.
    pub(super) fn was_alive(&self, overlap: Overlap) -> bool {
        let other = Holder::of_flag(overlap.flag);
        match self.deaths.get(&other.generation) {
            Some(death) if death.family || !other.child => overlap.at < death.at,
            // Only its parent was killed; the child kept running.
            _ => true,
        }
    }

    /// When this incarnation was certainly gone, if it was killed.
    pub(super) fn gone(&self, generation: u64) -> Option<u64> {
        self.deaths.get(&generation).map(|death| death.gone)
    }

    /// The end of the workers' standard error. The message of a panic comes before its location.
    fn complaints(&self) -> String {
        let text = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let panic = lines.iter().rposition(|line| line.contains(" panicked at "));
        let (from, count) = panic.map_or((lines.len().saturating_sub(3), 3), |at| (at, 2));
        let told: Vec<_> = lines.into_iter().skip(from).take(count).collect();
        told.join("; ")
    }
}

fn listen(output: Option<ChildStdout>, slot: usize, generation: u64, sender: &SyncSender<Heard>) {
    if let Some(output) = output {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while matches!(output.read_line(&mut line), Ok(1..)) {
            if let Some(word) = Word::parse(&line) {
                // There is no receiver any more when the run has failed.
                let _ = sender.send(Heard { slot, generation, word: Some(word) });
            }
            line.clear();
        }
    }
    let _ = sender.send(Heard { slot, generation, word: None });
}
