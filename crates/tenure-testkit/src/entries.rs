//! Directory entries: every change of a name is pending until a directory of it is synced.
//!
//! # Invariants
//!
//! 1. An operation says which inode a name refers to afterwards, never which other name it came
//!    from.
//! 2. An operation on two names is one operation. Syncing either directory makes both durable.
//! 3. Nothing becomes durable before an earlier pending operation on the same name.

use std::collections::BTreeSet;
use std::io;

use crate::crash::Judge;
use crate::disk::Disk;
use crate::node::{Body, Ino, Name, Names};

/// One name and what it refers to afterwards.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) dir: Ino,
    pub(crate) name: Name,
    pub(crate) ino: Option<Ino>,
}

/// A change of one name, or of two at once.
#[derive(Debug, Clone)]
pub(crate) struct EntryOp {
    pub(crate) sequence: u64,
    one: Set,
    other: Option<Set>,
}

impl EntryOp {
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Set> {
        std::iter::once(&self.one).chain(&self.other)
    }
}

impl Disk {
    pub(crate) fn names(&self, dir: Ino) -> io::Result<&Names> {
        match &self.nodes[dir].body {
            Body::Directory(names) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(crate) fn entry(&self, (dir, name): &(Ino, Name)) -> io::Result<Option<Ino>> {
        Ok(self.names(*dir)?.now.get(name).copied())
    }

    /// Does an entry operation now, visible to all processes, and remembers it as not yet durable.
    pub(crate) fn record(&mut self, one: Set, other: Option<Set>) {
        let op = EntryOp { sequence: self.next_sequence(), one, other };
        // Counted first: an exchange takes a file's only name away before it gives it the other one.
        for ino in op.sets().filter_map(|set| set.ino) {
            self.nodes[ino].mentions += 1;
            self.nodes[ino].links += 1;
        }
        for set in op.sets() {
            let before = match &mut self.nodes[set.dir].body {
                Body::Directory(names) => {
                    names.changed = true;
                    replace(&mut names.now, set)
                }
                _ => None,
            };
            if let Some(before) = before {
                self.nodes[before].links -= 1;
                self.free_if_garbage(before);
            }
        }
        self.pending.push(op);
    }

    /// Brings one operation to the disk.
    pub(crate) fn settle(&mut self, op: &EntryOp) {
        for set in op.sets() {
            if let Some(ino) = set.ino {
                let node = &mut self.nodes[ino];
                node.durable_links += 1;
                if let Body::File(content) = &mut node.body {
                    if content.name_is_durable(op.sequence) {
                        node.durable_attributes = node.attributes;
                    }
                }
            }
            let before = match &mut self.nodes[set.dir].body {
                Body::Directory(names) => replace(&mut names.durable, set),
                _ => None,
            };
            if let Some(before) = before {
                self.nodes[before].durable_links -= 1;
            }
            self.forget(set);
            if let Some(before) = before {
                self.free_if_garbage(before);
            }
        }
    }

    /// Makes the names of a directory durable, with everything they follow from.
    pub(crate) fn sync_names(&mut self, dir: Ino) {
        for op in self.take_pending(dir) {
            self.settle(&op);
        }
    }

    /// A sync of a directory that reports an error: some of it may be on the disk, and the rest is
    /// not tried again by a later sync, although lookups still see it.
    pub(crate) fn sync_names_fails(&mut self, dir: Ino, judge: &mut Judge<'_>) {
        let mut lost: BTreeSet<(Ino, Name)> = BTreeSet::new();
        for op in self.take_pending(dir) {
            let follows_lost = op.sets().any(|set| lost.contains(&(set.dir, set.name.clone())));
            if !follows_lost && judge.name(op.sequence) {
                self.settle(&op);
            } else {
                for set in op.sets() {
                    lost.insert((set.dir, set.name.clone()));
                    self.forget(set);
                }
            }
        }
    }

    /// Takes the pending operations of a directory out, oldest first, and those in other directories
    /// that one of them follows (a file that was moved in from a place it was moved to).
    fn take_pending(&mut self, dir: Ino) -> Vec<EntryOp> {
        let mut needed: BTreeSet<(Ino, Name)> = BTreeSet::new();
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        for op in self.pending.drain(..).rev() {
            let belongs = op.sets().any(|set| {
                set.dir == dir
                    || (!needed.is_empty() && needed.contains(&(set.dir, set.name.clone())))
            });
            if belongs {
                let elsewhere = op.sets().filter(|set| set.dir != dir);
                needed.extend(elsewhere.map(|set| (set.dir, set.name.clone())));
                taken.push(op);
            } else {
                kept.push(op);
            }
        }
        kept.reverse();
        self.pending = kept;
        taken.reverse();
        taken
    }

    fn forget(&mut self, set: &Set) {
        if let Some(ino) = set.ino {
            self.nodes[ino].mentions -= 1;
            self.free_if_garbage(ino);
        }
    }
}

fn replace(names: &mut std::collections::BTreeMap<Name, Ino>, set: &Set) -> Option<Ino> {
    match set.ino {
        Some(ino) => names.insert(set.name.clone(), ino),
        None => names.remove(&set.name),
    }
}
