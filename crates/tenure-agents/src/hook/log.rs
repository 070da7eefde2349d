//! `tenure hook log`: one line per call in a journal, for people who ask later which agent did what.
//!
//! # Invariants
//!
//! 1. A line names the event, the agent, the tool and its files. Of a command it has the first letters; contents of
//!    files are not in it.
//! 2. The journal is replaced by a new one when it is large; the old one is kept beside it.

use std::path::PathBuf;

use serde_json::json;
use tenure::options::Durability;
use tenure::{AppendOptions, Journal, Wait, WriteOptions};

use crate::answer::{Answer, Trouble};
use crate::clock;
use crate::payload::Payload;
use crate::place::Place;

/// A journal of this size is rotated.
const BYTES_MAX: u64 = 16 << 20;
/// A command is cut to this many letters.
const COMMAND_LETTERS_MAX: usize = 300;
/// A hook must answer in a moment.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// Answers one call, always by staying out of the way. Without a file the journal is in the repository's
/// place.
pub fn run(payload: &Payload<'_>, file: Option<PathBuf>) -> Result<Answer, Trouble> {
    let file = match file {
        Some(file) => file,
        None => Place::of_directory(&payload.project())?.store().join("log.jsonl"),
    };
    let command: Option<String> =
        payload.command().map(|text| text.chars().take(COMMAND_LETTERS_MAX).collect());
    let files = payload.edited_files();
    let mut line = json!({ "at_ms": clock::now_us() / 1000, "event": payload.event_name() });
    for (key, value) in [
        ("agent", payload.agent().map(|agent| json!(agent.name()))),
        ("cwd", payload.cwd().map(|cwd| json!(cwd))),
        ("tool", payload.tool().map(|tool| json!(tool))),
        ("use", payload.tool_use().map(|id| json!(id))),
        ("files", (!files.is_empty()).then(|| json!(files))),
        ("command", command.filter(|_| files.is_empty()).map(|command| json!(command))),
        ("reason", payload.reason().map(|reason| json!(reason))),
    ] {
        if let Some(value) = value {
            line[key] = value;
        }
    }
    let journal = Journal::open(file)?;
    let write = WriteOptions {
        durability: Durability::NoSync,
        wait: Wait::For(LOCK_WAIT),
        ..WriteOptions::default()
    };
    journal.append(
        &[line.to_string()],
        &AppendOptions { write: write.clone(), ..Default::default() },
    )?;
    if std::fs::metadata(journal.path()).is_ok_and(|found| found.len() > BYTES_MAX) {
        journal.rotate(&write)?;
    }
    Ok(Answer::Pass)
}
