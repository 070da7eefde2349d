//! Power loss: which of the unsynced changes are on the disk afterwards.
//!
//! # Rules
//!
//! 1. What was synced stays. Of the rest any part may be there: each write whole, torn, with holes,
//!    as zeros, or not at all; each truncation or not.
//! 2. Entry operations are kept or lost one by one, but an operation on a name is kept only if every
//!    earlier pending operation on that name is kept. Real file systems keep at least this order.
//! 3. An operation on two names (rename, exchange) is kept or lost as one, and carries the inode:
//!    replaying it by name would make up states that no disk can have.

use std::collections::BTreeSet;

use crate::disk::{Disk, ROOT};
use crate::node::{Body, Ino, Name};
use crate::random::Random;

/// How much of the unsynced work outlives a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// One of the others, chosen by the seed at each crash. The default.
    Mixed,
    /// Only what was synced.
    Nothing,
    /// All of it, as if the power had gone a minute later.
    Everything,
    /// Everything up to some moment, as on a file system that orders all writes.
    Prefix,
    /// All names and none of the data: the classic file of length 0.
    NamesOnly,
    /// All of the data and no name.
    DataOnly,
    /// Each operation by its own luck; writes may be torn.
    Random,
}

/// A [`Survival`] with its dice thrown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    Nothing,
    Everything,
    Before(u64),
    NamesOnly,
    DataOnly,
    /// The chance of a name and of a write, in parts of 256.
    Random {
        names: u64,
        writes: u64,
    },
}

/// What becomes of one change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Whole,
    Damaged,
    Dropped,
}

/// Decides about each pending operation.
#[derive(Debug)]
pub(crate) struct Judge<'r> {
    pub(crate) plan: Plan,
    pub(crate) random: &'r mut Random,
}

impl Judge<'_> {
    pub(crate) fn name(&mut self, sequence: u64) -> bool {
        match self.plan {
            Plan::Nothing | Plan::DataOnly => false,
            Plan::Everything | Plan::NamesOnly => true,
            Plan::Before(end) => sequence < end,
            Plan::Random { names, .. } => self.random.chance(names),
        }
    }

    pub(crate) fn change(&mut self, sequence: u64) -> Fate {
        match self.plan {
            Plan::Everything | Plan::DataOnly => Fate::Whole,
            Plan::Before(end) if sequence < end => Fate::Whole,
            Plan::Before(end) if sequence == end => Fate::Damaged,
            Plan::Random { writes, .. } if self.random.chance(writes) => Fate::Whole,
            Plan::Random { .. } if self.random.coin() => Fate::Damaged,
            Plan::Nothing | Plan::NamesOnly | Plan::Before(_) | Plan::Random { .. } => {
                Fate::Dropped
            }
        }
    }
}

impl Plan {
    /// Throws the dice. `window` is the range of sequence numbers that may be pending.
    pub(crate) fn choose(survival: Survival, window: (u64, u64), random: &mut Random) -> Self {
        match survival {
            Survival::Nothing => Self::Nothing,
            Survival::Everything => Self::Everything,
            Survival::NamesOnly => Self::NamesOnly,
            Survival::DataOnly => Self::DataOnly,
            Survival::Prefix => {
                let (start, end) = window;
                Self::Before(start + random.below(end.saturating_sub(start) + 1))
            }
            // Not always half of it: rare survivors and rare losses are cases of their own.
            Survival::Random => {
                Self::Random { names: random.below(257), writes: random.below(257) }
            }
            Survival::Mixed => {
                let survival = match random.below(16) {
                    0 => Survival::Nothing,
                    1 => Survival::Everything,
                    2 => Survival::NamesOnly,
                    3 => Survival::DataOnly,
                    4 | 5 => Survival::Prefix,
                    _ => Survival::Random,
                };
                Self::choose(survival, window, random)
            }
        }
    }
}

impl Disk {
    /// The oldest and the next sequence number: between them lies all that is not durable.
    pub(crate) fn pending_window(&self) -> (u64, u64) {
        let names = self.pending.first().map(|op| op.sequence);
        let contents = self.nodes.iter().filter_map(|node| match &node.body {
            Body::File(content) => content.oldest_pending(),
            _ => None,
        });
        let oldest = names.into_iter().chain(contents).min();
        (oldest.unwrap_or(self.sequence), self.sequence)
    }

    /// Turns the disk into what a machine finds when it starts again. No process has anything open.
    pub(crate) fn lose_power(&mut self, judge: &mut Judge<'_>) {
        let pending = std::mem::take(&mut self.pending);
        let mut lost: BTreeSet<(Ino, Name)> = BTreeSet::new();
        for op in pending {
            let follows_lost = !lost.is_empty()
                && op.sets().any(|set| lost.contains(&(set.dir, set.name.clone())));
            if !follows_lost && judge.name(op.sequence) {
                self.settle(&op);
            } else {
                lost.extend(op.sets().map(|set| (set.dir, set.name.clone())));
            }
        }
        for node in &mut self.nodes {
            node.open.clear();
            match &mut node.body {
                Body::File(content) => {
                    // Attributes ride in the inode: old or new, independent of the data.
                    if node.attributes != node.durable_attributes && !judge.name(self.sequence) {
                        node.attributes = node.durable_attributes;
                    }
                    node.durable_attributes = node.attributes;
                    content.lose_power(judge);
                }
                Body::Directory(names) if names.changed => {
                    names.now.clone_from(&names.durable);
                    names.changed = false;
                }
                Body::Directory(_) | Body::Symlink(_) | Body::Free => {}
            }
        }
        self.sweep();
    }

    /// Counts names again and frees what no path from the root leads to.
    fn sweep(&mut self) {
        for node in &mut self.nodes {
            node.links = 0;
            node.mentions = 0;
        }
        self.nodes[ROOT].links = 1;
        let mut todo = vec![ROOT];
        while let Some(dir) = todo.pop() {
            let Body::Directory(names) = &self.nodes[dir].body else { continue };
            let children: Vec<Ino> = names.now.values().copied().collect();
            for child in children {
                self.nodes[child].links += 1;
                if matches!(self.nodes[child].body, Body::Directory(_)) {
                    // A judged subset may leave a directory with two names; visit it once.
                    if self.nodes[child].links == 1 {
                        todo.push(child);
                    }
                }
            }
        }
        for ino in 0..self.nodes.len() {
            let node = &mut self.nodes[ino];
            node.durable_links = node.links;
            if node.links == 0 && !matches!(node.body, Body::Free) {
                self.free_node(ino);
            }
        }
    }
}
