//! The entries of one journal, in batches, behind those that are there already.
//!
//! # Invariants
//!
//! 1. The target is locked from the comparison to the end, and every append proves that lock: no other writer, and no
//!    copy that was believed dead, comes in between.
//! 2. An append whose reply was lost is repeated under the same operation id: it is done once.
//! 3. Numbers without an entry, as after a failover, are skipped. Those of the source are counted.
//! 4. A crash leaves whole batches. Nothing else remembers how far the copy came: the entries themselves are compared.

use tenure::outcome::{Entries, Entry, LeaseInfo};
use tenure::{AppendOptions, Error, Fence, Journal, Lock, LockOptions, WriteOptions};

use super::{Outcome, changed_meanwhile, missing};
use crate::failure::Result;

/// A batch has at most so many entries: an etcd transaction takes 128 operations.
const BATCH_ENTRIES: usize = 64;
/// And about so many bytes: a server takes requests of 1.5 MiB.
const BATCH_BYTES: usize = 256 << 10;
/// How often an append is repeated whose outcome is not known.
const REPEATS: u32 = 3;

/// Copies what is missing.
pub(super) fn copy_journal(
    from: &Journal,
    to: &Journal,
    lock: &Lock,
    options: &WriteOptions,
    count: &dyn Fn(u64),
) -> Result<(Outcome, Gaps)> {
    if Source::of(from, 0, None)?.next()?.is_none() {
        return Err(missing(from.path()));
    }
    let held = lock.acquire(&LockOptions {
        wait: options.wait,
        label: options.label.clone(),
        ..LockOptions::default()
    })?;
    let writer = Writer { from, to, options, count, fence: held.publish_fence() };
    let outcome = writer.copy();
    held.release()?;
    outcome
}

/// Numbers that have no entry.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Gaps {
    pub(super) count: u64,
    pub(super) first: Option<(u64, u64)>,
}

/// The entries that a journal has.
struct Source {
    entries: Entries,
    gaps: Gaps,
    /// The last number that is known to have no entry.
    gone: u64,
}

impl Source {
    fn of(journal: &Journal, from: u64, limit: Option<u64>) -> Result<Self> {
        Ok(Self { entries: journal.read(from, limit)?, gaps: Gaps::default(), gone: 0 })
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            let error = match self.entries.next().transpose() {
                Ok(next) => return Ok(next),
                Err(error) => error,
            };
            let Some(gap) = error.gap().filter(|gap| gap.1 > self.gone) else {
                return Err(error.into());
            };
            self.gone = gap.1;
            self.gaps.count += 1;
            self.gaps.first.get_or_insert(gap);
        }
    }
}

struct Writer<'a> {
    from: &'a Journal,
    to: &'a Journal,
    options: &'a WriteOptions,
    /// Learns how many entries were appended.
    count: &'a dyn Fn(u64),
    fence: Fence,
}

impl Writer<'_> {
    fn copy(&self) -> Result<(Outcome, Gaps)> {
        let mut source = Source::of(self.from, 0, None)?;
        let mut there = Source::of(self.to, 0, None)?;
        while let Some(theirs) = there.next()? {
            if source.next()?.is_none_or(|ours| ours.line != theirs.line) {
                return Ok((Outcome::Differs, source.gaps));
            }
        }
        let (mut entries, mut bytes, mut began) = (0_u64, 0_u64, None);
        loop {
            let batch = Batch::read(&mut source)?;
            let Some(first) = batch.first else { break };
            let at = self.append(&batch)?;
            began.get_or_insert((first, at));
            entries += u64::try_from(batch.lines.len()).unwrap_or(u64::MAX);
            bytes += u64::try_from(batch.bytes).unwrap_or(u64::MAX);
            (self.count)(entries);
        }
        let Some((first, at)) = began else { return Ok((Outcome::Present, source.gaps)) };
        self.verify(first, at, entries)?;
        Ok((Outcome::Copied { entries, bytes }, source.gaps))
    }

    /// Appends a batch; returns the number of its first entry.
    fn append(&self, batch: &Batch) -> Result<u64> {
        let (first, last) = (batch.first.unwrap_or(0), batch.last);
        let sum = u128::from_be_bytes(LeaseInfo::sum_of(&self.from.path().to_string_lossy()));
        let operation = format!("copy-{sum:032x}-{first}-{last}-{}", self.fence);
        let options = AppendOptions {
            write: WriteOptions {
                fence: Some(self.fence),
                operation: Some(operation),
                ..self.options.clone()
            },
            ..AppendOptions::default()
        };
        let mut repeats = 0;
        loop {
            match self.to.append(&batch.lines, &options) {
                Ok(done) => return Ok(done.first),
                Err(error) if repeats < REPEATS && is_unknown(&error) => repeats += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads back what was written.
    fn verify(&self, first: u64, at: u64, entries: u64) -> Result<()> {
        let mut source = Source::of(self.from, first, Some(entries))?;
        let mut there = Source::of(self.to, at, Some(entries))?;
        for _ in 0..entries {
            let (ours, theirs) = (source.next()?, there.next()?);
            if ours.is_none() || ours.map(|entry| entry.line) != theirs.map(|entry| entry.line) {
                return Err(changed_meanwhile(self.to.path()));
            }
        }
        Ok(())
    }
}

/// Whether the append may have been done.
fn is_unknown(error: &Error) -> bool {
    error.kind() == tenure::ErrorKind::Io && error.is_committed().is_none()
}

#[derive(Default)]
struct Batch {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    first: Option<u64>,
    last: u64,
}

impl Batch {
    fn read(source: &mut Source) -> Result<Self> {
        let mut batch = Self::default();
        while batch.lines.len() < BATCH_ENTRIES && batch.bytes < BATCH_BYTES {
            let Some(Entry { seq, line }) = source.next()? else { break };
            batch.first.get_or_insert(seq);
            batch.last = seq;
            batch.bytes += line.len();
            batch.lines.push(line);
        }
        Ok(batch)
    }
}
