//! A puppet that is a process with pipes, for one actor or for several.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{FAR_TOO_LONG, Heard, Puppet};

/// A process in which any number of actors can play.
#[derive(Debug, Clone)]
pub struct Troupe {
    process: Rc<RefCell<Process>>,
}

impl Troupe {
    /// Starts `command` and waits for its greeting.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        Ok(Self { process: Rc::new(RefCell::new(Process::start(command)?)) })
    }

    /// One of several actors, by name.
    pub fn actor(&self, name: &str) -> Child {
        Child { process: self.process.clone(), actor: Some(name.to_owned()) }
    }

    /// Whether it can have several, as its greeting says.
    pub fn takes_actors(&self) -> bool {
        self.process.borrow().takes_actors
    }

    /// The only actor.
    pub fn alone(self) -> Child {
        Child { process: self.process, actor: None }
    }
}

/// An actor in a child process.
#[derive(Debug)]
pub struct Child {
    process: Rc<RefCell<Process>>,
    actor: Option<String>,
}

impl Child {
    /// The Rust child, alone in its process.
    pub fn rust() -> Self {
        Self::start(&mut super::Language::Rust.command())
    }

    /// A child of this command, alone in its process.
    pub fn start(command: &mut Command) -> Self {
        Troupe::start(command).unwrap_or_else(|why| panic!("{why}")).alone()
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.borrow();
        kill_process(Pid::from_child(&process.child), signal).expect("the process exists");
    }
}

impl Puppet for Child {
    fn tell(&mut self, order: &Value) {
        let mut order = order.clone();
        if let (Some(actor), Some(fields)) = (&self.actor, order.as_object_mut()) {
            fields.insert("actor".to_owned(), json!(actor));
        }
        let mut process = self.process.borrow_mut();
        // A puppet that has ended is noticed at the next read.
        let _ = process.input.write_all(format!("{order}\n").as_bytes());
    }

    fn hear_within(&mut self, time: Duration) -> Heard {
        self.process.borrow_mut().hear(self.actor.as_deref().unwrap_or_default(), time)
    }

    fn pid(&self) -> u32 {
        self.process.borrow().child.id()
    }

    fn knows(&self, op: &str) -> bool {
        let process = self.process.borrow();
        process.ops.as_array().is_some_and(|ops| ops.iter().any(|known| known == op))
    }

    fn kill(&mut self) {
        let mut process = self.process.borrow_mut();
        process.child.kill().expect("the process exists");
        process.child.wait().expect("it is ours");
    }

    fn stop(&self) {
        self.signal(Signal::STOP);
    }

    fn resume(&self) {
        self.signal(Signal::CONT);
    }
}

#[derive(Debug)]
struct Process {
    child: std::process::Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    /// Answers that came while another actor's answer was awaited.
    kept: HashMap<String, VecDeque<Value>>,
    ops: Value,
    takes_actors: bool,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|err| format!("failed to start {command:?}: {err}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or("no pipes")?;
        let (heard, lines) = channel();
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line)
                    .unwrap_or_else(|err| super::misunderstood(&format!("{err}: {line}")));
                if heard.send(said).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().spawn(read).map_err(|err| err.to_string())?;
        let (kept, ops) = (HashMap::new(), Value::Null);
        let mut process = Self { child, input, lines, kept, ops, takes_actors: false };
        match process.lines.recv_timeout(FAR_TOO_LONG) {
            Ok(greeting) if greeting["ready"].is_object() => {
                process.ops = greeting["ready"]["ops"].clone();
                process.takes_actors = greeting["ready"]["actors"] == true;
                Ok(process)
            }
            other => Err(format!("{command:?} did not greet: {other:?}")),
        }
    }

    fn hear(&mut self, actor: &str, time: Duration) -> Heard {
        if let Some(kept) = self.kept.get_mut(actor).and_then(VecDeque::pop_front) {
            return Heard::Answer(kept);
        }
        let started = Instant::now();
        loop {
            match self.lines.recv_timeout(time.saturating_sub(started.elapsed())) {
                Ok(answer) => match answer["actor"].as_str().unwrap_or_default() {
                    ours if ours == actor => return Heard::Answer(answer),
                    other => self.kept.entry(other.to_owned()).or_default().push_back(answer),
                },
                Err(RecvTimeoutError::Timeout) => return Heard::Silence,
                Err(RecvTimeoutError::Disconnected) => return Heard::End,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
