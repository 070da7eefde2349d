//! When a lease ends: not before its time, and soon after it, by the monotonic clock of the test.

use std::time::{Duration, Instant};

use tenure_proof::bounded::Ended;

use crate::bench::Bench;

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// How long the awaited leases last.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// Soon, on a busy machine: two programs are started meanwhile.
const LATE: Duration = Duration::from_secs(2);
/// A machine may be too busy once, but not each time.
pub(crate) const TRIES: usize = 3;

/// The result of waiting for the end of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    InTime,
    Early(Duration),
    Late(Duration),
    Never,
}

/// Judges a lease that `make` makes for `ttl`, and that `wait` waits for and gets, or not.
pub(crate) fn judge(ttl: Duration, make: impl FnOnce(), wait: impl FnOnce() -> bool) -> Verdict {
    let before = Instant::now();
    make();
    let made = Instant::now();
    let has_it = wait();
    // It began after `before` and at `made` at the latest.
    let (longest, shortest) = (before.elapsed(), made.elapsed());
    match has_it {
        true if longest < ttl => Verdict::Early(longest),
        true if shortest > ttl + LATE => Verdict::Late(shortest),
        true => Verdict::InTime,
        false => Verdict::Never,
    }
}

/// A lease on `t` that is made under one clock and expires under another.
pub(crate) fn expire_under(makes: &[&str], looks: &[&str]) {
    let about = format!("made by {makes:?}, awaited by {looks:?}");
    let verdicts = (0..TRIES).map(|_| {
        let bench = Bench::new();
        let verdict = judge(TTL, || acquire(&bench, makes), || comes_next(&bench, looks).is_done());
        let late = bench.tenure(makes, &["lease", "renew", "t", "--token", TOKEN]);
        assert_eq!(late.code, Some(4), "{about}: renewed after its end: {late:?}");
        assert!(matches!(verdict, Verdict::InTime | Verdict::Late(_)), "{about}: {verdict:?}");
        verdict
    });
    let verdicts: Vec<_> = in_time_at_last(verdicts);
    assert_eq!(verdicts.last(), Some(&Verdict::InTime), "{about}: {verdicts:?}");
}

/// The verdicts up to the first good one.
fn in_time_at_last(verdicts: impl Iterator<Item = Verdict>) -> Vec<Verdict> {
    let mut seen = Vec::new();
    for verdict in verdicts {
        seen.push(verdict);
        if verdict == Verdict::InTime {
            break;
        }
    }
    seen
}

fn acquire(bench: &Bench, makes: &[&str]) {
    let ttl = format!("{}ms", TTL.as_millis());
    let made = bench.tenure(makes, &["lease", "acquire", "t", "--ttl", &ttl, "--token", TOKEN]);
    assert!(made.is_done(), "{made:?}");
}

fn comes_next(bench: &Bench, looks: &[&str]) -> Ended {
    bench.tenure(looks, &["lease", "acquire", "t", "--ttl", "1h", "--wait", "20s"])
}
