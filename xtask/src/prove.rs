//! `cargo xtask prove`: the rings in their long form, and the table of what they tried.
//!
//! # Invariants
//!
//! 1. A ring's record (`crates/tenure-proof/record/RING.jsonl`) is replaced only by a run of that ring
//!    in which every test passed, and that of a long run only by a long run. The table in `docs/RELIABILITY.md` is made from the records
//!    and nothing else; a test compares the two.
//! 2. A ring that wrote no record has proved nothing, and fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pipeline::{LANGUAGES, Options, cargo};
use crate::reliability::{self, RINGS};
use crate::tally::Tally;
use crate::{node, platform_table, python, root, stream, tools};

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
    for ring in RINGS.iter().filter(|ring| asked(ring.name)) {
        println!("\n== ring {}: {}", ring.name, ring.title);
        match attack(form, ring.name, options) {
            Ok(()) => println!("== ring {}: held", ring.name),
            Err(problem) => {
                println!("== ring {}: FAILED: {problem}", ring.name);
                failed.push(ring.name);
            }
        }
    }
    reliability::rewrite()?;
    platform_table::rewrite()?;
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// One ring, and its record.
fn attack(form: Form, ring: &str, options: &Options) -> Result<(), String> {
    let fresh = root().join(FRESH);
    let written = fresh.join(format!("{ring}.jsonl"));
    std::fs::create_dir_all(&fresh).map_err(failed("make", &fresh))?;
    match std::fs::remove_file(&written) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &written)(err));
        }
        _ => {}
    }
    let mut command = cargo(&["test", "--package", "tenure-proof", "--test", ring]);
    command.env("TENURE_PROOF_RECORD", &fresh);
    if form == Form::Long {
        command.env("TENURE_PROOF", "long").args(["--profile", "prove"]);
    }
    command.envs(tools::limits().map(|limit| (limit, "1")));
    if !options.allow_missing {
        command.env("TENURE_PUPPETS", LANGUAGES);
    }
    stream::run(&mut command, &mut Tally::default())?;
    let record = record_of(ring);
    if form == Form::Quick && reliability::is_long(&record) {
        return Ok(());
    }
    std::fs::create_dir_all(record.parent().unwrap_or(root())).map_err(failed("make", &record))?;
    let told = std::fs::read_to_string(&written).map_err(failed("read", &written))?;
    keep(&record, &reliability::stamped(&told, &commit())?)
}

#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
fn keep(record: &Path, told: &str) -> Result<(), String> {
    std::fs::write(record, told).map_err(failed("keep", record))
}

/// The commit that is attacked, shortened.
fn commit() -> String {
    let git =
        Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).current_dir(root()).output();
    git.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned()).unwrap_or_default()
}

/// The kept record of a ring.
pub(crate) fn record_of(ring: &str) -> PathBuf {
    root().join("crates/tenure-proof/record").join(format!("{ring}.jsonl"))
}

/// For `map_err`: what could not be done with `path`.
pub(crate) fn failed(verb: &str, path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |err| format!("cannot {verb} {}: {err}", path.display())
}
