//! The command line as people type it. One file per noun; what several share is in `flags`.

mod agents;
mod claim;
mod collection;
mod copy;
mod direct;
mod doc;
mod file;
mod flags;
mod journal;
mod lab;
mod lease;
mod mcp;
mod store;
mod torture;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::agents::{
    AgentArg, HookCommand, HookGateArgs, HookWhoArgs, InitArgs, ScopeArg, SettingsCommand,
    SettingsMergeArgs, UntilArg,
};
pub(crate) use self::claim::{
    ClaimAddArgs, ClaimCommand, ClaimFailArgs, ClaimFlags, ClaimListArgs, ClaimNextArgs,
    ClaimPruneArgs, ClaimRenewArgs,
};
pub(crate) use self::collection::{CollectionCommand, KindArg, ListArgs, PruneArgs, SplitArgs};
pub(crate) use self::copy::{ContentArg, CopyArgs};
pub(crate) use self::doc::{
    DiffArgs, DocCommand, DocWriteFlags, FilterFlags, GetArgs, HistoryArgs, MergeArgs, PatchArgs,
    RestoreArgs, SetArgs, UndoArgs, UpdateArgs, VersionArgs, WatchArgs,
};
pub(crate) use self::file::{FileCommand, FileEditArgs, FilePutArgs, FileUndoArgs};
pub(crate) use self::flags::{TokenFlags, WaitFlag, WriteFlags};
pub(crate) use self::journal::{
    AppendArgs, CompactArgs, FollowArgs, JournalCommand, ReadArgs, RepairArgs, RotateArgs,
    VerifyArgs,
};
pub(crate) use self::lab::LabCli;
pub use self::lab::{BenchArgs, DemoArg, DemoArgs, LabCommand};
pub(crate) use self::lease::{
    AcquireArgs, CheckArgs, GrantFlags, HoldArgs, LeaseCommand, ReleaseArgs, RenewArgs, ShowArgs,
    TakeOverArgs,
};
pub(crate) use self::mcp::McpArgs;
pub(crate) use self::store::StoreCommand;
pub use self::torture::{ControlArg, LoadArg, PanicArg, ThingArg, TortureArgs};

const EXAMPLES: &str = "\
Examples:
  tenure run build.lock -- make                 one build at a time
  tenure doc update state.json '.n += 1' --init '{\"n\":0}'
  tenure journal append log.jsonl '{\"event\":\"start\"}'
  lease=$(tenure lease acquire session --ttl 60s) || exit; eval \"$lease\"
  tenure who                                    who holds what below this directory
  tenure --store postgres://user@host/db run deploy -- ./deploy.sh     one of many machines

Exit codes:
  0 done   1 failed   2 usage   3 condition not met   4 fenced, lease lost or compromised
  5 damaged data   6 the file system, store or format cannot give the guarantee   75 busy
  run, lease hold: the command's own; 126 not executable, 127 not found, 128+N killed by signal N

Stores:
  With --store, targets are names in a database that several machines share. The same commands work there,
  except those that need plain files (journal rotate, verify, repair and compact, doc undo and history,
  --lock-file, --shared): these are exit 6. A lock there belongs to the process that renews it. If that process
  dies, the lock is free when its time to live has passed (10 s, or ?ttl= in the URL), not at once.

Environment:
  TENURE_STORE    the store, if --store is not given. It may contain a password, which no output shows
  TENURE_WAIT     how long to wait if --wait is not given
  TENURE_TOKEN    the token of a lease, if neither --token nor --token-file is given
  TENURE_TARGET, TENURE_FENCE, TENURE_OUTER
                  set by `run` and `lease hold` for the commands that they run, so that these can write to
                  the held targets; the output of `lease acquire` sets them in a shell. TENURE_OUTER lists
                  the holds around the innermost one, one `FENCE PATH` (of a lease `FENCE:TOKEN PATH`) per
                  line, nearest first (`\\n`, `\\\\`, `\\s` and `\\xHH` stand for a newline, a backslash, a space, a byte).
                  For a target of a store, TENURE_TARGET is `STORE#NAME`, and TENURE_STORE is set to the whole URL";

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
    /// Where the targets are: postgres://..., etcd://..., or `files` [default: TENURE_STORE or local files]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// `--store` of a command that has no targets. It is read as everywhere, so that the error can say why it is refused,
/// but the help of the command does not show it.
fn refused_store() -> Arg {
    Arg::new("store").long("store").value_name("URL").global(true).hide(true)
}

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        direct::parse(words).map_or_else(|| Self::try_parse_from(words), Ok)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding the lock on a target, or on several
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
    /// Answer a hook of a coding agent
    #[command(subcommand, after_help = agents::HOOK_EXAMPLES, arg = refused_store())]
    Hook(HookCommand),
    /// Plug the hooks and the MCP server into the settings of an agent
    #[command(arg = refused_store())]
    Init(InitArgs),
    /// Change settings of other tools
    #[command(subcommand, after_help = agents::SETTINGS_EXAMPLES, arg = refused_store())]
    Settings(SettingsCommand),
    /// Read and replace any file, not only JSON
    #[command(subcommand, after_help = file::EXAMPLES)]
    File(FileCommand),
    /// Run a command once for many callers, who all get its output
    Once(OnceArgs),
    /// Claim tasks of a queue, each for one caller at a time
    #[command(subcommand, after_help = claim::EXAMPLES)]
    Claim(ClaimCommand),
    /// Show who holds what, since when, why, and who waits
    Who(WhoArgs),
    /// Check what this file system guarantees and what is left over
    Doctor(DoctorArgs),
    /// Prepare, upgrade and check a store on PostgreSQL or etcd
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(StoreCommand),
    /// Copy documents and journals between local files and a store
    Copy(CopyArgs),
    /// Serve agents: reservations, tasks, documents and journals over the Model Context Protocol
    Mcp(McpArgs),
    #[command(flatten)]
    Lab(LabCommand),
    /// Print shell completions
    #[command(arg = refused_store())]
    Completions(CompletionsArgs),
    /// Write manual pages into a directory
    #[command(arg = refused_store())]
    Man(ManArgs),
}

/// On local files the kernel holds the lock until the command ends, even if tenure itself is killed. In a store
/// (--store) the lock lasts as long as tenure renews it. If tenure dies, it is free when its time to live has passed,
/// although the command may still run. Exit code and signals of the command are passed on. With several targets,
/// TENURE_TARGET and TENURE_FENCE describe the first one, and TENURE_OUTER the others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure run deploy.lock -- ./deploy.sh
  tenure run --wait 0 --busy-code 0 nightly.lock -- ./nightly.sh     skip if it runs already
  tenure run --shared db.json -- ./report.sh                         together with other readers
  tenure run a.json b.json -- ./move.sh                              both or none, never a deadlock
  tenure run --lock-file /var/lock/app.lock app -- ./app             excludes flock(1) users too
  tenure run --store etcd://a:2379,b:2379 --end-on-loss deploy -- ./deploy.sh

If the lock is lost while the command runs, tenure says so at once on stderr, and the exit code is 4. With
--end-on-loss it also ends the command.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
    /// Share the lock with other readers; exclusive holders wait
    #[arg(long)]
    pub(crate) shared: bool,
    /// Allow N holders at a time (1 to 64) instead of one; the others wait in order. A holder of a slot gets no
    /// fence. A caller takes one of the first N slots, with its own N
    #[arg(long, value_name = "N", conflicts_with = "shared", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) slots: Option<u8>,
    /// What it is for, shown to waiters
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Do not pass the lock to the command: the lock ends with tenure, and background children do not keep it
    #[arg(long)]
    pub(crate) close: bool,
    /// If the lock is lost, terminate the command, and kill it after --grace
    #[arg(long)]
    pub(crate) end_on_loss: bool,
    /// How long the command has to end after the lock was lost
    #[arg(long, value_name = "D", default_value = "5s", value_parser = values::duration)]
    pub(crate) grace: Duration,
    /// Exit code if the deadline passes before the command starts
    #[arg(long, value_name = "N", default_value_t = 75)]
    pub(crate) busy_code: u8,
    /// The fence of the hold that this command is part of; the lock is not taken again
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
    /// Also lock exactly this file, to exclude programs that lock it
    #[arg(long, value_name = "PATH")]
    pub(crate) lock_file: Option<PathBuf>,
    /// Work on a network file system although its locks cannot be trusted
    #[arg(long)]
    pub(crate) allow_network: bool,
    /// Create missing directories above the target, closed to others (0700)
    #[arg(long)]
    pub(crate) parents: bool,
    /// What to lock: any path, whether or not the file exists. Its directory must exist. Several targets are locked
    /// all or none, with one deadline; the order in which they are named does not matter
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    pub(crate) targets: Vec<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Many processes ask, one runs the command; the others wait, and get its standard output and exit code while that
/// is fresh. A runner that dies gives its turn to the next one that waits, which runs the command again. Only the
/// output of a command that exits with 0 is stored (in TARGET~once, 0600, at most 1 MiB). If it fails, the callers
/// that are waiting get its exit code. Standard error is the runner's alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: the command's own, also for those who waited; 75 another process still runs it

Examples:
  tenure once token --ttl 50m -- ./refresh-token.sh     one refresh at a time
  tenure once deps --ttl 1h --wait 10m -- make deps     one install, the others wait")]
pub(crate) struct OnceArgs {
    /// How long the output is fresh: 500ms, 60s, 10m. It is erased at expiry by the next call
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
    /// What it is for, shown to those who wait
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Exit code if the deadline passes while another process runs the command
    #[arg(long, value_name = "N", default_value_t = 75)]
    pub(crate) busy_code: u8,
    /// Work on a network file system although its locks cannot be trusted
    #[arg(long)]
    pub(crate) allow_network: bool,
    /// Create missing directories above the target, closed to others (0700)
    #[arg(long)]
    pub(crate) parents: bool,
    /// What the result belongs to: any path, whether or not there is a file. It is not touched
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
  tenure who --store etcd://a    everything held in a store, on any machine

Only living processes are named: a lease outlives the process that acquired it. Times are local.
In a store, the lock of a dead process stays until its time to live has passed.

Exit codes: 0 everything was read, 1 something could not be read: it is named, and the rest is shown")]
pub(crate) struct WhoArgs {
    /// A target, or a directory whose targets are shown
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Also show free targets
    #[arg(long)]
    pub(crate) all: bool,
    /// Also show past events: holders that died, take-overs, adopted data, damage that was set aside
    #[arg(long)]
    pub(crate) events: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure doctor              look, change nothing
  tenure doctor --fix data   remove temporary files that no live operation can own
  tenure doctor --store postgres://user@host/db     the health of a server, and what is held there

Exit codes: 0 fine, 1 something could not be tested or read, 5 damaged data found,
  6 this file system or this server cannot be trusted")]
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
