//! Shared journals: append, read, wait for more.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tenure::outcome::Entry;
use tenure::{AppendOptions, Journal, Result, Value, Wait, WriteOptions, json};

use super::reservations::refuse_reserved;
use super::{Call, Tool};
use crate::arguments::wrong;

/// More entries than this at once help no model.
const ENTRIES_MAX: u64 = 500;
/// A cancelled wait is noticed within this time.
const SLICE: Duration = Duration::from_millis(50);

const PATH: (&str, &str, bool, &str) =
    ("path", "string", true, "The JSONL file, relative to the project's root");

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "append_journal",
        title: "Append to a shared journal",
        description: "Appends entries to a shared log as one batch: all of them or none, never mixed with those of \
                      other agents. Returns their numbers.",
        reads: false,
        arguments: &[
            PATH,
            ("entries", "array", true, "Each element becomes one line of JSON"),
            (
                "wait_seconds",
                "number",
                false,
                "How long to wait for another holder; 10 if it is left out",
            ),
        ],
        run: append,
    },
    Tool {
        name: "read_journal",
        title: "Read a shared journal",
        description: "Reads entries of a shared log, oldest first. Continue with from = next of the last answer. With \
                      wait_seconds it waits for new entries if there are none.",
        reads: true,
        arguments: &[
            PATH,
            (
                "from",
                "number",
                false,
                "The number of the first entry; the oldest if it is left out",
            ),
            ("last", "number", false, "Only the newest N entries; cannot be used with from"),
            ("limit", "number", false, "At most N entries, up to 500"),
            ("wait_seconds", "number", false, "How long to wait for an entry; 0 if it is left out"),
        ],
        run: read,
    },
];

fn journal(call: Call<'_>) -> Result<Journal> {
    call.context.root.journal(call.arguments.text("path")?)
}

fn append(call: Call<'_>) -> Result<Value> {
    let entries = call.arguments.required("entries")?;
    let entries = entries.as_array().ok_or_else(|| wrong("entries", "must be an array"))?;
    let lines: Vec<String> = entries.iter().map(Value::to_string).collect();
    let write = WriteOptions {
        wait: call.arguments.write_wait()?,
        cancel: Some(call.cancel.clone()),
        label: "mcp".to_owned(),
        ..WriteOptions::default()
    };
    let options = AppendOptions { write, json: true, ..AppendOptions::default() };
    let journal = journal(call)?;
    refuse_reserved(call, journal.path())?;
    let appended = journal.append(&lines, &options)?;
    Ok(json!({ "first": appended.first, "last": appended.last }))
}

fn read(call: Call<'_>) -> Result<Value> {
    let (arguments, journal) = (call.arguments, journal(call)?);
    let limit = arguments.number("limit")?.unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX);
    let (from, last) = (arguments.number("from")?, arguments.number("last")?);
    if from.is_some() && last.is_some() {
        return Err(wrong("last", "and `from` exclude each other"));
    }
    let entries = match last {
        Some(last) => newest(&journal, last.min(limit))?,
        None => journal.read(from.unwrap_or(0), Some(limit))?.collect::<Result<Vec<_>>>()?,
    };
    let entries = if entries.is_empty() && limit > 0 {
        awaited(call, &journal, from.unwrap_or(0))?
    } else {
        entries
    };
    let next = entries.last().map_or(from.unwrap_or(0), |entry| entry.seq + 1);
    Ok(json!({ "entries": entries.iter().map(shown).collect::<Value>(), "next": next }))
}

/// Waits for the next entry.
fn awaited(call: Call<'_>, journal: &Journal, from: u64) -> Result<Vec<Entry>> {
    let until = Instant::now() + call.arguments.seconds("wait_seconds", Duration::ZERO)?;
    let mut follow = journal.follow(from)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || call.cancel.is_cancelled() {
            return Ok(Vec::new());
        }
        if let Some(entry) = follow.next(Wait::For(left.min(SLICE)))? {
            return Ok(vec![entry]);
        }
    }
}

fn newest(journal: &Journal, count: u64) -> Result<Vec<Entry>> {
    let mut kept = VecDeque::new();
    for entry in journal.read(0, None)? {
        kept.push_back(entry?);
        if kept.len() as u64 > count {
            kept.pop_front();
        }
    }
    Ok(kept.into())
}

fn shown(entry: &Entry) -> Value {
    if let Ok(value) = tenure::json::parse(&entry.line) {
        json!({ "seq": entry.seq, "value": value })
    } else {
        json!({ "seq": entry.seq, "line": String::from_utf8_lossy(&entry.line) })
    }
}
