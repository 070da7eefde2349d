//! `cargo xtask costs`: what the hot paths cost, counted and compared with what is on record.
//!
//! Times mean little on a shared machine. System calls and instructions can be counted, and are the
//! same each time: the gate for changes that make tenure slower.
//!
//! # Invariants
//!
//! 1. What is counted is always the release build, with an empty environment, in a fresh directory of
//!    memory whose path has always the same length and depth.
//! 2. One more system call fails, and so do [`SLACK`] more instructions. Fewer pass, with a note to
//!    put them on record.
//! 3. Instructions counted by other tools than those on record get more slack, and a note says so.
//!    Another kind of processor has other system calls: nothing is compared there, and a note says
//!    so.

mod count;
mod record;
mod scratch;
mod subjects;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::count::{Cost, Slack};
use self::record::{Record, Tools};
use self::scratch::Scratch;
use self::subjects::{SUBJECTS, Subject};
use crate::pipeline::{Options, cargo};
use crate::tally::Tally;
use crate::{root, stream, tools};

/// The record, from the top of the repository.
const RECORD: &str = "crates/tenure-costs/record.json";
/// The command that puts new figures on record.
const ACCEPT: &str = "cargo xtask costs --accept";
/// This many percent more instructions than on record are tolerated.
const SLACK: u64 = 3;
/// The same where compiler, C library or counter are others.
const SLACK_OF_OTHER_TOOLS: u64 = 25;

/// Whether counted figures are compared or put on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Compare,
    Accept,
}

/// The step of the test command.
pub(crate) fn check(_: &Options) -> Result<(), String> {
    if tools::limits().any(|limit| limit == tools::WITHOUT_COUNTERS) {
        // Where that is not allowed, the first step of the pipeline has failed.
        println!("not run: the costs of the hot paths: they cannot be counted here");
        return Ok(());
    }
    run(Verb::Compare)
}

/// Counts everything, and compares it or puts it on record.
pub(crate) fn run(verb: Verb) -> Result<(), String> {
    let programs = build()?;
    let tools = Tools::here()?;
    let path = root().join(RECORD);
    if verb == Verb::Accept {
        let costs = count_all(&programs, |_, _| ())?;
        return Record { tools, costs }.write(&path);
    }
    let record = Record::read(&path)?;
    let Some(percent) = slack(&record.tools, &tools) else { return Ok(()) };
    let mut worse = Vec::new();
    count_all(&programs, |subject, cost| match record.costs.get(subject.name) {
        None => worse.push(format!("{}: not on record", subject.name)),
        Some(known) => {
            let slack = Slack { percent, looks: subject.looks_by_the_clock };
            let problems = cost.worse_than(known, slack).into_iter();
            worse.extend(problems.map(|problem| format!("{}: {problem}", subject.name)));
            if cost.is_better_than(known, slack) {
                println!("  lower than on record: run `{ACCEPT}`");
            }
        }
    })?;
    if worse.is_empty() {
        return Ok(());
    }
    println!("{}", worse.join("\n"));
    Err(format!("{} figures are worse than on record; fix them, or run `{ACCEPT}`", worse.len()))
}

/// How many percent more instructions are tolerated; `None` if nothing can be compared.
fn slack(recorded: &Tools, here: &Tools) -> Option<u64> {
    if recorded.processor != here.processor {
        let (theirs, ours) = (&recorded.processor, &here.processor);
        println!("not compared: the costs on record are those of {theirs}, and this is {ours}");
        return None;
    }
    if recorded == here {
        return Some(SLACK);
    }
    println!("instructions may differ by {SLACK_OF_OTHER_TOOLS} %: the record was made with");
    println!("  {recorded}, and this is\n  {here}");
    Some(SLACK_OF_OTHER_TOOLS)
}

/// Counts every subject and reports its cost to `told` as well.
fn count_all(
    programs: &Path,
    mut told: impl FnMut(&Subject, &Cost),
) -> Result<BTreeMap<String, Cost>, String> {
    let mut costs = BTreeMap::new();
    for subject in SUBJECTS {
        let scratch = Scratch::new(programs)?;
        let cost = subject.count(&scratch)?;
        println!("{:<24} {cost}", subject.name);
        told(subject, &cost);
        costs.insert(subject.name.to_owned(), cost);
    }
    Ok(costs)
}

/// The step of the test command that builds what the next one counts.
pub(crate) fn release_build(_: &Options) -> Result<(), String> {
    build_release()
}

/// Builds the programs as they ship, and what is counted: in one build, so that nothing is linked twice.
fn build_release() -> Result<(), String> {
    let packages = ["tenure-cli", "tenure-torture", "tenure-costs"];
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    stream::run(cargo(&["build", "--release"]).args(packages), &mut Tally::default())
}

/// Builds what is counted, and returns its directory.
fn build() -> Result<PathBuf, String> {
    build_release()?;
    Ok(crate::target_dir().join("release"))
}
