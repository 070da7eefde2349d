//! Controls: writers that are known to be bad, in the same sweep. A sweep that does not detect them
//! would detect nothing.

use tenure_proof::bounded::Ended;
use tenure_proof::strace::{Case, Fault};
use tenure_proof::{Tally, seed, strace};
use tenure_testkit::Random;

use super::job::Subject;
use super::jobs::{ONE, UPDATE, called, document};
use super::judge::judge;
use super::sweep::{RING, Sweep};
use super::trouble::Trouble;

/// What a plain reader must never see.
fn is_loss(finding: &str) -> bool {
    finding.starts_with("a plain reader sees")
}

#[test]
fn race_26_a_writer_that_truncates_in_place_is_found_out() {
    if !strace::available() {
        return;
    }
    let test = "race_26_a_writer_that_truncates_in_place_is_found_out";
    let mut tally = Tally::new(RING, test);
    let args = &["broken-in-place", "d.json", r#"{"n":2,"more":"than before"}"#];
    let sweep = Sweep::new(called(&[ONE], args, Subject::Document));
    let mut random = Random::new(seed(RING, test));
    let found = sweep.all_calls(&mut random, &mut tally);
    assert!(found.iter().any(|finding| is_loss(finding)), "not found out: {found:?}");
    tally.caught("a writer that truncates in place");
    // Its error has a backtick, but what it quotes is no file.
    let unplaced = |finding: &String| finding.starts_with("it does not say where");
    assert!(found.iter().any(unplaced), "not found out: {found:?}");
    tally.caught("an error that does not name its file");
}

#[test]
fn a_writer_that_renames_without_a_check_is_found_out() {
    if !strace::available() {
        return;
    }
    let test = "a_writer_that_renames_without_a_check_is_found_out";
    let mut tally = Tally::new(RING, test);
    let args = &["broken-unchecked", "d.json", r#"{"n":2,"more":"than before"}"#];
    let sweep = Sweep::new(called(&[ONE], args, Subject::Document));
    let mut random = Random::new(seed(RING, test));
    let found = sweep.all_calls(&mut random, &mut tally);
    assert!(found.iter().any(|finding| is_loss(finding)), "not found out: {found:?}");
    let short = sweep.findings(&[Trouble::FileSize(7)]);
    assert!(short.iter().any(|finding| is_loss(finding)), "not found out: {short:?}");
    let crash = sweep.a_crash(&mut random);
    let again = Sweep::at(sweep.job, sweep.dir.clone(), Some(crash)).unwrap();
    let short = again.findings(&[Trouble::FileSize(7)]);
    assert!(short.iter().any(|finding| is_loss(finding)), "not found out: {short:?}");
    tally.caught("a writer that renames without a check");
}

/// The fault at every call of that kind.
fn at_every(sweep: &Sweep, call: &str, fault: Fault) -> Vec<Trouble> {
    let numbers = sweep.calls().attacked().remove(call).into_iter().flatten();
    numbers.map(|number| Trouble::Call(at(call, number, fault))).collect()
}

fn at(call: &str, number: usize, fault: Fault) -> Case {
    Case { call: call.to_owned(), number, fault, with: Vec::new() }
}

/// The fault in the program, the injected fault that shows it, and the expected finding.
type Control = (&'static [&'static str], &'static str, Fault, &'static str);

const TWO: &str = r#"{"n":2,"more":"than before"}"#;
const CONTROLS: [Control; 9] = [
    (&["broken-panic", "d.json", TWO], "openat", Fault::Once("EIO"), "a panic"),
    (
        &["broken-impatient", "d.json", TWO],
        "read",
        Fault::Interrupted,
        "an interrupted call was not",
    ),
    (&["broken-record", "d.json", TWO], "rmdir", Fault::Kill, "tenure sees"),
    (&["broken-unsaid", "d.json", TWO], "pwrite64", Fault::Once("ENOSPC"), "acknowledged, but not"),
    (&["broken-committed", "d.json", TWO], "openat", Fault::Once("EIO"), "it says committed"),
    (&["broken-marker", "d.json", TWO], "unlink", Fault::Kill, "the next command fails"),
    (&["broken-resumed", "d.json", TWO], "unlink", Fault::Kill, "the next one left"),
    (&["broken-lock", "d.json", TWO], "rmdir", Fault::Kill, "no further change"),
    (&["broken-left-over", "d.json", TWO], "unlink", Fault::Kill, "left over"),
];

#[test]
fn every_judgement_of_what_is_left_finds_out_a_program_that_is_broken_for_it() {
    if !strace::available() {
        return;
    }
    let test = "every_judgement_of_what_is_left_finds_out_a_program_that_is_broken_for_it";
    let mut tally = Tally::new(RING, test);
    for (args, call, fault, said) in CONTROLS {
        let sweep = Sweep::new(called(&[ONE], args, Subject::Document));
        let found = sweep.findings(&at_every(&sweep, call, fault));
        let is_found = found.iter().any(|finding| finding.starts_with(said));
        assert!(is_found, "{} is not found out: {found:?}", args[0]);
        tally.caught(&format!("a program of which is said: {said}"));
    }
}

/// How a silent command ends, except for this.
fn ended(code: Option<i32>, signal: Option<i32>, stderr: &str) -> Ended {
    Ended { code, signal, stdout: String::new(), stderr: stderr.to_owned() }
}

#[test]
fn every_judgement_of_how_a_command_ends_finds_out_an_ending_that_is_wrong() {
    if !strace::available() {
        return;
    }
    let test = "every_judgement_of_how_a_command_ends_finds_out_an_ending_that_is_wrong";
    let mut tally = Tally::new(RING, test);
    let sweep = Sweep::new(document(&[ONE], UPDATE));
    // Every other case is reported in JSON.
    let [plain, json] = [1, 2].map(|number| at("flock", number, Fault::Once("EIO")));
    let killed = at("flock", 1, Fault::Kill);
    let endings = [
        (&plain, ended(None, Some(9), ""), "killed by something else"),
        (&killed, ended(None, Some(11), ""), "killed by something else"),
        (&killed, ended(Some(0), None, ""), "it was killed, and says"),
        (&plain, ended(Some(99), None, ""), "undocumented exit code"),
        (&plain, ended(Some(101), None, "thread 'main' panicked"), "a panic"),
        (&plain, ended(Some(0), None, "something to say\n"), "not one line"),
        (&json, ended(Some(1), None, "tenure: failed to lock `d.json`\n"), "no JSON"),
        (&json, ended(Some(1), None, r#"{"exit":2,"message":"failed to"}"#), "two exit codes"),
        (
            &plain,
            ended(Some(1), None, "tenure: `d.json` is bad\n"),
            "it does not say at which step",
        ),
        (
            &plain,
            ended(Some(1), None, "tenure: failed to lock `e.json`\n"),
            "it does not say where",
        ),
    ];
    for (case, ended, said) in endings {
        let verdict = judge(&sweep, &Trouble::Call(case.clone()), &ended);
        let is_found = verdict.as_ref().is_err_and(|finding| finding.starts_with(said));
        assert!(is_found, "{ended:?} passes for {verdict:?}");
        tally.caught(&format!("an ending of which is said: {said}"));
    }
}

#[test]
fn a_fault_that_never_comes_about_is_not_counted_as_tried() {
    if !strace::available() {
        return;
    }
    let mut tally = Tally::new(RING, "a_fault_that_never_comes_about_is_not_counted_as_tried");
    let sweep = Sweep::new(document(&[ONE], UPDATE));
    let [killed, refused] = [Fault::Kill, Fault::Once("EIO")].map(|fault| at("flock", 1000, fault));
    let found = sweep.findings(&[Trouble::Call(killed), Trouble::Call(refused)]);
    assert_eq!((found.len(), sweep.missed.get()), (0, 2), "{found:?}");
    tally.caught("a fault that never comes about");
}
