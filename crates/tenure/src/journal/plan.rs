//! Comparing the log with the journal: where each entry is, and what has to be done to the journal.
//!
//! Writers carry the plan out, readers only look at it, so both see the same journal.
//!
//! # Invariants
//!
//! 1. (J6) Only bytes inside a logged batch are ever rewritten or blanked: where the journal has NULs
//!    after a power loss, and the torn beginning of a batch that somebody else's line follows.
//! 2. Bytes of others stay where they are. A batch that they overtook goes behind them.

#[cfg(test)]
mod tests;

use std::io;

use crate::checksum;
use crate::fs::Handle;

use super::entry::Logged;
use super::head::Shift;

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
    /// This many bytes of the pending entries are known to be there.
    pub(super) partial: u64,
    /// Where entries are that bytes of others have overtaken.
    pub(super) shift: Shift,
}

/// Finds `pending` in `journal` from `pos` on; `size` is its length.
pub(super) fn plan(
    journal: &dyn Handle,
    size: u64,
    pos: u64,
    pending: &[Logged],
    known: Circumstances,
) -> io::Result<Plan> {
    let plan = Plan { in_order: true, ..Plan::default() };
    let written = pos + known.partial;
    let mut planner =
        Planner { journal, size, pos, written, lost: None, shifted: false, known, plan };
    for (index, logged) in pending.iter().enumerate() {
        planner.follow_shift(logged.entry.number);
        if logged.entry.is_foreign() {
            planner.place_foreign(index, logged)?;
        } else {
            planner.place_ours(index, logged)?;
        }
    }
    let start = planner.lost.unwrap_or(planner.pos);
    if start < size {
        planner.plan.tail = Some((start, size));
    }
    Ok(planner.plan)
}

struct Planner<'a> {
    journal: &'a dyn Handle,
    size: u64,
    /// Where the next entry should be.
    pos: u64,
    /// What stands before this is known to be of pending entries.
    written: u64,
    /// Logged bytes of others that should begin here are not what they were: a power loss took some
    /// of them, and what follows may be anywhere from here on.
    lost: Option<u64>,
    /// The entries are shifted from here on: one after the other, without the bytes of others that
    /// were logged between them and had been lost already.
    shifted: bool,
    known: Circumstances,
    plan: Plan,
}

impl Planner<'_> {
    /// Goes on where the shifted entries are; what stands before them is of others.
    fn follow_shift(&mut self, number: u64) {
        let Shift { number: first, at } = self.known.shift;
        let from = self.lost.unwrap_or(self.pos);
        if number == first && from <= at && at <= self.size {
            (self.lost, self.shifted) = (None, true);
            self.pos = at;
            self.plan.in_order = false;
            if from < at {
                self.plan.steps.push(Step::Foreign { start: from, end: at });
            }
        }
    }

    fn place_foreign(&mut self, index: usize, logged: &Logged) -> io::Result<()> {
        if self.shifted {
            return Ok(());
        }
        let (start, end) = (self.pos, self.pos.saturating_add(logged.entry.span()));
        self.pos = end;
        if end <= self.size {
            let bytes = self.journal.read_range(start, end)?;
            if checksum::of(&bytes) == logged.foreign_sum() {
                self.leave_lost(start);
                self.plan.steps.push(Step::Kept { index, start });
                return Ok(());
            }
        }
        self.plan.in_order = false;
        self.lost = self.lost.or(Some(start));
        Ok(())
    }

    /// The journal goes on at `start` as logged; what was lost before it is of others.
    fn leave_lost(&mut self, start: u64) {
        if let Some(lost) = self.lost.take() {
            self.plan.steps.push(Step::Foreign { start: lost, end: start });
        }
    }

    fn place_ours(&mut self, index: usize, logged: &Logged) -> io::Result<()> {
        let len = logged.entry.span();
        if self.pos < self.size && !self.known.begun && !logged.entry.is_direct() {
            // Nobody has begun to write it, so what is here is not ours.
            self.plan.steps.push(Step::Foreign { start: self.pos, end: self.size });
            (self.plan.in_order, self.pos) = (false, self.size);
        }
        let start = self.pos;
        if start >= self.size {
            if let Some(lost) = self.lost {
                return self.place_behind_others(lost, index, logged);
            }
            self.plan.steps.push(Step::Missing { index, start, done: 0, mend: 0 });
            self.pos += len;
            return Ok(());
        }
        let have = self.journal.read_range(start, self.size.min(start + len))?;
        let done = have.len() as u64;
        if logged.payload.starts_with(&have) {
            self.leave_lost(start);
            self.plan.steps.push(if done == len {
                Step::Kept { index, start }
            } else {
                Step::Missing { index, start, done, mend: 0 }
            });
        } else if self.known.power_loss && differs_in_nuls_only(&have, &logged.payload) {
            self.leave_lost(start);
            self.plan.steps.push(Step::Missing { index, start, done, mend: done });
            self.plan.in_order = false;
        } else {
            let region = self.journal.read_range(start, self.size)?;
            if self.torn_len(start, &region, logged) > 0 {
                self.leave_lost(start); // Its beginning is where it should be.
            }
            let from = self.lost.unwrap_or(start);
            return self.place_behind_others(from, index, logged);
        }
        self.pos += len;
        Ok(())
    }

    /// Something else stands where the entry should be: it may follow behind, or have been torn.
    fn place_behind_others(&mut self, from: u64, index: usize, logged: &Logged) -> io::Result<()> {
        self.plan.in_order = false;
        let lost = self.lost.take().is_some();
        let region = self.journal.read_range(from, self.size)?;
        if let Some((at, done)) = locate(&region, &logged.payload) {
            let start = from + at as u64;
            if from < start {
                self.plan.steps.push(Step::Foreign { start: from, end: start });
            }
            self.plan.steps.push(if done == logged.payload.len() {
                Step::Kept { index, start }
            } else {
                Step::Missing { index, start, done: done as u64, mend: 0 }
            });
            self.pos = start + logged.entry.span();
            return Ok(());
        }
        let torn = if lost { 0 } else { self.torn_len(from, &region, logged) };
        if torn > 0 {
            self.plan.steps.push(Step::Torn { start: from, end: from + torn });
        }
        if from + torn < self.size {
            self.plan.steps.push(Step::Foreign { start: from + torn, end: self.size });
        }
        let start = self.size.max(from);
        self.plan.steps.push(Step::Missing { index, start, done: 0, mend: 0 });
        self.pos = start + logged.entry.span();
        Ok(())
    }

    /// How much of the batch a killed write has left, with bytes of others behind it: up to a page of
    /// the file, or as much as is known. What others wrote may continue as the batch does by chance,
    /// so the rest of what is equal is theirs. A power loss cuts anywhere: there, whole lines that are
    /// equal are the batch's, and the line in which it was cut stays with what was glued to it.
    fn torn_len(&self, from: u64, region: &[u8], logged: &Logged) -> u64 {
        // NULs may be left of the batch, and spaces of an earlier blanking that a power loss tore.
        let left = |have: u8| self.known.power_loss && (have == 0 || have == b' ');
        let pairs = region.iter().zip(&logged.payload);
        let equal = pairs.take_while(|(have, wanted)| have == wanted || left(**have));
        let common = equal.count() as u64;
        let page = (from + common) / PAGE_BYTES * PAGE_BYTES;
        let partial = self.written.saturating_sub(from);
        let lines = if self.known.power_loss {
            let common = &logged.payload[..usize::try_from(common).unwrap_or(0)];
            memchr::memrchr(b'\n', common).map_or(0, |newline| newline as u64 + 1)
        } else {
            0
        };
        page.saturating_sub(from).max(partial.min(common)).max(lines)
    }
}

fn differs_in_nuls_only(have: &[u8], payload: &[u8]) -> bool {
    have.iter().zip(payload).all(|(have, wanted)| have == wanted || *have == 0)
}

/// Where `payload` begins in `region`, and how much of it is there: all of it anywhere, or a beginning
/// that starts a line and reaches the end of the region.
pub(super) fn locate(region: &[u8], payload: &[u8]) -> Option<(usize, usize)> {
    if let Some(at) = memchr::memmem::find(region, payload) {
        return Some((at, payload.len()));
    }
    let near = region.len().saturating_sub(payload.len());
    let starts = memchr::memchr_iter(b'\n', &region[near..]).map(|newline| near + newline + 1);
    std::iter::once(near)
        .filter(|_| near == 0)
        .chain(starts)
        .find(|start| *start < region.len() && payload.starts_with(&region[*start..]))
        .map(|start| (start, region.len() - start))
}
