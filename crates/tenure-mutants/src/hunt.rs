//! Every mutant against the tests that reach it, the quickest first, several at a time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::points::Point;
use crate::scratch::Program;
use crate::trial::{self, Outcome, Test};

/// Every run may take this long, however short its tests are: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(15);
/// A hang takes this many times as long as the tests do without a mutant.
const SLOWER: u32 = 3;
/// Of the recording, which has nothing to compare with.
const RECORDING_MAX: Duration = Duration::from_secs(600);
/// The first tests of a mutant take about this long; most mutants do not live to see more.
const FIRST_BITE: Duration = Duration::from_millis(400);

/// Tests that take longer are named, to help choose a limit.
const TELLING: Duration = Duration::from_secs(1);

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// By this test, or by the end of its program.
    Killed(String),
    /// The tests did not end.
    Hung,
    /// All of this many tests passed.
    Survived(usize),
    /// No test runs it.
    Unreached,
}

/// How the hunt goes about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How many runs at a time.
    pub(crate) jobs: usize,
    /// Tests that take less, or longer, are left out.
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

/// What becomes of each of the mutants; `tell` hears of each when it is known.
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
            match trial::attempt(program, &names, point.number, PATIENCE + takes * SLOWER)? {
                Outcome::Passed => tried += names.len(),
                Outcome::Failed(by) => return Ok(Fate::Killed(by)),
                Outcome::Hung => return Ok(Fate::Hung),
            }
        }
        left = &left[size..];
        bite *= 4;
    }
    Ok(Fate::Survived(tried))
}

/// Does something with each, several at a time; the answers are in the order of the questions.
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
