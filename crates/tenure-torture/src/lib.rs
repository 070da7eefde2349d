//! The laboratory: `tenure demo`, `tenure torture` and `tenure bench`.
//!
//! It is a separate program, `tenure-lab`, because it contains protocols that are known to be wrong
//! (`tenure-shipped`), which must not be part of a user's `tenure`.
//!
//! - `demo` races the protocols that real tools shipped against tenure, and counts violations;
//! - `torture` kills and pauses processes that use tenure, and checks the files;
//! - `bench` measures what the operations cost on a user's disk;
//! - [`history`] decides whether what clients were answered can be right; the test rings use it, too.

mod bench;
mod demo;
pub mod history;
#[cfg(unix)]
mod torture;

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tenure_cli::{DemoArg, ExitCode, Failure, LabCommand, Output, Result};

/// Runs the command in `words`, which start with the program's name; returns its exit code.
pub fn run(words: &[OsString]) -> u8 {
    if let Some(worked) = run_worker(words) {
        return worked.map_or_else(
            |failure| Output::new(false).report(&failure).number(),
            |()| ExitCode::Done.number(),
        );
    }
    tenure_cli::run_lab(words, command)
}

fn command(command: LabCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        LabCommand::Demo(args) => {
            let options = demo::Options { json: out.is_json(), quick: args.quick, seed: args.seed };
            let demo = match args.what {
                None => demo::run,
                Some(DemoArg::Agents) => demo::agents::run,
            };
            demo(options).map_err(failed("demo"))?;
            Ok(ExitCode::Done)
        }
        LabCommand::Bench(args) => {
            let report = match tenure_cli::here().name() {
                None => bench::run(&args.dir, args.quick)?,
                Some(name) => bench::run_on_store(&tenure_cli::here().store(), name, args.quick)?,
            };
            out.result(|| report.json(), || report.text())?;
            Ok(ExitCode::Done)
        }
        #[cfg(unix)]
        LabCommand::Torture(args) => torture::run(&args, out),
        #[cfg(not(unix))]
        LabCommand::Torture(_) => {
            let detail = "it needs signals, which this system does not have";
            Err(Failure::new(ExitCode::Unsupported, "unsupported", "torture", detail))
        }
    }
}

/// Runs the hidden commands of workers that `demo` and `torture` start. They do not appear in help,
/// completions or errors.
fn run_worker(words: &[OsString]) -> Option<Result<()>> {
    let (verb, rest) = (words.get(1)?.to_str()?, &words[2..]);
    match verb {
        "demo-agent" => Some(demo::agents::agent::run(rest).map_err(failed("demo"))),
        "demo-worker" => Some(demo::worker::run(rest.to_vec()).map_err(failed("demo"))),
        #[cfg(unix)]
        "torture-worker" => Some(torture::work(rest).map_err(failed("torture"))),
        _ => None,
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |err| Failure::io("run", Path::new(what), err)
}
