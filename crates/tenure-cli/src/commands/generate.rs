//! `tenure completions` and `tenure man`: made from the declaration of the arguments.

use std::io;
use std::path::Path;

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
        .and_then(|()| name_separators(&args.dir))
        .map_err(|err| Failure::io("write manual pages into", &args.dir, err))?;
    Ok(ExitCode::Done)
}

/// The generator leaves the `--` out, without which `run` and `lease hold` do not work.
#[expect(clippy::disallowed_methods, reason = "pages that were just made, and can be made again")]
fn name_separators(dir: &Path) -> io::Result<()> {
    for page in ["tenure-run.1", "tenure-lease-hold.1"] {
        let path = dir.join(page);
        let text = std::fs::read_to_string(&path)?;
        let with = text.replacen(r"<\fICMD\fR>", r"\-\- <\fICMD\fR>...", 1);
        std::fs::write(&path, with)?;
    }
    Ok(())
}
