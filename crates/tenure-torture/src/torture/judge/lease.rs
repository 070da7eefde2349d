//! A lease: one holder at a time, and no write under a fence after one under a later fence.

use std::collections::HashMap;
use std::path::Path;

use super::journal;
use crate::torture::content::Line;
use crate::torture::finding::{Fault, Thing};
use crate::torture::ledger::{Ledger, Span, TakeOvers};
use crate::torture::subject::Subject;

/// Judges the lease by the reports of its holders, and by the journal that was written under its
/// fences; returns whether all of it could be judged.
pub(super) fn judge(ledger: &mut Ledger, subject: &dyn Subject, path: &Path) -> bool {
    let lines = journal::lines(ledger, Thing::Lease, subject, path);
    if let Some(lines) = &lines {
        fences(ledger, lines);
    }
    let told = |fence| ledger.fences.contains_key(&fence);
    for (one, other) in two_at_once(&ledger.spans, &ledger.endings, &ledger.take_overs, told) {
        let detail = format!("{other:?} began while {one:?} lasted");
        ledger.found(Thing::Lease, Fault::TwoHolders, detail);
    }
    lines.is_some()
}

/// No write under a fence came after one under a later fence, and none is missing.
fn fences(ledger: &mut Ledger, lines: &[(u64, Line)]) {
    let mut promised = std::mem::take(&mut ledger.wrote);
    let mut highest = 0;
    for (number, line) in lines {
        if line.fence < highest {
            let detail = format!("entry {number}, {line:?}, was written after fence {highest}");
            ledger.found(Thing::Lease, Fault::Fence, detail);
        }
        highest = highest.max(line.fence);
        promised.remove(&(line.slot, line.batch));
    }
    for ((slot, batch), fence) in promised {
        let detail = format!("worker {slot}: batch {batch} under fence {fence}");
        ledger.found(Thing::Lease, Fault::Lost, detail);
    }
}

/// Pairs of spans of different fences that overlap. Each span is cut where its holder ended the
/// lease, and where a worker that got a later fence began to take it over.
fn two_at_once(
    spans: &[Span],
    endings: &HashMap<u64, u64>,
    take_overs: &TakeOvers,
    told: impl Fn(u64) -> bool,
) -> Vec<(Span, Span)> {
    let taken = Taken::new(&take_overs.done);
    let cut = |span: &Span| {
        let ended = endings.get(&span.fence).copied();
        let until =
            [ended, taken.after(span.fence)].into_iter().flatten().fold(span.until, u64::min);
        Span { until, ..*span }
    };
    let mut spans: Vec<Span> = spans.iter().map(cut).filter(|s| s.from < s.until).collect();
    spans.sort_by_key(|span| span.from);
    let mut pairs = Vec::new();
    let mut longest: Option<Span> = None;
    for span in spans {
        let overlap = longest.filter(|one| one.fence != span.fence && span.from < one.until);
        let excused = overlap.is_some_and(|one| was_taken(take_overs, &told, one, span));
        if let Some(one) = overlap.filter(|_| !excused) {
            pairs.push((one, span));
        }
        if excused || longest.is_none_or(|one| one.until < span.until) {
            longest = Some(span);
        }
    }
    pairs
}

/// Whether a worker that was killed during a take-over may have taken the lease from `one` before
/// `other` had it: under a fence between theirs that no worker reported.
fn was_taken(take_overs: &TakeOvers, told: impl Fn(u64) -> bool, one: Span, other: Span) -> bool {
    let between = |(from, until): &(u64, u64)| *from < other.from && one.called < *until;
    let untold = (one.fence + 1..other.fence).any(|fence| !told(fence));
    untold && take_overs.unheard.iter().any(between)
}

/// Take-overs by their fences.
struct Taken {
    /// Sorted; each with the first moment at which it or one of a later fence began.
    first: Vec<(u64, u64)>,
}

impl Taken {
    fn new(done: &[(u64, u64)]) -> Self {
        let mut first: Vec<_> = done.iter().map(|(at, fence)| (*fence, *at)).collect();
        first.sort_unstable();
        let mut earliest = u64::MAX;
        for (_, at) in first.iter_mut().rev() {
            earliest = earliest.min(*at);
            *at = earliest;
        }
        Self { first }
    }

    /// When a worker that got a later fence than this one began.
    fn after(&self, fence: u64) -> Option<u64> {
        let place = self.first.partition_point(|(taken, _)| *taken <= fence);
        self.first.get(place).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Span, TakeOvers, two_at_once};

    fn span(fence: u64, from: u64, until: u64) -> Span {
        Span { fence, called: from, from, until }
    }

    fn pairs(spans: &[Span], endings: &[(u64, u64)], take_overs: &TakeOvers) -> usize {
        let endings: HashMap<_, _> = endings.iter().copied().collect();
        let told = |fence| spans.iter().any(|span| span.fence == fence);
        two_at_once(spans, &endings, take_overs, told).len()
    }

    #[test]
    fn leases_overlap_only_while_both_last() {
        let none = TakeOvers::default();
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 10, 20)], &[], &none), 0);
        assert_eq!(pairs(&[span(1, 0, 10), span(1, 5, 15)], &[], &none), 0, "a renewal");
        assert_eq!(pairs(&[span(2, 9, 20), span(1, 0, 10)], &[], &none), 1);
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 9, 20)], &[(1, 8)], &none), 0);
        assert_eq!(pairs(&[span(1, 0, 30), span(2, 5, 6), span(3, 7, 8)], &[], &none), 2);
    }

    #[test]
    fn a_take_over_ends_what_came_before_it_and_nothing_else() {
        let taken = |at, fence| TakeOvers { done: vec![(at, fence)], ..TakeOvers::default() };
        let spans = [span(1, 0, 10), span(2, 6, 20)];
        assert_eq!(pairs(&spans, &[], &taken(5, 2)), 0);
        assert_eq!(pairs(&spans, &[], &taken(7, 2)), 1, "it had begun later");
        assert_eq!(pairs(&spans, &[], &taken(5, 1)), 1, "the one before had been taken");
        let renewed = [span(1, 0, 10), span(2, 6, 20), span(1, 8, 30)];
        assert_eq!(pairs(&renewed, &[], &taken(5, 2)), 0, "it was cut before");
        let beaten = [span(2, 6, 20), span(3, 8, 12)];
        assert_eq!(pairs(&beaten, &[], &taken(5, 2)), 1, "who took it over holds it");
    }

    #[test]
    fn one_who_died_in_a_take_over_excuses_one_fence_at_one_time() {
        let unheard = |at, gone| TakeOvers { unheard: vec![(at, gone)], ..TakeOvers::default() };
        let (early, next, later) = (span(1, 0, 10), span(2, 6, 20), span(3, 6, 20));
        assert_eq!(pairs(&[early, later], &[], &unheard(4, 5)), 0, "it may have had fence 2");
        assert_eq!(pairs(&[early, next], &[], &unheard(4, 5)), 1, "no fence is left for it");
        assert_eq!(pairs(&[early, later], &[], &unheard(7, 8)), 1, "it came later");
        let (early, later) = (span(1, 5, 10), span(3, 6, 20));
        assert_eq!(pairs(&[early, later], &[], &unheard(2, 4)), 1, "it was dead before");
        let slow = Span { called: 3, ..early };
        assert_eq!(pairs(&[slow, later], &[], &unheard(2, 4)), 0, "before it could tell");
        let backwards = [span(3, 0, 10), span(1, 6, 20)];
        assert_eq!(pairs(&backwards, &[], &unheard(4, 5)), 1, "fences grow");
    }
}
