//! `tenure journal`.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use tenure::{AppendOptions, Damage, Entry, Error, ErrorKind, Journal, Report, WriteOptions};

use super::input;
use crate::args::{
    AppendArgs, CompactArgs, FollowArgs, JournalCommand, ReadArgs, RepairArgs, RotateArgs,
    VerifyArgs, WriteFlags,
};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::filter::{self, Filter};
use crate::output::{Layout, Output};
use crate::waiting::Notice;

pub(super) fn run(command: &JournalCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        JournalCommand::Append(args) => append(args, out),
        JournalCommand::Read(args) => read(args, out),
        JournalCommand::Follow(args) => follow(args, out),
        JournalCommand::Verify(args) => verify(args, out),
        JournalCommand::Repair(args) => repair(args, out),
        JournalCommand::Rotate(args) => rotate(args, out),
        JournalCommand::Compact(args) => filter::with_room(|| compact(args, out)),
    }
}

fn append(args: &AppendArgs, out: &mut Output) -> Result<ExitCode> {
    let from_stdin = args.lines.is_empty() || args.lines == ["-"];
    let input = if from_stdin { input::stdin()? } else { Vec::new() };
    if from_stdin && input.is_empty() {
        return Err(Failure::usage("append", "there is nothing on standard input"));
    }
    let batch: Vec<&[u8]> = if from_stdin {
        let text = input.strip_suffix(b"\n").unwrap_or(&input);
        text.split(|byte| *byte == b'\n').collect()
    } else {
        args.lines.iter().map(String::as_bytes).collect()
    };
    let (journal, write) = open(&args.file, &args.write)?;
    let header = args.header.as_ref().map(|header| header.clone().into_bytes());
    let options = AppendOptions { write, json: args.json_lines, header };
    let done = change(&journal, &options.write, out, || journal.append(&batch, &options))?;
    if done.closed_tail && !out.is_json() {
        out.warn("an unterminated line of somebody else was closed with a newline");
    }
    let object = || {
        json!({
            "first": done.first,
            "last": done.last,
            "adopted": done.adopted,
            "closed_tail": done.closed_tail,
            "rolled_forward": done.rolled_forward,
            "replayed": done.replayed,
        })
    };
    out.result(object, String::new)?;
    Ok(ExitCode::Done)
}

fn read(args: &ReadArgs, out: &mut Output) -> Result<ExitCode> {
    let journal = Journal::open(&args.file)?;
    let (mut entries, mut any) = (journal.read(args.from, args.limit)?, false);
    while let Some((seq, line)) = entries.next_line()? {
        print(seq, line, out)?;
        any = true;
    }
    if !any {
        require(&journal, "read journal")?;
    }
    Ok(ExitCode::Done)
}

fn follow(args: &FollowArgs, out: &mut Output) -> Result<ExitCode> {
    let wait = args.wait.get();
    let mut follow = Journal::open(&args.file)?.follow(args.from)?;
    let mut left = args.count;
    while left != Some(0) {
        let Some(entry) = follow.next(wait)? else {
            return Failure::no_news(&args.file, left);
        };
        print(entry.seq, &entry.line, out)?;
        out.flush()?;
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::Done)
}

fn print(seq: u64, line: &[u8], out: &mut Output) -> Result<()> {
    if !out.is_json() {
        out.raw(line)?;
        return out.raw(b"\n");
    }
    let text = String::from_utf8_lossy(line);
    let mut object = json!({ "seq": seq, "line": text });
    if text.as_bytes() != line {
        object["lossy"] = true.into(); // Not UTF-8: what is shown is not quite what is there.
    }
    out.value(&object, Layout::Compact)
}

fn verify(args: &VerifyArgs, out: &mut Output) -> Result<ExitCode> {
    let journal = Journal::open(&args.file)?;
    require(&journal, "verify journal")?;
    let report = journal.verify()?;
    told(&report, &journal, out)
}

fn repair(args: &RepairArgs, out: &mut Output) -> Result<ExitCode> {
    let (journal, options) = open(&args.file, &args.write)?;
    require(&journal, "repair journal")?;
    let report = change(&journal, &options, out, || journal.repair(&options))?;
    told(&report, &journal, out)
}

/// Prints a report; damage is an error as well.
fn told(report: &Report, journal: &Journal, out: &mut Output) -> Result<ExitCode> {
    let ranges = |damaged: &[Damage]| -> Value {
        let range = |one: &Damage| json!({ "start": one.start, "end": one.end, "why": one.why });
        damaged.iter().map(range).collect()
    };
    let object = || {
        json!({
            "sound": report.is_sound(),
            "entries": report.entries,
            "foreign_entries": report.foreign_entries,
            "segments": report.segments,
            "bytes": report.bytes,
            "next": report.next,
            "damaged": ranges(&report.damaged),
            "set_aside": ranges(&report.set_aside),
            "quarantine": report.quarantine.as_ref().map(|path| path.to_string_lossy()),
            "torn_tail": report.torn_tail,
            "nul_bytes": report.nul_bytes,
            "pending": report.pending,
            "rolled_forward": report.rolled_forward,
            "unbound": report.unbound,
        })
    };
    out.result(object, || summary(report))?;
    let Some(first) = report.damaged.first() else { return Ok(ExitCode::Done) };
    let more = match report.damaged.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let detail = format!("bytes {}..{}: {}{more}", first.start, first.end, first.why);
    Err(Failure::new(ExitCode::Damaged, "damaged", "verify journal", detail)
        .at(journal.path())
        .hint("compare with a backup; `tenure journal repair` sets it aside and keeps the rest"))
}

fn summary(report: &Report) -> String {
    let mut text = format!("{} entries, {} bytes", report.entries, report.bytes);
    let notes = [
        (report.foreign_entries > 0, format!("{} of others", report.foreign_entries)),
        (report.pending > 0, format!("{} batches pending", report.pending)),
        (report.rolled_forward > 0, format!("{} batches finished", report.rolled_forward)),
        (report.torn_tail, "an unterminated last line".to_owned()),
        (report.nul_bytes > 0, format!("{} NUL bytes of a power loss", report.nul_bytes)),
        (report.unbound, "its sidecars belong to another file".to_owned()),
        (!report.set_aside.is_empty(), set_aside(report)),
        (!report.is_sound(), format!("{} DAMAGED ranges", report.damaged.len())),
    ];
    for (_, note) in notes.into_iter().filter(|(applies, _)| *applies) {
        text = format!("{text}, {note}");
    }
    text
}

fn set_aside(report: &Report) -> String {
    let count = report.set_aside.len();
    match &report.quarantine {
        Some(path) => format!("{count} damaged ranges set aside in {}", path.display()),
        None => report.set_aside.iter().map(|damage| damage.why.as_str()).collect(),
    }
}

fn rotate(args: &RotateArgs, out: &mut Output) -> Result<ExitCode> {
    let (journal, options) = open(&args.file, &args.write)?;
    let rotated = change(&journal, &options, out, || journal.rotate(&options))?;
    let archive = rotated.archive.map(|path| path.to_string_lossy().into_owned());
    let object = || json!({ "archive": archive, "next": rotated.next });
    out.result(object, || archive.clone().unwrap_or_default())?;
    Ok(ExitCode::Done)
}

/// The filter decides before anything is changed, so that its error changes nothing. Entries that come
/// meanwhile stay.
fn compact(args: &CompactArgs, out: &mut Output) -> Result<ExitCode> {
    if args.from.is_none() && args.keep.is_none() {
        let detail = "nothing says what stays";
        return Err(Failure::usage("compact", detail)
            .at(&args.file)
            .hint("use --from, --keep or both"));
    }
    let (journal, options) = open(&args.file, &args.write)?;
    require(&journal, "compact journal")?;
    let dropped = to_drop(&journal, args)?;
    let from = args.from.unwrap_or(0);
    let stays = |entry: &Entry| entry.seq >= from && !dropped.contains(&entry.seq);
    let done = change(&journal, &options, out, || journal.compact(&options, stays))?;
    let object = || {
        json!({
            "kept": done.kept,
            "dropped": done.dropped,
            "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after,
        })
    };
    out.result(object, String::new)?;
    Ok(ExitCode::Done)
}

fn to_drop(journal: &Journal, args: &CompactArgs) -> Result<HashSet<u64>> {
    let mut dropped = HashSet::new();
    let Some(code) = &args.keep else { return Ok(dropped) };
    let mut named = input::named_values(&args.named)?;
    named.push(("seq".to_owned(), Value::Null)); // Replaced for each entry.
    let mut filter = Filter::compile(&input::text(code)?, &named)?;
    for entry in journal.read(args.from.unwrap_or(1), None)? {
        let entry = entry?;
        filter.set_last(&entry.seq.into());
        let text = || Value::String(String::from_utf8_lossy(&entry.line).into_owned());
        let value = serde_json::from_slice(&entry.line).unwrap_or_else(|_| text());
        if !filter.run(&value)?.last().is_some_and(filter::is_true) {
            dropped.insert(entry.seq);
        }
    }
    Ok(dropped)
}

/// What every change has in common: the notice while waiting, and what is known afterwards.
fn change<T>(
    journal: &Journal,
    options: &WriteOptions,
    out: &mut Output,
    act: impl FnOnce() -> tenure::Result<T>,
) -> Result<T> {
    let done = {
        let _notice = Notice::start(journal.path(), options.wait, out.is_json());
        act().map_err(|error| Failure::from(error).in_write_to(journal.path()))?
    };
    out.committed();
    Ok(done)
}

/// A mistyped name is told, and nothing is made of it. What a power loss left in the log only is there.
fn require(journal: &Journal, action: &'static str) -> Result<()> {
    if journal.path().exists() || journal.read(1, Some(1))?.next().transpose()?.is_some() {
        return Ok(());
    }
    let error = Error::new(ErrorKind::NotFound, action, "there is none");
    Err(error.at(journal.path()).hint("check the name; `journal append` creates one").into())
}

fn open(file: &Path, flags: &WriteFlags) -> Result<(Journal, WriteOptions)> {
    let journal = Journal::open(file)?;
    let options = flags.options(journal.path())?;
    Ok((journal, options))
}
