//! Controls: writers that are known to be bad, put through the same sweep. A sweep that finds nothing
//! wrong with them would find nothing at all.

use tenure_proof::{Tally, seed, strace};
use tenure_testkit::Random;

use super::job::Subject;
use super::jobs::{ONE, called};
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
    // It fails with a backtick, but what it quotes is no file.
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
