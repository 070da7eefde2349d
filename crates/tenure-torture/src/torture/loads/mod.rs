//! Loads: what other programs and the system do to the files, and whether the promises still hold.
//!
//! The storm kills processes that all use tenure. A load adds what tenure does not control:
//!
//! - `foreign`: other tools append to the same journal (`O_APPEND`, one `write` a line), beside
//!   followers and rotation;
//! - `users`: a second user changes files of the first after `chmod 660`;
//! - `full`: a rotation or compaction fails because the disk is full;
//! - `stuck`: a rotation, compaction or header can never be finished, because names cannot be
//!   exchanged.
//!
//! A load runs in rounds, each in its own directory and with its own processes (`player`). The
//! processes report every acknowledgement over pipes, and `entries` compares the journal with these
//! reports. The directory of a round that found something is kept.

mod entries;
mod foreign;
#[cfg(target_os = "linux")]
mod full;
mod player;
mod stuck;
mod users;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

pub(super) use self::player::LOAD;
use super::finding::{Fault, Finding, Thing};
use super::storm::Blows;
use super::verdict::Verdict;
use super::{Limit, Setup, blank};
use crate::demo::{Dice, thousands};
use tenure_cli::{ExitCode, Failure, Progress, Result};

/// The result of one round.
#[derive(Debug, Default)]
struct Round {
    /// Acknowledged operations.
    operations: u64,
    kills: u64,
    findings: Vec<(Fault, String)>,
    /// Why this machine cannot run it, or a part of it.
    not_run: Option<String>,
}

impl Round {
    fn not_run(why: impl Into<String>) -> Self {
        Self { not_run: Some(why.into()), ..Self::default() }
    }

    fn found(&mut self, fault: Fault, detail: impl Into<String>) {
        self.findings.push((fault, detail.into()));
    }
}

/// Runs the loads in turn until the limit, each at least once, or until one has found something.
pub(super) fn run(setup: &Setup, limit: &Limit, scratch: &Path) -> Result<Verdict> {
    let failed = |err| Failure::io("torture in", scratch, err);
    let progress = Progress::new();
    let mut dice = Dice::new(setup.seed);
    let mut verdict = blank(setup, limit, Blows::default());
    verdict.processes = foreign::PLAYERS;
    let mut operations: BTreeMap<Thing, u64> = BTreeMap::new();
    let mut not_run: BTreeMap<Thing, String> = BTreeMap::new();
    let mut turn = 0;
    loop {
        let total = operations.values().sum();
        let first = turn < setup.loads.len();
        if limit.is_interrupted() || (!first && limit.is_over(total)) || !verdict.is_clean() {
            break;
        }
        let load = setup.loads[turn % setup.loads.len()];
        let dir = scratch.join(format!("{}-{turn}", load.name()));
        fs::create_dir(&dir).map_err(failed)?;
        let text = format!("{}: {} operations", load.name(), thousands(total));
        progress.show(limit.part(total), &text);
        let round = play(load, &dir, dice.roll()).map_err(failed)?;
        *operations.entry(load).or_default() += round.operations;
        verdict.blows.kills += round.kills;
        if let Some(why) = round.not_run
            && !not_run.contains_key(&load)
        {
            tenure_cli::warn(false, &format!("not run: {}: {why}", load.name()));
            not_run.insert(load, why);
        }
        let findings = round.findings.into_iter();
        verdict.findings.extend(findings.map(|(fault, why)| Finding::new(load, fault, why)));
        if verdict.is_clean() {
            fs::remove_dir_all(&dir).map_err(failed)?;
        }
        turn += 1;
        if operations.values().all(|done| *done == 0) && not_run.len() == setup.loads.len() {
            break;
        }
    }
    drop(progress);
    // A load that was not run at all was not judged.
    operations.retain(|load, done| *done > 0 || !not_run.contains_key(load));
    if operations.is_empty() && verdict.is_clean() && !limit.is_interrupted() {
        let why: Vec<_> = not_run.into_values().collect();
        let hint = "run it as root, in a directory that other users may enter";
        return Err(Failure::new(ExitCode::Failed, "failed", "torture", why.join("; ")).hint(hint));
    }
    verdict.operations = operations;
    verdict.took = limit.start.elapsed();
    verdict.interrupted = limit.is_interrupted();
    Ok(verdict)
}

fn play(load: Thing, dir: &Path, seed: u64) -> io::Result<Round> {
    match load {
        Thing::Users => users::round(dir, seed),
        Thing::Stuck => stuck::round(dir, seed),
        #[cfg(target_os = "linux")]
        Thing::Full => full::round(dir, seed),
        #[cfg(not(target_os = "linux"))]
        Thing::Full => Ok(Round::not_run("a small disk takes Linux")),
        _ => foreign::round(dir, seed),
    }
}

/// Runs a process of a round: a role and its arguments. A failure is reported as a finding.
pub(super) fn work(words: &[OsString]) -> io::Result<()> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words.unwrap_or_default();
    let Some((role, words)) = words.split_first() else { return Err(stranger()) };
    let worked = match *role {
        "writer" => foreign::write(words),
        "appender" => foreign::append(words),
        "rotator" => foreign::rotate(words),
        "follower" => foreign::follow(words),
        "reader" => foreign::read(words),
        "user" => users::work(words),
        "stuck" => stuck::work(words),
        #[cfg(target_os = "linux")]
        "full" => full::work(words),
        _ => return Err(stranger()),
    };
    worked.or_else(|err| player::bad(Fault::Failed, &format!("{role}: {err}")))
}

fn stranger() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "only tenure torture calls this")
}

/// A number among the arguments of a role.
fn number(words: &[&str], place: usize) -> io::Result<u64> {
    words.get(place).and_then(|word| word.parse().ok()).ok_or_else(stranger)
}

/// A path among the arguments of a role.
fn path<'a>(words: &[&'a str], place: usize) -> io::Result<&'a Path> {
    words.get(place).map(|word| Path::new(*word)).ok_or_else(stranger)
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}
