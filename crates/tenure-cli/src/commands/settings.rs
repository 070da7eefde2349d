//! `tenure settings`.

use tenure::json;
use tenure_agents::settings::{Change, changed};
use tenure_agents::settings_file::{self, Found, Outcome, Plan};

use super::input;
use crate::args::{SettingsCommand, SettingsMergeArgs};
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(command: &SettingsCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        SettingsCommand::Merge(args) => merge(args, out),
    }
}

fn merge(args: &SettingsMergeArgs, out: &mut Output) -> Result<ExitCode> {
    input::refuse_directory(&args.file, "change settings")?;
    let patch = input::json(&args.patch)?;
    let change = if args.remove { Change::Remove } else { Change::Merge };
    let compute = |found: Found<'_>| Ok(changed(found.text, &patch, change)?.map(Plan::with_copy));
    let outcome = settings_file::change(&args.file, args.wait.get()?, args.dry_run, compute)?;
    if !args.dry_run {
        out.committed();
    }
    let object = || {
        json!({
            "file": outcome.file.to_string_lossy(),
            "changed": outcome.new.is_some(),
            "backup": outcome.backup.as_ref().map(|backup| backup.to_string_lossy()),
            "dry_run": args.dry_run,
        })
    };
    out.result(object, || report(&outcome, args.dry_run))?;
    Ok(ExitCode::Done)
}

/// What was done to a file, and the lines that were changed.
pub(super) fn report(outcome: &Outcome, dry_run: bool) -> String {
    let file = outcome.file.display();
    let Some(new) = &outcome.new else { return format!("unchanged {file}") };
    let action = match (&outcome.old, new.is_empty(), dry_run) {
        (None, _, false) => "created",
        (None, _, true) => "would create",
        (Some(_), true, false) => "removed",
        (Some(_), true, true) => "would remove",
        (Some(_), false, false) => "changed",
        (Some(_), false, true) => "would change",
    };
    let backup = outcome.backup.as_ref();
    let backup = backup.map_or_else(String::new, |path| format!(" (before: {})", path.display()));
    let lines = difference(outcome.old.as_deref().unwrap_or_default(), new);
    format!("{action} {file}{backup}\n{lines}")
}

/// The lines between the first and the last that differ: `-` before, `+` now.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(old, new)| old == new).count();
    let marked = |mark: &'static str, lines: &[&str]| -> Vec<String> {
        lines[start..lines.len() - end].iter().map(|line| format!("{mark} {line}")).collect()
    };
    [marked("-", &old), marked("+", &new)].concat().join("\n")
}
