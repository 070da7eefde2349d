//! `tenure store`, and `tenure doctor` on a store: what the server is, and whether it endangers a guarantee.

use std::path::Path;

use tenure::embed::printable;
use tenure::status::{Status, Survey};
use tenure::store::Store;
use tenure::{Value, json};
use tenure_remote::RemoteStore;
use tenure_remote::engine::Finding;

use crate::args::StoreCommand;
use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{Layout, Output};
use crate::place;

pub(super) fn run(command: &StoreCommand, out: &mut Output) -> Result<ExitCode> {
    let (findings, store) = match command {
        StoreCommand::Init(_) | StoreCommand::Upgrade(_) => {
            let store = place::require_store("prepare a store")?;
            let findings = store.init()?;
            out.committed();
            (findings, store)
        }
        StoreCommand::Check(_) => {
            let store = place::require_store("check a store")?;
            (store.check()?, store)
        }
    };
    let report = Report { store, findings, targets: None };
    show(&report, out)?;
    match command {
        StoreCommand::Check(_) => report.exit(),
        // It was done. What the server endangers is in the report.
        StoreCommand::Init(_) | StoreCommand::Upgrade(_) => Ok(ExitCode::Done),
    }
}

/// The health of the server, and what is held below `name`.
pub(super) fn examine(store: &RemoteStore, name: &Path, out: &mut Output) -> Result<ExitCode> {
    let findings = store.check()?;
    let Survey { targets, .. } = store.survey(name)?;
    let report = Report { store, findings, targets: Some(targets) };
    show(&report, out)?;
    report.exit()
}

/// Says to people what the first session has found that endangers a guarantee. Below another hold it was said there.
pub(super) fn warn_of_dangers(out: &Output) {
    let Some(store) = place::here().remote() else { return };
    if out.is_json() || std::env::var_os("TENURE_TARGET").is_some() {
        return;
    }
    for Finding { what, problem, .. } in store.notices() {
        if let Some(problem) = problem {
            out.warn(&format!("{what} of {}: {problem}", store.name()));
        }
    }
}

struct Report<'a> {
    store: &'a RemoteStore,
    findings: Vec<Finding>,
    /// What was ever held, if that was asked for.
    targets: Option<Vec<Status>>,
}

fn show(report: &Report<'_>, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.value(&report.to_json(), Layout::Compact);
    }
    report.lines().iter().try_for_each(|line| out.line(line))
}

impl Report<'_> {
    fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.findings.iter().filter_map(|found| Some((found.what, found.problem.as_deref()?)))
    }

    /// A problem endangers a guarantee: exit 6.
    fn exit(&self) -> Result<ExitCode> {
        let mut problems = self.problems();
        let Some((what, first)) = problems.next() else { return Ok(ExitCode::Done) };
        let more = match problems.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let detail = format!("{what}: {first}{more}");
        Err(Failure::new(ExitCode::Unsupported, "unsupported", "rely on the store", detail)
            .hint("fix it at the server"))
    }

    fn to_json(&self) -> Value {
        let finding = |found: &Finding| json!({ "what": found.what, "found": found.found, "problem": found.problem });
        let limits = self.store.capabilities();
        let mut object = json!({
            "store": self.store.name(),
            "findings": self.findings.iter().map(finding).collect::<Value>(),
            "problems": self.problems().count(),
            "lease_ttl_min_ms": u64::try_from(limits.ttl_min.as_millis()).unwrap_or(u64::MAX),
            "bytes_max": limits.bytes_max,
            "death_frees": limits.death_frees,
        });
        if let Some(targets) = &self.targets {
            object["targets"] = targets.iter().map(Status::to_json).collect();
        }
        object
    }

    fn lines(&self) -> Vec<String> {
        clock::use_local_time();
        let limits = self.store.capabilities();
        let mut lines = vec![format!("store        {}", self.store.name())];
        for found in &self.findings {
            lines.push(format!("{:<12} {}", found.what, printable(&found.found)));
            if let Some(problem) = &found.problem {
                lines.push(format!("PROBLEM      {}", printable(problem)));
            }
        }
        lines.push(format!(
            "limits       {} bytes for a document or a line, leases of at least {}",
            limits.bytes_max,
            clock::short(limits.ttl_min),
        ));
        let Some(targets) = &self.targets else { return lines };
        let held = targets.iter().filter(|status| status.state.is_held());
        for status in held.clone() {
            let holder = status.holder.as_ref().map(ToString::to_string).unwrap_or_default();
            let (kind, path) = (status.state.name(), status.path.to_string_lossy());
            lines.push(format!("{kind:<12} {} {holder}", printable(&path)));
        }
        let waiting: usize = targets.iter().map(|status| status.waiters.len()).sum();
        lines.push(format!("{} targets, {} held, {waiting} waiting", targets.len(), held.count()));
        lines
    }
}
