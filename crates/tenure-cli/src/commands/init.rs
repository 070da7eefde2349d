//! `tenure init`.

use std::path::{Path, PathBuf};

use tenure::{Value, json};
use tenure_agents::install::{self, Kind, Part, Scope, Wanted};
use tenure_agents::place::Place;
use tenure_agents::settings_file::{self, Outcome};

use super::settings::report;
use crate::args::{AgentArg, InitArgs, ScopeArg};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn run(args: &InitArgs, out: &mut Output) -> Result<ExitCode> {
    let root = Place::of_directory(Path::new("."))?.root().to_path_buf();
    let scope = match args.scope {
        ScopeArg::Project => Scope::Project,
        ScopeArg::Local => Scope::Local,
        ScopeArg::User => Scope::User,
    };
    let kinds = kinds(args, &root);
    let mut parts = Vec::new();
    for kind in &kinds {
        parts.extend(parts_of(*kind, scope, &root, args)?);
    }
    // Every change is computed before the first file is written: what cannot be done leaves no half of it.
    let mut outcomes =
        parts.iter().map(|part| change(part, args, true)).collect::<Result<Vec<_>>>()?;
    let mut failure = None;
    if !args.dry_run {
        outcomes.clear();
        failure = parts.iter().find_map(|part| match change(part, args, false) {
            Ok(outcome) => {
                outcomes.push(outcome);
                out.committed();
                None
            }
            Err(failure) => Some(failure),
        });
    }
    let is_complete = failure.is_none();
    let advice = kinds.iter().filter_map(|kind| install::by_hand(*kind, scope));
    let advice: Vec<_> =
        advice.filter(|_| is_complete && !args.uninstall && !args.no_mcp).collect();
    let objects = || {
        json!({
            "files": outcomes.iter().map(object).collect::<Value>(),
            "by_hand": advice,
            "dry_run": args.dry_run,
        })
    };
    let text = || {
        let reports = outcomes.iter().map(|outcome| report(outcome, args.dry_run));
        reports.chain(advice.iter().map(|text| (*text).to_owned())).collect::<Vec<_>>().join("\n")
    };
    // What was changed is said, also if another file could not be.
    if is_complete || !outcomes.is_empty() {
        out.result(objects, text)?;
    }
    if is_complete && !args.uninstall && !is_in_path() {
        out.flush()?; // The result may be long: the warning comes behind it.
        let why = "there is no `tenure` in PATH, so the agent cannot start it: install it in a directory of PATH";
        out.warn(why);
    }
    failure.map_or(Ok(ExitCode::Done), Err)
}

/// Whether the command that the settings name can be found.
fn is_in_path() -> bool {
    let name = format!("tenure{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(&name).is_file())
}

/// The agents that were named, or those whose directory is there.
fn kinds(args: &InitArgs, root: &Path) -> Vec<Kind> {
    let named = |agent: &AgentArg| match agent {
        AgentArg::Claude => Kind::Claude,
        AgentArg::Codex => Kind::Codex,
        AgentArg::Cursor => Kind::Cursor,
        AgentArg::Gemini => Kind::Gemini,
    };
    if !args.agents.is_empty() {
        return args.agents.iter().map(named).collect();
    }
    // An uninstallation that was interrupted may have to go on where only our sidecars are left.
    let is_there = |dir: &Path| Kind::uses(dir) || (args.uninstall && dir.is_dir());
    let found = Kind::ALL.into_iter().filter(|(_, dir)| is_there(&root.join(dir)));
    let found: Vec<_> = found.map(|(kind, _)| kind).collect();
    if found.is_empty() { vec![Kind::Claude] } else { found }
}

fn parts_of(kind: Kind, scope: Scope, root: &Path, args: &InitArgs) -> Result<Vec<Part>> {
    // All of it is taken out, whatever was installed.
    let all = args.uninstall;
    let wanted = Wanted { gate: args.gate, log: args.log, no_mcp: args.no_mcp && !all };
    let home = match (scope, std::env::home_dir()) {
        (Scope::User, None) => {
            return Err(Failure::usage("find the user's settings", "there is no home directory")
                .hint("set HOME, or use --scope project"));
        }
        (_, home) => home.unwrap_or_else(PathBuf::new),
    };
    install::parts(kind, scope, root, &home, wanted).ok_or_else(|| {
        Failure::usage("install", "this agent has no settings of that scope")
            .hint("use --scope project or --scope user")
    })
}

fn change(part: &Part, args: &InitArgs, dry_run: bool) -> Result<Outcome> {
    let wait = args.wait.get()?;
    let changed = settings_file::change(&part.file, wait, dry_run, |found| {
        if args.uninstall {
            install::uninstall(found)
        } else {
            install::install(found, &part.patch)
        }
    });
    Ok(changed?)
}

fn object(outcome: &Outcome) -> Value {
    let action = match (&outcome.old, &outcome.new) {
        (_, None) => "unchanged",
        (None, Some(_)) => "created",
        (Some(_), Some(new)) if new.is_empty() => "removed",
        (Some(_), Some(_)) => "changed",
    };
    json!({
        "file": outcome.file.to_string_lossy(),
        "action": action,
        "backup": outcome.backup.as_ref().map(|backup| backup.to_string_lossy()),
    })
}
