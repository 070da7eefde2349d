//! `tenure lease`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::flags::{TokenFlags, WaitFlag};
use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  lease=$(tenure lease acquire session --ttl 60s --owner me) || exit; eval \"$lease\"
  tenure doc update state.json '.turn += 1' --init '{}' --guard session=\"$TENURE_FENCE\"
  tenure lease release session

The output of `acquire` and `take-over` sets and exports TENURE_TARGET, TENURE_TOKEN and TENURE_FENCE. Leases
that the shell already has are kept in TENURE_OUTER; each command finds the lease of its own target.";

#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Acquire a lease; prints its token and fence
    Acquire(AcquireArgs),
    /// Extend a lease from now
    Renew(RenewArgs),
    /// End a lease
    Release(ReleaseArgs),
    /// Show who has the lease
    Show(ShowArgs),
    /// Report by exit code who has the lease: 0 this caller, 75 another, 4 it has expired, 3 it is free
    Check(CheckArgs),
    /// Take the lease from its holder, for a reason that is recorded
    TakeOver(TakeOverArgs),
    /// Run a command under a lease that is renewed while it runs
    Hold(HoldArgs),
}

/// Who wants a lease, and for how long.
#[derive(Debug, Args)]
pub(crate) struct GrantFlags {
    /// How long it lasts without a renewal: 500ms, 60s, 10m
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) ttl: Duration,
    /// Who it is for: a label, not a credential [default: the user's name ($LOGNAME, $USER), else `uid N`; a renewal keeps the old one]
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// What it is for, shown to waiters
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Create missing directories above the target, closed to others (0700)
    #[arg(long)]
    pub(crate) parents: bool,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
    /// Work on a network file system although its locks cannot be trusted
    #[arg(long)]
    pub(crate) allow_network: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease=$(tenure lease acquire session --ttl 60s) || exit; eval \"$lease\"
  tenure lease acquire session --ttl 10m --token-file ~/.session-token   again: renews, same fence
  tenure lease acquire a.rs b.rs --ttl 10m --token-file t     both or none, one token for all
  tenure lease acquire session --ttl 60s --json | jq -r .fence")]
pub(crate) struct AcquireArgs {
    /// What to lease: any path, whether or not the file exists. Its directory must exist. Several targets are leased
    /// all or none, with one deadline and one token
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    pub(crate) targets: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) grant: GrantFlags,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure lease renew session --token-file ~/.session-token
  TENURE_TOKEN=$token tenure lease renew session --ttl 5m")]
pub(crate) struct RenewArgs {
    /// What is leased; several if they have one token
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    pub(crate) targets: Vec<PathBuf>,
    /// A new time to live [default: the old one]
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure lease release session --token \"$TENURE_TOKEN\"
  tenure lease release a.rs b.rs --token-file t")]
pub(crate) struct ReleaseArgs {
    /// What is leased; several if they have one token
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    pub(crate) targets: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

/// The exit codes of `check`, and of `show --exit-status`.
const STATES: &str = "\
Exit codes: 0 this caller has it (its token is given, or in TENURE_TOKEN), 75 another caller has it,
  4 it has expired (its token can still renew it), 3 it is free";

#[derive(Debug, Args)]
#[command(after_help = format!("\
With --exit-status:
{STATES}

Examples:
  tenure lease show session --json | jq .expires_in_ms
  tenure lease show session"))]
pub(crate) struct ShowArgs {
    /// What is leased
    pub(crate) target: PathBuf,
    /// Exit with the code of `lease check`
    #[arg(short, long)]
    pub(crate) exit_status: bool,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Takes no lock, changes nothing and prints nothing, except errors. The answer may be outdated at once; to be
safe, write with --guard, which checks the lease in the same step.

{STATES}

Examples:
  tenure lease check session --token-file ~/.session-token && echo mine
  tenure lease check session || echo \"not mine: $?\""))]
pub(crate) struct CheckArgs {
    /// What is leased
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure lease take-over session --ttl 60s --reason 'the agent hangs'")]
pub(crate) struct TakeOverArgs {
    /// What is leased
    pub(crate) target: PathBuf,
    /// Why; `tenure who --events` shows it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) grant: GrantFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure lease hold session --ttl 30s -- ./agent
  tenure lease hold session --ttl 30s --grace 10s -- ./agent   time to end after the lease is lost
  tenure lease hold session --ttl 30s --store etcd://a:2379 -- ./agent")]
pub(crate) struct HoldArgs {
    /// What is leased
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) grant: GrantFlags,
    /// Exit code if the deadline passes before the command starts
    #[arg(long, value_name = "N", default_value_t = 75)]
    pub(crate) busy_code: u8,
    /// If the lease is lost, the command is terminated, and killed after this time
    #[arg(long, value_name = "D", default_value = "5s", value_parser = values::duration)]
    pub(crate) grace: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
