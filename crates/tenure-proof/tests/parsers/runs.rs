//! How random input is drawn: repeatable, and reduced when it breaks something.

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestRunner};
use tenure_proof::{Form, Tally, seed};

/// Not more than the quick form of any test has.
const CONTROL_CASES: u32 = 150;

/// Tries `cases` inputs in the quick form and fifty times as many in the long one.
pub(crate) fn try_all<S>(test: &str, cases: u32, inputs: S, check: impl Fn(S::Value))
where
    S: Strategy,
    S::Value: std::fmt::Debug,
{
    let mut tally = Tally::new("parsers", test);
    let cases = Form::asked().pick(cases, cases * 50);
    if let Err(error) = runner(test, cases).run(&inputs, |input| {
        check(input);
        Ok::<(), TestCaseError>(())
    }) {
        panic!("{error}");
    }
    tally.tried(cases.into(), "random inputs");
}

/// The same inputs break `promise`, which returns whether it was kept: a control.
pub(crate) fn must_break<S>(
    tally: &mut Tally,
    fault: &str,
    inputs: S,
    promise: impl Fn(S::Value) -> bool,
) where
    S: Strategy,
    S::Value: std::fmt::Debug,
{
    let outcome = runner(fault, CONTROL_CASES)
        .run(&inputs, |input| if promise(input) { Ok(()) } else { Err(TestCaseError::fail("")) });
    assert!(outcome.is_err(), "not found out by {CONTROL_CASES} inputs: {fault}");
    tally.caught(fault);
}

fn runner(test: &str, cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed("parsers", test)),
        failure_persistence: None,
        max_global_rejects: cases * 20,
        ..Config::default()
    })
}

/// Runs `work` and fails if it takes longer: a hang is a failure like any other.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let started = Instant::now();
    let (done, waiting) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    // A panic drops the sender and ends the wait as well.
    let hangs = waiting.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "{what}: still running after {:?}", started.elapsed());
    match worker.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
