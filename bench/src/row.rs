//! What is measured: a row of the table of goals has races, a race has contenders and goals.
//!
//! # Invariants
//!
//! 1. All contenders of a race do the same job, and take turns: one heat each per round. Ratios
//!    compare heats of the same round, so that what the machine does meanwhile affects all of them.
//! 2. A heat runs in fresh processes of this very program, started together. Opening files is not timed;
//!    a job that is to include it opens them in its turn.
//! 3. A race with its contenders is a function of the [`Form`] and of nothing else: a child process finds
//!    its part by the names of row, race and contender.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::round::Round;

/// Anything that can go wrong, for people to read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The error of a preparation that is not possible on this machine: the contender is not run.
#[derive(Debug)]
pub(crate) struct NotHere(pub(crate) String);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// All rows in about two minutes.
    Quick,
    /// More rounds, longer heats, larger sizes.
    Full,
}

impl Form {
    /// One of two values.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// One row of the table of goals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// `P1`
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) races: fn(Form) -> Vec<Race>,
}

/// Contenders that do the same job.
#[derive(Debug)]
pub(crate) struct Race {
    pub(crate) name: &'static str,
    /// What is compared.
    pub(crate) measure: Measure,
    /// How long a heat lasts.
    pub(crate) length: Length,
    pub(crate) rounds: usize,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) goals: Vec<Goal>,
}

/// What is compared: always a cost in nanoseconds, so less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The median of all turns. Rare events do not count: the mean is reported beside it.
    Median,
    /// Time by operations: the rate of all processes together.
    PerTurn,
    /// Processor time by turns.
    CpuPerTurn,
    /// The 99th percentile of all turns.
    P99,
}

impl Measure {
    /// For the head of a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Median => "median of a turn",
            Self::PerTurn => "time by turns of all processes",
            Self::CpuPerTurn => "processor time by turns",
            Self::P99 => "99th percentile of a turn",
        }
    }
}

/// When a heat ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    /// Each process runs for this long.
    Time(Duration),
    /// Each process has this many turns.
    Turns(u64),
}

/// What a contender is, for colours and for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Floor,
    Peer,
}

/// One way to do the job of a race.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// Unique in its race.
    pub(crate) name: String,
    pub(crate) side: Side,
    /// Every setting, and for a floor the list of its system calls.
    pub(crate) settings: String,
    /// How many processes a heat has.
    pub(crate) processes: usize,
    /// How many threads each of them has; every thread has a part of its own.
    pub(crate) threads: usize,
    /// For a job that comes in sizes.
    pub(crate) size: u64,
    /// Makes what a heat needs, once, in an empty directory of its own that lives for all rounds.
    /// With the error [`NotHere`] it is not run.
    pub(crate) prepare: fn(&Ground) -> Result<()>,
    /// Makes one part, in a child process, before the start.
    pub(crate) part: fn(&Seat) -> Result<Part>,
    /// After every heat: whether the job was done, for all turns since `prepare`.
    pub(crate) check: fn(&Ground, turns: u64) -> Result<()>,
}

impl Contender {
    /// One process and one thread, without preparation.
    pub(crate) fn new(side: Side, name: &str, part: fn(&Seat) -> Result<Part>) -> Self {
        Self {
            name: name.to_owned(),
            side,
            settings: String::new(),
            processes: 1,
            threads: 1,
            size: 0,
            prepare: |_| Ok(()),
            part,
            check: |_, _| Ok(()),
        }
    }

    pub(crate) fn ours(name: &str, part: fn(&Seat) -> Result<Part>) -> Self {
        Self::new(Side::Ours, name, part)
    }

    pub(crate) fn floor(name: &str, part: fn(&Seat) -> Result<Part>) -> Self {
        Self::new(Side::Floor, name, part)
    }

    pub(crate) fn peer(name: &str, part: fn(&Seat) -> Result<Part>) -> Self {
        Self::new(Side::Peer, name, part)
    }

    pub(crate) fn settings(mut self, settings: &str) -> Self {
        settings.clone_into(&mut self.settings);
        self
    }

    pub(crate) fn prepare(mut self, prepare: fn(&Ground) -> Result<()>) -> Self {
        self.prepare = prepare;
        self
    }

    pub(crate) fn check(mut self, check: fn(&Ground, u64) -> Result<()>) -> Self {
        self.check = check;
        self
    }

    /// The same in this many processes.
    pub(crate) fn processes(mut self, processes: usize) -> Self {
        self.processes = processes;
        self
    }

    /// The same in this many threads of one process.
    pub(crate) fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The same under a name that also says this, for a race in which that differs.
    pub(crate) fn titled(mut self, words: &str) -> Self {
        self.name = titled(&self.name, words);
        self
    }

    /// The same at this size; the name says so in `words`.
    pub(crate) fn size(mut self, size: u64, words: &str) -> Self {
        self.size = size;
        self.titled(words)
    }
}

/// A name as [`Contender::titled`] writes it.
pub(crate) fn titled(name: &str, words: &str) -> String {
    format!("{name}, {words}")
}

/// Where a contender works.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// Its own directory.
    pub(crate) dir: PathBuf,
    pub(crate) size: u64,
    pub(crate) form: Form,
}

impl Ground {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// The place of one part among all of a heat.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) ground: Ground,
    /// From 0, over all processes and their threads.
    pub(crate) number: usize,
}

impl Seat {
    pub(crate) fn dir(&self) -> &Path {
        &self.ground.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ground.path(name)
    }
}

/// What is repeated until the heat ends. A turn that measures something else than its own duration
/// adds its samples itself, in nanoseconds.
type Turn = Box<dyn FnMut(&mut Vec<u64>) -> Result<()>>;

/// What one process or thread does in a heat.
pub(crate) struct Part {
    pub(crate) turn: Turn,
    /// Whether the turns are timed by the harness.
    pub(crate) timed: bool,
    /// Whether it counts; a part that only keeps others busy does not.
    pub(crate) counts: bool,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("timed", &self.timed).finish_non_exhaustive()
    }
}

impl Part {
    /// Every turn is one sample: how long it took.
    pub(crate) fn timed(mut turn: impl FnMut() -> Result<()> + 'static) -> Self {
        Self { turn: Box::new(move |_| turn()), timed: true, counts: true }
    }

    /// A turn adds what it measured.
    pub(crate) fn sampled(turn: impl FnMut(&mut Vec<u64>) -> Result<()> + 'static) -> Self {
        Self { turn: Box::new(turn), timed: false, counts: true }
    }

    /// Keeps the others busy, and is not measured.
    pub(crate) fn background(mut turn: impl FnMut() -> Result<()> + 'static) -> Self {
        Self { turn: Box::new(move |_| turn()), timed: false, counts: false }
    }
}

/// A number of a round; none if a contender that it needs did not run.
type Value = Box<dyn Fn(&Round) -> Option<f64>>;

/// A number of every round, and what it must be. Without a bound it is only reported.
pub(crate) struct Goal {
    /// "<= 1.3x the floor"
    pub(crate) words: String,
    pub(crate) bound: Option<Bound>,
    /// The unit of the number: `x` for a ratio.
    pub(crate) unit: &'static str,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Debug for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Goal").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Goal {
    /// `ours` may cost at most `bound` times what `other` costs.
    pub(crate) fn cost_at_most(bound: f64, ours: &str, other: &str) -> Self {
        let words = format!("{ours}: <= {bound}x the cost of {other}");
        let (ours, other) = (ours.to_owned(), other.to_owned());
        let value = move |round: &Round| Some(round.cost(&ours)? / round.cost(&other)?);
        Self { words, bound: Some(Bound::AtMost(bound)), unit: "x", value: Box::new(value) }
    }

    /// `ours` must be at least `bound` times as fast as `other`.
    pub(crate) fn speed_at_least(bound: f64, ours: &str, other: &str) -> Self {
        let words = format!("{ours}: >= {bound}x the speed of {other}");
        let (ours, other) = (ours.to_owned(), other.to_owned());
        let value = move |round: &Round| Some(round.cost(&other)? / round.cost(&ours)?);
        Self { words, bound: Some(Bound::AtLeast(bound)), unit: "x", value: Box::new(value) }
    }

    /// Any number of a round, at most `bound`.
    pub(crate) fn at_most(
        bound: f64,
        unit: &'static str,
        words: &str,
        value: impl Fn(&Round) -> Option<f64> + 'static,
    ) -> Self {
        let words = words.to_owned();
        Self { words, bound: Some(Bound::AtMost(bound)), unit, value: Box::new(value) }
    }

    /// The same number, only reported.
    pub(crate) fn told(mut self) -> Self {
        self.bound = None;
        // `<= 1.3x the cost of`: the bound is removed, the words stay.
        let words = self.words.split(' ').collect::<Vec<_>>();
        let sign = words.iter().position(|word| matches!(*word, "<=" | ">="));
        if let Some(at) = sign {
            self.words = [&words[..at], &words[(at + 2).min(words.len())..]].concat().join(" ");
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Goal;

    #[test]
    fn a_number_that_is_only_told_names_no_bound() {
        assert_eq!(Goal::cost_at_most(1.3, "a", "b").told().words, "a: the cost of b");
        assert_eq!(Goal::at_most(0.0, "ms", "one sync", |_| None).told().words, "one sync");
    }
}
