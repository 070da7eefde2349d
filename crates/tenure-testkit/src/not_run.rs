//! Reports and records what was not run, and why.
//!
//! The test harness hides the output of a passing test, so a line on standard error alone would not
//! be seen. `cargo xtask test` names a file, and prints its content at the end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The file that gets a line for each; without it nothing is written.
const FILE: &str = "TENURE_NOT_RUN";

/// Reports that this was not run: `not_run("puppets in node: there is no node")`.
#[expect(clippy::print_stderr, reason = "for a person who runs one test")]
pub fn not_run(what: &str) {
    eprintln!("NOT RUN: {what}");
    if let Some(path) = std::env::var_os(FILE) {
        let path = Path::new(&path);
        let file = OpenOptions::new().create(true).append(true).open(path);
        // One write per line, and one line: tests run side by side.
        let line = format!("{}\n", what.trim().replace('\n', " "));
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    }
}

/// Whether a test can run, by `works`. If not, the test fails, unless `variable` is set to 1; then
/// the missing feature is reported.
pub fn allows(works: bool, what: &str, variable: &str) -> bool {
    if works {
        return true;
    }
    let without = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(without, "this test needs {what}: provide it, or set {variable}=1 to go on without");
    not_run(&format!("a test that needs {what}"));
    false
}
