//! What the commands do: each reads its arguments, calls the library, and prints the result.

mod collection;
mod doc;
mod doctor;
mod finding;
mod generate;
mod hold;
mod input;
mod journal;
mod lab;
mod lease;
mod parents;
mod run;
mod token;
mod who;

use std::ffi::OsString;

use crate::args::Command;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Runs the command that was asked for by `words`.
pub(crate) fn run(command: Command, words: &[OsString], out: &mut Output) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args, out),
        Command::Doc(command) => doc::run(&command, out),
        Command::Journal(command) => journal::run(&command, out),
        Command::Lease(command) => lease::run(&command, out),
        Command::Collection(command) => collection::run(&command, out),
        Command::Who(args) => who::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Lab(_) => lab::run(words),
        Command::Completions(args) => generate::completions(&args, out),
        Command::Man(args) => generate::man(&args),
    }
}

/// A caller who asked for another store must not be served from local files.
pub(crate) fn refuse_store(flag: Option<&str>) -> Result<()> {
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
