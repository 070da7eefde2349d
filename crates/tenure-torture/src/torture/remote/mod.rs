//! `tenure torture --store URL`: processes that share a store are killed and paused, and what they were answered is
//! judged.
//!
//! `worker` is what they do, `round` the parent, `judge` finds what is wrong. The server itself is left alone.
//!
//! # Invariants
//!
//! 1. All names are below one fresh name, and are removed at the end, or that name is reported. A run that is killed
//!    leaves them.
//! 2. A round has its own objects. A request of a killed process may reach the server after the round: it changes
//!    objects that are not used any more.
//! 3. The URL may contain a password. Workers get it in their environment; it is printed nowhere.

mod judge;
mod round;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::options::CollectionKind;
use tenure::store::Store;
use tenure::{Collection, Lease, LeaseOptions, Lock, LockOptions, Wait, WriteOptions};
use tenure_cli::{ControlArg, Failure, Progress, Result, ThingArg, TortureArgs};
use tenure_remote::url::Url;

use self::round::Rounds;
use super::finding::Thing;
use super::verdict::Verdict;
use super::{Limit, Setup, blank};
use crate::demo::{Dice, thousands};
use crate::history::objects::patiently;

pub(super) use self::worker::{STORE, run as work};

/// The variable that has the URL for workers.
pub(super) const URL: &str = "TENURE_STORE";

/// What a store has. A collection there is the documents in it.
const THINGS: [Thing; 4] = [Thing::Lock, Thing::Lease, Thing::Document, Thing::Journal];

/// A short time to live, unless the URL has one: a run of a minute should see many of them end.
const TTL: &str = "ttl=2s";

/// A server that was restarted meanwhile answers again within this time.
const RECOVERY: Duration = Duration::from_secs(45);

/// Where the names of a run are.
#[derive(Debug)]
struct Ground {
    store: Arc<dyn Store>,
    /// For workers, with a time to live.
    url: String,
    ttl: Duration,
    dir: PathBuf,
}

/// Refuses options that mean nothing on a store.
pub(super) fn check(args: &TortureArgs) -> Result<()> {
    let file_only = [
        (args.dir != Path::new("."), "a directory"),
        (args.command.is_some(), "--command"),
        (args.history.is_some(), "--history"),
        (!args.load.is_empty(), "--load"),
        (args.leaky.is_some(), "--leaky"),
        (args.panics.is_some(), "--panics"),
        (args.ops.contains(&ThingArg::Collection), "--ops collection"),
        (args.control.is_some_and(|name| name != ControlArg::Naive), "this --control"),
    ];
    match file_only.into_iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => {
            let detail = format!("{option} is for local files, not for a store");
            Err(Failure::usage("torture", detail)
                .hint("leave it out, or torture local files: --store files"))
        }
    }
}

/// Runs rounds until the limit.
pub(super) fn run(
    setup: &Setup,
    is_naive: bool,
    limit: &Limit,
    scratch: &Path,
    url: &str,
) -> Result<Verdict> {
    let ground = Ground::new(tenure_cli::here().store(), url)?;
    let mut things: Vec<_> = setup.things.clone();
    things.retain(|thing| THINGS.contains(thing));
    let progress = Progress::new();
    let mut rounds = Rounds::new(setup, &ground, limit, scratch, things, is_naive);
    let ran = rounds.run(|operations, kills| {
        let text = format!("{} operations, {} kills", thousands(operations), thousands(kills));
        progress.show(limit.part(operations), &text);
    });
    // Whatever went wrong, the names are removed; a store that never worked has none.
    let left = (ran.is_ok() || !rounds.done.is_empty()) && ground.remove();
    drop(progress);
    ran?;
    let mut verdict = blank(setup, limit, rounds.blows);
    verdict.operations = rounds.things.iter().map(|thing| (*thing, 0)).collect::<BTreeMap<_, _>>();
    verdict.operations.extend(rounds.done);
    (verdict.reads, verdict.refused) = (rounds.reads, rounds.refused);
    (verdict.findings, verdict.unjudged) = (rounds.judge.findings, rounds.judge.unjudged);
    verdict.store = tenure_cli::here().name().map(str::to_owned);
    verdict.left = left.then(|| ground.dir.to_string_lossy().into_owned());
    Ok(verdict)
}

impl Ground {
    fn new(store: Arc<dyn Store>, url: &str) -> Result<Self> {
        let has_ttl = url.split_once('?').is_some_and(|(_, query)| {
            query.split('&').any(|parameter| parameter.starts_with("ttl="))
        });
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = if has_ttl { url.to_owned() } else { format!("{url}{joint}{TTL}") };
        let ttl = Url::parse(&url)?.ttl;
        let name = format!("/tenure-torture-{}-{:08x}", std::process::id(), Dice::fresh_seed());
        Ok(Self { store, url, ttl, dir: name.into() })
    }

    /// Removes all names; returns whether some are left.
    fn remove(&self) -> bool {
        // The hold of a killed process lasts until its time is over.
        let options = WriteOptions { wait: Wait::For(2 * self.ttl), ..WriteOptions::default() };
        let remove = |kind| {
            let collection = Collection::on(&self.store, &self.dir, kind)?;
            // A target that was only held is not listed.
            let held = worker::HELD.map(str::to_owned);
            for key in collection.keys()?.into_iter().chain(held) {
                collection.remove(&key, &options)?;
            }
            Ok(())
        };
        let kinds = [CollectionKind::Documents, CollectionKind::Journals];
        let is_held = patiently(RECOVERY, || self.settle()).is_err();
        is_held || kinds.into_iter().any(|kind| patiently(RECOVERY, || remove(kind)).is_err())
    }

    /// Waits until no killed process holds the lock or the lease, or waits for them: a target that is held stays.
    fn settle(&self) -> tenure::Result<()> {
        let (store, wait) = (self.store.as_ref(), Wait::For(4 * self.ttl));
        let options = LockOptions { wait, ..LockOptions::default() };
        Lock::on(store, self.dir.join(worker::LOCKED))?.acquire(&options)?.release()?;
        let (owner, ttl) = ("tenure torture".to_owned(), worker::LEASE);
        let options = LeaseOptions { owner, ttl, wait, ..LeaseOptions::default() };
        let lease = Lease::on(store, self.dir.join(worker::LEASED))?;
        lease.release(&lease.acquire(&options)?.token)
    }

    /// Removes the objects of a round. Best effort: the end removes all.
    fn remove_round(&self, tag: &str) {
        for kind in [CollectionKind::Documents, CollectionKind::Journals] {
            let Ok(collection) = Collection::on(&self.store, &self.dir, kind) else { continue };
            let keys = collection.keys().unwrap_or_default();
            for key in keys.iter().filter(|key| key.ends_with(tag)) {
                let _ = collection.remove(key, &WriteOptions::default());
            }
        }
    }
}
