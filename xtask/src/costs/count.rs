//! Counting the system calls and the instructions of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Output};

use super::scratch::Scratch;
use crate::prove::failed;

/// Calls whose number depends on where the kernel put things, and on which process came first. A
/// few more of them do not count; many are a change.
const UNSTEADY: &[&str] =
    &["brk", "futex", "madvise", "mmap", "mprotect", "mremap", "munmap", "sched_yield"];
/// This many more of those do not count.
const UNSTEADY_SLACK: f64 = 2.0;
/// Fewer than this per operation happen by chance, in one run and not in the other.
const NOW_AND_THEN: f64 = 0.1;
/// The call that looks up names.
const LOOK: &str = "statx";
/// This many more of those do not count where the clock triggers them; no other call is excused for
/// it.
const LOOKS_SLACK: f64 = 3.0;

/// How much more than on record is tolerated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slack {
    /// This many percent more instructions.
    pub(super) percent: u64,
    /// Whether the clock triggers lookups of names: a check of the names of a journal's files is
    /// valid for a millisecond, so a slower machine checks more often.
    pub(super) looks: bool,
}

/// What something costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    pub(super) instructions: f64,
    /// System calls by name.
    pub(super) calls: BTreeMap<String, f64>,
}

/// Counts `program` with `words`, each time after `prepare`.
pub(super) fn count(
    scratch: &Scratch,
    program: &str,
    words: &[&str],
    prepare: impl Fn() -> Result<(), String>,
) -> Result<Cost, String> {
    prepare()?;
    let calls = calls(scratch, program, words)?;
    prepare()?;
    let instructions = instructions(scratch, program, words)?;
    Ok(Cost { instructions, calls })
}

fn calls(
    scratch: &Scratch,
    program: &str,
    words: &[&str],
) -> Result<BTreeMap<String, f64>, String> {
    let trace = scratch.trace();
    let mut command = scratch.command("strace");
    command.args(["-f", "-qqq", "-E", "PATH", "-o"]).arg(&trace);
    ran(command.arg(scratch.program(program)).args(words))?;
    let text = std::fs::read_to_string(&trace).map_err(failed("read", &trace))?;
    Ok(tally(&text))
}

/// The calls in a trace. With `-f` every line begins with the number of a process, and a call that was
/// interrupted by another thread has two lines.
fn tally(trace: &str) -> BTreeMap<String, f64> {
    let mut calls = BTreeMap::new();
    for line in trace.lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let Some((name, _)) = line.split_once('(') else { continue };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.is_empty() && name.chars().all(is_name) {
            *calls.entry(name.to_owned()).or_insert(0.0) += 1.0;
        }
    }
    calls
}

fn instructions(scratch: &Scratch, program: &str, words: &[&str]) -> Result<f64, String> {
    let mut command = scratch.command("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = ran(command.arg(scratch.program(program)).args(words))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = told.lines().find_map(|line| line.split_once("Collected : "));
    let number = collected.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("valgrind reported no number of instructions:\n{told}"))
}

/// Runs a command that must succeed.
pub(super) fn ran(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|err| format!("failed to run {command:?}: {err}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{command:?} failed: {}\n{why}", output.status))
}

impl Cost {
    /// What this costs beyond `other`.
    pub(super) fn less(&self, other: &Self) -> Self {
        let mut calls = self.calls.clone();
        for (name, count) in &other.calls {
            *calls.entry(name.clone()).or_insert(0.0) -= count;
        }
        Self { instructions: self.instructions - other.instructions, calls }
    }

    /// The part of one in so many, to two digits.
    pub(super) fn divided_by(self, count: u32) -> Self {
        let part = |sum: f64| (sum / f64::from(count) * 100.0).round() / 100.0;
        let calls = self.calls.into_iter().map(|(name, sum)| (name, part(sum)));
        Self {
            instructions: (self.instructions / f64::from(count)).round(),
            calls: calls.filter(|(_, calls)| *calls != 0.0).collect(),
        }
    }

    /// Why this is worse than what is known.
    pub(super) fn worse_than(&self, known: &Self, slack: Slack) -> Vec<String> {
        let mut problems = Vec::new();
        if self.instructions > known.limit(slack.percent) {
            let percent = (self.instructions / known.instructions - 1.0) * 100.0;
            let (now, before) = (self.instructions, known.instructions);
            problems.push(format!("{now} instructions, on record {before} (+{percent:.1} %)"));
        }
        let (steady, unsteady) = self.sums();
        let (known_steady, known_unsteady) = known.sums();
        // Fewer lookups than on record leave no room for other calls.
        let looks = if slack.looks { self.looks() - known.looks() } else { 0.0 };
        let others = steady - looks;
        if others > known_steady + NOW_AND_THEN
            || looks > LOOKS_SLACK
            || unsteady > known_unsteady + UNSTEADY_SLACK
        {
            let (now, before) = (steady + unsteady, known_steady + known_unsteady);
            let more = self.more_than(known);
            problems.push(format!("{now} system calls, on record {before}: {more}"));
        }
        problems
    }

    /// Whether this is so much better that it should be on record.
    pub(super) fn is_better_than(&self, known: &Self, slack: Slack) -> bool {
        let fewer = |ours: f64, theirs: f64, slack: f64| ours < theirs - slack;
        let ((steady, unsteady), (known_steady, known_unsteady)) = (self.sums(), known.sums());
        let looks = if slack.looks { self.looks() - known.looks() } else { 0.0 };
        known.instructions > self.limit(slack.percent)
            || fewer(steady - looks, known_steady, NOW_AND_THEN)
            || fewer(unsteady, known_unsteady, UNSTEADY_SLACK)
    }

    /// How often names are looked up.
    fn looks(&self) -> f64 {
        self.calls.get(LOOK).copied().unwrap_or_default()
    }

    fn limit(&self, percent: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let percent = percent as f64;
        self.instructions * (1.0 + percent / 100.0)
    }

    /// How many system calls are always made, and how many depend on chance.
    fn sums(&self) -> (f64, f64) {
        let mut sums = (0.0, 0.0);
        for (name, count) in &self.calls {
            let sum = if UNSTEADY.contains(&name.as_str()) { &mut sums.1 } else { &mut sums.0 };
            *sum += count;
        }
        sums
    }

    /// Which calls there are more of.
    fn more_than(&self, known: &Self) -> String {
        let of = |name: &String| known.calls.get(name).copied().unwrap_or_default();
        let more = self.calls.iter().filter(|(name, count)| **count > of(name));
        let more: Vec<_> =
            more.map(|(name, count)| format!("{name} {count} ({})", of(name))).collect();
        more.join(", ")
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steady, unsteady) = self.sums();
        let calls = steady + unsteady;
        write!(f, "{:>10} instructions {calls:>7.2} system calls", self.instructions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_TIME: Slack = Slack { percent: 3, looks: false };
    const BY_THE_CLOCK: Slack = Slack { percent: 3, looks: true };

    fn cost(instructions: f64, calls: &[(&str, f64)]) -> Cost {
        let calls = calls.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Cost { instructions, calls }
    }

    #[test]
    fn a_call_on_two_lines_is_one() {
        let trace = "12 openat(AT_FDCWD, \"a(b\") = 3\n12 futex(0x1, FUTEX_WAIT <unfinished ...>\n\
                     13 --- SIGCHLD {} ---\n12 <... futex resumed>) = 0\n13 openat(1) = 4\n\
                     13 +++ exited with 0 +++\n";
        assert_eq!(tally(trace), cost(0.0, &[("futex", 1.0), ("openat", 2.0)]).calls);
    }

    #[test]
    fn one_more_call_or_four_percent_more_instructions_are_worse() {
        let known = cost(1000.0, &[("flock", 2.0), ("brk", 3.0)]);
        assert!(known.worse_than(&known, EVERY_TIME).is_empty());
        for worse in [
            cost(1040.0, &[("flock", 2.0), ("brk", 3.0)]),
            cost(1000.0, &[("flock", 3.0), ("brk", 1.0)]),
            cost(1000.0, &[("flock", 2.0), ("brk", 3.0), ("openat", 1.0)]),
            cost(1000.0, &[("flock", 2.0), ("brk", 6.0)]),
        ] {
            assert_eq!(worse.worse_than(&known, EVERY_TIME).len(), 1, "{worse:?}");
            assert!(!worse.is_better_than(&known, EVERY_TIME), "{worse:?}");
            assert!(known.is_better_than(&worse, EVERY_TIME), "{worse:?}");
        }
        let other_call = cost(1020.0, &[("flock", 1.0), ("fcntl", 1.0), ("brk", 5.0)]);
        assert!(other_call.worse_than(&known, EVERY_TIME).is_empty());
    }

    #[test]
    fn looks_by_the_clock_make_room_for_looks_and_nothing_else() {
        let known = cost(1000.0, &[("flock", 2.0), ("statx", 7.87)]);
        let more_looks = cost(1000.0, &[("flock", 2.0), ("statx", 8.22)]);
        assert!(more_looks.worse_than(&known, BY_THE_CLOCK).is_empty());
        assert!(!known.is_better_than(&more_looks, BY_THE_CLOCK));
        for worse in [
            cost(1000.0, &[("flock", 3.0), ("statx", 7.87)]),
            cost(1000.0, &[("flock", 3.0), ("statx", 6.0)]),
            cost(1000.0, &[("flock", 2.0), ("statx", 11.0)]),
        ] {
            assert_eq!(worse.worse_than(&known, BY_THE_CLOCK).len(), 1, "{worse:?}");
        }
        let every_time = cost(1000.0, &[("flock", 2.0), ("statx", 3.0)]);
        let one_more = cost(1000.0, &[("flock", 2.0), ("statx", 4.0)]);
        assert_eq!(one_more.worse_than(&every_time, EVERY_TIME).len(), 1);
    }

    #[test]
    fn what_is_done_once_cancels_out() {
        let (once, twice) = (cost(150.0, &[("flock", 9.0)]), cost(250.0, &[("flock", 17.0)]));
        let each = twice.less(&once).divided_by(4);
        assert_eq!(each, cost(25.0, &[("flock", 2.0)]));
    }
}
