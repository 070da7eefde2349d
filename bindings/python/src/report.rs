//! What the verbs of a journal return.

use std::ffi::OsString;

use crate::record::record;

record! {
    /// What an append did.
    Appended {
        /// The number of the batch's first entry.
        first: u64,
        /// The number of its last entry.
        last: u64,
        /// Lines that others had appended, found and numbered on the way.
        adopted: u64,
        /// An unterminated line of somebody else was closed with a newline.
        closed_tail: bool,
        /// Batches that a crash had left unfinished, finished on the way.
        rolled_forward: u64,
        /// The operation was done before; these are its entries.
        replayed: bool,
    }
}

record! {
    /// What a rotation did.
    Rotated {
        /// Where the entries so far are now; `None` if there were none.
        archive: Option<OsString>,
        /// The number that the next entry gets.
        next: u64,
    }
}

record! {
    /// What a compaction did.
    Compacted {
        /// Entries that stayed, with their numbers.
        kept: u64,
        /// Entries that went.
        dropped: u64,
        /// The file's length before.
        bytes_before: u64,
        /// The file's length now.
        bytes_after: u64,
    }
}

record! {
    /// A range of the journal that is not what it was.
    Damage {
        /// First byte.
        start: u64,
        /// Behind the last byte.
        end: u64,
        /// What is wrong.
        why: String,
    }
}

record! {
    /// What a verification found.
    Report [expect(clippy::too_many_arguments, reason = "one per field")] {
        /// Nothing is damaged.
        sound: bool,
        /// Entries in the file now.
        entries: u64,
        /// How many of them others have written, as far as that is known.
        foreign_entries: u64,
        /// Ranges that have a checksum in the index.
        segments: u64,
        /// The file's length.
        bytes: u64,
        /// The number that the next entry gets; 0 if tenure has not written to it yet.
        next: u64,
        /// What is not as it was.
        damaged: Vec<Damage>,
        /// The file ends in an unterminated line of somebody else.
        torn_tail: bool,
        /// NULs in lines that were left before a power loss.
        nul_bytes: u64,
        /// Logged batches that are not in the file yet; the next write finishes them.
        pending: u64,
        /// Batches that a repair has finished.
        rolled_forward: u64,
        /// The sidecars do not belong to this file; the next write adopts it.
        unbound: bool,
    }
}

impl From<tenure::Appended> for Appended {
    fn from(done: tenure::Appended) -> Self {
        let tenure::Appended { first, last, adopted, closed_tail, rolled_forward, replayed } = done;
        Self { first, last, adopted, closed_tail, rolled_forward, replayed }
    }
}

impl From<tenure::Report> for Report {
    fn from(report: tenure::Report) -> Self {
        let sound = report.is_sound();
        let damage =
            |found: tenure::Damage| Damage { start: found.start, end: found.end, why: found.why };
        Self {
            sound,
            entries: report.entries,
            foreign_entries: report.foreign_entries,
            segments: report.segments,
            bytes: report.bytes,
            next: report.next,
            damaged: report.damaged.into_iter().map(damage).collect(),
            torn_tail: report.torn_tail,
            nul_bytes: report.nul_bytes,
            pending: report.pending,
            rolled_forward: report.rolled_forward,
            unbound: report.unbound,
        }
    }
}
