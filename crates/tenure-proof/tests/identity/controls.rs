//! What this ring must find: locks and leases as people write them, on the same test bench.

use std::time::Duration;

use tenure_proof::Tally;
use tenure_proof::bounded;
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;

use crate::RING;
use crate::bench::Bench;
use crate::containers::CONTAINER;
use crate::expiry::{TTL, Verdict, judge};
use crate::jumps::wait_in_vain;
use crate::wall::{WallClock, YEARS, words};

/// A lock file with a host name and a process number. A process of another host counts as alive;
/// one of this host is looked up.
const HOST_AND_PID: &str = r#"
if [ -e lock ]; then
    read -r host pid <lock
    if [ "$host" != "$(hostname)" ] || [ -d "/proc/$pid" ]; then echo busy; exit 0; fi
fi
echo "$(hostname) $$" >lock; echo mine; exec cat"#;

#[test]
fn race_09_a_host_name_and_a_process_number_are_found_out() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_09_a_host_name_and_a_process_number_are_found_out");
    // Two containers with the same host name: the process number of one means nothing in the other.
    let bench = Bench::new();
    let one = Live::start(bench.script(&["env"], HOST_AND_PID));
    assert_eq!(one.line().as_deref(), Some("mine"));
    let two = Live::start(bench.script(&CONTAINER, HOST_AND_PID));
    assert_eq!(two.line().as_deref(), Some("mine"), "two holders were not found out");
    assert!(one.end().is_done() && two.end().is_done(), "the first one did live");
    tally.caught("a lock file with a host name and a process number: a living holder of another PID namespace is dead");
    // With different host names no process can find out that the holder is dead.
    let bench = Bench::new();
    let named = format!("hostname box-a; {HOST_AND_PID}");
    let one = Live::start(bench.script(&CONTAINER, &named));
    assert_eq!(one.line().as_deref(), Some("mine"));
    one.kill();
    assert!(!one.end().is_done());
    let two = bounded::run(bench.script(&["env"], HOST_AND_PID));
    assert_eq!(two.stdout, "busy\n", "a lock of the dead was not found out");
    tally.caught("a lock file with a host name and a process number: death in a container of another name does not free it");
}

/// A lease as a file with its expiry by the wall clock; tried for five seconds.
const WALL_LEASE: &str = r#"
acquire() {
    [ -e lease ] && [ "$(cat lease)" -gt "$(date +%s)" ] && return 1
    echo $(($(date +%s) + TTL)) >new && mv new lease
}
for turn in $(seq 100); do acquire && exit 0; sleep 0.05; done; exit 75"#;

const HOUR: Duration = Duration::from_secs(3600);

/// The verdict on such a lease that is made under one clock and awaited under another.
fn judged(makes: &[&str], looks: &[&str], ttl: Duration) -> Verdict {
    let bench = Bench::new();
    // `date` prints whole seconds: one more, so that it is never too short.
    let script = format!("TTL={}; {WALL_LEASE}", ttl.as_secs() + 1);
    let acquire = |launcher| bounded::run(bench.script(launcher, &script)).is_done();
    judge(ttl, || assert!(acquire(makes)), || acquire(looks))
}

#[test]
fn e1_leases_by_the_wall_clock_are_found_out() {
    let mut tally = Tally::new(RING, "e1_leases_by_the_wall_clock_are_found_out");
    let clock = WallClock::new();
    let [past, future] = YEARS.map(|year| clock.at(year));
    let (here, past, future) = (&["env"][..], &words(&past), &words(&future));
    let calm = judged(here, here, TTL);
    assert!(
        matches!(calm, Verdict::InTime | Verdict::Late(_)),
        "without a jump it works: {calm:?}"
    );
    assert!(matches!(judged(here, future, HOUR), Verdict::Early(_)), "stolen, and not found out");
    tally.caught("a lease that ends by the wall clock: set forward, it is stolen early");
    assert_eq!(judged(here, past, TTL), Verdict::Never, "it stays, and was not found out");
    tally.caught("a lease that ends by the wall clock: set back, it never ends");
    let jumping = clock.jumping();
    let (_, verdict) = clock.jump_during(|| judged(here, &words(&jumping), HOUR));
    assert!(matches!(verdict, Verdict::Early(_)), "{verdict:?}: a jump was not found out");
    tally
        .caught("a lease that ends by the wall clock: stolen when the clock jumps during the wait");
}

/// A wait of two seconds by the wall clock, for a lock that is never released; ended after seven.
const WALL_WAIT: &str = r#"
mkdir lock; end=$(($(date +%s) + 2))
for turn in $(seq 140); do
    mkdir lock 2>/dev/null && exit 0
    [ "$(date +%s)" -ge "$end" ] && exit 75
    sleep 0.05
done; exit 75"#;

#[test]
fn g2_a_wait_by_the_wall_clock_is_found_out() {
    let mut tally = Tally::new(RING, "g2_a_wait_by_the_wall_clock_is_found_out");
    let (clock, bench) = (WallClock::new(), Bench::new());
    let command = bench.script(&words(&clock.jumping()), WALL_WAIT);
    let (_, waited) = clock.go_back_during(|| wait_in_vain(command));
    assert!(waited.is_err(), "a wait that the clock extends was not found out");
    tally.caught("a wait that ends by the wall clock: set back, it goes on");
}
