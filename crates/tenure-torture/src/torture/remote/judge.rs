//! What is wrong with the answers of a store.
//!
//! # Invariants
//!
//! 1. Nothing here asks the store for a verdict: it is read as any client reads it, and compared with what was
//!    acknowledged.
//! 2. A history that is not decided in time is not judged, and the verdict says so.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use crate::history::holds::{Grant, fences_fall, former_holder_wrote, wrote_too_late};
use crate::history::objects::{Objects, entries, patiently, rank};
use crate::history::{History, Judgement, Object, Operation};
use crate::torture::clock;
use crate::torture::finding::{Fault, Finding, Thing};

use super::worker::{LEASED, LOCKED};
use super::{Ground, RECOVERY};

/// What was found so far.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) findings: Vec<Finding>,
    pub(super) unjudged: BTreeSet<Thing>,
    pub(super) lock: Holds,
    pub(super) lease: Holds,
}

/// What is known of the holds of one target, and of the lines that were written under them.
#[derive(Debug)]
pub(super) struct Holds {
    thing: Thing,
    name: &'static str,
    /// Of this round, and the latest of all rounds before.
    grants: Vec<Grant>,
    /// Calls under a fence that were acknowledged in this round: when they began, and the fence.
    uses: Vec<(u64, u64)>,
    /// The fence of each line that was called for and is not read yet.
    called: HashMap<u64, u64>,
    /// Lines that were acknowledged in this round.
    acknowledged: Vec<u64>,
    seen: HashSet<u64>,
    /// The last entry that was read: its number, and its fence.
    last: (u64, u64),
}

impl Judge {
    pub(super) fn new() -> Self {
        Self {
            findings: Vec::new(),
            unjudged: BTreeSet::new(),
            lock: Holds::new(Thing::Lock, LOCKED),
            lease: Holds::new(Thing::Lease, LEASED),
        }
    }

    pub(super) fn found(&mut self, thing: Thing, fault: Fault, detail: impl Into<String>) {
        self.findings.push(Finding::new(thing, fault, detail));
    }

    /// Judges a round whose workers are all gone; `operations` become those that the checker saw.
    pub(super) fn round(
        &mut self,
        round: u64,
        ground: &Ground,
        objects: &Objects<'_>,
        operations: &mut Vec<Operation>,
    ) {
        let quiet: Result<Vec<_>, _> =
            Object::ALL.into_iter().map(|object| look(objects, object)).collect();
        let quiet = quiet.and_then(|looks| Ok((looks, patiently(RECOVERY, || objects.entries())?)));
        match quiet {
            Err(error) => {
                self.found(Thing::Document, Fault::Failed, format!("after a round: {error}"));
            }
            Ok((looks, entries)) => {
                operations.extend(looks);
                self.entries(operations, &entries);
                self.history(round, operations);
            }
        }
        for holds in [&mut self.lock, &mut self.lease] {
            match patiently(RECOVERY, || {
                entries(ground.store.as_ref(), &ground.dir.join(holds.name), holds.last.0 + 1)
            }) {
                Ok(lines) => self.findings.extend(holds.judge(&lines)),
                Err(error) => {
                    let detail = format!("after a round: {error}");
                    self.findings.push(Finding::new(holds.thing, Fault::Failed, detail));
                }
            }
        }
    }

    /// Acknowledged entries are there, once.
    fn entries(&mut self, operations: &mut [Operation], entries: &[(u64, u64)]) {
        for value in rank(operations, entries) {
            let detail = format!("the entry {value} was acknowledged and is not there");
            self.found(Thing::Journal, Fault::Lost, detail);
        }
        let mut seen = HashSet::new();
        for (number, value) in entries {
            if !seen.insert(value) {
                let detail = format!("entry {number} repeats {value}, which was appended once");
                self.found(Thing::Journal, Fault::Twice, detail);
            }
        }
    }

    fn history(&mut self, round: u64, operations: &[Operation]) {
        let mut history = History::default();
        for operation in operations {
            history.add(round, operation.clone());
        }
        for (round, object, judgement) in history.violations() {
            let thing = if object == Object::Queue { Thing::Journal } else { Thing::Document };
            if judgement == Judgement::Undecided {
                self.unjudged.insert(thing);
            } else {
                let detail = format!("{}, round {round}", object.name());
                self.found(thing, Fault::Order, detail);
            }
        }
    }
}

/// The object in quiet: the last operation of its history.
fn look(objects: &Objects<'_>, object: Object) -> tenure::Result<Operation> {
    let call = clock::now();
    let answer = patiently(RECOVERY, || objects.state(object))?;
    let returned = Some((answer, clock::now()));
    Ok(Operation { object, action: "end".to_owned(), arguments: Vec::new(), call, returned })
}

impl Holds {
    fn new(thing: Thing, name: &'static str) -> Self {
        Self {
            thing,
            name,
            grants: Vec::new(),
            uses: Vec::new(),
            called: HashMap::new(),
            acknowledged: Vec::new(),
            seen: HashSet::new(),
            last: (0, 0),
        }
    }

    /// A worker is about to do this.
    pub(super) fn call(&mut self, action: &str, arguments: &[u64]) {
        if let ("write", &[fence, value]) = (action, arguments) {
            self.called.insert(value, fence);
        }
    }

    /// A worker did this.
    pub(super) fn done(
        &mut self,
        action: &str,
        arguments: &[u64],
        call: u64,
        answer: &[u64],
        at: u64,
    ) {
        match (action, arguments, answer) {
            ("hold", _, &[fence]) => self.grants.push(Grant { call, at, fence }),
            ("write", &[fence, value], _) => {
                self.uses.push((call, fence));
                self.acknowledged.push(value);
            }
            (_, &[fence], _) => self.uses.push((call, fence)),
            _ => {}
        }
    }

    /// Judges a round. `lines` are those after the last one that was read.
    fn judge(&mut self, lines: &[(u64, u64)]) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |fault, detail: String| found.push(Finding::new(self.thing, fault, detail));
        if let Some(what) = fences_fall(&self.grants) {
            add(Fault::Fence, what);
        }
        if let Some(what) = wrote_too_late(&self.grants, &self.uses) {
            add(Fault::TwoHolders, what);
        }
        let mut fences = vec![self.last.1];
        for (number, value) in lines {
            match self.called.remove(value) {
                Some(fence) => fences.push(fence),
                None if self.seen.contains(value) => {
                    add(Fault::Twice, format!("entry {number} repeats {value}"));
                }
                None => add(Fault::Corrupt, format!("entry {number} is of no worker: {value}")),
            }
            self.seen.insert(*value);
            self.last.0 = *number;
        }
        if let Some(what) = former_holder_wrote(&fences) {
            add(Fault::TwoHolders, what);
        }
        self.last.1 = fences.into_iter().max().unwrap_or(0);
        for value in self.acknowledged.drain(..).filter(|value| !self.seen.contains(value)) {
            add(Fault::Lost, format!("the line {value} was acknowledged and is not there"));
        }
        self.uses.clear();
        let latest = self.grants.drain(..).max_by_key(|grant| grant.fence);
        self.grants.extend(latest);
        found
    }
}

/// Keeps the history of a round as evidence.
pub(super) fn keep(file: &Path, round: u64, operations: &[Operation]) -> std::io::Result<()> {
    let lines: Vec<_> =
        operations.iter().map(|operation| operation.line(round, None).to_string()).collect();
    std::io::Write::write_all(
        &mut std::fs::File::create(file)?,
        (lines.join("\n") + "\n").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::{Fault, Holds, LOCKED, Thing};

    fn faults(holds: &mut Holds, lines: &[(u64, u64)]) -> Vec<Fault> {
        holds.judge(lines).into_iter().map(|finding| finding.fault).collect()
    }

    /// Two holds with a line each.
    fn two_holds() -> Holds {
        let mut holds = Holds::new(Thing::Lock, LOCKED);
        for (at, fence, value) in [(10, 5, 1), (20, 6, 2)] {
            holds.done("hold", &[], at, &[fence], at + 1);
            holds.call("write", &[fence, value]);
            holds.done("write", &[fence, value], at + 2, &[value], at + 3);
        }
        holds
    }

    #[test]
    fn what_was_acknowledged_is_there_once_and_in_the_order_of_its_fences() {
        let mut holds = two_holds();
        assert_eq!(faults(&mut holds, &[(1, 1), (4, 2)]), []);
        assert_eq!(faults(&mut holds, &[(5, 2)]), [Fault::Twice]);
        assert_eq!(faults(&mut two_holds(), &[(1, 2), (2, 1)]), [Fault::TwoHolders]);
        assert_eq!(faults(&mut two_holds(), &[(1, 1)]), [Fault::Lost]);
        assert_eq!(faults(&mut two_holds(), &[(1, 1), (2, 2), (3, 9)]), [Fault::Corrupt]);
    }

    #[test]
    fn a_later_round_continues_with_the_fences_of_the_former_one() {
        let mut holds = two_holds();
        assert_eq!(faults(&mut holds, &[(1, 1), (4, 2)]), []);
        holds.done("hold", &[], 30, &[6], 31);
        assert_eq!(faults(&mut holds, &[]), [Fault::Fence]);
        holds.done("verify", &[5], 40, &[], 41);
        assert!(faults(&mut holds, &[]).contains(&Fault::TwoHolders));
    }
}
