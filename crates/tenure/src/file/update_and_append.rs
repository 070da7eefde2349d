//! A document and a journal changed in one call: every check before the first write.
//!
//! # Invariants
//!
//! 1. Fences, guards and the version are checked with all locks held, and nothing is written if one of
//!    them fails.
//! 2. The document comes first. On local files a crash between the two leaves the document changed and
//!    the entry missing, and a power loss may leave either without the other; repeating the call with
//!    the same operation id completes it, and does neither part twice (docs/FORMAT.md says when a power
//!    loss forgets an id). A remote store commits both in one transaction.

use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::document::{Attempt, Document};
use crate::file::journal::{Journal, Lines};
use crate::file::operations;
use crate::options::{AppendOptions, WriteOptions};
use crate::results::{Appended, Written};
use crate::store::Compute;
use crate::wait::Deadline;

/// Changes a document and appends a batch, which was checked, to a journal.
pub(crate) fn update_and_append(
    document: &Document,
    journal: &Journal,
    lines: &[&[u8]],
    options: &AppendOptions,
    compute: &mut Compute<'_>,
) -> Result<(Written, Appended)> {
    document.target().at_home(|one| {
        journal.target().at_home(|other| {
            let (document, journal) = (document.on(one), journal.on(other));
            update_and_append_now(&document, &journal, lines, options, compute)
        })
    })
}

fn update_and_append_now(
    document: &Document,
    journal: &Journal,
    lines: &[&[u8]],
    options: &AppendOptions,
    compute: &mut Compute<'_>,
) -> Result<(Written, Appended)> {
    let of_journal = WriteOptions { if_version: None, fence: None, ..options.write.clone() };
    let of_journal = AppendOptions { write: of_journal, ..options.clone() };
    let mut batch = Lines::new(lines, &of_journal);
    let deadline = Deadline::after(options.write.wait);
    let begin = |write: &WriteOptions| {
        let targets = [(document.target(), write.fence), (journal.target(), None)];
        let mut commits = Commit::begin_all(&targets, write)?;
        let (document_commit, journal_commit) = (commits.remove(0), commits.remove(0));
        if let Some(operation) = &write.operation {
            // An id that the journal could not remember is refused before the document is changed.
            operations::find(&journal_commit.target, operations::id_of(operation))?;
        }
        Ok((document_commit, journal_commit))
    };
    let (attempt, journal_commit) = document.attempts(&options.write, deadline, begin, compute)?;
    let Attempt { commit: document_commit, written, .. } = attempt;
    let changed = written.changed;
    let half_done = |error: Error| {
        let hint =
            "the document is changed, the journal is not; repeat it with the same operation id";
        if changed { error.committed(true).hint(hint) } else { error }
    };
    let appended = journal.append_in(journal_commit, &mut batch, &of_journal);
    let (appended, pending) = appended.map_err(half_done)?;
    let written = document.finish(document_commit, &options.write, written);
    let finished = journal.finish(pending, &of_journal);
    // Whatever this says of the document, the batch is logged: a caller that repeats the call would
    // append it twice.
    let written = written.map_err(|error| error.committed(true))?;
    // Of all possible failures here, only a lost log keeps the batch out of the journal.
    let is_lost = |error: &Error| error.kind() == ErrorKind::Damaged;
    finished.map_err(|error| if is_lost(&error) { half_done(error) } else { error })?;
    Ok((written, appended))
}
