//! The `tenure` command: parse, dispatch, report.

mod args;
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

use clap::Parser;

use self::args::Cli;
use self::output::Output;

fn main() -> std::process::ExitCode {
    if let Some(result) = commands::run_worker(std::env::args_os().collect()) {
        return result
            .unwrap_or_else(|failure| Output::new(false).report(&failure))
            .number()
            .into();
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => {
            let mut out = Output::new(cli.json);
            let result = commands::run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
            result.unwrap_or_else(|failure| out.report(&failure))
        }
        Err(error) => output::report_usage(&error),
    };
    exit.number().into()
}
