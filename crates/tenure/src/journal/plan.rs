//! Comparing the log with the journal: where each entry is, and what has to be done to the journal.
//!
//! Writers carry the plan out, readers only look at it, so both see the same journal.
//!
//! # Invariants
//!
//! 1. (J6) Only bytes inside a logged batch are ever rewritten or blanked: where the journal has NULs
//!    after a power loss, and the torn beginning of a batch that somebody else's line follows.
//! 2. Bytes of others stay where they are. A batch that they overtook goes behind them.

use std::io;

use crate::checksum;
use crate::fs::Handle;

use super::entry::Logged;

/// A killed write stops at a page of the file (SEMANTICS D9).
const PAGE_BYTES: u64 = 4096;

/// One piece of the journal, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Entry `index` is here, whole.
    Kept { index: usize, start: u64 },
    /// Entry `index` begins here; `mend` bytes of it have to be written again, `done` are there.
    Missing { index: usize, start: u64, done: u64, mend: u64 },
    /// Bytes of somebody else.
    Foreign { start: u64, end: u64 },
    /// Bytes that a logged foreign entry stood for, what is left of them.
    Remains { index: usize, start: u64, end: u64 },
    /// The torn beginning of a batch, with a foreign line behind it: to be set aside and blanked.
    Torn { start: u64, end: u64 },
}

/// What the journal looks like behind the part that is settled.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The log's order and the file's order are the same, and nothing has to be mended in place.
    pub(super) in_order: bool,
    /// Bytes of others behind everything that is logged.
    pub(super) tail: Option<(u64, u64)>,
}

impl Plan {
    /// Something has to be written to the journal.
    pub(super) fn needs_work(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Missing { .. } | Step::Torn { .. }))
    }
}

/// What is known besides the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    /// Everything unsynced may be gone, or be NULs.
    pub(super) power_loss: bool,
    /// Somebody may have begun to write the pending entries.
    pub(super) begun: bool,
    /// This many bytes of the first pending entry are known to be there.
    pub(super) partial: u64,
}

/// Finds `pending` in `journal` from `pos` on; `size` is its length.
pub(super) fn plan(
    journal: &dyn Handle,
    size: u64,
    mut pos: u64,
    pending: &[Logged],
    known: Circumstances,
) -> io::Result<Plan> {
    let mut plan = Plan { in_order: true, ..Plan::default() };
    for (index, logged) in pending.iter().enumerate() {
        if logged.entry.is_foreign() {
            pos = place_foreign(journal, size, pos, index, logged, &mut plan)?;
            continue;
        }
        let len = logged.entry.span();
        let first = plan.steps.is_empty();
        if pos < size && !known.begun && !logged.entry.is_direct() {
            // Nobody has begun to write it, so what is here is not ours.
            plan.steps.push(Step::Foreign { start: pos, end: size });
            (plan.in_order, pos) = (false, size);
        }
        if pos >= size {
            plan.steps.push(Step::Missing { index, start: pos, done: 0, mend: 0 });
            pos += len;
            continue;
        }
        let have = journal.read_range(pos, size.min(pos + len))?;
        let there = have.len() as u64;
        if logged.payload.starts_with(&have) {
            plan.steps.push(if there == len {
                Step::Kept { index, start: pos }
            } else {
                Step::Missing { index, start: pos, done: there, mend: 0 }
            });
        } else if known.power_loss && differs_in_nuls_only(&have, &logged.payload) {
            plan.steps.push(Step::Missing { index, start: pos, done: there, mend: there });
            plan.in_order = false;
        } else {
            let partial = if first { known.partial } else { 0 };
            pos = place_behind_others(journal, size, pos, index, logged, partial, &mut plan)?;
            continue;
        }
        pos += len;
    }
    if pos < size {
        plan.tail = Some((pos, size));
    }
    Ok(plan)
}

fn differs_in_nuls_only(have: &[u8], payload: &[u8]) -> bool {
    have.iter().zip(payload).all(|(have, wanted)| have == wanted || *have == 0)
}

/// A logged range of others: it is there, or a power loss took some of it.
fn place_foreign(
    journal: &dyn Handle,
    size: u64,
    pos: u64,
    index: usize,
    logged: &Logged,
    plan: &mut Plan,
) -> io::Result<u64> {
    let span = logged.entry.span();
    if pos + span <= size {
        let bytes = journal.read_range(pos, pos + span)?;
        if checksum::of(&bytes) == logged.foreign_sum() {
            plan.steps.push(Step::Kept { index, start: pos });
            return Ok(pos + span);
        }
    }
    plan.in_order = false;
    let end = size.min(pos + span).max(pos);
    if pos < end {
        plan.steps.push(Step::Remains { index, start: pos, end });
    }
    Ok(end)
}

/// Something else stands where the entry should be: it may follow behind, or have been torn.
fn place_behind_others(
    journal: &dyn Handle,
    size: u64,
    pos: u64,
    index: usize,
    logged: &Logged,
    partial: u64,
    plan: &mut Plan,
) -> io::Result<u64> {
    plan.in_order = false;
    let len = logged.entry.span();
    let region = journal.read_range(pos, size)?;
    if let Some((at, done)) = locate(&region, &logged.payload) {
        let start = pos + at as u64;
        plan.steps.push(Step::Foreign { start: pos, end: start });
        plan.steps.push(if done == logged.payload.len() {
            Step::Kept { index, start }
        } else {
            Step::Missing { index, start, done: done as u64, mend: 0 }
        });
        return Ok(start + len);
    }
    let common =
        region.iter().zip(&logged.payload).take_while(|(have, wanted)| have == wanted).count();
    let common = common as u64;
    let page = (pos + common) / PAGE_BYTES * PAGE_BYTES;
    let torn = page.saturating_sub(pos).max(partial.min(common));
    if torn > 0 {
        plan.steps.push(Step::Torn { start: pos, end: pos + torn });
    }
    plan.steps.push(Step::Foreign { start: pos + torn, end: size });
    plan.steps.push(Step::Missing { index, start: size, done: 0, mend: 0 });
    Ok(size + len)
}

/// Where `payload` begins in `region`, and how much of it is there: all of it anywhere, or a beginning
/// that starts a line and reaches the end of the region.
fn locate(region: &[u8], payload: &[u8]) -> Option<(usize, usize)> {
    if let Some(at) = memchr::memmem::find(region, payload) {
        return Some((at, payload.len()));
    }
    let near = region.len().saturating_sub(payload.len());
    memchr::memchr_iter(b'\n', &region[near..])
        .map(|newline| near + newline + 1)
        .find(|start| *start < region.len() && payload.starts_with(&region[*start..]))
        .map(|start| (start, region.len() - start))
}
