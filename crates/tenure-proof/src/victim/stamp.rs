//! A journal whose every batch comes with a new header: every reader sees the header of the last
//! batch.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::{AppendOptions, Journal, Result, Value, json};

use super::ack::Ack;
use super::check::{Batches, entries};
use super::work::{batch, line_of, patient};

const JOURNAL: &str = "stamped.jsonl";

pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Journal> {
    Journal::open_on(fs, &dir.join(JOURNAL))
}

/// Appends a batch and stamps its header, in one call.
pub(super) fn stamp(journal: &Journal, writer: u64, step: u64) -> Result<Ack> {
    let header = Some(json!({ "header": [writer, step] }).to_string().into_bytes());
    let options = AppendOptions { write: patient(), header, json: true };
    let first = journal.append(&batch(writer, step), &options)?.first;
    Ok(Ack::Stamp { writer, batch: step, first })
}

/// Batches and header of the journal, as seen through tenure and by plain readers (G7, G8).
pub(super) fn check(
    promised: &Batches,
    fs: &Arc<dyn Fs>,
    dir: &Path,
) -> std::result::Result<(), String> {
    promised.check(JOURNAL, &entries(fs, dir, JOURNAL)?)?;
    let bytes = std::fs::read(dir.join(JOURNAL)).unwrap_or_default();
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let Some(header) = lines.next() else {
        let none = promised.is_empty();
        return if none { Ok(()) } else { Err(format!("{JOURNAL}: it is empty")) };
    };
    let of: Option<Value> = serde_json::from_slice(header).ok();
    let of = of.as_ref().and_then(|of| of["header"].as_array());
    let of = of.and_then(|of| Some((of.first()?.as_u64()?, of.get(1)?.as_u64()?)));
    let last = lines.next_back().map(line_of).transpose()?;
    if of.is_none() || of != last {
        return Err(format!("{JOURNAL}: the header is of {of:?}, the last batch of {last:?}"));
    }
    Ok(())
}
