//! `tenure journal`.

mod select;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure::embed::printable;
use tenure::outcome::{Damage, Entry, Follow, Report};
use tenure::{AppendOptions, Error, ErrorKind, Journal, Value, Wait, WriteOptions, json};

use self::select::Since;
use super::input;
use crate::args::{
    AppendArgs, CompactArgs, FollowArgs, JournalCommand, ReadArgs, RepairArgs, RotateArgs,
    VerifyArgs, WriteFlags,
};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::filter::{self, Filter};
use crate::output::{Layout, Output};
use crate::place::here;
use crate::shell;
use crate::waiting::Notice;

pub(super) fn run(command: &JournalCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        JournalCommand::Append(args) => append(args, out),
        JournalCommand::Read(args) => read(args, out),
        JournalCommand::Follow(args) => follow(args, out),
        JournalCommand::Verify(args) => verify(args, out),
        JournalCommand::Repair(args) => repair(args, out),
        JournalCommand::Rotate(args) => rotate(args, out),
        JournalCommand::Compact(args) => filter::with_room(out.is_json(), || compact(args, out)),
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
        out.warn("an unterminated line of another tool was closed with a newline");
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
    let journal = open_journal(&args.file)?;
    let from = match args.last {
        Some(count) => Some(select::first_of_last(&journal, count)?),
        None => args.from,
    };
    // The limit counts what is printed: with --since, the reader cannot know which entries those are.
    let limit = args.limit.filter(|_| args.since.is_none());
    let mut entries = journal.read(from.unwrap_or(1), limit)?;
    let (mut gaps, mut left) = (Gaps::new(&journal, args.from), args.limit);
    let mut since = args.since.map(|since| Since::new(since, args.time_field.as_deref()));
    if args.last == Some(0) {
        require(&journal, "read journal")?;
        return Ok(ExitCode::Done);
    }
    while left != Some(0) {
        match entries.next_line() {
            Ok(Some((seq, line))) => {
                if since.as_mut().is_none_or(|since| since.includes(line)) {
                    print(Some(seq), line, out)?;
                    left = left.map(|left| left - 1);
                }
            }
            Ok(None) => break,
            Err(error) => {
                gaps.report(error, out)?;
                continue;
            }
        }
        gaps.any_entry = true;
    }
    if args.pending && left != Some(0) {
        for line in entries.pending()? {
            if left != Some(0) && since.as_mut().is_none_or(|since| since.includes(&line)) {
                print(None, &line, out)?;
                left = left.map(|left| left - 1);
            }
            gaps.any_entry = true;
        }
    }
    if !gaps.any_entry {
        require(&journal, "read journal")?;
    }
    if let Some(since) = since {
        since.report(journal.path(), out)?;
    }
    gaps.into_exit()
}

/// While it waits, a follower looks this often whether lines wait for a writer, until it has said so.
const LOOK_EVERY: Duration = Duration::from_secs(1);

fn follow(args: &FollowArgs, out: &mut Output) -> Result<ExitCode> {
    let wait = args.wait.get();
    let journal = open_journal(&args.file)?;
    let mut follow = journal.follow(args.from.unwrap_or(1))?;
    let (mut gaps, mut left) = (Gaps::new(&journal, args.from), args.count);
    let mut said = false;
    while left != Some(0) {
        match next(&mut follow, wait, &mut said, out) {
            Ok(Some(entry)) => {
                print(Some(entry.seq), &entry.line, out)?;
                out.flush()?;
                gaps.any_entry = true;
                left = left.map(|left| left - 1);
            }
            Ok(None) if left.is_some() => return Failure::no_news(&args.file, left),
            Ok(None) => break,
            Err(error) => {
                gaps.report(error, out)?;
                out.flush()?;
            }
        }
    }
    gaps.into_exit()
}

/// The next entry. Says once that lines of other tools wait for a writer, if this user may not write.
fn next(
    follow: &mut Follow,
    wait: Wait,
    said: &mut bool,
    out: &Output,
) -> tenure::Result<Option<Entry>> {
    let begun = Instant::now();
    while !*said {
        let slice = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time.saturating_sub(begun.elapsed()).min(LOOK_EVERY),
            Wait::Forever => LOOK_EVERY,
        };
        let found = follow.next(Wait::For(slice))?;
        if found.is_none() && follow.is_waiting_for_writer()? {
            *said = true;
            out.warn("lines of other tools wait for a writer: this user may not write here");
        }
        if found.is_some() || slice < LOOK_EVERY {
            return Ok(found);
        }
    }
    let rest = match wait {
        Wait::For(time) => Wait::For(time.saturating_sub(begun.elapsed())),
        other => other,
    };
    follow.next(rest)
}

/// The gaps that a reader met.
struct Gaps<'a> {
    journal: &'a Journal,
    /// The caller wants the oldest entry that is there.
    from_oldest: bool,
    any_entry: bool,
    /// The first that counts, and how many entries are gone in all.
    first: Option<(u64, u64)>,
    entries: u64,
}

impl<'a> Gaps<'a> {
    fn new(journal: &'a Journal, from: Option<u64>) -> Self {
        Self { journal, from_oldest: from.is_none(), any_entry: false, first: None, entries: 0 }
    }

    /// Reports a gap; any other error ends the command.
    fn report(&mut self, error: Error, out: &mut Output) -> Result<()> {
        let Some((first, last)) = error.gap() else { return Err(error.into()) };
        out.flush()?;
        let counts = self.any_entry || !self.from_oldest;
        if counts {
            self.first.get_or_insert((first, last));
            self.entries += last - first + 1;
        }
        if out.is_json() {
            let gap = json!({ "gap": { "first": first, "last": last }, "why": error.to_string() });
            return out.value(&gap, Layout::Compact);
        }
        if counts {
            out.warn(&error.to_string());
        } else {
            let path = self.journal.path().display();
            let from = last + 1;
            out.warn(&format!("`{path}` begins at entry {from}: those before it are gone"));
        }
        Ok(())
    }

    fn into_exit(self) -> Result<ExitCode> {
        let Some((first, last)) = self.first else { return Ok(ExitCode::Done) };
        let detail = match self.entries {
            1 => format!("entry {first} is gone"),
            entries if entries == last - first + 1 => format!("entries {first} to {last} are gone"),
            entries => format!("{entries} entries are gone, the first of them {first} to {last}"),
        };
        Err(Failure::new(ExitCode::Damaged, "damaged", "read journal", detail)
            .at(self.journal.path())
            .hint("restore what is missing, or read from a later number on"))
    }
}

fn print(seq: Option<u64>, line: &[u8], out: &mut Output) -> Result<()> {
    if !out.is_json() {
        out.raw(line)?;
        return out.raw(b"\n");
    }
    let text = String::from_utf8_lossy(line);
    let mut object = json!({ "seq": seq, "line": text });
    if let Ok(value) = json::parse(line) {
        object["value"] = value;
    }
    if text.as_bytes() != line {
        object["lossy"] = true.into(); // Not UTF-8: what is shown is not quite what is there.
    }
    out.value(&object, Layout::Compact)
}

fn verify(args: &VerifyArgs, out: &mut Output) -> Result<ExitCode> {
    let journal = open_journal(&args.file)?;
    require(&journal, "verify journal")?;
    let report = journal.verify()?;
    print_report(&report, journal.path(), "verify journal", out)
}

fn repair(args: &RepairArgs, out: &mut Output) -> Result<ExitCode> {
    let (journal, options) = open(&args.file, &args.write)?;
    require(&journal, "repair journal")?;
    let repair = if args.accept { Journal::accept } else { Journal::repair };
    let report = change(&journal, &options, out, || repair(&journal, &options))?;
    print_report(&report, journal.path(), "repair journal", out)
}

/// Prints a report; damage is an error as well.
fn print_report(
    report: &Report,
    path: &Path,
    action: &'static str,
    out: &mut Output,
) -> Result<ExitCode> {
    let damage = |found: &[Damage]| -> Value {
        let one = |one: &Damage| {
            let file = one.file.to_string_lossy();
            json!({ "file": file, "start": one.start, "end": one.end, "why": one.why })
        };
        found.iter().map(one).collect()
    };
    let numbers = |ranges: &[(u64, u64)]| -> Value {
        let one = |(first, last): &(u64, u64)| json!({ "first": first, "last": last });
        ranges.iter().map(one).collect()
    };
    let object = || {
        json!({
            "sound": report.is_sound(),
            "entries": report.entries,
            "foreign_entries": report.foreign_entries,
            "segments": report.segments,
            "bytes": report.bytes,
            "next": report.next,
            "archives": report.archives,
            "damaged": damage(&report.damaged),
            "lost": numbers(&report.lost),
            "skipped": numbers(&report.skipped),
            "set_aside": damage(&report.set_aside),
            "quarantine": report.quarantine.as_ref().map(|path| path.to_string_lossy()),
            "torn_tail": report.torn_tail,
            "unadopted": report.unadopted,
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
    let path = shell::word(path.as_os_str()).to_string_lossy().into_owned();
    let hint = if report.unbound {
        // The next write takes the file as it is, whether or not it is a repair.
        "the file was cut: restore it from a copy before the next write, or its missing entries are lost"
            .to_owned()
    } else {
        format!(
            "`tenure journal repair {path}` writes back what the log still holds; restore the rest from a \
             copy, or accept it as it is with --accept"
        )
    };
    Err(Failure::new(ExitCode::Damaged, "damaged", action, detail).at(&first.file).hint(hint))
}

fn summary(report: &Report) -> String {
    let mut text = format!("{} entries, {} bytes", report.entries, report.bytes);
    let notes = [
        (report.foreign_entries > 0, format!("{} of other tools", report.foreign_entries)),
        (report.archives > 0, format!("{} archives", report.archives)),
        (report.pending > 0, format!("{} batches pending", report.pending)),
        (report.rolled_forward > 0, format!("{} batches finished", report.rolled_forward)),
        (report.unadopted > 0, format!("{} lines without a number yet", report.unadopted)),
        (report.torn_tail, "an unterminated last line".to_owned()),
        (!report.lost.is_empty(), format!("entries gone: {}", numbers(&report.lost))),
        (!report.skipped.is_empty(), format!("numbers not used: {}", numbers(&report.skipped))),
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

/// The first and the last number of each range.
fn numbers(ranges: &[(u64, u64)]) -> String {
    let one = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(" and ")
}

fn set_aside(report: &Report) -> String {
    let count = report.set_aside.len();
    match &report.quarantine {
        Some(path) => {
            format!("{count} damaged ranges copied to {}", printable(&path.display().to_string()))
        }
        None => format!("{count} damaged ranges"),
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
        let detail = "it needs a rule for what stays";
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
    let replaced = done.replaced.map(|path| path.to_string_lossy().into_owned());
    let object = || {
        json!({
            "kept": done.kept,
            "dropped": done.dropped,
            "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after,
            "replaced": replaced,
        })
    };
    out.result(object, || replaced.clone().unwrap_or_default())?;
    Ok(ExitCode::Done)
}

fn to_drop(journal: &Journal, args: &CompactArgs) -> Result<HashSet<u64>> {
    let mut dropped = HashSet::new();
    let Some(code) = &args.keep else { return Ok(dropped) };
    let mut named = input::named_values(&args.named)?;
    named.push(("seq".to_owned(), Value::Null)); // Replaced for each entry.
    let mut filter = Filter::compile(&input::text(code)?, &named)?;
    for entry in journal.read(args.from.unwrap_or(0), None)? {
        let entry = match entry {
            // What is gone cannot be dropped.
            Err(error) if error.gap().is_some() => continue,
            entry => entry?,
        };
        filter.set_last(&entry.seq.into());
        let text = || Value::String(String::from_utf8_lossy(&entry.line).into_owned());
        let value = json::parse(&entry.line).unwrap_or_else(|_| text());
        if !filter.run(&value)?.last().is_some_and(filter::is_true) {
            dropped.insert(entry.seq);
        }
    }
    Ok(dropped)
}

/// What every change has in common: the notice while waiting, and the note that the change is made.
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

/// A name that stands for nothing is an error, and nothing is created. A journal that a power loss left in the log
/// only is there.
fn require(journal: &Journal, action: &'static str) -> Result<()> {
    let is_file = here().name().is_none() && journal.path().exists();
    if is_file || journal.read(0, Some(1))?.next().transpose()?.is_some() {
        return Ok(());
    }
    let error = Error::new(ErrorKind::NotFound, action, "there is none");
    let file = shell::word(journal.path().as_os_str());
    let create = format!("`tenure journal append {} LINE`", file.to_string_lossy());
    Err(error.at(journal.path()).hint(format!("check the name; {create} creates one")).into())
}

/// The journal at a path that names a file.
fn open_journal(file: &Path) -> Result<Journal> {
    input::refuse_directory(file, "open journal")?;
    Ok(here().journal(file)?)
}

fn open(file: &Path, flags: &WriteFlags) -> Result<(Journal, WriteOptions)> {
    let journal = open_journal(file)?;
    let options = flags.options(journal.path())?;
    Ok((journal, options))
}
