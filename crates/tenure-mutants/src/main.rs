//! Mutation testing of the core: small mistakes are made in a copy of it, and the tests must
//! notice.
//!
//! All mutants are compiled at once, each behind a run-time check of an environment variable, so
//! one build serves them all. A first run of every test records which mutants it reaches. A mutant
//! is then run only with those tests, the quickest first, until one fails.

#![expect(clippy::print_stdout, reason = "this program reports to people")]

mod active;
mod fates;
mod hunt;
mod points;
mod report;
mod rewrite;
mod scratch;
mod swaps;
mod trial;
mod values;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::fates::Fates;
use crate::hunt::{Fate, Pace};
use crate::points::Point;
use crate::report::Report;
use crate::scratch::Scratch;

/// The files that are mutated by default: the code that the guarantees rest on. Other files of the
/// core are mutated if they are named.
const SCOPE: &[&str] = &[
    "file/commit.rs",
    "file/document/",
    "file/gate.rs",
    "file/gate/",
    "file/hold.rs",
    "file/journal/",
    "file/lease.rs",
    "file/lock.rs",
    "file/marks.rs",
    "file/operations.rs",
    "file/record.rs",
    "file/replace.rs",
    "file/seen.rs",
    "file/slot.rs",
    "file/waiter_thread.rs",
    "file/sync.rs",
    "file/together.rs",
];

/// The tables: how many mutants of each file were noticed, and why the others may survive.
const REASONS: &str = "crates/tenure-mutants/reasons.md";

const USAGE: &str = "\
usage: cargo xtask mutants [OPTION...] [FILE...]

  FILE             only mutants of these (`file/lock.rs`, `file/journal/`), also of those that are not mutated by default
  --count          try nothing, only say how many there are, by file, before the compiler has refused some
  --report         try nothing, only write down what earlier runs found
  --again          keep what earlier runs killed, and try the others
  --on             go on with a run that was ended: as --again, without those that it knows to live
  --changed        only files that differ from the commit at which reasons.md has them
  --tests PREFIX   only the tests whose name begins so (repeatable)
  --ring RING      with the tests of this ring as well (repeatable)
  --jobs N         runs at a time (2)
  --slowest SECS   leave out tests that take longer (600)
  --quickest SECS  leave out tests that take less (0), which earlier runs have tried
  --scratch DIR    where the mutated copy is (target/mutants)";

/// What is done with the mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Try,
    Report,
    Count,
}

/// The command line.
#[derive(Debug)]
struct Asked {
    files: Vec<String>,
    rings: Vec<String>,
    tests: Vec<String>,
    verb: Verb,
    again: bool,
    on: bool,
    changed: bool,
    pace: Pace,
    scratch: PathBuf,
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(asked) = asked(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(asked) {
        Ok(unexplained) if unexplained.is_empty() => ExitCode::SUCCESS,
        Ok(unexplained) => {
            println!("\nalive without a reason in {REASONS}:\n{}", unexplained.join("\n"));
            ExitCode::FAILURE
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Option<Asked> {
    let pace = Pace { jobs: 2, quickest: Duration::ZERO, slowest: Duration::from_secs(600) };
    let scratch = root().join("target/mutants");
    let (files, rings, tests) = (Vec::new(), Vec::new(), Vec::new());
    let (verb, again, on, changed) = (Verb::Try, false, false, false);
    let mut asked = Asked { files, rings, tests, verb, again, on, changed, pace, scratch };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--count" => asked.verb = Verb::Count,
            "--again" => asked.again = true,
            "--on" => (asked.again, asked.on) = (true, true),
            "--changed" => asked.changed = true,
            "--report" => (asked.again, asked.verb) = (true, Verb::Report),
            "--ring" => asked.rings.push(words.next()?),
            "--tests" => asked.tests.push(words.next()?),
            "--jobs" => asked.pace.jobs = words.next()?.parse().ok()?,
            "--slowest" => asked.pace.slowest = seconds(&words.next()?)?,
            "--quickest" => asked.pace.quickest = seconds(&words.next()?)?,
            "--scratch" => asked.scratch = words.next()?.into(),
            option if option.starts_with('-') => return None,
            file => asked.files.push(file.to_owned()),
        }
    }
    Some(asked)
}

fn seconds(word: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(word.parse().ok()?).ok()
}

/// Runs the mutants; returns the survivors without a reason.
fn run(mut asked: Asked) -> Result<Vec<String>, String> {
    let document = root().join(REASONS);
    let mut sources = Vec::new();
    collect(&root().join("crates/tenure/src"), "", &mut sources)?;
    let found = find(&sources, &asked.files)?;
    let is_none = |name: &&String| !found.iter().any(|point| point.file.starts_with(*name));
    if let Some(name) = asked.files.iter().find(is_none) {
        return Err(format!("no mutant in a file of the core whose name begins with `{name}`"));
    }
    if asked.changed {
        asked.files = changed(&found, &asked.files, &Report::read(&document)?);
        if asked.files.is_empty() {
            println!("none of them has changed");
            return Ok(Vec::new());
        }
    }
    if asked.verb == Verb::Count {
        count(&found, &asked.files);
        return Ok(Vec::new());
    }
    let scratch = Scratch::copy(&root(), asked.scratch.clone())?;
    let points = compiling(&scratch, &sources, found, asked.again)?;
    let path = scratch.dir().join("fates.tsv");
    if asked.verb == Verb::Try {
        try_all(&scratch, &asked, &points, &Fates::open(&path, asked.again)?)?;
    }
    let fates = Fates::open(&path, true)?;
    let outcomes: Vec<(&Point, Option<Fate>)> =
        points.iter().map(|point| (point, fates.of(point).cloned())).collect();
    let is_there = |file: &str| sources.iter().any(|(name, _)| name == file);
    report::write(&document, &commit(), is_there, &outcomes)
}

/// Of the named files, those that have changed since they were tested.
fn changed(points: &[Point], asked: &[String], report: &Report) -> Vec<String> {
    let mut files: Vec<&str> = points.iter().map(|point| point.file.as_str()).collect();
    files.dedup();
    let same = |file: &str| {
        let Some(commit) = report.commit_of(file) else { return false };
        let mut git = Command::new("git");
        git.arg("-C").arg(root()).args(["diff", "--quiet", commit, "--"]);
        git.arg(format!("crates/tenure/src/{file}")).stderr(Stdio::null());
        git.status().is_ok_and(|status| status.success())
    };
    let wanted = |file: &&str| begins(file, asked) && !same(file);
    files.into_iter().filter(wanted).map(str::to_owned).collect()
}

/// Whether a name was asked for; without names all are.
fn begins(name: &str, prefixes: &[String]) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Prints how many mutants there are, by file.
fn count(points: &[Point], files: &[String]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for point in points.iter().filter(|point| begins(&point.file, files)) {
        *counts.entry(&point.file).or_default() += 1;
    }
    for (file, count) in &counts {
        println!("{count:6} {file}");
    }
    println!("{:6} in all", counts.values().sum::<usize>());
}

/// Runs the mutants that were asked for and have not been noticed yet; saves their fates.
fn try_all(
    scratch: &Scratch,
    asked: &Asked,
    points: &[Point],
    fates: &Fates,
) -> Result<(), String> {
    let mut programs = scratch.programs(&["--package", "tenure", "--lib", "--test", "it"])?;
    if !asked.rings.is_empty() {
        let rings = asked.rings.iter().flat_map(|ring| ["--test", ring]);
        let arguments: Vec<&str> = ["--package", "tenure-proof"].into_iter().chain(rings).collect();
        programs.extend(scratch.programs(&arguments)?);
    }
    let is_known = |point: &Point| fates.noticed(point) || (asked.on && fates.of(point).is_some());
    let chosen = |point: &&Point| begins(&point.file, &asked.files) && !is_known(point);
    let tried: Vec<Point> = points.iter().filter(chosen).cloned().collect();
    println!("{} mutants compile, {} are tried", points.len(), tried.len());
    let highest = points.iter().map(|point| point.number).max().unwrap_or_default();
    let wanted = |name: &str| begins(name, &asked.tests);
    let tests = hunt::scout(&programs, scratch.dir(), highest, asked.pace, wanted)?;
    println!("{} tests", tests.len());
    let done = hunt::hunt(&programs, &tests, &tried, asked.pace, |point, fate| {
        fates.keep(point, fate);
        if matches!(fate, Fate::Survived(_) | Fate::Unreached) {
            let Point { number, file, line, within, what, .. } = point;
            println!("{number} {file}:{line} {within}: {what}: {fate:?}");
        }
    });
    done.into_iter().collect::<Result<Vec<Fate>, String>>().map(drop)
}

/// The mutants that compile. Those that failed to compile in an earlier run are skipped.
fn compiling(
    scratch: &Scratch,
    sources: &[(String, String)],
    mut points: Vec<Point>,
    again: bool,
) -> Result<Vec<Point>, String> {
    let path = scratch.dir().join("refused.tsv");
    let earlier =
        if again { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    let earlier: HashSet<&str> = earlier.lines().collect();
    let all: Vec<String> = points.iter().map(Point::key).collect();
    points.retain(|point| !earlier.contains(point.key().as_str()));
    let points = scratch.settle(sources, points)?;
    let good: HashSet<String> = points.iter().map(Point::key).collect();
    let refused: String = all
        .iter()
        .filter(|key| !good.contains(*key))
        .flat_map(|key| [key.as_str(), "\n"])
        .collect();
    scratch.write("refused.tsv", refused.as_bytes())?;
    Ok(points)
}

/// All mutants of these sources, in the default files and in those that were named.
fn find(sources: &[(String, String)], files: &[String]) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = Vec::new();
    for (file, text) in sources {
        let is_test = file.ends_with("/tests.rs");
        let asked = files.iter().map(String::as_str);
        if SCOPE.iter().copied().chain(asked).any(|part| file.starts_with(part)) && !is_test {
            let first = points.last().map_or(1, |last| last.number + 1);
            points.extend(points::find(file, text, first)?);
        }
    }
    Ok(points)
}

/// The text of all sources below a directory, in order.
fn collect(dir: &Path, below: &str, sources: &mut Vec<(String, String)>) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", dir.display());
    let listed = std::fs::read_dir(dir).map_err(failed)?;
    let mut entries = listed.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), sources)?;
        } else {
            sources.push((name, std::fs::read_to_string(entry.path()).map_err(failed)?));
        }
    }
    Ok(())
}

/// The tested commit, shortened.
fn commit() -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(root()).args(["rev-parse", "--short=10", "HEAD"]);
    let told = git.output().map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    told.unwrap_or_default()
}

/// The top directory of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
