//! What the tests say they did not run, collected for the end of `cargo xtask test`.
//!
//! A test that cannot run on a machine passes, and what it prints is kept back by its test program. So it
//! appends a line to a file as well, whose name is in the environment (`tenure_proof::not_run`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::target_dir;

/// What names the file.
const VARIABLE: &str = "TENURE_NOT_RUN";

/// The file, for as long as a run takes.
#[derive(Debug)]
pub(crate) struct NotRun {
    path: PathBuf,
}

impl NotRun {
    /// Of this run: the process number keeps apart those that run side by side, or within each other.
    pub(crate) fn new() -> Self {
        Self { path: target_dir().join(format!("not-run-{}.txt", std::process::id())) }
    }

    /// Lets the tests of `command` write to it.
    pub(crate) fn collect(&self, command: &mut Command) {
        command.env(VARIABLE, &self.path);
    }

    /// What is in it, for people.
    pub(crate) fn told(&self) -> String {
        summary(&std::fs::read_to_string(&self.path).unwrap_or_default())
    }
}

impl Drop for NotRun {
    fn drop(&mut self) {
        // Nothing is there if everything was run.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `N not run`, and each reason with how often it was given.
fn summary(lines: &str) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.lines() {
        *reasons.entry(line).or_default() += 1;
    }
    let reason = |(reason, times): (&str, usize)| match times {
        1 => format!("\n  {reason}"),
        _ => format!("\n  {reason} ({times} times)"),
    };
    let reasons: String = reasons.into_iter().map(reason).collect();
    format!("{} not run{reasons}", lines.lines().count())
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn every_reason_is_told_once_with_its_number() {
        assert_eq!(summary(""), "0 not run");
        let told = summary("b: no strace\na: no mounts\nb: no strace\n");
        assert_eq!(told, "3 not run\n  a: no mounts\n  b: no strace (2 times)");
    }
}
