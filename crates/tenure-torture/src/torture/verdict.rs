//! The result, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use tenure::json::Object;
use tenure::{Value, json};

use super::finding::{Fault, Finding, Thing};
use super::storm::Blows;
use crate::demo::thousands;

/// This many findings are listed; the rest is counted.
const SHOWN: usize = 8;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The result of a run, by its worst finding; later variants are worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Nothing,
    /// Nothing was found, and nothing was checked at the end.
    Unjudged,
    /// An unexpected failure. No damage is known.
    Failure,
    /// A standstill. No damage is known.
    Standstill,
    Damage,
}

impl Outcome {
    fn of(fault: Fault) -> Self {
        match fault {
            Fault::Failed => Self::Failure,
            Fault::Stuck => Self::Standstill,
            _ => Self::Damage,
        }
    }

    /// A stable word for programs.
    fn code(self) -> &'static str {
        match self {
            Self::Nothing => "nothing_found",
            Self::Unjudged => "nothing_judged",
            Self::Failure => "failure_found",
            Self::Standstill => "standstill_found",
            Self::Damage => "damage_found",
        }
    }

    /// For people.
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing found",
            Self::Unjudged => "nothing judged",
            Self::Failure => "FAILURE FOUND",
            Self::Standstill => "STANDSTILL FOUND",
            Self::Damage => "DAMAGE FOUND",
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The command that repeats the run.
    pub(super) repeat: String,
    pub(super) seed: u64,
    pub(super) processes: usize,
    pub(super) took: Duration,
    pub(super) interrupted: bool,
    /// Acknowledged operations.
    pub(super) operations: BTreeMap<Thing, u64>,
    pub(super) reads: u64,
    pub(super) children: u64,
    pub(super) forks: u64,
    /// Operations that failed openly: no promise, so no fault.
    pub(super) refused: u64,
    pub(super) blows: Blows,
    pub(super) findings: Vec<Finding>,
    /// What the final check did not cover, or not to its end: there, no finding means little.
    pub(super) unjudged: BTreeSet<Thing>,
    /// The history that was written; another program judges it.
    pub(super) history: Option<PathBuf>,
    /// The kept directory.
    pub(super) kept: Option<PathBuf>,
    /// The store that was worked on.
    pub(super) store: Option<String>,
    /// Names in the store that begin with this could not be removed.
    pub(super) left: Option<String>,
}

impl Verdict {
    /// Whether anything was found.
    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// A thing without findings because nothing was done with it.
    pub(super) fn idle(&self) -> Option<&'static str> {
        let known = self.is_clean() && !self.interrupted;
        let mut idle = self.operations.iter().filter(|(_, done)| known && **done == 0);
        idle.next().map(|(thing, _)| thing.name())
    }

    fn outcome(&self) -> Outcome {
        let found = self.findings.iter().map(|finding| Outcome::of(finding.fault));
        let judged = self.operations.keys().any(|thing| !self.unjudged.contains(thing));
        let unjudged = !judged && !self.unjudged.is_empty();
        found.max().unwrap_or(if unjudged { Outcome::Unjudged } else { Outcome::Nothing })
    }

    fn total(&self) -> u64 {
        self.operations.values().sum()
    }

    fn faults(&self, thing: Thing) -> BTreeMap<Fault, u64> {
        let mut faults = BTreeMap::new();
        for finding in self.findings.iter().filter(|finding| finding.thing == thing) {
            *faults.entry(finding.fault).or_default() += 1;
        }
        faults
    }

    /// Each finding once, with its count. The first one of each fault comes first.
    fn told(&self) -> Vec<(&Finding, usize)> {
        let mut told: Vec<(&Finding, usize)> = Vec::new();
        for finding in &self.findings {
            match told.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, times)) => *times += 1,
                None => told.push((finding, 1)),
            }
        }
        let mut faults = BTreeSet::new();
        let (mut first, more): (Vec<_>, Vec<_>) =
            told.into_iter().partition(|(one, _)| faults.insert((one.thing, one.fault)));
        first.extend(more);
        first
    }

    /// Everything that was worked on, or in which something was found.
    fn things(&self) -> Vec<Thing> {
        let mut things: Vec<_> = self.operations.keys().copied().collect();
        things.extend(self.findings.iter().map(|finding| finding.thing));
        things.extend(&self.unjudged);
        things.sort_unstable();
        things.dedup();
        things
    }

    /// The table. `colour` is for terminals.
    pub(super) fn text(&self, colour: bool) -> String {
        let paint = |code: &'static str| if colour { code } else { "" };
        let Blows { kills, pauses, restarts } = self.blows;
        let mut text = self.store.iter().fold(String::new(), |text, name| text + name + ": ");
        let _ = write!(
            text,
            "{} processes, {:.0} s: {} killed, {} paused, {} restarted, {} children, {} forks, {} reads\n\n",
            self.processes,
            self.took.as_secs_f64(),
            thousands(kills),
            thousands(pauses),
            thousands(restarts),
            thousands(self.children),
            thousands(self.forks),
            thousands(self.reads),
        );
        let _ = writeln!(text, "{:<12}{:>12}  FOUND", "THING", "OPERATIONS");
        for thing in self.things() {
            let faults = self.faults(thing);
            let unjudged = self.unjudged.contains(&thing);
            let mut found: Vec<_> =
                faults.iter().map(|(fault, count)| plural(*fault, *count)).collect();
            let operations = self.operations.get(&thing).copied().unwrap_or(0);
            let colour = match found.is_empty() {
                false => RED,
                true if unjudged || operations == 0 => YELLOW,
                true => GREEN,
            };
            found.extend(unjudged.then(|| "not judged".to_owned()));
            if found.is_empty() {
                let nothing = if operations == 0 { "nothing was done" } else { "nothing" };
                found.push(nothing.to_owned());
            }
            let (operations, found) = (thousands(operations), found.join(", "));
            let (colour, end) = (paint(colour), paint(PLAIN));
            let _ = writeln!(text, "{:<12}{operations:>12}  {colour}{found}{end}", thing.name());
        }
        text.push('\n');
        let told = self.told();
        for (Finding { thing, fault, detail }, times) in told.iter().take(SHOWN) {
            let _ = write!(text, "{}: {}: {detail}", thing.name(), fault.name());
            if *times > 1 {
                let _ = write!(text, " ({times} times)");
            }
            text.push('\n');
        }
        if let Some(more) = told.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "... and {} more", thousands(more as u64));
        }
        if self.refused > 0 {
            let what = if self.store.is_some() { "operations" } else { "runs" };
            let _ = writeln!(text, "{} {what} failed and said so", thousands(self.refused));
        }
        let early = if self.interrupted { ", ended early" } else { "" };
        let (bold, end) = (paint(BOLD), paint(PLAIN));
        let (outcome, total) = (self.outcome().name(), thousands(self.total()));
        let _ = writeln!(text, "{bold}verdict: {outcome}{end} in {total} operations{early}");
        if let Some(history) = &self.history {
            let history = history.display();
            let _ =
                writeln!(text, "history: {history}, which is for a checker and not judged here");
        }
        if let Some(kept) = &self.kept {
            let _ = writeln!(text, "kept: {}", kept.display());
        }
        if let Some(left) = &self.left {
            let _ = writeln!(text, "left in the store: names that begin with {left}");
        }
        let _ = writeln!(text, "repeat: {}", self.repeat);
        text
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let things: Vec<Value> =
            self.things().into_iter().map(|thing| self.thing_json(thing)).collect();
        let findings: Vec<Value> = self
            .findings
            .iter()
            .take(1000)
            .map(|Finding { thing, fault, detail }| {
                json!({ "thing": thing.name(), "fault": fault.code(), "detail": detail })
            })
            .collect();
        json!({
            "verdict": self.outcome().code(),
            "interrupted": self.interrupted,
            "seed": self.seed,
            "processes": self.processes,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "operations": self.total(),
            "reads": self.reads,
            "refused": self.refused,
            "children": self.children,
            "forks": self.forks,
            "kills": self.blows.kills,
            "pauses": self.blows.pauses,
            "restarts": self.blows.restarts,
            "things": things,
            "found": self.findings.len(),
            "findings": findings,
            "history": self.history.as_ref().map(|history| history.to_string_lossy()),
            "kept": self.kept.as_ref().map(|kept| kept.to_string_lossy()),
            "store": self.store,
            "left": self.left,
            "repeat": self.repeat,
        })
    }

    fn thing_json(&self, thing: Thing) -> Value {
        let faults = self.faults(thing).into_iter();
        let found: Object = faults.map(|(fault, count)| (fault.code(), count)).collect();
        let operations = self.operations.get(&thing).copied().unwrap_or(0);
        let judged = !self.unjudged.contains(&thing);
        json!({ "thing": thing.name(), "operations": operations, "judged": judged, "found": found })
    }
}

fn plural(fault: Fault, count: u64) -> String {
    match (count, fault) {
        (1, fault) => format!("1 {}", fault.name()),
        (count, Fault::TwoHolders) => format!("{} times {}", thousands(count), fault.name()),
        (count, Fault::Fence) => format!("{} fences that did not grow", thousands(count)),
        (count, Fault::Twice) => format!("{} operations done twice", thousands(count)),
        (count, Fault::Renumbered) => format!("{} numbers that changed", thousands(count)),
        (count, Fault::Order) => format!("{} histories that no order explains", thousands(count)),
        (count, Fault::LeftOver) => format!("{} files left over", thousands(count)),
        (count, fault) => format!("{} {}s", thousands(count), fault.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(findings: Vec<Finding>) -> Verdict {
        Verdict {
            repeat: "tenure torture".to_owned(),
            seed: 1,
            processes: 2,
            took: Duration::from_secs(1),
            interrupted: false,
            operations: BTreeMap::new(),
            reads: 0,
            children: 0,
            forks: 0,
            refused: 0,
            blows: Blows::default(),
            findings,
            unjudged: BTreeSet::new(),
            history: None,
            kept: None,
            store: None,
            left: None,
        }
    }

    #[test]
    fn text_and_json_tell_the_same_outcome_by_the_worst_that_was_found() {
        let outcome = |faults: &[Fault]| {
            let findings = faults.iter().map(|fault| Finding::new(Thing::Lock, *fault, "so"));
            let verdict = verdict(findings.collect());
            let text = verdict.text(false);
            let line = text.lines().find_map(|line| line.strip_prefix("verdict: ")).expect("one");
            let told = line.split(" in ").next().expect("words").to_lowercase().replace(' ', "_");
            assert_eq!(verdict.json()["verdict"], told);
            told
        };
        assert_eq!(outcome(&[]), "nothing_found");
        let unjudged = Verdict { unjudged: BTreeSet::from([Thing::Lock]), ..verdict(Vec::new()) };
        assert_eq!(unjudged.json()["verdict"], "nothing_judged");
        assert!(unjudged.text(false).contains("verdict: nothing judged in 0 operations"));
        assert_eq!(outcome(&[Fault::Failed]), "failure_found");
        assert_eq!(outcome(&[Fault::Stuck, Fault::Failed]), "standstill_found");
        assert_eq!(outcome(&[Fault::Stuck, Fault::Corrupt, Fault::Failed]), "damage_found");
    }

    #[test]
    fn nothing_found_in_no_operation_is_no_verdict() {
        let mut verdict = verdict(Vec::new());
        verdict.operations.extend([(Thing::Lock, 0), (Thing::Document, 1)]);
        assert_eq!(verdict.idle(), Some("lock"));
        verdict.interrupted = true;
        assert_eq!(verdict.idle(), None, "nothing was asked for");
        verdict.interrupted = false;
        verdict.operations.insert(Thing::Lock, 1);
        assert_eq!(verdict.idle(), None);
    }

    #[test]
    fn what_was_not_judged_is_not_called_sound() {
        let mut verdict = verdict(vec![Finding::new(Thing::Lock, Fault::Stuck, "so")]);
        verdict.operations.extend([(Thing::Document, 5), (Thing::Collection, 0)]);
        verdict.unjudged = BTreeSet::from([Thing::Lock, Thing::Journal]);
        let text = verdict.text(false);
        let row = |thing| text.lines().find(|line| line.starts_with(thing)).expect("a row");
        assert!(row("lock ").ends_with("  1 standstill, not judged"), "{text}");
        assert!(row("doc ").ends_with("  nothing"), "{text}");
        assert!(row("journal ").ends_with("  not judged"), "{text}");
        assert!(row("collection ").ends_with("  nothing was done"), "{text}");
        let json = verdict.json();
        assert_eq!(json["verdict"], "standstill_found");
        let judged: Vec<_> = (0..3).map(|place| json["things"][place]["judged"].clone()).collect();
        assert_eq!(judged, [false, true, false]);
    }

    #[test]
    fn every_fault_is_shown_and_the_rest_is_counted() {
        let torn = |number| Finding::new(Thing::Command, Fault::Torn, format!("read {number}"));
        let mut findings: Vec<_> = (0..20).map(torn).collect();
        findings.push(torn(0));
        findings.push(Finding::new(Thing::Command, Fault::Corrupt, "half of it"));
        let text = verdict(findings).text(false);
        for line in ["command: torn read: read 0 (2 times)", "command: corrupt file: half of it"] {
            assert!(text.lines().any(|one| one == line), "{text}");
        }
        assert!(text.contains("21 torn reads, 1 corrupt file"), "{text}");
        assert!(text.contains("... and 13 more"), "{text}");
    }
}
