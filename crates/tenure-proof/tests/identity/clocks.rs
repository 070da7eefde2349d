//! Clocks: set back, set forward, asleep, and different in every namespace.

use tenure_proof::machine::{allows, allows_root};
use tenure_proof::{Form, Tally};

use crate::RING;
use crate::bench::Bench;
use crate::expiry::{TOKEN, expire_under};
use crate::wall::{WallClock, YEARS, words};

const LEASE: [&str; 7] = ["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN];
/// Another user's lease.
const OTHER_LEASE: [&str; 7] = ["lease", "acquire", "t", "--ttl", "1s", "--wait", "0"];

#[test]
fn g1_g4_a_wall_clock_that_jumps_decides_nothing() {
    let mut tally = Tally::new(RING, "g1_g4_a_wall_clock_that_jumps_decides_nothing");
    let bench = Bench::new();
    let wall = WallClock::new();
    let mut last = bench.fence(&["env"]);
    for year in YEARS.into_iter().cycle().take(Form::asked().pick(6, 60)) {
        // Fences grow, whatever the clock says when they are drawn.
        let jumped = wall.at(year);
        for launcher in [words(&jumped), vec!["env"]] {
            let fence = bench.fence(&launcher);
            assert!(fence > last, "{fence} after {last} in the year of {year}");
            last = fence;
        }
        // A lock is held, whatever the other process's clock says.
        let holder = bench.holder(&["env"]);
        let busy = bench.tenure(&words(&jumped), &["run", "--wait", "0", "t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "in the year of {year}: {busy:?}");
        assert!(holder.end().is_done());
        // The other two had the clock of the machine.
        tally.tried(2, "commands under another wall clock");
    }
    // The method works: the program does see the other clock.
    let shown = bench.tenure(
        &words(&wall.at(YEARS[1])),
        &["run", "fresh", "--", "sh", "-c", "echo $TENURE_FENCE"],
    );
    let fence: u64 = shown.stdout.trim().parse().unwrap();
    assert!(fence >= 4_000_000_000_000_000, "the clock was not changed: {fence}");
}

/// The life of a lease on `t` that is made under one clock and used under another: it excludes
/// others, lasts its full time, is renewed and released, and then the target is free.
fn live_under(bench: &Bench, makes: &[&str], looks: &[&str]) {
    let about = format!("made by {makes:?}, used by {looks:?}");
    let left = || bench.lease(looks)["expires_in_ms"].as_u64().unwrap_or_default();
    assert!(bench.tenure(makes, &LEASE).is_done());
    assert!((3_500_000..=3_600_000).contains(&left()), "{} ms left, {about}", left());
    for wants in [&["run", "--wait", "0", "t", "--", "true"][..], &OTHER_LEASE] {
        let busy = bench.tenure(looks, wants);
        assert_eq!(busy.code, Some(75), "{about}: {busy:?}");
    }
    let renewed = bench.tenure(looks, &["lease", "renew", "t", "--ttl", "2h", "--token", TOKEN]);
    assert!(renewed.is_done(), "{about}: {renewed:?}");
    assert!((7_100_000..=7_200_000).contains(&left()), "{} ms left, {about}", left());
    let released = bench.tenure(looks, &["lease", "release", "t", "--token", TOKEN]);
    assert!(released.is_done(), "{about}: {released:?}");
    assert_eq!(bench.lease(makes)["leased"], false, "{about}");
}

#[test]
fn e1_a_wall_clock_that_jumps_neither_ends_nor_extends_a_lease() {
    let test = "e1_a_wall_clock_that_jumps_neither_ends_nor_extends_a_lease";
    let mut tally = Tally::new(RING, test);
    let wall = WallClock::new();
    let [past, future] = YEARS.map(|year| wall.at(year));
    let (here, past, future) = (vec!["env"], words(&past), words(&future));
    for (makes, looks) in [
        (&here, &past),
        (&here, &future),
        (&past, &here),
        (&past, &future),
        (&future, &here),
        (&future, &past),
    ] {
        live_under(&Bench::new(), makes, looks);
        expire_under(makes, looks);
        tally.tried(2, "leases between different wall clocks");
    }
}

fn time_namespaces() -> bool {
    let tried = std::process::Command::new("unshare").args(["--time", "--fork", "true"]).output();
    let works = tried.is_ok_and(|output| output.status.success());
    allows(works, "time namespaces", "TENURE_WITHOUT_ROOT")
}

#[test]
fn race_48_e1_a_time_namespace_neither_ends_nor_extends_a_lease() {
    if !allows_root() || !time_namespaces() {
        return;
    }
    let test = "race_48_e1_a_time_namespace_neither_ends_nor_extends_a_lease";
    let mut tally = Tally::new(RING, test);
    for offset in ["1000000", "86400", "-60"] {
        let inside = ["unshare", "--time", "--fork", "--boottime", offset, "--monotonic", offset];
        for (makes, looks) in [(&inside[..], &["env"][..]), (&["env"], &inside)] {
            let bench = Bench::new();
            assert!(bench.tenure(makes, &LEASE).is_done());
            let left = bench.lease(looks)["expires_in_ms"].as_u64().unwrap();
            assert!((3_500_000..=3_600_000).contains(&left), "{left} ms left, offset {offset}");
            let busy = bench.tenure(looks, &["run", "--wait", "0", "t", "--", "true"]);
            assert_eq!(busy.code, Some(75), "offset {offset}: {busy:?}");
            let renewed = bench.tenure(looks, &["lease", "renew", "t", "--token", TOKEN]);
            assert!(renewed.is_done(), "offset {offset}: {renewed:?}");
            tally.tried(1, "leases across time namespaces");
        }
    }
}

/// A machine that slept: the boot clock continued, the monotonic clock stopped. Made with a time
/// namespace whose offset is hidden, so that it looks like elapsed time.
fn slept(clock: &str, seconds: &str) -> Vec<String> {
    let hide = "id=$(cat /proc/sys/kernel/random/boot_id); mount -t tmpfs none /proc; \
                mkdir -p /proc/sys/kernel/random; echo $id >/proc/sys/kernel/random/boot_id; \
                exec \"$@\"";
    let words = ["unshare", "--time", "--mount", "--fork", clock, seconds, "sh", "-c", hide, "sh"];
    words.map(str::to_owned).to_vec()
}

#[test]
fn race_48_e1_a_lease_counts_the_time_asleep_and_no_other_clock() {
    if !allows_root() || !time_namespaces() {
        return;
    }
    let test = "race_48_e1_a_lease_counts_the_time_asleep_and_no_other_clock";
    let mut tally = Tally::new(RING, test);
    for (clock, seconds, runs) in [
        ("--boottime", "3400", true),
        ("--boottime", "3700", false),
        ("--monotonic", "3700", true),
        ("--monotonic", "1000000", true),
    ] {
        let bench = Bench::new();
        assert!(bench.tenure(&["env"], &LEASE).is_done());
        let later = slept(clock, seconds);
        let shown = bench.lease(&words(&later));
        assert_eq!(shown["leased"], runs, "{clock} {seconds}: {shown}");
        let comes = bench.tenure(&words(&later), &OTHER_LEASE);
        assert_eq!(comes.code, Some(if runs { 75 } else { 0 }), "{clock} {seconds}: {comes:?}");
        // A lock never expires, however long it lasts.
        let other = Bench::new();
        let _holder = other.holder(&["env"]);
        let busy = other.tenure(&words(&later), &["run", "--wait", "0", "t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "{clock} {seconds}: {busy:?}");
        tally.tried(3, "commands after a sleep of the machine");
    }
}
