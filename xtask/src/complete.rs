//! Whether every test of a ring is in its record.
//!
//! # Invariants
//!
//! 1. A test that passes without a record has tried nothing, or could not run here. The record of the others is not
//!    one of the ring. Tests that are about the ring itself are known ([`Ring::silent`]).

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::reliability::Ring;

/// The names of the tests that `command` would run: cargo, with the arguments of one ring.
pub(crate) fn tests(mut command: Command) -> Result<BTreeSet<String>, String> {
    let listed = command.args(["--", "--list"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let listed = listed.output().map_err(|err| format!("cannot list its tests: {err}"))?;
    if !listed.status.success() {
        return Err(format!("cannot list its tests: {}", listed.status));
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    let tests: BTreeSet<String> =
        listed.lines().filter_map(|line| line.strip_suffix(": test").map(str::to_owned)).collect();
    if tests.is_empty() { Err("it has no tests".into()) } else { Ok(tests) }
}

/// Compares the tests of a ring with those that wrote `record`.
pub(crate) fn check(ring: &Ring, tests: &BTreeSet<String>, record: &str) -> Result<(), String> {
    let mut told: BTreeSet<String> = ring.silent.iter().map(ToString::to_string).collect();
    if let Some(gone) = told.iter().find(|silent| !tests.contains(*silent)) {
        return Err(format!("there is no test `{gone}` any more that could write no record"));
    }
    for line in record.lines() {
        let line: Value = serde_json::from_str(line).map_err(|err| format!("{err}: {line}"))?;
        told.extend(line["by"].as_str().map(str::to_owned));
    }
    let untold: Vec<&str> = tests.difference(&told).map(String::as_str).collect();
    if untold.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} tests wrote no record: {}", untold.len(), tests.len(), untold.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { name: "r", title: "t", silent: &["controls::itself"] };

    fn named(tests: &[&str]) -> BTreeSet<String> {
        tests.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_record_of_fewer_tests_than_the_ring_has_is_refused() {
        let record = "{\"by\":\"a\",\"test\":\"x\"}\n{\"by\":\"a\"}\n{\"by\":\"b::c\"}\n";
        let all = named(&["a", "b::c", "controls::itself"]);
        assert_eq!(check(&RING, &all, record), Ok(()));
        let more = named(&["a", "b::c", "controls::itself", "d", "e"]);
        let problem = check(&RING, &more, record).unwrap_err();
        assert_eq!(problem, "2 of 5 tests wrote no record: d, e");
        assert!(
            check(&RING, &all, "{\"test\":\"a\"}\n").is_err(),
            "names of rows are no names of tests"
        );
        assert!(check(&RING, &named(&["a", "b::c"]), record).unwrap_err().contains("any more"));
    }
}
