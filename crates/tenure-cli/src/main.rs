//! The `tenure` command: parse, dispatch, report.
#![cfg_attr(all(target_os = "linux", not(test)), no_main)]

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
#[cfg(all(target_os = "linux", not(test)))]
mod start;
#[cfg(unix)]
mod torture;
mod waiting;

use std::ffi::OsString;

use self::allocator::Arena;
use self::args::Cli;
use self::output::Output;

#[global_allocator]
static ALLOCATOR: Arena = Arena::new();

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    run(std::env::args_os().collect()).into()
}

/// The command in `words`, which start with the program's name: how the process ends.
#[cfg_attr(all(target_os = "linux", test), expect(dead_code, reason = "`start` calls it"))]
fn run(words: Vec<OsString>) -> u8 {
    if let Some(result) = commands::run_worker(&words) {
        return result.unwrap_or_else(|failure| Output::new(false).report(&failure)).number();
    }
    let asked_json = output::asks_for_json(&words);
    let exit = match Cli::read(words) {
        Ok(cli) => {
            let mut out = Output::new(cli.flags.json);
            let result = commands::run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
            result.unwrap_or_else(|failure| out.report(&failure))
        }
        Err(error) => output::report_usage(&error, asked_json),
    };
    exit.number()
}
