//! Flags that several commands share, and what they mean to the core.

use std::path::{Path, PathBuf};

use clap::Args;
use tenure::file::FileOptions;
use tenure::options::Durability;
use tenure::{Guard, Version, Wait, WriteOptions};

use super::values;
use crate::environment;
use crate::failure::{Failure, Result};
use crate::place::here;

/// How long to wait.
#[derive(Debug, Args)]
pub(crate) struct WaitFlag {
    /// How long to wait: 500ms, 10s, 2m, 0 or forever [default: TENURE_WAIT or 10s]
    #[arg(long = "wait", value_name = "D", value_parser = values::wait)]
    given: Option<Wait>,
}

impl WaitFlag {
    /// The flag, else the environment, else the default of the core.
    pub(crate) fn get(&self) -> Result<Wait> {
        if let Some(wait) = self.given {
            return Ok(wait);
        }
        Ok(environment::inherited().wait()?)
    }
}

/// How long to wait for a change. A watcher waits for ever by default.
#[derive(Debug, Args)]
pub(crate) struct NewsFlag {
    /// End after this long without a change: 500ms, 10s, 2m or forever [default: forever]
    #[arg(long = "wait", value_name = "D", value_parser = values::wait)]
    given: Option<Wait>,
}

impl NewsFlag {
    /// The flag, else for ever.
    pub(crate) fn get(&self) -> Wait {
        self.given.unwrap_or(Wait::Forever)
    }
}

/// How a document or journal is written.
#[derive(Debug, Args)]
pub(crate) struct WriteFlags {
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
    /// The fence of your hold on this file; the write is refused if it is no longer current
    #[arg(long, value_name = "N")]
    fence: Option<u64>,
    /// Write only if TARGET is still held with fence N; checked in the same step. May be repeated
    #[arg(long = "guard", value_name = "TARGET=N", value_parser = values::guard)]
    guards: Vec<Guard>,
    /// Return without waiting for the disk: survives any process crash, not a power loss
    #[arg(long)]
    no_sync: bool,
    /// An id for this operation: a repeated call with the same id does nothing (of the 4,096 newest ids of a file)
    #[arg(long, value_name = "ID")]
    op_id: Option<String>,
    /// What it is for, shown to waiters
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Also lock exactly this file, to exclude programs that lock it
    #[arg(long, value_name = "PATH")]
    lock_file: Option<PathBuf>,
    /// Work on a network file system although its locks cannot be trusted
    #[arg(long)]
    allow_network: bool,
}

impl WriteFlags {
    /// The options for a write to `path` (resolved), with the fence of the environment if this
    /// command runs below the holder of that very target.
    pub(crate) fn options(&self, path: &Path) -> Result<WriteOptions> {
        let fence = match self.fence {
            Some(fence) => Some(fence),
            None => environment::fence_of(path)?,
        };
        self.guards.iter().try_for_each(refuse_guard_on_file)?;
        let durability = if self.no_sync { Durability::NoSync } else { Durability::Durable };
        Ok(WriteOptions {
            wait: self.wait.get()?,
            fence,
            guards: self.guards.clone(),
            durability,
            operation: self.op_id.clone(),
            label: self.label.clone(),
            file: FileOptions {
                allow_network: self.allow_network,
                lock_file: self.lock_file.clone(),
                ..FileOptions::default()
            },
            ..WriteOptions::default()
        })
    }
}

/// A store knows nothing of a hold on a local file. To report it as `fenced` there would be misleading.
fn refuse_guard_on_file(guard: &Guard) -> Result<()> {
    let is_path = tenure::store::name_in(None, &guard.target).is_ok();
    let is_held = || environment::inherited().fence_of(&guard.target);
    if here().name().is_none() || !is_path || is_held()?.is_none() {
        return Ok(());
    }
    Err(Failure::usage("use the guard on", "it is a local file, not a target of the store")
        .at(&guard.target)
        .hint("guard with a target of the same store"))
}

/// What only documents have.
#[derive(Debug, Args)]
pub(crate) struct DocWriteFlags {
    #[command(flatten)]
    pub(crate) write: WriteFlags,
    /// Change it only if it still has this version
    #[arg(long, value_name = "V")]
    if_version: Option<Version>,
    /// Write a document that has several hard links; the other names keep the old content
    #[arg(long)]
    break_link: bool,
}

impl DocWriteFlags {
    /// The options for a write to the document at `path` (resolved).
    pub(crate) fn options(&self, path: &Path) -> Result<WriteOptions> {
        let mut options = self.write.options(path)?;
        options.if_version.clone_from(&self.if_version);
        options.file.break_link = self.break_link;
        Ok(options)
    }
}

/// Which lease is meant.
#[derive(Debug, Args)]
pub(crate) struct TokenFlags {
    /// The token of the lease [default: TENURE_TOKEN]. Other users can see arguments; prefer --token-file or TENURE_TOKEN
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// A file with the token, closed to others (0600)
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,
}
