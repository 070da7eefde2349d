//! A wall clock that is set forward and back by days while a process waits, or renews.

use std::process::Command;
use std::time::{Duration, Instant};

use tenure_proof::live::Live;
use tenure_proof::{Form, Tally, bounded};

use crate::RING;
use crate::bench::Bench;
use crate::expiry::{TRIES, expire_under};
use crate::wall::{WallClock, words};

/// The clock was set at least this often during an operation of a second or more.
const JUMPS: u64 = 10;

#[test]
fn e1_a_clock_that_jumps_during_a_wait_neither_ends_nor_extends_the_lease() {
    let test = "e1_a_clock_that_jumps_during_a_wait_neither_ends_nor_extends_the_lease";
    let mut tally = Tally::new(RING, test);
    let clock = WallClock::new();
    let (here, jumping) = (["env"], clock.jumping());
    let jumping = words(&jumping);
    for (makes, looks) in [(&here[..], &jumping[..]), (&jumping, &jumping), (&jumping, &here)] {
        let (jumps, ()) = clock.jump_during(|| expire_under(makes, looks));
        assert!(jumps >= JUMPS, "only {jumps} jumps");
        tally.tried(jumps, "jumps of the wall clock during a wait or a renewal");
        tally.tried(1, "leases awaited while the wall clock jumps");
    }
}

/// How long a waiter waits here in vain, and how much longer that may take on a busy machine.
const WAIT: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_secs(4);

/// Whether a process that waits for [`WAIT`] in vain waits for that long; if not, how long it was.
pub(crate) fn wait_in_vain(command: Command) -> Result<(), Duration> {
    let start = Instant::now();
    let busy = bounded::run(command);
    let waited = start.elapsed();
    assert_eq!(busy.code, Some(75), "{busy:?}");
    if (WAIT..WAIT + LATE).contains(&waited) { Ok(()) } else { Err(waited) }
}

/// [`wait_in_vain`]; a wait that is too long is repeated, one that is too short is not.
fn wait_in_time(command: impl Fn() -> Command) -> Result<(), Duration> {
    let mut waited = Ok(());
    for _ in 0..TRIES {
        waited = wait_in_vain(command());
        if waited.is_ok() || waited.is_err_and(|waited| waited < WAIT) {
            break;
        }
    }
    waited
}

#[test]
fn g2_a_clock_that_jumps_during_a_wait_neither_ends_nor_extends_the_wait() {
    let test = "g2_a_clock_that_jumps_during_a_wait_neither_ends_nor_extends_the_wait";
    let mut tally = Tally::new(RING, test);
    let clock = WallClock::new();
    let (behind_lock, behind_lease) = (Bench::new(), Bench::new());
    let holder = behind_lock.holder(&["env"]);
    assert!(behind_lease.tenure(&["env"], &["lease", "acquire", "t", "--ttl", "1h"]).is_done());
    let wait = |bench: &Bench| {
        let wants = ["run", "--wait", "2s", "t", "--", "true"];
        wait_in_time(|| bench.command(&words(&clock.jumping()), &wants))
    };
    for (jumps, waited) in [
        clock.jump_during(|| wait(&behind_lock)),
        clock.jump_during(|| wait(&behind_lease)),
        clock.go_back_during(|| wait(&behind_lease)),
    ] {
        assert_eq!(waited, Ok(()), "a wait of {WAIT:?}");
        assert!(jumps >= JUMPS, "only {jumps} jumps");
        tally.tried(jumps, "jumps of the wall clock during a wait or a renewal");
    }
    assert!(holder.end().is_done());
}

#[test]
fn e1_a_clock_that_jumps_does_not_end_a_lease_that_is_renewed() {
    let test = "e1_a_clock_that_jumps_does_not_end_a_lease_that_is_renewed";
    let mut tally = Tally::new(RING, test);
    let clock = WallClock::new();
    let bench = Bench::new();
    let jumping = clock.jumping();
    let hold = ["lease", "hold", "t", "--ttl", "10s", "--", "sh", "-c", "echo ready; exec cat"];
    let holder = Live::start(bench.command(&words(&jumping), &hold));
    assert_eq!(holder.line().as_deref(), Some("ready"));
    let long = Form::asked().pick(Duration::from_secs(5), Duration::from_secs(60));
    let (jumps, looks) = clock.jump_during(|| {
        let (start, mut looks) = (Instant::now(), 0);
        while start.elapsed() < long {
            for comes in [&["env"][..], &words(&jumping)] {
                let busy = bench.tenure(comes, &["run", "--wait", "200ms", "t", "--", "true"]);
                assert_eq!(busy.code, Some(75), "after {:?}: {busy:?}", start.elapsed());
                let left = bench.lease(comes)["expires_in_ms"].as_u64().unwrap();
                assert!((1..=10_000).contains(&left), "{left} ms left, {comes:?}");
                looks += 1;
            }
        }
        looks
    });
    let ended = holder.end();
    assert!(ended.is_done(), "its lease was lost: {ended:?}");
    let next = bench.tenure(&["env"], &["run", "--wait", "0", "t", "--", "true"]);
    assert!(next.is_done(), "it was not given back: {next:?}");
    tally.tried(jumps, "jumps of the wall clock during a wait or a renewal");
    tally.tried(looks, "looks at a lease that is renewed while the wall clock jumps");
}
