//! `tenure store`.

use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure store init postgres://owner@host/db      creates the tables; needs the right to create them
  tenure store check etcd://a:2379,b:2379/team    version, health, replication, room

The URL has the form of --store: postgres://USER:PASSWORD@HOST[:PORT][,HOST2]/DATABASE[?schema=NAME&ttl=10s&...] or
etcd://[USER:PASSWORD@]HOST:PORT[,HOST2:PORT]/PREFIX[?ttl=10s&...], etcds:// with TLS. Other users can see the
arguments of a process: with a password, prefer TENURE_STORE.";

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Create what the store needs on the server; existing data stays
    Init(UrlArgs),
    /// Upgrade a store of an older version; it may then refuse older clients
    Upgrade(UrlArgs),
    /// Report the state of the server, and whether it endangers a guarantee
    Check(UrlArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure store init postgres://owner@host/db
  tenure store upgrade postgres://owner@host/db
  tenure store check --json etcd://a:2379/team

Exit codes: 0 done or fine, 1 the server cannot be reached, 6 `check` found that it endangers a guarantee")]
pub(crate) struct UrlArgs {
    /// The store [default: --store or TENURE_STORE]
    pub(crate) url: Option<String>,
}
