//! Holds of one lock or lease: fences strictly grow, and a former holder writes nothing.
//!
//! # Invariants
//!
//! 1. A hold that was granted after another one was granted has the larger fence, and no fence is given out twice.
//! 2. In the journal that is written under the holds, the fences never fall.
//! 3. A write under a fence is not done once a larger one was given out.

/// A hold: when it was asked for, when it was granted, and its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// When it was asked for.
    pub call: u64,
    /// When that returned.
    pub at: u64,
    /// What it returned.
    pub fence: u64,
}

/// The first fence that breaks invariant 1.
pub fn fences_fall(grants: &[Grant]) -> Option<String> {
    let mut by_call = grants.to_vec();
    by_call.sort_unstable_by_key(|grant| grant.call);
    let mut by_return = grants.to_vec();
    by_return.sort_unstable_by_key(|grant| grant.at);
    let (mut before, mut largest) = (by_return.iter().peekable(), 0);
    for grant in &by_call {
        while let Some(earlier) = before.next_if(|earlier| earlier.at < grant.call) {
            largest = largest.max(earlier.fence);
        }
        if grant.fence <= largest {
            return Some(format!("fence {} was given out after {largest}", grant.fence));
        }
    }
    let mut fences: Vec<u64> = grants.iter().map(|grant| grant.fence).collect();
    fences.sort_unstable();
    let twice = fences.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map(|pair| format!("fence {} was given out twice", pair[0]))
}

/// The first line that breaks invariant 2; `fences` are those of the lines, in the order of the journal.
pub fn former_holder_wrote(fences: &[u64]) -> Option<String> {
    let late = fences.windows(2).find(|pair| pair[1] < pair[0])?;
    Some(format!("a former holder wrote: fence {} after {}", late[1], late[0]))
}

/// The first write that breaks invariant 3: it began at `call`, under `fence`, and was acknowledged.
pub fn wrote_too_late(grants: &[Grant], writes: &[(u64, u64)]) -> Option<String> {
    writes.iter().find_map(|&(call, fence)| {
        let next = grants.iter().find(|grant| grant.fence > fence && grant.at < call)?;
        Some(format!("a write under fence {fence} was done after {} was given out", next.fence))
    })
}

#[cfg(test)]
mod tests {
    use super::{Grant, fences_fall, former_holder_wrote, wrote_too_late};

    fn grant(call: u64, at: u64, fence: u64) -> Grant {
        Grant { call, at, fence }
    }

    #[test]
    fn fences_that_do_not_grow_are_found() {
        assert_eq!(fences_fall(&[grant(1, 2, 5), grant(3, 4, 9)]), None);
        assert_eq!(fences_fall(&[grant(1, 4, 9), grant(2, 3, 5)]), None, "they overlap");
        for wrong in [[grant(1, 2, 5), grant(3, 4, 4)], [grant(1, 4, 5), grant(2, 3, 5)]] {
            assert!(fences_fall(&wrong).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn writes_of_former_holders_are_found() {
        assert_eq!(former_holder_wrote(&[1, 1, 3]), None);
        assert!(former_holder_wrote(&[1, 3, 1]).is_some());
        let grants = [grant(1, 2, 5), grant(3, 4, 9)];
        assert_eq!(wrote_too_late(&grants, &[(3, 5), (8, 9)]), None, "it may have come first");
        assert!(wrote_too_late(&grants, &[(5, 5)]).is_some());
    }
}
