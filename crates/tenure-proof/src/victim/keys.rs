//! Keys of collections: set, removed and pruned.
//!
//! A removed key has a unique name that is never used again, so if it is found after its removal
//! was acknowledged, it has reappeared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::options::{CollectionKind, Prune};
use tenure::{Collection, Lock, LockOptions, Result};

use super::ack::Ack;
use super::work::{PATIENCE, document, number_of, patient};

/// Keys that are set, and removed by their names.
const KEYS: &str = "keys";
/// Keys that are pruned.
const OLD: &str = "old";
/// A key that is locked and removed again and again.
const TURN: &str = "turn";

/// The two collections of a directory.
pub(super) struct Keys {
    lasting: Collection,
    old: Collection,
    fs: Arc<dyn Fs>,
}

impl Keys {
    pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let open = |name: &str| Collection::open_on(fs, &dir.join(name), CollectionKind::Documents);
        Ok(Self { lasting: open(KEYS)?, old: open(OLD)?, fs: fs.clone() })
    }

    /// The writer's own key gets the next number.
    pub(super) fn set(&self, writer: u64, step: u64) -> Result<Ack> {
        let number = step + 1;
        let own = self.lasting.document(&format!("kept-{writer}"))?;
        own.set(&document(number), &patient())?;
        Ok(Ack::Key { writer, number })
    }

    /// A key is set and removed; another one is locked before it is removed, and the next lock on
    /// it has a larger fence.
    pub(super) fn remove(&self, writer: u64, step: u64) -> Result<[Ack; 2]> {
        let durable = patient();
        let turn = self.lasting.path_of(TURN)?;
        let lock_options = LockOptions { wait: PATIENCE, ..LockOptions::default() };
        let held = Lock::open_on(&self.fs, &turn)?.acquire(&lock_options)?;
        let fence = held.publish_fence();
        held.release()?;
        self.lasting.document(TURN)?.set(&document(step), &durable)?;
        self.lasting.remove(TURN, &durable)?;
        let own = gone_name(writer, step);
        self.lasting.document(&own)?.set(&document(step), &durable)?;
        self.lasting.remove(&own, &durable)?;
        Ok([Ack::KeyFence(fence), Ack::Gone { writer, step }])
    }

    /// A key is set, and every old key without a holder is pruned.
    pub(super) fn prune(&self, writer: u64, step: u64) -> Result<Vec<Ack>> {
        let durable = patient();
        self.old.document(&gone_name(writer, step))?.set(&document(step), &durable)?;
        let pruned = self.old.prune(&Prune { max_count: Some(0), ..Prune::default() }, &durable)?;
        let ack = |key: &String| {
            let (writer, step) = numbers_of(key)?;
            Some(Ack::Pruned { writer, step })
        };
        Ok(pruned.removed.iter().filter_map(ack).collect())
    }
}

fn gone_name(writer: u64, step: u64) -> String {
    format!("gone-{writer}-{step}")
}

fn numbers_of(key: &str) -> Option<(u64, u64)> {
    let (writer, step) = key.strip_prefix("gone-")?.split_once('-')?;
    Some((writer.parse().ok()?, step.parse().ok()?))
}

/// What the acknowledgements promise about keys.
#[derive(Debug, Default)]
pub(super) struct PromisedKeys {
    /// The number of each writer's own key.
    kept: BTreeMap<u64, u64>,
    gone: BTreeSet<(u64, u64)>,
    pruned: BTreeSet<(u64, u64)>,
}

impl PromisedKeys {
    pub(super) fn add(&mut self, ack: Ack) {
        match ack {
            Ack::Key { writer, number } => {
                let kept = self.kept.entry(writer).or_default();
                *kept = number.max(*kept);
            }
            Ack::Gone { writer, step } => _ = self.gone.insert((writer, step)),
            Ack::Pruned { writer, step } => _ = self.pruned.insert((writer, step)),
            _ => {}
        }
    }

    /// Keys are whole, those that were set are there, and removed ones stay removed (G8).
    pub(super) fn check(&self, fs: &Arc<dyn Fs>, dir: &Path) -> std::result::Result<(), String> {
        let all = Keys::open(fs, dir).map_err(|error| error.to_string())?;
        for (name, keys, gone) in [(KEYS, &all.lasting, &self.gone), (OLD, &all.old, &self.pruned)]
        {
            let failed = |error: tenure::Error| format!("{name}: {error}");
            let mut found = BTreeMap::new();
            for key in keys.keys().map_err(failed)? {
                let Some(read) = keys.document(&key).and_then(|it| it.read()).map_err(failed)?
                else {
                    continue;
                };
                let number = number_of(&read.value);
                let number = number.ok_or_else(|| format!("{name}: {key} is a mixture"))?;
                if numbers_of(&key).is_some_and(|of| gone.contains(&of)) {
                    return Err(format!("{name}: {key} has come back"));
                }
                found.insert(key, number);
            }
            for (writer, number) in self.kept.iter().filter(|_| name == KEYS) {
                let there = found.get(&format!("kept-{writer}"));
                if there.is_none_or(|there| there < number) {
                    return Err(format!(
                        "{name}: {number} of {writer} was set, {there:?} is there"
                    ));
                }
            }
        }
        Ok(())
    }
}
