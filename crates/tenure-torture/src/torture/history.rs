//! A history: which worker made which call when, and what it returned when, for a linearizability
//! checker.
//!
//! # Invariants
//!
//! 1. A call is reported before it is made and its return after it has returned, by one clock for
//!    all processes. So the times of an operation enclose the moment at which it took effect.
//! 2. Rounds are separate: all workers of a round are dead before the parent reads the state and
//!    the next round starts. A call without a return took effect in its round, or never.
//! 3. Every value is written once, so a version and a value mean the same.
//! 4. A call without a return belongs to a worker that was killed, or that failed openly. A worker
//!    that ends in another way is a finding.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crew::{Crew, Heard};
use super::finding::{Fault, Finding, Thing};
use super::jobs::attempt;
use super::memory::Memory;
use super::storm::Blows;
use super::subject::{Answer, Refused, Subject};
use super::verdict::Verdict;
use super::word::Word;
use super::worker::{Task, Worker, memory_file};
use super::{Limit, Setup, blank, clock, words};
use crate::demo::{Dice, thousands};
use tenure_cli::{Failure, Progress, Result};

/// Operations of each worker in a round.
const ROUND: u64 = 30;
/// How often progress is checked.
const TICK: Duration = Duration::from_millis(100);

const COUNTER: &str = "counter.json";
const REGISTER: &str = "register.json";
const QUEUE: &str = "queue.jsonl";

/// One operation of a worker, reported before and after.
pub(super) fn operation(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    match worker.dice.between(0, 10) {
        0..3 => call(worker, "counter", "add", &[1], |subject, scratch| {
            let mut sum = 0;
            let path = scratch.join(COUNTER);
            subject.update(&path, false, &mut |current| {
                sum = number(current) + 1;
                json!({ "n": sum })
            })?;
            Ok(vec![sum])
        }),
        3 => call(worker, "counter", "read", &[], |subject, scratch| counter(subject, scratch)),
        4..7 => compare_and_set(worker),
        7..9 => {
            let value = worker.number();
            let known = worker.memory.word(words::JOURNAL);
            call(worker, "queue", "append", &[value], |subject, scratch| {
                let line = value.to_string();
                let number = subject.append(&scratch.join(QUEUE), &[line], false, None)?;
                let number = number.unwrap_or(0);
                known.fetch_max(number, SeqCst);
                Ok(vec![number])
            })
        }
        _ => {
            let known = worker.memory.word(words::JOURNAL).load(SeqCst);
            call(worker, "queue", "tail", &[], |subject, scratch| tail(subject, scratch, known))
        }
    }
}

fn compare_and_set(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let mut seen = None;
    attempt!(call(worker, "register", "read", &[], |subject, scratch| {
        let read = subject.read(&scratch.join(REGISTER))?;
        let read = read.ok_or_else(|| Refused::Damaged("the register is gone".to_owned()))?;
        let value = number(Some(&read.value));
        seen = Some((value, read.version));
        Ok(vec![value])
    })?);
    let Some((old, version)) = seen else { return Ok(Ok(())) };
    let new = worker.number();
    call(worker, "register", "cas", &[old, new], |subject, scratch| {
        let value = json!({ "n": new });
        let set = subject.compare_and_set(&scratch.join(REGISTER), &version, &value)?;
        Ok(vec![u64::from(set)])
    })
}

fn call(
    worker: &Worker<'_>,
    object: &str,
    action: &str,
    arguments: &[u64],
    operate: impl FnOnce(&dyn Subject, &Path) -> Answer<Vec<u64>>,
) -> io::Result<Answer<()>> {
    let (object, action, arguments) = (object.to_owned(), action.to_owned(), arguments.to_vec());
    worker.say(&Word::Call { object, action, arguments, at: clock::now() })?;
    let answer = attempt!(operate(worker.subject, &worker.task.scratch));
    worker.say(&Word::Return { answer, at: clock::now() })?;
    Ok(Ok(()))
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(|value| value["n"].as_u64()).unwrap_or(0)
}

fn counter(subject: &dyn Subject, scratch: &Path) -> Answer<Vec<u64>> {
    let read = subject.read(&scratch.join(COUNTER))?;
    Ok(vec![number(read.as_ref().map(|read| &read.value))])
}

/// The number of the last entry and its value; zeros if there is none. A known entry is there, so
/// earlier ones need not be read.
fn tail(subject: &dyn Subject, scratch: &Path, known: u64) -> Answer<Vec<u64>> {
    let entries = subject.entries(&scratch.join(QUEUE), known.max(1))?;
    let Some((number, line)) = entries.last() else { return Ok(vec![0, 0]) };
    let value = String::from_utf8_lossy(line).parse();
    value.map_or_else(
        |_| Err(Refused::Damaged(format!("entry {number} is torn"))),
        |value| Ok(vec![*number, value]),
    )
}

/// Runs rounds until the limit and writes the history to `file`.
pub(super) fn run(setup: &Setup, limit: &Limit, scratch: &Path, file: &Path) -> Result<Verdict> {
    let failed = |err| Failure::io("torture in", scratch, err);
    let memory = Memory::create(&memory_file(scratch)).map_err(failed)?;
    let history =
        File::create(file).map_err(|err| Failure::io("write the history to", file, err))?;
    let progress = Progress::new();
    let mut scribe = Scribe {
        setup,
        limit,
        scratch,
        memory,
        path: file,
        file: BufWriter::new(history),
        unwritten: false,
        dice: Dice::new(setup.seed),
        generation: 0,
        round: 0,
        operations: 0,
        blows: Blows::default(),
        findings: Vec::new(),
    };
    let first = setup.subject().update(&scratch.join(REGISTER), false, &mut |_| json!({ "n": 0 }));
    first.map_err(|refused| failed(io::Error::other(refused.to_string())))?;
    while !limit.is_over(scribe.operations) && !scribe.has_enough() {
        scribe.round().map_err(failed)?;
        let done = format!("{} operations", thousands(scribe.operations));
        progress.show(limit.part(scribe.operations), &done);
    }
    if !scribe.unwritten {
        let flushed = scribe.file.flush();
        scribe.noted(flushed);
    }
    let mut verdict = blank(setup, limit, scribe.blows);
    verdict.history = (!scribe.unwritten).then(|| file.to_path_buf());
    verdict.operations.insert(Thing::History, scribe.operations);
    verdict.unjudged.insert(Thing::History);
    verdict.findings = scribe.findings;
    Ok(verdict)
}

struct Scribe<'a> {
    setup: &'a Setup,
    limit: &'a Limit,
    scratch: &'a Path,
    memory: Memory,
    path: &'a Path,
    file: BufWriter<File>,
    /// The history could not be written, so there is none.
    unwritten: bool,
    dice: Dice,
    generation: u64,
    round: u64,
    operations: u64,
    blows: Blows,
    findings: Vec<Finding>,
}

/// What a worker has called and not returned from.
#[derive(Debug)]
struct Open {
    object: String,
    action: String,
    arguments: Vec<u64>,
    at: u64,
}

impl Scribe<'_> {
    fn has_enough(&self) -> bool {
        self.unwritten || self.findings.len() >= self.setup.enough()
    }

    fn round(&mut self) -> io::Result<()> {
        self.round += 1;
        self.look("start");
        if self.has_enough() {
            return Ok(());
        }
        let mut crew = Crew::new(self.setup.processes, self.scratch)?;
        for slot in 0..self.setup.processes {
            self.generation += 1;
            crew.start(&Task {
                scratch: self.scratch.to_path_buf(),
                slot,
                generation: self.generation,
                seed: self.dice.roll(),
                count: ROUND,
                author: self.setup.author,
                things: vec![Thing::History],
            })?;
        }
        self.listen(&mut crew);
        self.look("end");
        Ok(())
    }

    /// Reads all reports to the end, and kills and pauses a few workers meanwhile.
    fn listen(&mut self, crew: &mut Crew) {
        let mut open: HashMap<usize, Open> = HashMap::new();
        let mut left = self.setup.processes;
        let mut fuse = self.dice.between(20, 200);
        let mut paused: Option<(usize, Instant)> = None;
        let mut last_word = Instant::now();
        // The reports of a killed worker are read to the end: its call may have taken effect.
        let mut cut = false;
        while left > 0 {
            let now = Instant::now();
            if let Some((slot, _)) = paused.take_if(|(_, end)| *end <= now) {
                crew.pause(slot, false);
            }
            let stuck = now.saturating_duration_since(last_word) > self.setup.patience;
            if !cut && (stuck || self.unwritten || self.limit.is_interrupted()) {
                cut = true;
                crew.kill_all();
                if stuck {
                    let seconds = self.setup.patience.as_secs();
                    let detail = format!("nothing was done for {seconds} s");
                    self.findings.push(Finding::new(Thing::History, Fault::Stuck, detail));
                }
            }
            let wait = paused.map_or(TICK, |(_, end)| end.saturating_duration_since(now).min(TICK));
            let Some(Heard { slot, generation, word }) = crew.hear(wait) else { continue };
            last_word = now;
            match word {
                None => {
                    left -= 1;
                    crew.reap(slot, generation);
                    if let Some(call) = open.remove(&slot) {
                        self.write(Some(slot), &call, None);
                    }
                }
                Some(Word::Call { object, action, arguments, at }) => {
                    // A call that failed openly stays open for ever: it may have taken effect.
                    if let Some(call) = open.insert(slot, Open { object, action, arguments, at }) {
                        self.write(Some(slot), &call, None);
                    }
                }
                Some(Word::Return { answer, at }) => {
                    self.operations += 1;
                    if let Some(call) = open.remove(&slot) {
                        self.write(Some(slot), &call, Some((&answer, at)));
                    }
                }
                Some(Word::Bad(finding)) => self.findings.push(finding),
                Some(_) => {}
            }
            fuse = fuse.saturating_sub(1);
            if fuse == 0 && !cut {
                fuse = self.dice.between(50, 300);
                self.strike(crew, &mut paused);
            }
        }
        let ends = crew.ends().into_iter();
        self.findings.extend(ends.map(|(_, why)| Finding::new(Thing::History, Fault::Failed, why)));
    }

    /// Kills a worker, or pauses one for a while, so that its call lasts long after others have
    /// returned.
    fn strike(&mut self, crew: &mut Crew, paused: &mut Option<(usize, Instant)>) {
        let slot = self.dice.between(0, self.setup.processes as u64);
        let slot = usize::try_from(slot).unwrap_or(0);
        let (pause, ms) = (self.dice.between(0, 2) == 0, self.dice.between(1, 40));
        if !pause {
            crew.kill(slot, true);
            self.blows.kills += 1;
        } else if paused.is_none() {
            crew.pause(slot, true);
            *paused = Some((slot, Instant::now() + Duration::from_millis(ms)));
            self.blows.pauses += 1;
        }
    }

    /// The state between rounds. A failure to read it is a separate finding.
    fn look(&mut self, action: &str) {
        let (subject, scratch) = (self.setup.subject(), self.scratch);
        let register = subject.read(&scratch.join(REGISTER));
        let register = register.map(|read| vec![number(read.as_ref().map(|read| &read.value))]);
        let known = self.memory.word(words::JOURNAL).load(SeqCst);
        let looks = [
            ("counter", counter(subject, scratch)),
            ("register", register),
            ("queue", tail(subject, scratch, known)),
        ];
        for (object, found) in looks {
            let found = match found {
                Ok(found) => found,
                Err(refused) => {
                    let detail = format!("{object}, while all is quiet: {refused}");
                    self.findings.push(Finding::new(Thing::History, refused.fault(), detail));
                    continue;
                }
            };
            let (object, action, at) = (object.to_owned(), action.to_owned(), clock::now());
            let look = Open { object, action, arguments: Vec::new(), at };
            self.write(None, &look, Some((&found, clock::now())));
        }
    }

    fn write(&mut self, worker: Option<usize>, call: &Open, returned: Option<(&[u64], u64)>) {
        let line = json!({
            "round": self.round,
            "object": call.object,
            "worker": worker,
            "action": call.action,
            "arguments": call.arguments,
            "call": call.at,
            "answer": returned.map(|(answer, _)| answer),
            "return": returned.map(|(_, at)| at),
        });
        let written = if self.unwritten { Ok(()) } else { writeln!(self.file, "{line}") };
        self.noted(written);
    }

    /// A history that cannot be written is a failure of this program and no damage: it ends the
    /// run, and the verdict says why.
    fn noted(&mut self, written: io::Result<()>) {
        if let Err(err) = written {
            self.unwritten = true;
            let detail =
                format!("the history could not be written to {}: {err}", self.path.display());
            self.findings.push(Finding::new(Thing::History, Fault::Failed, detail));
        }
    }
}
