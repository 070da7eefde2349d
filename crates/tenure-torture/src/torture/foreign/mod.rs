//! A user's own save program under the same storm: many at a time, paused and killed, with readers.
//!
//! # Invariants
//!
//! 1. Exit code 0 is a promise: the key is in the file from then on. Nothing else is one.
//! 2. Every round has its own directory. It ends when no run is alive; then one undisturbed run
//!    follows. Only what is wrong after that counts as lost, corrupt or left over.

mod program;
mod reader;
mod runs;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::finding::{Fault, Finding, Thing};
use super::storm::Blows;
use super::verdict::Verdict;
use super::{Limit, Setup, blank};
use crate::demo::{Dice, thousands};
use tenure_cli::{ExitCode, Failure, Progress, Result};

pub(super) use self::program::{Program, quoted};
use self::runs::{Enough, Fate, Runs};

/// How long a round is at least; the file is new in each.
const ROUND: Duration = Duration::from_secs(4);
/// The default limit of an undisturbed run, which usually takes far less. The machine may be busier
/// after the storm than in the rehearsal, so a run gets many times what it took there.
const PATIENCE: Duration = Duration::from_secs(10);
const TIMES_AS_LONG: u32 = 10;
/// A disk with less room than this is full.
const SMALL: u64 = 16 * 1024;
/// A clean verdict needs this many successful runs, for each process.
const RUNS_EACH: u64 = 2;

/// Tortures `program` until the limit, or until a round has found something.
pub(super) fn run(
    program: &Program,
    setup: &Setup,
    limit: &Limit,
    scratch: &Path,
) -> Result<Verdict> {
    let failed = |err| Failure::io("torture in", scratch, err);
    let progress = Progress::new();
    let mut dice = Dice::new(setup.seed);
    let mut verdict = blank(setup, limit, Blows::default());
    let (mut finished, mut refusal) = (0, None);
    let mut round = 0;
    progress.show(0.0, "two runs alone");
    let Some(usual) = rehearse(program, &scratch.join("rehearsal"), &|| limit.is_interrupted())?
    else {
        verdict.interrupted = true;
        verdict.unjudged.insert(Thing::Command);
        return Ok(verdict);
    };
    let processes = setup.processes as u64;
    // The end of a round kills all runs. They share the cores, and many have to succeed before.
    let long = ROUND.max(usual.time * 2 * u32::try_from(processes).unwrap_or(u32::MAX));
    while (round == 0 || !limit.is_over(finished)) && verdict.is_clean() {
        let dir = scratch.join(format!("round-{round}"));
        let play = Round::new(program, dir, &usual).map_err(failed)?;
        let time = limit.time.saturating_sub(limit.start.elapsed()).min(long);
        let runs = Runs::new(program, &play.file, setup.processes, usual.time);
        let mut show = |done: u64, kills: u64| {
            let (done, kills) = (finished + done, verdict.blows.kills + kills);
            let text = format!("{} runs, {} kills", thousands(done), thousands(kills));
            progress.show(limit.part(done), &text);
            limit.is_over(done)
        };
        let until = Instant::now() + time;
        let last = (usual.patience, &(|| limit.is_interrupted()) as Enough<'_>);
        let done = runs.play(until, dice.roll(), last, &mut show).map_err(failed)?;
        finished += done.promised.len() as u64;
        verdict.reads += done.seen.reads;
        verdict.refused += done.refused;
        refusal = refusal.or(done.refusal);
        verdict.blows.kills += done.kills;
        verdict.blows.pauses += done.pauses;
        verdict.findings.extend(done.seen.findings);
        if done.stuck > 0 {
            let (count, stuck) = (done.stuck, runs::stuck(usual.patience));
            let detail =
                format!("{count} of {processes} at once, when no other was alive: {stuck}");
            verdict.findings.push(Finding::new(Thing::Command, Fault::Stuck, detail));
        }
        progress.show(limit.part(finished), "the final check of this round");
        let judged = play.judge(&done.promised, &mut verdict.findings, &limit.last_look());
        if !judged.map_err(failed)? {
            verdict.unjudged.insert(Thing::Command);
        }
        let honest = |finding: &Finding| matches!(finding.fault, Fault::Failed | Fault::LeftOver);
        if !verdict.is_clean() && verdict.findings.iter().all(honest) && is_full(scratch) {
            // A program that reports a full disk has done what it can.
            let detail = "its disk is full, so there is no result";
            return Err(Failure::new(ExitCode::Failed, "failed", "torture the command", detail)
                .hint("make room there, or name a directory on another disk"));
        }
        round += 1;
    }
    drop(progress);
    verdict.operations.insert(Thing::Command, finished);
    verdict.took = limit.start.elapsed();
    verdict.interrupted = limit.is_interrupted();
    if finished < RUNS_EACH * processes && verdict.is_clean() && !verdict.interrupted {
        let (kills, refused) = (verdict.blows.kills, verdict.refused);
        let first = refusal.map_or_else(String::new, |why| format!("; the first with {why}"));
        let detail = format!(
            "only {finished} runs succeeded ({kills} were killed, {refused} failed{first}), too few to tell"
        );
        return Err(Failure::new(ExitCode::Failed, "failed", "torture the command", detail)
            .hint("give it more --minutes or --operations, or fewer --processes"));
    }
    Ok(verdict)
}

/// Whether a directory has no room left for a small file.
fn is_full(dir: &Path) -> bool {
    let room = rustix::fs::statvfs(dir);
    room.is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) < SMALL || room.f_favail == 0)
}

/// What an undisturbed run is like.
#[derive(Debug)]
struct Usual {
    time: Duration,
    /// One that takes longer hangs.
    patience: Duration,
    /// The files that they leave: their own, a lock file, whatever they use.
    names: BTreeSet<PathBuf>,
}

/// Two undisturbed runs: does the program work at all, and which files does it leave? `None` if the
/// run was interrupted before that is known.
fn rehearse(program: &Program, dir: &Path, enough: Enough<'_>) -> Result<Option<Usual>> {
    let failed = |err| Failure::io("rehearse in", dir, err);
    let refused = |detail: String| {
        Failure::new(ExitCode::Failed, "failed", "run the command undisturbed", detail)
    };
    let promise = "exit code 0 promises that {key} is in the file {}";
    let file = program.prepare(dir).map_err(failed)?;
    let start = Instant::now();
    let patience = program.patience.unwrap_or(PATIENCE);
    for key in ["k99x000001", "k99x000002"] {
        match runs::run_once(program, &file, key, patience, enough).map_err(failed)? {
            Fate::Done => {}
            Fate::Cut => return Ok(None),
            Fate::Refused(why) => {
                let hint = "it runs in the directory you are in; try it there by hand";
                return Err(refused(why).hint(hint));
            }
            Fate::Stuck => {
                return Err(refused(runs::stuck(patience)).hint("give it more --patience"));
            }
        }
        let found = program.keys(&fs::read(&file).map_err(failed)?);
        let found = found.map_err(|why| refused(why).hint(program.reading()))?;
        if !found.contains(key) {
            let detail = format!("it exited with 0 but `{key}` is not in the file");
            return Err(refused(detail).hint(promise));
        }
    }
    let time = start.elapsed() / 2;
    let checked = program.check(&file, patience, enough).map_err(failed)?;
    if enough() {
        return Ok(None);
    }
    if let Some(why) = checked {
        let hint = "nothing was killed yet: fix the check, or give it more --patience";
        return Err(refused(format!("the check failed: {why}")).hint(hint));
    }
    let patience = program.patience.unwrap_or_else(|| PATIENCE.max(time * TIMES_AS_LONG));
    Ok(Some(Usual { time, patience, names: names(dir).map_err(failed)? }))
}

/// All files below a directory. Of tenure's own files only temporary ones count.
fn names(dir: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let path = entry.path();
            let ours = next.file_name().is_some_and(|name| name == ".tenure");
            let temporary = entry.file_name().to_string_lossy().contains(".tmp.");
            if entry.file_type()?.is_dir() {
                dirs.push(path);
            } else if !ours || temporary {
                found.extend(path.strip_prefix(dir).map(Path::to_path_buf));
            }
        }
    }
    Ok(found)
}

struct Round<'a> {
    program: &'a Program,
    dir: PathBuf,
    file: PathBuf,
    usual: &'a Usual,
}

impl<'a> Round<'a> {
    fn new(program: &'a Program, dir: PathBuf, usual: &'a Usual) -> std::io::Result<Self> {
        let file = program.prepare(&dir)?;
        Ok(Self { program, dir, file, usual })
    }

    /// The final check, when no run is alive; returns whether it was finished.
    fn judge(
        &self,
        promised: &[String],
        findings: &mut Vec<Finding>,
        enough: Enough<'_>,
    ) -> std::io::Result<bool> {
        let mut found = |fault, detail: String| {
            findings.push(Finding::new(Thing::Command, fault, detail));
        };
        let bytes = fs::read(&self.file).unwrap_or_default();
        match self.program.keys(&bytes) {
            Err(why) => {
                found(Fault::Corrupt, why);
                return Ok(true);
            }
            Ok(keys) => {
                for key in promised.iter().filter(|key| !keys.contains(key.as_str())) {
                    found(Fault::Lost, format!("{key}: exit code 0, and not in the file"));
                }
            }
        }
        // The next run may remove what the dead ones left.
        let patience = self.usual.patience;
        match runs::run_once(self.program, &self.file, "k99x999999", patience, enough)? {
            Fate::Done => {}
            Fate::Cut => return Ok(false),
            Fate::Refused(why) => found(Fault::Failed, format!("alone after the storm: {why}")),
            Fate::Stuck => {
                let stuck = runs::stuck(patience);
                found(Fault::Stuck, format!("alone after the storm: {stuck}"));
            }
        }
        if let Some(why) = self.program.check(&self.file, patience, enough)? {
            found(Fault::Corrupt, format!("the check failed: {why}"));
        }
        let left: Vec<_> = names(&self.dir)?.difference(&self.usual.names).cloned().collect();
        for name in left {
            found(Fault::LeftOver, name.display().to_string());
        }
        Ok(!enough())
    }
}

/// Writes bytes to a new file.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}
