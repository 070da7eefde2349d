//! What a caller can ask of a journal, and what it answers.

use crate::options::WriteOptions;

use super::writer::News;

/// How a batch is appended. The default is durable and takes any lines.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// Waiting, proof, durability, operation id.
    pub write: WriteOptions,
    /// Refuse lines that are not JSON.
    pub json: bool,
    /// Make this the first line of the file, in the same step. It is not an entry. Where it differs
    /// from the header that is there, the file is written anew. With a header the batch may be empty.
    pub header: Option<Vec<u8>>,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// The number of the batch's first entry.
    pub first: u64,
    /// The number of its last entry; one less than the first if there is none.
    pub last: u64,
    /// Lines of other tools that were found and numbered on the way.
    pub adopted: u64,
    /// An unterminated line of another tool was closed with a newline.
    pub closed_tail: bool,
    /// Batches that a crash had left unfinished, finished on the way.
    pub rolled_forward: u64,
    /// The operation was done before; these are its entries.
    pub replayed: bool,
}

impl Appended {
    pub(super) fn new(first: u64, lines: u64, news: &News) -> Self {
        let News { adopted, closed_tail, rolled_forward } = *news;
        let last = (first + lines).saturating_sub(1);
        Self { first, last, adopted, closed_tail, rolled_forward, replayed: false }
    }
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// Where the entries so far are now; `None` if there were none, and nothing was done.
    pub archive: Option<std::path::PathBuf>,
    /// The number that the next entry gets.
    pub next: u64,
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Entries that stayed, with their numbers.
    pub kept: u64,
    /// Entries that went.
    pub dropped: u64,
    /// The file's length before.
    pub bytes_before: u64,
    /// The file's length now.
    pub bytes_after: u64,
    /// Where the file from before is kept until the next replacement, and for good if another tool appends to it.
    pub replaced: Option<std::path::PathBuf>,
}
