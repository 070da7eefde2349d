//! What a caller can ask of a journal, and what it answers.

use crate::options::WriteOptions;

use super::head::Operation;
use super::session::News;

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
    /// Lines that others had appended, found and numbered on the way.
    pub adopted: u64,
    /// An unterminated line of somebody else was closed with a newline.
    pub closed_tail: bool,
    /// Batches that a crash had left unfinished, finished on the way.
    pub rolled_forward: u64,
    /// The operation was done before; these are its entries.
    pub replayed: bool,
}

impl Appended {
    pub(super) fn new(first: u64, lines: u64) -> Self {
        Self { first, last: first + lines - 1, ..Self::default() }
    }

    pub(super) fn replay(done: Operation) -> Self {
        Self { replayed: true, ..Self::new(done.first, done.lines) }
    }

    pub(super) fn tell(&mut self, news: &News) {
        self.adopted = news.adopted;
        self.closed_tail = news.closed_tail;
        self.rolled_forward = news.rolled_forward;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Entries that stayed, with their numbers.
    pub kept: u64,
    /// Entries that went.
    pub dropped: u64,
    /// The file's length before.
    pub bytes_before: u64,
    /// The file's length now.
    pub bytes_after: u64,
}
