//! `tenure journal`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::doc::FilterFlags;
use super::flags::{NewsFlag, WriteFlags};
use super::values;

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
    /// Check every byte of the journal and its archives
    Verify(VerifyArgs),
    /// Finish what a crash left half done, and write back what the log still holds
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

/// What `read` and `follow` do about entries that are gone.
const GAPS: &str = "\
Entries that can no longer be read (an archive was moved away, a power loss destroyed them) are a gap. Each
gap is one line on stderr, or with --json an object on stdout: {\"gap\":{\"first\":4,\"last\":9},\"why\":\"...\"}.
The entries after it are printed, and the exit code is 5. Without --from, output starts at the oldest entry
that exists: missing entries before it are mentioned, but are not an error.";

#[derive(Debug, Args)]
#[command(after_help = format!("\
{GAPS}

A journal stores no times. --since uses the time in the line itself: a field of a JSON object, as text
(RFC 3339) or as a number of seconds, milliseconds or microseconds since 1970. A line without a time counts
as being as old as the line before it; a warning states how many there were. Times without a zone are local.

Examples:
  tenure journal read log.jsonl --from 100 --limit 20
  tenure journal read log.jsonl --last 10
  tenure journal read log.jsonl --since 10m
  tenure journal read log.jsonl --json | jq .seq
  tenure journal read log.jsonl --pending          lines of other tools, too"))]
pub(crate) struct ReadArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Start at this number [default: the oldest entry that is there]
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Print at most N entries
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print the newest N entries
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "limit"])]
    pub(crate) last: Option<usize>,
    /// Print entries at or after this time: 10m (ago), 14:02, 2026-11-18, 2026-11-18T14:02:11Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) since: Option<u64>,
    /// The JSON field that has the time of an entry, for --since [default: time, timestamp, ts, at or date]
    #[arg(long, value_name = "NAME", requires = "since")]
    pub(crate) time_field: Option<String>,
    /// Also print lines of other tools that have no number yet, at the end; with --json their "seq" is null
    #[arg(long)]
    pub(crate) pending: bool,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Lines of other tools are printed when they have a number. A follower with write permission numbers them itself;
a follower without it says once on stderr that they wait for a writer.
{GAPS}

Examples:
  tenure journal follow log.jsonl --json | while read -r entry; do ...; done
  tenure journal follow log.jsonl --from 1 --count 10 --wait 5s"))]
pub(crate) struct FollowArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Start at this number [default: the oldest entry that is there]
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// End after N entries
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) wait: NewsFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Changes nothing and takes no lock. If there is damage, the exit code is 5 and the report names the file:
the journal or an archive.

Examples:
  tenure journal verify log.jsonl
  tenure journal verify log.jsonl --json | jq .lost")]
pub(crate) struct VerifyArgs {
    /// The journal
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Before anything is changed, damaged bytes are copied to a file that the report names. Damage that the log
cannot undo stays (exit code 5): restore that part from a copy, or accept it as it is. An accepted range
keeps its numbers if its line count is unchanged; otherwise its lines get new numbers, and the old ones are
reported as lost. If another tool truncated the journal, a repair accepts that, as every write does, and
reports the missing entries as lost.

Examples:
  tenure journal repair log.jsonl
  tenure journal repair log.jsonl --accept          after a line was edited on purpose")]
pub(crate) struct RepairArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Accept the remaining damage in the journal as it is
    #[arg(long)]
    pub(crate) accept: bool,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure journal rotate log.jsonl                          readers continue across both files
  old=$(tenure journal rotate log.jsonl) && gzip \"$old\"   its entries are a gap to readers")]
pub(crate) struct RotateArgs {
    /// The journal
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: WriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The previous file is kept until the next compaction, header or rotation; its path is printed.

Examples:
  tenure journal compact log.jsonl --from 1000
  tenure journal compact log.jsonl --keep '.level != \"debug\"'")]
pub(crate) struct CompactArgs {
    /// The journal
    pub(crate) file: PathBuf,
    /// Keep entries from this number on. Use --from, --keep or both
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
