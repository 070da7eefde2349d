//! Runs every mutant against the tests that reach it, the quickest first, several at a time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::points::Point;
use crate::scratch::Program;
use crate::trial::{self, Outcome, Test};

/// Every run may take at least this long: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(15);
/// A run hangs if it takes this many times as long as the tests do without a mutant.
const SLOWER: u32 = 3;
/// The limit of the recording, which has nothing to compare with.
const RECORDING_MAX: Duration = Duration::from_secs(600);
/// The first batch of tests of a mutant takes about this long; most mutants do not survive it.
const FIRST_BITE: Duration = Duration::from_millis(400);

/// No mutant has this number.
const NO_MUTANT: u32 = 0;
/// Tests that take longer are listed, to help choose a limit.
const TELLING: Duration = Duration::from_secs(1);

/// The fate of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A test noticed it (this one), or its program ended.
    Killed(String),
    /// The tests did not end.
    Hung,
    /// All of this many tests passed.
    Survived(usize),
    /// No test runs it.
    Unreached,
}

/// How the hunt runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How many runs at a time.
    pub(crate) jobs: usize,
    /// Tests that take less time, or more, are left out.
    pub(crate) quickest: Duration,
    pub(crate) slowest: Duration,
}

/// The wanted tests of these programs, with what they reach, the quickest first.
pub(crate) fn scout(
    programs: &[Program],
    marks: &Path,
    highest: u32,
    pace: Pace,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Test>, String> {
    let mut wanted = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        let names = trial::names(program)?.into_iter().filter(|name| is_wanted(name));
        wanted.extend(names.map(|name| (index, name)));
    }
    let count = usize::try_from(highest).unwrap_or(usize::MAX) + 1;
    let outcomes = each(&wanted, pace.jobs, |index, (program, name)| {
        let marks = marks.join(format!("reached-{index}"));
        trial::record(&programs[*program], name, &marks, count, RECORDING_MAX)
    });
    let mut tests = Vec::new();
    for ((program, name), outcome) in wanted.into_iter().zip(outcomes) {
        match outcome {
            Ok((takes, reached)) => tests.push(Test { program, name, takes, reached }),
            Err(problem) => println!("not used: {problem}"),
        }
    }
    tests.sort_by_key(|test| test.takes);
    for test in tests.iter().rev().take_while(|test| test.takes > TELLING) {
        println!("slow: {:.1} s {}", test.takes.as_secs_f64(), test.name);
    }
    Ok(tests)
}

/// The fate of each mutant; `tell` is called with each when it is known.
pub(crate) fn hunt(
    programs: &[Program],
    tests: &[Test],
    points: &[Point],
    pace: Pace,
    tell: impl Fn(&Point, &Fate) + Sync,
) -> Vec<Result<Fate, String>> {
    each(points, pace.jobs, |_, point| {
        let fate = fate(programs, tests, point, pace)?;
        tell(point, &fate);
        Ok(fate)
    })
}

fn fate(programs: &[Program], tests: &[Test], point: &Point, pace: Pace) -> Result<Fate, String> {
    let number = usize::try_from(point.number).unwrap_or(usize::MAX);
    let reaching = |test: &&Test| test.reached.get(number).is_some_and(|reached| *reached);
    let reaching: Vec<&Test> = tests.iter().filter(reaching).collect();
    if reaching.is_empty() {
        return Ok(Fate::Unreached);
    }
    let mut tried = 0;
    let slow_enough = reaching.partition_point(|test| test.takes < pace.quickest);
    let mut left: &[&Test] = &reaching[slow_enough..];
    let mut bite = FIRST_BITE;
    while let Some(first) = left.first().filter(|test| test.takes <= pace.slowest) {
        let (mut size, mut takes) = (1, first.takes);
        while let Some(next) = left.get(size).filter(|test| test.takes <= pace.slowest) {
            if takes + next.takes > bite {
                break;
            }
            takes += next.takes;
            size += 1;
        }
        for (index, program) in programs.iter().enumerate() {
            let own = left[..size].iter().filter(|test| test.program == index);
            let names: Vec<&str> = own.map(|test| test.name.as_str()).collect();
            if names.is_empty() {
                continue;
            }
            let limit = PATIENCE + takes * SLOWER;
            let outcome = trial::attempt(program, &names, point.number, limit)?;
            if let Some(fate) = confirmed(program, &names, point.number, limit, outcome)? {
                return Ok(fate);
            }
            tried += names.len();
        }
        left = &left[size..];
        bite *= 4;
    }
    Ok(Fate::Survived(tried))
}

/// What a run says about a mutant, if anything. Tests also fail on a busy machine, so a failure
/// counts only if it is repeated, and only if the tests pass without the mutant; so does a hang.
fn confirmed(
    program: &Program,
    names: &[&str],
    mutant: u32,
    limit: Duration,
    outcome: Outcome,
) -> Result<Option<Fate>, String> {
    let fate = match outcome {
        Outcome::Passed => return Ok(None),
        Outcome::Hung => Fate::Hung,
        Outcome::Failed(by) => Fate::Killed(by),
    };
    let named = |name: &&&str| matches!(&fate, Fate::Killed(by) if by == *name);
    let guilty: Vec<&str> = names.iter().filter(named).copied().collect();
    let names = if guilty.is_empty() { names } else { &guilty };
    if fate != Fate::Hung && trial::attempt(program, names, mutant, limit)? == Outcome::Passed {
        return Ok(None);
    }
    let alone = trial::attempt(program, names, NO_MUTANT, limit)?;
    Ok((alone == Outcome::Passed).then_some(fate))
}

/// Calls a function for each item, several at a time; the results keep the order of the items.
fn each<T: Sync, A: Send>(all: &[T], jobs: usize, act: impl Fn(usize, &T) -> A + Sync) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<A>>> = all.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(index) else { return };
                    let answer = act(index, one);
                    if let Ok(mut place) = answers[index].lock() {
                        *place = Some(answer);
                    }
                }
            });
        }
    });
    answers.into_iter().filter_map(|answer| answer.into_inner().ok().flatten()).collect()
}
