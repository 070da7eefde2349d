//! Repository chores: `cargo xtask test` is the one command that checks everything.
//!
//! The house rules that a program can check are tests of this crate (see [`tidy`]), so plain
//! `cargo test` runs them too.

#![expect(clippy::print_stdout, reason = "this program reports to people")]

mod bench;
mod bump;
mod complete;
mod costs;
mod dist;
mod licences;
mod mcp;
mod node;
mod not_run;
mod package;
mod performance;
mod picture;
mod pipeline;
mod platform_table;
mod prove;
mod python;
mod reliability;
mod ring_times;
mod stream;
mod tally;
#[cfg(test)]
mod tidy;
mod tools;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::pipeline::Options;
use crate::prove::Form;
use crate::tally::Tally;

/// Nothing may be left out.
const STRICT: &Options = &Options { allow_missing: false };

const USAGE: &str = "\
usage: cargo xtask test [--allow-missing] [STEP...]
       cargo xtask prove [--quick] [RING...] | --table
       cargo xtask mutants [OPTION...] [FILE...]
       cargo xtask bench [--quick|--full] [--on DIR] [ROW...] | --table
       cargo xtask costs [--accept]
       cargo xtask api [--accept]
       cargo xtask dist
       cargo xtask picture
       cargo xtask package [--quick|--matrix]
       cargo xtask bump VERSION

  test             format, lints, licences, every test, release build; installs what is missing (or only these steps,
                   by the names that a run prints: test node python)
  --allow-missing  continue without a tool that cannot be installed, and report what was not run
  prove            the test rings (or only these: race_book, puppets, torture, system_calls, power_loss, models, identity,
                   parsers, file_systems, security, stores) in their long form, which takes hours; writes what
                   was tried to docs/RELIABILITY.md and docs/PLATFORM.md (--quick: in their quick form; --table: only writes it again)
  mutants          small mistakes in the core that the tests must notice; writes
                   crates/tenure-mutants/reasons.md, takes hours (mutants --help: its options)
  bench            tenure beside the system-call floor and beside what people would use instead, in about two
                   minutes; leaves a record in bench/runs (--full: half an hour on each of several file systems; --table:
                   writes the newest records to README.md and bench/README.md)
  costs            counts system calls and instructions of the hot paths in the release build, and
                   compares them with those on record (--accept: puts them on record)
  api              compares the public types and functions of the library with crates/tenure/public_api.txt, and
                   counts them (--accept: writes that file)
  dist             the command and its laboratory as they ship: optimised as a whole, on Linux linked statically
  package          everything that people install, in dist/: archive, npm packages, wheel, Debian package, crates; each is
                   installed into an empty environment and used (--quick: without link-time optimisation, as the test
                   command does it; --matrix: also below Jest, vitest, Bun, Deno and every Python that is there)
  bump             sets the version everywhere, and opens a section of the changelog for it
  picture          runs the demo and draws its table as docs/demo.svg";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match &words[..] {
        ["mutants", "--help" | "-h"] => told(mutants(&["--help"])),
        [.., "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        ["test", "--allow-missing", steps @ ..] if are_names(steps) => {
            pipeline::run_named(steps, &Options { allow_missing: true })
        }
        ["test", steps @ ..] if are_names(steps) => pipeline::run_named(steps, STRICT),
        ["costs"] => told(costs::run(costs::Verb::Compare)),
        ["costs", "--accept"] => told(costs::run(costs::Verb::Accept)),
        ["api"] => told(api(false)),
        ["api", "--accept"] => told(api(true)),
        ["dist"] => told(
            dist::build().map(|paths| paths.iter().for_each(|path| println!("{}", path.display()))),
        ),
        ["picture"] => told(picture::draw().map(|path| println!("{}", path.display()))),
        ["package"] => told(package::run(package::Form::Ships).map(drop)),
        ["package", "--quick"] => told(package::run(package::Form::Quick).map(drop)),
        ["package", "--matrix"] => told(package::run(package::Form::Matrix).map(drop)),
        ["bump", version] => told(bump::run(version)),
        ["prove", "--table"] => {
            told(reliability::rewrite().and_then(|()| platform_table::rewrite()))
        }
        ["prove", "--quick", rings @ ..] if are_names(rings) => {
            told(prove::run(Form::Quick, rings, STRICT))
        }
        ["prove", rings @ ..] if are_names(rings) => told(prove::run(Form::Long, rings, STRICT)),
        ["mutants", options @ ..] => told(mutants(options)),
        ["bench", "--table"] => told(performance::rewrite()),
        ["bench", words @ ..] => told(bench::run(words)),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn are_names(words: &[&str]) -> bool {
    words.iter().all(|word| !word.starts_with('-'))
}

/// A crate of its own does it, so that the others need not build what it needs.
fn mutants(options: &[&str]) -> Result<(), String> {
    let mut command = pipeline::cargo(&["run", "--quiet", "--package", "tenure-mutants", "--"]);
    command.args(options);
    stream::run(&mut command, &mut Tally::default())
}

/// Only the tests of this crate can read Rust, so one of them does it.
fn api(accept: bool) -> Result<(), String> {
    let test = ["test", "--quiet", "--package", "xtask", "public_api", "--", "--nocapture"];
    let mut command = pipeline::cargo(&test);
    if accept {
        command.env("TENURE_ACCEPT_API", "1");
    }
    stream::run(&mut command, &mut Tally::default())
}

/// Tells the problem, if there is one, and whether there is none.
fn told(outcome: Result<(), String>) -> bool {
    outcome.map_err(|problem| println!("{problem}")).is_ok()
}

/// The top directory of the repository.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Where cargo puts what it builds.
fn target_dir() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR");
    root().join(given.map_or_else(|| "target".into(), PathBuf::from))
}
