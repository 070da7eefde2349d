//! What the commands do: each reads its arguments, calls the library, and prints the result.

mod claim;
mod collection;
mod copy;
mod doc;
mod doctor;
mod file;
mod finding;
mod generate;
mod hold;
mod hook;
mod init;
mod input;
mod journal;
mod lab;
mod lease;
mod mcp;
mod once;
mod parents;
mod run;
mod settings;
mod store;
mod token;
mod who;

use std::ffi::OsString;

use crate::args::{Command, StoreCommand};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place;

/// Runs the command that was asked for by `words`.
pub(crate) fn run(command: Command, words: &[OsString], out: &mut Output) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args, out),
        Command::Doc(command) => doc::run(&command, out),
        Command::Journal(command) => journal::run(&command, out),
        Command::Lease(command) => lease::run(&command, out),
        Command::Collection(command) => collection::run(&command, out),
        Command::Hook(command) => hook::run(&command, out),
        Command::Init(args) => init::run(&args, out),
        Command::Settings(command) => settings::run(&command, out),
        Command::Claim(command) => claim::run(&command, out),
        Command::File(command) => file::run(&command, out),
        Command::Once(args) => once::run(&args, out),
        Command::Who(args) => who::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Store(command) => store::run(&command, out),
        Command::Copy(args) => copy::run(&args, out),
        Command::Mcp(args) => mcp::run(&args),
        Command::Lab(_) => lab::run(words),
        Command::Completions(args) => generate::completions(&args, out),
        Command::Man(args) => generate::man(&args),
    }
}

/// Chooses where the targets of a command are. `--store` on a command that has no targets is a mistake; the
/// environment may name a store for the others.
pub(crate) fn choose_store(command: &Command, flag: Option<&str>) -> Result<()> {
    match command {
        Command::Completions(_)
        | Command::Man(_)
        // Agents work in directories: what they reserve and their settings are files.
        | Command::Hook(_)
        | Command::Init(_)
        | Command::Settings(_) => refuse_store(flag),
        Command::Lab(_) => Ok(()), // The program that does it reads the same words.
        Command::Store(
            StoreCommand::Init(args) | StoreCommand::Upgrade(args) | StoreCommand::Check(args),
        ) => place::choose(args.url.as_deref().or(flag)),
        _ => place::choose(flag),
    }
}

/// Refuses `--store` for a command that has no targets.
pub(crate) fn refuse_store(flag: Option<&str>) -> Result<()> {
    match flag {
        None => Ok(()),
        Some(_) => {
            Err(Failure::usage("use --store", "this command has no targets").hint("leave it out"))
        }
    }
}
