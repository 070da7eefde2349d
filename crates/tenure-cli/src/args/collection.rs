//! `tenure collection`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::flags::WriteFlags;
use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure collection list sessions
  tenure collection prune sessions --max-age 30d --max-count 500 --keep active";

#[derive(Debug, Subcommand)]
pub(crate) enum CollectionCommand {
    /// Print the keys
    List(ListArgs),
    /// Remove old entries; those that are held stay
    Prune(PruneArgs),
    /// Split one index file into one document per key
    Split(SplitArgs),
}

/// What the entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// KEY.json
    Documents,
    /// KEY.jsonl
    Journals,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure collection list sessions --kind journals")]
pub(crate) struct ListArgs {
    /// The directory
    pub(crate) dir: PathBuf,
    /// What the entries are
    #[arg(long, value_enum, default_value = "documents")]
    pub(crate) kind: KindArg,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure collection prune sessions --max-age 30d
  tenure collection prune sessions --max-count 500 --keep active --keep main")]
pub(crate) struct PruneArgs {
    /// The directory
    pub(crate) dir: PathBuf,
    /// What the entries are
    #[arg(long, value_enum, default_value = "documents")]
    pub(crate) kind: KindArg,
    /// Remove entries that did not change for this long
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub(crate) max_age: Option<Duration>,
    /// Keep only the newest N
    #[arg(long, value_name = "N")]
    pub(crate) max_count: Option<usize>,
    /// Never remove this key; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) keep: Vec<String>,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure collection split sessions.json sessions")]
pub(crate) struct SplitArgs {
    /// The index: one JSON object, one entry per key
    pub(crate) index: PathBuf,
    /// The directory of the new collection
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}
