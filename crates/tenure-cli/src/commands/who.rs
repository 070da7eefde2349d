//! `tenure who`: who holds what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Process, Status, Survey, Value, json};

use super::finding::Finding;
use crate::args::WhoArgs;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Layout, Output};

const HEADINGS: [&str; 10] =
    ["TARGET", "KIND", "PID", "HOST", "FENCE", "SINCE", "LEFT", "WAIT", "FOR", "COMMAND"];

/// A process that merely keeps the lock gets less room than its holder.
const KEEPER_LETTERS: usize = 40;

pub(super) fn run(args: &WhoArgs, out: &mut Output) -> Result<ExitCode> {
    let Survey { targets: found, unseen } = if args.path.is_dir() {
        let mut survey = tenure::survey(&args.path)?;
        let shown = |status: &Status| args.all || status.state.is_held() || status.compromised;
        survey.targets.retain(shown);
        survey
    } else {
        Survey { targets: vec![tenure::status(&args.path)?], ..Survey::default() }
    };
    let unseen: Vec<_> = unseen.into_iter().map(Finding::from).collect();
    if out.is_json() {
        let mut list = Vec::new();
        for status in &found {
            let mut object = status.to_json();
            if args.events {
                object["events"] = tenure::recorded_events(&status.path)?.into();
            }
            list.push(object);
        }
        let unseen_list: Value = unseen.iter().map(Finding::to_json).collect();
        out.value(&json!({ "targets": list, "unseen": unseen_list }), Layout::Compact)?;
        return seen_all(&unseen, args);
    }
    table(&found, out)?;
    for status in found.iter().filter(|_| args.events) {
        for event in tenure::recorded_events(&status.path)? {
            out.line(&format!("{}  {}", shown(status), told(&event)))?;
        }
    }
    out.flush()?;
    for one in &unseen {
        out.warn(&format!("not seen: {one}"));
    }
    seen_all(&unseen, args)
}

/// What nobody could look at is not free.
fn seen_all(unseen: &[Finding], args: &WhoArgs) -> Result<ExitCode> {
    if unseen.is_empty() {
        return Ok(ExitCode::Done);
    }
    let detail = format!("{} targets or directories could not be looked at", unseen.len());
    Err(Failure::new(ExitCode::Failed, "io", "look at everything in", detail)
        .at(&args.path)
        .hint("run it as somebody who may read them"))
}

/// Aligned columns for a person, tabs for a program.
fn table(found: &[Status], out: &mut Output) -> Result<()> {
    let rows: Vec<[String; 10]> = found.iter().map(row).collect();
    let terminal = output::stdout_is_terminal();
    if rows.is_empty() {
        return if terminal { out.line("nobody holds anything here") } else { Ok(()) };
    }
    if !terminal {
        out.line(&HEADINGS.join("\t"))?;
        return rows.iter().try_for_each(|row| out.line(&row.join("\t")));
    }
    let headings = HEADINGS.map(str::to_owned);
    let mut widths = headings.each_ref().map(String::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&headings).chain(&rows) {
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
    let kind = match (status.state, status.compromised) {
        (state, false) => state.name().to_owned(),
        (state, true) => format!("{} (COMPROMISED: the lock file was removed)", state.name()),
    };
    let known = [holder.pid, std::process::id()];
    let mut command = holder.command.clone();
    // A child that inherited the lock keeps it, even when the holder is gone.
    for keeper in status.processes.iter().filter(|process| !known.contains(&process.pid)) {
        let name: String = keeper.command.chars().take(KEEPER_LETTERS).collect();
        command = format!("{command} + pid {} ({name})", keeper.pid);
    }
    [
        shown(status),
        kind,
        or_dash(if holder.pid == 0 { String::new() } else { holder.pid.to_string() }),
        or_dash(holder.host.clone()),
        or_dash(if holder.fence == 0 { String::new() } else { holder.fence.to_string() }),
        or_dash(age(holder.since_us)),
        or_dash(status.expires_in.map(time).unwrap_or_default()),
        or_dash(pids(&status.waiters)),
        or_dash(purpose),
        or_dash(plain(&command)),
    ]
}

fn pids(list: &[Process]) -> String {
    let pids: Vec<_> = list.iter().map(|process| process.pid.to_string()).collect();
    pids.join(",")
}

fn shown(status: &Status) -> String {
    plain(&status.path.to_string_lossy())
}

/// Control characters of names and commands must not reach a terminal or break a row.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn age(since_us: u64) -> String {
    if since_us == 0 {
        return String::new();
    }
    #[expect(clippy::disallowed_methods, reason = "an age for people; nothing is decided by it")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time(now.saturating_sub(Duration::from_micros(since_us)))
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

fn told(event: &Value) -> String {
    let at = event["at_us"].as_u64().map(age).unwrap_or_default();
    let name = event["event"].as_str().unwrap_or("?");
    format!("{name} {at} ago  {}", plain(&event["detail"].to_string()))
}
