//! A process that a test controls: this test binary, started again, does one thing per line and
//! answers with one line. `verbs.rs` has its verbs.
//!
//! An answer is the synchronisation. Silence is asserted for a moment only; an answer that must
//! come is awaited for `FAR_TOO_LONG`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::{A_MOMENT, FAR_TOO_LONG};
use crate::starting::start;
use crate::verbs;

/// Set in the environment of a puppet; without it `child` has nothing to do.
const STRINGS: &str = "TENURE_TEST_PUPPET";
/// Starts every answer, to distinguish it from the test runner's output.
const ANSWER: &str = "=";

/// The parent's end. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Puppet {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Puppet {
    /// Starts a process and waits until it listens.
    pub(crate) fn spawn() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "puppet::child", "--nocapture", "--test-threads=1"])
            .env(STRINGS, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = start(&mut command).unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (heard, answers) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some(answer) = line.strip_prefix(ANSWER) else { continue };
                if heard.send(answer.to_owned()).is_err() {
                    break;
                }
            }
        });
        let puppet = Self { process, input, answers };
        assert_eq!(puppet.hear(), "ready");
        puppet
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn say(&mut self, order: &str) -> String {
        self.tell(order);
        self.hear()
    }

    /// Gives an order.
    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    /// The next answer, which must come.
    pub(crate) fn hear(&self) -> String {
        self.answers.recv_timeout(FAR_TOO_LONG).expect("an answer of the puppet")
    }

    /// The next answer, if one comes in time; `None` also when the process has ended.
    pub(crate) fn hear_within(&self, time: Duration) -> Option<String> {
        self.answers.recv_timeout(time).ok()
    }

    /// Asserts that it waits: no answer for a moment.
    pub(crate) fn is_silent(&self) {
        let heard = self.hear_within(A_MOMENT);
        assert_eq!(heard, None, "an answer although it had to wait");
    }

    /// Asserts that it waits, and returns once the kernel has it in the queue of a lock. So it has opened the file that
    /// has the name now.
    pub(crate) fn waits_in_the_kernel(&self) {
        let (pid, started) = (self.pid().to_string(), Instant::now());
        let is_queued = |line: &str| {
            line.contains("-> FLOCK") && line.split_whitespace().any(|word| word == pid)
        };
        while cfg!(target_os = "linux")
            && !std::fs::read_to_string("/proc/locks").unwrap().lines().any(is_queued)
        {
            assert!(started.elapsed() < FAR_TOO_LONG, "it is in no queue");
            std::thread::yield_now();
        }
        self.is_silent();
    }

    /// Sends SIGKILL and waits for the end; returns the answers that it had given until then.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.answers.iter().collect()
    }

    /// Sends SIGKILL without waiting for anything.
    pub(crate) fn shoot(&mut self) {
        self.process.kill().unwrap();
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: the puppet's end.
#[test]
fn child() {
    if std::env::var_os(STRINGS).is_none() {
        return;
    }
    answer("\n=ready"); // The runner has not ended its own line.
    let mut scene = verbs::Scene::default();
    let mut order = String::new();
    // Not `lines()`, which keeps the input locked while an order reads from it.
    while std::io::stdin().read_line(&mut order).unwrap() > 0 {
        let reply = scene.perform(&order);
        answer(&format!("{ANSWER}{reply}"));
        order.clear();
    }
}

/// Says something in the middle of an order.
pub(crate) fn interject(text: &str) {
    answer(&format!("{ANSWER}{text}"));
}

/// One write per line, so that lines of a forked child do not mix with ours.
fn answer(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
