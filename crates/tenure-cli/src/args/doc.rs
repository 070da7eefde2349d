//! `tenure doc`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) use super::flags::DocWriteFlags;
use super::flags::{NewsFlag, WaitFlag};

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure doc get state.json '.checked | length'
  tenure doc update state.json '.checked += [$k]' --arg k a.ts --init '{\"checked\":[]}'
  tenure doc merge state.json '{\"checked\":[\"b.ts\"]}' --union /checked";

#[derive(Debug, Subcommand)]
pub(crate) enum DocCommand {
    /// Print the document, or the result of a jq filter
    Get(GetArgs),
    /// Replace the whole document
    Set(SetArgs),
    /// Change the document with a jq filter; no update is lost
    Update(UpdateArgs),
    /// Merge a patch (RFC 7396), with rules for single fields
    Merge(MergeArgs),
    /// Apply a JSON Patch (RFC 6902), whole or not at all
    Patch(PatchArgs),
    /// Print the version, for --if-version
    Version(VersionArgs),
    /// Print the document each time it changes
    Watch(WatchArgs),
    /// Show what the last durable change did
    Diff(DiffArgs),
    /// Revert the last durable change; a second undo redoes it
    Undo(UndoArgs),
    /// List earlier versions, or keep more of them
    History(HistoryArgs),
    /// Replace a damaged document by the last version that was kept
    Restore(RestoreArgs),
}

/// Named values for a filter.
#[derive(Debug, Args, Default)]
pub(crate) struct FilterFlags {
    /// Pass the string V to the filter as $N; may be repeated
    #[arg(long = "arg", num_args = 2, value_names = ["N", "V"], allow_hyphen_values = true)]
    pub(crate) strings: Vec<String>,
    /// Pass the JSON value J to the filter as $N; may be repeated
    #[arg(long = "argjson", num_args = 2, value_names = ["N", "J"], allow_hyphen_values = true)]
    pub(crate) values: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc get state.json
  tenure doc get state.json -r .name
  tenure doc get state.json -e '.checked | index($k)' --arg k a.ts && echo known")]
pub(crate) struct GetArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// A jq filter, or - to read it from standard input
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) named: FilterFlags,
    /// Print strings as they are, without quotes
    #[arg(short, long)]
    pub(crate) raw: bool,
    /// One line per value
    #[arg(short, long)]
    pub(crate) compact: bool,
    /// Exit 3 if the last value is false or null, or if there is none
    #[arg(short, long)]
    pub(crate) exit_status: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc set state.json '{\"checked\":[]}'
  generate | tenure doc set state.json -
  tenure doc set state.json '{}' --if-version \"$v\"")]
pub(crate) struct SetArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// The new content, or - to read it from standard input
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) content: String,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc update counter.json '.n += 1' --init '{\"n\":0}'
  tenure doc update state.json '.seen += {($k): now}' --arg k a.ts --init '{}'
  tenure doc update state.json 'del(.draft)' --fence \"$TENURE_FENCE\"
  timeout 5s tenure doc update state.json \"$filter\"     a filter that may not end

The filter runs under the lock, for as long as it takes. Others wait as long as their own --wait allows,
and their error names the holder. Nothing is changed until the filter ends: killing it leaves the old
document.")]
pub(crate) struct UpdateArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// A jq filter with exactly one result, or - to read it from standard input
    pub(crate) filter: String,
    #[command(flatten)]
    pub(crate) named: FilterFlags,
    /// What the filter gets if there is no document yet
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) init: Option<String>,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc merge state.json '{\"draft\":null}'                     null removes a field
  tenure doc merge state.json '{\"checked\":[\"a\"],\"last\":7}' --union /checked --max /last
  tenure doc merge state.json '{\"checked\":{}}' --replace           an object for an array")]
pub(crate) struct MergeArgs {
    /// The document; a missing one counts as {}
    pub(crate) file: PathBuf,
    /// The patch, or - to read it from standard input
    #[arg(value_name = "JSON")]
    pub(crate) patch: String,
    /// Treat the array at this JSON Pointer as a set; may be repeated, as may the next four
    #[arg(long, value_name = "PTR")]
    pub(crate) union: Vec<String>,
    /// Keep the larger number
    #[arg(long, value_name = "PTR")]
    pub(crate) max: Vec<String>,
    /// Keep the smaller number
    #[arg(long, value_name = "PTR")]
    pub(crate) min: Vec<String>,
    /// Add the numbers
    #[arg(long, value_name = "PTR")]
    pub(crate) sum: Vec<String>,
    /// Replace the whole old value
    #[arg(long, value_name = "PTR")]
    pub(crate) last: Vec<String>,
    /// Allow the patch to replace an object or an array by a value of another kind; otherwise that is exit 3
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc patch state.json '[{\"op\":\"test\",\"path\":\"/n\",\"value\":1},
                                {\"op\":\"replace\",\"path\":\"/n\",\"value\":2}]'")]
pub(crate) struct PatchArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// The operations, or - to read them from standard input
    #[arg(value_name = "JSON")]
    pub(crate) operations: String,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  v=$(tenure doc version state.json)
  tenure doc set state.json \"$new\" --if-version \"$v\"")]
pub(crate) struct VersionArgs {
    /// The document
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc watch state.json .status
  tenure doc watch state.json --count 1 --wait 30s     the next change, or exit 75")]
pub(crate) struct WatchArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// A jq filter
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) named: FilterFlags,
    /// Print strings as they are, without quotes
    #[arg(short, long)]
    pub(crate) raw: bool,
    /// End after N changes
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) wait: NewsFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
One line for each difference: + added, - removed, ~ changed, with a JSON Pointer. Without a difference
nothing is printed. Versions that were written with --no-sync, or by other tools, are not kept.

Examples:
  tenure doc diff state.json
  tenure doc diff state.json --json | jq .changes
  tenure doc diff state.json --to 1")]
pub(crate) struct DiffArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// Compare with the version N durable changes ago (`doc history` lists them)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) to: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The version before the last durable change becomes the document again. The replaced version is kept, so a
second undo restores it.

Examples:
  tenure doc undo state.json
  tenure doc undo state.json --to 1           the same; with `doc history --keep N`, more than 1")]
pub(crate) struct UndoArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// Go back to the version N durable changes ago (`doc history` lists them)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) to: usize,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
tenure keeps the version of every document before its last durable change. With --keep N it keeps the last
N versions in .tenure/, until the next --keep. Each version takes its own size on the disk, and a durable
change of this document takes two or three more system calls.

Examples:
  tenure doc history state.json
  tenure doc history state.json --keep 10     from now on
  tenure doc history state.json --keep 1      like every other document")]
pub(crate) struct HistoryArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// Keep the last N versions from now on, 1 to 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) keep: Option<u16>,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doc restore state.json

restore publishes the newest intact version other than the document itself: the one before the last
change. The damaged file is kept, as .tenure/NAME.damaged.N.")]
pub(crate) struct RestoreArgs {
    /// The document
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) write: DocWriteFlags,
}
