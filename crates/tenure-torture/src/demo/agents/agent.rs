//! One agent: a process that takes turns until its time is over.
//!
//! `tenure-lab demo-agent WAY ROOT NUMBER MILLISECONDS SEED` prints a line for what it did. `demo-agent refresh
//! ROOT` refreshes the token once: what `tenure once` runs.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tenure_shipped::Dice;

use super::super::claim::Claim;
use super::Way;
use super::alone::Alone;
use super::plugged_in::PluggedIn;
use super::repository::{FILES, refresh};

/// How agents work together.
pub(super) trait Manners {
    /// Takes a task from the board; its name, if there is one left.
    fn claim(&mut self) -> io::Result<Option<String>>;
    /// Makes sure that the token is fresh.
    fn token(&mut self) -> io::Result<()>;
    /// Returns when this agent may edit the file; whether it was denied before.
    fn before_edit(&mut self, file: &str) -> io::Result<bool>;
    /// The edit is done.
    fn after_edit(&mut self, file: &str) -> io::Result<()>;
    /// The turn is over; the task of this turn is done.
    fn end_turn(&mut self) -> io::Result<()>;
}

/// The arguments of an agent.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) way: Way,
    pub(super) root: PathBuf,
    pub(super) number: u64,
    pub(super) time: Duration,
    pub(super) seed: u64,
}

impl Task {
    /// The arguments that [`run`] understands.
    pub(super) fn arguments(&self) -> [OsString; 5] {
        [
            self.way.name().into(),
            self.root.clone().into(),
            self.number.to_string().into(),
            self.time.as_millis().to_string().into(),
            self.seed.to_string().into(),
        ]
    }

    fn parse(words: &[OsString]) -> Option<Self> {
        let [way, root, number, time, seed] = words else { return None };
        let parsed = |word: &OsString| word.to_str().and_then(|text| text.parse().ok());
        Some(Self {
            way: Way::parse(way.to_str()?)?,
            root: root.into(),
            number: parsed(number)?,
            time: Duration::from_millis(parsed(time)?),
            seed: parsed(seed)?,
        })
    }
}

/// Runs the process.
pub(crate) fn run(words: &[OsString]) -> io::Result<()> {
    if let [verb, root] = words
        && verb == "refresh"
    {
        return refresh(Path::new(root));
    }
    let task = Task::parse(words).ok_or_else(|| io::Error::other("no agent"))?;
    let name = format!("agent-{}", task.number);
    let mut manners: Box<dyn Manners> = match task.way {
        Way::Alone => Box::new(Alone::new(&task.root, task.seed)),
        Way::PluggedIn => Box::new(PluggedIn::new(&task.root, &name)?),
    };
    let mut dice = Dice::new(task.seed);
    let started = Instant::now();
    let mut turn = 0;
    // On a machine that does much else a turn may take long: everyone has one at least.
    while turn == 0 || started.elapsed() < task.time {
        let file = usize::try_from(dice.between(0, FILES.len() as u64)).map_or("", |at| FILES[at]);
        take_turn(manners.as_mut(), &task.root, file, &format!("//{name}.{turn}"), &mut dice)?;
        turn += 1;
    }
    Ok(())
}

fn take_turn(
    manners: &mut dyn Manners,
    root: &Path,
    file: &str,
    mark: &str,
    dice: &mut Dice,
) -> io::Result<()> {
    think(dice, 50..120);
    if let Some(task) = manners.claim()? {
        say(&format!("claim {task}"))?;
    }
    manners.token()?;
    if manners.before_edit(file)? {
        say(&format!("denied {file}"))?;
    }
    edit(root, file, mark, dice)?;
    manners.after_edit(file)?;
    manners.end_turn()
}

/// What an edit tool does: read the file, let the model think, write the file.
fn edit(root: &Path, file: &str, mark: &str, dice: &mut Dice) -> io::Result<()> {
    let path = root.join(file);
    let inside = root.join(format!("{file}.inside"));
    fs::create_dir_all(&inside)?;
    let claim = Claim::stake(&inside)?;
    if claim.is_second() {
        say(&format!("collision {file}"))?;
    }
    let text = fs::read_to_string(&path)?;
    think(dice, 10..40);
    // Whole or not at all: what is lost here is lost by the race, not by a torn write.
    let new = root.join(format!("{file}.{}", std::process::id()));
    fs::write(&new, format!("{text}{mark}\n"))?;
    fs::rename(new, path)?;
    drop(claim);
    say(&format!("edit {file} {mark}"))
}

/// The model at work, for so many milliseconds.
fn think(dice: &mut Dice, time: Range<u64>) {
    thread::sleep(Duration::from_millis(dice.between(time.start, time.end)));
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}
