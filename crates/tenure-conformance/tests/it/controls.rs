//! Wrong stores: each fails the test that is about its mistake, so the suite can fail.

use tenure_conformance::{MemoryStore, TESTS, Wrong, run};

use crate::memory::subject;

/// What the test with this name says about a wrong store.
#[track_caller]
fn failure_of(test: &str, wrong: Wrong) -> String {
    let outcome = run(test, move || subject(&MemoryStore::wrong(wrong)));
    match outcome {
        Err(failure) => failure.to_string(),
        Ok(()) => panic!("{wrong:?} passes {test}"),
    }
}

#[track_caller]
fn assert_fails(test: &str, wrong: Wrong, words: &str) {
    let failure = failure_of(test, wrong);
    assert!(failure.contains(words), "{test}: {failure}");
}

#[test]
fn a_store_that_checks_first_and_writes_later_fails() {
    let wrong = Wrong::CheckThenWrite;
    let words = "before it committed";
    assert_fails("a_guard_is_checked_when_it_commits", wrong, words);
    assert_fails("a_fence_is_checked_when_it_commits", wrong, words);
    assert_fails("a_version_is_checked_when_it_commits", wrong, "before the commit");
}

#[test]
fn a_store_that_keeps_fences_in_memory_fails() {
    let words = "do not strictly grow";
    assert_fails("fences_grow_over_locks_leases_and_take_overs", Wrong::FenceFromMemory, words);
}

#[test]
fn a_store_that_repeats_what_may_be_done_fails() {
    let words = "whose reply was lost";
    assert_fails("a_lost_reply_is_not_applied_twice", Wrong::RetryWithoutId, words);
}

#[test]
fn a_test_that_does_not_exist_fails() {
    assert!(run("no such test", || subject(&MemoryStore::new())).is_err());
    let mut names: Vec<_> = TESTS.iter().map(|test| test.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "two tests have one name");
}
