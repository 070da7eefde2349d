//! `tenure demo`, `torture` and `bench` as people type them. Another program, `tenure-lab`, does them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    /// Race the lock and save protocols of real tools, live, against tenure, and count
    Demo(DemoArgs),
    /// Torture the guarantees on this file system, or a save program of your own
    Torture(Box<TortureArgs>),
    /// Measure what the operations cost on the disk of a directory, beside the bare system calls
    Bench(BenchArgs),
}

/// What `tenure demo` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure demo
  tenure demo --quick --seed 7     the same load and the same kills, in the same order")]
pub struct DemoArgs {
    /// A few seconds instead of some twenty
    #[arg(long)]
    pub quick: bool,
    /// The plan: what is written, and who is killed when. How processes overlap is up to the machine, so the
    /// counts differ a little [default: a new plan]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Takes about ten seconds, in a directory of its own that is removed at the end. The floor of a row is
/// the system calls that no program could do it without: lock, read, write, sync, unlock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure bench                   this directory
  tenure bench /mnt/data --json  another disk, for programs")]
pub struct BenchArgs {
    /// The directory; as much as 50 MB are written there
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// A second instead of ten, with rougher figures
    #[arg(long)]
    pub quick: bool,
}
