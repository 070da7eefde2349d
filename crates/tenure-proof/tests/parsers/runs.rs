//! How random input is drawn: repeatable, and made smaller when it breaks something.

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestRunner};
use tenure_proof::{Form, Tally, seed};

/// Tries `cases` inputs in the quick form and fifty times as many in the long one.
pub(crate) fn try_all<S>(test: &str, cases: u32, inputs: S, check: impl Fn(S::Value))
where
    S: Strategy,
    S::Value: std::fmt::Debug,
{
    let mut tally = Tally::new("parsers", test);
    let cases = Form::asked().pick(cases, cases * 50);
    let config = Config {
        cases,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed("parsers", test)),
        failure_persistence: None,
        max_global_rejects: cases * 20,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        check(input);
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    tally.tried(cases.into(), "random inputs");
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
