//! The log of strace: which calls a command makes, which of them can be attacked, and whether a
//! fault was injected.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{Case, Fault, Kind};

/// Calls that are not attacked, since they do not touch files: checks of descriptors, memory,
/// terminals, waiting, the start of another program, and the descriptors of a child.
const PASSED: [&str; 11] = [
    "fcntl",
    "mmap",
    "ioctl",
    "poll",
    "ppoll",
    "execve",
    "access",
    "dup2",
    "dup3",
    "pipe2",
    "epoll_create1",
];
/// Rust's runtime checks the three standard descriptors last before `main`.
const START_ENDS: &str = "poll";

/// The calls of a run without a fault.
#[derive(Debug)]
pub struct Calls {
    /// For each thread, in order. The first one is the main thread.
    threads: Vec<Vec<String>>,
    /// How many calls of the first thread belong to the loader and the runtime.
    start: usize,
    /// What fails without a fault.
    lacking: Option<String>,
}

impl Calls {
    /// From the log of a run. Panics at an unknown call.
    pub(super) fn read(log: &str, lacking: Option<&str>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut threads: Vec<Vec<String>> = Vec::new();
        for line in log.lines() {
            let Some((thread, call)) = begun(line) else { continue };
            let index = names.iter().position(|name| *name == thread).unwrap_or_else(|| {
                names.push(thread);
                threads.push(Vec::new());
                names.len() - 1
            });
            threads[index].push(call.to_owned());
        }
        let first = threads.first().expect("a program makes calls");
        let start = first.iter().position(|call| call == START_ENDS);
        let start = start.expect("the runtime looks at the standard descriptors") + 1;
        for thread in threads.iter_mut().skip(1) {
            // After this call it is another program.
            let own = thread.iter().position(|call| call == "execve").unwrap_or(thread.len());
            thread.truncate(own);
        }
        let calls = Self { threads, start, lacking: lacking.map(str::to_owned) };
        for (call, _) in calls.of_the_program() {
            let known = Kind::named(call).is_some() || PASSED.contains(&call);
            assert!(known, "unknown call `{call}`");
        }
        calls
    }

    /// The numbers of each kind that can be attacked: those after the start, in the busiest thread.
    pub fn attacked(&self) -> BTreeMap<String, RangeInclusive<usize>> {
        let mut all: BTreeMap<String, RangeInclusive<usize>> = BTreeMap::new();
        for (call, number) in self.of_the_program() {
            if Kind::named(call).is_some() && self.lacking.as_deref() != Some(call) {
                let range = all.entry(call.to_owned()).or_insert(number..=number);
                *range = *range.start().min(&number)..=*range.end().max(&number);
            }
        }
        all
    }

    /// For each call of one of these kinds that the first thread makes: itself, and then all other
    /// kinds, each with its next number. Includes kinds that are called only after a failure.
    pub fn from_there_on(&self, kinds: &[&str]) -> Vec<Vec<(String, usize)>> {
        let kinds: Vec<_> =
            kinds.iter().filter(|kind| self.lacking.as_deref() != Some(**kind)).collect();
        let mut counts: Vec<(String, usize)> =
            kinds.iter().map(|kind| ((**kind).to_owned(), 1)).collect();
        let mut points = Vec::new();
        for (index, call) in self.threads[0].iter().enumerate() {
            let Some(kind) = counts.iter().position(|(kind, _)| kind == call) else { continue };
            if index >= self.start {
                let mut point = counts.clone();
                point.swap(0, kind);
                points.push(point);
            }
            counts[kind].1 += 1;
        }
        points
    }

    /// The calls of the first thread after the start, each with its number among its kind.
    fn first(&self) -> impl Iterator<Item = (&str, usize)> {
        numbered(&self.threads[0]).skip(self.start)
    }

    fn of_the_program(&self) -> impl Iterator<Item = (&str, usize)> {
        self.first().chain(self.threads[1..].iter().flat_map(|thread| numbered(thread)))
    }
}

fn numbered(thread: &[String]) -> impl Iterator<Item = (&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    thread.iter().map(move |call| {
        let count = counts.entry(call).or_default();
        *count += 1;
        (call.as_str(), *count)
    })
}

/// The thread and the call that begins in a line.
fn begun(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.split_once(char::is_whitespace)?;
    let (call, _) = rest.trim_start().split_once('(')?;
    let is_name = call.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && !call.is_empty()).then_some((thread, call))
}

/// The call that ends in a line.
fn ended(line: &str) -> Option<&str> {
    let resumed = line.split_once("<... ").and_then(|(_, rest)| rest.split_once(" resumed>"));
    resumed.map(|(call, _)| call).or_else(|| begun(line).map(|(_, call)| call))
}

/// Whether the log of a run shows that the fault was injected.
pub(super) fn has_fault(log: &str, case: &Case) -> bool {
    let injected = |line: &str| {
        line.contains("(INJECTED)")
            && ended(line).is_some_and(|call| case.kinds().any(|kind| kind == call))
    };
    let killed = |line: &str| line.contains("+++ killed by SIGKILL");
    log.lines().any(|line| if case.fault == Fault::Kill { killed(line) } else { injected(line) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start with one `read`; then three calls, one of a child, and then those of another
    /// program.
    const LOG: &str = "\
10    execve(\"a\") = 0
10    read(3) = 832
10    poll([{fd=0}]) = 0
10    read(3) = 5
10    clone3({flags=0} <unfinished ...>
11    read(4) = 1
11    execve(\"b\" <unfinished ...>
10    <... clone3 resumed>) = 11
11    <... execve resumed>) = 0
11    read(3) = 832
11    read(3) = 832
11    read(3) = 832
10    flock(4, LOCK_EX) = -1 EIO (Input/output error) (INJECTED)
10    flock(4, LOCK_UN) = 0
10    exit_group(0) = ?
";

    fn case(call: &str, fault: Fault) -> Case {
        Case { call: call.to_owned(), number: 1, fault, with: Vec::new() }
    }

    #[test]
    fn the_start_and_other_programs_are_passed_over() {
        let attacked = Calls::read(LOG, None).attacked();
        // The second of the program, and the first of its child.
        assert_eq!(attacked["read"], 1..=2);
        assert_eq!(attacked["flock"], 1..=2);
        assert!(!attacked.contains_key("poll"));
        assert!(!Calls::read(LOG, Some("flock")).attacked().contains_key("flock"));
    }

    #[test]
    fn each_kind_has_the_number_that_comes_next() {
        let points = Calls::read(LOG, None).from_there_on(&["pwrite64", "read", "flock"]);
        let told: Vec<_> = points.iter().map(|point| format!("{point:?}")).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], r#"[("read", 2), ("pwrite64", 1), ("flock", 1)]"#);
        assert_eq!(told[2], r#"[("flock", 2), ("read", 3), ("pwrite64", 1)]"#);
    }

    #[test]
    #[should_panic(expected = "unknown call `swapon`")]
    fn a_call_that_nobody_thought_of_is_told() {
        Calls::read(&LOG.replace("flock", "swapon"), None);
    }

    #[test]
    fn only_a_fault_that_is_in_the_log_came_about() {
        assert!(has_fault(LOG, &case("flock", Fault::Once("EIO"))));
        assert!(!has_fault(LOG, &case("read", Fault::Once("EIO"))));
        assert!(!has_fault(LOG, &case("flock", Fault::Kill)));
        let resumed = "10 <... fsync resumed>) = -1 EIO (Input/output error) (INJECTED)\n";
        assert!(has_fault(resumed, &case("fsync", Fault::Always("EIO"))));
        assert!(has_fault("10 +++ killed by SIGKILL +++\n", &case("flock", Fault::Kill)));
    }
}
