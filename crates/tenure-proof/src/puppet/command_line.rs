//! A puppet that is the `tenure` command: one process per order, and one that stays for each hold.
//!
//! # Invariants
//!
//! 1. Orders are executed one after the other, by a separate thread; the process that executes one
//!    can be killed or stopped meanwhile.
//! 2. Every process leads a process group, so that `tenure run` and its command die together: the
//!    lock lives as long as the command does.

mod arguments;
mod groups;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use self::arguments::arguments;
use self::groups::Groups;
use super::{FAR_TOO_LONG, Heard, Puppet, misunderstood};

/// Prints its fence, and ends with its input.
const HOLD: &str = "echo \"$TENURE_FENCE\"; exec cat";

/// Drives the command.
#[derive(Debug)]
pub struct CommandLine {
    orders: Option<Sender<Value>>,
    answers: Receiver<Value>,
    groups: Arc<Groups>,
}

impl CommandLine {
    /// Starts the thread; no process yet.
    pub fn start() -> Self {
        crate::tenure(); // Built now, so that the first answer is not delayed.
        let (orders, taken) = channel::<Value>();
        let (given, answers) = channel();
        let groups = Arc::new(Groups::default());
        let mut hand = Hand { groups: groups.clone(), stays: HashMap::new() };
        std::thread::spawn(move || {
            for order in taken {
                if given.send(hand.perform(&order)).is_err() {
                    break;
                }
            }
        });
        Self { orders: Some(orders), answers, groups }
    }
}

impl Puppet for CommandLine {
    fn tell(&mut self, order: &Value) {
        let orders = self.orders.as_ref().expect("it was not killed");
        orders.send(order.clone()).expect("the thread takes orders");
    }

    fn hear_within(&mut self, time: Duration) -> Heard {
        match self.answers.recv_timeout(time) {
            Ok(answer) => Heard::Answer(answer),
            Err(RecvTimeoutError::Timeout) => Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    fn pid(&self) -> u32 {
        self.groups.newest()
    }

    fn knows(&self, op: &str) -> bool {
        arguments::KNOWN.contains(&op)
    }

    fn kill(&mut self) {
        // The leaders first: a `tenure run` whose command dies before it would release the lock
        // properly. So would one whose input is closed, and the end of the thread closes it.
        self.groups.signal_leaders(Signal::KILL);
        self.groups.signal(Signal::KILL);
        self.orders = None;
        // The thread reaps them and ends. The output of a killed process is not an answer.
        while self.hear_within(FAR_TOO_LONG) != Heard::End {}
    }

    fn stop(&self) {
        self.groups.signal(Signal::STOP);
    }

    fn resume(&self) {
        self.groups.signal(Signal::CONT);
    }
}

impl Drop for CommandLine {
    fn drop(&mut self) {
        self.groups.signal(Signal::KILL);
    }
}

/// A process that stays: a hold or a follower. Its input keeps a hold.
struct Staying {
    child: Child,
    output: Receiver<String>,
}

/// Executes the orders.
struct Hand {
    groups: Arc<Groups>,
    stays: HashMap<String, Staying>,
}

impl Drop for Hand {
    fn drop(&mut self) {
        for staying in self.stays.values_mut() {
            drop(staying.child.stdin.take());
            self.groups.end(&mut staying.child);
        }
    }
}

impl Hand {
    fn perform(&mut self, order: &Value) -> Value {
        let name = order["as"].as_str().unwrap_or("it").to_owned();
        match order["op"].as_str().unwrap_or_default() {
            "lock" => self.lock(name, order),
            "release" => self.release(&name),
            "follow" => self.follow(name, order),
            "next" => self.next(&name, order),
            "add" => self.add(order),
            "storm" => self.storm(order),
            _ => self.run(order),
        }
    }

    fn command(order: &Value) -> Result<Command, String> {
        let mut command = Command::new(crate::tenure());
        command.arg("--json").args(arguments(order)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ["TENURE_WAIT", "TENURE_TOKEN", "TENURE_TARGET", "TENURE_FENCE"] {
            command.env_remove(name);
        }
        if let Some(token) = order["token"].as_str() {
            command.env("TENURE_TOKEN", token); // Not an argument, which others can see.
        }
        Ok(command)
    }

    /// One process that does the order and ends.
    fn run(&self, order: &Value) -> Value {
        let mut command = match Self::command(order) {
            Ok(command) => command,
            Err(why) => return misunderstood(&why),
        };
        let mut child = self.groups.start(&mut command);
        drop(child.stdin.take());
        let mut output = String::new();
        let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut output));
        let failure = failure(&mut child);
        match (order["op"].as_str(), self.groups.end(&mut child)) {
            (_, Some(0)) => answer(order, &output),
            // The check reports damage; that is an answer.
            (Some("check"), Some(5)) if !output.is_empty() => answer(order, &output),
            (Some("read"), _) if failure["code"] == "not_found" => {
                json!({ "ok": { "value": null, "version": null } })
            }
            (Some("entries"), _) if failure["code"] == "not_found" => {
                json!({ "ok": { "entries": [] } })
            }
            (_, None) => json!({ "error": { "code": "killed" } }),
            _ => json!({ "error": failure }),
        }
    }

    fn add(&self, order: &Value) -> Value {
        for _ in 0..order["times"].as_u64().unwrap_or(1) {
            let answer = self.run(order);
            if answer.get("ok").is_none() {
                return answer;
            }
        }
        let read = self.run(&json!({ "op": "read", "path": order["path"] }));
        json!({ "ok": { "n": read["ok"]["value"]["n"] } })
    }

    fn stay(&self, order: &Value) -> Result<Staying, String> {
        let mut child = self.groups.start(&mut Self::command(order)?);
        let output = lines_of(child.stdout.take().expect("it was piped"));
        Ok(Staying { child, output })
    }

    fn lock(&mut self, name: String, order: &Value) -> Value {
        let mut staying = match self.stay(order) {
            Ok(staying) => staying,
            Err(why) => return misunderstood(&why),
        };
        // The first line is the fence, empty for readers. If there is none, the lock was refused.
        let Ok(fence) = staying.output.recv() else {
            let failure = failure(&mut staying.child);
            self.groups.end(&mut staying.child);
            return json!({ "error": failure });
        };
        self.groups.holds(&staying.child);
        self.stays.insert(name, staying);
        json!({ "ok": { "fence": fence.parse::<u64>().unwrap_or(0) } })
    }

    fn release(&mut self, name: &str) -> Value {
        let Some(mut staying) = self.stays.remove(name) else {
            return misunderstood(&format!("there is no hold {name}"));
        };
        drop(staying.child.stdin.take());
        let failure = failure(&mut staying.child);
        match self.groups.end(&mut staying.child) {
            Some(0) => json!({ "ok": {} }),
            _ => json!({ "error": failure }),
        }
    }

    fn follow(&mut self, name: String, order: &Value) -> Value {
        match self.stay(order) {
            Ok(staying) => {
                self.stays.insert(name, staying);
                json!({ "ok": {} })
            }
            Err(why) => misunderstood(&why),
        }
    }

    fn next(&mut self, name: &str, order: &Value) -> Value {
        let Some(staying) = self.stays.get(name) else {
            return misunderstood(&format!("there is no follower {name}"));
        };
        let line = match &order["wait"] {
            Value::Number(ms) => {
                let time = Duration::from_millis(ms.as_u64().unwrap_or(0));
                staying.output.recv_timeout(time).ok()
            }
            wait if wait == "forever" => staying.output.recv().ok(),
            _ => staying.output.try_recv().ok(),
        };
        let entry = line.and_then(|line| serde_json::from_str::<Value>(&line).ok());
        json!({ "ok": entry.unwrap_or(json!({ "seq": null })) })
    }

    /// Commands that wait, each ended by a signal as a user would.
    fn storm(&self, order: &Value) -> Value {
        let times = order["times"].as_u64().unwrap_or(1);
        let lock = json!({ "op": "lock", "path": order["path"], "wait": "forever" });
        let mut waiting = Vec::new();
        for _ in 0..times {
            let Ok(mut command) = Self::command(&lock) else { break };
            waiting.push(self.groups.start(&mut command));
        }
        let path = order["path"].as_str().unwrap_or_default();
        let started = Instant::now();
        // Only a command that waits can be cancelled: the signal must not come earlier.
        while started.elapsed() < FAR_TOO_LONG
            && tenure::status::of(path).map_or(0, |status| status.waiters.len()) < waiting.len()
        {
            std::thread::yield_now();
        }
        let mut cancelled = 0;
        for mut child in waiting {
            let pid = Pid::from_child(&child);
            let _ = kill_process(pid, Signal::TERM);
            drop(child.stdin.take());
            if self.groups.end(&mut child) != Some(0) {
                cancelled += 1;
            }
        }
        json!({ "ok": { "cancelled": cancelled } })
    }
}

/// The lines of a process, without waiting for more.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (heard, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if heard.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The error object of a command that has closed its output.
fn failure(child: &mut Child) -> Value {
    let mut text = String::new();
    let _ = child.stderr.take().map(|mut err| err.read_to_string(&mut text));
    let object = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    object.unwrap_or(json!({ "code": "misunderstood", "message": text }))
}

/// The output of the command, in the form of `PUPPETS.md`.
fn answer(order: &Value, output: &str) -> Value {
    let mut objects = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    match order["op"].as_str().unwrap_or_default() {
        "entries" => json!({ "ok": { "entries": objects.collect::<Vec<_>>() } }),
        "show" => {
            let shown = objects.next_back().unwrap_or_default();
            let running = shown["leased"] == true && shown["expired"] == false;
            json!({ "ok": { "owner": shown["owner"], "running": running } })
        }
        _ => json!({ "ok": objects.next_back().unwrap_or(json!({})) }),
    }
}
