//! `tenure completions` and `tenure man`: made from the declaration of the arguments.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn completions(args: &CompletionsArgs, out: &mut Output) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tenure", &mut text);
    out.raw(&text)?;
    Ok(ExitCode::Done)
}

pub(super) fn man(args: &ManArgs) -> Result<ExitCode> {
    clap_mangen::generate_to(Cli::command(), &args.dir)
        .map_err(|err| Failure::io("write manual pages into", &args.dir, err))?;
    Ok(ExitCode::Done)
}
