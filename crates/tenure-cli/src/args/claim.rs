//! `tenure claim`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure::Wait;

use super::doc::FilterFlags;
use super::flags::{TokenFlags, WaitFlag};
use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure claim add tasks '{\"build\":\"a\"}'
  tenure claim next tasks --owner me --ttl 10m --wait 1h --json
  tenure claim list tasks

A queue is a directory with one document per task. A task is given to one worker at a time, the oldest first.
A claim is a lease: when it expires, its task returns to the queue. So a task runs at least once, and
is completed exactly once: a worker that lost its claim gets exit 4 from `done`, and its writes with
`--guard TARGET=FENCE` are refused.";

#[derive(Debug, Subcommand)]
pub(crate) enum ClaimCommand {
    /// Add a task; prints its id
    Add(ClaimAddArgs),
    /// Claim the oldest open task, as one JSON object
    Next(ClaimNextArgs),
    /// Complete a claimed task
    Done(ClaimDoneArgs),
    /// Return a claimed task to the queue, or set it aside
    Fail(ClaimFailArgs),
    /// Extend a claim from now
    Renew(ClaimRenewArgs),
    /// Show every task, and who has it
    List(ClaimListArgs),
    /// Remove tasks that are done or set aside
    Prune(ClaimPruneArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure claim add tasks '{\"build\":\"a\"}'
  tenure claim add tasks '{\"build\":\"a\"}' --id build-a     again: nothing is added
  generate | tenure claim add tasks - --max-attempts 3")]
pub(crate) struct ClaimAddArgs {
    /// The queue: a directory, created if missing
    pub(crate) queue: PathBuf,
    /// The task: any JSON, or - to read it from standard input
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) task: String,
    /// Its id. If there is a task with this id, done or not, nothing is added
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Set it aside when N attempts have failed or expired [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_attempts: Option<u64>,
    /// Return without waiting for the disk: survives any process crash, not a power loss
    #[arg(long)]
    pub(crate) no_sync: bool,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints {id, task, target, token, fence, attempt, ttl_ms}. Keep the token secret. Use `target` and `fence` with
--guard: such writes are refused once the claim is lost.

Exit codes: 0 a task was claimed, 3 there is none to claim

Examples:
  tenure claim next tasks --owner me --ttl 10m
  tenure claim next tasks --owner me --ttl 10m --filter '.kind == \"build\"'
  tenure claim next tasks --owner me --ttl 10m --wait 5s || echo \"nothing to do\"")]
pub(crate) struct ClaimNextArgs {
    /// The queue
    pub(crate) queue: PathBuf,
    /// Who wants it: a label, not a credential [default: the user's name ($LOGNAME, $USER), else `uid N`]
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// How long the claim lasts without a renewal: 500ms, 60s, 10m
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) ttl: Duration,
    /// How long to wait for a task: 500ms, 10s, 2m, 0 or forever
    #[arg(long, value_name = "D", value_parser = values::wait, default_value = "0")]
    pub(crate) wait: Wait,
    /// Claim only a task for which this jq filter is true
    #[arg(long, value_name = "JQ")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) named: FilterFlags,
}

/// Which claim is meant.
#[derive(Debug, Args)]
pub(crate) struct ClaimFlags {
    /// The queue
    pub(crate) queue: PathBuf,
    /// The id of the task
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done (even if this claim had already completed it), 4 the claim was lost: stop

Examples:
  tenure claim done tasks \"$task_id\" --token \"$task_token\"")]
pub(crate) struct ClaimDoneArgs {
    #[command(flatten)]
    pub(crate) claim: ClaimFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 it is back in the queue or set aside, 4 the claim was lost: stop

Examples:
  tenure claim fail tasks \"$task_id\" --token \"$task_token\" --delay 30s
  tenure claim fail tasks \"$task_id\" --token \"$task_token\" --max-attempts 5 --reason 'no network'")]
pub(crate) struct ClaimFailArgs {
    #[command(flatten)]
    pub(crate) claim: ClaimFlags,
    /// Do not offer it again before this time has passed
    #[arg(long, value_name = "D", default_value = "0", value_parser = values::duration)]
    pub(crate) delay: Duration,
    /// Set it aside if it has had N attempts [default: the limit of `claim add`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_attempts: Option<u64>,
    /// Why; `claim list` shows it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure claim renew tasks \"$task_id\" --token \"$task_token\" --ttl 10m")]
pub(crate) struct ClaimRenewArgs {
    #[command(flatten)]
    pub(crate) claim: ClaimFlags,
    /// A new time to live [default: the old one]
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure claim list tasks
  tenure claim list tasks --json | jq '.tasks[] | select(.state == \"set_aside\")'")]
pub(crate) struct ClaimListArgs {
    /// The queue
    pub(crate) queue: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure claim prune tasks --max-age 7d")]
pub(crate) struct ClaimPruneArgs {
    /// The queue
    pub(crate) queue: PathBuf,
    /// Keep tasks that were added within this time
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub(crate) max_age: Duration,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}
