//! Whether every test of a ring is in its record.
//!
//! # Invariants
//!
//! 1. A test that passes without a record has tried nothing, or could not run here. Then the
//!    records of the other tests are not a record of the ring. Tests of the ring itself are known
//!    ([`Ring::silent`]), and so are those of the long form alone ([`Ring::long`]).
//! 2. A record that names nothing that was tried or caught does not count.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::prove::Form;
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
pub(crate) fn check(
    form: Form,
    ring: &Ring,
    tests: &BTreeSet<String>,
    record: &str,
) -> Result<(), String> {
    let not_now = if form == Form::Quick { ring.long } else { &[] };
    let mut told: BTreeSet<String> =
        ring.silent.iter().chain(not_now).map(ToString::to_string).collect();
    if let Some(gone) = told.iter().find(|silent| !tests.contains(*silent)) {
        return Err(format!("there is no test `{gone}` any more that could write no record"));
    }
    for line in record.lines() {
        let line: Value = serde_json::from_str(line).map_err(|err| format!("{err}: {line}"))?;
        let names_some = |field: &str| line[field].as_array().is_some_and(|it| !it.is_empty());
        if names_some("tried") || names_some("caught") {
            told.extend(line["by"].as_str().map(str::to_owned));
        }
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

    const RING: Ring =
        Ring { name: "r", title: "t", silent: &["controls::itself"], long: &["slow"] };

    const RECORD: &str = "{\"by\":\"a\",\"tried\":[{\"cases\":1,\"what\":\"x\"}],\"caught\":[]}\n\
                          {\"by\":\"b::c\",\"caught\":[\"y\"]}\n";

    fn named(tests: &[&str]) -> BTreeSet<String> {
        tests.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_record_of_fewer_tests_than_the_ring_has_is_refused() {
        let all = named(&["a", "b::c", "slow", "controls::itself"]);
        assert_eq!(check(Form::Quick, &RING, &all, RECORD), Ok(()));
        let more = named(&["a", "b::c", "slow", "controls::itself", "d", "e"]);
        let problem = check(Form::Quick, &RING, &more, RECORD).unwrap_err();
        assert_eq!(problem, "2 of 6 tests wrote no record: d, e");
        let rows = RECORD.replace("by", "test");
        let problem = check(Form::Quick, &RING, &all, &rows).unwrap_err();
        assert!(problem.starts_with("2 of 4"), "names of rows are no names of tests: {problem}");
        let gone = check(Form::Quick, &RING, &named(&["a", "b::c", "slow"]), RECORD);
        assert!(gone.unwrap_err().contains("any more"));
    }

    #[test]
    fn a_test_of_the_long_form_is_silent_in_the_quick_one_only() {
        let all = named(&["a", "b::c", "slow", "controls::itself"]);
        let problem = check(Form::Long, &RING, &all, RECORD).unwrap_err();
        assert_eq!(problem, "1 of 4 tests wrote no record: slow");
    }

    #[test]
    fn a_record_of_nothing_is_none() {
        let all = named(&["a", "b::c", "slow", "controls::itself"]);
        for empty in ["\"tried\":[],\"caught\":[]", "\"seconds\":1"] {
            let record = RECORD.replace("\"caught\":[\"y\"]", empty);
            let problem = check(Form::Quick, &RING, &all, &record).unwrap_err();
            assert_eq!(problem, "1 of 4 tests wrote no record: b::c");
        }
    }
}
