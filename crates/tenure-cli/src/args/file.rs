//! `tenure file`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flags::DocWriteFlags;

pub(super) const EXAMPLES: &str = "\
Examples:
  generate | tenure file put config.toml
  tenure file edit config.toml -- sed s/debug/release/
  tenure file get config.toml

Any file: source code, configuration, binary data. A replacement is atomic and durable, takes the lock, and can be
guarded, as that of a document. The version before the last one is kept.";

#[derive(Debug, Subcommand)]
pub(crate) enum FileCommand {
    /// Replace the content by standard input
    Put(FilePutArgs),
    /// Print the content
    Get(FileGetArgs),
    /// Print the version, for --if-version
    Version(FileVersionArgs),
    /// Replace the content by what a command makes of it
    Edit(FileEditArgs),
    /// Publish the version before the last; a second undo redoes
    Undo(FileUndoArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  generate | tenure file put config.toml
  tenure file put main.rs - --guard session=\"$TENURE_FENCE\" < new.rs
  tenure file put config.toml --if-version \"$file_version\" < new.rs")]
pub(crate) struct FilePutArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// Standard input, which is also the default
    #[arg(value_name = "-", value_parser = ["-"])]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure file get config.toml")]
pub(crate) struct FileGetArgs {
    /// The file
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure file version config.toml")]
pub(crate) struct FileVersionArgs {
    /// The file
    pub(crate) file: PathBuf,
}

/// The command gets the content on standard input, and its standard output is the new content. It runs under the lock.
/// If it fails, nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: if the command fails, its own

Examples:
  tenure file edit config.toml -- sed s/debug/release/")]
pub(crate) struct FileEditArgs {
    /// The file, which must exist
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure file undo config.toml")]
pub(crate) struct FileUndoArgs {
    /// The file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}
