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
        /// Lines of other tools that got a number on the way.
        adopted: u64,
        /// An unterminated line of another tool was closed with a newline.
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
        /// Where the file from before is kept until the next compaction or header.
        replaced: Option<OsString>,
    }
}

record! {
    /// A range of a file that is not what it was.
    Damage {
        /// The journal, or one of its archives.
        file: OsString,
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
        /// How many of them other tools have written.
        foreign_entries: u64,
        /// Ranges that were compared with their checksum.
        segments: u64,
        /// The file's length.
        bytes: u64,
        /// The number that the next entry gets; 0 if tenure has not written to it yet.
        next: u64,
        /// What is not as it was, in the archives too.
        damaged: Vec<Damage>,
        /// Entries that are gone: the first and the last of each gap.
        lost: Vec<(u64, u64)>,
        /// Numbers that were reserved when the machine restarted; entries without a sync may have had them.
        skipped: Vec<(u64, u64)>,
        /// Archives that were checked.
        archives: u64,
        /// The file ends in an unterminated line of another tool.
        torn_tail: bool,
        /// Complete lines of other tools that the next write gives a number.
        unadopted: u64,
        /// NULs in the file: lost to a power loss before they were synced.
        nul_bytes: u64,
        /// Logged batches that are not in the file yet; the next write finishes them.
        pending: u64,
        /// Batches that a repair has finished.
        rolled_forward: u64,
        /// The sidecars do not belong to this file; the next write adopts it.
        unbound: bool,
        /// Damage that a repair has written over or accepted.
        set_aside: Vec<Damage>,
        /// Where a copy of those bytes is, one range behind the other.
        quarantine: Option<OsString>,
    }
}

impl From<tenure::outcome::Appended> for Appended {
    fn from(done: tenure::outcome::Appended) -> Self {
        let tenure::outcome::Appended {
            first,
            last,
            adopted,
            closed_tail,
            rolled_forward,
            replayed,
        } = done;
        Self { first, last, adopted, closed_tail, rolled_forward, replayed }
    }
}

impl From<tenure::outcome::Report> for Report {
    fn from(report: tenure::outcome::Report) -> Self {
        let sound = report.is_sound();
        let damage = |found: tenure::outcome::Damage| {
            let tenure::outcome::Damage { file, start, end, why } = found;
            Damage { file: file.into(), start, end, why }
        };
        Self {
            sound,
            entries: report.entries,
            foreign_entries: report.foreign_entries,
            segments: report.segments,
            bytes: report.bytes,
            next: report.next,
            damaged: report.damaged.into_iter().map(damage).collect(),
            lost: report.lost,
            skipped: report.skipped,
            archives: report.archives,
            torn_tail: report.torn_tail,
            unadopted: report.unadopted,
            nul_bytes: report.nul_bytes,
            pending: report.pending,
            rolled_forward: report.rolled_forward,
            unbound: report.unbound,
            set_aside: report.set_aside.into_iter().map(damage).collect(),
            quarantine: report.quarantine.map(Into::into),
        }
    }
}
