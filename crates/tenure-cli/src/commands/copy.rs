//! `tenure copy`: documents and journals from one place to another.
//!
//! # Invariants
//!
//! 1. What was copied is read back and compared, byte by byte, before it is reported as copied.
//! 2. Nothing at TO is lost: what is there with other content stays, unless the caller says otherwise for documents.
//! 3. A copy that ended anywhere is continued by the next one. Documents are whole or absent; of a journal there are
//!    whole batches, and the next copy goes on behind the entries that are equal.

mod journal;
mod side;

use std::path::Path;

use tenure::options::CollectionKind;
use tenure::{Document, Error, ErrorKind, Value, WriteOptions, embed, json};

use self::journal::copy_journal;
use self::side::Side;
use crate::args::{ContentArg, CopyArgs};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;

/// What those see who wait for a target.
const LABEL: &str = "tenure copy";

pub(super) fn run(args: &CopyArgs, out: &mut Output) -> Result<ExitCode> {
    let (from, mut to) = (Side::read(&args.from)?, Side::read(&args.to)?);
    if !from.is_collection {
        to.enter(&from)?;
    }
    if from.shown() == to.shown() {
        return Err(Failure::usage("copy", "FROM and TO are the same target").at(&from.shown()));
    }
    let items = if from.is_collection { from.members()? } else { vec![from.single(args.content)?] };
    if let Some(skipped) = from.skipped() {
        out.warn(&skipped);
    }
    let options =
        WriteOptions { wait: args.wait.get()?, label: LABEL.to_owned(), ..WriteOptions::default() };
    let summary = copy_all(&from, &to, items, args.overwrite, &options, out);
    super::store::warn_of_dangers(out);
    out.result(|| summary.to_json(&from, &to), || summary.text())?;
    out.flush()?;
    summary.into_exit(&to)
}

/// One document or journal.
pub(super) struct Item {
    kind: CollectionKind,
    /// Its key; `None` for a single target.
    key: Option<String>,
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// So many entries and bytes were written.
    Copied { entries: u64, bytes: u64 },
    /// It was there already.
    Present,
    /// There is something else, which stays.
    Differs,
}

fn copy_all(
    from: &Side,
    to: &Side,
    items: Vec<Item>,
    overwrite: bool,
    options: &WriteOptions,
    out: &Output,
) -> Summary {
    let progress = Progress::new();
    let mut summary = Summary::default();
    let count = items.len();
    for (index, item) in items.into_iter().enumerate() {
        let name = item.key.clone().unwrap_or_else(|| from.shown().display().to_string());
        #[expect(clippy::cast_precision_loss, reason = "a part of a bar")]
        let part = index as f64 / count as f64;
        progress.show(part, &name);
        let count = |entries: u64| progress.show(part, &format!("{name}, {entries} entries"));
        match copy_one(from, to, &item, overwrite, options, &count, out) {
            Ok(outcome) => summary.add(item.kind, name, outcome),
            Err(failure) => {
                // Those behind it are copied all the same; another run tries it again.
                summary.failed.push((name, failure));
            }
        }
    }
    summary
}

fn copy_one(
    from: &Side,
    to: &Side,
    item: &Item,
    overwrite: bool,
    options: &WriteOptions,
    count: &dyn Fn(u64),
    out: &Output,
) -> Result<Outcome> {
    match item.kind {
        CollectionKind::Documents => {
            copy_document(&from.document(item)?, &to.document(item)?, overwrite, options)
        }
        CollectionKind::Journals => {
            let (source, target) = (from.journal(item)?, to.journal(item)?);
            let (outcome, gaps) = copy_journal(&source, &target, &to.lock(item)?, options, count)?;
            if let Some((first, last)) = gaps.first {
                out.warn(&format!(
                    "`{}` has {} gaps in its numbers, the first from {first} to {last}: entries there were lost or never \
                     written, and the others were copied",
                    source.path().display().to_string().escape_debug(),
                    gaps.count,
                ));
            }
            if let pending @ 1.. = source.read(u64::MAX, None)?.pending()?.len() {
                let path = source.path().display().to_string();
                out.warn(&format!(
                    "{pending} lines of other tools in `{}` have no number yet, and were not copied; the next \
                     `tenure journal append` gives them one",
                    path.escape_debug()
                ));
            }
            Ok(outcome)
        }
    }
}

fn copy_document(
    from: &Document,
    to: &Document,
    overwrite: bool,
    options: &WriteOptions,
) -> Result<Outcome> {
    let snapshot = from.read()?.ok_or_else(|| missing(from.path()))?;
    let text = String::from_utf8(snapshot.bytes)
        .map_err(|_| Error::new(ErrorKind::Damaged, "copy", "it is not UTF-8").at(from.path()))?;
    let mut differs = false;
    let written = embed::update_text(to, options, |current| {
        differs = current.is_some_and(|current| current != text) && !overwrite;
        Ok((!differs).then(|| text.clone()))
    })?;
    if differs {
        return Ok(Outcome::Differs);
    }
    if to.read()?.is_none_or(|now| now.bytes != text.as_bytes()) {
        return Err(changed_meanwhile(to.path()));
    }
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    Ok(if written.changed { Outcome::Copied { entries: 0, bytes } } else { Outcome::Present })
}

fn missing(path: &Path) -> Failure {
    let error = Error::new(ErrorKind::NotFound, "copy", "there is none").at(path);
    Failure::from(error).hint("check the name; a collection ends with a slash")
}

/// What was read back is not what was written.
pub(super) fn changed_meanwhile(path: &Path) -> Failure {
    let detail = "another writer changed it while it was copied";
    let error = Error::new(ErrorKind::Conflict, "copy", detail).at(path);
    Failure::from(error).hint("stop the writers, and copy again")
}

/// What was done.
#[derive(Default)]
struct Summary {
    documents: Counts,
    journals: Counts,
    entries: u64,
    bytes: u64,
    differing: Vec<String>,
    failed: Vec<(String, Failure)>,
}

#[derive(Default)]
struct Counts {
    copied: u64,
    present: u64,
}

impl Summary {
    fn add(&mut self, kind: CollectionKind, name: String, outcome: Outcome) {
        let counts = match kind {
            CollectionKind::Documents => &mut self.documents,
            CollectionKind::Journals => &mut self.journals,
        };
        match outcome {
            Outcome::Copied { entries, bytes } => {
                counts.copied += 1;
                self.entries += entries;
                self.bytes += bytes;
            }
            Outcome::Present => counts.present += 1,
            Outcome::Differs => self.differing.push(name),
        }
    }

    fn to_json(&self, from: &Side, to: &Side) -> Value {
        let shown = |side: &Side| side.shown().to_string_lossy().into_owned();
        let counts =
            |counts: &Counts| json!({ "copied": counts.copied, "present": counts.present });
        let failed = |(name, failure): &(String, Failure)| json!({ "name": name, "message": failure.message() });
        json!({
            "from": shown(from),
            "to": shown(to),
            "documents": counts(&self.documents),
            "journals": counts(&self.journals),
            "entries": self.entries,
            "bytes": self.bytes,
            "differing": self.differing,
            "failed": self.failed.iter().map(failed).collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let present = self.documents.present + self.journals.present;
        format!(
            "{} documents and {} journals ({} entries) copied, {} bytes; {present} were there already",
            self.documents.copied, self.journals.copied, self.entries, self.bytes,
        )
    }

    /// The first failure is reported; it says how many there are.
    fn into_exit(mut self, to: &Side) -> Result<ExitCode> {
        let failed = self.failed.len();
        if failed > 0 {
            let (_, failure) = self.failed.swap_remove(0);
            return Err(match failed {
                1 => failure,
                _ => failure.hint(format!("so are {} others; --json lists them", failed - 1)),
            });
        }
        let Some(first) = self.differing.first() else { return Ok(ExitCode::Done) };
        let detail = format!(
            "{} already exist with other content, `{}` among them",
            self.differing.len(),
            first.escape_debug()
        );
        Err(Failure::new(ExitCode::NotMet, "conflict", "copy", detail)
            .at(&to.shown())
            .hint("they were left as they are; compare and decide (--overwrite for documents)"))
    }
}

impl From<ContentArg> for CollectionKind {
    fn from(content: ContentArg) -> Self {
        match content {
            ContentArg::Document => Self::Documents,
            ContentArg::Journal => Self::Journals,
        }
    }
}
