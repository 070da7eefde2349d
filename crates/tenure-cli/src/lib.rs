//! What the `tenure` command is made of: arguments, output, exit codes, and a module per command.
//!
//! Two programs are built from it. `tenure` (this package) is what people install and type. `tenure-lab`
//! (the package `tenure-torture`) does the work of `tenure demo`, `torture` and `bench`: it brings
//! protocols that are known to be wrong, which `tenure` itself must not contain. Both read the same
//! declaration of arguments and report in the same way.
//!
//! This is no interface for others: use the crate `tenure`.

mod args;
mod child;
mod clock;
mod commands;
mod environment;
mod exit_code;
mod failure;
mod filter;
mod output;
mod place;
mod progress;
mod shell;
mod suggest;
mod waiting;

use std::ffi::OsString;

use clap::Parser;

pub use self::args::{
    BenchArgs, ControlArg, DemoArg, DemoArgs, LabCommand, LoadArg, PanicArg, ThingArg, TortureArgs,
};
pub use self::child::Inherited;
#[cfg(unix)]
pub use self::child::ignored_signals;
pub use self::exit_code::ExitCode;
pub use self::failure::{Failure, Own, Result};
pub use self::filter::{memory_refused, memory_returned, memory_taken, this_is_the_first_thread};
pub use self::output::{Layout, Output, note_closed_stdout, stdout_is_terminal, warn};
pub use self::place::here;
pub use self::progress::Progress;

use self::args::{Cli, GlobalFlags, LabCli};

/// Runs the command in `words`, which start with the program's name; returns its exit code.
pub fn run(words: &[OsString]) -> u8 {
    let read = Cli::read(words).map(|cli| (cli.flags, cli.command));
    let exit = finish(words, read, |store, command, out| {
        commands::choose_store(&command, store)?;
        commands::run(command, words, out)
    });
    // An agent takes 2 as a denial: a mistake in its settings must not stop it.
    let is_usage = exit == ExitCode::Usage && words.get(1).is_some_and(|noun| noun == "hook");
    if is_usage { ExitCode::Failed.number() } else { exit.number() }
}

/// The same for `tenure-lab`; `work` does what was asked for.
pub fn run_lab(
    words: &[OsString],
    work: impl FnOnce(LabCommand, &mut Output) -> Result<ExitCode>,
) -> u8 {
    let read = LabCli::try_parse_from(words).map(|cli| (cli.flags, cli.command));
    let exit = finish(words, read, |store, command, out| {
        match command {
            LabCommand::Demo(_) => commands::refuse_store(store)?,
            LabCommand::Torture(_) | LabCommand::Bench(_) => place::choose(store)?,
        }
        work(command, out)
    });
    exit.number()
}

/// Does the command that was `read`, and reports how it went.
fn finish<C>(
    words: &[OsString],
    read: Result<(GlobalFlags, C), clap::Error>,
    work: impl FnOnce(Option<&str>, C, &mut Output) -> Result<ExitCode>,
) -> ExitCode {
    match read {
        Ok((flags, command)) => {
            let mut out = Output::new(flags.json);
            let result = work(flags.store.as_deref(), command, &mut out)
                .and_then(|exit| out.flush().map(|()| exit));
            result.unwrap_or_else(|failure| out.report(&failure))
        }
        Err(error) => output::report_usage(&error, output::asks_for_json(words)),
    }
}
