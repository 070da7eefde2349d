//! `tenure doctor`: what this directory's file system keeps, what is left over, what is damaged.
//!
//! It looks and changes nothing, but for a probe directory that it removes again. With `--fix` it
//! removes temporary files that no live operation can own, and never a lock file.

mod foreign;
mod leftovers;
mod probe;

use std::path::Path;

use serde_json::{Value, json};
use tenure::{Document, ErrorKind, Journal, Status};

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
    let files = leftovers::walk(&dir);
    let mut leftovers = leftovers::find(&files, &targets);
    if args.fix {
        leftovers::remove(&mut leftovers);
    }
    let foreign = foreign::find(&files);
    let damaged = damaged(&targets);
    let compromised = targets.iter().any(|status| status.compromised);
    let exit = match (system.trusted, damaged.is_empty() && !compromised) {
        (false, _) => ExitCode::Unsupported,
        (true, false) => ExitCode::Damaged,
        (true, true) => ExitCode::Done,
    };
    if out.is_json() {
        let object = json!({
            "dir": dir.to_string_lossy(),
            "file_system": system.to_json(),
            "targets": targets.iter().map(Status::to_json).collect::<Value>(),
            "leftovers": leftovers.iter().map(Leftover::to_json).collect::<Value>(),
            "foreign": foreign.iter().map(foreign::Found::to_json).collect::<Value>(),
            "damaged": damaged.iter().map(Damage::to_json).collect::<Value>(),
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
        out.line(&format!("DAMAGED      {}: {}", shown(Path::new(&damage.path)), damage.why))?;
    }
    let held = targets.iter().filter(|status| status.state.is_held()).count();
    out.line(&format!(
        "{} targets, {held} held, {} left over, {} foreign, {} damaged",
        targets.len(),
        leftovers.len(),
        foreign.len(),
        damaged.len(),
    ))?;
    Ok(exit)
}

/// Data that cannot be read as what it should be.
struct Damage {
    path: String,
    why: String,
}

impl Damage {
    fn to_json(&self) -> Value {
        json!({ "path": self.path, "why": self.why })
    }
}

/// Reads every document and verifies every journal; the sidecars tell which of the two it is.
fn damaged(targets: &[Status]) -> Vec<Damage> {
    let mut found = Vec::new();
    for path in targets.iter().map(|status| &status.path).filter(|path| path.is_file()) {
        if let Some(why) = damage_of(path) {
            found.push(Damage { path: path.to_string_lossy().into_owned(), why });
        }
    }
    found
}

fn damage_of(path: &Path) -> Option<String> {
    let has = |end: &str| {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(end);
        path.with_file_name(".tenure").join(name).exists()
    };
    let result = if has(".wal") {
        Journal::open(path).and_then(|journal| journal.verify()).map(|report| {
            let first = report.damaged.first()?;
            Some(format!("bytes {}..{}: {}", first.start, first.end, first.why))
        })
    } else if has(".good") || path.extension().is_some_and(|end| end == "json") {
        Document::open(path).and_then(|document| document.read()).map(|_| None)
    } else {
        Ok(None) // Only ever locked: nothing is known about what it should be.
    };
    match result {
        Ok(damage) => damage,
        Err(error) if error.kind() == ErrorKind::Damaged => Some(error.to_string()),
        Err(_) => None,
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}
