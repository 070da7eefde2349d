//! `tenure doctor`: what this directory's file system keeps, what is left over, what is damaged.
//!
//! It changes nothing, except for a probe directory that it removes again. With `--fix` it removes
//! temporary files that no live operation can own, and locks that are provably unused.

mod foreign;
mod leftovers;
mod probe;

use std::path::{Path, PathBuf};

use tenure::outcome::Damage;
use tenure::status::{Status, Survey, Unseen};
use tenure::{Document, ErrorKind, Journal, Value, json};

use self::leftovers::Leftover;
use self::probe::FileSystem;
use super::finding::Finding;
use crate::args::DoctorArgs;
use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{Layout, Output};
use crate::place::{self, here};

pub(super) fn run(args: &DoctorArgs, out: &mut Output) -> Result<ExitCode> {
    if let Some(store) = here().remote() {
        if args.fix {
            place::require_files("fix")?;
        }
        return super::store::examine(store, &args.dir, out);
    }
    // What it contains: of a file that is refused.
    let dir = std::fs::canonicalize(args.dir.join("."))
        .map_err(|err| Failure::io("look at directory", &args.dir, err))?;
    let system = probe::run(&dir);
    let Survey { targets, unseen: closed } = tenure::status::below(&dir)?;
    let (files, mut unseen) = leftovers::walk(&dir);
    add(&mut unseen, closed);
    let mut leftovers = leftovers::find(&files, &targets);
    if args.fix {
        leftovers::remove(&mut leftovers);
    }
    leftovers.extend(leftovers::unused_locks(&files, args.fix));
    let foreign = foreign::find(&files);
    let damaged = damaged(&targets, &mut unseen);
    unseen.sort_by(|one, other| one.path.cmp(&other.path));
    let report = Report { dir, system, targets, leftovers, foreign, damaged, unseen };
    if out.is_json() {
        out.value(&report.to_json(), Layout::Compact)?;
    } else {
        report.lines().iter().try_for_each(|line| out.line(line))?;
    }
    match report.exit() {
        ExitCode::Failed => Err(report.incomplete()),
        exit => Ok(exit),
    }
}

/// Each is listed once, even if two walks could not read it.
fn add(unseen: &mut Vec<Finding>, closed: Vec<Unseen>) {
    let new = |one: &Unseen| !unseen.iter().any(|known| known.path == one.path);
    let closed: Vec<_> = closed.into_iter().filter(new).collect();
    unseen.extend(closed.into_iter().map(Finding::from));
}

/// Everything that was found.
struct Report {
    dir: PathBuf,
    system: FileSystem,
    targets: Vec<Status>,
    leftovers: Vec<Leftover>,
    foreign: Vec<foreign::Found>,
    damaged: Vec<Finding>,
    /// What could not be read.
    unseen: Vec<Finding>,
}

impl Report {
    fn exit(&self) -> ExitCode {
        let compromised = self.targets.iter().any(|status| status.compromised);
        if !self.system.trusted {
            ExitCode::Unsupported
        } else if compromised || !self.damaged.is_empty() {
            ExitCode::Damaged
        } else if !self.system.is_probed() || !self.unseen.is_empty() {
            ExitCode::Failed // What could not be looked at is not fine.
        } else {
            ExitCode::Done
        }
    }

    fn incomplete(&self) -> Failure {
        let (detail, hint) = if self.system.is_probed() {
            let detail = format!("{} files or directories could not be read", self.unseen.len());
            (detail, "run it as a user who may read them")
        } else {
            let hint = self.system.next_step();
            ("the file system could not be tested".to_owned(), hint.unwrap_or("look at that first"))
        };
        Failure::new(ExitCode::Failed, "io", "examine", detail)
            .at(&self.dir)
            .hint(format!("the report says what; {hint}"))
    }

    fn to_json(&self) -> Value {
        json!({
            "dir": self.dir.to_string_lossy(),
            "file_system": self.system.to_json(),
            "targets": self.targets.iter().map(Status::to_json).collect::<Value>(),
            "leftovers": self.leftovers.iter().map(Leftover::to_json).collect::<Value>(),
            "foreign": self.foreign.iter().map(foreign::Found::to_json).collect::<Value>(),
            "damaged": self.damaged.iter().map(Finding::to_json).collect::<Value>(),
            "unseen": self.unseen.iter().map(Finding::to_json).collect::<Value>(),
            "exit": self.exit().number(),
        })
    }

    fn lines(&self) -> Vec<String> {
        clock::use_local_time();
        let mut lines = vec![format!("directory    {}", shown(&self.dir))];
        lines.extend(self.system.lines());
        for status in self.targets.iter().filter(|it| it.state.is_held() || it.compromised) {
            let holder = status.holder.as_ref().map(ToString::to_string).unwrap_or_default();
            let alarm =
                if status.compromised { " COMPROMISED: its lock file was removed" } else { "" };
            let kind = status.state.name();
            lines.push(format!("{kind:<12} {} {holder}{alarm}", shown(&status.path)));
        }
        lines.extend(self.leftovers.iter().map(Leftover::line));
        for found in &self.foreign {
            lines.push(format!("foreign      {}: {}", shown(&found.path), found.explanation));
        }
        for damage in &self.damaged {
            lines.push(format!("DAMAGED      {}: {}", shown(&damage.path), damage.why));
        }
        for unseen in &self.unseen {
            lines.push(format!("NOT SEEN     {}: {}", shown(&unseen.path), unseen.why));
        }
        let held = self.targets.iter().filter(|status| status.state.is_held()).count();
        let not_seen = match self.unseen.len() {
            0 => String::new(),
            count => format!(", {count} not seen"),
        };
        lines.push(format!(
            "{} targets, {held} held, {} left over, {} foreign, {} damaged{not_seen}",
            self.targets.len(),
            self.leftovers.len(),
            self.foreign.len(),
            self.damaged.len(),
        ));
        lines
    }
}

/// Reads every document, and verifies every journal and its archives; the sidecars show which of
/// the two a file is. What cannot be read goes to `unseen`.
fn damaged(targets: &[Status], unseen: &mut Vec<Finding>) -> Vec<Finding> {
    let mut found = Vec::new();
    for status in targets.iter().filter(|status| status.path.is_file()) {
        match damage_of(status) {
            Ok(damage) => found.extend(damage),
            Err(error) => {
                let list =
                    if error.kind() == ErrorKind::Damaged { &mut found } else { &mut *unseen };
                list.push(Finding { path: status.path.clone(), why: error.to_string() });
            }
        }
    }
    found
}

/// The damage; for a journal the first range of each file.
fn damage_of(status: &Status) -> tenure::Result<Vec<Finding>> {
    let path = &status.path;
    let has = |end: &str| {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(end);
        status.sidecars.join(name).exists()
    };
    if has(".log") {
        let mut damaged = Journal::open(path)?.verify()?.damaged;
        damaged.dedup_by(|one, before| one.file == before.file);
        let found = |one: Damage| {
            let why = format!("bytes {}..{}: {}", one.start, one.end, one.why);
            Finding { path: one.file, why }
        };
        return Ok(damaged.into_iter().map(found).collect());
    }
    if has(".good") || path.extension().is_some_and(|end| end == "json") {
        Document::open(path)?.read()?;
    }
    Ok(Vec::new()) // Or only ever locked: nothing is known about what it should be.
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}
