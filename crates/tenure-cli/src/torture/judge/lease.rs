//! A lease: one holder at a time, and no write under a fence after one under a later fence.

use std::collections::HashMap;
use std::path::Path;

use super::journal;
use crate::torture::finding::{Fault, Thing};
use crate::torture::ledger::{Ledger, Span};
use crate::torture::subject::Subject;

/// Judges the lease by who was told what, and by the journal that was written under its fences.
pub(super) fn judge(ledger: &mut Ledger, subject: &dyn Subject, path: &Path) {
    let mut promised = std::mem::take(&mut ledger.wrote);
    let mut highest = 0;
    for (number, line) in journal::lines(ledger, Thing::Lease, subject, path) {
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
    for (one, other) in two_at_once(&ledger.spans, &ledger.endings) {
        let detail = format!("{other:?} began while {one:?} lasted");
        ledger.found(Thing::Lease, Fault::TwoHolders, detail);
    }
}

/// Pairs of spans of different fences that overlap, each span cut where its holder ended the lease.
fn two_at_once(spans: &[Span], endings: &HashMap<u64, u64>) -> Vec<(Span, Span)> {
    let cut = |span: &Span| Span {
        until: endings.get(&span.fence).map_or(span.until, |end| span.until.min(*end)),
        ..*span
    };
    let mut spans: Vec<Span> = spans.iter().map(cut).filter(|s| s.from < s.until).collect();
    spans.sort_by_key(|span| span.from);
    let mut pairs = Vec::new();
    let mut longest: Option<Span> = None;
    for span in spans {
        match longest {
            Some(one) if one.fence != span.fence && span.from < one.until => {
                pairs.push((one, span));
            }
            _ => {}
        }
        if longest.is_none_or(|one| one.until < span.until) {
            longest = Some(span);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Span, two_at_once};

    #[test]
    fn leases_overlap_only_while_both_last() {
        let span = |fence, from, until| Span { fence, from, until };
        let pairs = |spans: &[Span], endings| two_at_once(spans, &endings).len();
        let none = HashMap::new;
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 10, 20)], none()), 0);
        assert_eq!(pairs(&[span(1, 0, 10), span(1, 5, 15)], none()), 0, "a renewal");
        assert_eq!(pairs(&[span(2, 9, 20), span(1, 0, 10)], none()), 1);
        assert_eq!(pairs(&[span(1, 0, 10), span(2, 9, 20)], HashMap::from([(1, 8)])), 0);
        assert_eq!(pairs(&[span(1, 0, 30), span(2, 5, 6), span(3, 7, 8)], none()), 2);
    }
}
