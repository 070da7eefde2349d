//! The child processes of one round: started, read, killed, and always reaped.
//!
//! # Invariants
//!
//! 1. A child is killed by its own handle and waited for at once, so that its process number is
//!    free and every protocol sees it dead, not as a zombie.
//! 2. Dropping a crew kills and reaps all children, whatever failed before.
//! 3. What a child wrote before it died is read: an acknowledgement in the pipe is a promise.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::worker::Task;

/// A report of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// It waits for `go`.
    Ready,
    /// It is in the critical section.
    In,
    /// It is there, and so is this process.
    Two(u32),
    /// It was promised that this key is kept.
    Done(String),
    /// The operation failed openly.
    Refused(String),
    /// It has ended, by itself or by a kill.
    Gone,
}

/// A report and its sender. A slot is a place in the crew; a killed worker's successor has the next
/// generation.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) slot: usize,
    pub(super) generation: u64,
    pub(super) word: Word,
}

/// The workers of one round.
#[derive(Debug)]
pub(super) struct Crew {
    executable: PathBuf,
    workers: Vec<Option<Worker>>,
    sender: Sender<Heard>,
    receiver: Receiver<Heard>,
    killed: HashSet<u32>,
}

/// One running worker.
#[derive(Debug)]
struct Worker {
    child: Child,
    input: ChildStdin,
}

impl Worker {
    fn end(&mut self) {
        // It may have ended by itself already; then only the wait is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

impl Crew {
    /// Places for `size` workers, which all run this executable.
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let workers = (0..size).map(|_| None).collect();
        Ok(Self {
            executable: std::env::current_exe()?,
            workers,
            sender,
            receiver,
            killed: HashSet::new(),
        })
    }

    /// Starts a worker; it waits for [`Crew::go`].
    pub(super) fn start(&mut self, slot: usize, generation: u64, task: &Task) -> io::Result<()> {
        let mut child = Command::new(&self.executable)
            .arg("demo-worker")
            .args(task.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other("a child without pipes"));
        };
        self.workers[slot] = Some(Worker { child, input });
        let sender = self.sender.clone();
        thread::Builder::new().spawn(move || listen(output, slot, generation, &sender))?;
        Ok(())
    }

    /// Starts the work of a worker. One that has died already reports that by its end.
    pub(super) fn go(&mut self, slot: usize) {
        if let Some(worker) = &mut self.workers[slot] {
            let _ = worker.input.write_all(b"go\n");
        }
    }

    /// Kills a worker and waits until it is dead. Returns whether there was one.
    pub(super) fn kill(&mut self, slot: usize) -> bool {
        let Some(worker) = self.workers[slot].take() else { return false };
        // Noted before the kill, so that no report about a dying process comes too early.
        self.killed.insert(worker.child.id());
        true
    }

    /// Whether this process is one that was killed.
    pub(super) fn has_killed(&self, pid: u32) -> bool {
        self.killed.contains(&pid)
    }

    /// Kills all remaining workers at once, and returns how many there were.
    pub(super) fn kill_all(&mut self) -> u64 {
        for worker in self.workers.iter_mut().flatten() {
            // All are killed before any is waited for, so that none has time to clean up.
            self.killed.insert(worker.child.id());
            let _ = worker.child.kill();
        }
        self.workers.iter_mut().filter_map(Option::take).count() as u64
    }

    /// The next report, or `None` if none comes for that long.
    pub(super) fn hear(&self, patience: Duration) -> Option<Heard> {
        self.receiver.recv_timeout(patience).ok()
    }

    /// All remaining reports of dead workers.
    pub(super) fn last_words(mut self) -> impl Iterator<Item = Heard> {
        self.kill_all();
        self.receiver.into_iter()
    }
}

fn listen(output: ChildStdout, slot: usize, generation: u64, sender: &Sender<Heard>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while matches!(output.read_line(&mut line), Ok(1..)) {
        if let Some(word) = parse(&line) {
            // There is no receiver any more when the round has failed.
            let _ = sender.send(Heard { slot, generation, word });
        }
        line.clear();
    }
    let _ = sender.send(Heard { slot, generation, word: Word::Gone });
}

/// The meaning of a whole line. Half a line is no promise.
fn parse(line: &str) -> Option<Word> {
    let line = line.strip_suffix('\n')?;
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "ready" => Some(Word::Ready),
        "in" => Some(Word::In),
        "two" => rest.parse().ok().map(Word::Two),
        "ok" => Some(Word::Done(rest.to_owned())),
        "no" => Some(Word::Refused(rest.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Word, parse};

    #[test]
    fn half_a_line_is_no_promise() {
        assert_eq!(parse("ok 1.0.17\n"), Some(Word::Done("1.0.17".to_owned())));
        assert_eq!(parse("ok 1.0.1"), None);
        assert_eq!(
            parse("no the disk is full\n"),
            Some(Word::Refused("the disk is full".to_owned()))
        );
    }
}
