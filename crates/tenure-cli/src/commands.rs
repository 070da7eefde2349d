//! What the commands do: each reads its arguments, calls the library, and prints the result.

mod bench;
mod collection;
mod demo;
mod doc;
mod doctor;
mod finding;
mod generate;
mod hold;
mod input;
mod journal;
mod lease;
mod run;
mod token;
mod torture;
mod who;

use std::ffi::OsString;

use crate::args::{Cli, Command};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli, out: &mut Output) -> Result<ExitCode> {
    refuse_store(cli.flags.store.as_deref())?;
    match cli.command {
        Command::Run(args) => run::run(&args, out),
        Command::Doc(command) => doc::run(&command, out),
        Command::Journal(command) => journal::run(&command, out),
        Command::Lease(command) => lease::run(&command, out),
        Command::Collection(command) => collection::run(&command, out),
        Command::Who(args) => who::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Bench(args) => bench::run(&args, out),
        Command::Torture(args) => torture::run(&args, out),
        Command::Completions(args) => generate::completions(&args, out),
        Command::Man(args) => generate::man(&args),
    }
}

/// Runs what `demo` and `torture` start, if that is what this process is. Their verbs are no part of
/// the command line that people see, in help, completions or errors.
pub(crate) fn run_worker(words: &[OsString]) -> Option<Result<ExitCode>> {
    let verb = words.get(1)?.to_str()?;
    let work = match verb {
        "demo-worker" => demo::worker,
        "torture-worker" => torture::worker,
        _ => return None,
    };
    Some(work(words[2..].to_vec()))
}

/// Nothing may be done on local files for somebody who asked for another store.
fn refuse_store(flag: Option<&str>) -> Result<()> {
    let store = flag.map(str::to_owned).or_else(|| std::env::var("TENURE_STORE").ok());
    match store.filter(|store| !store.is_empty()) {
        None => Ok(()),
        Some(store) => {
            let scheme = store.split(':').next().unwrap_or_default().escape_debug().to_string();
            let detail = format!("this build has no engine for `{scheme}`");
            Err(Failure::new(ExitCode::Unsupported, "unsupported", "open the store", detail)
                .hint("leave --store and TENURE_STORE out to use local files"))
        }
    }
}
