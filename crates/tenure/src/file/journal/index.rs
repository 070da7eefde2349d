//! The index: which entries are where in the journal, and the checksum of every range.
//!
//! # Invariants
//!
//! 1. Records are in the order of their entries. The log says how many of them count; the rest was
//!    written by a checkpoint that died, and the next one overwrites it.
//! 2. The journal was synced before a record about it was written, and the index is synced before a log says
//!    that the record counts.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::layout::{Layout, Sealed, newer_format, open, seal};
use crate::file::target::Target;
use crate::fs::{Access, Handle, if_found};
use crate::printable::command;

use super::format::{INDEX_MAGIC, INDEX_RECORD_BYTES, Range, TITLE_BYTES, Title};

/// Records are read and written this many at a time.
const RECORDS_AT_ONCE: u64 = 1024;

/// An open index.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) file: Arc<dyn Handle>,
    pub(super) title: Title,
}

impl Index {
    /// The index at `path`; `None` if there is none that can be read.
    pub(super) fn open(target: &Target, path: &Path, access: Access) -> Result<Option<Self>> {
        let file = if_found(target.open(path, access));
        let file = file.map_err(|err| target.cannot_open("open index", path, err))?;
        let Some(file) = file else { return Ok(None) };
        let mut bytes = [0; TITLE_BYTES];
        file.read_full_at(&mut bytes, 0).map_err(Target::failed("read index", path))?;
        match open(&bytes, INDEX_MAGIC, Title::take) {
            Sealed::Valid(title) => Ok(Some(Self { file, title })),
            Sealed::Invalid => Ok(None),
            Sealed::Newer(major) => Err(newer_format(path, major)),
        }
    }

    /// Writes a new index into an empty file.
    pub(super) fn begin(file: Arc<dyn Handle>, title: Title, ranges: &[Range]) -> io::Result<()> {
        let mut bytes = [0; TITLE_BYTES];
        seal(&mut bytes, INDEX_MAGIC, |fill| title.put(fill));
        file.write_all_at(&bytes, 0)?;
        Self { file, title }.append(0, ranges)
    }

    /// Appends after the first `len` records, and syncs. A crash leaves records that do not count.
    pub(super) fn append(&self, len: u64, ranges: &[Range]) -> io::Result<()> {
        self.write(len, ranges)?;
        self.file.sync()
    }

    fn write(&self, mut at: u64, ranges: &[Range]) -> io::Result<()> {
        for ranges in ranges.chunks(usize::try_from(RECORDS_AT_ONCE).unwrap_or(1)) {
            let mut bytes = Vec::with_capacity(ranges.len() * INDEX_RECORD_BYTES);
            let start = offset(at);
            for range in ranges {
                bytes.extend_from_slice(&range.encode_indexed(self.title.generation, at));
                at += 1;
            }
            self.file.write_all_at(&bytes, start)?;
        }
        Ok(())
    }

    /// Removes everything after the first `len` records.
    pub(super) fn cut(&self, len: u64) -> io::Result<()> {
        self.file.set_len(offset(len))
    }

    /// How many records there is room for in the file.
    pub(super) fn capacity(&self) -> io::Result<u64> {
        let bytes = self.file.extent()?.size.saturating_sub(TITLE_BYTES as u64);
        Ok(bytes / INDEX_RECORD_BYTES as u64)
    }

    /// The number after the last entry that it knows.
    pub(super) fn next_seq(&self) -> io::Result<u64> {
        let last = self.records(self.capacity()?.saturating_sub(1), 1)?.into_iter().next();
        Ok(last.flatten().map_or(self.title.first_seq, |range| range.next_seq()).max(1))
    }

    /// Up to `count` records from `at` on; one that is damaged is `None`. Fewer if the file ends.
    pub(super) fn records(&self, at: u64, count: u64) -> io::Result<Vec<Option<Range>>> {
        let count = count.min(RECORDS_AT_ONCE);
        let bytes = self.file.read_range(offset(at), offset(at + count))?;
        let decode =
            |(place, bytes)| Range::decode_indexed(bytes, self.title.generation, at + place);
        Ok((0..).zip(bytes.chunks_exact(INDEX_RECORD_BYTES)).map(decode).collect())
    }

    /// The first `len` records. Fewer if the file ends.
    pub(super) fn all(&self, len: u64) -> io::Result<Vec<Option<Range>>> {
        let mut all = Vec::new();
        loop {
            let at = all.len() as u64;
            let more = self.records(at, len - at)?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// The first of `len` records that ends above entry `seq`.
    pub(super) fn find(&self, target: &Target, len: u64, seq: u64, path: &Path) -> Result<u64> {
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.records(middle, 1).map_err(Target::failed("read index of", path))?;
            let range = found.into_iter().next().flatten();
            let range = range.ok_or_else(|| damaged(target, middle, path))?;
            if range.next_seq() > seq {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

fn offset(at: u64) -> u64 {
    TITLE_BYTES as u64 + at * INDEX_RECORD_BYTES as u64
}

/// A record of the index of the file at `path`, the journal or one of its archives, cannot be read.
pub(super) fn damaged(target: &Target, at: u64, path: &Path) -> Error {
    let detail = format!("record {at} of its index is damaged");
    let repair = command("journal repair --accept", target.path());
    let hint = format!("check the disk; {repair} gives the lines in the file new numbers");
    Error::new(ErrorKind::Damaged, "read", detail).at(path).hint(hint)
}
