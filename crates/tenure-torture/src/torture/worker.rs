//! A worker: does one random operation after another and reports its acknowledgements.
//!
//! `tenure torture-worker work|store|child ...` is started by the parent, never by people. A
//! worker ends when its input ends, so none survives its parent; `quit` lets it finish its
//! operation.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::finding::{Finding, Thing};
use super::jobs;
use super::loads;
use super::memory::Memory;
use super::presence::{Flag, Holder};
use super::remote;
use super::standstill::Busy;
use super::subject::{Author, Refused, Subject};
use super::word::Word;
use crate::demo::Dice;
use tenure_cli::Inherited;

/// Too short a time to give up the processor.
const SHORT: Duration = Duration::from_micros(100);

/// The hidden verb of the command line.
pub(super) const VERB: &str = "torture-worker";

/// In place of the number of a hold: this child has none.
const IDLE: &str = "idle";

/// The arguments of a worker.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// The directory of the run.
    pub(super) scratch: PathBuf,
    /// Its place among the workers.
    pub(super) slot: usize,
    /// Grows with every start.
    pub(super) generation: u64,
    pub(super) seed: u64,
    /// How many operations; 0 for no end.
    pub(super) count: u64,
    pub(super) author: Author,
    /// What to work on; `history` cannot be combined.
    pub(super) things: Vec<Thing>,
}

impl Task {
    /// The arguments that [`run`] understands.
    pub(super) fn words(&self) -> Vec<OsString> {
        let numbers = [self.slot as u64, self.generation, self.seed, self.count];
        let things: Vec<_> = self.things.iter().map(|thing| thing.name()).collect();
        let mut words = vec![OsString::from("work"), self.scratch.clone().into()];
        words.extend(numbers.iter().map(|number| number.to_string().into()));
        words.push(self.author.name().into());
        words.push(things.join(",").into());
        words
    }

    fn parse(words: &[OsString]) -> Option<Self> {
        let [scratch, slot, generation, seed, count, author, things] = words else {
            return None;
        };
        let number = |word: &OsString| word.to_str()?.parse::<u64>().ok();
        let things: Option<Vec<_>> = things.to_str()?.split(',').map(Thing::parse).collect();
        Some(Self {
            scratch: scratch.into(),
            slot: usize::try_from(number(slot)?).ok()?,
            generation: number(generation)?,
            seed: number(seed)?,
            count: number(count)?,
            author: Author::parse(author.to_str()?)?,
            things: things?,
        })
    }
}

/// Where the shared words of a run are.
pub(super) fn memory_file(scratch: &Path) -> PathBuf {
    scratch.join("judge.memory")
}

/// Runs `tenure torture-worker` with the arguments after that.
pub(crate) fn run(words: &[OsString]) -> io::Result<()> {
    let stranger = || io::Error::new(io::ErrorKind::InvalidInput, "only tenure torture calls this");
    match words {
        [kind, words @ ..] if kind == "work" => {
            let task = Task::parse(words).ok_or_else(stranger)?;
            let subject = task.author.subject();
            Worker::new(task, subject)?.work()
        }
        [kind, words @ ..] if kind == remote::STORE => remote::work(words, stranger),
        [kind, words @ ..] if kind == loads::LOAD => loads::work(words),
        [kind, words @ ..] if kind == "child" => run_child(words).ok_or_else(stranger)?,
        _ => Err(stranger()),
    }
}

/// A worker at work.
pub(super) struct Worker<'a> {
    pub(super) task: Task,
    pub(super) subject: &'a dyn Subject,
    pub(super) memory: Memory,
    pub(super) dice: Dice,
    /// The next batch, or document of its own.
    pub(super) next: u64,
    holds: u64,
    quit: Arc<AtomicBool>,
}

impl<'a> Worker<'a> {
    fn new(task: Task, subject: &'a dyn Subject) -> io::Result<Self> {
        let memory = Memory::open(&memory_file(&task.scratch))?;
        let quit = obey()?;
        let dice = Dice::new(task.seed);
        // No incarnation uses a number of another one, wherever those were killed.
        let next = task.generation << 32;
        Ok(Self { task, subject, memory, dice, next, holds: 0, quit })
    }

    fn work(mut self) -> io::Result<()> {
        let mut done = 0;
        while !self.quit.load(Ordering::Relaxed) && (self.task.count == 0 || done < self.task.count)
        {
            let turn = self.dice.between(0, self.task.things.len() as u64);
            let thing = self.task.things[usize::try_from(turn).unwrap_or(0)];
            Busy::begin(self.memory, self.task.slot, thing);
            match jobs::run(thing, &mut self)? {
                Ok(()) | Err(Refused::Lost) => {}
                Err(refused) => {
                    self.found(Finding::new(thing, refused.fault(), refused.to_string()))?;
                }
            }
            done += 1;
        }
        Ok(())
    }

    /// A file of the run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.task.scratch.join(name)
    }

    /// True once in `sides` calls, at random.
    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.dice.between(0, sides) == 0
    }

    /// A number that was never used before; later ones are larger.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// This process under its next hold, for the judges.
    pub(super) fn next_hold(&mut self) -> Holder {
        self.holds += 1;
        Holder { generation: self.task.generation, hold: self.holds, child: false }
    }

    #[expect(clippy::unused_self, reason = "only a worker has a parent to report to")]
    pub(super) fn say(&self, word: &Word) -> io::Result<()> {
        say(word)
    }

    pub(super) fn found(&self, finding: Finding) -> io::Result<()> {
        self.say(&Word::Bad(finding))
    }

    /// Starts a child that lives for a while; if it inherits the lock of this hold, it also holds
    /// it.
    pub(super) fn start_child(&mut self, left: Option<(Inherited, Holder)>) -> io::Result<()> {
        let hold = left.as_ref().map_or_else(|| IDLE.to_owned(), |(_, who)| who.hold.to_string());
        let time = self.dice.between(0, 20_000).to_string();
        let (slot, generation) = (self.task.slot.to_string(), self.task.generation.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.args([VERB, "child"]).arg(memory_file(&self.task.scratch));
        command.args([slot, generation, time, hold]).stdin(Stdio::null());
        let mut child = command.spawn()?;
        drop(left);
        // It must be waited for, or it stays a zombie.
        std::thread::Builder::new().name("child".into()).spawn(move || child.wait())?;
        self.say(&Word::Child)
    }
}

/// Spends a little time inside the critical section.
pub(super) fn dwell(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        if time > SHORT { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

pub(super) fn say(word: &Word) -> io::Result<()> {
    // One write for the whole line: the parent must not see half a promise, nor two mixed.
    io::stdout().lock().write_all(format!("{word}\n").as_bytes())
}

/// Follows the orders of the parent in a thread of its own. The result becomes true when it is to finish.
pub(super) fn obey() -> io::Result<Arc<AtomicBool>> {
    let quit = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&quit);
    std::thread::Builder::new().name("orders".into()).spawn(move || listen(&told))?;
    Ok(quit)
}

/// Ends the process with its input; `quit` lets it finish first.
fn listen(quit: &AtomicBool) {
    let mut line = String::new();
    while matches!(io::stdin().lock().read_line(&mut line), Ok(1..)) {
        quit.store(true, Ordering::Relaxed);
        line.clear();
    }
    std::process::exit(0);
}

/// A child of a worker. If it inherited the lock, its parent may be gone and it is the only holder.
fn run_child(words: &[OsString]) -> Option<io::Result<()>> {
    let [memory, slot, generation, time, hold] = words else { return None };
    let number = |word: &OsString| word.to_str()?.parse::<u64>().ok();
    let slot = usize::try_from(number(slot)?).ok()?;
    let time = Duration::from_micros(number(time)?);
    if hold == IDLE {
        dwell(time);
        return Some(Ok(()));
    }
    let who = Holder { generation: number(generation)?, hold: number(hold)?, child: true };
    let memory = match Memory::open(memory.as_ref()) {
        Ok(memory) => memory,
        Err(error) => return Some(Err(error)),
    };
    let (_flag, overlaps) = Flag::raise(memory, slot, who, false);
    dwell(time);
    Some(overlaps.into_iter().try_for_each(|overlap| say(&Word::Two(overlap))))
}
