//! The `tenure` command: parse, dispatch, report.

mod allocator;
mod args;
mod bench;
mod child;
mod commands;
mod demo;
mod environment;
mod exit_code;
mod failure;
mod filter;
mod output;
#[cfg(unix)]
mod torture;
mod waiting;

use std::ffi::OsString;

use self::allocator::Arena;
use self::args::Cli;
use self::output::Output;

#[global_allocator]
static ALLOCATOR: Arena = Arena::new();

fn main() -> std::process::ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(result) = commands::run_worker(&words) {
        return result
            .unwrap_or_else(|failure| Output::new(false).report(&failure))
            .number()
            .into();
    }
    let exit = match Cli::read(words) {
        Ok(cli) => {
            let mut out = Output::new(cli.flags.json);
            let result = commands::run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
            result.unwrap_or_else(|failure| out.report(&failure))
        }
        Err(error) => output::report_usage(&error),
    };
    exit.number().into()
}
