//! `tenure mcp`: the server of the Model Context Protocol on standard input and output.
//!
//! # Invariants
//!
//! 1. Standard output is the protocol's alone. An error before the first message, or of the input itself, is one
//!    line on standard error, as for every command.

use std::io;
use std::path::{Path, PathBuf};

use tenure_agents::place::Place;
use tenure_mcp::Options;

use crate::args::McpArgs;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::place::here;

/// Set by agents to the directory that they were started for.
const PROJECT: &str = "CLAUDE_PROJECT_DIR";

pub(super) fn run(args: &McpArgs) -> Result<ExitCode> {
    let directory = root(args)?;
    let options = Options {
        store: here().store(),
        // The names of a store begin at its own root.
        root: here().name().map_or_else(|| directory.clone(), |_| PathBuf::from("/")),
        directory,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    tenure_mcp::serve(options, io::stdin().lock(), io::stdout())?;
    Ok(ExitCode::Done)
}

/// The flag, else the agent's project, else the project around the current directory.
fn root(args: &McpArgs) -> Result<PathBuf> {
    let named = || std::env::var_os(PROJECT).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let root = match args.root.clone().or_else(named) {
        Some(dir) => dir,
        None => Place::of_directory(Path::new("."))?.root().to_path_buf(),
    };
    // The first call would notice it, too, but then only the model reads why.
    match std::fs::metadata(&root) {
        Ok(found) if found.is_dir() => Ok(root),
        Ok(_) => Err(Failure::io("serve", &root, io::ErrorKind::NotADirectory.into())),
        Err(err) => Err(Failure::io("serve", &root, err)),
    }
}
