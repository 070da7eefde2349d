//! Which cluster this is, and which epoch of the store: what keeps fences growing after a snapshot was restored.
//!
//! The key `meta` names the cluster that the store was last used on. A restored snapshot runs as another cluster: its
//! key names the one before, and the first client that sees the difference raises the epoch. A running client also
//! sees a revision that fell, as after a rollback of the disks below a cluster.
//!
//! # Invariants
//!
//! 1. The epoch only grows. A write that depends on a fence or a version compares that `meta` is unchanged.
//! 2. A revision stays below 2^40 and an epoch below 2^13, so that a fence stays below 2^53.
//!
//! What cannot be seen: a rollback of all disks to an earlier state of the same cluster while no client runs. And the
//! one write of a client that was running through a restore: it is refused or reported as unclear, but may be done.
//! `tenure store init` after a restore, before clients start, closes that gap. `etcdutl snapshot restore
//! --bump-revision` closes both.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tenure::{Error, ErrorKind, Fence, Result, Version};

use super::EtcdEngine;
use super::txn::{Done, Txn, int, then, when};
use crate::session::locked;

/// The format of what is kept. A store with a greater one is of a newer tenure.
const FORMAT: u64 = 1;
/// Where the epoch begins in a number.
const EPOCH_SHIFT: u32 = 40;
const EPOCH_MAX: u64 = 1 << 13;
/// The key is written by every client that finds it missing: one of them wins soon.
const ATTEMPTS: usize = 16;

/// The cluster and the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct World {
    cluster: u64,
    pub(super) epoch: u64,
    /// The revision of the key; 0 if it was never written.
    pub(super) written: u64,
    /// The key names this cluster and this epoch.
    is_settled: bool,
}

impl World {
    /// The fence, or the number of a version, that a revision has.
    pub(super) fn number(&self, revision: u64) -> Fence {
        if revision == 0 { 0 } else { (self.epoch << EPOCH_SHIFT) + revision }
    }

    pub(super) fn version(&self, revision: u64) -> Version {
        Version::new(self.number(revision).to_string())
    }

    /// The revision of a fence; `None` if it is of another epoch.
    pub(super) fn revision(&self, fence: Fence) -> Option<u64> {
        (fence >> EPOCH_SHIFT == self.epoch).then_some(fence & ((1 << EPOCH_SHIFT) - 1))
    }

    /// The revision of a version; `None` if it is of another epoch, or not of this store.
    pub(super) fn revision_of(&self, version: &Version) -> Option<u64> {
        self.revision(version.to_string().parse().ok()?).filter(|revision| *revision > 0)
    }

    /// The first number of a journal in this epoch.
    pub(super) fn first_number(&self) -> u64 {
        (self.epoch << EPOCH_SHIFT) + 1
    }
}

impl EtcdEngine {
    /// The cluster and the epoch, for a caller that only reads.
    pub(super) fn world(&self) -> Result<World> {
        let known = *locked(&self.here().world);
        if let Some(world) = known {
            return Ok(world);
        }
        let (world, _) = self.find_world(None)?;
        *locked(&self.here().world) = Some(world);
        Ok(world)
    }

    /// The same for a caller that writes: the key is there, and names this cluster.
    pub(super) fn settled_world(&self) -> Result<World> {
        Ok(self.settled_world_and(None)?.0)
    }

    /// The same. If the server has to be asked, this key is read as well, and is the second of the answer: a fresh process
    /// saves a request.
    pub(super) fn settled_world_and(&self, key: Option<&[u8]>) -> Result<(World, Option<Done>)> {
        let known = *locked(&self.here().world);
        if let Some(world) = known.filter(|world| world.is_settled) {
            return Ok((world, None));
        }
        for _ in 0..ATTEMPTS {
            let (world, done) = self.find_world(key)?;
            if world.is_settled {
                *locked(&self.here().world) = Some(world);
                return Ok((world, Some(done)));
            }
            self.write_world(world)?;
        }
        Err(Error::new(ErrorKind::Io, "open the store", "others keep changing its key `meta`")
            .hint("check that all addresses in the URL belong to one cluster"))
    }

    /// Reads the key, and another one. If it names another cluster, the epoch is the next one already.
    fn find_world(&self, another: Option<&[u8]>) -> Result<(World, Done)> {
        let step = "open the store";
        let keys = std::iter::once(self.layout.meta()).chain(another.map(<[u8]>::to_vec));
        let txn = Txn::reading(keys.map(|key| then::get(&key)).collect());
        let answer = self.client.ask(step, "/v3/kv/txn", &txn.to_json());
        let body = answer.map_err(|failure| failure.error(step))?.body;
        let cluster = int(&body["header"]["cluster_id"]);
        self.here().newest.store(int(&body["header"]["revision"]), Ordering::SeqCst);
        let done = Done::read(body);
        let Some(kv) = done.key(0) else {
            return Ok((World { cluster, epoch: 0, written: 0, is_settled: false }, done));
        };
        let value: Value = serde_json::from_slice(&kv.value).unwrap_or_default();
        if int(&value["format"]) > FORMAT {
            let detail = format!("{}: it was written by a newer tenure", self.client.name);
            return Err(Error::new(ErrorKind::NewerFormat, step, detail).hint("upgrade tenure"));
        }
        if int(&value["format"]) == 0 {
            let detail =
                format!("{}: the key `meta` below its prefix is not tenure's", self.client.name);
            return Err(Error::new(ErrorKind::Invalid, step, detail).hint("choose another prefix"));
        }
        let same = int(&value["cluster"]) == cluster;
        let epoch = int(&value["epoch"]) + u64::from(!same);
        if epoch >= EPOCH_MAX {
            let detail = format!("{}: it was restored too often", self.client.name);
            return Err(Error::new(ErrorKind::Unsupported, step, detail)
                .hint("copy it to a store with another prefix"));
        }
        Ok((World { cluster, epoch, written: kv.written, is_settled: same }, done))
    }

    /// Writes the key, if it still is as it was read.
    fn write_world(&self, world: World) -> Result<()> {
        let step = "open the store";
        let meta = self.layout.meta();
        let value = json!({
            "format": FORMAT, "cluster": world.cluster.to_string(), "epoch": world.epoch,
        });
        let txn = Txn {
            compare: vec![when::written(&meta, world.written)],
            then: vec![then::put(&meta, value.to_string().as_bytes())],
            otherwise: Vec::new(),
        };
        let answer = self.client.ask(step, "/v3/kv/txn", &txn.to_json());
        answer.map(drop).map_err(|failure| failure.error(step))
    }

    /// Forgets what was known: `meta` has changed.
    pub(super) fn forget_world(&self) {
        *locked(&self.here().world) = None;
    }

    /// Refuses an answer of another cluster than before, or of an earlier state of it.
    pub(super) fn check_cluster(
        &self,
        step: &'static str,
        cluster: u64,
        before: u64,
        revision: u64,
    ) -> Result<()> {
        let Some(world) = *locked(&self.here().world) else { return Ok(()) };
        let fell = revision < before;
        if world.cluster == cluster && !fell {
            return Ok(());
        }
        self.forget_world();
        if fell && world.cluster == cluster {
            // The disks were rolled back: `meta` does not show it, so the next epoch is written here.
            let (found, _) = self.find_world(None)?;
            self.write_world(World { epoch: found.epoch.max(world.epoch) + 1, ..found })?;
        }
        let detail = format!(
            "{}: the cluster was restored from an earlier state, or replaced",
            self.client.name
        );
        Err(Error::new(ErrorKind::Compromised, step, detail)
            .hint("all earlier holds are lost: check what is missing, then start again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_later_epoch_are_larger() {
        let world = |epoch| World { cluster: 1, epoch, written: 1, is_settled: true };
        let (old, new) = (world(0), world(1));
        assert!(new.number(1) > old.number((1 << EPOCH_SHIFT) - 1));
        assert!(world(EPOCH_MAX - 1).number((1 << EPOCH_SHIFT) - 1) < 1 << 53);
        assert_eq!(new.revision(new.number(7)), Some(7));
        assert_eq!(new.revision(old.number(7)), None);
        assert_eq!(new.revision_of(&new.version(7)), Some(7));
        for text in ["0", "1-abc", "x"] {
            assert_eq!(old.revision_of(&Version::new(text)), None, "{text}");
        }
        assert_eq!(old.number(0), 0);
    }
}
