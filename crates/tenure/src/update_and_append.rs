//! A document and a journal changed in one call: every check before the first write.

use crate::document::{Document, by_value};
use crate::error::{Error, ErrorKind, Result};
use crate::journal::{self, Journal};
use crate::json::Value;
use crate::options::{AppendOptions, WriteOptions};
use crate::results::{Appended, Written};

/// Changes a document and appends a batch to a journal, both or (checks failing) neither.
///
/// `options.write` holds for both: its fence is the document's, its version the document's, its
/// guards are checked once; a guard that names the journal proves a hold on it. With an operation id
/// the call can be repeated until it is known to be done.
///
/// On local files the document comes first: a crash between the two leaves the document changed and the entry missing,
/// and repeating the call with the same operation id completes it. Another store commits both in one transaction.
pub fn update_and_append(
    document: &Document,
    journal: &Journal,
    batch: &[impl AsRef<[u8]>],
    options: &AppendOptions,
    compute: impl FnMut(Option<&Value>) -> Result<Option<Value>>,
) -> Result<(Written, Appended)> {
    if document.path() == journal.path() {
        let detail = "the document and the journal are one file";
        return Err(Error::new(ErrorKind::Invalid, "update and append", detail).at(document.path()));
    }
    let of_journal = WriteOptions { if_version: None, ..options.write.clone() };
    let of_journal = AppendOptions { write: of_journal, ..options.clone() };
    let lines = journal::check(journal.path(), batch, &of_journal)?;
    let compute = &mut by_value(document.path(), compute);
    document.target().change_and_append(journal.target(), &lines, options, compute)
}
