//! A change, as one call of `commit`, or of `append` if it is nothing but lines for a journal that is free.

use std::collections::BTreeMap;

use tenure::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::failure::Failure;
use super::rows::{Columns as _, signed, version, version_number};
use super::server::CLIENT;
use super::{BYTES_MAX, PostgresEngine, only};
use crate::engine::{Commit, Committed, Receipt};

/// What one request may carry: far below the server's limit of 1 GB, and sent in the time that a request has.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// One commit in so many looks for what is over and removes it.
const SWEEP_EVERY: u64 = 256;

/// How the row of a target is used, as `commit` in `functions.sql` numbers it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    #[default]
    Looked = 0,
    Proven = 1,
    Written = 2,
    Removed = 3,
}

/// What is asked of one target.
#[derive(Debug, Default)]
struct Part {
    used: Use,
    must_be_free: bool,
    fence: Option<i64>,
}

/// The targets of a commit, in the order in which their rows are locked.
fn parts<'a>(commit: &Commit<'a>) -> BTreeMap<&'a str, Part> {
    let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
    let changes = commit.document.is_some() || commit.journal.is_some() || commit.remove.is_some();
    let guard = if changes { Use::Proven } else { Use::Looked };
    for (name, fence) in &commit.proofs {
        let part = parts.entry(name).or_default();
        (part.used, part.fence) = (guard, Some(signed(*fence)));
    }
    let written = commit.document.iter().map(|put| put.name);
    let written = written.chain(commit.journal.iter().map(|(name, _)| *name));
    for name in written.chain(commit.free.iter().copied()) {
        parts.entry(name).or_default().used = Use::Written;
    }
    for name in &commit.free {
        parts.entry(name).or_default().must_be_free = true;
    }
    if let Some(removal) = &commit.remove {
        parts.entry(removal.name).or_default().used = Use::Removed;
    }
    parts
}

/// The journal and the lines, if a commit is nothing but an append to a journal that has to be free.
fn only_lines<'a>(commit: &Commit<'a>) -> Option<(&'a str, &'a [&'a [u8]])> {
    let Commit { id: _, free, proofs, document, journal, remove, operation } = commit;
    let is_more = document.is_some() || remove.is_some() || operation.is_some();
    journal.filter(|(name, _)| !is_more && proofs.is_empty() && *free == [*name])
}

/// What the server answered.
enum Answer {
    /// To `append`: what was done, and whom to wake.
    Appended(Receipt, Vec<String>),
    /// To `commit`.
    Committed(Vec<Row>),
}

impl PostgresEngine {
    pub(super) fn make(&self, commit: &Commit<'_>) -> Result<Committed> {
        let step = "commit to";
        let document = commit.document.as_ref();
        let (journal, lines) =
            commit.journal.map_or((None, &[][..]), |(name, lines)| (Some(name), lines));
        let removed = commit.remove.as_ref();
        let about = document
            .map(|put| put.name)
            .or(journal)
            .or(removed.map(|removal| removal.name))
            .or_else(|| commit.proofs.first().map(|(name, _)| *name))
            .unwrap_or_default();
        let bytes = document.and_then(|put| put.bytes);
        refuse_long(about, bytes.into_iter().chain(lines.iter().copied()))?;

        let parts = parts(commit);
        let names: Vec<&str> = parts.keys().copied().collect();
        let modes: Vec<i16> = parts.values().map(|part| part.used as i16).collect();
        let free: Vec<bool> = parts.values().map(|part| part.must_be_free).collect();
        let fences: Vec<Option<i64>> = parts.values().map(|part| part.fence).collect();
        let base = document.and_then(|put| put.base).map(version_number);
        let changes = removed.and_then(|removal| removal.changes).map(signed);
        let answer = self.server.run(step, Some(about), |connection, again| {
            // Only `commit` looks for what an earlier attempt did.
            if let Some(journal) = only_lines(commit).filter(|_| !again) {
                if let Some(answer) = self.append(connection, commit.id, journal)? {
                    return Ok(answer);
                }
            }
            let rows = self.server.query(
                connection,
                "select * from @@.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
                &[
                    (&CLIENT, Type::INT4),
                    (&commit.id, Type::TEXT),
                    (&again, Type::BOOL),
                    (&names, Type::TEXT_ARRAY),
                    (&modes, Type::INT2_ARRAY),
                    (&free, Type::BOOL_ARRAY),
                    (&fences, Type::INT8_ARRAY),
                    (&document.map(|put| put.name), Type::TEXT),
                    (&base, Type::INT8),
                    (&bytes, Type::BYTEA),
                    (&journal, Type::TEXT),
                    (&lines, Type::BYTEA_ARRAY),
                    (&removed.map(|removal| removal.name), Type::TEXT),
                    (&changes, Type::INT8),
                    (&commit.operation, Type::TEXT),
                ],
            )?;
            match rows.first() {
                Some(row) if row.column::<String>("r_answer")? == "barred" => Err(Failure::Barred),
                _ => Ok(Answer::Committed(rows)),
            }
        })?;
        let (committed, wake) = match answer {
            Answer::Appended(receipt, wake) => (Committed::Done(receipt), Some(wake)),
            Answer::Committed(rows) => {
                let row = only(&rows, step, &self.server.name)?;
                (
                    self.decoded(step, about, || committed(row))?,
                    row.column("r_wake").unwrap_or_default(),
                )
            }
        };
        self.hub.wake(wake);
        if is_due(commit.id, SWEEP_EVERY) {
            self.sweep();
        }
        Ok(committed)
    }

    /// Appends to a journal that is free. `None`: nothing was done, and only `commit` can tell why.
    fn append(
        &self,
        connection: &mut Connection,
        id: &str,
        (name, lines): (&str, &[&[u8]]),
    ) -> Result<Option<Answer>, Failure> {
        let rows = self.server.query(
            connection,
            "select @@.append($1, $2, $3, $4) as r_appended",
            &[
                (&CLIENT, Type::INT4),
                (&id, Type::TEXT),
                (&name, Type::TEXT),
                (&lines, Type::BYTEA_ARRAY),
            ],
        )?;
        let appended: Option<Vec<String>> =
            rows.first().map_or(Ok(None), |row| row.column("r_appended"))?;
        let Some((last, wake)) = appended.as_deref().and_then(<[String]>::split_first) else {
            return Ok(None);
        };
        let last: u64 = last.parse().map_err(|_| Failure::Lost(format!("not a number: {last}")))?;
        let receipt = Receipt { version: None, lines: Some((last + 1 - lines.len() as u64, last)) };
        Ok(Some(Answer::Appended(receipt, wake.to_vec())))
    }

    /// Removes what is over. The next one does it, if this one fails.
    pub(super) fn sweep(&self) {
        let statement = "select @@.sweep($1)";
        drop(self.server.rows("sweep", None, statement, &[(&CLIENT, Type::INT4)]));
    }
}

fn committed(row: &Row) -> Result<Committed, Failure> {
    let answer: String = row.column("r_answer")?;
    let named = || Ok(row.column::<Option<String>>("r_name")?.unwrap_or_default());
    let lines = row.number("r_first")?.zip(row.number("r_last")?);
    let receipt = Receipt { version: row.number("r_version")?.map(version), lines };
    Ok(match answer.as_str() {
        "done" => Committed::Done(receipt),
        "replayed" => Committed::Replayed(receipt),
        "overtaken" => Committed::Overtaken,
        "busy" => Committed::Busy { name: named()?, holder: row.holder()? },
        _ => Committed::Refused {
            name: named()?,
            expired: row.column("r_expired")?,
            newest: row.number("r_fence")?.unwrap_or(0),
            holder: row.holder()?,
        },
    })
}

fn refuse_long<'a>(name: &str, parts: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    let mut all = 0;
    for part in parts {
        let length = part.len() as u64;
        all += length;
        if length > BYTES_MAX || all > REQUEST_BYTES_MAX {
            let detail = format!(
                "{length} bytes, {all} with those before, are too many: {BYTES_MAX} for a document or a line, \
                 {REQUEST_BYTES_MAX} for a batch"
            );
            let error = Error::new(ErrorKind::Invalid, "commit to", detail);
            return Err(error.at(std::path::Path::new(name)).committed(false));
        }
    }
    Ok(())
}

/// Whether this one of so many sweeps. Its id is random.
pub(super) fn is_due(id: &str, every: u64) -> bool {
    let mix = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    id.bytes().fold(7, mix) % every == 0
}
