//! Runs rows: every race in rounds, the contenders of a round in turns.

use std::path::Path;
use std::time::Instant;

use crate::child;
use crate::round::{Heat, Round, spread};
use crate::row::{Bound, Contender, Form, Ground, Measure, NotHere, Race, Result, Row, Side};

/// The result of a row.
#[derive(Debug)]
pub(crate) struct RowResult {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) races: Vec<RaceResult>,
    pub(crate) seconds: f64,
}

/// The result of a race.
#[derive(Debug)]
pub(crate) struct RaceResult {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    pub(crate) contenders: Vec<ContenderResult>,
    pub(crate) goals: Vec<GoalResult>,
}

/// All heats of a contender.
#[derive(Debug)]
pub(crate) struct ContenderResult {
    pub(crate) name: String,
    pub(crate) side: Side,
    pub(crate) settings: String,
    pub(crate) heats: Vec<Heat>,
    /// Why it has none.
    pub(crate) problem: Option<Problem>,
}

/// Why a contender has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// This machine does not have what it needs.
    NotHere(String),
    /// It did not do its job.
    Failed(String),
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Problem {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        match error.downcast::<NotHere>() {
            Ok(not_here) => Self::NotHere(not_here.0),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl ContenderResult {
    /// The cost of a turn: the middle of all rounds, the smallest and the largest.
    pub(crate) fn cost(&self, measure: Measure) -> Option<(f64, f64, f64)> {
        let played = self.heats.iter().filter(|heat| heat.turns > 0);
        spread(&played.map(|heat| heat.cost(measure)).collect::<Vec<_>>())
    }

    /// The samples of all rounds as those of one heat.
    pub(crate) fn together(&self) -> Heat {
        let mut all = Heat::default();
        for heat in &self.heats {
            all.turns += heat.turns;
            all.turns_inside += heat.turns_inside;
            all.window_ns += heat.window_ns;
            all.cpu_ns += heat.cpu_ns;
            all.cpu_most_ns = all.cpu_most_ns.max(heat.cpu_most_ns);
            all.memory_bytes = all.memory_bytes.max(heat.memory_bytes);
            all.samples.extend_from_slice(&heat.samples);
        }
        all.samples.sort_unstable();
        all
    }
}

/// The result of a goal.
#[derive(Debug)]
pub(crate) struct GoalResult {
    pub(crate) words: String,
    pub(crate) unit: &'static str,
    pub(crate) bound: Option<Bound>,
    /// The middle of all rounds, the smallest and the largest.
    pub(crate) value: Option<(f64, f64, f64)>,
}

impl GoalResult {
    /// Whether it was reached; `None` if it was not measured, or has no bound.
    pub(crate) fn reached(&self) -> Option<bool> {
        let (value, ..) = self.value?;
        self.bound.map(|bound| match bound {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        })
    }
}

/// Runs one row in `dir`, which is empty again afterwards.
pub(crate) fn row(row: &Row, form: Form, dir: &Path) -> Result<RowResult> {
    let start = Instant::now();
    let mut races = Vec::new();
    for race in (row.races)(form) {
        races.push(self::race(row, &race, form, dir)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(RowResult { name: row.name, title: row.title, races, seconds })
}

/// One contender with its ground, while its race runs.
struct Entry<'a> {
    contender: &'a Contender,
    ground: Ground,
    turns: u64,
    heats: Vec<Heat>,
    problem: Option<Problem>,
}

impl<'a> Entry<'a> {
    fn new(contender: &'a Contender, form: Form, dir: &Path, number: usize) -> Result<Self> {
        let ground = Ground { dir: dir.join(number.to_string()), size: contender.size, form };
        std::fs::create_dir_all(&ground.dir)?;
        let problem = (contender.prepare)(&ground).err().map(Problem::from);
        Ok(Self { contender, ground, turns: 0, heats: Vec::new(), problem })
    }

    fn heat(&mut self, row: &Row, race: &Race) -> Option<Heat> {
        if self.problem.is_some() {
            return None;
        }
        let outcome = child::heat(row.name, race, self.contender, &self.ground).and_then(|heat| {
            self.turns += heat.turns;
            (self.contender.check)(&self.ground, self.turns)?;
            Ok(heat)
        });
        match outcome {
            Ok(heat) => {
                self.heats.push(heat.clone());
                Some(heat)
            }
            Err(error) => {
                self.problem = Some(error.into());
                None
            }
        }
    }

    fn result(self) -> ContenderResult {
        let Contender { name, side, settings, .. } = self.contender.clone();
        ContenderResult { name, side, settings, heats: self.heats, problem: self.problem }
    }
}

fn race(row: &Row, race: &Race, form: Form, dir: &Path) -> Result<RaceResult> {
    let mut entries = Vec::new();
    for (number, contender) in race.contenders.iter().enumerate() {
        entries.push(Entry::new(contender, form, dir, number)?);
    }
    let mut rounds = Vec::new();
    for number in 0..race.rounds {
        let mut round = Round { measure: Some(race.measure), ..Round::default() };
        // Another one begins each time: no contender always runs after the same one.
        for at in 0..entries.len() {
            let entry_count = entries.len();
            let entry = &mut entries[(at + number) % entry_count];
            if let Some(heat) = entry.heat(row, race) {
                round.heats.insert(entry.contender.name.clone(), heat);
            }
        }
        rounds.push(round);
    }
    let goals = race.goals.iter().map(|goal| {
        let values: Vec<f64> = rounds.iter().filter_map(|round| (goal.value)(round)).collect();
        let (words, unit, bound) = (goal.words.clone(), goal.unit, goal.bound);
        GoalResult { words, unit, bound, value: spread(&values) }
    });
    let goals = goals.collect();
    let contenders = entries.into_iter().map(Entry::result).collect();
    for entry in std::fs::read_dir(dir)? {
        std::fs::remove_dir_all(entry?.path())?;
    }
    Ok(RaceResult { name: race.name, measure: race.measure, contenders, goals })
}
