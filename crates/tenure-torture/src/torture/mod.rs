//! `tenure torture`: many processes, killed, paused and restarted at random, and judges that watch.
//!
//! - `storm` is the parent, `crew` its workers, `worker` and `jobs` what they do;
//! - `subject` is the code they do it with: tenure, or, to test the judges, no protection or an old
//!   protocol;
//! - `standstill` detects hangs; `presence` (in shared memory), `content` (data that checks
//!   itself), `ledger` (what was promised) and `judge` (the final check) find violations; none of
//!   them uses code of tenure to decide;
//! - `foreign` does the same to a user's own program, `history` records which call returned what
//!   when, `remote` does both in a store, `loads` adds other tools, a second user, a full disk and names that cannot be exchanged;
//! - `verdict` is the result.

mod clock;
mod content;
mod crew;
mod finding;
mod foreign;
mod forked;
mod groups;
mod history;
mod jobs;
mod judge;
mod ledger;
mod limit;
mod loads;
mod memory;
mod panics;
mod presence;
mod remote;
mod scratch;
mod standstill;
mod storm;
mod subject;
mod verdict;
mod word;
mod words;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use self::finding::Thing;
use self::foreign::Program;
use self::judge::{Judged, Look};
use self::limit::Limit;
use self::scratch::Scratch;
use self::storm::{Blows, Storm};
use self::subject::{Author, Subject};
use self::verdict::Verdict;
use crate::demo::{Dice, thousands};
use tenure_cli::{ExitCode, Failure, Layout, Output, PanicArg, Progress, Result, TortureArgs};

pub(crate) use self::worker::run as work;

/// Long enough for a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(120);
/// For what is known to hang, so that a test does not wait long.
const SHORT_PATIENCE: Duration = Duration::from_secs(6);

/// However long a run was, the final check of a thing takes at most this much longer than the
/// patience.
const LAST_LOOK: u32 = 10;

/// The workers and what they do.
#[derive(Debug)]
struct Setup {
    seed: u64,
    processes: usize,
    things: Vec<Thing>,
    /// Instead of the workers.
    loads: Vec<Thing>,
    author: Author,
    /// A thing without a completed change for this long is at a standstill.
    patience: Duration,
    /// The parent panics on purpose.
    panics: bool,
}

impl Setup {
    fn new(args: &TortureArgs) -> Self {
        let mut things: Vec<Thing> = args.ops.iter().map(|thing| (*thing).into()).collect();
        if things.is_empty() {
            things.extend(Thing::ALL);
        }
        // Each thing is judged once, even if it was named twice.
        things.sort_unstable();
        things.dedup();
        let author = match (args.control, args.leaky, args.panics) {
            (.., Some(PanicArg::Judge)) => Author::Panicking(true),
            (.., Some(PanicArg::Crew)) => Author::Panicking(false),
            (Some(control), ..) => control.into(),
            (None, Some(thing), _) => Author::Leaky(thing.into()),
            (None, None, _) => Author::Tenure,
        };
        Self {
            seed: args.seed.unwrap_or_else(Dice::fresh_seed),
            processes: usize::from(args.processes),
            things,
            loads: args.load.iter().map(|load| (*load).into()).collect(),
            author,
            panics: args.panics == Some(PanicArg::Parent),
            patience: if args.leaky.is_some() { SHORT_PATIENCE } else { PATIENCE },
        }
    }

    /// This many findings end a run: one, unless the judges themselves are tested.
    fn enough(&self) -> usize {
        if matches!(self.author, Author::Tenure | Author::Panicking(_)) { 1 } else { 400 }
    }

    /// How long the final check of a thing may take. It reads everything that was done to the thing
    /// in the time that was `worked`; the machine may be busier by now.
    fn last_look(&self, worked: Duration) -> Duration {
        (2 * (self.patience + worked)).min(LAST_LOOK * self.patience)
    }

    fn subject(&self) -> &'static dyn Subject {
        self.author.subject()
    }
}

/// Runs what was asked for and prints the verdict.
pub(crate) fn run(args: &TortureArgs, out: &mut Output) -> Result<ExitCode> {
    let url = tenure_cli::here().url();
    url.map_or(Ok(()), |_| remote::check(args))?;
    // A store needs a place for evidence only.
    let dir = if url.is_some() { &std::env::temp_dir() } else { &args.dir };
    let failed = |err| Failure::io("torture in", dir, err);
    let setup = Setup::new(args);
    let mut scratch = Scratch::new(dir).map_err(failed)?;
    panics::watch(scratch.path());
    let limit = Limit::new(args, scratch.path()).map_err(failed)?;
    let mut verdict = match (&args.command, &args.history, url) {
        (.., Some(url)) => {
            remote::run(&setup, args.control.is_some(), &limit, scratch.path(), url)?
        }
        (Some(command), ..) => {
            let program = Program::new(command, args)?;
            foreign::run(&program, &setup, &limit, scratch.path())?
        }
        (None, Some(file), _) => history::run(&setup, &limit, scratch.path(), file)?,
        _ if !setup.loads.is_empty() => loads::run(&setup, &limit, scratch.path())?,
        _ => storm(&setup, &limit, scratch.path()).map_err(failed)?,
    };
    if let Some(idle) = verdict.idle() {
        let detail = format!("nothing was done in that time with {idle}, too little to tell");
        return Err(Failure::new(ExitCode::Failed, "failed", "torture", detail)
            .hint("give it more --minutes or --operations, or fewer --processes"));
    }
    verdict.repeat = repeat(args, setup.seed);
    if !verdict.is_clean() {
        scratch.keep();
        verdict.kept = Some(scratch.path().to_path_buf());
    }
    if out.is_json() {
        out.value(&verdict.json(), Layout::Compact)?;
    } else {
        let colour = tenure_cli::stdout_is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        out.raw(verdict.text(colour).as_bytes())?;
    }
    Ok(if verdict.is_clean() { limit.exit_code() } else { ExitCode::Damaged })
}

fn storm(setup: &Setup, limit: &Limit, scratch: &std::path::Path) -> io::Result<Verdict> {
    let progress = Progress::new();
    let mut storm = Storm::new(setup, scratch)?;
    storm.run(limit, |ledger, blows, suspect| {
        let total = ledger.total();
        let (done, kills) = (thousands(total), thousands(blows.kills));
        let text = suspect.map_or_else(
            || format!("{done} operations, {kills} kills"),
            |(thing, time)| format!("{} is silent for {} s", thing.name(), time.as_secs()),
        );
        progress.show(limit.part(total), &text);
    })?;
    assert!(!setup.panics, "on purpose");
    let Storm { ledger, blows, .. } = storm;
    let stuck: BTreeSet<_> = ledger.stuck().collect();
    // Things at a standstill come last: they may block the final check, too, and must not hide
    // other findings.
    let mut things = setup.things.clone();
    things.sort_by_key(|thing| stuck.contains(thing));
    let patience = setup.last_look(limit.start.elapsed());
    let look = Look {
        subject: setup.subject(),
        scratch,
        things: &things,
        patience: &|thing| if stuck.contains(&thing) { setup.patience } else { patience },
        enough: &limit.last_look(),
        show: &|thing, time| {
            let text = format!("final check: {}, {} s", thing.name(), time.as_secs());
            progress.show(1.0, &text);
        },
    };
    let Judged { ledger, unjudged } = judge::judge(ledger, &look)?;
    drop(progress);
    let mut verdict = blank(setup, limit, blows);
    verdict.operations = setup.things.iter().map(|thing| (*thing, 0)).collect();
    verdict.operations.extend(ledger.operations);
    verdict.reads = ledger.reads;
    (verdict.children, verdict.forks) = (ledger.children, ledger.forks);
    verdict.findings = ledger.findings;
    verdict.unjudged = unjudged;
    Ok(verdict)
}

/// An empty verdict.
fn blank(setup: &Setup, limit: &Limit, blows: Blows) -> Verdict {
    Verdict {
        repeat: String::new(),
        seed: setup.seed,
        processes: setup.processes,
        took: limit.start.elapsed(),
        interrupted: limit.is_interrupted(),
        operations: BTreeMap::new(),
        reads: 0,
        children: 0,
        forks: 0,
        refused: 0,
        blows,
        findings: Vec::new(),
        unjudged: BTreeSet::new(),
        history: None,
        kept: None,
        store: None,
        left: None,
    }
}

/// The command that repeats the run.
fn repeat(args: &TortureArgs, seed: u64) -> String {
    let mut words = vec!["tenure".to_owned(), "torture".to_owned()];
    words.push(match tenure_cli::here().name() {
        Some(store) => format!("--store {}", foreign::quoted(store)),
        None => foreign::quoted(&args.dir.to_string_lossy()),
    });
    let minutes = format!("{:.4}", args.minutes.as_secs_f64() / 60.0);
    words.push(format!("--minutes {}", minutes.trim_end_matches('0').trim_end_matches('.')));
    words.push(format!("--processes {} --seed {seed}", args.processes));
    let mut things: Vec<_> = args.ops.iter().map(|thing| Thing::from(*thing).name()).collect();
    things.dedup();
    if !things.is_empty() {
        words.push(format!("--ops {}", things.join(",")));
    }
    let loads: Vec<_> = args.load.iter().map(|load| Thing::from(*load).name()).collect();
    if !loads.is_empty() {
        words.push(format!("--load {}", loads.join(",")));
    }
    let text = |flag: &str, text: &str| format!("--{flag} {}", foreign::quoted(text));
    if let Some(command) = &args.command {
        words.push(text("command", command));
        words.push(text("file", &args.file.to_string_lossy()));
        words.extend(args.init.as_ref().map(|init| text("init", init)));
        words.extend(args.check.as_ref().map(|check| text("check", check)));
        words.extend(args.patience.map(|time| format!("--patience {}ms", time.as_millis())));
    }
    words.extend(args.history.as_ref().map(|file| text("history", &file.to_string_lossy())));
    words.extend(args.operations.map(|number| format!("--operations {number}")));
    words.extend(args.control.map(|name| format!("--control {}", Author::from(name).name())));
    words.extend(args.panics.map(|place| format!("--panics {}", place.name())));
    words.extend(args.leaky.map(|thing| format!("--leaky {}", Thing::from(thing).name())));
    words.join(" ")
}
