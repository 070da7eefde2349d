//! `tenure demo`, `torture` and `bench` as people type them. Another program, `tenure-lab`, does them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::GlobalFlags;
use super::torture::TortureArgs;

/// The command line of `tenure-lab`: a part of that of `tenure`, in the same words.
#[derive(Debug, Parser)]
#[command(name = "tenure", bin_name = "tenure", version)]
#[command(max_term_width = 100, arg_required_else_help = false)]
pub(crate) struct LabCli {
    #[command(flatten)]
    pub(crate) flags: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// What `tenure-lab` does for `tenure`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Race the lock and save protocols of real tools against tenure, and count failures
    #[command(arg = super::refused_store())]
    Demo(DemoArgs),
    /// Torture the guarantees on this file system or in a store, or a save program of your own
    Torture(Box<TortureArgs>),
    /// Measure what the operations cost on the disk of a directory, beside the bare system calls
    Bench(BenchArgs),
}

/// What `tenure demo` can show besides the protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoArg {
    /// Three agents that share a repository, through real hooks and MCP calls; no model is asked
    Agents,
}

/// The arguments of `tenure demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure demo
  tenure demo agents               three agents on one repository, without tenure and with it
  tenure demo --quick --seed 7     the same load and the same kills, in the same order")]
pub struct DemoArgs {
    /// What to show instead of the protocols
    #[arg(value_enum)]
    pub what: Option<DemoArg>,
    /// Run for a few seconds instead of about twenty
    #[arg(long)]
    pub quick: bool,
    /// The plan: what is written, and which process is killed when. How processes overlap depends on the machine, so
    /// the counts differ a little [default: a new plan]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Takes about ten seconds, in a directory of its own that is removed at the end. The floor of a row is
/// the cost of the system calls that every program would need: lock, read, write, sync, unlock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure bench                   this directory
  tenure bench /mnt/data --json  another disk, for programs
  tenure bench --store etcd://a  a store, without a floor; what was written there is removed")]
pub struct BenchArgs {
    /// The directory; up to 50 MB are written there
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Run for one second instead of ten, with rougher figures
    #[arg(long)]
    pub quick: bool,
}
