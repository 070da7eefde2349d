//! `cargo xtask prove`: the rings in their long form, and the table of what they tried.
//!
//! # Invariants
//!
//! 1. A ring's record (`crates/tenure-proof/record/RING.jsonl`) is replaced only by a run of that ring
//!    in which every test passed, and that of a long run only by a long run. The table in `docs/RELIABILITY.md` is made from the records
//!    and nothing else; a test compares the two.
//! 2. A ring of which a test wrote no record has proved less than it should, and fails.
//! 3. A record is about a commit. A tree that differs from its commit is not attacked.
//! 4. What the tests report as not run is printed at the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::not_run::NotRun;
use crate::pipeline::{LANGUAGES, Options, cargo};
use crate::reliability::{self, RINGS, Ring};
use crate::tally::Tally;
use crate::{complete, node, platform_table, python, root, stream, tools, tree};

/// Where a run writes its records until all of its tests have passed.
const FRESH: &str = "target/proof";

/// How much the rings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Quick,
    Long,
}

/// Runs these rings, or all, and rewrites the tables.
pub(crate) fn run(form: Form, names: &[&str], options: &Options) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| RINGS.iter().all(|ring| ring.name != **name)) {
        let known: Vec<&str> = RINGS.iter().map(|ring| ring.name).collect();
        return Err(format!("there is no ring `{unknown}`; there are {}", known.join(", ")));
    }
    tree::clean_commit()?;
    tools::ensure(options)?;
    let asked = |name: &str| names.is_empty() || names.contains(&name);
    if form == Form::Long && asked("parsers") {
        tools::ensure_fuzzer()?;
    }
    if asked("puppets") {
        // Their suites build the packages that children of other languages use.
        node::test(options, &mut Tally::default())?;
        python::test(options, &mut Tally::default())?;
    }
    let mut failed = Vec::new();
    let not_run = NotRun::new();
    for ring in RINGS.iter().filter(|ring| asked(ring.name)) {
        println!("\n== ring {}: {}", ring.name, ring.title);
        match attack(form, ring, options, &not_run) {
            Ok(()) => println!("== ring {}: held", ring.name),
            Err(problem) => {
                println!("== ring {}: FAILED: {problem}", ring.name);
                failed.push(ring.name);
            }
        }
    }
    reliability::rewrite()?;
    platform_table::rewrite()?;
    println!("\n{}", not_run.told());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// One ring, and its record.
fn attack(form: Form, ring: &Ring, options: &Options, not_run: &NotRun) -> Result<(), String> {
    // Of this ring: the tree may have changed since the run began.
    let commit = tree::clean_commit()?;
    let fresh = root().join(FRESH);
    let written = fresh.join(format!("{}.jsonl", ring.name));
    std::fs::create_dir_all(&fresh).map_err(failed("make", &fresh))?;
    match std::fs::remove_file(&written) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &written)(err));
        }
        _ => {}
    }
    let tests = complete::tests(command(form, ring.name))?;
    let mut command = command(form, ring.name);
    command.env("TENURE_PROOF_RECORD", &fresh);
    // The thread of a test has its name only where there are several.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    command.env("RUST_TEST_THREADS", threads.to_string());
    command.envs(tools::limits().map(|limit| (limit, "1")));
    if !options.allow_missing {
        command.env("TENURE_PUPPETS", LANGUAGES);
    }
    not_run.collect(&mut command);
    stream::run(&mut command, &mut Tally::default())?;
    let told = std::fs::read_to_string(&written).map_err(failed("read", &written))?;
    complete::check(form, ring, &tests, &told)?;
    let record = record_of(ring.name);
    if form == Form::Quick && reliability::is_long(&record) {
        return Ok(());
    }
    // What was attacked is what the record names, from the first test to the last.
    if tree::clean_commit()? != commit {
        return Err(format!("{commit} is no longer HEAD: the record would name another commit"));
    }
    std::fs::create_dir_all(record.parent().unwrap_or(root())).map_err(failed("make", &record))?;
    keep(&record, &reliability::stamped(&told, &commit)?)
}

/// Cargo, about to run a ring.
fn command(form: Form, ring: &str) -> Command {
    let mut command = cargo(&["test", "--package", "tenure-proof", "--test", ring]);
    if form == Form::Long {
        command.env("TENURE_PROOF", "long").args(["--profile", "prove"]);
    }
    command
}

#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
fn keep(record: &Path, told: &str) -> Result<(), String> {
    std::fs::write(record, told).map_err(failed("keep", record))
}

/// The kept record of a ring.
pub(crate) fn record_of(ring: &str) -> PathBuf {
    root().join("crates/tenure-proof/record").join(format!("{ring}.jsonl"))
}

/// For `map_err`: what could not be done with `path`.
pub(crate) fn failed(verb: &str, path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |err| format!("cannot {verb} {}: {err}", path.display())
}
