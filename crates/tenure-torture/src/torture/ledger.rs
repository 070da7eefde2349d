//! What the workers were promised, kept by the parent; `judge` compares the files with it.
//!
//! # Invariants
//!
//! 1. Only what was reported over a pipe is a promise. Every incarnation may have done one
//!    operation more than it reported, and no more.
//! 2. No code of tenure is used here.

use std::collections::{BTreeMap, HashMap};

use super::content::Counts;
use super::finding::{Fault, Finding, Thing};
use super::word::{Own, Word};
use super::words;

/// A period in which a lease was certainly held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) fence: u64,
    /// It was granted after this moment, and before `from`.
    pub(super) called: u64,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Take-overs of the lease: its holder may lose it at any moment of one.
#[derive(Debug, Default)]
pub(super) struct TakeOvers {
    /// For each generation that has begun one and has not reported its fence: the moment before it.
    pub(super) begun: HashMap<u64, u64>,
    /// The moment before each one, and the fence that it gave.
    pub(super) done: Vec<(u64, u64)>,
    /// From when to when a worker that was killed during one may have done it.
    pub(super) unheard: Vec<(u64, u64)>,
}

/// What was promised about one document that counts.
#[derive(Debug, Default)]
pub(super) struct Promised {
    by: Vec<u64>,
    /// One bit for each total that an update returned.
    told: Vec<u64>,
}

/// Everything that was promised.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Acknowledged operations.
    pub(super) operations: BTreeMap<Thing, u64>,
    /// Those of them that changed something, or held it.
    pub(super) changes: BTreeMap<Thing, u64>,
    /// How many of them were reads.
    pub(super) reads: u64,
    pub(super) children: u64,
    pub(super) forks: u64,
    pub(super) findings: Vec<Finding>,
    /// How many incarnations each place had.
    pub(super) incarnations: Vec<u64>,
    pub(super) document: Promised,
    pub(super) keys: Vec<Promised>,
    pub(super) own: HashMap<(usize, u64), Own>,
    /// The number of the first line of each batch.
    pub(super) batches: HashMap<(usize, u64), u64>,
    pub(super) spans: Vec<Span>,
    pub(super) endings: HashMap<u64, u64>,
    pub(super) take_overs: TakeOvers,
    /// The fence that each batch was written under.
    pub(super) wrote: HashMap<(usize, u64), u64>,
    /// The worker that got a fence: slot and generation.
    pub(super) fences: HashMap<u64, (usize, u64)>,
}

impl Ledger {
    /// No promises yet, with `slots` places.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            operations: BTreeMap::new(),
            changes: BTreeMap::new(),
            reads: 0,
            children: 0,
            forks: 0,
            findings: Vec::new(),
            incarnations: vec![0; slots],
            document: Promised::default(),
            keys: (0..words::KEYS).map(|_| Promised::default()).collect(),
            own: HashMap::new(),
            batches: HashMap::new(),
            spans: Vec::new(),
            endings: HashMap::new(),
            take_overs: TakeOvers::default(),
            wrote: HashMap::new(),
            fences: HashMap::new(),
        }
    }

    /// What the verdict shows.
    pub(super) fn outline(&self) -> Self {
        let (operations, findings) = (self.operations.clone(), self.findings.clone());
        let (reads, children, forks) = (self.reads, self.children, self.forks);
        Self { operations, reads, children, forks, findings, ..Self::new(0) }
    }

    /// All acknowledged operations.
    pub(super) fn total(&self) -> u64 {
        self.operations.values().sum()
    }

    /// Something was found.
    pub(super) fn found(&mut self, thing: Thing, fault: Fault, detail: impl Into<String>) {
        self.findings.push(Finding::new(thing, fault, detail));
    }

    /// What stands still.
    pub(super) fn stuck(&self) -> impl Iterator<Item = Thing> {
        let stuck = self.findings.iter().filter(|finding| finding.fault == Fault::Stuck);
        stuck.map(|finding| finding.thing)
    }

    fn done(&mut self, thing: Thing) {
        *self.operations.entry(thing).or_default() += 1;
        *self.changes.entry(thing).or_default() += 1;
    }

    /// Records a report of the worker in `slot`. Overlaps are handled by the caller, which knows
    /// the deaths.
    pub(super) fn write(&mut self, slot: usize, generation: u64, word: Word) {
        match word {
            Word::Held { .. } => self.done(Thing::Lock),
            Word::Counted { total } => {
                self.done(Thing::Document);
                self.count(Thing::Document, slot, None, total);
            }
            Word::KeyCounted { key, total } => {
                self.done(Thing::Collection);
                self.count(Thing::Collection, slot, Some(key), total);
            }
            Word::Own { number, state } => {
                if state != Own::Removing {
                    self.done(Thing::Collection);
                }
                self.own.insert((slot, number), state);
            }
            Word::Appended { batch, first } => {
                self.done(Thing::Journal);
                self.batches.insert((slot, batch), first);
            }
            Word::Leased(span) => self.lease(slot, generation, span),
            Word::Taking { at } => {
                self.take_overs.begun.insert(generation, at);
            }
            Word::Ending { fence, at } => {
                self.endings.insert(fence, at);
            }
            Word::Wrote { fence, batch } => {
                self.done(Thing::Lease);
                self.wrote.insert((slot, batch), fence);
            }
            Word::Read { thing } => {
                *self.operations.entry(thing).or_default() += 1;
                self.reads += 1;
            }
            Word::Child => self.children += 1,
            Word::Forked => self.forks += 1,
            Word::Bad(finding) => self.findings.push(finding),
            Word::Two(_) | Word::Call { .. } | Word::Return { .. } | Word::Refused { .. } => {}
        }
    }

    fn count(&mut self, thing: Thing, slot: usize, key: Option<usize>, total: u64) {
        let promised = match key {
            None => Some(&mut self.document),
            Some(key) => self.keys.get_mut(key),
        };
        if promised.is_some_and(|promised| !promised.count(slot, total)) {
            self.found(thing, Fault::Lost, format!("two updates returned the total {total}"));
        }
    }

    fn lease(&mut self, slot: usize, generation: u64, span: Span) {
        let fence = span.fence;
        self.done(Thing::Lease);
        if let Some(at) = self.take_overs.begun.remove(&generation) {
            self.take_overs.done.push((at, fence));
        }
        let owner = *self.fences.entry(fence).or_insert((slot, generation));
        if owner != (slot, generation) {
            self.found(Thing::Lease, Fault::Fence, format!("fence {fence} was granted twice"));
        }
        if span.from < span.until {
            self.spans.push(span);
        }
    }
}

impl Promised {
    /// Records an update; `false` if another one returned the same total.
    fn count(&mut self, slot: usize, total: u64) -> bool {
        if self.by.len() <= slot {
            self.by.resize(slot + 1, 0);
        }
        self.by[slot] += 1;
        let (place, bit) = (usize::try_from(total / 64).unwrap_or(0), 1 << (total % 64));
        if self.told.len() <= place {
            self.told.resize(place + 1, 0);
        }
        let is_new = self.told[place] & bit == 0;
        self.told[place] |= bit;
        is_new
    }

    /// Compares a document with the promises. Each incarnation of a place may have done one more
    /// change.
    pub(super) fn judge(&self, counts: &Counts, incarnations: &[u64]) -> Vec<(Fault, String)> {
        let mut faults = Vec::new();
        for (slot, incarnations) in incarnations.iter().enumerate() {
            let acknowledged = self.by.get(slot).copied().unwrap_or(0);
            let counted = counts.by.get(slot).copied().unwrap_or(0);
            if counted < acknowledged {
                let lost = acknowledged - counted;
                let detail = format!("worker {slot}: {lost} of {acknowledged} updates are gone");
                faults.push((Fault::Lost, detail));
            }
            if counted > acknowledged + incarnations {
                let detail = format!(
                    "worker {slot}: {counted} updates counted, {acknowledged} acknowledged, {incarnations} cut short"
                );
                faults.push((Fault::Twice, detail));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Fault, Promised};

    #[test]
    fn a_missing_update_is_lost_and_one_too_many_was_done_twice() {
        let mut promised = Promised::default();
        assert!(promised.count(0, 1) && promised.count(0, 2) && promised.count(1, 3));
        assert!(!promised.count(1, 3), "the same total again");
        let faults = |by: [u64; 2]| {
            let counts = Counts { total: by.iter().sum(), by: by.to_vec() };
            let faults = promised.judge(&counts, &[1, 1]);
            faults.into_iter().map(|(fault, _)| fault).collect::<Vec<_>>()
        };
        assert_eq!(faults([2, 2]), []);
        assert_eq!(faults([3, 3]), [], "one each may be done and not reported");
        assert_eq!(faults([1, 2]), [Fault::Lost]);
        assert_eq!(faults([4, 2]), [Fault::Twice]);
    }
}
