//! `tenure who`: who holds what.

mod events;

use std::time::Duration;

use tenure::embed::printable;
use tenure::status::{HoldState, Process, Status, Survey};
use tenure::{Value, json};

use super::finding::Finding;
use crate::args::WhoArgs;
use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Layout, Output};
use crate::place::here;

const HEADINGS: [&str; 10] =
    ["TARGET", "KIND", "PID", "HOST", "FENCE", "SINCE", "LEFT", "WAIT", "FOR", "COMMAND"];

/// A process that merely keeps the lock gets less room than its holder.
const KEEPER_LETTERS: usize = 40;

pub(super) fn run(args: &WhoArgs, out: &mut Output) -> Result<ExitCode> {
    let (one_target, Survey { targets: found, unseen }) = look(args)?;
    if let Some(status) = found.first().filter(|_| one_target) {
        say_if_missing(status, out)?;
    }
    let is_shown =
        |status: &Status| one_target || args.all || status.state.is_held() || status.compromised;
    let mut happened = Vec::new();
    for status in found.iter().filter(|_| args.events) {
        happened.push(here().target(&status.path)?.events()?);
    }
    happened.resize(found.len(), Vec::new());
    let unseen: Vec<_> = unseen.into_iter().map(Finding::from).collect();
    if out.is_json() {
        let mut list = Vec::new();
        for (status, events) in found.iter().zip(happened) {
            if !is_shown(status) && events.is_empty() {
                continue;
            }
            let mut object = status.to_json();
            if args.events {
                object["events"] = events.into();
            }
            list.push(object);
        }
        let unseen_list: Value = unseen.iter().map(Finding::to_json).collect();
        let mut object = json!({ "targets": list, "unseen": unseen_list });
        if let Some(store) = here().name() {
            object["store"] = store.into();
            object["death_frees"] = here().store().capabilities().death_frees.into();
        }
        out.value(&object, Layout::Compact)?;
        return seen_all(&unseen, args);
    }
    let rows: Vec<_> = found.iter().filter(|status| is_shown(status)).map(row).collect();
    table(&rows, out)?;
    for (status, events) in found.iter().zip(&happened) {
        for event in events {
            out.line(&format!("{}  {}", shown(status), events::sentence(event)))?;
        }
    }
    out.flush()?;
    for one in &unseen {
        out.warn(&format!("not seen: {one}"));
    }
    seen_all(&unseen, args)
}

/// What is at the path, and whether that is one target. A name in a store is one if nothing is below it.
fn look(args: &WhoArgs) -> Result<(bool, Survey)> {
    let (is_one, survey) = if here().name().is_none() {
        let is_one = !args.path.is_dir();
        (is_one, if is_one { Survey::default() } else { tenure::status::below(&args.path)? })
    } else {
        let survey = here().store().survey(&args.path)?;
        let name = here().target(&args.path)?.name().to_path_buf();
        let is_one = name.parent().is_some() && survey.targets.iter().all(|it| it.path == name);
        (is_one, survey)
    };
    if !is_one {
        return Ok((false, survey));
    }
    let target = here().target(&args.path)?;
    let mut targets = vec![target.status()?];
    let slots = tenure::status::slots(target.as_ref())?.into_iter();
    targets.extend(slots.filter(|slot| args.all || slot.state.is_held()));
    Ok((true, Survey { targets, ..Survey::default() }))
}

/// A name without a file is a target like any other, once it was locked. One that never was may be a typo.
fn say_if_missing(status: &Status, out: &Output) -> Result<()> {
    if !is_known(status)? {
        out.warn(&format!(
            "`{}` does not exist, and was never locked: check the path",
            shown(status)
        ));
    }
    Ok(())
}

fn is_known(status: &Status) -> Result<bool> {
    if status.fence > 0 {
        return Ok(true);
    }
    if here().name().is_some() {
        let target = here().target(&status.path)?;
        return Ok(target.read()?.is_some() || target.entries(0, Some(1))?.next()?.is_some());
    }
    let mut lock = status.path.file_name().unwrap_or_default().to_os_string();
    lock.push(".hold"); // Readers leave no fence.
    Ok(status.sidecars.join(lock).exists() || std::fs::symlink_metadata(&status.path).is_ok())
}

/// A target that could not be read is not free.
fn seen_all(unseen: &[Finding], args: &WhoArgs) -> Result<ExitCode> {
    if unseen.is_empty() {
        return Ok(ExitCode::Done);
    }
    let detail = format!("{} targets or directories could not be read", unseen.len());
    Err(Failure::new(ExitCode::Failed, "io", "look at everything in", detail)
        .at(&args.path)
        .hint("run it as a user who may read them"))
}

/// Aligned columns for a person, tabs for a program.
fn table(rows: &[[String; 10]], out: &mut Output) -> Result<()> {
    let terminal = output::stdout_is_terminal();
    if rows.is_empty() {
        return if terminal { out.line("nothing is held") } else { Ok(()) };
    }
    if !terminal {
        out.line(&HEADINGS.join("\t"))?;
        return rows.iter().try_for_each(|row| out.line(&row.join("\t")));
    }
    let headings = HEADINGS.map(str::to_owned);
    let mut widths = headings.each_ref().map(String::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&headings).chain(rows) {
        let cells: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.line(cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(status: &Status) -> [String; 10] {
    let holder = status.holder.clone().unwrap_or_default();
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let purpose = match (holder.owner.as_str(), holder.label.as_str()) {
        (owner, "") => owner.to_owned(),
        ("", label) => label.to_owned(),
        (owner, label) => format!("{owner}: {label}"),
    };
    let name = status.state.name();
    let is_dead = holder.seems_alive() == Some(false);
    // The server does not know of the death; it knows when the last renewal was.
    let lingers = is_dead && status.state == HoldState::Lock && here().name().is_some();
    let kind = match status.compromised {
        true => format!("{name} (COMPROMISED: the lock file was removed)"),
        false if lingers => format!("{name} (its process died; free at its time to live)"),
        false => name.to_owned(),
    };
    let known = [holder.pid, std::process::id()];
    // A child that inherited the lock keeps it, even when the holder is gone.
    let mut keepers = status.processes.iter().filter(|process| !known.contains(&process.pid));
    // Only a living process is named. That of another host or PID namespace counts as one.
    let (mut pid, mut command) = (holder.pid, holder.command.clone());
    if is_dead && !lingers {
        (pid, command) = match keepers.next().filter(|_| status.state == HoldState::Lock) {
            Some(keeper) => (keeper.pid, keeper.command.clone()),
            None if status.state == HoldState::Lease => (0, command),
            None => (0, String::new()),
        };
    }
    for keeper in keepers {
        let name: String = keeper.command.chars().take(KEEPER_LETTERS).collect();
        command = format!("{command} + pid {} ({name})", keeper.pid);
    }
    let left = |left: Duration| {
        let until = clock::now_us() + u64::try_from(left.as_micros()).unwrap_or(0);
        format!("{} (until {})", clock::short(left), clock::time(until))
    };
    [
        shown(status),
        kind,
        or_dash(if pid == 0 { String::new() } else { pid.to_string() }),
        or_dash(holder.host.clone()),
        or_dash(if holder.fence == 0 { String::new() } else { holder.fence.to_string() }),
        or_dash(since(holder.since_us)),
        or_dash(status.expires_in.map(left).unwrap_or_default()),
        or_dash(pids(&status.waiters)),
        or_dash(purpose),
        or_dash(printable(&command)),
    ]
}

fn pids(list: &[Process]) -> String {
    let pids: Vec<_> = list.iter().map(|process| process.pid.to_string()).collect();
    pids.join(",")
}

fn shown(status: &Status) -> String {
    printable(&status.path.to_string_lossy())
}

/// `14:02:11 (0.6s)`.
fn since(since_us: u64) -> String {
    if since_us == 0 {
        return String::new();
    }
    let age = Duration::from_micros(clock::now_us().saturating_sub(since_us));
    format!("{} ({})", clock::time(since_us), clock::short(age))
}
