//! `tenure copy`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::flags::WaitFlag;

/// Copies content only: no leases, earlier versions or operation ids. The entries of a journal keep their order, but
/// get new numbers.
#[derive(Debug, Args)]
#[command(after_help = "\
FROM and TO are paths, or targets of a store: URL#NAME, or #NAME in the store of --store or TENURE_STORE. A name that
ends with a slash, or a directory, is a collection: all its documents (KEY.json) and journals (KEY.jsonl), not what
is in directories below it.

Every document and every entry is read back and compared. A copy that was interrupted is continued by the same
command: equal documents are skipped, and a journal goes on behind the last entry that was copied. A document
or journal that is there with other content stays as it is (exit 3), unless --overwrite is given for documents. Writers of
FROM should have stopped: what they change meanwhile is copied by the next run.

Examples:
  TENURE_STORE=postgres://user:password@host/db tenure copy sessions/ '#sessions/'
  tenure copy state.json 'etcd://a:2379/team#state.json'
  tenure copy 'etcd://a:2379/team#log.jsonl' log.jsonl
  tenure copy --content document 'etcd://a:2379/team#plan' plan      a name without .json or .jsonl

Exit codes: 0 everything was copied or is equal, 3 a target at TO has other content, else the code of the
  first failure")]
pub(crate) struct CopyArgs {
    /// What is copied
    pub(crate) from: OsString,
    /// Where to
    pub(crate) to: OsString,
    /// What a single target is [default: by its name, .json or .jsonl]
    #[arg(long, value_enum)]
    pub(crate) content: Option<ContentArg>,
    /// Replace documents at TO that have other content
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}

/// What a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContentArg {
    /// JSON, one value
    Document,
    /// Lines
    Journal,
}
