//! `tenure journal`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::doc::FilterFlags;
use super::flags::{NewsFlag, WriteFlags};

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure journal append log.jsonl '{\"event\":\"start\"}' '{\"event\":\"ready\"}'
  tenure journal follow log.jsonl --from 42
  tenure journal verify log.jsonl || tenure journal repair log.jsonl";

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Append lines as one batch: all of them appear, or none
    Append(AppendArgs),
    /// Print entries
    Read(ReadArgs),
    /// Print entries as they come, across rotation
    Follow(FollowArgs),
    /// Check the whole journal
    Verify(VerifyArgs),
    /// Finish or set aside what a crash left half done
    Repair(RepairArgs),
    /// Start a new file; the old one is kept beside it
    Rotate(RotateArgs),
    /// Drop entries; those that stay keep their numbers
    Compact(CompactArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal append log.jsonl '{\"event\":\"start\"}'
  generate | tenure journal append log.jsonl -          one batch from standard input
  tenure journal append log.jsonl \"$line\" --op-id \"$id\"   safe to repeat")]
pub(crate) struct AppendArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// The lines; - or none reads them from standard input
    pub(crate) lines: Vec<String>,
    /// Refuse the batch unless every line is JSON
    #[arg(long)]
    pub(crate) json_lines: bool,
    /// Replace the header, the first line of the file, in the same step
    #[arg(long, value_name = "LINE")]
    pub(crate) header: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal read log.jsonl --from 100 --limit 20
  tenure journal read log.jsonl --json | jq .seq")]
pub(crate) struct ReadArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Start at this number
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    pub(crate) from: u64,
    /// At most so many entries
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal follow log.jsonl --json | while read -r entry; do ...; done
  tenure journal follow log.jsonl --from 1 --count 10 --wait 5s")]
pub(crate) struct FollowArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Start at this number
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    pub(crate) from: u64,
    /// End after so many entries
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) wait: NewsFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal verify log.jsonl --json")]
pub(crate) struct VerifyArgs {
    /// The journal
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal repair log.jsonl")]
pub(crate) struct RepairArgs {
    /// The journal
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  old=$(tenure journal rotate log.jsonl) && gzip \"$old\"")]
pub(crate) struct RotateArgs {
    /// The journal
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal compact log.jsonl --from 1000
  tenure journal compact log.jsonl --keep '.level != \"debug\"'")]
pub(crate) struct CompactArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Keep entries from this number on; this, --keep or both
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Keep entries for which this jq filter is true ($seq is the number; a line that is not JSON is
    /// a string)
    #[arg(long, value_name = "FILTER")]
    pub(crate) keep: Option<String>,
    #[command(flatten)]
    pub(crate) named: FilterFlags,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}
