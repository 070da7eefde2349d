//! `tenure doctor`: what this directory's file system keeps, what is left over, what is damaged.
//!
//! It looks and changes nothing, but for a probe directory that it removes again. With `--fix` it
//! removes temporary files that no live operation can own, and never a lock file.

mod foreign;
mod leftovers;
mod probe;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenure::{Damage, Document, ErrorKind, Journal, Status};

use self::leftovers::Leftover;
use crate::args::DoctorArgs;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{Layout, Output};

pub(super) fn run(args: &DoctorArgs, out: &mut Output) -> Result<ExitCode> {
    let dir = std::fs::canonicalize(&args.dir)
        .map_err(|err| Failure::io("look at directory", &args.dir, err))?;
    if !dir.is_dir() {
        return Err(Failure::usage("look at directory", "it is not a directory").at(&args.dir));
    }
    let system = probe::run(&dir);
    let targets = tenure::status_below(&dir)?;
    let (files, mut unseen) = leftovers::walk(&dir);
    let mut leftovers = leftovers::find(&files, &targets);
    if args.fix {
        leftovers::remove(&mut leftovers);
    }
    let foreign = foreign::find(&files);
    let damaged = damaged(&targets, &mut unseen);
    let compromised = targets.iter().any(|status| status.compromised);
    let exit = if !system.trusted {
        ExitCode::Unsupported
    } else if compromised || !damaged.is_empty() {
        ExitCode::Damaged
    } else if !system.is_probed() || !unseen.is_empty() {
        ExitCode::Failed // What nobody could look at is not fine.
    } else {
        ExitCode::Done
    };
    if out.is_json() {
        let object = json!({
            "dir": dir.to_string_lossy(),
            "file_system": system.to_json(),
            "targets": targets.iter().map(Status::to_json).collect::<Value>(),
            "leftovers": leftovers.iter().map(Leftover::to_json).collect::<Value>(),
            "foreign": foreign.iter().map(foreign::Found::to_json).collect::<Value>(),
            "damaged": damaged.iter().map(Finding::to_json).collect::<Value>(),
            "unseen": unseen.iter().map(Finding::to_json).collect::<Value>(),
            "exit": exit.number(),
        });
        out.value(&object, Layout::Compact)?;
        return Ok(exit);
    }
    out.line(&format!("directory    {}", shown(&dir)))?;
    for line in system.lines() {
        out.line(&line)?;
    }
    for status in targets.iter().filter(|status| status.state.is_held() || status.compromised) {
        let holder = status.holder.as_ref().map(ToString::to_string).unwrap_or_default();
        let alarm = if status.compromised { " COMPROMISED: its lock file was removed" } else { "" };
        let kind = status.state.name();
        out.line(&format!("{kind:<12} {} {holder}{alarm}", shown(&status.path)))?;
    }
    for leftover in &leftovers {
        out.line(&leftover.line())?;
    }
    for found in &foreign {
        out.line(&format!("foreign      {}: {}", shown(&found.path), found.explanation))?;
    }
    for damage in &damaged {
        out.line(&format!("DAMAGED      {}: {}", shown(&damage.path), damage.why))?;
    }
    for unseen in &unseen {
        out.line(&format!("NOT SEEN     {}: {}", shown(&unseen.path), unseen.why))?;
    }
    let held = targets.iter().filter(|status| status.state.is_held()).count();
    let not_seen = match unseen.len() {
        0 => String::new(),
        count => format!(", {count} not seen"),
    };
    out.line(&format!(
        "{} targets, {held} held, {} left over, {} foreign, {} damaged{not_seen}",
        targets.len(),
        leftovers.len(),
        foreign.len(),
        damaged.len(),
    ))?;
    Ok(exit)
}

/// A file or directory, and what is wrong with it.
#[derive(Debug)]
struct Finding {
    path: PathBuf,
    why: String,
}

impl Finding {
    fn to_json(&self) -> Value {
        json!({ "path": self.path.to_string_lossy(), "why": self.why })
    }
}

/// Reads every document and verifies every journal; the sidecars tell which of the two it is. What
/// cannot be looked at goes to `unseen`.
fn damaged(targets: &[Status], unseen: &mut Vec<Finding>) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in targets.iter().map(|status| &status.path).filter(|path| path.is_file()) {
        let finding = |why| Finding { path: path.clone(), why };
        match damage_of(path) {
            Ok(damage) => found.extend(damage.map(finding)),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                found.push(finding(error.to_string()));
            }
            Err(error) => unseen.push(finding(error.to_string())),
        }
    }
    found
}

fn damage_of(path: &Path) -> tenure::Result<Option<String>> {
    let has = |end: &str| {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(end);
        path.with_file_name(".tenure").join(name).exists()
    };
    if has(".wal") {
        let report = Journal::open(path)?.verify()?;
        let told = |first: &Damage| format!("bytes {}..{}: {}", first.start, first.end, first.why);
        return Ok(report.damaged.first().map(told));
    }
    if has(".good") || path.extension().is_some_and(|end| end == "json") {
        Document::open(path)?.read()?;
    }
    Ok(None) // Or only ever locked: nothing is known about what it should be.
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}
