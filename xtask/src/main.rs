//! Repository chores: `cargo xtask test` is the one command that checks everything.
//!
//! The house rules that a program can check are tests of this crate (see [`tidy`]), so plain
//! `cargo test` runs them too.

#![expect(clippy::print_stdout, reason = "this program reports to people")]

mod licences;
mod pipeline;
mod stream;
mod tally;
#[cfg(test)]
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask test [--allow-missing]

  test             format, lints, licences, every test, release build; installs what is missing
  --allow-missing  go on without a tool that cannot be installed, and say what was not run";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let allow_missing = match words[..] {
        ["test"] => false,
        ["test", "--allow-missing"] => true,
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if pipeline::run(pipeline::STEPS, &pipeline::Options { allow_missing }) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The top directory of the repository.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}
