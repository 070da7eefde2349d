//! `tenure demo`: the protocols that real systems shipped, raced live against tenure, and counted.
//!
//! Each contest runs one shipped protocol and then tenure under the same load: eight processes, one
//! document, the same plan of kills. The judge is independent of both. Every number of the table is
//! counted in the run that prints it.
//!
//! - `contest` names the systems, `protocol` leads to what they do (the crate `tenure-shipped`);
//! - `race` is the parent, `crew` its children, `worker` what a child does;
//! - `oracle` counts violations, `table` prints them;
//! - `agents` is another demo: `tenure demo agents`.

#![expect(clippy::disallowed_methods, reason = "the shipped protocols do exactly this")]

pub(crate) mod agents;
mod claim;
mod contest;
mod crew;
mod oracle;
mod protocol;
mod race;
mod scratch;
mod table;
pub(crate) mod worker;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use tenure_cli::Progress;

use self::contest::{CONTESTS, Contest};
use self::protocol::Protocol;
use self::race::{Limit, Load};
use self::scratch::Scratch;
use self::table::{Outcome, Report};

pub(crate) use self::table::thousands;
pub(crate) use tenure_shipped::Dice;

/// What the command line asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Print an object instead of the table.
    pub(crate) json: bool,
    /// A few seconds instead of some twenty.
    pub(crate) quick: bool,
    /// The plan of kills; a new one if there is none.
    pub(crate) seed: Option<u64>,
}

/// Runs every contest and prints the table. An error if tenure itself broke a promise.
pub(crate) fn run(options: Options) -> io::Result<()> {
    let started = Instant::now();
    let seed = options.seed.unwrap_or_else(Dice::fresh_seed);
    let time = Duration::from_millis(if options.quick { 500 } else { 1600 });
    let outcomes = run_contests(seed, time)?;
    let report = Report { seed, quick: options.quick, took: started.elapsed(), outcomes };
    let mut out = io::stdout().lock();
    if options.json {
        writeln!(out, "{}", report.json())?;
    } else {
        out.write_all(report.text(wants_colour(out.is_terminal())).as_bytes())?;
    }
    out.flush()?;
    match report.broken_promises().as_slice() {
        [] => Ok(()),
        broken => {
            let broken = broken.join("; ");
            Err(io::Error::other(format!("{broken}; please report it with `{}`", report.replay())))
        }
    }
}

/// Whether a terminal gets colours.
fn wants_colour(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn run_contests(seed: u64, time: Duration) -> io::Result<Vec<Outcome>> {
    let scratch = Scratch::new()?;
    let progress = Progress::new();
    let mut dice = Dice::new(seed);
    let mut outcomes = Vec::new();
    for (index, contest) in CONTESTS.iter().enumerate() {
        let seed = dice.roll();
        let race = |protocol, limit, step: usize| {
            race::run(load(contest, protocol, seed), limit, &scratch, |part| {
                #[expect(clippy::cast_precision_loss, reason = "a handful of steps")]
                let (step, steps) = (step as f64, 2.0 * CONTESTS.len() as f64);
                progress.show((step + part.min(1.0)) / steps, contest.system);
            })
        };
        let theirs = race(contest.theirs, Limit { time, rounds: u64::MAX }, 2 * index)?;
        // Repeats the same rounds. The time is a bound for slow machines only.
        let again = Limit { time: time * 5 / 4, rounds: theirs.rounds };
        let ours = race(contest.ours(), again, 2 * index + 1)?;
        outcomes.push(Outcome { contest, theirs, ours });
    }
    Ok(outcomes)
}

fn load(contest: &Contest, protocol: Protocol, seed: u64) -> Load {
    Load { protocol, content: contest.content, kills: contest.kills, seed }
}
