//! The steps of `cargo xtask test`, in order, and how they are run and reported.
//!
//! # Invariants
//!
//! 1. The first step that fails ends the run and the program fails.
//! 2. The last line is always `N passed, N failed`. A step that fails without a failed test (a
//!    format or build error, a test program that dies) counts as one failure, so the line never
//!    says zero failures of a run that failed.
//! 3. What the tests report as not run comes before that, with the reasons.
//! 4. So does how long each ring took.
//! 5. Tests that pass without a single test having run are a failure.

use std::num::NonZero;
use std::process::Command;
use std::thread;
use std::time::Instant;

use crate::not_run::NotRun;
use crate::ring_times::RingTimes;
use crate::tally::Tally;
use crate::{costs, licences, mcp, node, package, python, root, stream, tools};

/// What the caller asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// Continue without a tool that cannot be installed.
    pub(crate) allow_missing: bool,
}

/// One thing to check.
#[derive(Debug)]
struct Step {
    name: &'static str,
    action: Action,
}

/// How a step is done.
#[derive(Debug)]
enum Action {
    /// A function of this program.
    Check(fn(&Options) -> Result<(), String>),
    /// A function of this program that runs tests.
    Suite(fn(&Options, &mut Tally) -> Result<(), String>),
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Cargo with these arguments; it must run at least one test.
    Tests(&'static [&'static str]),
}

use self::Action::{Cargo, Check, Suite, Tests};

/// Everything that is checked. A new step is a new line. The house rules (tidy) are tests of this
/// crate and run with the others.
const STEPS: &[Step] = &[
    Step { name: "tools", action: Check(tools::ensure) },
    Step { name: "format", action: Cargo(&["fmt", "--all", "--check"]) },
    Step {
        name: "lints",
        action: Cargo(&[
            "clippy",
            "--workspace",
            "--exclude",
            "tenure-node",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step {
        // By itself: in a test build, which has no tests here, napi leaves its functions unused.
        name: "lints of the addon",
        action: Cargo(&["clippy", "--package", "tenure-node", "--", "-D", "warnings"]),
    },
    Step {
        // A workspace of its own, which uses the core's public interface.
        name: "lints of the benchmark",
        action: Cargo(&[
            "clippy",
            "--manifest-path",
            "bench/Cargo.toml",
            "--target-dir",
            "target/bench",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step { name: "licences", action: Check(licences::check) },
    // Before the tests: the puppets ring has children in both languages.
    Step { name: "node", action: Suite(node::test) },
    Step { name: "python", action: Suite(python::test) },
    Step { name: "mcp clients", action: Suite(mcp::test) },
    Step { name: "tests", action: Tests(&["test", "--workspace", "--no-fail-fast"]) },
    Step { name: "release build", action: Check(costs::release_build) },
    Step { name: "costs", action: Check(costs::check) },
    // After the others, which built most of what it packs.
    Step { name: "packages", action: Suite(package::test) },
];

/// What the tests of a run write down for its end.
#[derive(Debug)]
struct Notes {
    not_run: NotRun,
    ring_times: RingTimes,
}

impl Notes {
    fn new() -> Self {
        Self { not_run: NotRun::new(), ring_times: RingTimes::new() }
    }
}

/// The languages whose puppets must run.
pub(crate) const LANGUAGES: &str = "rust,cli,node,python";

/// Runs the steps with these names, or all of them. Returns whether all succeeded.
pub(crate) fn run_named(names: &[&str], options: &Options) -> bool {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        println!("no step is called `{unknown}`; there are: {}", known.join(", "));
        return false;
    }
    let is_meant = |step: &&Step| names.is_empty() || names.contains(&step.name);
    run(STEPS.iter().filter(is_meant), options)
}

/// Runs `steps` up to the first failure and reports. Returns whether all succeeded.
fn run<'a>(steps: impl IntoIterator<Item = &'a Step>, options: &Options) -> bool {
    let start = Instant::now();
    let mut tally = Tally::default();
    let notes = Notes::new();
    let mut passed = 0;
    let outcome = steps
        .into_iter()
        .try_for_each(|step| announce(step, options, &mut tally, &notes).inspect(|()| passed += 1));
    let seconds = start.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => println!("\n== all {passed} steps passed in {seconds:.1} s"),
        Err(step) => println!("\n== stopped at `{step}` after {seconds:.1} s"),
    }
    let failed = if outcome.is_err() { tally.failed.max(1) } else { tally.failed };
    if let Some(times) = notes.ring_times.told() {
        println!("{times}");
    }
    println!("{}", notes.not_run.told());
    println!("{} passed, {failed} failed", tally.passed);
    outcome.is_ok()
}

/// Runs one step between its two lines. The error is the name of the step.
fn announce(
    step: &Step,
    options: &Options,
    tally: &mut Tally,
    notes: &Notes,
) -> Result<(), &'static str> {
    let name = step.name;
    match &step.action {
        Check(_) | Suite(_) => println!("\n== {name}"),
        Cargo(arguments) | Tests(arguments) => {
            println!("\n== {name}: cargo {}", arguments.join(" "));
        }
    }
    let start = Instant::now();
    let outcome = perform(&step.action, options, tally, notes);
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            println!("== {name}: passed in {seconds:.1} s");
            Ok(())
        }
        Err(problem) => {
            println!("== {name}: FAILED after {seconds:.1} s: {problem}");
            Err(name)
        }
    }
}

fn perform(
    action: &Action,
    options: &Options,
    tally: &mut Tally,
    notes: &Notes,
) -> Result<(), String> {
    match action {
        Check(check) => check(options),
        Suite(suite) => suite(options, tally),
        Cargo(arguments) => stream::run(&mut cargo(arguments), tally),
        Tests(arguments) => {
            let mut command = cargo(arguments);
            command.envs(tools::limits().map(|limit| (limit, "1")));
            command.env("RUST_TEST_THREADS", test_threads().to_string());
            if !options.allow_missing {
                command.env("TENURE_PUPPETS", LANGUAGES);
            }
            notes.not_run.collect(&mut command);
            notes.ring_times.collect(&mut command)?;
            let before = tally.passed + tally.failed;
            stream::run(&mut command, tally)?;
            if tally.passed + tally.failed == before {
                return Err("no test was run".into());
            }
            Ok(())
        }
    }
}

/// How many tests of a program run at a time: half of them wait, for a process, a lease or a deadline.
fn test_threads() -> usize {
    2 * thread::available_parallelism().map_or(1, NonZero::get)
}

/// Cargo, the same one that runs this program, at the top of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::{Action, Notes, Options, Step, Tally, announce, perform, run, run_named};

    const OPTIONS: Options = Options { allow_missing: false };
    const GOOD: Step = Step { name: "good", action: Action::Check(|_| Ok(())) };
    const BAD: Step = Step { name: "bad", action: Action::Check(|_| Err("no luck".into())) };
    const NEVER: Step = Step { name: "never", action: Action::Check(|_| panic!("was run")) };

    #[test]
    fn the_first_failure_ends_the_run() {
        assert!(run(&[GOOD, GOOD], &OPTIONS));
        assert!(!run(&[GOOD, BAD, NEVER], &OPTIONS));
        assert!(!run_named(&["format", "no such step"], &OPTIONS));
        assert_eq!(announce(&BAD, &OPTIONS, &mut Tally::default(), &Notes::new()), Err("bad"));
    }

    #[test]
    fn a_test_step_that_runs_no_test_fails() {
        let silent = Action::Tests(&["--version"]);
        let problem = perform(&silent, &OPTIONS, &mut Tally::default(), &Notes::new()).unwrap_err();
        assert_eq!(problem, "no test was run");
    }
}
