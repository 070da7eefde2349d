//! A race: rounds of eight processes on one document, some of them killed, and the count of
//! violations.
//!
//! A round starts eight workers at once. While they work, one of them is killed every few
//! acknowledgements and replaced: a random one, or, for a lock, one that has just reported to be
//! inside. In every second round, somewhere past the middle, all of them are killed together, as
//! the end of a container does; in the others all may finish. Then the files are checked.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::crew::{Crew, Heard, Word};
use super::oracle::{Reader, Tally};
use super::protocol::Protocol;
use super::scratch::Scratch;
use super::worker::Task;
use tenure_shipped::Dice;
use tenure_shipped::state::{self, Content};

/// How many processes share the document.
pub(super) const PROCESSES: usize = 8;

/// How many keys each of them adds in a round.
const KEYS: u64 = 30;

/// A round without one acknowledgement for that long is stuck, and over.
const STUCK: Duration = Duration::from_millis(200);

/// No round is longer than that.
const LONGEST_ROUND: Duration = Duration::from_millis(600);

/// How long a process may take to start on a busy machine.
const START: Duration = Duration::from_secs(10);

/// What is done to a protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// The protocol under test.
    pub(super) protocol: Protocol,
    /// The document at the start.
    pub(super) content: Content,
    /// Whether processes are killed.
    pub(super) kills: bool,
    /// The plan of kills.
    pub(super) seed: u64,
}

/// When a race is over: at the first of the two, but after two rounds at least, one of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// After that much time.
    pub(super) time: Duration,
    /// After that many rounds.
    pub(super) rounds: u64,
}

/// Runs rounds until the limit and reports the progress, from 0 to 1.
pub(super) fn run(
    load: Load,
    limit: Limit,
    scratch: &Scratch,
    mut progress: impl FnMut(f64),
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut dice = Dice::new(load.seed);
    let started = Instant::now();
    while tally.rounds < 2 || (started.elapsed() < limit.time && tally.rounds < limit.rounds) {
        let directory = scratch.inner(&format!("{}-{}", load.protocol.name(), tally.rounds))?;
        let load = Load { seed: dice.roll(), ..load };
        Round::new(load, directory.path(), &mut tally)?.run()?;
        progress(started.elapsed().as_secs_f64() / limit.time.as_secs_f64());
    }
    Ok(tally)
}

/// One place among the eight.
#[derive(Debug, Default, Clone, Copy)]
struct Slot {
    generation: u64,
    answered: u64,
    over: bool,
}

struct Round<'a> {
    load: Load,
    directory: &'a Path,
    tally: &'a mut Tally,
    dice: Dice,
    crew: Crew,
    slots: [Slot; PROCESSES],
    promised: Vec<String>,
    /// Acknowledgements until the next kill.
    fuse: u64,
    /// The next process that reports to be inside is killed there.
    ambush: bool,
}

impl<'a> Round<'a> {
    fn new(load: Load, directory: &'a Path, tally: &'a mut Tally) -> io::Result<Self> {
        load.content.create(directory)?;
        Ok(Self {
            load,
            directory,
            tally,
            dice: Dice::new(load.seed),
            crew: Crew::new(PROCESSES)?,
            slots: [Slot::default(); PROCESSES],
            promised: Vec::new(),
            fuse: 0,
            ambush: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let document = state::path(self.directory);
        self.light_fuse();
        let total = KEYS * PROCESSES as u64;
        // Every second round kills all workers at once; in the others all may finish.
        let all_at_once = self.load.kills && self.tally.rounds % 2 == 1;
        let end = if all_at_once { self.dice.between(total / 2, total * 4 / 5) } else { total };
        self.start_everybody()?;
        let reader = Reader::start(document.clone())?;
        self.watch(end)?;
        let killed = self.crew.kill_all();
        let seen = reader.finish();
        let Self { tally, crew, mut promised, load, .. } = self;
        if load.kills {
            tally.kills += killed;
        }
        for heard in crew.last_words() {
            note(tally, &mut promised, heard.word);
        }
        tally.reads += seen.reads;
        tally.torn += seen.torn;
        tally.judge(&document, &promised);
        Ok(())
    }

    fn start_everybody(&mut self) -> io::Result<()> {
        for slot in 0..PROCESSES {
            self.start(slot)?;
        }
        let mut ready = 0;
        while ready < PROCESSES {
            match self.crew.hear(START) {
                Some(Heard { word: Word::Ready, .. }) => ready += 1,
                heard => {
                    let why = match heard.map(|heard| heard.word) {
                        Some(Word::Refused(reason)) => reason,
                        Some(_) => "it ended at once".to_owned(),
                        None => "it takes too long".to_owned(),
                    };
                    let name = self.load.protocol.name();
                    return Err(io::Error::other(format!("failed to start `{name}`: {why}")));
                }
            }
        }
        for slot in 0..PROCESSES {
            self.crew.go(slot);
        }
        Ok(())
    }

    fn start(&mut self, slot: usize) -> io::Result<()> {
        let Slot { generation, answered, .. } = self.slots[slot];
        let task = Task {
            protocol: self.load.protocol,
            directory: self.directory.to_path_buf(),
            name: format!("{slot}.{generation}"),
            count: KEYS.saturating_sub(answered),
            seed: self.dice.roll(),
        };
        self.crew.start(slot, generation, &task)
    }

    /// Listens and kills until the round is over.
    fn watch(&mut self, end: u64) -> io::Result<()> {
        let started = Instant::now();
        let mut last_done = Instant::now();
        while (self.promised.len() as u64) < end && !self.slots.iter().all(|slot| slot.over) {
            let patience = STUCK
                .saturating_sub(last_done.elapsed())
                .min(LONGEST_ROUND.saturating_sub(started.elapsed()));
            if patience.is_zero() {
                return Ok(());
            }
            let Some(heard) = self.crew.hear(patience) else { return Ok(()) };
            if matches!(heard.word, Word::Done(_)) {
                last_done = Instant::now();
            }
            self.answer(heard)?;
        }
        Ok(())
    }

    fn answer(&mut self, heard: Heard) -> io::Result<()> {
        let Heard { slot, generation, word } = heard;
        let current = self.slots[slot].generation == generation;
        let mut victim = None;
        match &word {
            Word::Gone if current => self.slots[slot].over = true,
            Word::In if current && self.ambush => victim = Some(slot),
            // The claim of a dying process is not a second holder.
            Word::Two(other) if !self.crew.has_killed(*other) => self.tally.double += 1,
            Word::Done(_) => {
                self.slots[slot].answered += 1;
                victim = self.burn_fuse();
            }
            _ => {}
        }
        note(self.tally, &mut self.promised, word);
        victim.map_or(Ok(()), |slot| self.replace(slot))
    }

    fn light_fuse(&mut self) {
        self.fuse = self.dice.between(4, 24);
        self.ambush = false;
    }

    /// Counts an acknowledgement. When the count runs out it chooses a victim or sets the ambush.
    fn burn_fuse(&mut self) -> Option<usize> {
        self.fuse = self.fuse.saturating_sub(1);
        if !self.load.kills || self.fuse > 0 || self.ambush {
            return None;
        }
        self.ambush = self.load.protocol.is_lock() && self.dice.between(0, 4) > 0;
        let victim = self.dice.between(0, PROCESSES as u64);
        if self.ambush { None } else { usize::try_from(victim).ok() }
    }

    /// Kills the worker in `slot` wherever it is and starts another in its place.
    fn replace(&mut self, slot: usize) -> io::Result<()> {
        self.light_fuse();
        if self.slots[slot].over || !self.crew.kill(slot) {
            return Ok(());
        }
        self.tally.kills += 1;
        // The operation that the kill interrupted was not acknowledged, and is not repeated.
        self.slots[slot].generation += 1;
        self.slots[slot].answered += 1;
        self.start(slot)?;
        self.crew.go(slot);
        Ok(())
    }
}

/// Records a report of a worker, alive or not.
fn note(tally: &mut Tally, promised: &mut Vec<String>, word: Word) {
    match word {
        Word::Done(key) => {
            tally.finished += 1;
            promised.push(key);
        }
        Word::Refused(reason) => {
            tally.refused += 1;
            tally.complaint.get_or_insert(reason);
        }
        Word::Ready | Word::In | Word::Two(_) | Word::Gone => {}
    }
}
