//! The bytes of one file: as readers see them now, and as the disk has them.
//!
//! # Invariants
//!
//! 1. `durable` plus every pending change, in order, is `now`, unless a sync has failed (`diverged`).
//! 2. A change reaches `durable` only by [`Content::sync`], or by the judgement of a failed sync or a
//!    power loss.

use std::io;
use std::sync::Arc;

use crate::crash::{Fate, Judge};

/// The unit that a disk writes whole.
pub(crate) const SECTOR: usize = 512;

/// Nothing under test is this big; a wrong offset must not eat the memory of the machine.
const LARGEST: u64 = 1 << 31;

/// A file's content, volatile and durable. A machine is copied far more often than a file of it is
/// changed, so copies share their bytes until then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    now: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pending: Vec<Change>,
    /// A sync failed: the pages count as clean, and no later sync writes them again.
    diverged: bool,
    /// Changes before this one are on the disk as soon as a later change of a name is.
    in_order: u64,
}

#[derive(Debug, Clone)]
struct Change {
    sequence: u64,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

impl Content {
    /// A file that was on the disk all along.
    pub(crate) fn settled(bytes: &[u8]) -> Self {
        let bytes = Arc::new(bytes.to_vec());
        Self { now: bytes.clone(), durable: bytes, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.now
    }

    pub(crate) fn len(&self) -> u64 {
        self.now.len() as u64
    }

    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.now.len());
        let count = buf.len().min(self.now.len() - start);
        buf[..count].copy_from_slice(&self.now[start..start + count]);
        count
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64, sequence: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        checked_size(end)?;
        let offset = checked_size(offset)?;
        if bytes.is_empty() {
            return Ok(());
        }
        overwrite(Arc::make_mut(&mut self.now), offset, bytes);
        let what = What::Write { offset, bytes: bytes.into() };
        self.pending.push(Change { sequence, what });
        Ok(())
    }

    pub(crate) fn set_len(&mut self, len: u64, sequence: u64) -> io::Result<()> {
        let len = checked_size(len)?;
        if len != self.now.len() {
            Arc::make_mut(&mut self.now).resize(len, 0);
            self.pending.push(Change { sequence, what: What::SetLen(len) });
        }
        Ok(())
    }

    /// Makes everything pending durable.
    pub(crate) fn sync(&mut self) {
        self.sync_before(u64::MAX);
    }

    /// Everything pending comes before the changes of names that come after `sequence`.
    pub(crate) fn sync_in_order(&mut self, sequence: u64) {
        self.in_order = sequence;
    }

    /// A change of a name of this file is durable; returns whether content had to come before it.
    pub(crate) fn name_is_durable(&mut self, sequence: u64) -> bool {
        let comes_before = self.in_order > 0 && self.in_order < sequence;
        if comes_before {
            self.sync_before(self.in_order);
        }
        comes_before
    }

    fn sync_before(&mut self, end: u64) {
        let later = self.pending.partition_point(|change| change.sequence < end);
        if later == self.pending.len() && !self.diverged {
            // Invariant 1: then nothing differs any more.
            self.pending.clear();
            self.durable.clone_from(&self.now);
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for change in self.pending.drain(..later) {
            match change.what {
                What::Write { offset, bytes } => overwrite(durable, offset, &bytes),
                What::SetLen(len) => durable.resize(len, 0),
            }
        }
    }

    /// A sync that reports an error: some of it may be on the disk, and the rest is never written
    /// again, although readers still see it (what Linux does).
    pub(crate) fn sync_fails(&mut self, judge: &mut Judge<'_>) {
        self.diverged |= !self.pending.is_empty();
        self.judge(judge);
    }

    /// What is left after the power was gone.
    pub(crate) fn lose_power(&mut self, judge: &mut Judge<'_>) {
        if self.diverged || !self.pending.is_empty() {
            self.judge(judge);
            self.now.clone_from(&self.durable);
            self.diverged = false;
        }
    }

    /// The sequence number of the oldest change that is not durable.
    pub(crate) fn oldest_pending(&self) -> Option<u64> {
        self.pending.first().map(|change| change.sequence)
    }

    fn judge(&mut self, judge: &mut Judge<'_>) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for change in self.pending.drain(..) {
            let fate = judge.change(change.sequence);
            match (fate, change.what) {
                (Fate::Dropped, _) => {}
                (Fate::Whole, What::Write { offset, bytes }) => {
                    overwrite(durable, offset, &bytes);
                }
                (Fate::Whole, What::SetLen(len)) => durable.resize(len, 0),
                (Fate::Damaged, What::Write { offset, bytes }) => {
                    damage(durable, offset, &bytes, judge);
                }
                (Fate::Damaged, What::SetLen(len)) => {
                    // A length cannot be half: it is the old one or the new one.
                    if judge.random.coin() {
                        durable.resize(len, 0);
                    }
                }
            }
        }
    }
}

/// Writes as much of `bytes` as a power loss in the middle of it may leave.
fn damage(durable: &mut Vec<u8>, offset: usize, bytes: &[u8], judge: &mut Judge<'_>) {
    let random = &mut *judge.random;
    let end = offset + bytes.len();
    match random.below(5) {
        0 => {}
        1 => {
            let kept = random.index(bytes.len() + 1);
            overwrite(durable, offset, &bytes[..kept]);
        }
        2 => {
            let cut = random.index(bytes.len() + 1);
            let kept = ((offset + cut) / SECTOR * SECTOR).saturating_sub(offset);
            overwrite(durable, offset, &bytes[..kept]);
        }
        3 => {
            // The later part arrived first; what lies between is a hole.
            let lost = random.index(bytes.len() + 1);
            overwrite(durable, offset + lost, &bytes[lost..]);
        }
        _ => {
            let mut start = offset;
            while start < end {
                let stop = ((start / SECTOR + 1) * SECTOR).min(end);
                if random.coin() {
                    overwrite(durable, start, &bytes[start - offset..stop - offset]);
                }
                start = stop;
            }
        }
    }
    // The length is metadata and may be ahead of the data: the missing part reads as zeros.
    if durable.len() < end && random.coin() {
        durable.resize(end, 0);
    }
}

fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

fn checked_size(size: u64) -> io::Result<usize> {
    match usize::try_from(size) {
        Ok(fits) if size <= LARGEST => Ok(fits),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}
