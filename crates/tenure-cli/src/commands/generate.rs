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
        .and_then(|()| keep_lines(&args.dir))
        .map_err(|err| Failure::io("write manual pages into", &args.dir, err))?;
    Ok(ExitCode::Done)
}

/// Examples and tables are lines, not a paragraph to fill.
#[expect(clippy::disallowed_methods, reason = "pages that were just made, and can be made again")]
fn keep_lines(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("tenure") || !name.ends_with(".1") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let Some((before, notes)) = text.split_once(".SH EXTRA\n") else { continue };
        let (notes, behind) = match notes.find("\n.SH ") {
            Some(at) => notes.split_at(at + 1),
            None => (notes, ""),
        };
        std::fs::write(
            &path,
            format!("{before}.SH EXAMPLES AND NOTES\n.nf\n{notes}.fi\n{behind}"),
        )?;
    }
    Ok(())
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
