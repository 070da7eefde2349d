//! The command line as people type it. One file per noun; what several share is in `flags`.

mod collection;
mod direct;
mod doc;
mod flags;
mod journal;
mod lab;
mod lease;
mod torture;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::collection::{CollectionCommand, KindArg, ListArgs, PruneArgs, SplitArgs};
pub(crate) use self::doc::{
    DiffArgs, DocCommand, DocWriteFlags, FilterFlags, GetArgs, HistoryArgs, MergeArgs, PatchArgs,
    RestoreArgs, SetArgs, UndoArgs, UpdateArgs, VersionArgs, WatchArgs,
};
pub(crate) use self::flags::{TokenFlags, WaitFlag, WriteFlags};
pub(crate) use self::journal::{
    AppendArgs, CompactArgs, FollowArgs, JournalCommand, ReadArgs, RepairArgs, RotateArgs,
    VerifyArgs,
};
pub(crate) use self::lab::LabCli;
pub use self::lab::{BenchArgs, DemoArgs, LabCommand};
pub(crate) use self::lease::{
    AcquireArgs, CheckArgs, GrantFlags, HoldArgs, LeaseCommand, ReleaseArgs, RenewArgs, ShowArgs,
    TakeOverArgs,
};
pub use self::torture::{ControlArg, LoadArg, PanicArg, ThingArg, TortureArgs};

const EXAMPLES: &str = "\
Examples:
  tenure run build.lock -- make                 one build at a time
  tenure doc update state.json '.n += 1' --init '{\"n\":0}'
  tenure journal append log.jsonl '{\"event\":\"start\"}'
  lease=$(tenure lease acquire session --ttl 60s) || exit; eval \"$lease\"
  tenure who                                    who holds what below this directory

Exit codes:
  0 done   1 failed   2 usage   3 condition not met   4 fenced, lease lost or compromised
  5 damaged data   6 the file system, store or format cannot give the guarantee   75 busy
  run, lease hold: the command's own; 126 not executable, 127 not found, 128+N killed by signal N

Environment:
  TENURE_WAIT     how long to wait if --wait is not given
  TENURE_TOKEN    the token of a lease, if neither --token nor --token-file is given
  TENURE_TARGET, TENURE_FENCE, TENURE_OUTER
                  set by `run` and `lease hold` for the commands below them, so that these can write
                  what is held for them; the output of `lease acquire` sets them in a shell. TENURE_OUTER lists
                  the holds around the innermost one, one `FENCE PATH` (of a lease `FENCE:TOKEN PATH`) per
                  line, nearest first (`\\n`, `\\\\`, `\\s` and `\\xHH` stand for a newline, a backslash, a space, a byte)";

/// Locks, documents, journals and leases on plain files that many processes can share
#[derive(Debug, Parser)]
#[command(name = "tenure", version, after_help = EXAMPLES)]
#[command(max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command knows.
#[derive(Debug, Args)]
pub(crate) struct GlobalFlags {
    /// Results as JSON on stdout, errors as one JSON object on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Keep everything on this engine instead of local files. This build has none, so it is not in the help
    #[arg(long, hide = true, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
}

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        direct::parse(words).map_or_else(|| Self::try_parse_from(words), Ok)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding the lock on a target
    Run(RunArgs),
    /// Read and change a JSON document
    #[command(subcommand, after_help = doc::EXAMPLES)]
    Doc(DocCommand),
    /// Append to and read a journal of lines
    #[command(subcommand, after_help = journal::EXAMPLES)]
    Journal(JournalCommand),
    /// Hold a target beyond the life of a process
    #[command(subcommand, after_help = lease::EXAMPLES)]
    Lease(LeaseCommand),
    /// Many documents or journals in one directory, one key each
    #[command(subcommand, after_help = collection::EXAMPLES)]
    Collection(CollectionCommand),
    /// Show who holds what, since when, why, and who waits
    Who(WhoArgs),
    /// Check what this file system guarantees and what is left over
    Doctor(DoctorArgs),
    #[command(flatten)]
    Lab(LabCommand),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Write manual pages into a directory
    Man(ManArgs),
}

/// The lock is the kernel's: it ends with the command, however that ends, and survives a kill of
/// tenure itself. Exit code and signals of the command are passed on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure run deploy.lock -- ./deploy.sh
  tenure run --wait 0 --busy-code 0 nightly.lock -- ./nightly.sh     skip if it runs already
  tenure run --shared db.json -- ./report.sh                         together with other readers
  tenure run --lock-file /var/lock/app.lock app -- ./app             excludes flock(1) users too")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
    /// Share it with other readers; exclusive holders wait
    #[arg(long)]
    pub(crate) shared: bool,
    /// What it is for, shown to those who wait
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Do not pass the lock to the command: it ends with tenure, and background children do not keep it
    #[arg(long)]
    pub(crate) close: bool,
    /// Exit code if the deadline passes before the command starts
    #[arg(long, value_name = "N", default_value_t = 75)]
    pub(crate) busy_code: u8,
    /// Prove a hold that this command is part of, instead of taking the lock
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
    /// Lock exactly this file as well, to exclude others that lock it
    #[arg(long, value_name = "PATH")]
    pub(crate) lock_file: Option<PathBuf>,
    /// Work on a network file system although its locks cannot be trusted
    #[arg(long)]
    pub(crate) allow_network: bool,
    /// Create missing directories above the target, closed to others (0700)
    #[arg(long)]
    pub(crate) parents: bool,
    /// What is locked: any path, whether or not there is a file. Its directory has to be there
    pub(crate) target: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure who                     everything held below this directory
  tenure who state.json          one target
  tenure who --all --json .      free ones too, for programs
  tenure who --events session    and what happened to it: deaths, take-overs, adopted and damaged data

Only living processes are named: a lease outlives the one that acquired it. Times are local.

Exit codes: 0 all was seen, 1 something could not be looked at: it is named, the rest is shown")]
pub(crate) struct WhoArgs {
    /// A target, or a directory whose targets are shown
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Show targets that are free, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Show what happened as well: holders that died, take-overs, adopted data, damage that was set aside
    #[arg(long)]
    pub(crate) events: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doctor              look, change nothing
  tenure doctor --fix data   remove temporary files that no live operation can own

Exit codes: 0 fine, 1 something could not be tried or looked at, 5 damaged data found,
  6 this file system cannot be trusted")]
pub(crate) struct DoctorArgs {
    /// The directory
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Remove left-overs of dead operations, and locks of names without a file that are provably unused
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure completions bash > /etc/bash_completion.d/tenure")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The directory, which must exist
    pub(crate) dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        super::Cli::command().debug_assert();
    }
}
