//! Stores on real servers, for the tests of `--store`.

use tenure_engines::{Etcd, Postgres};

use crate::bench::{Bench, Tenure};

/// A directory, and an empty store. Sessions live for a minute: a busy machine is no failure.
pub(crate) struct Shelf {
    pub(crate) bench: Bench,
    pub(crate) url: String,
}

impl Shelf {
    /// In this store.
    pub(crate) fn at(url: &str) -> Self {
        let mark = if url.contains('?') { '&' } else { '?' };
        let shelf = Self { bench: Bench::new(), url: format!("{url}{mark}ttl=60s") };
        shelf.tenure(&["store", "init"]).run().ok();
        shelf
    }

    /// The same whose session lives for two seconds, the shortest time: for a hold that is to be lost.
    pub(crate) fn brief(&self, args: &[&str]) -> Tenure {
        self.bench.command(args).env("TENURE_STORE", self.url.replace("ttl=60s", "ttl=2s"))
    }

    /// A command whose environment names the store.
    pub(crate) fn tenure(&self, args: &[&str]) -> Tenure {
        self.bench.command(args).env("TENURE_STORE", &self.url)
    }
}

/// Runs a test on PostgreSQL and on etcd, each in a store of its own.
pub(crate) fn each(test: impl Fn(&Shelf)) {
    if Postgres::is_here() {
        test(&Shelf::at(&Postgres::shared().fresh_url()));
    }
    if Etcd::is_here() {
        test(&Shelf::at(&Etcd::shared().fresh_url()));
    }
}
