//! Runs of test programs: which tests there are, what they reach, and whether they notice a mutant.
//!
//! # Invariants
//!
//! 1. A run that takes too long is ended together with the processes it started, and counts as a
//!    failure: the mutant hangs, and that is noticed.
//! 2. The first failed test ends a run.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::scratch::Program;

/// A test of one of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    pub(crate) program: usize,
    pub(crate) name: String,
    pub(crate) takes: Duration,
    /// By number: whether it reaches the mutant.
    pub(crate) reached: Vec<bool>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// By this test, or by the end of the whole program.
    Failed(String),
    Hung,
}

/// The names of the tests of a program.
pub(crate) fn names(program: &Program) -> Result<Vec<String>, String> {
    let listed = Command::new(&program.path).args(["--list", "--format", "terse"]).output();
    let listed = listed.map_err(|err| format!("cannot run {}: {err}", program.name))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs one test and records which mutants it reaches.
pub(crate) fn record(
    program: &Program,
    name: &str,
    marks: &Path,
    count: usize,
    limit: Duration,
) -> Result<(Duration, Vec<bool>), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", marks.display());
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).open(marks).map_err(failed)?;
    // Some tests start processes of other users.
    file.set_permissions(std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    file.set_len(u64::try_from(count).unwrap_or(u64::MAX)).map_err(failed)?;
    let begun = Instant::now();
    let outcome = run(program, &[name], ("TENURE_MUTANTS_REACHED", marks.as_os_str()), limit)?;
    let takes = begun.elapsed();
    let reached = std::fs::read(marks).map_err(failed)?;
    std::fs::remove_file(marks).map_err(failed)?;
    match outcome {
        Outcome::Passed => Ok((takes, reached.iter().map(|mark| *mark != 0).collect())),
        other => Err(format!("{name} without a mutant: {other:?}")),
    }
}

/// Runs these tests with a mutant.
pub(crate) fn attempt(
    program: &Program,
    names: &[&str],
    mutant: u32,
    limit: Duration,
) -> Result<Outcome, String> {
    run(program, names, ("TENURE_MUTANT", mutant.to_string().as_ref()), limit)
}

fn run(
    program: &Program,
    names: &[&str],
    (variable, value): (&str, &std::ffi::OsStr),
    limit: Duration,
) -> Result<Outcome, String> {
    let mut command = Command::new(&program.path);
    command.arg("--exact").args(names).args(["--test-threads", "2"]).current_dir(&program.dir);
    command.env(variable, value).env("RUST_BACKTRACE", "0").env("TENURE_CRASH_DIVISOR", "20");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let cannot = |err: std::io::Error| format!("cannot run {}: {err}", program.name);
    let mut child = command.spawn().map_err(cannot)?;
    let output = child.stdout.take().ok_or("no output")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let ends = Instant::now() + limit;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                if let Some(name) = failed_test(&line) {
                    end(&mut child);
                    return Ok(Outcome::Failed(name));
                }
                // A process that it left behind may keep the output open.
                if line.contains("test result: ") {
                    break;
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                return Ok(Outcome::Hung);
            }
        }
    }
    let status = child.wait().map_err(cannot)?;
    end(&mut child);
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(status.to_string()) })
}

/// The name in `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_suffix("FAILED")?.split("test ").nth(1)?;
    Some(name.split(" ...").next().unwrap_or(name).to_owned())
}

/// Ends a program and all processes that it started.
fn end(child: &mut Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn a_failed_test_is_known_by_its_line() {
        assert_eq!(failed_test("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed; 1 failed").as_deref(), None);
    }
}
